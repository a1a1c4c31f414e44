"""verify(full=True) reads sound books once, finds damage by sums of an hour, and reads no whole table for a page."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest

from game_operator.ledger import SqlLedger
from game_operator.ledger.books.verify import Verification
from game_operator.ledger.staff.queries import Listing
from game_operator.ledger.steps import Execute, Step
from game_operator.models.webhooks import WebhookCall
from tests.support.calls import claim, deposit, rollback, some_of_each_end, withdraw
from tests.support.raw_sql import damage, rows, run
from tests.support.retention import drop
from tests.support.times import RunningClock

pytestmark = pytest.mark.outside

HOUR, DAY = 3_600_000, 86_400_000


def played(name: str) -> tuple[WebhookCall, ...]:
    """Return calls that leave a bet in every state, and pay a claim."""
    return (
        *some_of_each_end(name),
        rollback(f"{name}-tomb", tx_id=f"withdraw:bet:{name}-tomb"),
        withdraw(f"{name}-declined", amount_cents=10**9),
        withdraw(f"{name}-spent", action="RAIN"),
        claim(f"{name}-of-open", bet_id=f"{name}-open", action="JACKPOT"),
        deposit(f"{name}-early"),
    )


@pytest.fixture
def hours(sqlite_url: str, clock: RunningClock) -> Iterator[SqlLedger]:
    """A ledger of four hours, one apart from the next, in which a bet is won that was opened in the first."""
    with SqlLedger(sqlite_url, clock_millis=clock) as ledger:
        ledger.open_account("p1", Decimal(1000))
        ledger.apply(withdraw("long"))
        for number in range(4):
            for call in played(f"b{number}"):
                ledger.apply(call)
            clock.millis += 2 * HOUR
        ledger.apply(deposit("long"))
        yield ledger


@pytest.fixture
def again(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The hours, as times, and the bounds of postings that are read row by row."""
    seen: list[tuple[Any, ...]] = []
    times, postings = Verification.times, Verification.postings_within

    def spied_times(self: Verification, read: Any, start: int, end: int) -> Any:
        seen.append((start, end))
        return times(self, read, start, end)

    def spied_postings(self: Verification, read: Any, bounds: Any, count: int) -> Any:
        seen.append(bounds)
        return postings(self, read, bounds, count)

    monkeypatch.setattr(Verification, "times", spied_times)
    monkeypatch.setattr(Verification, "postings_within", spied_postings)
    return seen


def test_sound_books_are_read_once(database_url: str, again: list[tuple[Any, ...]]) -> None:
    """Only what may be newer than the calls that were read is looked up: here nothing, from a time on."""
    with SqlLedger(database_url) as ledger:
        ledger.open_account("p1", Decimal(1000))
        ledger.adjust("p1", Decimal("-20.00"), reference="cashout-1")
        for call in played("b"):
            ledger.apply(call)
        assert ledger.verify().sound
        assert ledger.maintain().finished
        again.clear()
        assert ledger.verify(full=True).sound
    assert len(again) == 1
    assert again[0][1] - again[0][0] > 2**61


def test_books_of_several_hours_are_read_once(hours: SqlLedger, again: list[tuple[Any, ...]]) -> None:
    """A deposit is of another hour than its withdraw; what is folded is not read again."""
    assert hours.verify().sound
    assert len(again) == 1
    for number in range(4):
        assert hours.apply(deposit(f"b{number}-open")).applied
    assert drop(hours)
    again.clear()
    report = hours.verify(full=True)
    assert report.sound
    assert len(again) == 1
    assert report.postings == 0


@pytest.mark.parametrize("sealed", [False, True], ids=["not sealed", "sealed"])
@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("UPDATE {p}bets SET won_cents = 1 WHERE bet_id = 'b1-won'", "resolution_differs"),
        ("UPDATE {p}calls SET player_id = 'p2' WHERE tx_id = 'withdraw:bet:b1-won'", "withdraw_differs"),
        ("UPDATE {p}postings SET amount_cents = 7 WHERE tx_id = 'withdraw:bet:b1-open'", "wrong_posting"),
    ],
    ids=["bet", "call", "posting"],
)
def test_one_hour_is_read_again(
    hours: SqlLedger, sqlite_url: str, again: list[tuple[Any, ...]], statement: str, kind: str, sealed: bool
) -> None:
    """Of damage in the second of four hours, the others are not read row by row."""
    if sealed:
        assert hours.maintain().finished
    ((at_millis,),) = rows(sqlite_url, "SELECT at_millis FROM {p}calls WHERE tx_id = 'withdraw:bet:b1-won'")
    damage(sqlite_url, [statement])
    again.clear()
    assert kind in {each.kind for each in hours.verify(full=True).findings}
    start = at_millis // HOUR * HOUR
    assert [each for each in again if len(each) == 2][1:] == [(start, start + HOUR)]


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("UPDATE {p}slices SET cents = cents + 1", "slice_differs"),
        ("DELETE FROM {p}slices", "slice_differs"),
        ("UPDATE {p}checkpoints SET cents = cents + 1", "checkpoint_differs"),
        ("DELETE FROM {p}checkpoints", "checkpoint_differs"),
        ("UPDATE {p}closes SET position = 1", "totals_differ"),
        ("UPDATE {p}closes SET before_day = before_day - 2", "totals_differ"),
        ("DELETE FROM {p}sources", "unknown_source"),
    ],
)
def test_nothing_stored_is_trusted(hours: SqlLedger, sqlite_url: str, statement: str, kind: str) -> None:
    """Seals, checkpoints, closes and sources are compared with what they are of."""
    hours.close_totals(now_millis=1_700_000_000_000 + 3 * DAY)
    assert hours.maintain().sound
    assert hours.verify(full=True).sound
    damage(sqlite_url, [statement])
    assert {each.kind for each in hours.verify(full=True).findings} == {kind}


def _pretend_large(url: str) -> None:
    run(url, "ANALYZE")
    # As `PRAGMA optimize` leaves it: a table without statistics passes for a large one.
    run(url, "DELETE FROM sqlite_stat1 WHERE tbl = 'game_operator_sources'")
    for table, large in (("calls", "200000"), ("bets", "100000"), ("postings", "150000")):
        run(
            url,
            "UPDATE sqlite_stat1 SET stat = ? || substr(stat, instr(stat, ' ')) WHERE tbl = ?",
            large,
            f"game_operator_{table}",
        )


@pytest.mark.parametrize("analyze", [lambda _: None, _pretend_large], ids=["no statistics", "statistics"])
@pytest.mark.parametrize("full", [False, True], ids=["since the checkpoint", "all"])
def test_no_page_reads_a_table(
    hours: SqlLedger, sqlite_url: str, monkeypatch: pytest.MonkeyPatch, full: bool, analyze: Callable[[str], None]
) -> None:
    """
    With statistics of large tables SQLite would read all of one to make a Bloom filter, for each page.

    Without any, it would walk an index by its first column to spare itself a sort.
    """
    assert hours.maintain().finished
    hours.apply(withdraw("new"))
    run(sqlite_url, "ANALYZE")
    run(sqlite_url, "DELETE FROM sqlite_stat1")
    analyze(sqlite_url)
    plans: list[str] = []
    perform = Listing._perform

    def explained(self: Listing, connection: Any, step: Step) -> Any:
        if isinstance(step, Execute):
            plan = connection.execute(f"EXPLAIN QUERY PLAN {step.sql}", step.parameters).fetchall()
            plans.extend(row[3] for row in plan)
        return perform(self, connection, step)

    monkeypatch.setattr(Listing, "_perform", explained)
    assert hours.verify(full=full).sound
    scanned = {plan.split()[1] for plan in plans if plan.startswith("SCAN ")}
    assert scanned.isdisjoint({"b", "c", "d", "p", "q", "w", "game_operator_calls", "game_operator_bets"})
    assert [plan for plan in plans if plan.startswith(("BLOOM", "AUTOMATIC"))] == []
    # All bets have one source: to search by nothing else is to walk the index.
    assert [plan for plan in plans if plan.endswith("(source=?)")] == []
    assert any(plan.startswith("SEARCH b USING INDEX game_operator_bets_of_source") for plan in plans)
    assert any(plan.startswith("SEARCH c USING INDEX game_operator_calls_at") for plan in plans)
