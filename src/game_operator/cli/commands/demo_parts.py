"""The four parts of ``game-operator demo``: client, wallet, rounds with faults, and a certification."""

from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from importlib.resources import files
from pathlib import Path
from stat import S_IMODE
from textwrap import wrap
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from game_operator.certify import certify
from game_operator.certify.report.verdicts import GROUPS
from game_operator.cli.commands.storm import PlanOptions
from game_operator.cli.keys import KeyFiles, fingerprint
from game_operator.cli.output import say
from game_operator.client.sync import OperatorClient
from game_operator.errors import AuthenticationError, FreeBetRejectedError, GameOperatorError, SessionTokenError
from game_operator.ledger import SqlLedger
from game_operator.models import BetNotFound, ClosedBet, OpenBet, RoundFound
from game_operator.models.webhooks import BalanceCall, DepositCall, RollbackCall, WebhookCall, WithdrawCall
from game_operator.money import amount_from_cents, cents_from_amount
from game_operator.protocol.operations import AnyBet, AnyRound
from game_operator.protocol.webhook import encode_call
from game_operator.provider.caller import Delivery, WebhookCaller
from game_operator.provider.keys import ServiceKeys
from game_operator.sandbox import PlayedRound, Sandbox
from game_operator.sandbox.storm.players import LedgerBooks
from game_operator.sandbox.storm.storm import Storm
from game_operator.tokens import SessionTokenBuilder, launch_url

#: A plan of seed 7 has exactly 50 rounds in so many bets.
_SEED, _BETS, _ROUNDS, _PLAYERS = 7, 133, 50, 20
_CERTIFIED_GROUPS: Final = ("A", "B", "C")
_OUTCOMES: Final = {
    "passed": "passed",
    "failed": "failed",
    "skipped": "skipped, because the demo does not supply what they need",
}


class WrongAnswerError(Exception):
    """An answer is not the expected one."""


class Show:
    """Prints the demo step by step, or only keeps its steps for ``--json``."""

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent
        self.steps: list[dict[str, Any]] = []

    def step(self, title: str, *lines: str) -> None:
        """Begin the next step, of which *lines* are known."""
        self.steps.append({"title": title, "lines": [], "problem": ""})
        if not self._silent:
            say(f"{len(self.steps)}. {title}", style="bold")
        for line in lines:
            self.line(line)

    def line(self, text: str) -> None:
        """Add what came of the step."""
        self.steps[-1]["lines"].append(text)
        if not self._silent:
            say(f"   {text}")

    def play(self, part: Callable[..., None], *arguments: object) -> bool:
        """Play a part of the demo; return whether all its answers were the expected ones."""
        try:
            part(self, *arguments)
        except (WrongAnswerError, GameOperatorError) as wrong:
            self.steps[-1]["problem"] = str(wrong)
            if not self._silent:
                say(f"   ✗ {wrong}", style="red")
        return not self.steps[-1]["problem"]


def expect(what: str, found: object, expected: object) -> None:
    """Raise WrongAnswerError if *found* is not the expected value."""
    if found != expected:
        raise WrongAnswerError(f"{what} is {found}, not {expected}")


def _expect_refusal(what: str, refusal: type[GameOperatorError], call: Callable[[], object]) -> Any:
    """Return the error of the class *refusal* that *call* raises."""
    try:
        call()
    except refusal as refused:
        return refused
    raise WrongAnswerError(f"{what} is accepted, not refused")


# The client.


def play_client(show: Show, keys: KeyFiles, service: dict[str, Any]) -> None:
    """Make each call of the Operator API to *service*, which is what the sandbox prints about itself."""
    operator_id, instance_id = service["operator_id"], service["instance_id"]
    show.step(
        "A key pair",
        f"RSA, {keys.public_key.key_size} bits; the private key stays in a file of mode "
        f"{S_IMODE(keys.private.stat().st_mode):04o}",
        f"the service knows the public key, SHA-256 {fingerprint(keys.public_key)[:16]}…",
    )
    show.step(
        "The service, simulated on this machine",
        f"{service['base_url']}, process {service['pid']}, operator {operator_id}",
    )
    with OperatorClient(service["base_url"], operator_id, keys.private, trust_env=False) as client:
        show.step("The games (fetch-games)")
        _games(show, client)
        show.step("A bet in each state (fetch-bet)")
        for state in ("OPEN", "CLOSED", "ROLLED_BACK", "NOT_FOUND"):
            bet_id = service["bet_ids"].get(state, "bet-that-never-was")
            bet = client.fetch_bet(bet_id)
            expect(f"the bet {bet_id}", bet.status, state)
            show.line(f"{state}: {_about(bet)}")
        show.step("A round (fetch-round-bets)")
        by_id = client.fetch_round_bets(instance_id=instance_id, round_id=service["round_id"])
        show.line(f"by id: {_bets_of(by_id)}")
        by_number = client.fetch_round_bets(instance_id=instance_id, round_no=service["round_no"])
        show.line(f"by number {service['round_no']}: {_bets_of(by_number)}")
        expect("the round by its number", by_number, by_id)
        missing = client.fetch_round_bets(instance_id=instance_id, round_id="round-that-never-was")
        show.line(f"one that never was: {missing.status}")

        grant = partial(_grant, client, "player-1", instance_id, "welcome-1")
        show.step("Free bets (free-bet/grant)")
        show.line(f"5 free bets of 1.00 for player-1, valid for a day: granted as {grant(5)}")
        show.step("Free bets, refused")
        for what, count in (("the same reference id again", 5), ("51 free bets at once", 51)):
            refused = _expect_refusal(what, FreeBetRejectedError, partial(grant, count))
            where = "by the service" if refused.attempts else "before it was sent"
            show.line(f"{what}: refused {where}, {refused.error_code}")
            show.line(f"   “{refused.message}”")
    show.step("A call signed with the wrong key")
    with OperatorClient(service["base_url"], operator_id, generate_private_key(65537, 2048), trust_env=False) as wrong:
        refused = _expect_refusal("a key that is not registered", AuthenticationError, wrong.fetch_games)
        show.line(f"HTTP {refused.status_code}, “{refused.message}”")
    show.step("A session token (its contents are assumed)")
    tokens = SessionTokenBuilder(operator_id, keys.private)
    token = tokens.build(player_id="player-1", instance_id=instance_id, balance=Decimal("12.50"), name="Ann")
    claims = tokens.decode(token, instance_id=instance_id)
    minutes = (claims.expires_at - claims.issued_at).seconds // 60
    show.line(f"for {claims.player_id} with a balance of {claims.balance}, valid for {minutes} minutes, RS256")
    launch = launch_url("https://play.example/?token={token}", token)
    show.line(f"launch address: {launch[:40]}…, {len(token)} characters")
    _expect_refusal(
        "another instance's token", SessionTokenError, lambda: tokens.decode(token, instance_id="another-instance")
    )
    show.line("decoded for another instance: refused")


def _grant(client: OperatorClient, player_id: str, instance_id: str, reference_id: str, count: int) -> str:
    """Grant *count* free bets of 1.00 for a day, and return their id."""
    return client.grant_free_bet(
        player_id=player_id,
        instance_id=instance_id,
        count=count,
        wager_amount_cents=100,
        expire_duration_millis=86_400_000,
        reference_id=reference_id,
    ).free_bet_id


def _games(show: Show, client: OperatorClient) -> None:
    games = client.fetch_games()
    instances = [instance for game in games for instance in game.instances]
    currencies = ", ".join(sorted({instance.bet_config.currency for instance in instances}))
    genres = len({game.genre for game in games})
    show.line(f"{len(games)} games of {genres} genres, {len(instances)} instances in {currencies}")
    for game in games[:3]:
        limits = game.instances[0].bet_config
        wager = f"wager {limits.min_wager} to {limits.max_wager} {limits.currency}"
        show.line(f"{game.name}: {game.genre}, {game.status}, RTP {game.rtp} %, {wager}")


def _about(bet: AnyBet) -> str:
    match bet:
        case ClosedBet():
            return f"{bet.player_id} wagered {bet.wager_amount} and won {bet.won_amount}"
        case OpenBet():
            return f"{bet.player_id} wagered {bet.wager_amount}, not settled yet"
        case BetNotFound():
            return "no such bet, or older than 90 days"
        case _:
            return f"{bet.player_id} wagered {bet.wager_amount} and got it back"


def _bets_of(found: AnyRound) -> str:
    if not isinstance(found, RoundFound):
        raise WrongAnswerError("the round is not found")
    total = sum((bet.wager_amount for bet in found.bets), Decimal(0))
    return f"{found.status}, {len(found.bets)} bets, {total} wagered in all"


# The wallet.


#: What the service sends to the wallet, and the answer that each call gets: titles, and calls below them.
_CALLS: Final = "demo_calls.txt"
#: The bets' states after these calls.
_STATES: Final = {"OPEN": 1, "CLOSED": 2, "ROLLED_BACK": 1, "TOMBSTONE": 1, "DECLINED": 1}


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


def play_wallet(show: Show, keys: KeyFiles, wallet: dict[str, Any], database: str, log: Path) -> None:
    """
    Send webhooks to a wallet, expect its answers, and audit its ledger.

    Args:
        show: Where the steps go.
        keys: The service's key pair.
        wallet: What ``serve`` prints about itself.
        database: Its ledger, which is opened here as well.
        log: The wallet's standard error.
    """
    with WebhookCaller(wallet["url"], keys.private) as service, SqlLedger(database) as ledger:

        def answer(what: str, delivery: Delivery, expected: str) -> None:
            found = _answer_of(delivery)
            expect(f"the answer to {what}", found, expected)
            show.line(f"{what}: {found}")

        show.step(
            "A wallet server, in its own process (game-operator serve)",
            f"{wallet['url']}, process {wallet['pid']}, over SQLite",
            f"it knows the service's public key, SHA-256 {fingerprint(keys.public_key)[:16]}…",
        )
        _open(show, ledger, {"player-1": "100.00", "player-2": "50.00"})
        for line in files(__package__).joinpath(_CALLS).read_text(encoding="utf-8").splitlines():
            if not line.startswith(" "):
                show.step(line)
                continue
            what, _, expected = line.strip().partition(": ")
            answer(what, service.send(_call(what)), expected)
        show.step("A forged signature")
        jackpot = DepositCall(player_id="player-2", amount_cents=1_000_000, tx_id="forged-1", action="JACKPOT")
        with WebhookCaller(wallet["url"], generate_private_key(65537, 2048)) as stranger:
            answer("a jackpot of 10000.00, signed by a stranger", stranger.send(jackpot), "INVALID_SIGNATURE")
        reason = log.read_text(errors="replace").rpartition("refused with INVALID_SIGNATURE: ")[2].strip()
        expect("a reason in the wallet's log", bool(reason), True)
        show.line(f"its log says why: {reason}")
        show.step("A withdraw's bytes, posted to /rollback")
        # The signature covers the body and not the path: without a check this would be a refund.
        replayed = service.post("/rollback", encode_call(_call("withdraw 3.00 for bet-4")))
        answer("the signed bytes of bet-4's withdraw, to /rollback", replayed, "INVALID_REQUEST, balance 94.50")
        show.step("The books")
        _books(show, ledger)


def _books(show: Show, ledger: SqlLedger) -> None:
    for player_id, balance in {"player-1": "94.50", "player-2": "50.00"}.items():
        expect(f"the balance of {player_id}", amount_from_cents(ledger.balance(player_id)), Decimal(balance))
        show.line(f"{player_id}: {balance}")
    report = ledger.verify()
    if not report.sound:
        raise WrongAnswerError(f"the books do not add up: {'; '.join(finding.detail for finding in report.findings)}")
    expect("the ledger's bets", report.bets, _STATES)
    bets = ", ".join(f"{number} {state}" for state, number in report.bets.items())
    show.line(f"{report.postings} postings, {report.calls} calls; bets: {bets}")
    show.line("verified: each balance is the sum of its postings, and no bet was debited or settled twice")
    kinds = [anomaly.kind for anomaly in ledger.anomalies()]
    expect("an anomaly in the ledger", bool(kinds), True)
    show.line(f"kept for a person to look at: {', '.join(kinds)}")


def _answer_of(delivery: Delivery) -> str:
    reply = delivery.reply
    if delivery.status != 200 or reply is None:
        return f"HTTP {delivery.status} {delivery.problem}".rstrip()
    balance = "" if reply.balance is None else f", balance {reply.balance}"
    return f"{reply.code or reply.type}{balance}"


def _open(show: Show, ledger: SqlLedger, balances: dict[str, str]) -> None:
    for player_id, balance in balances.items():
        ledger.open_account(player_id, Decimal(balance))
        show.line(f"opened {player_id} with {balance}")


# Service and wallet together.


def play_rounds(show: Show, keys: KeyFiles, wallet: dict[str, Any], database: str) -> None:
    """Let the service play rounds against the wallet, some with faults, and compare what both sides have."""
    with (
        Sandbox(wallet_url=wallet["url"], service_private_key=keys.private) as sandbox,
        sandbox.client() as client,
        SqlLedger(database) as ledger,
    ):

        def play(state: str, **round_: Any) -> PlayedRound:  # Any: as play_round takes them.
            played = sandbox.play_round(player_id="player-4", wager_cents=500, **round_)
            expect("a list of the round's problems", played.problems, ())
            (bet_id,) = played.bet_ids
            bet = ledger.bet(bet_id)
            expect(f"the wallet's bet {bet_id}", bet and bet.state, state)
            expect("the service's bet", client.fetch_bet(bet_id).status, state)
            return played

        show.step(
            "A round played by the service (withdraw, deposit or rollback)",
            f"the service at {sandbox.base_url}, the same wallet",
        )
        _open(show, ledger, {"player-4": "100.00"})
        won = play("CLOSED", won_cents=1250)
        show.line(f"a win: {', '.join(f'{each.path} {each.reply.balance}' for each in won.deliveries if each.reply)}")
        found = client.fetch_round_bets(instance_id=sandbox.instance_id, round_no=won.round_no)
        expect("the round", found.status, "OK")
        show.line(f"the same bet by fetch-bet: CLOSED; its round by fetch-round-bets: number {won.round_no}")
        play("ROLLED_BACK", cancel=True)
        show.line("a cancelled one: withdraw, rollback; ROLLED_BACK on both sides")

        show.step("Free bets, granted and claimed")
        granted = _grant(client, "player-4", sandbox.instance_id, "welcome-2", 3)
        before = ledger.balance("player-4")
        expect("a list of the claim's problems", sandbox.claim_free_bets(granted).problems, ())
        winnings = amount_from_cents(ledger.balance("player-4") - before)
        show.line(f"3 free bets granted and played; one deposit, FREE_BET_CLAIM, claims their winnings of {winnings}")

        show.step("A reply that is lost")
        before = ledger.balance("player-4")
        sandbox.faults.set_nth("reply-lost", 1)
        lost = play("CLOSED", won_cents=0)
        expect("the path of the second call", lost.deliveries[1].path, "/withdraw")
        expect("the balance in cents", ledger.balance("player-4"), before - 500)
        show.line("the wallet answers, the answer is lost, and the service repeats the withdraw: debited once")

    show.step(f"{_ROUNDS} rounds with every fault there is")
    _storm(show, keys, wallet, database)


def _storm(show: Show, keys: KeyFiles, wallet: dict[str, Any], database: str) -> None:
    head = PlanOptions(bets=_BETS, seed=_SEED).head((), _PLAYERS, batches=False)
    report = Storm(wallet["url"], ServiceKeys(keys.private), LedgerBooks(database), head).run()
    show.line(
        f"{_ROUNDS} rounds, {report.bets} bets, {report.claims} claims of free bets of {_PLAYERS} players; "
        f"{report.posts} calls in {report.seconds:.1f} s"
    )
    show.line(f"{sum(report.faults.values())} faults struck:")
    faults = ", ".join(f"{fault} {count}" for fault, count in sorted(report.faults.items()))
    for line in wrap(faults, 80, break_on_hyphens=False):
        show.line(f"   {line}")
    if not report.passed:
        raise WrongAnswerError(f"service and wallet differ: {next(iter(report.differences), 'an answer not HTTP 200')}")
    show.line("audited bet by bet and player by player: service and wallet agree on all of it")


# The certification.


def play_certification(show: Show, keys: KeyFiles, wallet: dict[str, Any], database: str) -> None:
    """Certify the wallet with two test players, and expect that it passes."""
    show.step("Two players for a certification")
    with SqlLedger(database) as ledger:
        _open(show, ledger, {"tester-1": "100.00", "tester-2": "100.00"})
    show.step(f"Certified: {', '.join(GROUPS[group] for group in _CERTIFIED_GROUPS)}")
    report = certify(
        wallet["url"],
        signing_key=keys.private,
        player_id="tester-1",
        other_player_id="tester-2",
        only=_CERTIFIED_GROUPS,
    )
    for group in _CERTIFIED_GROUPS:
        outcomes = Counter[str](verdict.outcome for verdict in report.of_group(group))
        counts = ", ".join(f"{outcomes[name]} {words}" for name, words in _OUTCOMES.items() if outcomes[name])
        show.line(f"{group} {GROUPS[group]}: {outcomes.total()} scenarios, {counts}")
    if not report.passed:
        first = report.causes[0].verdict
        raise WrongAnswerError(f"the wallet fails {first.id}, {first.title}: {first.reason}")
    for verdict in report.advice:
        show.line(f"advice: {verdict.id} {verdict.reason}")
    expect("the difference of balances", [moved.difference_cents for moved in report.moved], [0, 0])
    show.line(f"{report.calls} calls in {report.seconds:.1f} s; both balances are what they were before: PASSED")
    show.line("`game-operator certify URL` does this to any wallet, in whatever language it is written")
