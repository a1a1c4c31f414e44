"""The storm: a right wallet passes, a wrong one is caught with the history that shows it; traces find it again."""

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.errors import (
    GameOperatorError,
    LedgerUnavailableError,
    RequestNotSentError,
    TransportError,
)
from game_operator.protocol.http import HttpReply
from game_operator.webhooks import RsaSignature, WebhookReceiver, asgi_app
from game_operator_testkit.provider.delivery import Answer, Post, answer_in
from game_operator_testkit.provider.faults import Fault
from game_operator_testkit.provider.keys import ServiceKeys
from game_operator_testkit.sandbox.dealing.plan import Plan, PlannedClaim
from game_operator_testkit.sandbox.service.seed import catalogue
from game_operator_testkit.sandbox.storm.audit import Closing
from game_operator_testkit.sandbox.storm.players import PlayersBooks
from game_operator_testkit.sandbox.storm.report import StormReport
from game_operator_testkit.sandbox.storm.storm import Storm
from game_operator_testkit.sandbox.storm.trace import TraceHead
from testkit.tests.sandbox.dealing import InProcess
from testkit.tests.sandbox.storming import AUDITS, MemoryBooks, head_of, slips_of, storm, wallet_in_process
from testkit.tests.sandbox.wrong_wallets import (
    AnswersWithoutCrediting,
    CreditsWhatIsChanged,
    ForgetsUnderLoad,
    KeyedOnTxIdAlone,
    NoTombstone,
    PaysRepeatsTwice,
    RefundsTwice,
    RefusesEverything,
    RefusesJackpots,
    RightWallet,
    SlipsInTheBackground,
    TellsWhatWasBefore,
)
from tests.support.servers import asgi_server

pytestmark = pytest.mark.slow

#: No call of a player overlaps another's repeats: then a wrong balance is narrowed down to the bets it went wrong with.
NOTHING_LOST = "duplicate=0.1,early-rollback=0.5,other-content=0.1"
_SUSPECT = re.compile(r"(?:first wrong after| or) (?:bet|claim) (\S+)")


@pytest.fixture(autouse=True)
def settled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that was given up is not under way any more at a wallet in this process."""
    monkeypatch.setattr("game_operator_testkit.sandbox.storm.storm._SETTLING_SECONDS", 0.0)


@cache
def right_wallet(faults: str, audit: str) -> StormReport:
    """The twin's storm, once for all that are held against it."""
    return storm(audit=audit, faults=faults)[0]


def subjects(report: StormReport) -> set[str]:
    """Return the ids that differences are about."""
    return {difference.subject.partition(" ")[2] for difference in report.differences}


# --- planted bugs: what the calls of one bet show ---------------------------------------------------------------------

WITH_STATES = [
    pytest.param(NoTombstone, r"#\d+ rollback.*BET_NOT_FOUND[^#]*#\d+ withdraw.*SUCCESS", id="B05 no tombstone"),
    pytest.param(KeyedOnTxIdAlone, r"#\d+ rollback.*SUCCESS[^#]*ledger: OPEN", id="keyed on tx_id alone"),
    pytest.param(AnswersWithoutCrediting, r"#\d+ deposit.*SUCCESS[^#]*ledger: OPEN", id="SUCCESS without a credit"),
]


@pytest.mark.parametrize(("wallet", "shown"), WITH_STATES)
def test_a_wrong_state_is_named_with_its_bet(wallet: type[RightWallet], shown: str) -> None:
    """Audited by the ledger: exactly the bets that the bug touched, each with the calls that show it."""
    faults = "early-rollback=0.5"
    report, courier = storm(wallet, faults=faults)
    assert not report.passed
    named = {one for one in subjects(report) if one.startswith("storm-bet-")}
    assert named == slips_of(courier)
    of_bets = [difference for difference in report.differences if difference.subject.startswith("bet ")]
    for difference in of_bets:
        assert re.search(shown, "\n".join(difference.history), re.DOTALL), difference
    assert right_wallet(faults, "ledger").passed


WITH_ANSWERS = [
    pytest.param(NoTombstone, "its withdraw was accepted after its rollback had been answered", id="B05 no tombstone"),
    pytest.param(RefusesJackpots, "its JACKPOT deposit was refused with BET_ALREADY_CLOSED", id="jackpot refused"),
    pytest.param(CreditsWhatIsChanged, "deposit with the fault other-content was accepted", id="other content"),
]


@pytest.mark.parametrize("audit", AUDITS)
@pytest.mark.parametrize(("wallet", "problem"), WITH_ANSWERS)
@pytest.mark.drawn(2)
def test_a_wrong_answer_is_named_with_its_bet(wallet: type[RightWallet], problem: str, audit: str) -> None:
    """However it is audited, answers are: each bet that was answered so, and no other."""
    faults = "early-rollback=0.5,other-content=0.1"
    report, courier = storm(wallet, audit=audit, faults=faults)
    assert not report.passed
    answered = {one.subject.partition(" ")[2] for one in report.differences if one.wallet == problem}
    assert answered == slips_of(courier) != set()
    assert right_wallet(faults, audit).passed


# --- planted bugs: what only balances show ----------------------------------------------------------------------------

WITH_BALANCES = [
    pytest.param(PaysRepeatsTwice, "balances", id="a repeated deposit is credited twice"),
    pytest.param(RefundsTwice, "balances", id="a refund of both amounts"),
    pytest.param(SlipsInTheBackground, "ledger", id="a cent that nobody asked for, by the ledger"),
    pytest.param(SlipsInTheBackground, "balances", id="a cent that nobody asked for"),
    pytest.param(TellsWhatWasBefore, "balances", id="a balance from before"),
    pytest.param(KeyedOnTxIdAlone, "balances", id="keyed on tx_id alone"),
    pytest.param(AnswersWithoutCrediting, "balances", id="SUCCESS without a credit"),
]


@pytest.mark.parametrize(("wallet", "audit"), WITH_BALANCES)
@pytest.mark.drawn(3)
def test_a_wrong_balance_is_narrowed_down(wallet: type[RightWallet], audit: str) -> None:
    """One call after the other: a player's first wrong balance has at most three suspects, the bet among them."""
    report, courier = storm(wallet, audit=audit, faults=NOTHING_LOST)
    assert not report.passed
    slips = slips_of(courier)
    of_players = [one for one in report.differences if one.subject.startswith("player ")]
    assert len(of_players) >= 3
    narrowed = [one for one in of_players if "first wrong after" in one.wallet and "after one of" not in one.wallet]
    # What went wrong with a player's very last call was told in no answer after it.
    assert len(narrowed) >= len(of_players) * 0.7
    for difference in narrowed:
        suspects = set(_SUSPECT.findall(difference.wallet))
        assert 1 <= len(suspects) <= 3, difference.wallet
        assert suspects & slips, difference.wallet
        history = "\n".join(difference.history)
        assert all(suspect in history for suspect in suspects)
    assert right_wallet(NOTHING_LOST, audit).passed


def test_everything_refused_is_no_pass() -> None:
    """States and balances agree, and nothing was tried: that must not look like success."""
    report, _ = storm(RefusesEverything, bets=50, faults="all")
    assert not report.differences
    assert report.all_refused
    assert not report.passed
    assert set(report.refusals) == {"PLAYER_BLOCKED"}
    assert report.trace


@pytest.mark.parametrize("guarded", [pytest.param(True, id="with a lock"), pytest.param(False, id="without")])
@pytest.mark.drawn(1)
def test_a_wallet_that_forgets_under_load(private_key: RSAPrivateKey, guarded: bool) -> None:
    """B13: a balance read before a wait and written after it; over HTTP, sixteen calls at once, balances alone."""
    head = head_of(bets=150, players=2)
    wallet = ForgetsUnderLoad(head.opening, guarded=guarded)
    receiver = WebhookReceiver(authenticator=RsaSignature(private_key.public_key()))
    with asgi_server(asgi_app(receiver, wallet)) as port:
        url = f"http://127.0.0.1:{port}"
        books = PlayersBooks(url, private_key)
        report = Storm(url, ServiceKeys(private_key), books, head, concurrency=16).run()
    assert report.passed is guarded
    assert {one.subject.partition(" ")[0] for one in report.differences} == (set() if guarded else {"player"})
    assert all("POST /" in "\n".join(one.history) for one in report.differences)


# --- calls that are lost ----------------------------------------------------------------------------------------------


def _owners(head: TraceHead) -> dict[str, str]:
    plan = Plan(
        seed=head.seed,
        start_millis=head.start_millis,
        games=catalogue(head.seed),
        players=tuple(head.opening),
        bets=head.bets,
    )
    owners: dict[str, str] = {}
    for item in plan:
        if isinstance(item, PlannedClaim):
            owners[item.free_bet_id] = item.player_id
        else:
            owners |= {bet.bet_id: bet.player_id for bet in item.bets}
    return owners


@pytest.mark.parametrize("audit", AUDITS)
@pytest.mark.parametrize("seed", [4])
def test_withdraws_in_doubt_are_cancelled(audit: str, seed: int) -> None:
    """Every fault, sixteen calls at once, and no withdraw is repeated: a right wallet agrees on every bet."""
    settings: dict[str, Any] = {"seed": seed, "bets": 300, "faults": "all", "retries": "cancel"}
    courier = wallet_in_process(head_of(**settings), random=Random(seed))
    report, _ = storm(courier=courier, audit=audit, concurrency=16, **settings)
    assert report.differences == ()
    assert report.passed


#: With all faults, many calls at once; and with withdraws cancelled, where a fifth of all calls is lost.
AT_ONCE: dict[str, Any] = {"faults": "all", "concurrency": 8, "players": 10, "bets": 600}
CANCELLED: dict[str, Any] = {
    "faults": "request-lost=0.1,reply-lost=0.1,duplicate=0.2,early-rollback=0.5", "retries": "cancel", "seed": 12,
}  # fmt: skip
SELDOM_WRONG = [CreditsWhatIsChanged, RefusesJackpots, TellsWhatWasBefore]
OFTEN_WRONG = [
    AnswersWithoutCrediting, KeyedOnTxIdAlone, NoTombstone, PaysRepeatsTwice, RefundsTwice, SlipsInTheBackground,
]  # fmt: skip


@pytest.mark.parametrize("audit", AUDITS)
@pytest.mark.parametrize(
    ("settings", "wallet"),
    [
        *(pytest.param(AT_ONCE, each, id=f"{each.__name__}, at once") for each in SELDOM_WRONG + OFTEN_WRONG),
        *(pytest.param(CANCELLED, each, id=f"{each.__name__}, cancelled") for each in OFTEN_WRONG),
    ],
)
@pytest.mark.drawn(7)
def test_each_wrong_wallet_fails_for_what_it_did(
    settings: dict[str, Any], wallet: type[RightWallet], audit: str
) -> None:
    """Only players with whom it slipped are named, each with the cents, and not for calls that were lost."""
    report, courier = storm(wallet, audit=audit, **settings)
    assert not report.passed
    owners = _owners(report.head)
    slipped = {owners[bet] for bet in slips_of(courier)}
    accused = {owners.get(one, one) for one in subjects(report)}
    assert accused <= slipped
    # By chance, what was lost and what slipped can add up to a right balance; and of what slipped with a call that
    # was lost, or moved nothing, the service cannot know.
    least = {"ledger": 0.6, "balances": 0.2}[audit] if settings is CANCELLED else 0
    assert len(accused) >= max(1, len(slipped) * least)
    assert all(one.gap_cents for one in report.differences if one.subject.startswith("player "))


# --- traces -----------------------------------------------------------------------------------------------------------


def test_a_trace_holds_no_key_and_no_signature() -> None:
    """It is sent to colleagues."""
    report, courier = storm(PaysRepeatsTwice, faults="all", bets=200)
    text = "\n".join(report.trace)
    assert report.trace
    assert not [signature for _, _, signature in courier.posts if signature.decode() in text]
    assert "PRIVATE" not in text


def test_a_storm_of_the_same_seed_has_the_same_history() -> None:
    """One call at a time: each post and each answer, byte for byte; another seed plays otherwise."""
    first, again, other = (storm(PaysRepeatsTwice, faults="all", bets=100, seed=seed)[0] for seed in (5, 5, 6))
    assert first.trace == again.trace != ()
    assert first.differences == again.differences
    assert first.trace != other.trace


# --- what is measured -------------------------------------------------------------------------------------------------


def test_what_a_report_counts() -> None:
    """Bets and claims by where they ended, calls, faults; all adds up."""
    report, courier = storm(faults="all", bets=300)
    assert report.bets == 300
    assert sum(report.states.values()) == report.bets + report.claims
    assert report.states["REFUSED"] == sum(report.refusals.values())
    assert report.posts == len(courier.posts)
    for fault in (Fault.DUPLICATE, Fault.FORGED, Fault.RESERIALISED, Fault.OLD_KEY, Fault.OTHER_CONTENT):
        assert report.faults[fault] == sum(post.extra is fault for post, _, _ in courier.posts)
    for fault in (Fault.REQUEST_LOST, Fault.REPLY_LOST, Fault.TIMEOUT, Fault.RESET, Fault.SLOW):
        assert report.faults[fault] == sum(post.manner is fault for post, _, _ in courier.posts)
    opened = {bet.bet_id for bet in courier.ledger.bets() if bet.state in {"OPEN", "CLOSED", "ROLLED_BACK"}}
    assert report.accepted == len(opened)


@pytest.mark.parametrize("audit", AUDITS)
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.drawn(2)
def test_each_fault_occurs_often_enough(seed: int, audit: str) -> None:
    """All faults in a thousand bets: a right wallet passes, and one without tombstones fails with each seed."""
    settings: dict[str, Any] = {"seed": seed, "bets": 1_000, "faults": "all", "players": 100}
    head = head_of(**settings)
    for wallet, passes in ((RightWallet, True), (NoTombstone, False)):
        courier = wallet_in_process(head, wallet, random=Random(seed))
        report, _ = storm(courier=courier, audit=audit, concurrency=16, **settings)
        assert report.passed is passes
        assert bool(report.differences) is not passes
        assert report.least_of_each == 5
        assert report.too_seldom == {}
        assert len(report.faults) == 13
        assert min(report.faults.values()) >= 5


@pytest.mark.parametrize(
    ("faults", "occurred", "too_seldom"),
    [
        pytest.param("reset=0.0001,slow=0", {"reset": 5}, {}, id="whatever the rate, but 0"),
        pytest.param("reset=0.0001", {}, {"reset": 0}, id="never"),
        pytest.param("reset@3", {"reset": 1}, {}, id="once, as asked for"),
        pytest.param("none", {}, {}, id="none"),
    ],
)
def test_what_was_not_tried_enough(faults: str, occurred: dict[str, int], too_seldom: dict[str, int]) -> None:
    """In a thousand bets each fault is needed five times; else the storm has not passed, whatever agrees."""
    counts = {Fault(name): count for name, count in occurred.items()}
    report = replace(right_wallet("none", "ledger"), head=head_of(faults=faults), bets=1_000, faults=counts)
    assert report.too_seldom == too_seldom
    assert (report.agrees, report.passed) == (True, not too_seldom)
    told = [line for line in report.remarks if line.startswith("Not tried enough: ")]
    assert len(told) == bool(too_seldom)
    assert all("1,000 bets need 5 occurrences of each fault" in line for line in told)


# --- a wallet that is gone, or its books ------------------------------------------------------------------------------


class _Leaves(InProcess):
    """A wallet that cannot be reached any more from its 300th post on: it may have carried that out."""

    async def post(self, post: Post) -> Answer:
        answer = await super().post(post)
        if post.serial >= 300:
            raise TransportError("The wallet has gone", attempts=1, elapsed_seconds=0.0)
        return answer


@pytest.mark.parametrize(
    ("wallet", "subject"),
    [pytest.param(PaysRepeatsTwice, "player", id="balances"), pytest.param(NoTombstone, "bet", id="answers")],
)
@pytest.mark.parametrize("concurrency", [1, 8])
@pytest.mark.parametrize("seed", [7, 8])
@pytest.mark.drawn(2)
def test_a_wallet_that_is_wrong_and_then_gone(
    wallet: type[RightWallet], subject: str, concurrency: int, seed: int
) -> None:
    """What the answers show by then is reported, with a trace; calls in doubt show nothing, as with a right wallet."""
    settings: dict[str, Any] = {"seed": seed, "bets": 300, "faults": "duplicate=0.3,early-rollback=0.5"}
    wrong, right = (_Leaves(opening=head_of(**settings).opening, handler=each) for each in (wallet, RightWallet))
    report, _ = storm(courier=wrong, concurrency=concurrency, **settings)
    assert not report.passed
    assert "The wallet has gone" in report.broken_off
    assert {one.subject.partition(" ")[0] for one in report.differences} == {subject}
    owners = _owners(report.head)
    assert {owners.get(one, one) for one in subjects(report)} <= {owners[bet] for bet in slips_of(wrong)}
    assert all(one.history for one in report.differences)
    assert 1 <= report.in_doubt <= concurrency
    assert len(report.trace) == 1 + len(wrong.posts)
    assert any("What became of them is in doubt." in line for line in report.remarks)
    with pytest.raises(TransportError, match="The wallet has gone"):
        storm(courier=right, concurrency=concurrency, **settings)


class _CloseNot(MemoryBooks):
    """Books that cannot be read any more when all has been played."""

    def __init__(self, courier: InProcess, gone: GameOperatorError) -> None:
        super().__init__(courier, "ledger")
        self._gone = gone

    def close(self, player_ids: Iterable[str]) -> Closing:
        raise self._gone


@pytest.mark.parametrize("gone", [RequestNotSentError("It is gone"), LedgerUnavailableError("It is gone")], ids=repr)
def test_books_that_are_gone_at_the_end(gone: GameOperatorError) -> None:
    """What the answers showed is reported; of a right wallet, that its books are gone."""
    faults = "duplicate=0.3"
    wrong, right = (wallet_in_process(head_of(), wallet) for wallet in (PaysRepeatsTwice, RightWallet))
    report, _ = storm(courier=wrong, books=_CloseNot(wrong, gone), faults=faults)
    assert not report.passed
    assert report.broken_off.startswith("It is gone")
    assert (report.bets, report.in_doubt) == (200, 0)
    assert report.differences[0].history
    assert report.trace
    with pytest.raises(type(gone), match="It is gone"):
        storm(courier=right, books=_CloseNot(right, gone), faults=faults)


@pytest.mark.parametrize(
    ("body", "sound"),
    [
        pytest.param(b'{"type":"SUCCESS","balance":10.5,"timestamp":1}', True, id="a reply"),
        pytest.param(b'{"type":"SUCCESS","balance":10.505,"timestamp":1}', False, id="finer than a cent"),
        pytest.param(b"<html>", False, id="no JSON"),
    ],
)
def test_an_answer_that_is_no_reply_is_a_difference(body: bytes, sound: bool) -> None:
    """With HTTP 200 too: the service could not read it (spec §2.1), even if the repeat is answered well."""

    class Once(InProcess):
        async def post(self, post: Post) -> Answer:
            answer = await super().post(post)
            return answer_in(post, HttpReply(200, {}, body)) if post.serial == 5 and not sound else answer

    head = head_of(bets=50)
    report, _ = storm(courier=Once(opening=head.opening), bets=50)
    assert report.passed is sound
    if not sound:
        assert "not with a reply of spec §2.1" in report.differences[0].wallet
