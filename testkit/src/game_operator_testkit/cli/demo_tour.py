"""The steps of ``game-operator demo``, each of which says what it does and what comes of it, and the wallet it has."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Final

from game_operator.backoffice import Reconciler, ReconcileReport
from game_operator.cli.output import say
from game_operator.client.sync import OperatorClient
from game_operator.errors import ApiError, AuthenticationError, FreeBetRejectedError, GameOperatorError
from game_operator.ledger import SqlLedger
from game_operator.money import amount_from_cents
from game_operator.profile import Profile
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver, WebhookRequest, asgi_app
from game_operator_testkit.certifier import certify
from game_operator_testkit.certifier.report.summary import Summary
from game_operator_testkit.certifier.report.verdicts import GROUPS
from game_operator_testkit.cli.storm import PlanOptions
from game_operator_testkit.provider.delivery import Delivery
from game_operator_testkit.provider.keys import ServiceKeys, SigningKey, new_key
from game_operator_testkit.sandbox import Sandbox
from game_operator_testkit.sandbox.serving import ServingThread, listening_socket
from game_operator_testkit.sandbox.storm.players import LedgerBooks
from game_operator_testkit.sandbox.storm.storm import Storm

#: A plan of seed 4 has exactly 50 rounds in so many bets, and each fault of webhooks occurs in it.
_SEED, _BETS, _ROUNDS, _PLAYERS = 4, 141, 50, 20
_CERTIFIED_GROUPS: Final = ("A", "B", "C")
_PLAYER: Final = "player-1"
#: What happens, the wager and the win in cents (None for a cancelled bet), and the fault that occurs.
_PLAYED: Final = (
    ("A win", 500, 1_250, ""),
    ("A loss", 1_000, 0, ""),
    ("A cancelled bet", 2_000, None, ""),
    ("A withdraw that arrives twice", 300, 0, "duplicate"),
    ("A withdraw whose answer is lost", 300, 200, "reply-lost"),
    ("A rollback that comes before its withdraw", 700, None, "early-rollback"),
    ("A withdraw that a stranger signs first", 500, 600, "forged"),
    ("A withdraw of more than there is", 10_000, 0, ""),
)
#: What the player has after these.
_LEFT_CENTS: Final = 9_450
#: Bets of which the last call is lost, as above.
_LOST: Final = ((1_000, 2_500), (500, 0), (400, None))
#: The looks of a real reconciliation are a minute apart.
_SECOND_LOOK: Final = timedelta(milliseconds=300)
_DEMO_RATE: Final = 500.0


class DemoWallet:
    """
    The ready wallet over the SQLite file *database*, for the service whose public key is *service_pem*.

    Attributes:
        url: Where it is served.
    """

    url: str

    def __init__(self, ledger: SqlLedger, database: str, service_pem: bytes) -> None:
        self.ledger: SqlLedger = ledger
        self.database: str = database
        self._signature = RsaSignature(service_pem)

    def teach(self, public_pems: Sequence[bytes]) -> None:
        """Accept what the keys in *public_pems* sign from now on, and nothing else."""
        self._signature = RsaSignature(public_pems)

    def authenticate(self, request: WebhookRequest, profile: Profile) -> None:
        """Return if one of the keys signed the body; else raise WebhookSignatureError."""
        self._signature.authenticate(request, profile)


@contextmanager
def wallet_server(place: Path, service_key: SigningKey) -> Iterator[DemoWallet]:
    """Serve a wallet over an SQLite file in *place*, for the service that signs with *service_key*."""
    database = f"sqlite:///{place / 'wallet.db'}"
    with SqlLedger(database) as ledger:
        wallet = DemoWallet(ledger, database, ServiceKeys(service_key).current.public_key_pem())
        application = asgi_app(WebhookReceiver(authenticator=wallet), Wallet(ledger))
        server = ServingThread(listening_socket("127.0.0.1", 0, allow_remote=False), application, lambda: None)
        wallet.url = server.base_url
        try:
            yield wallet
        finally:
            server.stop()


def tour(place: Path) -> None:
    """
    Take all steps; the wallet's ledger is in *place*.

    Raises:
        GameOperatorError: A step went wrong.
    """
    key = new_key()
    with (
        wallet_server(place, key) as wallet,
        Sandbox(wallet_url=wallet.url, service_private_key=key) as sandbox,
        sandbox.client() as client,
    ):
        call_service(sandbox, client)
        play_rounds(wallet, sandbox)
        repair_settlements(wallet, sandbox, client)
        storm_wallet(wallet, ServiceKeys(key))
        certify_wallet(wallet, key)


def _title(text: str) -> None:
    say(text, style="bold")


def _line(text: str) -> None:
    say(f"   {text}")


def call_service(sandbox: Sandbox, client: OperatorClient) -> None:
    """Make each call of the Operator API."""
    _title("The service, simulated on this machine")
    _line(f"{sandbox.base_url}, operator {sandbox.operator_id}")
    _title("The games (fetch-games)")
    games = client.fetch_games()
    _line(f"{len(games)} games, such as {', '.join(game.name for game in games[:3])}")
    _title("A bet in each state (fetch-bet)")
    for state in ("OPEN", "CLOSED", "ROLLED_BACK", "NOT_FOUND"):
        bet = client.fetch_bet(sandbox.bet_ids.get(state, "bet-that-never-was"))
        known = "no such bet" if bet.status == "NOT_FOUND" else f"{bet.player_id} wagered {bet.wager_amount}"
        _line(f"{bet.status}: {known}")
    _title("A round (fetch-round-bets)")
    found = client.fetch_round_bets(instance_id=sandbox.instance_id, round_id=sandbox.round_id)
    count = 0 if found.status == "NOT_FOUND" else len(found.bets)
    _line(f"round {sandbox.round_id} has {count} bets")
    _title("Free bets (free-bet/grant)")
    grant = partial(
        client.grant_free_bet,
        player_id=_PLAYER,
        instance_id=sandbox.instance_id,
        wager_amount_cents=100,
        expire_duration_millis=86_400_000,
        reference_id="welcome-1",
    )
    _line(f"5 free bets of 1.00 for {_PLAYER}, valid for a day: granted as {grant(count=5).free_bet_id}")
    _refused("the same reference id again", FreeBetRejectedError, partial(grant, count=5))
    _refused("51 free bets at once", FreeBetRejectedError, partial(grant, count=51))
    with OperatorClient(sandbox.base_url, sandbox.operator_id, new_key(), trust_env=False) as stranger:
        _refused("the games for a stranger's signature", AuthenticationError, stranger.fetch_games)


def _refused(what: str, kind: type[ApiError], call: Callable[[], object]) -> None:
    """Say how the service refuses *call*, by an error of the class *kind*."""
    try:
        call()
    except kind as refused:
        _line(f"{what}: refused, HTTP {refused.status_code}, “{refused.message}”")
    else:
        raise GameOperatorError(f"The service does not refuse {what}.")


def play_rounds(wallet: DemoWallet, sandbox: Sandbox) -> None:
    """Play rounds against the wallet, some with a fault, and check its books."""
    _title("A wallet server")
    wallet.ledger.open_account(_PLAYER, Decimal("100.00"))
    _line(f"{wallet.url}, over SQLite; {_PLAYER} has 100.00")
    for what, wager_cents, won_cents, fault in _PLAYED:
        _title(f"{what}: {amount_from_cents(wager_cents)} wagered")
        if fault:
            sandbox.faults.set_nth(fault, 1)
        played = sandbox.play_round(
            player_id=_PLAYER, wager_cents=wager_cents, won_cents=won_cents, cancel=won_cents is None
        )
        for delivery in played.deliveries:
            _line(f"{delivery.path[1:]}: {_answer(delivery)}")
        if played.problems:
            raise GameOperatorError(f"The wallet is wrong: {played.problems[0]}")
    _title("The books")
    report = wallet.ledger.verify()
    balance_cents = wallet.ledger.balance(_PLAYER)
    if not report.sound or balance_cents != _LEFT_CENTS:
        raise GameOperatorError(f"The books do not add up. {_PLAYER} has {amount_from_cents(balance_cents)}.")
    _line(f"{sum(report.bets.values())} bets: each balance is the sum of its postings, and no bet was settled twice")
    _line(f"kept for a person to look at: {', '.join(anomaly.kind for anomaly in wallet.ledger.anomalies())}")


def _answer(delivery: Delivery) -> str:
    reply = delivery.reply
    if reply is None:
        return f"HTTP {delivery.status}, {delivery.problem}"
    balance = "" if reply.balance is None else f", balance {reply.balance}"
    return f"{reply.code or reply.type}{balance}"


def repair_settlements(wallet: DemoWallet, sandbox: Sandbox, client: OperatorClient) -> None:
    """Lose settlements, find and repair them, send them late, and compare the books."""
    _title("Settlements that are lost (game-operator reconcile)")
    for wager_cents, won_cents in _LOST:
        sandbox.play_round(
            player_id=_PLAYER,
            wager_cents=wager_cents,
            won_cents=won_cents,
            cancel=won_cents is None,
            settlement="lose",
        )
    _line(f"{_PLAYER} plays {len(_LOST)} more bets, and their last calls are lost")
    reconciler = Reconciler(
        client,
        Wallet(wallet.ledger),
        min_age=timedelta(0),
        second_look=_SECOND_LOOK,
        sample=1.0,
        rate_per_second=_DEMO_RATE,
    )
    _line(f"a dry run changes nothing: {_verdicts(reconciler.run())}")
    repaired = reconciler.run(
        repair=True, max_bets=10, max_total_cents=10_000, actor="the demo", reason="the last calls were lost"
    )
    _line(f"a second look agrees, so it repairs them: {_verdicts(repaired)}")
    balance_cents = wallet.ledger.balance(_PLAYER)
    late = sandbox.release_held(lost=True)
    moved_cents = wallet.ledger.balance(_PLAYER) - balance_cents
    answers = ", ".join(sorted({delivery.code or "SUCCESS" for delivery in late}))
    _line(f"the {len(late)} lost calls arrive late: {answers}, and move {amount_from_cents(moved_cents)}")
    again = reconciler.run()
    if moved_cents or not again.is_fine:
        raise GameOperatorError(f"Service and wallet still differ: {_verdicts(again)}.")
    _line(f"all bets compared once more: {_verdicts(again)}")


def _verdicts(report: ReconcileReport) -> str:
    """Return how many bets have each verdict."""
    return ", ".join(f"{verdict} {tally.bets}" for verdict, tally in sorted(report.verdicts.items()))


def storm_wallet(wallet: DemoWallet, keys: ServiceKeys) -> None:
    """Play many bets with faults, and audit each."""
    _title(f"{_ROUNDS} rounds with every fault there is (game-operator storm)")
    head = PlanOptions(bets=_BETS, seed=_SEED).head((), _PLAYERS)
    report = Storm(wallet.url, keys, LedgerBooks(wallet.database), head).run()
    _line(f"{report.bets} bets of {_PLAYERS} players; {report.posts} calls in {report.seconds:.1f} s")
    _line(f"{sum(report.faults.values())} faults of {len(report.faults)} kinds occurred")
    if not report.passed:
        raise GameOperatorError("Service and wallet differ after the storm.")
    _line("audited bet by bet and player by player: service and wallet agree on all of it")


def certify_wallet(wallet: DemoWallet, key: SigningKey) -> None:
    """Certify the wallet with two test players."""
    _title(f"Certified: {', '.join(GROUPS[group] for group in _CERTIFIED_GROUPS)} (game-operator certify)")
    players = ("tester-1", "tester-2")
    for player_id in players:
        wallet.ledger.open_account(player_id, Decimal("100.00"))
    report = certify(
        wallet.url, signing_key=key, player_id=players[0], other_player_id=players[1], only=_CERTIFIED_GROUPS
    )
    _line(f"{report.calls} calls in {report.seconds:.1f} s")
    _line(Summary(report).line)
    if not report.passed:
        raise GameOperatorError("The wallet is not certified.")
