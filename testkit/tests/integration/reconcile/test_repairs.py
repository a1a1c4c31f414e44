"""Lost settlements are found and repaired, once, and nothing else moves money (spec §2.4, §3; decision 14)."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest

from game_operator.errors import (
    AuthenticationError,
    ConfigurationError,
    OperatorInactiveError,
    RepairRefusedError,
    RequestNotSentError,
    UnexpectedResponseError,
)
from game_operator.ledger import Outcome
from game_operator.models import BetNotFound
from game_operator.models.webhooks import Reply, RollbackCall
from game_operator.wallet import Wallet
from game_operator_testkit.sandbox.service.lies import Lie
from testkit.tests.support.reconciling import OPENING, REPAIR, WAGER, WON, Desk, TickingClock, verdicts
from tests.support.raw_sql import run

pytestmark = pytest.mark.outside

MINUTE = timedelta(minutes=1)


# --- what is repaired ------------------------------------------------------------------------------------------------


@pytest.mark.drawn(3)
def test_lost_settlements_are_repaired_once(any_desk: Desk) -> None:
    """A dry run moves nothing; a repair moves each once, with the operator's own rows; the late calls move nothing."""
    desk = any_desk
    sent = desk.play()
    lost = [desk.play("lose", won_cents=WON + number) for number in range(3)]
    nothing_won = desk.play("lose", won_cents=0)
    cancelled = [desk.play("lose", cancel=True) for _ in range(2)]
    before, own = desk.balance(), desk.own_rows()
    report = desk.reconciler().run()
    assert (report.repaired, report.open.bets, desk.balance(), desk.own_rows()) == ((0, 0), 6, before, own)
    wanted = (
        {sent: "agrees", nothing_won: "settle"} | dict.fromkeys(lost, "settle") | dict.fromkeys(cancelled, "refund")
    )
    assert verdicts(report) == wanted
    report = desk.reconciler().run(**REPAIR)
    owed = 3 * WON + 3 + 2 * WAGER
    assert (report.repaired, report.open.bets, report.run.state) == ((6, owed), 0, "finished")
    assert (report.run.moved_count, report.run.moved_cents, report.run.actor) == (6, owed, "ann")
    assert desk.balance() == before + owed
    assert [desk.state(each) for each in (*lost, nothing_won, *cancelled)] == ["CLOSED"] * 4 + ["ROLLED_BACK"] * 2
    settled = [("deposit", each) for each in (*lost, nothing_won)] + [("rollback", each) for each in cancelled]
    assert desk.own_rows() - own == Counter(settled)
    again = desk.reconciler().run(**REPAIR)
    assert set(verdicts(again).values()) == {"agrees"}
    assert again.repaired == (0, 0)
    late = desk.sandbox.release_held(lost=True)
    assert len(late) == 6
    assert desk.balance() == before + owed
    assert desk.own_rows() - own == Counter(settled)
    assert not desk.findings(resolved=True)
    desk.check()


# --- two looks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ago", "looks"), [(None, 2), (timedelta(seconds=30), 2), (timedelta(seconds=61), 1)], ids=str)
def test_a_repair_waits_for_the_second_look(desk: Desk, ago: timedelta | None, looks: int) -> None:
    """One run makes both looks and waits between them; the look of a dry run counts as the first, from its time on."""
    desk.play("lose")
    clock = TickingClock(tick_millis=1)
    reconciler = desk.reconciler(clock_millis=clock, second_look=MINUTE)
    began = clock.now_millis
    if ago is not None:
        reconciler.run()
        clock.passes(ago)
        desk.way.asked.clear()
    clock.tick_millis = 2_000
    assert reconciler.run(**REPAIR).repaired.bets == 1
    assert desk.way.asked.count("fetch-bet") == looks
    assert clock.now_millis - began >= 60_000


def test_a_look_that_says_something_else_begins_anew(desk: Desk) -> None:
    """What counts is since when the service has said the same."""
    bet = desk.play("lose")
    clock = TickingClock()
    looks = desk.reconciler(clock_millis=clock, second_look=MINUTE)
    looks.run()
    clock.passes(MINUTE)
    desk.sandbox.lies.about_bet(bet, {"won": WON + 1}, times=1)
    looks.run()
    clock.passes(timedelta(seconds=30))
    looks.run()  # The truth again, from now on.
    clock.passes(timedelta(seconds=40))
    clock.tick_millis = 1_000
    desk.way.asked.clear()
    assert verdicts(looks.run(**REPAIR)) == {bet: "settled"}
    assert desk.way.asked.count("fetch-bet") == 2, "the look of 40 seconds ago is too young"
    assert desk.balance() == WON - WAGER


@pytest.mark.drawn(6)
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    "lie",
    [
        {"won": WON + 1},
        {"won": WON - 1},
        {"timestamp": 1},
        {"new_field": [1]},
        {"status": "OPEN"},
        {"status": "ROLLED_BACK"},
    ],
    ids=str,
)
def test_a_service_that_lies_once_moves_nothing(desk: Desk, lie: Lie, *, is_first: bool) -> None:
    """In the first look or the second, in any field, also one that this version does not know."""
    bet = desk.play("lose")
    reconciler = desk.reconciler()
    desk.way.at("fetch-bet", 1 if is_first else 2, lambda: desk.sandbox.lies.about_bet(bet, lie, times=1))
    first = reconciler.run(**REPAIR)
    if is_first and isinstance(lie, dict) and lie.get("status") == "OPEN":
        # The first look sees nothing to repair, so there is no second.
        assert verdicts(first) == {bet: "wait"}
    else:
        assert verdicts(first) == {bet: "answers_differ"}
        assert desk.kinds() == {bet: "answers_differ"}
        assert "second answer differs from its first" in desk.findings()[0].detail
    assert (desk.balance(), desk.state(bet)) == (-WAGER, "OPEN")
    assert verdicts(reconciler.run(**REPAIR)) == {bet: "settled"}
    assert desk.balance() == WON - WAGER
    reconciler.run()
    assert desk.kinds() == {}, "a look that agrees closes the finding"


def test_a_repair_does_not_believe_an_answer_unlike_the_dry_runs(desk: Desk) -> None:
    """Its look differs from that of the run before, so it is a first one."""
    bet = desk.play("lose")
    reconciler = desk.reconciler()
    reconciler.run()
    desk.sandbox.lies.about_bet(bet, {"won": WON + 1}, times=1)
    assert verdicts(reconciler.run(**REPAIR)) == {bet: "answers_differ"}
    assert desk.balance() == -WAGER


@pytest.mark.parametrize(("seconds", "verdict"), [(290, "settled"), (310, "failed")])
def test_a_second_look_that_is_five_minutes_old_settles_nothing(desk: Desk, seconds: int, verdict: str) -> None:
    """The commit counts: a database that was not there for so long."""
    bet = desk.play("lose")
    clock = TickingClock()
    asked = Counter[str]()

    reconciler = desk.reconciler(clock_millis=clock)
    worker = reconciler._worker
    commit = worker._commit

    def slow(*arguments: Any, **more: Any) -> bool:
        asked["commit"] += 1
        if asked["commit"] == 2:
            clock.passes(timedelta(seconds=seconds))
        return commit(*arguments, **more)

    worker._commit = slow  # type: ignore[method-assign]  # A database that is slow just then.
    report = reconciler.run(**REPAIR)
    assert verdicts(report) == {bet: verdict}
    assert ["too old" in each.detail for each in desk.findings()] == [True] * (verdict == "failed")
    assert desk.balance() == (WON if verdict == "settled" else 0) - WAGER


def test_a_run_that_is_a_day_old_goes_on_dry(desk: Desk) -> None:
    """Whoever began it no longer looks."""
    bet = desk.play("lose")
    clock = TickingClock()
    desk.way.fail(401, 1)
    reconciler = desk.reconciler(clock_millis=clock)
    with pytest.raises(AuthenticationError):
        reconciler.run(**REPAIR)
    clock.passes(timedelta(days=1))
    report = reconciler.run(**REPAIR)
    assert (report.run.state, verdicts(report)) == ("finished", {bet: "settle"})
    assert (report.repaired, report.open) == ((0, 0), (1, WON))
    assert desk.balance() == -WAGER


# --- brakes and people -----------------------------------------------------------------------------------------------


@pytest.mark.drawn(6)
@pytest.mark.parametrize(
    ("brakes", "settled"),
    [
        ({"max_bets": 0}, 0),
        ({"max_bets": 2}, 2),
        ({"max_bets": 3}, 3),
        ({"max_total_cents": 3 * WON}, 3),
        ({"max_total_cents": 3 * WON - 1}, 2),
        ({"max_total_cents": 0}, 0),
    ],
    ids=str,
)
def test_the_brakes(any_desk: Desk, brakes: dict[str, int], settled: int) -> None:
    """What would be more is left."""
    desk = any_desk
    for _ in range(3):
        desk.play("lose")
    report = desk.reconciler().run(**(REPAIR | brakes))
    assert (report.repaired.bets, report.open.bets) == (settled, 3 - settled)
    assert report.run.state == "finished"
    assert desk.balance() == settled * WON - 3 * WAGER
    desk.check()
    assert desk.reconciler().run(**REPAIR).repaired.bets == 3 - settled


BRAKES = REPAIR | {"max_bets": 3}
HOURS_20 = timedelta(hours=20)
TICK = timedelta(milliseconds=1)


@pytest.mark.parametrize("brake", [{"max_bets": 3}, {"max_total_cents": 3 * WON}], ids=str)
@pytest.mark.drawn(4)
def test_the_brakes_hold_over_the_runs_of_a_person(any_desk: Desk, brake: dict[str, int]) -> None:
    """The same command again settles nothing more, and says so; wider brakes let through what is left of them."""
    desk = any_desk
    for _ in range(9):
        desk.play("lose")
    for before in (0, 3, 3):
        report = desk.reconciler().run(**REPAIR | brake)
        assert (report.repaired.bets, report.settled_before) == (3 - before, (before, before * WON))
        assert report.open == (6, 6 * WON)
        assert (report.run.state, report.is_fine) == ("finished", False)
    wider = {name: value + value // 3 for name, value in brake.items()}
    assert desk.reconciler().run(**REPAIR | wider).repaired.bets == 1
    assert desk.reconciler().run(**REPAIR).repaired.bets == 5
    assert desk.balance() == 9 * (WON - WAGER)
    desk.check()


@pytest.mark.parametrize(("passes", "settled"), [(HOURS_20 - TICK, 0), (HOURS_20, 3)], ids=["before", "after"])
def test_the_brakes_count_the_last_20_hours(desk: Desk, passes: timedelta, settled: int) -> None:
    """Of each repair, and not of its run: the next day's command begins anew."""
    for _ in range(6):
        desk.play("lose")
    clock = TickingClock()
    reconciler = desk.reconciler(clock_millis=clock)
    reconciler.run(**BRAKES)
    clock.passes(passes)
    assert reconciler.run(**BRAKES).repaired.bets == settled
    clock.passes(timedelta(hours=1))
    assert reconciler.run(**BRAKES).repaired.bets == 3 - settled


@pytest.mark.drawn(4)
def test_the_brakes_hold_for_a_run_that_takes_the_place_of_another(any_desk: Desk) -> None:
    """The first still works when it is stopped, and the second begins; together they settle what the brakes say."""
    desk = any_desk
    for _ in range(30):  # Of more than one part.
        desk.play("lose")
    settled: list[int] = []

    def replaced() -> None:
        desk.reconciler().stop()
        settled.append(desk.reconciler().run(**REPAIR | {"max_bets": 28}).repaired.bets)

    desk.reconciler().run()
    # After a dry run each bet needs one look more: the second part of the run is under way.
    desk.way.at("fetch-bet", 27, replaced)
    settled.append(desk.reconciler().run(**REPAIR | {"max_bets": 27}).repaired.bets)
    assert settled == [3, 25]
    desk.check()


def test_repairing_needs_brakes_and_a_person(desk: Desk) -> None:
    """In Python too; a dry run takes no brakes, which would say that it settles something; and nothing is begun."""
    wrong: list[tuple[str, Any]] = [
        ("max_bets", None),
        ("max_bets", -1),
        ("max_bets", True),
        ("max_total_cents", None),
        ("max_total_cents", 1.5),
        ("actor", None),
        ("actor", "  "),
        ("reason", ""),
        ("reason", "x" * 1_001),
    ]
    for setting, value in wrong:
        with pytest.raises(ConfigurationError, match=setting):
            desk.reconciler().run(**(REPAIR | {setting: value}))
    with pytest.raises(ConfigurationError, match="dry run settles nothing"):
        desk.reconciler().run(max_bets=1)
    assert desk.reconciler().status() is None


# --- what is never repaired ------------------------------------------------------------------------------------------

HOSTILE: dict[str, tuple[Callable[[Desk], Lie], str]] = {
    "another player": (lambda _: {"player_id": "p2"}, "player_differs"),
    "another wager": (lambda _: {"wager": WAGER + 1}, "amount_differs"),
    "another instance": (lambda _: {"instance_id": "other"}, "game_differs"),
    "another bet": (lambda _: {"reference_id": "other"}, "unreadable"),
    "a win above the limit": (lambda desk: {"won": desk_max_win(desk) + 1}, "win_too_high"),
    "nothing": (lambda _: BetNotFound(), "missing_there"),
    "garbage": (lambda _: b"<html>", "unreadable"),
    "a negative win": (lambda _: {"won": -1}, "unreadable"),
    "deep nesting": (lambda _: b"[" * 100_000, "unreadable"),
}


def desk_max_win(desk: Desk) -> int:
    """Return the most that a bet of the default instance can win."""
    return next(
        int(instance.bet_config.max_win * 100)
        for game in desk.client.fetch_games()
        for instance in game.instances
        if instance.id == desk.sandbox.instance_id
    )


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.drawn(6)
def test_hostile_evidence_moves_nothing(desk: Desk, name: str) -> None:
    """It is a finding with its evidence, seen again and again, and closed by a look that agrees; and kept for good."""
    lie, verdict = HOSTILE[name]
    bet, other = desk.play("lose"), desk.play("lose")
    desk.sandbox.lies.about_bet(bet, lie(desk))
    assert verdicts(desk.reconciler().run(**REPAIR)) == {bet: verdict, other: "settled"}
    assert verdicts(desk.reconciler().run(**REPAIR)) == {bet: verdict, other: "agrees"}
    (found,) = desk.findings()
    assert (found.subject, found.kind, found.seen, found.player_id) == (bet, verdict, 2, "p1")
    assert found.evidence is not None
    assert (desk.state(bet), desk.balance()) == ("OPEN", WON - 2 * WAGER)
    desk.sandbox.lies.clear()
    desk.sandbox.lies.about_bet(bet, {"won": desk_max_win(desk)})  # The other side of the limit above.
    assert verdicts(desk.reconciler().run(**REPAIR))[bet] == "settled"
    desk.reconciler().run()
    assert desk.findings() == []
    (closed,) = desk.findings(resolved=True)
    assert (closed.id, closed.resolved_by) == (found.id, "reconcile")
    assert "agrees" in (closed.resolution or "")


def test_a_win_without_a_known_limit_is_not_settled(desk: Desk) -> None:
    """The list of games cannot be fetched; a loss needs none. The next run asks anew."""
    bet, loss = desk.play("lose"), desk.play("lose", won_cents=0)
    desk.way.at("fetch-games", 1, lambda: desk.way.fail(500, 1))
    reconciler = desk.reconciler()
    assert verdicts(reconciler.run(**REPAIR)) == {bet: "limit_unknown", loss: "settled"}
    assert verdicts(reconciler.run(**REPAIR))[bet] == "settled"


def test_a_claim_between_the_looks(desk: Desk) -> None:
    """The answers are equal, and the finding says so: it is the claim that counts."""
    bet = desk.play("lose")
    claim = {"tx_id": "claim-1", "action": "JACKPOT", "is_claim": True}
    desk.way.at("fetch-bet", 2, lambda: desk.deposit(bet, 700, **claim))
    assert verdicts(desk.reconciler().run(**REPAIR)) == {bet: "claimed"}
    assert "differs" not in desk.findings()[0].detail


@pytest.mark.parametrize("look", [1, 2])
@pytest.mark.drawn(5)
def test_a_deposit_that_comes_while_we_look(any_desk: Desk, look: int) -> None:
    """It settles the bet, and nothing is settled twice nor found."""
    desk = any_desk
    bet = desk.play("hold")
    desk.way.at("fetch-bet", look, desk.sandbox.release_held)
    report = desk.reconciler().run(**REPAIR)
    assert verdicts(report) == {bet: "agrees"}
    assert (report.repaired, desk.balance(), desk.findings()) == ((0, 0), WON - WAGER, [])
    desk.check()


# --- an operator whose statements fail -------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError("no\nsuch player"), KeyError("row"), RepairRefusedError("not mine")])
def test_one_bet_whose_own_rows_cannot_be_written(desk: Desk, error: Exception) -> None:
    """It is undone and found; the others go on; and a later run settles it."""
    bets = [desk.play("lose") for _ in range(3)]
    fails = True

    def after(call: Any, _outcome: Outcome, connection: Any) -> None:
        connection.execute("INSERT INTO own_rows VALUES (?, ?)", ("mine", call.bet_id))
        if fails and call.bet_id == bets[1]:
            raise error

    reconciler = desk.reconciler(wallet=Wallet(desk.ledger, after=after))
    report = reconciler.run(**REPAIR)
    assert verdicts(report) == {bets[0]: "settled", bets[1]: "failed", bets[2]: "settled"}
    assert (report.run.moved_count, report.run.moved_cents) == (2, 2 * WON), "what was undone is not counted"
    assert desk.own_rows()["mine", bets[1]] == 0
    (found,) = desk.findings()
    assert (found.subject, found.kind) == (bets[1], "failed")
    assert type(error).__name__ in found.detail
    assert "\n" not in found.detail
    fails = False
    assert verdicts(reconciler.run(**REPAIR))[bets[1]] == "settled"
    desk.check()


# --- late calls ------------------------------------------------------------------------------------------------------


def rolled_back(desk: Desk, bet: str) -> Reply:
    """Let the rollback of a bet come."""
    return desk.wallet.rollback(RollbackCall(player_id="p1", bet_id=bet, tx_id=f"withdraw:bet:{bet}"))


@pytest.mark.parametrize(
    ("call", "owed"),
    [
        pytest.param(lambda desk, bet: desk.deposit(bet, WON + 70), 70, id="a deposit of another amount"),
        pytest.param(rolled_back, WAGER - WON, id="a rollback"),
    ],
)
@pytest.mark.drawn(6)
def test_a_late_call_that_says_something_else(any_desk: Desk, call: Callable[[Desk, str], Reply], owed: int) -> None:
    """It moves nothing, and what is owed is a finding that looks do not close."""
    desk = any_desk
    bet = desk.play("lose")
    desk.reconciler().run(**REPAIR)
    before = desk.balance()
    assert call(desk, bet).code is not None
    assert desk.balance() == before
    (found,) = desk.findings()
    assert (found.subject, found.owed_cents) == (bet, owed)
    desk.reconciler().run()
    assert [each.id for each in desk.findings()] == [found.id]


# --- an old copy of the service --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("behind", "state"), [(0, "finished"), (1, "finished"), (2, "stopped")])
def test_a_service_that_answers_from_an_old_copy(desk: Desk, behind: int, state: str) -> None:
    """Of the last twenty settled bets one may disagree, which is a finding; if two do, nothing is repaired."""
    lost = desk.play("lose")
    settled = [desk.play() for _ in range(25)]
    for bet in settled[-behind:] if behind else []:
        desk.sandbox.lies.about_bet(bet, BetNotFound())
    before = desk.balance()
    clock = TickingClock(ahead=timedelta(hours=1))
    report = desk.reconciler(clock_millis=clock, sample=0.0).run(**REPAIR)
    assert report.run.state == state
    if state == "stopped":
        assert "old copy" in report.run.why
        assert (desk.balance(), report.repaired.bets, report.open.bets) == (before, 0, 1)
    else:
        assert verdicts(report) == {lost: "settled"}
    # What a service says that is not believed is no finding.
    found = {each.subject: each.kind for each in desk.findings()}
    assert found == ({settled[-1]: "missing_there"} if behind == 1 else {})


# --- a service that does not answer ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (401, b'{"error": "Authentication failed"}', AuthenticationError),
        (403, b'{"error": "inactive"}', OperatorInactiveError),
        (403, b"<html>a gateway</html>", UnexpectedResponseError),
    ],
)
def test_a_service_that_refuses_the_operator(desk: Desk, status: int, body: bytes, error: type[Exception]) -> None:
    """The run is paused, the error raised, and the run goes on later."""
    bet = desk.play("lose")
    desk.way.fail(status, 1, body)
    reconciler = desk.reconciler()
    with pytest.raises(error):
        reconciler.run(**REPAIR)
    run_ = reconciler.status()
    assert run_ is not None
    assert (run_.state, bool(run_.why)) == ("paused", True)
    report = desk.reconciler().run(**REPAIR)
    assert (report.run.id, verdicts(report)) == (run_.id, {bet: "settled"})


@pytest.mark.parametrize(("failures", "state"), [(19, "finished"), (20, "paused")])
def test_twenty_failures_in_a_row_pause_a_run(desk: Desk, failures: int, state: str) -> None:
    """Each bet is asked for three times; and the run goes on later."""
    bets = [desk.play("lose", won_cents=0) for _ in range(10)]
    desk.way.fail(503, failures)
    reconciler = desk.reconciler()
    report = reconciler.run()
    assert report.run.state == state
    found = Counter(verdicts(report).values())
    assert found["no_answer"] == 6
    if state == "paused":
        assert "20 calls in a row" in report.run.why
        report = reconciler.run()
        assert report.run.state == "finished"
    assert Counter(verdicts(report).values()) == {"no_answer": 6, "settle": 4}
    assert len(desk.findings()) == 6
    report = reconciler.run(**REPAIR)
    assert set(verdicts(report)) == set(bets)
    assert desk.findings() == [], "an answer closes what no answer has left"


# --- by hand ---------------------------------------------------------------------------------------------------------


def test_a_refund_by_hand(any_desk: Desk) -> None:
    """NOT_FOUND alone lets a person decide; the bet's findings are resolved by that person."""
    desk = any_desk
    bet = desk.play("lose")
    reconciler = desk.reconciler()
    with pytest.raises(RepairRefusedError, match="has it as CLOSED"):
        reconciler.refund(bet, actor="ann", reason="the player asks")
    desk.sandbox.lies.about_bet(bet, BetNotFound())
    reconciler.run()
    assert desk.kinds() == {bet: "missing_there"}
    assert reconciler.refund(bet, actor="ann", reason="the provider does not know it").applied
    assert (desk.state(bet), desk.balance(), desk.findings()) == ("ROLLED_BACK", 0, [])
    assert {each.resolved_by for each in desk.findings(resolved=True)} == {"ann"}
    with pytest.raises(RepairRefusedError, match="ROLLED_BACK"):
        reconciler.refund(bet, actor="ann", reason="again")
    assert desk.balance() == 0
    desk.check()


@pytest.mark.parametrize("age", [timedelta(hours=2) - TICK, timedelta(hours=2), -TICK], ids=str)
def test_a_refund_of_a_young_bet(desk: Desk, age: timedelta) -> None:
    """It has the least age of a run; a time in the future is a wrong clock's."""
    bet, clock = desk.play("lose"), TickingClock()
    at = clock.now_millis - age // TICK
    run(desk.url, "UPDATE {p}bets SET opened_at_millis = ? WHERE bet_id = ?", at, bet)
    desk.sandbox.lies.about_bet(bet, BetNotFound())
    reconciler = desk.reconciler(clock_millis=clock, min_age=timedelta(hours=2))
    if timedelta(0) <= age < timedelta(hours=2):
        with pytest.raises(RepairRefusedError, match="is not 2:00:00 old yet"):
            reconciler.refund(bet, actor="ann", reason="why")
        assert desk.state(bet) == "OPEN"
    else:
        assert reconciler.refund(bet, actor="ann", reason="why").applied


@pytest.mark.parametrize("first", ["NOT_FOUND", "CLOSED"])
def test_a_refund_looks_twice(desk: Desk, first: str) -> None:
    """One answer out of two that the provider knows the bet, and nothing is moved."""
    bet, look = desk.play("lose"), 1 if first == "NOT_FOUND" else 2
    for looks_before in (0, 1):  # What a run was told before is no look of the refund's.
        if looks_before:
            desk.way.before = lambda _endpoint: None
            desk.sandbox.lies.about_bet(bet, BetNotFound(), times=1)
            desk.reconciler().run()
        desk.way.asked.clear()
        desk.way.at("fetch-bet", look, lambda: desk.sandbox.lies.about_bet(bet, BetNotFound(), times=1))
        with pytest.raises(RepairRefusedError, match="has it as CLOSED"):
            desk.reconciler().refund(bet, actor="ann", reason="why")
        assert (desk.way.asked.count("fetch-bet"), desk.state(bet)) == (3 - look, "OPEN")


@pytest.mark.parametrize(("ago", "waits"), [(None, 60), (timedelta(seconds=20), 40), (MINUTE, 0)])
def test_a_refund_waits_for_the_second_look(desk: Desk, ago: timedelta | None, waits: int) -> None:
    """As long as a run; what a run was told before shortens it."""
    bet, clock = desk.play("lose"), TickingClock()
    desk.sandbox.lies.about_bet(bet, BetNotFound())
    reconciler = desk.reconciler(clock_millis=clock, second_look=MINUTE)
    if ago is not None:
        reconciler.run()
        clock.passes(ago)
    clock.tick_millis = 2_000
    began = clock.now_millis
    assert reconciler.refund(bet, actor="ann", reason="why").applied
    assert waits <= (clock.now_millis - began) / 1_000 <= waits + 8


def test_what_is_not_refunded_by_hand(desk: Desk) -> None:
    """An unknown bet, one that a claim names, one that was not answered for, and one whose answer cannot be read."""
    bet = desk.play("lose")
    ann = {"actor": "ann", "reason": "why"}
    reconciler = desk.reconciler()
    with pytest.raises(RepairRefusedError, match="no bet 'nobody'"):
        reconciler.refund("nobody", **ann)
    desk.way.instead = [httpx.ConnectError("no route")]
    with pytest.raises(RequestNotSentError):
        reconciler.refund(bet, **ann)
    desk.sandbox.lies.about_bet(bet, b"garbage", times=1)
    with pytest.raises(RepairRefusedError, match="Nothing was moved"):
        reconciler.refund(bet, **ann)
    desk.deposit(bet, 700, tx_id="claim-1", action="JACKPOT", is_claim=True)
    desk.sandbox.lies.about_bet(bet, BetNotFound())
    with pytest.raises(RepairRefusedError, match="claim-1"):
        reconciler.refund(bet, **ann)
    assert desk.state(bet) == "OPEN"


def test_a_deposit_after_a_refund_by_hand(desk: Desk) -> None:
    """The provider had it after all: what is owed is a finding."""
    bet = desk.play("hold")
    desk.sandbox.lies.about_bet(bet, BetNotFound())
    desk.reconciler().refund(bet, actor="ann", reason="the provider does not know it")
    desk.sandbox.release_held()
    assert [(each.subject, each.owed_cents) for each in desk.findings()] == [(bet, WON - WAGER)]
    assert desk.ledger.balance("p1") == OPENING
