"""
A typed program over the whole public surface: it is checked, strictly, and never run.

Whoever changes what a name takes or gives back sees it here first.
"""

import sqlite3
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, assert_never, assert_type

import httpx
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

import game_operator
from game_operator import (
    ApiError,
    AsyncOperatorClient,
    AsyncSigner,
    AuthenticationError,
    BadRequestError,
    BetConfig,
    BetNotFound,
    Cents,
    ClosedBet,
    ConfigurationError,
    Exchange,
    FreeBetRejectedError,
    GameInfo,
    GameInstance,
    GameOperatorError,
    GameStatus,
    Genre,
    GrantAccepted,
    GrantErrorCode,
    NoAnswerError,
    OpenBet,
    OperatorClient,
    OperatorInactiveError,
    OutcomeUnknownError,
    RateLimitedError,
    ReadLimits,
    RequestNotSentError,
    RetryPolicy,
    RolledBackBet,
    RoundFound,
    RoundNotFound,
    ServiceError,
    SessionClaims,
    SessionTokenBuilder,
    SessionTokenError,
    Signer,
    SigningKeyError,
    TransportError,
    UnexpectedResponseError,
    launch_url,
)
from game_operator.backoffice import (
    Catalogue,
    CatalogueChange,
    Reconciler,
    ReconcileReport,
    Verdict,
)
from game_operator.backoffice.catalogue import ChangeKind
from game_operator.ledger import AsyncSqlLedger, BetRecord, BooksReport, Outcome, SqlLedger
from game_operator.models.webhooks import (
    BalanceCall,
    DepositCall,
    MovingCall,
    Reply,
    RollbackCall,
    WithdrawCall,
)
from game_operator.wallet import AsyncJoinedWallet, AsyncWallet, JoinedWallet, Wallet
from game_operator.webhooks import AsyncWebhookHandler, Authenticator, KeepsAnomalies, WebhookHandler, WebhookReceiver

#: A program's own names for what a look-up may answer.
Lookup = OpenBet | ClosedBet | RolledBackBet | BetNotFound


class Vault:
    """A signer of the user's own."""

    def sign(self, message: bytes) -> bytes:
        """Return a signature from somewhere else."""
        return message


class RemoteVault:
    """The same, awaited."""

    async def sign(self, message: bytes) -> bytes:
        """Return a signature from somewhere else."""
        return message


class MyClient(OperatorClient):
    """A client with a method more."""

    def ping(self) -> int:
        """Return the number of games."""
        return len(self.fetch_games())


def see(exchange: Exchange) -> None:
    """Log an attempt."""
    assert_type(exchange.method, str)
    assert_type(exchange.url, str)
    assert_type(exchange.status, int | None)
    assert_type(exchange.attempt, int)
    assert_type(exchange.elapsed, float)
    assert_type(exchange.request_body, bytes)
    assert_type(exchange.response_body, bytes)


def every_way_to_make_a_client(key: RSAPrivateKey, context: ssl.SSLContext) -> Sequence[OperatorClient]:
    """Each kind of key, and each option."""
    signer: Signer = Vault()
    return [
        OperatorClient("https://api.example.com", "acme", Path("operator.pem"), passphrase="secret"),
        OperatorClient("https://api.example.com", "acme", "-----BEGIN PRIVATE KEY-----", passphrase=b"secret"),
        OperatorClient("https://api.example.com", "acme", b"-----BEGIN PRIVATE KEY-----"),
        OperatorClient("https://api.example.com", "acme", signer),
        OperatorClient.from_env(),
        OperatorClient.from_env(timeout=2.0),
        OperatorClient(
            base_url="https://api.example.com",
            operator_id="acme",
            private_key=key,
            timeout=10,
            deadline=None,
            retries=RetryPolicy(max_retries=4, base_delay_seconds=0.1),
            http_client=httpx.Client(),
            on_exchange=see,
            ssl_context=context,
            trust_env=False,
            read_limits=ReadLimits(catalogue=1024, other=1024),
            allow_insecure_http=True,
        ),
    ]


def every_call(client: OperatorClient) -> None:
    """What each call gives back."""
    assert_type(client.fetch_games(), list[GameInfo])
    assert_type(client.fetch_bet("bet-1"), OpenBet | ClosedBet | RolledBackBet | BetNotFound)
    assert_type(client.fetch_round_bets(instance_id="i", round_id="r"), RoundFound | RoundNotFound)
    assert_type(client.fetch_round_bets(instance_id="i", round_no=12), RoundFound | RoundNotFound)
    assert_type(client.fetch_round_bets(instance_id="i", round_id="r", round_no=12), RoundFound | RoundNotFound)
    assert_type(client.fetch_round_bets(instance_id="i", round_id=None, round_no=12), RoundFound | RoundNotFound)
    assert_type(client.fetch_round_bets(instance_id="i", round_id="r", round_no=None), RoundFound | RoundNotFound)
    granted = client.grant_free_bet(
        player_id="p",
        instance_id="i",
        count=5,
        wager_amount_cents=100,
        expire_duration_millis=86_400_000,
        reference_id="r",
    )
    assert_type(granted, GrantAccepted)
    assert_type(granted.free_bet_id, str)
    assert_type(granted.message, str)
    assert_type(client.with_options(timeout=2.0, deadline=None, retries=0), OperatorClient)
    with client as same:
        assert_type(same, OperatorClient)
    client.close()


def subclasses_stay_themselves() -> None:
    """Options and contexts give back the class they were asked on."""
    mine = MyClient.from_env()
    assert_type(mine, MyClient)
    assert_type(mine.with_options(timeout=1.0), MyClient)
    with mine as same:
        assert_type(same.ping(), int)


async def every_call_awaited(signer: AsyncSigner) -> None:
    """The async client has the same names, awaited."""
    remote: AsyncSigner = RemoteVault()
    client = AsyncOperatorClient("https://api.example.com", "acme", remote, http_client=httpx.AsyncClient())
    AsyncOperatorClient("https://api.example.com", "acme", Vault(), on_exchange=see)
    AsyncOperatorClient("https://api.example.com", "acme", signer, retries=2)
    assert_type(await client.fetch_games(), list[GameInfo])
    assert_type(await client.fetch_bet("bet-1"), OpenBet | ClosedBet | RolledBackBet | BetNotFound)
    assert_type(await client.fetch_round_bets(instance_id="i", round_no=1), RoundFound | RoundNotFound)
    assert_type(await client.fetch_round_bets(instance_id="i", round_id="r"), RoundFound | RoundNotFound)
    assert_type(await client.fetch_round_bets(instance_id="i", round_id="r", round_no=1), RoundFound | RoundNotFound)
    assert_type(client.with_options(retries=0), AsyncOperatorClient)
    async with AsyncOperatorClient.from_env() as same:
        assert_type(same, AsyncOperatorClient)
    await client.aclose()


def settle(bet: Lookup) -> Decimal:
    """Match every state of a bet; a type checker sees that none is left out."""
    match bet:
        case ClosedBet(won=won, won_amount=amount):
            assert_type(won, int)
            return amount
        case OpenBet() | RolledBackBet():
            assert_type(bet.wager, int)
            assert_type(bet.timestamp, int)
            assert_type(bet.placed_at, datetime)
            assert_type(bet.reference_id, str)
            assert_type(bet.player_id, str)
            assert_type(bet.round_id, str)
            assert_type(bet.instance_id, str)
            assert_type(bet.game, str)
            return bet.wager_amount
        case BetNotFound():
            return Decimal(0)
        case _:
            assert_never(bet)


def settle_by_status(bet: Lookup) -> int:
    """The tag tells the cases apart as well."""
    if bet.status == "CLOSED":
        return bet.won
    if bet.status == "NOT_FOUND":
        return 0
    return bet.wager


def all_bets(found: RoundFound | RoundNotFound) -> tuple[OpenBet | ClosedBet | RolledBackBet, ...]:
    """Match every answer of a round look-up."""
    match found:
        case RoundFound(bets=bets):
            assert_type(found.round_id, str)
            assert_type(found.round_no, int)
            assert_type(found.instance_id, str)
            assert_type(found.game, str)
            return bets
        case RoundNotFound():
            return ()
        case _:
            assert_never(found)


def limits_of(game: GameInfo) -> list[tuple[str, Decimal]]:
    """Read every field of the catalogue."""
    assert_type(game.id, str)
    assert_type(game.name, str)
    assert_type(game.status, GameStatus | str)
    assert_type(game.genre, Genre | str)
    assert_type(game.thumbnail_url, str | None)
    assert_type(game.provider_name, str)
    assert_type(game.rtp, Decimal | None)
    assert_type(game.instances, tuple[GameInstance, ...])
    assert_type(game.model_extra, dict[str, Any] | None)
    rows: list[tuple[str, Decimal]] = []
    for instance in game.instances:
        assert_type(instance.active, bool)
        limits = instance.bet_config
        assert_type(limits, BetConfig)
        assert_type(limits.min_wager, Decimal)
        assert_type(limits.default_wager, Decimal)
        assert_type(limits.max_win, Decimal)
        rows.append((f"{instance.id} {instance.name} {limits.currency}", limits.max_wager))
    return rows


def is_open(game: GameInfo) -> bool:
    """Compare with the enums, whose members are texts too."""
    return game.status == GameStatus.ACTIVE and game.genre in {Genre.CRASH, "NewGenre"}


def explain(error: GameOperatorError) -> object:
    """Branch on attributes, never on prose."""
    match error:
        case OutcomeUnknownError(reference_id=reference_id, instance_id=instance_id, error_code=code):
            assert_type(reference_id, str)
            assert_type(code, GrantErrorCode | str | None)
            return reference_id, instance_id
        case RequestNotSentError() | NoAnswerError() | TransportError():
            assert_type(error.attempts, int)
            assert_type(error.elapsed_seconds, float)
            return error.timed_out
        case FreeBetRejectedError():
            assert_type(error.error_code, GrantErrorCode | str)
            return error.reference_id
        case RateLimitedError(retry_after=seconds):
            assert_type(seconds, float | None)
            return seconds
        case BadRequestError() | AuthenticationError() | OperatorInactiveError() | ServiceError():
            return error.message
        case UnexpectedResponseError() | ApiError():
            assert_type(error.status_code, int)
            assert_type(error.message, str)
            assert_type(error.detail, str)
            assert_type(error.body, bytes)
            assert_type(error.attempts, int)
            headers: Mapping[str, str] = error.headers
            return headers
        case SigningKeyError() | ConfigurationError() | SessionTokenError():
            return str(error)
        case _:
            return None


def tokens(key: RSAPrivateKey) -> str:
    """Build and read session tokens."""
    builder = SessionTokenBuilder(
        operator_id="acme", private_key=key, lifetime=timedelta(minutes=15), public_key=Path("public.pem")
    )
    token = builder.build(
        player_id="p", instance_id="i", balance=Decimal("12.50"), name="Ann", timestamp=5, claims={"locale": "de"}
    )
    assert_type(token, str)
    claims = builder.decode(token, instance_id="i", leeway=timedelta(seconds=30))
    assert_type(claims, SessionClaims)
    assert_type(claims.balance, Decimal | None)
    assert_type(claims.issued_at, datetime)
    assert_type(claims.extra, Mapping[str, object])
    return launch_url("https://play.example/?token={token}", token)


async def tokens_awaited(builder: SessionTokenBuilder) -> str:
    """Build a token with a signer that is awaited."""
    return await builder.build_async(player_id="p", instance_id="i")


def money() -> Cents:
    """Cents are ints that say so."""
    cents = Cents(1250)
    plain: int = cents
    assert_type(game_operator.__version__, str)
    return Cents(plain + 1)


async def awaited_books(ledger: AsyncSqlLedger) -> BooksReport:
    """Ask a ledger that is awaited what a SqlLedger is asked."""
    assert_type(await ledger.open_account("p1", opening=Decimal(5)), Cents)
    assert_type(await ledger.balance(("p1", "EUR")), Cents)
    assert_type(await ledger.bet("b1", source="live"), BetRecord | None)
    assert_type([bet async for bet in ledger.bets(since_millis=0)], list[BetRecord])
    await ledger.add_source("live")
    await ledger.keep_anomaly("deposit", "unreadable", b"{", connection=None)
    return await ledger.verify(full=True)


@contextmanager
def transaction() -> Iterator[sqlite3.Connection]:
    """Open a transaction."""
    yield sqlite3.connect("casino.db")


@asynccontextmanager
async def own_transaction() -> AsyncIterator[object]:
    """Open a transaction of some driver of asyncio."""
    yield object()


def after(call: MovingCall, outcome: Outcome, connection: sqlite3.Connection) -> None:
    """Run statements of the user's own."""
    assert_type(outcome.applied, bool)
    assert_type(outcome.balance_cents, Cents | None)
    assert_type(outcome.balance_amount, Decimal | None)
    assert_type(outcome.new_balance_cents, Cents)
    match call:
        case WithdrawCall():
            assert_type(call.amount, Decimal)
        case DepositCall():
            assert_type((call.amount, call.wager_amount), tuple[Decimal, Decimal | None])
            assert_type(call.won_amount, Decimal | None)
        case RollbackCall():
            assert_type(call.amount, Decimal | None)
    connection.execute("SELECT 1", (call.player_id,))


async def after_awaited(_call: MovingCall, _outcome: Outcome, _connection: object) -> None:
    """Run statements of the user's own, awaited."""


class BareHandler:
    """A handler that keeps no anomalies, as users have written before there was a Protocol for it."""

    def withdraw(self, call: WithdrawCall) -> Reply:
        """Answer."""
        raise NotImplementedError(call)

    def deposit(self, call: DepositCall) -> Reply:
        """Answer."""
        raise NotImplementedError(call)

    def rollback(self, call: RollbackCall) -> Reply:
        """Answer."""
        raise NotImplementedError(call)

    def player_balance(self, call: BalanceCall) -> Reply:
        """Answer."""
        raise NotImplementedError(call)


class KeepingHandler(BareHandler):
    """One that keeps them, with argument names of its own."""

    def keep_anomaly(self, path: str, why: str, raw: bytes) -> None:
        """Keep the body."""


def every_handler(ledger: SqlLedger, other: AsyncSqlLedger) -> list[KeepsAnomalies]:
    """Wallets and the user's own."""
    joined = JoinedWallet(ledger, transaction, after, source="live", confirm="always", currency_of=lambda _: "EUR")
    awaited = AsyncJoinedWallet(other, own_transaction, after_awaited, confirm="first")
    handlers: list[WebhookHandler] = [Wallet(ledger), joined, BareHandler(), KeepingHandler()]
    awaited_handlers: list[AsyncWebhookHandler] = [AsyncWallet(other), awaited]
    assert_type(joined.ledger, SqlLedger)
    ledger.keep_anomaly("deposit", "unreadable", b"{", connection=handlers)
    return [Wallet(ledger), joined, KeepingHandler(), awaited, AsyncWallet(other)] if awaited_handlers else []


def reconcile(client: OperatorClient, wallet: Wallet, joined: JoinedWallet, executor: Executor) -> list[str]:
    """Look bets up, settle those that were lost, and work on findings."""
    Reconciler(client, joined, min_age=timedelta(hours=1), second_look=timedelta(minutes=2), sample=0.01)
    reconciler = Reconciler(client, wallet, rate_per_second=50, clock_millis=lambda: 0)
    report = reconciler.run(repair=True, max_bets=5, max_total_cents=100, actor="ann", reason="lost", executor=executor)
    assert_type(report, ReconcileReport)
    assert_type(reconciler.run_some(seconds=60), ReconcileReport)
    assert_type(report.verdicts[Verdict.SETTLED].total_cents + report.repaired.bets + report.open.bets, int)
    assert_type(report.settled_before.total_cents, int)
    for finding in reconciler.findings(resolved=True, bet_id="b1"):
        reconciler.resolve(finding.id, actor="ann", reason="paid by bank", pay=finding.owed_cents is not None)
        reconciler.resolve(finding.id, actor="ann", reason="a claim paid some", pay=True, counting_claims=["tx-1"])
    assert_type(reconciler.refund("b1", actor="ann", reason="never played"), Outcome)
    assert_type([row["bet_id"] for row in report.rows()], list[Any])
    reconciler.leave()
    return [report.to_html(), report.to_json()]


def follow_the_games(
    client: OperatorClient, ledger: SqlLedger, signature: Authenticator, call: MovingCall
) -> list[WebhookReceiver]:
    """Fetch, compare, keep, and answer webhooks by it."""
    catalogue = Catalogue(client)
    in_database = Catalogue(client, ledger)
    for change in catalogue.refresh():
        assert_type(change, CatalogueChange)
        assert_type((change.kind, change.instance_id), tuple[ChangeKind, str | None])
        assert_type(change.at_millis, int)
    assert_type(catalogue.games, tuple[GameInfo, ...])
    assert_type(catalogue.instances, frozenset[str])
    assert_type(catalogue.refresh(), list[CatalogueChange])
    assert_type(catalogue.currency_of(call), str | None)
    assert_type(catalogue.instance("i1"), GameInstance | None)
    assert_type("i1" in catalogue, bool)
    return [
        WebhookReceiver(authenticator=signature, instances=each)
        for each in (catalogue, in_database, {"i1"}, catalogue.instances)
    ]
