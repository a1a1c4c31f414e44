"""
Look-ups follow indexes: each statement is explained on both databases, with statistics and without.

Nothing walks or sorts a table that grows with the bets. What is sorted is named in the table of look-ups.
"""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

import pytest

from game_operator.backoffice.case.facts import rows_of_bet
from game_operator.backoffice.journal import Journal
from game_operator.backoffice.reconcile import population
from game_operator.backoffice.reconcile.population import first_cursor
from game_operator.codes import BetState
from game_operator.ledger import SqlLedger
from game_operator.ledger.office import Office
from game_operator.ledger.staff import queries, repairs
from game_operator.ledger.staff.anomalies import Wanted, page_of_anomalies
from game_operator.ledger.staff.findings import page_of_findings
from game_operator.ledger.staff.queries import BetsWanted, Listing
from game_operator.ledger.steps import Execute, Steps
from tests.support.filled_books import fill_books
from tests.support.postgres import PostgresServer
from tests.support.raw_sql import DEFAULT_PREFIX, is_sqlite, rows, run

pytestmark = pytest.mark.outside

_BETS: Final = 10_000
_PLAYERS: Final = 500
_DAY: Final = 86_400_000
#: Indexes of few rows, which may be read whole: what is open, what is to be looked at, and what names nobody.
_FEW: Final = {
    f"{DEFAULT_PREFIX}{name}"
    for name in ("bets_open_by_time", "bets_spent", "anomalies_waiting", "anomalies_nameless", "findings_waiting")
}
#: Tables that do not grow with the bets. A run is a row of ``runs``.
_SMALL: Final = {f"{DEFAULT_PREFIX}{name}" for name in ("sources", "meta", "runs")}
_SORTS: Final = ("TEMP B-TREE FOR ORDER BY", "TEMP B-TREE FOR DISTINCT", "Sort  (")


class Look(NamedTuple):
    """A look-up; *sorts* says what it sorts, "" for nothing but rows of one time."""

    script: Callable[[Any, Any], Steps[object]]
    sorts: str = ""
    is_on_own_connection: bool = False


def _bets(**wanted: Any) -> Look:
    return Look(lambda known, _: queries.page_of_bets(DEFAULT_PREFIX, BetsWanted(**wanted), known["after"], 50))


def _anomalies(sorts: str = "", **wanted: Any) -> Look:
    return Look(lambda *_: page_of_anomalies(DEFAULT_PREFIX, Wanted(**wanted), None, 50), sorts)


def _phase(name: str, sorts: str = "") -> Look:
    def script(known: Any, dialect: Any) -> Steps[object]:
        cursor = json.dumps({"phase": name, "millis": -(2**62), "bet": ""})
        return population.page(known["run"]._replace(cursor=cursor), dialect)

    return Look(script, sorts, is_on_own_connection=True)


def _findings(sorts: str = "", *, resolved: bool, subject: str | None = None) -> Look:
    find = partial(page_of_findings, after=0, most=50, resolved=resolved, source="", subject=subject)
    return Look(lambda _, dialect: find(dialect), sorts)


LOOKS: Final[dict[str, Look]] = {
    "bet": Look(lambda known, _: queries.bet(DEFAULT_PREFIX, known["bet"], "")),
    "history": Look(lambda known, _: queries.bet_history(DEFAULT_PREFIX, known["bet"], ""), "the rows of one bet"),
    "account history": Look(lambda *_: queries.account_history(DEFAULT_PREFIX, "p7", 5), "the latest movements"),
    "bets": _bets(),
    "bets until": _bets(until_millis=2**61),
    **{f"bets {state.value}": _bets(state=state) for state in BetState},
    "bets of a player": _bets(player_id="p7"),
    **{f"bets of a player {state.value}": _bets(player_id="p7", state=state) for state in BetState},
    "bets OPEN of all sources": _bets(source=None, state=BetState.OPEN),
    "oldest bets": Look(lambda *_: queries.oldest_bets(DEFAULT_PREFIX, BetsWanted(None), 50)),
    "anomalies": _anomalies(),
    "anomalies, all": _anomalies(resolved=None),
    "anomalies, resolved": _anomalies(resolved=True, source=""),
    "anomalies of a kind": _anomalies(resolved=None, kind="second_deposit"),
    "anomalies of kinds to look at": _anomalies(kind=("second_deposit", "unreadable"), source=""),
    "anomalies of a time": _anomalies("those that came again since", resolved=None, since_millis=10**12),
    "anomalies of a kind and time": _anomalies(
        "those that came again since", resolved=None, kind="second_deposit", since_millis=10**12, until_millis=2**61
    ),
    "anomalies of a player": _anomalies(resolved=None, player_id="p7", id_prefix="b", since_millis=10**12),
    "anomalies of ids": _anomalies("those of the ids", resolved=None, id_prefix="b1", kind="second_deposit"),
    "claims of a bet": Look(
        lambda known, dialect: repairs.claims_of("", known["bet"], dialect),
        "those of one bet",
        is_on_own_connection=True,
    ),
    "case file": Look(lambda known, dialect: rows_of_bet(known["bet"], "", dialect), "the rows of one bet, and runs"),
    "accounts": Look(lambda _, dialect: dialect.accounts.known({"p1", "p2", "p3"}), is_on_own_connection=True),
    "balance": Look(lambda _, dialect: dialect.accounts.balance("p7"), is_on_own_connection=True),
    "findings": _findings(resolved=False),
    "findings, all": _findings(resolved=True),
    "findings of a bet": _findings("those of one bet", resolved=True, subject="b"),
    "run, open": _phase("open", "what is open, without statistics"),
    "run, anomalies": _phase("anomalies"),
    "run, spent": _phase("spent"),
    "run, repaired": _phase("repaired", "what was repaired lately, without statistics"),
    "run, sample": _phase("sample", "a page of the sample"),
    "ours": Look(
        lambda known, dialect: population.ours_of({known["bet"], "b2"}, "", dialect), is_on_own_connection=True
    ),
    "lately settled": Look(
        lambda _, dialect: population.lately_settled("", 2**61, 20, dialect),
        "2,000 bets",
        is_on_own_connection=True,
    ),
}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with books of some size, and without statistics."""
    address = f"sqlite:///{tmp_path_factory.mktemp('books') / 'wallet.db'}"
    if request.param == "postgres":
        postgres: PostgresServer = request.getfixturevalue("postgres")
        address = postgres.create_database()
    _fill(address)
    return address


def _fill(url: str) -> None:
    """Store bets, and for each a finding and an item of one of forty runs; most findings are resolved."""
    fill_books(url, _BETS, players=_PLAYERS)
    run(
        url,
        "INSERT INTO {p}findings (kind, source, subject, tx_id, detail, at_stake_cents, first_at_millis, "
        "last_at_millis, seen, resolved_at_millis) SELECT 'k', '', tx_id, '', '', 0, 1, 1, 1, "
        "CASE WHEN id % 100 > 0 THEN 1 END FROM {p}postings WHERE operation = 'withdraw'",
    )
    run(
        url,
        "INSERT INTO {p}runs (id, kind, name, source, service, parameters, digest, seed, as_of_millis, state, why, "
        "began_at_millis, touched_at_millis, cursor) SELECT id, 'reconcile', '', '', 's', '{}', '', 1, 1, "
        "'finished', '', 1, 1, '' FROM {p}postings WHERE id <= 40",
    )
    run(
        url,
        "INSERT INTO {p}items (run_id, key, chunk, place, state, data) SELECT 1 + id % 40, tx_id, 1, id, '', '' "
        "FROM {p}postings WHERE operation = 'withdraw'",
    )


def test_look_ups_follow_indexes(url: str) -> None:
    """Without statistics, as after a restore, and with them."""
    problems = []
    with SqlLedger(url) as ledger:
        known = _known(ledger, url)
        for statistics in ("without statistics", "with statistics"):
            if statistics == "with statistics":
                run(url, "ANALYZE")
            for name, look in LOOKS.items():
                for plan in _plans(ledger, url, look, known):
                    problems += [f"{name}, {statistics}: {each}\n{plan}" for each in _problems(plan, look.sorts)]
    assert not problems, "\n\n".join(problems)


def test_claims_of_a_bet_are_found_by_its_id(url: str) -> None:
    """By the source alone the database would read all calls: that is a search, too."""
    with SqlLedger(url) as ledger:
        known = _known(ledger, url)
        (plan,) = _plans(ledger, url, LOOKS["claims of a bet"], known)
        of_many = _plans(ledger, url, LOOKS["ours"], known)[-1]
    assert "calls_of_bet" in plan, plan
    # PostgreSQL reads all claims instead, as long as there are few of them.
    assert "calls_of_bet" in of_many or not is_sqlite(url), of_many


def _known(ledger: SqlLedger, url: str) -> dict[str, Any]:
    """Return what the look-ups ask for: a bet, a page's last bet, and a run."""
    (bet_id,) = rows(url, "SELECT bet_id FROM {p}bets WHERE state = 'ROLLED_BACK' LIMIT 1")[0]
    journal = Journal(ledger)
    options: dict[str, Any] = {"parameters": {"min_age_millis": _DAY, "sample": 0.1}, "interval_micros": 1, "seed": 1}
    begun = journal.begin("reconcile", source="", service="s", cursor=first_cursor(), **options)
    journal.set_state(begun.id, "stopped")
    return {"bet": bet_id, "after": ledger.bet(bet_id), "run": begun}


def _plans(ledger: SqlLedger, url: str, look: Look, known: Any) -> list[str]:
    """Return how the database reads each statement of a look-up, over a connection that is set as the look-up's."""
    explain = "EXPLAIN QUERY PLAN" if is_sqlite(url) else "EXPLAIN"
    plans: list[str] = []

    def script(dialect: Any) -> Steps[None]:
        steps = look.script(known, dialect)
        step: Any = next(steps, None)
        while step is not None:
            plan = yield Execute(f"{explain} {step.sql}", step.parameters)
            plans.append("\n".join(str(row[-1]) for row in plan))
            answer = yield step
            with suppress(StopIteration):
                step = steps.send(answer)
                continue
            step = None

    if look.is_on_own_connection:
        Office(ledger).read(script)
    else:
        listing = Listing(url)
        listing.read(lambda: script(ledger._fit))
        listing.close()
    return plans


def _problems(plan: str, sorts: str) -> list[str]:
    """Return what of *plan* reads a table that grows, or sorts more than *sorts*."""
    found = [f"sorts {sort}" for sort in _SORTS if not sorts and sort in plan.replace("Incremental Sort  (", "")]
    for table, index in re.findall(r"SCAN (game_\w+)(?: USING (?:COVERING )?INDEX (\w+))?", plan):
        if table not in _SMALL and index not in _FEW:
            found.append(f"walks {index or table}")
    found += [f"walks {table}" for table in re.findall(r"Seq Scan on (game_\w+)", plan) if table not in _SMALL]
    lines = plan.splitlines()
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        index = re.search(r"Index (?:Only )?Scan .*?using (\w+) on (\w+)", line)
        if index and "Index Cond" not in below and index[1] not in _FEW and index[2] not in _SMALL:
            found.append(f"walks {index[1]}")
    return found
