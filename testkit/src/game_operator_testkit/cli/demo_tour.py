"""The steps of ``game-operator demo``: each a title, and below it lines that begin with a blank."""

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.backoffice import Campaign, Reconciler, ReconcileReport
from game_operator.backoffice.campaigns import Counted
from game_operator.client.sync import OperatorClient
from game_operator.errors import AuthenticationError, FreeBetRejectedError, GameOperatorError, SessionTokenError
from game_operator.ledger import SqlLedger
from game_operator.models.webhooks import BalanceCall, DepositCall, RollbackCall, WebhookCall, WithdrawCall
from game_operator.money import cents_from_amount
from game_operator.profile import Profile
from game_operator.protocol.webhook import encode_call
from game_operator.tokens import SessionTokenBuilder, launch_url
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver, WebhookRequest, asgi_app
from game_operator_testkit.certifier import certify
from game_operator_testkit.certifier.report.summary import Summary
from game_operator_testkit.certifier.report.verdicts import GROUPS
from game_operator_testkit.cli.storm import PlanOptions
from game_operator_testkit.provider.caller import Delivery, WebhookCaller
from game_operator_testkit.provider.keys import ServiceKeys, new_key
from game_operator_testkit.sandbox import Sandbox
from game_operator_testkit.sandbox.serving import ServingThread, listening_socket
from game_operator_testkit.sandbox.storm.players import LedgerBooks
from game_operator_testkit.sandbox.storm.storm import Storm

#: A plan of seed 4 has exactly 50 rounds in so many bets, and each fault of webhooks occurs in it.
_SEED, _BETS, _ROUNDS, _PLAYERS = 4, 141, 50, 20
_CERTIFIED_GROUPS: Final = ("A", "B", "C")
#: Bets of which the last call arrives, and bets of which it is lost: wager and win in cents, None if cancelled.
_ENDED: Final = ((500, 1_250), (500, 0), (1_000, 700), (300, None), (200, 0), (500, 600))
_LOST: Final = ((1_000, 2_500), (500, 0), (400, None))
#: The looks of a real reconciliation are a minute apart.
_SECOND_LOOK: Final = timedelta(milliseconds=300)
_DEMO_RATE: Final = 500.0
#: A campaign of so many grants is interrupted after so many.
_GRANTS, _GRANTED_FIRST = 24, 14
#: What the service sends to the wallet, and the answer that each call gets: titles, and calls below them.
_CALLS: Final = "demo_calls.txt"
#: The bets' states after these calls.
_STATES: Final = {"OPEN": 1, "CLOSED": 2, "ROLLED_BACK": 1, "TOMBSTONE": 1, "DECLINED": 1}


class WrongAnswerError(GameOperatorError):
    """An answer is not the expected one."""


class TaughtSignature:
    """Accepts what one of the service's keys has signed; which keys these are may change while the wallet runs."""

    def __init__(self, public_pem: bytes) -> None:
        self._known = RsaSignature(public_pem)

    def teach(self, public_pems: Sequence[bytes]) -> None:
        """Accept what the keys in *public_pems* sign, and nothing else."""
        self._known = RsaSignature(public_pems)

    def authenticate(self, request: WebhookRequest, profile: Profile) -> None:
        """Return if one of the keys signed the body; else raise WebhookSignatureError."""
        self._known.authenticate(request, profile)


class DemoWallet(NamedTuple):
    """A wallet that is served on this machine, the service's key that it knows, and what tells it other keys."""

    url: str
    database: str
    ledger: SqlLedger
    service_key: RSAPrivateKey
    teach: Callable[[Sequence[bytes]], None] | None = None


@contextmanager
def wallet_server(place: Path, *, name: str = "wallet.db") -> Iterator[DemoWallet]:
    """Serve the ready wallet over an SQLite file in *place*."""
    service_key, database = new_key(), f"sqlite:///{place / name}"
    signature = TaughtSignature(ServiceKeys(service_key).current.public_key_pem())
    with SqlLedger(database) as ledger:
        receiver = WebhookReceiver(authenticator=signature)
        application = asgi_app(receiver, Wallet(ledger))
        server = ServingThread(listening_socket("127.0.0.1", 0, allow_remote=False), application, lambda: None)
        try:
            yield DemoWallet(server.base_url, database, ledger, service_key, signature.teach)
        finally:
            server.stop()


def tour(place: Path) -> Generator[str, None, None]:
    """
    Yield all steps, and what comes of each; files are put into *place*.

    Raises:
        WrongAnswerError: An answer is not the expected one.
    """
    with Sandbox() as sandbox, sandbox.client() as client:
        yield from client_steps(sandbox, client)
    with wallet_server(place) as wallet:
        yield from wallet_steps(wallet)
        yield from storm_steps(wallet)
        yield from certification_steps(wallet)
    # A separate database: the service of these steps knows none of the bets above.
    with (
        wallet_server(place, name="day-after.db") as wallet,
        Sandbox(wallet_url=wallet.url, service_private_key=wallet.service_key) as sandbox,
        sandbox.client() as client,
    ):
        yield from reconciliation_steps(wallet, sandbox, client)
        yield from campaign_steps(wallet, sandbox, client)


def _expect(what: str, found: object, expected: object) -> None:
    """Raise WrongAnswerError if *found* is not the expected value."""
    if found != expected:
        raise WrongAnswerError(f"{what} is {found}, not {expected}")


def _refusal(what: str, kind: type[GameOperatorError], call: Callable[[], object]) -> Any:
    """Return the error of the class *kind* that *call* raises."""
    try:
        call()
    except kind as refused:
        return refused
    raise WrongAnswerError(f"{what} is accepted, not refused")


def client_steps(sandbox: Sandbox, client: OperatorClient) -> Iterator[str]:
    """Make each call of the Operator API, and build a session token."""
    yield "The service, simulated on this machine"
    yield f" {sandbox.base_url}, operator {sandbox.operator_id}"
    yield "The games (fetch-games)"
    games = client.fetch_games()
    yield f" {len(games)} games, such as {', '.join(game.name for game in games[:3])}"
    yield "A bet in each state (fetch-bet)"
    for state in ("OPEN", "CLOSED", "ROLLED_BACK", "NOT_FOUND"):
        bet_id = sandbox.bet_ids.get(state, "bet-that-never-was")
        bet = client.fetch_bet(bet_id)
        _expect(f"the bet {bet_id}", bet.status, state)
        known = "no such bet" if bet.status == "NOT_FOUND" else f"{bet.player_id} wagered {bet.wager_amount}"
        yield f" {state}: {known}"
    yield "A round (fetch-round-bets)"
    found = client.fetch_round_bets(instance_id=sandbox.instance_id, round_id=sandbox.round_id)
    if found.status == "NOT_FOUND":
        raise WrongAnswerError(f"the round {sandbox.round_id} is not found")
    yield f" round {sandbox.round_id} has {len(found.bets)} bets"
    grant = partial(
        client.grant_free_bet,
        player_id="player-1",
        instance_id=sandbox.instance_id,
        wager_amount_cents=100,
        expire_duration_millis=86_400_000,
        reference_id="welcome-1",
    )
    yield "Free bets (free-bet/grant)"
    yield f" 5 free bets of 1.00 for player-1, valid for a day: granted as {grant(count=5).free_bet_id}"
    for what, count in (("the same reference id again", 5), ("51 free bets at once", 51)):
        refused = _refusal(what, FreeBetRejectedError, partial(grant, count=count))
        yield f" {what}: refused, {refused.error_code}"
    yield "A call signed with the wrong key"
    with OperatorClient(sandbox.base_url, sandbox.operator_id, new_key(), trust_env=False) as wrong:
        refused = _refusal("a key that is not registered", AuthenticationError, wrong.fetch_games)
    yield f" HTTP {refused.status_code}, “{refused.message}”"
    yield "A session token (its contents are assumed)"
    tokens = SessionTokenBuilder(sandbox.operator_id, sandbox.private_key_pem)
    token = tokens.build(player_id="player-1", instance_id=sandbox.instance_id, balance=Decimal("12.50"))
    yield f" launch address: {launch_url('https://play.example/?token={token}', token)[:60]}…"
    _refusal("another instance's token", SessionTokenError, lambda: tokens.decode(token, instance_id="another"))
    yield " decoded for another instance: refused"


def wallet_steps(wallet: DemoWallet) -> Iterator[str]:
    """Send webhooks to a wallet, expect its answers, and audit its ledger."""
    yield "A wallet server"
    yield f" {wallet.url}, over SQLite"
    yield from _open(wallet.ledger, {"player-1": "100.00", "player-2": "50.00"})
    with WebhookCaller(wallet.url, wallet.service_key) as service:
        for line in files(__package__).joinpath(_CALLS).read_text(encoding="utf-8").splitlines():
            if line.startswith(" "):
                what, _, expected = line.strip().partition(": ")
                yield _answered(what, service.send(_call(what)), expected)
            else:
                yield line
        yield "A forged signature"
        jackpot = DepositCall(player_id="player-2", amount_cents=1_000_000, tx_id="forged-1", action="JACKPOT")
        with WebhookCaller(wallet.url, new_key()) as stranger:
            forged = stranger.send(jackpot)
        yield _answered("a jackpot of 10000.00, signed by a stranger", forged, "INVALID_SIGNATURE")
        yield "A withdraw's bytes, posted to /rollback"
        # The signature covers the body and not the path: without a check this would be a refund.
        replayed = service.post("/rollback", encode_call(_call("withdraw 3.00 for bet-4")))
        yield _answered("the signed bytes of bet-4's withdraw", replayed, "INVALID_REQUEST, balance 94.50")
    yield "The books"
    report = wallet.ledger.verify()
    if not report.sound:
        raise WrongAnswerError(f"the books do not add up: {'; '.join(finding.detail for finding in report.findings)}")
    _expect("the ledger's bets", report.bets, _STATES)
    yield f" {sum(report.bets.values())} bets: each balance is the sum of its postings, and no bet was settled twice"
    kinds = [anomaly.kind for anomaly in wallet.ledger.anomalies()]
    _expect("an anomaly in the ledger", bool(kinds), True)
    yield f" kept for a person to look at: {', '.join(kinds)}"


def _open(ledger: SqlLedger, balances: dict[str, str]) -> Iterator[str]:
    for player_id, balance in balances.items():
        ledger.open_account(player_id, Decimal(balance))
        yield f" opened {player_id} with {balance}"


def _call(words: str) -> WebhookCall:
    operation, *rest = words.split()
    if operation == "player-balance":
        return BalanceCall(player_id=rest[0])
    names: dict[str, Any] = {"player_id": "player-1", "bet_id": rest[-1], "instance_id": "i1"}
    if operation == "rollback":
        return RollbackCall(**names, tx_id=f"withdraw:bet:{rest[-1]}", round_id="r1", game="aviator")
    cents = cents_from_amount(Decimal(rest[0]))
    if operation == "withdraw":
        return WithdrawCall(**names, amount_cents=cents, game="aviator")
    return DepositCall(**names, amount_cents=cents, round_id="r1")


def _answered(what: str, delivery: Delivery, expected: str) -> str:
    """Return a line with the wallet's answer, which must be the expected one."""
    reply = delivery.reply
    if delivery.status != 200 or reply is None:
        found = f"HTTP {delivery.status} {delivery.problem}".rstrip()
    else:
        balance = "" if reply.balance is None else f", balance {reply.balance}"
        found = f"{reply.code or reply.type}{balance}"
    _expect(f"the answer to {what}", found, expected)
    return f" {what}: {found}"


def storm_steps(wallet: DemoWallet) -> Iterator[str]:
    """Play many bets with faults, and audit each."""
    yield f"{_ROUNDS} rounds with every fault there is (game-operator storm)"
    head = PlanOptions(bets=_BETS, seed=_SEED).head((), _PLAYERS)
    report = Storm(wallet.url, ServiceKeys(wallet.service_key), LedgerBooks(wallet.database), head).run()
    yield f" {report.bets} bets of {_PLAYERS} players; {report.posts} calls in {report.seconds:.1f} s"
    yield f" {sum(report.faults.values())} faults of {len(report.faults)} kinds occurred"
    if not report.passed:
        raise WrongAnswerError(f"service and wallet differ: {next(iter(report.differences), 'an answer not HTTP 200')}")
    yield " audited bet by bet and player by player: service and wallet agree on all of it"


def certification_steps(wallet: DemoWallet) -> Iterator[str]:
    """Certify the wallet with two test players."""
    yield f"Certified: {', '.join(GROUPS[group] for group in _CERTIFIED_GROUPS)} (game-operator certify)"
    yield from _open(wallet.ledger, {"tester-1": "100.00", "tester-2": "100.00"})
    report = certify(
        wallet.url,
        signing_key=wallet.service_key,
        player_id="tester-1",
        other_player_id="tester-2",
        only=_CERTIFIED_GROUPS,
    )
    if not report.passed:
        first = report.causes[0].verdict
        raise WrongAnswerError(f"the wallet fails {first.id}, {first.title}: {first.reason}")
    _expect("the difference of balances", [moved.difference_cents for moved in report.moved], [0, 0])
    yield f" {report.calls} calls in {report.seconds:.1f} s; both balances are what they were before"
    yield f" {Summary(report).line}"


def reconciliation_steps(wallet: DemoWallet, sandbox: Sandbox, client: OperatorClient) -> Iterator[str]:
    """Lose settlements, find and repair them, send them late, and compare the books."""
    yield "Settlements that were lost (game-operator reconcile)"
    wallet.ledger.open_account("player-1", Decimal("100.00"))
    for number, (wager, won) in enumerate(_ENDED + _LOST):
        play = partial(sandbox.play_round, player_id="player-1", wager_cents=wager, won_cents=won)
        play(cancel=won is None, settlement="send" if number < len(_ENDED) else "lose")
    yield f" player-1 has played {len(_ENDED + _LOST)} bets; the last calls of {len(_LOST)} were lost"
    reconciler = Reconciler(
        client,
        Wallet(wallet.ledger),
        min_age=timedelta(0),
        second_look=_SECOND_LOOK,
        sample=1.0,
        rate_per_second=_DEMO_RATE,
    )
    yield f" a dry run changes nothing: {_verdicts(reconciler.run())}"
    repaired = reconciler.run(
        repair=True, max_bets=10, max_total_cents=10_000, actor="the demo", reason="the last calls were lost"
    )
    _expect("the number of repaired bets", repaired.repaired.bets, len(_LOST))
    balance_cents = wallet.ledger.balance("player-1")
    yield f" a second look agrees, so it repairs them: {_verdicts(repaired)}"
    late = sandbox.release_held(lost=True)
    _expect("the answers to the late calls", {delivery.code for delivery in late}, {None})
    _expect("the balance after the late calls", wallet.ledger.balance("player-1"), balance_cents)
    yield f" the {len(late)} lost calls arrive late: SUCCESS, and the balance stays"
    again = reconciler.run()
    _expect("the result of the last run", _verdicts(again), f"agrees {len(_ENDED + _LOST)}")
    _expect("whether nothing is left to do", again.is_fine and wallet.ledger.verify().sound, True)
    yield " all bets compared once more: service and wallet agree, and the books add up"


def _verdicts(report: ReconcileReport) -> str:
    """Return how many bets have each verdict."""
    return ", ".join(f"{verdict} {tally.bets}" for verdict, tally in sorted(report.verdicts.items()))


def campaign_steps(wallet: DemoWallet, sandbox: Sandbox, client: OperatorClient) -> Iterator[str]:
    """Grant free bets to many players, interrupt it with an answer lost, and resume."""
    yield "A campaign of free bets that is interrupted (game-operator campaign)"
    players = [f"winner-{number}" for number in range(1, _GRANTS + 1)]
    for player_id in players:
        wallet.ledger.open_account(player_id)
    campaign = Campaign(
        client,
        wallet.ledger,
        "summer",
        instance_id=sandbox.instance_id,
        count=5,
        wager_amount_cents=20,
        expire_duration_millis=86_400_000,
    )
    plan = campaign.plan(players, max_exposure_cents=5_000)
    yield f" planned: 5 free bets of 0.20 for each of {plan.grants} players"

    def interrupt(counted: Counted) -> None:
        if counted.settled >= _GRANTED_FIRST:
            campaign.interrupt()

    # The service grants, and answers HTTP 500: nobody here can know that it did.
    sandbox.faults.set_nth("api-500", _GRANTED_FIRST)
    stopped = campaign.run(rate_per_second=_DEMO_RATE, concurrency=1, progress=interrupt)
    _expect("the number of grants in doubt", stopped.in_doubt, 1)
    yield f" interrupted: {stopped.granted} granted, {stopped.in_doubt} without an answer"
    ended = campaign.resume(rate_per_second=_DEMO_RATE, concurrency=1)
    _expect("the state of the campaign", (ended.state, ended.granted), ("finished", _GRANTS))
    yield f" resumed: {ended.granted} granted; the one in doubt was asked for again by the same reference id"
    granted = Counter(grant.request.player_id for grant in sandbox.world.grants())
    _expect("the number of grants of each player", granted, Counter(players))
    yield f" the service has {granted.total()} grants: one for each of {len(granted)} players"
