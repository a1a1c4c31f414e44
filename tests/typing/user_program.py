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

import game_operator as go
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
Lookup = go.OpenBet | go.ClosedBet | go.RolledBackBet | go.BetNotFound


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


class MyClient(go.OperatorClient):
    """A client with a method more."""

    def ping(self) -> int:
        """Return the number of games."""
        return len(self.fetch_games())


def see(exchange: go.Exchange) -> None:
    """Log an attempt."""
    assert_type(exchange.method, str)
    assert_type(exchange.status, int | None)
    assert_type(exchange.elapsed, float)
    assert_type(exchange.request_body, bytes)


def every_way_to_make_a_client(key: RSAPrivateKey, context: ssl.SSLContext) -> Sequence[go.OperatorClient]:
    """Each kind of key, and each option."""
    signer: go.Signer = Vault()
    return [
        go.OperatorClient("https://api.example.com", "acme", Path("operator.pem"), passphrase="secret"),
        go.OperatorClient("https://api.example.com", "acme", "-----BEGIN PRIVATE KEY-----", passphrase=b"secret"),
        go.OperatorClient("https://api.example.com", "acme", signer),
        go.OperatorClient.from_env(),
        go.OperatorClient.from_env(timeout=2.0),
        go.OperatorClient(
            base_url="https://api.example.com",
            operator_id="acme",
            private_key=key,
            timeout=10,
            deadline=None,
            retries=go.RetryPolicy(max_retries=4, base_delay_seconds=0.1),
            http_client=httpx.Client(),
            on_exchange=see,
            ssl_context=context,
            trust_env=False,
            read_limits=go.ReadLimits(catalogue=1024, other=1024),
            allow_insecure_http=True,
        ),
    ]


def every_call(client: go.OperatorClient) -> None:
    """What each call gives back."""
    assert_type(client.fetch_games(), list[go.GameInfo])
    assert_type(client.fetch_bet("bet-1"), go.OpenBet | go.ClosedBet | go.RolledBackBet | go.BetNotFound)
    assert_type(client.fetch_round_bets(instance_id="i", round_id="r"), go.RoundFound | go.RoundNotFound)
    assert_type(client.fetch_round_bets(instance_id="i", round_no=12), go.RoundFound | go.RoundNotFound)
    assert_type(client.fetch_round_bets(instance_id="i", round_id=None, round_no=12), go.RoundFound | go.RoundNotFound)
    granted = client.grant_free_bet(
        player_id="p",
        instance_id="i",
        count=5,
        wager_amount_cents=100,
        expire_duration_millis=86_400_000,
        reference_id="r",
    )
    assert_type(granted, go.GrantAccepted)
    assert_type(granted.free_bet_id, str)
    assert_type(client.with_options(timeout=2.0, deadline=None, retries=0), go.OperatorClient)
    with client as same:
        assert_type(same, go.OperatorClient)
    client.close()


def subclasses_stay_themselves() -> None:
    """Options and contexts give back the class they were asked on."""
    mine = MyClient.from_env()
    assert_type(mine, MyClient)
    assert_type(mine.with_options(timeout=1.0), MyClient)
    with mine as same:
        assert_type(same.ping(), int)


async def every_call_awaited(signer: go.AsyncSigner) -> None:
    """The async client has the same names, awaited."""
    remote: go.AsyncSigner = RemoteVault()
    client = go.AsyncOperatorClient("https://api.example.com", "acme", remote, http_client=httpx.AsyncClient())
    go.AsyncOperatorClient("https://api.example.com", "acme", Vault(), on_exchange=see)
    go.AsyncOperatorClient("https://api.example.com", "acme", signer, retries=2)
    assert_type(await client.fetch_games(), list[go.GameInfo])
    assert_type(await client.fetch_bet("bet-1"), go.OpenBet | go.ClosedBet | go.RolledBackBet | go.BetNotFound)
    assert_type(await client.fetch_round_bets(instance_id="i", round_no=1), go.RoundFound | go.RoundNotFound)
    assert_type(client.with_options(retries=0), go.AsyncOperatorClient)
    async with go.AsyncOperatorClient.from_env() as same:
        assert_type(same, go.AsyncOperatorClient)
    await client.aclose()


def settle(bet: Lookup) -> Decimal:
    """Match every state of a bet; a type checker sees that none is left out."""
    match bet:
        case go.ClosedBet(won=won, won_amount=amount):
            assert_type(won, int)
            return amount
        case go.OpenBet() | go.RolledBackBet():
            assert_type(bet.wager, int)
            assert_type(bet.timestamp, int)
            assert_type(bet.placed_at, datetime)
            assert_type(bet.reference_id, str)
            return bet.wager_amount
        case go.BetNotFound():
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


def all_bets(found: go.RoundFound | go.RoundNotFound) -> tuple[go.OpenBet | go.ClosedBet | go.RolledBackBet, ...]:
    """Match every answer of a round look-up."""
    match found:
        case go.RoundFound(bets=bets):
            assert_type(found.round_id, str)
            assert_type(found.round_no, int)
            return bets
        case go.RoundNotFound():
            return ()
        case _:
            assert_never(found)


def limits_of(game: go.GameInfo) -> list[tuple[str, Decimal]]:
    """Read every field of the catalogue."""
    assert_type(game.id, str)
    assert_type(game.status, go.GameStatus | str)
    assert_type(game.genre, go.Genre | str)
    assert_type(game.thumbnail_url, str | None)
    assert_type(game.rtp, Decimal | None)
    assert_type(game.instances, tuple[go.GameInstance, ...])
    assert_type(game.model_extra, dict[str, Any] | None)
    rows: list[tuple[str, Decimal]] = []
    for instance in game.instances:
        assert_type(instance.active, bool)
        limits = instance.bet_config
        assert_type(limits, go.BetConfig)
        assert_type(limits.min_wager, Decimal)
        rows.append((f"{instance.id} {instance.name} {limits.currency}", limits.max_wager))
    return rows


def is_open(game: go.GameInfo) -> bool:
    """Compare with the enums, whose members are texts too."""
    return game.status == go.GameStatus.ACTIVE and game.genre in {go.Genre.CRASH, "NewGenre"}


def explain(error: go.GameOperatorError) -> object:
    """Branch on attributes, never on prose."""
    match error:
        case go.OutcomeUnknownError(reference_id=reference_id, instance_id=instance_id, error_code=code):
            assert_type(reference_id, str)
            assert_type(code, go.GrantErrorCode | str | None)
            return reference_id, instance_id
        case go.RequestNotSentError() | go.NoAnswerError() | go.TransportError():
            assert_type(error.attempts, int)
            assert_type(error.elapsed_seconds, float)
            return error.timed_out
        case go.FreeBetRejectedError():
            assert_type(error.error_code, go.GrantErrorCode | str)
            return error.reference_id
        case go.RateLimitedError(retry_after=seconds):
            assert_type(seconds, float | None)
            return seconds
        case go.BadRequestError() | go.AuthenticationError() | go.OperatorInactiveError() | go.ServiceError():
            return error.message
        case go.UnexpectedResponseError() | go.ApiError():
            assert_type(error.status_code, int)
            assert_type(error.message, str)
            assert_type(error.body, bytes)
            assert_type(error.attempts, int)
            headers: Mapping[str, str] = error.headers
            return headers
        case go.SigningKeyError() | go.ConfigurationError() | go.SessionTokenError():
            return str(error)
        case _:
            return None


def tokens(key: RSAPrivateKey) -> str:
    """Build and read session tokens."""
    builder = go.SessionTokenBuilder(
        operator_id="acme", private_key=key, lifetime=timedelta(minutes=15), public_key=Path("public.pem")
    )
    token = builder.build(
        player_id="p", instance_id="i", balance=Decimal("12.50"), name="Ann", timestamp=5, claims={"locale": "de"}
    )
    assert_type(token, str)
    claims = builder.decode(token, instance_id="i", leeway=timedelta(seconds=30))
    assert_type(claims, go.SessionClaims)
    assert_type(claims.balance, Decimal | None)
    assert_type(claims.issued_at, datetime)
    assert_type(claims.extra, Mapping[str, object])
    return go.launch_url("https://play.example/?token={token}", token)


async def tokens_awaited(builder: go.SessionTokenBuilder) -> str:
    """Build a token with a signer that is awaited."""
    return await builder.build_async(player_id="p", instance_id="i")


def money() -> go.Cents:
    """Cents are ints that say so."""
    cents = go.Cents(1250)
    plain: int = cents
    assert_type(go.__version__, str)
    return go.Cents(plain + 1)


async def awaited_books(ledger: AsyncSqlLedger) -> BooksReport:
    """Ask a ledger that is awaited what a SqlLedger is asked."""
    assert_type(await ledger.open_account("p1", opening=Decimal(5)), go.Cents)
    assert_type(await ledger.balance(("p1", "EUR")), go.Cents)
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
    assert_type(outcome.balance_cents, go.Cents | None)
    assert_type(outcome.balance_amount, Decimal | None)
    assert_type(outcome.new_balance_cents, go.Cents)
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
        raise NotImplementedError(call)

    def deposit(self, call: DepositCall) -> Reply:
        raise NotImplementedError(call)

    def rollback(self, call: RollbackCall) -> Reply:
        raise NotImplementedError(call)

    def player_balance(self, call: BalanceCall) -> Reply:
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


def reconcile(client: go.OperatorClient, wallet: Wallet, joined: JoinedWallet, executor: Executor) -> list[str]:
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
    client: go.OperatorClient, ledger: SqlLedger, signature: Authenticator, call: MovingCall
) -> list[WebhookReceiver]:
    """Fetch, compare, keep, and answer webhooks by it."""
    catalogue = Catalogue(client)
    in_database = Catalogue(client, ledger)
    for change in catalogue.refresh():
        assert_type(change, CatalogueChange)
        assert_type((change.kind, change.instance_id), tuple[ChangeKind, str | None])
    assert_type(catalogue.games, tuple[go.GameInfo, ...])
    assert_type(catalogue.instances, frozenset[str])
    assert_type(catalogue.currency_of(call), str | None)
    assert_type(catalogue.instance("i1"), go.GameInstance | None)
    assert_type("i1" in catalogue, bool)
    return [
        WebhookReceiver(authenticator=signature, instances=each)
        for each in (catalogue, in_database, {"i1"}, catalogue.instances)
    ]
