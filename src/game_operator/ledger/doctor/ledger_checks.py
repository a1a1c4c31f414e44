"""What both databases are asked: versions, sources and prefixes, times, and what waits for somebody."""

from datetime import timedelta

from game_operator.errors import SchemaError, shown
from game_operator.ledger.books.totals import day_text, newest_posting
from game_operator.ledger.doctor.examined import DAY_MILLIS, Case, Check, Examined, case, in_the_future, ledgers_in
from game_operator.ledger.engine.sources import Sources
from game_operator.ledger.engine.tables import FIRST_VERSION, VERSION, check_search_path, check_version, refuse_writer
from game_operator.ledger.steps import Execute, Rows, Steps

#: The newest posting may be so much later than now: two machines never quite agree.
_MOST_AHEAD_MILLIS = 60_000
_MOST_NAMED = 5
_HOUR_MILLIS = 3_600_000
#: After how many days it is time to look, and after how many something is wrong.
_LATE_DAYS, _LONG_DAYS = 2, 30
#: Anomalies and findings that are older than this wait for too long; and OPEN bets.
_WAITING_DAYS = 7
#: As far as OPEN bets are counted.
_MOST_BETS = 1_000


def tables(examined: Examined) -> Steps[list[Case]]:
    """Look at the version, and remember what later checks need."""
    rows: Rows = yield from examined.asked(f"tables_in_{examined.kind}")
    examined.tables = frozenset(row[0] for row in rows)
    prefix = examined.prefix
    if not (examined.has("meta") and examined.has("calls")):
        if examined.kind == "postgres":
            try:
                yield from check_search_path()
            except SchemaError as nowhere:
                return [case("unusable", problem=nowhere)]
        there = ", ".join(f"{each}*" for each in ledgers_in(examined.tables)) or "none"
        return [case("missing", prefix=prefix, there=there)]
    rows = yield Execute(f"SELECT name, value FROM {prefix}meta", ())  # noqa: S608 - a checked prefix
    examined.meta = {row[0]: row[1] for row in rows}
    examined.version = examined.meta.get("version", 0)
    try:
        check_version(examined.version, prefix)
        refuse_writer(examined.meta.get("oldest_writer"), prefix)
    except SchemaError as refused:
        return [case("unusable" if examined.version < FIRST_VERSION else "newer", problem=refused)]
    name = "fit" if examined.version == VERSION else "older"
    return [case(name, prefix=prefix, version=examined.version, needed=VERSION)]


def _sources(examined: Examined) -> Steps[list[Case]]:
    """Name the sources whose calls are taken."""
    names = yield from Sources(examined.kind, examined.prefix).load()
    listed = ", ".join(map(shown, names))
    return [case("several" if len(names) > 1 else "known" if names else "none", listed=listed)]


def _other_ledgers(examined: Examined) -> list[Case]:
    """Name the other ledgers that are here."""
    others = [f"{prefix}*" for prefix in ledgers_in(examined.tables) if prefix != examined.prefix]
    return [case("several" if others else "none", listed=", ".join(others))]


def is_behind_rows(examined: Examined) -> Steps[Case | None]:
    """Return the case of a clock that is behind the newest posting, or None."""
    newest = (yield from newest_posting(examined.prefix)) if examined.version else None
    if newest is None or newest - examined.now_millis <= _MOST_AHEAD_MILLIS:
        return None
    return case("behind_rows", seconds=(newest - examined.now_millis) // 1_000)


def _times(examined: Examined) -> Steps[list[Case]]:
    """Look for accounts that a wrong clock has left in the future."""
    most = examined.now_millis + _MOST_AHEAD_MILLIS
    rows = yield from in_the_future(examined.questions, most, _MOST_NAMED + 1)
    if not rows:
        return [case("right")]
    named = ", ".join(shown(row[0]) for row in rows[:_MOST_NAMED]) + (", …" if len(rows) > _MOST_NAMED else "")
    ahead = timedelta(seconds=(rows[0][1] - examined.now_millis) // 1_000)
    return [case("ahead", ahead=ahead, named=named)]


def _guards(examined: Examined) -> Steps[list[Case]]:
    """Look for the triggers that keep postings as they are."""
    missing = [row[0] for row in (yield from examined.asked(f"guards_in_{examined.kind}"))]
    names = ", ".join(missing[:_MOST_NAMED]) + (", …" if len(missing) > _MOST_NAMED else "")
    return [case("missing", names=names) if missing else case("there")]


def _verified(examined: Examined) -> Steps[list[Case]]:
    """Look when the books were verified last, and whether something was found then."""
    ((damaged, day),) = yield from examined.asked("damaged_slices")
    found = [case("damaged", count=damaged, day=day_text(day))] if damaged else []
    return [*found, _by_age(examined, "verified_millis")]


def _maintained(examined: Examined) -> list[Case]:
    found = _by_age(examined, "maintained_millis")
    return [found if found.name != "long_ago" else Case("late", found.values)]


def _by_age(examined: Examined, mark: str) -> Case:
    """Return the case for something that was last done when the row *mark* of meta says."""
    done = examined.meta.get(mark)
    if done is None:
        return case("never")
    age = examined.now_millis - done
    days = age // DAY_MILLIS
    if days < _LATE_DAYS:
        return case("lately", hours=age // _HOUR_MILLIS)
    return case("late" if days < _LONG_DAYS else "long_ago", days=days)


def _anomalies(examined: Examined) -> Steps[list[Case]]:
    ((damaged,),) = yield from examined.asked("damaged_anomalies")
    found = [case("damaged", count=damaged)] if damaged else []
    return [*found, (yield from _waiting(examined, "anomalies"))]


def _findings(examined: Examined) -> Steps[list[Case]]:
    return [(yield from _waiting(examined, "findings"))] if examined.has("findings") else []


def _waiting(examined: Examined, table: str) -> Steps[Case]:
    """Return how many rows of *table* wait for somebody, by their age."""
    now = examined.now_millis
    parameters = now - DAY_MILLIS, now - _WAITING_DAYS * DAY_MILLIS
    ((count, recent, week),) = yield from examined.asked(f"waiting_{table}", *parameters)
    if not count:
        return case("none")
    old = count - week
    return case("old" if old else "some", count=count, recent=recent, week=week, old=old)


def _open_bets(examined: Examined) -> Steps[list[Case]]:
    before = examined.now_millis - _WAITING_DAYS * DAY_MILLIS
    ((count, oldest),) = yield from examined.asked("old_bets", before, _MOST_BETS)
    if not count:
        return [case("none", most=_WAITING_DAYS)]
    counted = str(count) if count < _MOST_BETS else f"{count} or more"
    return [case("old", count=counted, most=_WAITING_DAYS, days=(examined.now_millis - oldest) // DAY_MILLIS)]


#: What is asked of tables that are there.
LEDGER_CHECKS: dict[str, Check] = {
    "sources": _sources,
    "other ledgers": _other_ledgers,
    "times": _times,
    "guards": _guards,
    "verified": _verified,
    "maintained": _maintained,
    "anomalies": _anomalies,
    "findings": _findings,
    "open bets": _open_bets,
}
