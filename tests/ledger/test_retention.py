"""maintain(drop_after=…): old details go, and whatever tells a call from a new one stays for ever (spec §3)."""

import errno
import os
import stat
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from game_operator.ledger import MaintainReport, Outcome, SqlLedger, Terms
from game_operator.ledger.books import maintain, retention
from game_operator.ledger.books.maintain import Maintenance
from game_operator.models.webhooks import WebhookCall
from game_operator.profile import Profile
from tests.support.aged_books import archived
from tests.support.calls import claim, deposit, rollback, with_body, withdraw
from tests.support.raw_sql import damage, is_sqlite, row, rows, run
from tests.support.retention import at_time, drop, dropping
from tests.support.times import RunningClock

pytestmark = [pytest.mark.outside, pytest.mark.drawn(9, database_url=("postgres",))]

DAY = 86_400_000
QUARTER = timedelta(days=90)
VERBATIM = Terms(rules=Profile(duplicate_reply="verbatim"))
FAR_MILLIS = 4_102_444_800_000


CALLED = "UPDATE {p}calls SET %s WHERE tx_id = '%s'"
PLAYED: tuple[WebhookCall, ...] = (
    withdraw("closed"),
    deposit("closed"),
    withdraw("rolled"),
    rollback("rolled", tx_id="withdraw:bet:rolled"),
    rollback("tomb", tx_id="withdraw:bet:tomb"),
    withdraw("declined", amount_cents=10**9),
    withdraw("spent", action="RAIN"),
    claim("claim-1"),
    claim("jackpot-1", bet_id="closed", action="JACKPOT", amount_cents=90_000),
)
HISTORY = tuple(map(with_body, PLAYED))
BALANCE = 10_000 - 500 + 1250 - 500 + 300 + 90_000


def played(ledger: SqlLedger, calls: Sequence[WebhookCall] = HISTORY, terms: Terms = VERBATIM) -> list[Outcome]:
    """Open p1 with 100.00 and apply *calls*."""
    ledger.open_account("p1", Decimal(100))
    return [ledger.apply(call, terms=terms) for call in calls]


def kept(url: str) -> tuple[Any, ...]:
    """Return what stays for ever: identity and content of calls, and bets whole."""
    calls = "source, operation, tx_id, player_id, account, bet_id, action, amount_cents, code, at_millis"
    return (
        rows(url, f"SELECT {calls} FROM {{p}}calls ORDER BY source, operation, tx_id"),
        rows(url, "SELECT * FROM {p}bets ORDER BY bet_id"),
        rows(url, "SELECT * FROM {p}accounts ORDER BY account"),
    )


def kinds(ledger: SqlLedger) -> set[str]:
    """Return the kinds of what a full verify finds."""
    return {finding.kind for finding in ledger.verify(full=True).findings}


def reasons(report: MaintainReport) -> set[str]:
    """Return why days stay."""
    return {day.reason for day in report.kept}


def test_what_goes_and_what_stays(database_url: str) -> None:
    """Bodies and postings go; identities, answers, bets and their digests stay."""
    with SqlLedger(database_url) as ledger:
        played(ledger)
        before = kept(database_url)
        report = dropping(ledger)
        ((day, postings, cents, *no_file),) = report.dropped
        assert (postings, cents, no_file, report.kept) == (8, BALANCE, ["", ""], ())
        assert kept(database_url) == before
        assert rows(database_url, "SELECT COUNT(*) FROM {p}calls WHERE body IS NOT NULL") == [(0,)]
        assert rows(database_url, "SELECT COUNT(*) FROM {p}postings") == [(0,)]
        assert rows(database_url, "SELECT account, cents FROM {p}carried") == [("p1", BALANCE)]
        assert ledger.verify().findings == ()
        assert ledger.verify(full=True).findings == ()
        assert ledger.totals().rows[0].day == day
        assert ledger.balance("p1") == BALANCE


@pytest.mark.parametrize("rules", [Profile(), Profile(duplicate_reply="verbatim")], ids=["current", "verbatim"])
def test_a_captured_call_moves_nothing_after_its_day_is_dropped(database_url: str, rules: Profile) -> None:
    """Claims and withdraws, played again when their details are gone, are known again (scenarios E07, B11)."""
    terms = Terms(rules=rules)
    with SqlLedger(database_url) as ledger:
        first = played(ledger, terms=terms)
        assert drop(ledger) == 8
        again = [ledger.apply(call, terms=terms) for call in HISTORY]
        assert ledger.balance("p1") == BALANCE
        assert [outcome.applied for outcome in again] == [False] * len(HISTORY)
        rolled_back = {2: "BET_ROLLED_BACK"}
        assert [outcome.code for outcome in again] == [rolled_back.get(n, one.code) for n, one in enumerate(first)]
        is_verbatim = rules.duplicate_reply == "verbatim"
        for number in (0, 1, 3, 6, 7, 8):
            assert again[number].balance_cents == (first[number].balance_cents if is_verbatim else BALANCE)
        assert ledger.verify().findings == ()


def test_known_again_the_day_before_it_may_be_dropped(database_url: str) -> None:
    """Nothing is dropped before 90 days: a call of 89 days ago has its very reply (scenario B11)."""
    with SqlLedger(database_url) as ledger:
        first = played(ledger)
        newest = rows(database_url, "SELECT MAX(at_millis) FROM {p}calls")[0][0]
        report = dropping(ledger, newest + 89 * DAY)
        assert rows(database_url, "SELECT COUNT(*) FROM {p}calls WHERE body IS NOT NULL") == [(2,)]
        assert report.dropped == ()
        again = ledger.apply(HISTORY[0], terms=VERBATIM)
        assert (again.balance_cents, again.at_millis, again.replayed) == (
            first[0].balance_cents,
            first[0].at_millis,
            True,
        )


@pytest.mark.parametrize(
    ("settings", "error", "problem"),
    [
        pytest.param({"drop_after": QUARTER - timedelta(milliseconds=1)}, ValueError, "drop_after", id="under 90 days"),
        pytest.param({"drop_after": True}, TypeError, "drop_after", id="a bool"),
        pytest.param({"drop_after": 90.0 * DAY}, TypeError, "drop_after", id="a float"),
        pytest.param({"archive": Path()}, ValueError, "without drop_after", id="an archive of nothing"),
        *(
            pytest.param({"drop_after": QUARTER, "archive": wrong}, NotADirectoryError, "archive is '", id=why)
            for why, wrong in (("at nothing", ""), ("nowhere", "missing"), ("at a file", __file__))
        ),
    ],
)
def test_what_is_never_dropped_or_archived(
    sqlite_url: str, settings: dict[str, Any], error: type[Exception], problem: str
) -> None:
    """It is refused before anything is touched: at the end, it would leave days that were told to be archived."""
    with SqlLedger(sqlite_url) as ledger:
        with pytest.raises(error, match=problem):
            ledger.maintain(**settings)
        assert ledger.verify().checkpoint_millis is None


@pytest.mark.parametrize("drop_after", [QUARTER, 90 * DAY], ids=["a timedelta", "milliseconds"])
def test_the_limit_of_a_day(database_url: str, drop_after: timedelta | int) -> None:
    """A day goes once all of it is 90 days old, and not a millisecond before."""
    with SqlLedger(database_url) as ledger:
        ledger.open_account("p1", Decimal(1))
        (at_millis,) = rows(database_url, "SELECT at_millis FROM {p}postings")[0]
        over = (at_millis // DAY + 1) * DAY + 90 * DAY
        assert dropping(ledger, over - 1, age=drop_after).dropped == ()
        assert [day.postings for day in dropping(ledger, over, age=drop_after).dropped] == [1]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A folder for what is dropped."""
    folder = tmp_path / "archive"
    folder.mkdir()
    return folder


_POSTINGS = "SELECT id, from_account, to_account, amount_cents, source, operation, tx_id, at_millis FROM {p}postings"


def test_a_day_is_archived_first(database_url: str, archive: Path) -> None:
    """A file of its postings, readable by nobody else, whose digest the report says."""
    with SqlLedger(database_url) as ledger:
        played(ledger, [*HISTORY, claim('comma, quote" and\nline')])
        before = rows(database_url, f"{_POSTINGS} ORDER BY id")
        report = dropping(ledger, archive=archive)
        ((day, postings, _, file, digest),) = report.dropped
        assert Path(file).name == f"game_operator_postings-{day}-1-{before[-1][0]}.csv"
        assert (postings, archived(archive)) == (len(before), before)
        assert [*archive.iterdir()] == [Path(file)]
        assert sha256(Path(file).read_bytes()).hexdigest() == digest
        assert stat.S_IMODE(Path(file).stat().st_mode) == 0o600
        assert rows(database_url, "SELECT COUNT(*) FROM {p}postings") == [(0,)]
        assert ledger.verify(full=True).sound


def test_a_file_of_another_ledger_is_not_replaced(sqlite_url: str, archive: Path) -> None:
    """Two ledgers may give a day the same name: the file that is there stays, and so does the day."""
    with SqlLedger(sqlite_url) as ledger:
        played(ledger)
        before = rows(sqlite_url, f"{_POSTINGS} ORDER BY id")
        (day,) = (each.day for each in dropping(ledger, archive=archive).dropped)
    (file,) = archive.iterdir()
    with SqlLedger(sqlite_url.replace(".db", "-other.db")) as other:
        played(other, [*HISTORY[:-1], claim("another")])
        with pytest.raises(FileExistsError, match="another file has that name"):
            dropping(other, archive=archive)
        assert rows(other._url, "SELECT COUNT(*) FROM {p}postings") == [(len(before),)], day
    assert archived(archive) == before
    assert list(archive.iterdir()) == [file]


def test_a_file_that_cannot_be_written(sqlite_url: str, archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is none that seems complete, the day stays, and the next run archives and drops it."""
    with SqlLedger(sqlite_url) as ledger:
        played(ledger)
        before = rows(sqlite_url, f"{_POSTINGS} ORDER BY id")
        with monkeypatch.context() as full_disk:
            full_disk.setattr(os, "fsync", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
            with pytest.raises(OSError, match="No space left") as failed:
                dropping(ledger, archive=archive)
        assert str(failed.value.filename).startswith(f"{archive}/game_operator_postings-")
        assert list(archive.iterdir()) == []
        assert rows(sqlite_url, f"{_POSTINGS} ORDER BY id") == before
        with monkeypatch.context() as bad_disk:
            bad_disk.setattr(retention, "file_digest", lambda *_: sha256(b"another content"))
            with pytest.raises(OSError, match="read back"):
                dropping(ledger, archive=archive)
        assert rows(sqlite_url, f"{_POSTINGS} ORDER BY id") == before
        assert len(dropping(ledger, archive=archive).dropped) == 1
        assert archived(archive) == before


def test_the_folder_is_synced_before_the_day_goes(
    sqlite_url: str, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File, name and folder are on the disk while all postings are still there."""
    synced, left = os.fsync, []

    def seen(handle: int) -> None:
        synced(handle)
        is_folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        left.append((is_folder, len(list(archive.glob("*.csv"))), len(rows(sqlite_url, _POSTINGS))))

    monkeypatch.setattr(os, "fsync", seen)
    with SqlLedger(sqlite_url) as ledger:
        played(ledger)
        dropping(ledger, archive=archive)
    assert left == [(False, 0, 8), (True, 1, 8)]


def test_a_day_that_gets_postings_later(sqlite_url: str, archive: Path, clock: RunningClock) -> None:
    """They are folded too, into a file for themselves: what was archived before is not replaced."""
    with SqlLedger(sqlite_url, clock_millis=clock) as ledger:
        played(ledger)
        first = rows(sqlite_url, f"{_POSTINGS} ORDER BY id")
        clock.millis += 100 * DAY
        ledger.open_account("p2", Decimal(1))
        assert len(ledger.maintain(drop_after=QUARTER, archive=archive).dropped) == 1
        assert ledger.verify(full=True).sound
        ledger.open_account("p3", Decimal(2))
        damage(
            sqlite_url,
            [
                f"UPDATE {{p}}postings SET at_millis = {first[-1][-1]} WHERE to_account = 'p3'",
                f"UPDATE {{p}}calls SET at_millis = {first[-1][-1]} WHERE account = 'p3'",
            ],
        )
        ledger.open_account("p4", Decimal(1))
        assert ledger.verify(full=True).sound
        clock.millis += DAY
        assert [day.postings for day in ledger.maintain(drop_after=QUARTER, archive=archive).dropped] == [1]
        assert len(archived(archive)) == 9
        assert len(list(archive.iterdir())) == 2
        assert ledger.verify(full=True).sound


def test_a_day_with_an_open_bet_stays(database_url: str, archive: Path) -> None:
    """Whole, without a file, and the report says so; once it is settled, the day goes."""
    with SqlLedger(database_url) as ledger:
        played(ledger, [*HISTORY, withdraw("open")])
        report = dropping(ledger, archive=archive)
        assert (report.dropped, reasons(report), archived(archive)) == ((), {"open bets"}, [])
        ledger.apply(deposit("open"))
        assert [day.postings for day in dropping(ledger, archive=archive).dropped] == [10]
        assert ledger.verify(full=True).sound


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE {p}meta SET value = 1 WHERE name = 'checkpoint_position'", "not sealed"),
        ("UPDATE {p}closes SET position = 2", "not closed"),
        ("UPDATE {p}slices SET findings = 1", "findings"),
    ],
)
def test_why_a_day_stays(database_url: str, statement: str, reason: str) -> None:
    """Each reason is asked from one snapshot."""
    with SqlLedger(database_url) as ledger:
        played(ledger)
        day = rows(database_url, "SELECT at_millis FROM {p}postings")[0][0] // DAY
        with at_time(database_url, FAR_MILLIS):
            assert ledger.maintain().sound
        assert ledger._read(partial(retention.why_kept, "game_operator_", day)) == ""
        damage(database_url, [statement])
        assert ledger._read(partial(retention.why_kept, "game_operator_", day)) == reason


def test_postings_that_change_before_they_go(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is deleted is compared with the seal in the same transaction."""
    folded = Maintenance._day_folded

    def changed(self: Maintenance, *given: Any, **more: Any) -> Any:
        damage(database_url, ["UPDATE {p}postings SET tx_id = 'x' WHERE tx_id = 'claim-1'"])
        return folded(self, *given, **more)

    with SqlLedger(database_url) as ledger:
        played(ledger)
        with monkeypatch.context() as patch:
            patch.setattr(Maintenance, "_day_folded", changed)
            assert reasons(dropping(ledger)) == {"damaged"}
        assert rows(database_url, "SELECT COUNT(*) FROM {p}postings") == [(8,)]
        assert rows(database_url, "SELECT value FROM {p}meta WHERE name = 'dropping'") == [(0,)]


def test_a_day_of_many_slices_that_is_left_half_way(
    database_url: str, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each slice is folded in a transaction for itself, and the books are sound in between; the next run goes on."""
    monkeypatch.setattr(maintain, "WINDOW", 2)
    with SqlLedger(database_url) as ledger:
        played(ledger)
        before = rows(database_url, f"{_POSTINGS} ORDER BY id")
        fold = retention.fold_slice
        done: list[object] = []

        def killed(*given: Any) -> Any:
            if len(done) == 2:
                raise KeyboardInterrupt
            done.append(given)
            return fold(*given)

        with monkeypatch.context() as patch:
            patch.setattr(retention, "fold_slice", killed)
            with pytest.raises(KeyboardInterrupt):
                dropping(ledger, archive=archive)
        assert len(rows(database_url, _POSTINGS)) == 4
        assert ledger.verify().sound
        assert ledger.verify(full=True).sound
        (first,) = archive.iterdir()
        assert archived(archive) == before
        assert [day.postings for day in dropping(ledger, archive=archive).dropped] == [4]
        assert ledger.verify(full=True).sound
        # Nothing is lost, and what has left twice is the same row.
        assert set(archived(archive)) == set(before)
        assert first.exists()


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        row(
            "balance_differs carried_differs checkpoint_differs",
            "all that was carried forward",
            "DELETE FROM {p}carried",
        ),
        row(
            "carried_differs folded_differs totals_differ",
            "a claim whose posting is folded",
            CALLED % ("amount_cents = amount_cents + 1", "claim-1"),
        ),
        row("folded_differs", "a claim that could be paid again", CALLED % ("tx_id = 'claim-2'", "claim-1")),
        row(
            "unknown_source folded_differs totals_differ", "the source of a claim", CALLED % ("source = 's'", "claim-1")
        ),
        row("folded_differs", "the digest", "UPDATE {p}slices SET calls_digest = NULL"),
        row(
            "carried_unasked slice_differs call_without_posting",
            "that a day was folded",
            "UPDATE {p}slices SET folded_at_millis = NULL",
        ),
    ],
)
def test_damage_after_a_drop_is_found(database_url: str, statements: tuple[str, ...], expected: set[str]) -> None:
    """The sum carried forward must be that of the calls whose postings it stands for, and they are the same calls."""
    with SqlLedger(database_url) as ledger:
        played(ledger)
        assert drop(ledger)
        damage(database_url, statements)
        assert kinds(ledger) == expected


def test_anomalies_keep_their_bodies_until_they_are_resolved(database_url: str) -> None:
    """Somebody has still to look at the others; a body that is gone is counted all the same."""
    early = with_body(deposit("early"))
    with SqlLedger(database_url) as ledger:
        ledger.open_account("p1", Decimal(100))
        for call in (early, with_body(rollback("tomb", tx_id="withdraw:bet:tomb"))):
            ledger.apply(call)
        first, _ = ledger.anomalies()
        ledger.resolve(first.id)
        newest = rows(database_url, "SELECT MAX(last_at_millis) FROM {p}anomalies")[0][0]
        with_bodies = "SELECT COUNT(*) FROM {p}anomalies WHERE length(body) > 0"
        dropping(ledger, newest + 89 * DAY)
        assert rows(database_url, with_bodies) == [(2,)]
        dropping(ledger, newest + 91 * DAY)
        assert rows(database_url, with_bodies) == [(1,)]
        ledger.apply(early)
        seen = [(record.kind, record.body == b"", record.seen) for record in ledger.anomalies(resolved=None)]
        assert seen == [("early_deposit", True, 2), ("early_rollback", False, 1)]


@pytest.mark.parametrize(
    "statement",
    ["UPDATE {p}postings SET amount_cents = 1", "DELETE FROM {p}postings", "TRUNCATE {p}postings"],
    ids=["update", "delete", "truncate"],
)
def test_postings_are_not_changed_outside_maintain(database_url: str, statement: str) -> None:
    """The database itself refuses it, before and after a drop; TRUNCATE is PostgreSQL's alone."""
    if is_sqlite(database_url) and statement.startswith("TRUNCATE"):
        statement = "REPLACE INTO {p}postings SELECT * FROM {p}postings"
    with SqlLedger(database_url) as ledger:
        played(ledger)
        for is_dropped in (False, True):
            if is_dropped:
                assert dropping(ledger).dropped
                ledger.adjust("p1", Decimal(1), reference="later")
            before = rows(database_url, "SELECT * FROM {p}postings ORDER BY id")
            with pytest.raises(Exception, match="postings are never"):
                run(database_url, statement)
            assert rows(database_url, "SELECT * FROM {p}postings ORDER BY id") == before
    assert len(before) == 1
