"""Totals: what counts as what, whole days, late entries, closes that are interrupted, repeated and raced."""

import contextlib
import subprocess
import sys
import threading
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from game_operator.errors import LedgerError, LedgerUnavailableError
from game_operator.ledger import SqlLedger, Terms, TotalsReport, TotalsRow, sql
from game_operator.ledger.books import totals as module
from game_operator.models.webhooks import MovingCall
from game_operator.profile import Profile
from tests.support.calls import claim, deposit, rollback, withdraw
from tests.support.raw_sql import damage, rows, run
from tests.support.retention import drop, keep_one
from tests.support.times import StoppedClock

DAY = 86_400_000
NOON = 19_675 * DAY + DAY // 2
ACTIONS = Profile(
    claim_types=("FREE_BET_CLAIM", "JACKPOT", "CASHBACK"), withdraw_actions=("BET", "RAIN", "TIP", "BONUS"),
    spent_actions=("RAIN", "TIP"),
)  # fmt: skip


def now_of(url: str) -> int:
    """Return the time of PostgreSQL's clock."""
    return int(rows(url, "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)")[0][0])


def euros(_call: MovingCall) -> str:
    return "EUR"


TERMS = Terms(rules=ACTIONS, currency_of=euros)


def play(ledger: SqlLedger, *calls: MovingCall, terms: Terms = TERMS) -> None:
    """Apply *calls*, which all move money."""
    for call in calls:
        assert ledger.apply(call, terms=terms).applied, call


def only(report: TotalsReport) -> TotalsRow:
    """Return the one row that is there, of the one currency."""
    (row,) = (row for row in report.by_currency() if row.currency == "EUR")
    return row


def posted(url: str) -> int:
    """Return the sum of all postings."""
    sql = "SELECT SUM(CASE WHEN to_account IS NULL THEN -amount_cents ELSE amount_cents END) FROM {p}postings"
    return int(rows(url, sql)[0][0])


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        pytest.param([withdraw()], {"wagers": (1, 500)}, id="a wager"),
        pytest.param([withdraw(), deposit()], {"wagers": (1, 500), "wins": (1, 1250)}, id="a win"),
        pytest.param([withdraw(), deposit(amount_cents=0)], {"wagers": (1, 500)}, id="a loss has no posting"),
        pytest.param([withdraw(), rollback()], {"wagers": (1, 500), "refunds": (1, 500)}, id="a refund"),
        pytest.param([withdraw(action="RAIN")], {"rain": (1, 500)}, id="a RAIN"),
        pytest.param(
            [withdraw(action="RAIN"), rollback(tx_id=None)],
            {"rain": (1, 500), "rain_refunds": (1, 500)},
            id="a RAIN, refunded",
        ),
        pytest.param([withdraw(action="TIP")], {"rain": (1, 500)}, id="another action that no deposit settles"),
        pytest.param(
            [withdraw(action="BONUS"), deposit(action="BONUS", is_claim=False)],
            {"wagers": (1, 500), "wins": (1, 1250)},
            id="a bet of another action",
        ),
        pytest.param([claim()], {"free_bets": (1, 300)}, id="free bets"),
        pytest.param([claim(action="JACKPOT")], {"jackpots": (1, 300)}, id="a jackpot"),
        pytest.param([claim(action="CASHBACK")], {"claims": (1, 300)}, id="another claim"),
        pytest.param(
            [withdraw(), claim(action="JACKPOT", bet_id="b1"), deposit()],
            {"wagers": (1, 500), "jackpots": (1, 300), "wins": (1, 1250)},
            id="a jackpot that names a bet is no win of it",
        ),
    ],
)
@pytest.mark.drawn(9)
def test_what_counts_as_what(url: str, calls: list[MovingCall], expected: dict[str, tuple[int, int]]) -> None:
    """Each posting is of one kind; gross gaming revenue is wagers − wins − refunds, and nothing else."""
    with SqlLedger(url) as ledger:
        ledger.open_account("p1", Decimal(100))
        play(ledger, *calls)
        report = ledger.totals()
        row = only(report)
        found = {kind: (getattr(row, kind), getattr(row, f"{kind}_cents")) for kind in module.KINDS}
        assert {kind: both for kind, both in found.items() if both != (0, 0)} == expected
        cents = {kind: both[1] for kind, both in expected.items()}
        revenue = cents.get("wagers", 0) - cents.get("wins", 0) - cents.get("refunds", 0)
        assert row.gross_gaming_revenue_cents == revenue
        assert sum(each.players_cents for each in report.rows) == posted(url)
        ledger.close_totals(now_millis=now_of(url) + DAY if url.startswith("postgres") else None)
        assert only(ledger.totals()) == row


def test_days_and_bounds(sqlite_url: str) -> None:
    """Days are UTC's, to the millisecond; a bound may cut a day that is not closed, and no closed one."""
    clock = StoppedClock(19_675 * DAY - 1)
    with SqlLedger(sqlite_url, clock_millis=clock) as ledger:
        for player, millis in (("a", 19_675 * DAY - 1), ("b", 19_675 * DAY), ("c", NOON), ("d", 19_676 * DAY)):
            clock.now_millis = millis
            ledger.open_account(player, Decimal(1))
        days = [("2023-11-13", 1), ("2023-11-14", 2), ("2023-11-15", 1)]
        assert [(row.day, row.openings) for row in ledger.totals().rows] == days

        def openings(since: int | None, until: int | None) -> int:
            return sum(row.openings for row in ledger.totals(since_millis=since, until_millis=until).rows)

        bounds = ((NOON, None), (NOON + 1, None), (None, NOON), (NOON, NOON))
        assert [openings(*each) for each in bounds] == [2, 1, 2, 0]
        done = ledger.close_totals()
        assert (done.closed_before, done.postings, done.late) == ("2023-11-15", 3, 0)
        assert [openings(19_675 * DAY, None), openings(19_676 * DAY, None), openings(None, 19_675 * DAY)] == [3, 1, 1]
        assert openings(19_676 * DAY + 1, None) == 0, "the day that is not closed may be cut"
        for since, until in ((NOON, None), (None, NOON), (19_675 * DAY + 1, None), (None, 19_676 * DAY - 1)):
            with pytest.raises(LedgerError, match="lies within 2023-11-14, which is closed"):
                openings(since, until)


def test_amounts_beyond_63_bits(url: str) -> None:
    """Two large claims in a day are more than a sum of SQLite's can hold, live and stored."""
    with SqlLedger(url) as ledger:
        for player in ("p1", "p2", "p3"):
            ledger.open_account(player)
            play(ledger, claim(f"c-{player}", player))
        damage(url, [f"UPDATE {{p}}{table} SET amount_cents = {2**63 - 1}" for table in ("postings", "calls")])
        assert only(ledger.totals()).free_bets_cents == 3 * (2**63 - 1)
        ledger.close_totals(now_millis=NOON * 3)
        assert only(ledger.totals()).free_bets_cents == 3 * (2**63 - 1)


#: What is changed of one stored row, and what the finding names.
FALSIFIED = [
    pytest.param("UPDATE {p}totals SET cents = cents + 1 WHERE kind = 'wins'", "1 postings of 12.51", id="an amount"),
    pytest.param("UPDATE {p}totals SET billions = billions + 1 WHERE kind = 'wins'", "10000012.50", id="much"),
    pytest.param("UPDATE {p}totals SET count = count + 1 WHERE kind = 'wins'", "2 postings of 12.50", id="a count"),
    pytest.param("UPDATE {p}totals SET game = 'x' WHERE kind = 'wins'", "game 'x'", id="a game"),
    pytest.param("UPDATE {p}totals SET instance_id = 'x' WHERE kind = 'wins'", "instance 'x'", id="an instance"),
    pytest.param("UPDATE {p}totals SET currency = 'USD' WHERE kind = 'wins'", "currency 'USD'", id="a currency"),
    pytest.param("UPDATE {p}totals SET source = 'x' WHERE kind = 'wins'", "source 'x'", id="a source"),
    pytest.param("UPDATE {p}totals SET kind = 'refunds' WHERE kind = 'wins'", "kind 'refunds'", id="a kind"),
    pytest.param("UPDATE {p}totals SET day = day - 1 WHERE kind = 'wins'", "1970-01-01", id="a day"),
    pytest.param("DELETE FROM {p}totals WHERE kind = 'wins'", "0 postings of 0.00", id="a row deleted"),
    pytest.param("DELETE FROM {p}totals", "0 postings of 0.00", id="all deleted"),
]


@pytest.mark.parametrize(("statement", "named"), FALSIFIED)
@pytest.mark.parametrize("state", ["fresh", "since a checkpoint", "full", "folded"])
@pytest.mark.drawn(6, database_url=("postgres",))
def test_stored_totals_that_were_changed(database_url: str, state: str, statement: str, named: str) -> None:
    """``verify`` compares them with the calls, which stay for ever, by all that they are grouped by."""
    with SqlLedger(database_url) as ledger:
        ledger.open_account("p1", Decimal(100))
        play(ledger, withdraw(instance_id="i1", game="g1"), deposit())
        play(ledger, withdraw("tip", action="TIP"), claim("c1"))
        newest = int(rows(database_url, "SELECT MAX(at_millis) FROM {p}postings")[0][0])
        if state == "folded":
            keep_one(ledger)
            assert drop(ledger) == 5
        else:
            ledger.close_totals(now_millis=newest + 3 * DAY)
        play(ledger, rollback("tip", tx_id=None))  # A late entry, of what was taken for a RAIN.
        if state == "since a checkpoint":
            run(database_url, "INSERT INTO {p}meta (name, value) VALUES ('checkpoint_millis', ?)", newest)
        is_full = state in ("full", "folded")
        assert ledger.verify(full=is_full).findings == ()
        run(database_url, statement)
        found = ledger.verify(full=is_full).findings
        assert {finding.kind for finding in found} == {"totals_differ"}
        if named != "1970-01-01":
            assert any(named in finding.detail for finding in found)


INSERT = (
    "INSERT INTO game_operator_postings (to_account, amount_cents, source, operation, tx_id, at_millis) "
    "VALUES ('p1', 7, '', 'adjust', %s, %s)"
)
CALL = (
    "INSERT INTO game_operator_calls (source, operation, tx_id, player_id, account, action, amount_cents, at_millis) "
    "VALUES ('', 'adjust', %s, 'p1', 'p1', 'ADJUST', 7, %s)"
)


def adjusted_in(connection: "psycopg.Connection[Any]", reference: str, at_millis: int) -> None:
    """Adjust p1 by 0.07 in an open transaction, as a joined call would."""
    connection.execute(CALL, (reference, at_millis))
    connection.execute(INSERT, (reference, at_millis))


@pytest.mark.outside
def test_a_transaction_that_has_an_id_and_commits_later(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A close waits for it; if it stays open for too long nothing is closed, and its posting is counted once."""
    monkeypatch.setattr(sql, "_MOST_LOCKS", 1)
    with SqlLedger(postgres_url) as ledger, psycopg.connect(postgres_url) as slow:
        ledger.open_account("p1", Decimal(1))
        now = now_of(postgres_url)
        adjusted_in(slow, "slow", now)
        ledger.adjust("p1", Decimal(1), reference="quick, with the higher id")
        with pytest.raises(LedgerUnavailableError, match="still open, so no days can be closed"):
            ledger.close_totals(now_millis=now + DAY)
        assert rows(postgres_url, "SELECT COUNT(*) FROM {p}closes") == [(0,)]
        slow.commit()
        assert sum(row.postings for row in ledger.totals().rows) == 3
        assert ledger.close_totals(now_millis=now + DAY).postings == 3
        assert [(row.postings, row.late) for row in ledger.totals().rows] == [(3, False)]


@pytest.mark.outside
def test_a_transaction_that_takes_its_id_after_the_close(postgres_url: str) -> None:
    """It has read the clock before midnight, say, and posts after the close: a late entry, counted once."""
    with SqlLedger(postgres_url) as ledger, psycopg.connect(postgres_url) as slow:
        ledger.open_account("p1", Decimal(1))
        now = now_of(postgres_url)
        slow.execute(CALL, ("slow", now))
        assert ledger.close_totals(now_millis=now + DAY).postings == 1
        slow.execute(INSERT, ("slow", now))
        slow.commit()
        for _ in range(2):
            assert [(row.postings, row.late) for row in ledger.totals(by=()).rows] == [(1, False), (1, True)]
            ledger.close_totals(now_millis=now + DAY)


CLOSE = """
import sys
from game_operator.ledger import SqlLedger
with SqlLedger(sys.argv[1], patience_seconds=30) as ledger:
    print(ledger.close_totals(now_millis=int(sys.argv[2])).postings)
"""


def started(url: str, now_millis: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-W", "error", "-c", CLOSE, url, str(now_millis)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.outside
@pytest.mark.drawn(1)
def test_processes_that_close_at_once(database_url: str) -> None:
    """Each posting is stored once, while calls go on."""
    with SqlLedger(database_url, patience_seconds=30) as ledger:
        ledger.open_account("p1", Decimal(100))
        stop = threading.Event()
        played: list[int] = []

        def calls() -> None:
            while not stop.is_set():
                ledger.apply(withdraw(f"b{len(played)}", amount_cents=1), terms=TERMS)
                played.append(1)

        player = threading.Thread(target=calls)
        player.start()
        processes = [started(database_url, NOON * 3) for _ in range(2)]
        outputs = [process.communicate(timeout=50)[0] for process in processes]
        stop.set()
        player.join()
        assert [process.returncode for process in processes] == [0] * 2
        stored = rows(database_url, "SELECT SUM(count) FROM {p}totals")[0][0]
        assert sum(map(int, outputs)) == stored
        assert only(ledger.totals()).wagers == len(played)
        assert ledger.verify().findings == ()


@pytest.mark.outside
@pytest.mark.drawn(1)
def test_a_close_that_is_killed(database_url: str) -> None:
    """At whatever moment, it leaves all or nothing; the next one goes on from there."""
    with SqlLedger(database_url, patience_seconds=30) as ledger:
        ledger.open_account("p1", Decimal(100))
        for number in range(4):
            ledger.apply(withdraw(f"b{number}", amount_cents=1), terms=TERMS)
            process = started(database_url, NOON * 3)
            with contextlib.suppress(subprocess.TimeoutExpired):  # The last ones may be done by then.
                process.communicate(timeout=0.15 + number * 0.15)
            process.kill()
            process.communicate()
            assert only(ledger.totals()).wagers == number + 1
        ledger.close_totals(now_millis=NOON * 3)
        numbers = rows(database_url, "SELECT number FROM {p}closes ORDER BY number")
        held = rows(database_url, "SELECT DISTINCT close_number FROM {p}totals ORDER BY close_number")
        assert held == numbers
        assert ledger.verify().findings == ()
