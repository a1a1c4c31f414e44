"""Which bets a run looks up: each phase, its limits, its pages, and the indexes that they follow."""

from collections.abc import Iterable
from functools import partial
from itertools import chain
from typing import Any

import pytest

from game_operator.backoffice.journal import Journal
from game_operator.backoffice.journal_records import Run
from game_operator.backoffice.reconcile.judge import DAY_MILLIS
from game_operator.backoffice.reconcile.population import PAGE, first_cursor, keep_looks, page
from game_operator.ledger import SqlLedger
from game_operator.ledger.office import Office
from tests.support.raw_sql import run

pytestmark = pytest.mark.outside

NOW = 1_800_000_000_000
HOUR = 3_600_000
MIN_AGE = 2 * HOUR
_COLUMNS = (
    "bet_id, player_id, account, wager_cents, state, opened_at_millis, settled_at_millis, action, source, settled_by"
)
_ANOMALY = (
    "INSERT INTO {p}anomalies (source, kind, operation, bet_id, body, digest, first_at_millis, last_at_millis, seen, "
    "resolved_at_millis) VALUES (?, 'k', 'deposit', ?, ?, ?, 1, 1, 1, ?)"
)


def a_bet(bet_id: str, state: str, age: int, **more: Any) -> tuple[Any, ...]:
    """Return a row of a bet of an age in milliseconds."""
    opened = NOW - age
    settled = more.get("settled", None if state in ("OPEN", "SPENT", "DECLINED") else opened)
    return bet_id, "p1", "p1", 1, state, opened, settled, "BET", more.get("source", ""), more.get("settled_by")


def put(url: str, bets: Iterable[tuple[Any, ...]]) -> None:
    """Put bets into the table, a thousand in a statement."""
    left = list(bets)
    while left:
        some, left = left[:1_000], left[1_000:]
        rows = ", ".join(f"({', '.join('?' * len(each))})" for each in some)
        run(url, f"INSERT INTO {{p}}bets ({_COLUMNS}) VALUES {rows}", *chain(*some))


def begun(ledger: SqlLedger, *, sample: float = 0.0, seed: int = 1, service: str = "s", source: str = "") -> Run:
    """Return a run that begins now."""
    options = {"min_age_millis": MIN_AGE, "sample": sample}
    journal = Journal(ledger, clock_millis=lambda: NOW)
    begin = partial(journal.begin, "reconcile", parameters=options, interval_micros=1, seed=seed)
    made = begin(source=source, service=service, cursor=first_cursor())
    journal.set_state(made.id, "stopped")
    return made


def found(ledger: SqlLedger, run_: Run) -> list[str]:
    """Return the bets of a run in their order, each as often as it is found."""
    bets: list[str] = []
    while run_.cursor:
        part = Office(ledger).read(partial(page, run_))
        assert len(part.items) <= PAGE * 2
        bets += [item.key for item in part.items]
        run_ = run_._replace(cursor=part.cursor)
    return bets


def test_open_bets(ledger: SqlLedger, database_url: str) -> None:
    """Those that are old enough, however old, and those of the future; and none of another source."""
    ages = {"old": MIN_AGE, "young": MIN_AGE - 1, "now": 0, "future": -1}
    ages |= {"far": -DAY_MILLIS, "ancient": 400 * DAY_MILLIS}
    put(database_url, [a_bet(name, "OPEN", age) for name, age in ages.items()])
    put(database_url, [a_bet("theirs", "OPEN", MIN_AGE, source="other")])
    put(database_url, [a_bet(state, state, MIN_AGE) for state in ("CLOSED", "ROLLED_BACK", "TOMBSTONE", "DECLINED")])
    assert found(ledger, begun(ledger)) == ["ancient", "old", "future", "far"]
    assert found(ledger, begun(ledger, source="other")) == ["theirs"]


def test_bets_that_no_deposit_settles(ledger: SqlLedger, database_url: str) -> None:
    """Once for each service, from the least age on, for as long as a service knows them."""
    ages = {"old": MIN_AGE, "young": MIN_AGE - 1, "known": 89 * DAY_MILLIS, "forgotten": 89 * DAY_MILLIS + 1}
    put(database_url, [a_bet(name, "SPENT", age) for name, age in ages.items()])
    put(database_url, [a_bet("theirs", "SPENT", MIN_AGE, source="other")])
    assert found(ledger, begun(ledger)) == ["known", "old"]
    look = {"known": (NOW, b"d" * 32)}
    Office(ledger).write(lambda dialect: keep_looks(look, "", "s", dialect))
    assert found(ledger, begun(ledger)) == ["old"]
    assert found(ledger, begun(ledger, service="another")) == ["known", "old"]


def test_repaired_bets(ledger: SqlLedger, database_url: str) -> None:
    """For seven days, whether a reconciliation or a person has settled them."""
    week = 7 * DAY_MILLIS
    for name, ago, by in (("a", week, "reconcile"), ("b", week + 1, "reconcile"), ("c", 0, "refund"), ("d", 0, None)):
        put(database_url, [a_bet(name, "CLOSED", 80 * DAY_MILLIS, settled=NOW - ago, settled_by=by)])
    put(database_url, [a_bet("theirs", "CLOSED", 0, settled=NOW, settled_by="reconcile", source="other")])
    assert found(ledger, begun(ledger)) == ["a", "c"]


def test_bets_of_unresolved_anomalies(ledger: SqlLedger, database_url: str) -> None:
    """Each once, whatever its state; also one that we do not know."""
    for number, (bet, source, resolved) in enumerate(
        [("b", "", None), ("b", "", None), ("a", "", None), ("done", "", 1), ("x", "other", None), (None, "", None)]
    ):
        run(database_url, _ANOMALY, source, bet, b"", b"%d" % number, resolved)
    assert found(ledger, begun(ledger)) == ["a", "b"]


@pytest.mark.drawn(1)
def test_the_sample(ledger: SqlLedger, database_url: str) -> None:
    """None, all, or a share by the seed: of settled, refused and cancelled bets that a service still knows."""
    states = ("CLOSED", "ROLLED_BACK", "TOMBSTONE", "DECLINED")
    put(database_url, [a_bet(f"b{number:05}", states[number % 4], MIN_AGE) for number in range(4_000)])
    put(database_url, [a_bet("young", "CLOSED", MIN_AGE - 1), a_bet("old", "CLOSED", 89 * DAY_MILLIS + 1)])
    put(database_url, [a_bet("theirs", "CLOSED", MIN_AGE, source="other"), a_bet("spent", "SPENT", MIN_AGE - 1)])
    put(database_url, [a_bet("late", "CLOSED", MIN_AGE, settled=NOW - MIN_AGE + 1)])
    assert found(ledger, begun(ledger, sample=0.0)) == []
    everything = found(ledger, begun(ledger, sample=1.0))
    assert sorted(everything) == [f"b{number:05}" for number in range(4_000)]
    drawn = found(ledger, begun(ledger, sample=0.1, seed=1))
    assert drawn == found(ledger, begun(ledger, sample=0.1, seed=1))
    assert set(drawn) != set(found(ledger, begun(ledger, sample=0.1, seed=2)))
    assert len(drawn) == len(set(drawn))
    assert 200 < len(drawn) < 600


ODD = ["", " ", "'", '"', "\\", "%s", "?", "{p}", "\n", "\x01", "é", "\U0001f3b0", "b" * 256, "B", "b", "[1]", "null"]


@pytest.mark.parametrize("count", [PAGE - 1, PAGE, PAGE + 1, 2 * PAGE])
@pytest.mark.parametrize("state", ["OPEN", "SPENT"])
@pytest.mark.drawn(5)
def test_pages_with_equal_times_and_odd_ids(ledger: SqlLedger, database_url: str, state: str, count: int) -> None:
    """Each bet is found once, on both sides of the limit of a page."""
    names = [f"x{number:04}" for number in range(count - len(ODD))] + ODD
    put(database_url, [a_bet(name, state, MIN_AGE) for name in names])
    assert found(ledger, begun(ledger)) == sorted(names, key=lambda name: name.encode())
