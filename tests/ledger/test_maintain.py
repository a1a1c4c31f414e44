"""maintain(): what is sealed, what is read again, and what it finds of damage before a checkpoint (spec §3)."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from game_operator.ledger import SqlLedger
from game_operator.ledger.books import maintain as module
from game_operator.ledger.books import slices, verify
from game_operator.ledger.books.verify import read_marks
from tests.support.calls import deposit, some_of_each_end, withdraw
from tests.support.ledgers import funded
from tests.support.raw_sql import damage, is_sqlite, row, rows, run
from tests.support.times import RunningClock

pytestmark = [
    pytest.mark.outside,
    pytest.mark.usefixtures("few_days"),
    pytest.mark.drawn(6, database_url=("postgres",)),
]

DAY = 86_400_000


def played(ledger: SqlLedger, name: str = "b") -> None:
    """Play bets of each end, and pay a claim."""
    for call in some_of_each_end(name):
        assert ledger.apply(call).applied


@pytest.fixture
def sealed(database_url: str, clock: RunningClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlLedger]:
    """A ledger with a checkpoint behind what was played, and no margin: on PostgreSQL no time passes meanwhile."""
    monkeypatch.setattr(verify, "_MARGIN_MILLIS", 0)
    with funded(database_url, 100, clock_millis=clock) as ledger:
        played(ledger)
        clock.millis += 60_000
        assert ledger.maintain().finished
        yield ledger


@pytest.fixture
def no_rereading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what is read again of what is sound: in small books that is everything."""
    monkeypatch.setattr(module.Maintenance, "again", lambda *_: (_ for _ in ()))


def kinds(report: Any) -> set[str]:
    """Return the kinds of its findings."""
    return {finding.kind for finding in report.findings}


def test_what_is_sealed_is_not_read_again(sealed: SqlLedger) -> None:
    """Verify compares all balances, and reads what came since; --full reads everything."""
    report = sealed.verify()
    assert (report.sound, report.postings, report.accounts) == (True, 0, 1)
    assert report.checkpoint_millis is not None
    sealed.apply(withdraw("new"))
    report = sealed.verify()
    assert (report.sound, report.postings) == (True, 1)
    full = sealed.verify(full=True)
    assert (full.sound, full.checkpoint_millis, full.postings) == (True, None, 9)
    assert (full.balances_cents, full.house_cents) == (report.balances_cents, report.house_cents)


BALANCE, CHECKPOINT = "accounts SET balance_cents = balance_cents + 1", "checkpoints SET cents = cents + 1"
#: Damage before the checkpoint, and what reading everything finds.
BEFORE = [
    row("balance_differs", "a balance", f"UPDATE {{p}}{BALANCE}"),
    row(
        "balance_differs checkpoint_differs slice_differs wrong_posting",
        "a posting changed",
        "UPDATE {p}postings SET amount_cents = amount_cents + 1 WHERE tx_id = 'deposit:bet:b-won'",
    ),
    row(
        "call_without_posting slice_differs",
        "a wager and its refund deleted, which cancel out",
        "DELETE FROM {p}postings WHERE tx_id = 'withdraw:bet:b-back'",
    ),
    row(
        "balance_differs checkpoint_differs",
        "a balance, and the checkpoint to suit",
        *(f"UPDATE {{p}}{each}" for each in (BALANCE, CHECKPOINT)),
    ),
    row("checkpoint_differs", "a checkpoint", f"UPDATE {{p}}{CHECKPOINT}"),
    row("slice_differs", "a seal", "UPDATE {p}slices SET digest = substr(digest, 1, 31) || substr(digest, 1, 1)"),
]


@pytest.mark.drawn(4)
@pytest.mark.parametrize(("statements", "expected"), BEFORE)
def test_damage_before_a_checkpoint(
    sealed: SqlLedger, database_url: str, statements: tuple[str, ...], expected: set[str]
) -> None:
    """Balances are compared each time, which shows one that is changed alone; the rest is found by reading all."""
    if is_sqlite(database_url):  # There texts and bytes differ.
        statements = tuple(
            each.replace("substr(digest, 1, 31) || substr(digest, 1, 1)", "zeroblob(32)") for each in statements
        )
    damage(database_url, statements)
    assert bool(kinds(sealed.verify())) == (expected in ({"balance_differs"}, {"checkpoint_differs"}))
    assert kinds(sealed.verify(full=True)) == expected


@pytest.mark.parametrize(
    ("change", "expected", "afterwards"),
    [
        ("bets SET wager_cents = wager_cents + %d WHERE bet_id = 'x'", {"withdraw_differs"}, set()),
        (
            "postings SET amount_cents = amount_cents + %d WHERE tx_id = 'withdraw:bet:x'",
            {"balance_differs", "wrong_posting"},
            {"balance_differs", "slice_differs"},  # It was sealed when it was wrong.
        ),
    ],
    ids=["bet", "posting"],
)
@pytest.mark.usefixtures("no_rereading")
@pytest.mark.drawn(2)
def test_a_damaged_day_is_read_again_until_it_is_sound(
    sealed: SqlLedger, database_url: str, change: str, expected: set[str], afterwards: set[str]
) -> None:
    """What was found is reported by each run and by verify, not only by the one that came across it."""
    sealed.apply(withdraw("x"))
    sealed.apply(deposit("x", amount_cents=0))
    damage(database_url, [f"UPDATE {{p}}{change}" % 1])
    assert kinds(sealed.maintain()) == expected
    for _ in range(3):
        assert kinds(sealed.verify()) == expected
        assert kinds(sealed.maintain()) == expected
    damage(database_url, [f"UPDATE {{p}}{change}" % -1])
    assert kinds(sealed.verify()) == afterwards
    assert kinds(sealed.maintain()) == afterwards
    ((damaged,),) = rows(database_url, "SELECT COUNT(*) FROM {p}slices WHERE findings > 0")
    assert bool(damaged) == bool(afterwards)


def test_a_first_run_looks_at_the_order_of_all_postings(database_url: str, clock: RunningClock) -> None:
    """Behind a first checkpoint is all that ever was."""
    with funded(database_url, 100, clock_millis=clock) as ledger:
        played(ledger)
        ((before,),) = rows(database_url, "SELECT at_millis FROM {p}postings WHERE tx_id = 'withdraw:bet:b-won'")
        move = f"UPDATE {{p}}postings SET at_millis = {before} WHERE tx_id = 'deposit:bet:b-won'"
        damage(database_url, [move])
        assert kinds(ledger.maintain()) == {"time_goes_back"}


@pytest.mark.usefixtures("no_rereading")
def test_postings_out_of_order_are_read_again_until_they_are_right(sealed: SqlLedger, database_url: str) -> None:
    """Each is sealed as it is and agrees with its call's amount, so no day shows that time went back on an account."""
    sealed.apply(withdraw("x"))
    sealed.apply(deposit("x"))
    ((at_millis,),) = rows(database_url, "SELECT at_millis FROM {p}postings WHERE tx_id = 'deposit:bet:x'")
    move = "UPDATE {p}postings SET at_millis = %d WHERE tx_id = 'deposit:bet:x'"
    ((before,),) = rows(database_url, "SELECT at_millis FROM {p}postings WHERE tx_id = 'withdraw:bet:x'")
    damage(database_url, [move % before])
    for _ in range(3):
        assert kinds(sealed.maintain()) == {"time_goes_back"}
        assert kinds(sealed.verify()) == {"time_goes_back"}
    assert rows(database_url, "SELECT COUNT(*) FROM {p}slices WHERE findings > 0") != [(0,)]
    damage(database_url, [move % at_millis])
    # What was sealed was wrong.
    assert kinds(sealed.maintain()) == {"slice_differs"}


@pytest.mark.drawn(1)
def test_beside_calls_and_another_run(database_url: str) -> None:
    """Two runs at once, beside threads that play: each books' reading is sound, and everything is sealed once."""
    stop = threading.Event()
    one, two = (SqlLedger(database_url, patience_seconds=30) for _ in range(2))
    with one, two, ThreadPoolExecutor(5) as threads:
        one.open_account("p1", Decimal(1_000_000))

        def play(name: int) -> int:
            done = 0
            while not stop.is_set() and done < 100:
                played(one, f"{name}-{done}")
                done += 1
            return done

        playing = [threads.submit(play, name) for name in range(3)]
        try:
            for _ in range(4):
                running = [threads.submit(each.maintain) for each in (one, two)]
                assert [each.result().findings for each in running] == [(), ()]
                assert one.verify().sound
        finally:
            stop.set()
        assert sum(each.result() for each in playing) > 0
        report = one.maintain()
        assert (report.finished, report.sound) == (True, True)
        (counts,) = rows(database_url, "SELECT (SELECT SUM(count) FROM {p}slices), (SELECT COUNT(*) FROM {p}postings)")
        assert counts[0] == counts[1]
        assert one.verify(full=True).sound


@pytest.mark.usefixtures("no_rereading")
def test_damage_of_an_older_bet_that_is_settled_after_the_checkpoint(sealed: SqlLedger, database_url: str) -> None:
    """A bet is checked when a call names it, and not only with those that are opened at that time."""
    sealed.apply(deposit("b-open"))
    run(database_url, "UPDATE {p}bets SET won_cents = 1 WHERE bet_id = 'b-open'")
    assert kinds(sealed.verify()) == {"resolution_differs"}
    assert kinds(sealed.maintain()) == {"resolution_differs"}


def test_a_run_that_is_killed_leaves_a_mark(
    sealed: SqlLedger, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damage is marked in the transaction that seals it."""
    sealed.apply(withdraw("x"))
    damage(database_url, ["UPDATE {p}postings SET amount_cents = 1 WHERE tx_id = 'withdraw:bet:x'"])

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module.Maintenance, "_times", killed)
        with pytest.raises(KeyboardInterrupt):
            sealed.maintain()
    assert kinds(sealed.verify()) == {"balance_differs", "wrong_posting"}


def test_a_window_is_sealed_once(sealed: SqlLedger, database_url: str) -> None:
    """Two runs that have read the same postings: the second stores nothing."""
    position = sealed._read(partial(read_marks, "game_operator_")).position
    sealed.apply(withdraw("x"))
    window = sealed._read(partial(slices.next_window, "game_operator_", position, 10**9, 10))
    assert window is not None
    assert sealed._write(partial(slices.seal, sealed._fit, position, window, ()))
    before = rows(database_url, "SELECT * FROM {p}checkpoints")
    assert not sealed._write(partial(slices.seal, sealed._fit, position, window, ()))
    assert rows(database_url, "SELECT * FROM {p}checkpoints") == before
    assert sealed.verify(full=True).sound


def test_a_posting_at_midnight(sqlite_url: str, clock: RunningClock) -> None:
    """It belongs to the new day, in its slice as in what is read and folded."""
    clock.millis = 20_600 * DAY - 4
    with funded(sqlite_url, 100, clock_millis=clock) as ledger:
        while clock.millis < 20_600 * DAY + 4:
            ledger.adjust("p1", Decimal(1), reference=f"{clock.millis}")
        assert ledger.maintain().sound
        counts = dict(rows(sqlite_url, "SELECT day, count FROM {p}slices"))
        (midnight,) = rows(sqlite_url, "SELECT COUNT(*) FROM {p}postings WHERE at_millis = ?", 20_600 * DAY)[0]
        (before,) = rows(sqlite_url, "SELECT COUNT(*) FROM {p}postings WHERE at_millis < ?", 20_600 * DAY)[0]
        assert (midnight, counts[20_599]) == (1, before)
        assert ledger.verify(full=True).sound
        clock.millis += 90 * DAY
        ledger.adjust("p1", Decimal(1), reference="later")
        assert [day.postings for day in ledger.maintain(drop_after=90 * DAY).dropped] == [before]
        assert ledger.verify(full=True).sound


def test_an_account_whose_time_was_corrected(sqlite_url: str, clock: RunningClock) -> None:
    """Its postings are of two days in one window, later ids earlier; what comes after the checkpoint still counts."""
    with funded(sqlite_url, 100, clock_millis=clock) as ledger:
        clock.millis += 40 * DAY
        played(ledger, "ahead")
        assert ledger.maintain().sound
        clock.millis -= 40 * DAY
    with SqlLedger(sqlite_url, clock_millis=clock) as ledger:
        ledger.correct_time("p1")
        played(ledger, "right")
        assert (ledger.verify().findings, ledger.verify().postings) == ((), 7)
        clock.millis += 40 * DAY
        played(ledger, "then")
        report = ledger.maintain()
        assert (report.findings, report.sealed) == ((), 14)
        assert ledger.verify(full=True).sound


def test_all_is_read_again_in_a_month(sqlite_url: str, clock: RunningClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not all in one night, and also what is not at the beginning; after 25 days without a run, at once."""
    monkeypatch.setattr(module, "WINDOW", 1)
    monkeypatch.setattr(verify, "_ACCOUNTS", 2)
    with SqlLedger(sqlite_url, clock_millis=clock) as ledger:
        for day in range(30):
            ledger.open_account(f"p{day:02}", Decimal(1))
            ledger.apply(withdraw(f"b-{day}", player_id=f"p{day:02}", amount_cents=1))
            clock.millis += DAY
        report = ledger.maintain()
        assert (report.sound, report.sealed, report.read_again) == (True, 60, 0)
        first = rows(sqlite_url, "SELECT MAX(value) FROM {p}meta WHERE name = 'verified_millis'")
        clock.millis += DAY
        report = ledger.maintain()
        assert (report.sound, report.read_again, report.finished) == (True, 4, True)
        assert 0 < report.read["bets"] < 5
        assert 30 < report.read["accounts"] < 40
        assert rows(sqlite_url, "SELECT MAX(value) FROM {p}meta WHERE name = 'verified_millis'") > first
        run(sqlite_url, "UPDATE {p}bets SET wager_cents = 2 WHERE bet_id = 'b-20'")
        for name in ("accounts SET balance_cents = balance_cents", "checkpoints SET cents = cents"):
            run(sqlite_url, f"UPDATE {{p}}{name} + 1 WHERE account = 'p20'")
        found: set[str] = set()
        for _ in range(27):
            clock.millis += DAY
            found |= kinds(ledger.maintain())
        assert found == {"withdraw_differs", "balance_differs", "checkpoint_differs"}
        assert min(row[0] for row in rows(sqlite_url, "SELECT read_at_millis FROM {p}slices")) > first[0][0]
        clock.millis += 25 * DAY
        ledger.adjust("p29", Decimal(1), reference="later")
        assert ledger.maintain().read_again == 61


def test_no_time_at_all(sealed: SqlLedger, database_url: str) -> None:
    """A run of no seconds does nothing, says so, and does not forget what was found."""
    sealed.apply(withdraw("x"))
    run(database_url, "UPDATE {p}bets SET wager_cents = wager_cents + 1 WHERE bet_id = 'x'")
    assert kinds(sealed.maintain()) == {"withdraw_differs"}
    run(database_url, "UPDATE {p}bets SET wager_cents = wager_cents - 1 WHERE bet_id = 'x'")
    report = sealed.maintain(seconds=0)
    assert (report.finished, report.sealed, report.read_again) == (False, 0, 0)
    assert rows(database_url, "SELECT COUNT(*) FROM {p}slices WHERE findings = 0") == [(0,)]
    assert sealed.maintain().finished
    assert rows(database_url, "SELECT COUNT(*) FROM {p}slices WHERE findings > 0") == [(0,)]
