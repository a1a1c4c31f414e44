"""
Which bets a reconciliation looks up, read page by page: each page follows an index, however many bets there are.

First the bets that are OPEN for long, found by a partial index; then those of unresolved anomalies, those that no
deposit settles (once each), those repaired in the last seven days, and a sample of all others.
"""

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from random import Random
from typing import Any, Final, NamedTuple

from game_operator.backoffice.journal_records import NewItem, Run
from game_operator.backoffice.reconcile.judge import DAY_MILLIS, Ours, is_test_bet
from game_operator.codes import BetState
from game_operator.ledger.engine.dialects import BET_COLUMNS, LookUp, SqlDialect, bet_of
from game_operator.ledger.engine.tables import sql_texts
from game_operator.ledger.staff.anomalies import OF_SOURCE
from game_operator.ledger.staff.findings import LATE_KINDS
from game_operator.ledger.staff.repairs import credited_cents
from game_operator.ledger.steps import Execute, Rows, Steps

PAGE: Final = 500
_PHASES: Final = ("open", "anomalies", "spent", "repaired", "sample")
_KEPT_MILLIS: Final = 89 * DAY_MILLIS
_REPAIRED_MILLIS: Final = 7 * DAY_MILLIS
#: So many of the bets that were opened last are looked at for those that calls have settled.
_LATEST: Final = 2_000
_ENDED: Final = frozenset({BetState.CLOSED.value, BetState.ROLLED_BACK.value})
_START: Final[tuple[int, str]] = (-(2**62), "")


class Page(NamedTuple):
    """Some bets, and the cursor that the next page is read from; "" if there is none."""

    items: list[NewItem]
    cursor: str


def first_cursor() -> str:
    """Return the cursor of the first page."""
    return _cursor("open", *_START)


def page(run: Run, dialect: SqlDialect) -> Steps[Page]:
    """Return the next page of the bets of *run*."""
    at = json.loads(run.cursor)
    phase, millis, bet_id = at["phase"], at["millis"], at["bet"]
    rows = yield from _rows(phase, run, (millis, bet_id), dialect)
    items = [NewItem(row[1], {}) for row in rows]
    if len(rows) == PAGE or (phase == "sample" and rows):
        return Page(items, _cursor(phase, int(rows[-1][0]), rows[-1][1]))
    following = _PHASES[_PHASES.index(phase) + 1 :]
    return Page(items, _cursor(following[0], *_START) if following else "")


def _cursor(phase: str, millis: int, bet_id: str) -> str:
    return json.dumps({"phase": phase, "millis": millis, "bet": bet_id})


def _rows(phase: str, run: Run, after: tuple[int, str], dialect: SqlDialect) -> Steps[Rows]:
    """Return a time, or 0, and the id of each bet of a page of *phase*."""
    old, kept = run.as_of_millis - int(run.options["min_age_millis"]), run.as_of_millis - _KEPT_MILLIS
    parameters: tuple[object, ...]
    match phase:
        case "open":
            parameters = (*after, old, run.as_of_millis, run.source)
        case "anomalies":
            parameters = (run.source, after[1])
        case "spent":
            parameters = (*after, kept, old, run.source, run.service)
        case "repaired":
            parameters = (*after, run.as_of_millis - _REPAIRED_MILLIS, run.source)
        case _:
            return (yield from _sample(run, after, (run.source, kept, old, kept), dialect))
    return (yield Execute(_sql(dialect)[phase], (*parameters, PAGE)))  # type: ignore[no-any-return]  # Rows.


def _sample(run: Run, after: tuple[int, str], limits: tuple[object, ...], dialect: SqlDialect) -> Steps[Rows]:
    """Draw from the bets that are settled, refused or cancelled, by the seed of the run; in SQLite row numbers."""
    share = float(run.options["sample"])
    if share <= 0:
        return ()
    if dialect.kind == "postgres":
        parameters = (share * 100, run.seed, *limits, after[1], PAGE)
        return (yield Execute(_sql(dialect)["sample_of_postgres"], parameters))  # type: ignore[no-any-return]  # Rows.
    first, number = Random(run.seed).random(), max(after[0], 0)  # noqa: S311 - a run must repeat
    last_row = (yield Execute(_sql(dialect)["last_row"], ()))[0][0]
    while (first + number) / share < last_row:
        drawn = [1 + int((first + each) / share) for each in range(number, number + PAGE)]
        number += PAGE
        rows: Rows = yield Execute(_sql(dialect)["sample_of_sqlite"], (json.dumps(drawn), *limits))
        if rows:
            return [(number, row[0]) for row in rows]
    return ()


def ours_of(bet_ids: Set[str], source: str, dialect: SqlDialect) -> Steps[dict[str, Ours]]:
    """Return what the ledger knows of each bet."""
    sql = _sql(dialect)
    ours = dict.fromkeys(bet_ids, Ours(None))
    for row in (yield LookUp(dialect.kind, sql["bets"]).of(bet_ids, source)):
        ours[row[0]] = Ours(bet_of(row))
    paid_at: dict[str, int] = {}
    for bet_id, cents, at_millis in (yield LookUp(dialect.kind, sql["paid"]).of(bet_ids, source)):
        ours[bet_id] = ours[bet_id]._replace(paid_cents=ours[bet_id].paid_cents + cents)
        paid_at[bet_id] = max(at_millis, paid_at.get(bet_id, 0))
    for bet_id, at_millis, tx_id, cents in sorted((yield LookUp(dialect.kind, sql["claims"]).of(bet_ids, source))):
        known = ours[bet_id]
        # A payment counts all claims that were there, or it is refused.
        is_counted = at_millis < paid_at.get(bet_id, 0)
        counted = {"counted_cents": known.counted_cents + cents} if is_counted else {"claim": tx_id}
        ours[bet_id] = known._replace(**counted)
    return ours


def lately_settled(source: str, before_millis: int, most: int, dialect: SqlDialect) -> Steps[list[Ours]]:
    """
    Return the bets that calls have settled last, the latest first, with what was paid for findings about them.

    They are the last *most* of the 2,000 that were opened last, or of more if those have too few. Bets that look like a
    test's do not count among these, and the last *most* of them are returned, too: the provider may know them.
    """
    genuine: list[tuple[int, str]] = []
    tests: list[tuple[int, str]] = []
    seen, opened = 0, 1 << 62
    since = max(0, before_millis - _KEPT_MILLIS)  # Of older ones a service knows nothing.
    while True:
        rows: Rows = yield Execute(_sql(dialect)["latest"], (source, since, opened, _LATEST))
        for bet_id, state, settled_by, settled_at, _ in rows:
            is_test = is_test_bet(bet_id)
            seen += not is_test
            if state in _ENDED and settled_by is None and settled_at <= before_millis:
                (tests if is_test else genuine).append((settled_at, bet_id))
        if len(rows) < _LATEST or (seen >= _LATEST and len(genuine) >= most):
            break
        opened = rows[-1][4]
    latest = sorted(sorted(genuine)[-most:] + sorted(tests)[-most:], reverse=True)
    ours = yield from ours_of({bet_id for _, bet_id in latest}, source, dialect)
    return [ours[bet_id] for _, bet_id in latest]


def looks_of(bet_ids: Set[str], source: str, service: str, dialect: SqlDialect) -> Steps[dict[str, tuple[int, bytes]]]:
    """Return since when the service has given its latest answer about each bet, and the digest of that answer."""
    rows: Rows = yield LookUp(dialect.kind, _sql(dialect)["looks"]).of(bet_ids, service, source)
    return {row[0]: (int(row[1]), bytes(row[2])) for row in rows}


def keep_looks(looks: Mapping[str, tuple[int, bytes]], source: str, service: str, dialect: SqlDialect) -> Steps[None]:
    """Keep the time and the digest of answers."""
    rows: list[tuple[Any, ...]] = [(service, source, bet_id, at, digest) for bet_id, (at, digest) in looks.items()]
    if rows:
        yield Execute(_sql(dialect)["keep_look"], rows, many=True)


def close_findings(
    bet_ids: Sequence[str], source: str, why: str, now_millis: int, kinds: Sequence[str], dialect: SqlDialect
) -> Steps[None]:
    """Resolve the open findings of *kinds* about bets whose answer agrees now."""
    named = f"({', '.join(repr(str(kind)) for kind in kinds)})"
    sql = _sql(dialect)["close_findings"].replace("(kinds)", named)
    rows = [(now_millis, why, source, bet_id) for bet_id in bet_ids]
    if rows:
        yield Execute(sql, rows, many=True)


def judge_late_again(looked: Iterable[Ours], source: str, dialect: SqlDialect) -> Steps[None]:
    """Work out anew what is owed by the late calls of bets, as each look finds it."""
    rows: list[tuple[Any, ...]] = []
    for ours in looked:
        if ours.bet is not None and ours.bet.settled_by is not None:
            got_cents = credited_cents(ours.bet) + ours.paid_cents
            most_cents = got_cents + ours.counted_cents
            amounts = (got_cents, got_cents, most_cents, most_cents)
            rows.append((int(ours.claim is not None), *amounts, source, ours.bet.bet_id))
    if rows:
        yield Execute(_sql(dialect)["judge_late_again"], rows, many=True)


def _sql(dialect: SqlDialect) -> dict[str, str]:
    return sql_texts(
        __package__,
        "reconcile.sql",
        prefix=dialect.prefix,
        bet_columns=BET_COLUMNS,
        kinds="(kinds)",
        late=str(LATE_KINDS),
        of_source=OF_SOURCE,
    )
