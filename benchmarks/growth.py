"""
How calls, look-ups and books grow: ``python -m benchmarks.growth 10000 1000000`` fills ledgers and prints a table.

Calls and look-ups of all sizes take turns in one process, so a busy machine slows them alike; the ratio is to the size
nearest to 10,000 bets. Each piece of work on the books runs in a process for itself. A look-up is cold once the server
was restarted, the system has dropped the files from its cache, and the ledger was opened again.
"""

import argparse
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.books_filled import DAYS, fill_books
from benchmarks.ledger_load import fresh_withdraw
from benchmarks.ledger_stage import PREFIX, connected, running_postgres, sqlite_file
from benchmarks.report import markdown_table
from game_operator.codes import BetState
from game_operator.ledger import SqlLedger
from game_operator.ledger.engine.address import path_of
from game_operator.models.webhooks import WebhookCall
from game_operator.webhooks import DepositCall
from tests.support.postgres import PostgresServer

__all__ = ["Row", "as_growth_table", "main"]

_NEAR: Final = 10_000
_SIZES: Final = [1_000, 10_000, 100_000]
#: A player has so many bets, in books of any size.
_BETS_OF_PLAYER: Final = 100
#: Among so many bets, 50 are DECLINED, and 17 have a second deposit.
_BETS_OF_SPAN: Final = 5_000
_COLD_ROUNDS: Final = 5
_MOST_TIMES: Final = 1.3
_MOST_COLD_MILLIS: Final = 50.0
_MOST_MEGABYTES: Final = 100.0
_MOST_BYTES: Final = 1_200.0


class Row(NamedTuple):
    """
    One line of the table.

    Attributes:
        what: What was measured.
        values: What it took, by the number of bets.
        form: How a value is written.
        most: The highest value that meets the goal, at the largest size; None without a goal.
        most_times: The same for the ratio to the reference, which is written beside each value.
    """

    what: str
    values: Mapping[int, float]
    form: str
    most: float | None = None
    most_times: float | None = None


class Drawn(NamedTuple):
    """What a look-up asks for, drawn by chance. The time holds as many bets in books of any size."""

    since_millis: int
    until_millis: int
    player: str
    bet_id: str


LOOKS: Final[dict[str, Callable[[SqlLedger, Drawn], object]]] = {
    "bets(), 50": lambda ledger, drawn: list(islice(ledger.bets(since_millis=drawn.since_millis), 50)),
    "bets() of a player, 50": lambda ledger, drawn: list(islice(ledger.bets(player_id=drawn.player), 50)),
    "bets() that are DECLINED, 50": lambda ledger, drawn: list(
        ledger.bets(state=BetState.DECLINED, since_millis=drawn.since_millis, until_millis=drawn.until_millis)
    ),
    "history of a bet": lambda ledger, drawn: ledger.history(drawn.bet_id),
    "account_history, 50": lambda ledger, drawn: ledger.account_history(drawn.player),
    "anomalies() of a kind, 20": lambda ledger, drawn: list(
        ledger.anomalies(
            kind="second_deposit", resolved=None, since_millis=drawn.since_millis, until_millis=drawn.until_millis
        )
    ),
    "anomalies() to look at, 50": lambda ledger, _: list(islice(ledger.anomalies(), 50)),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    given = _parser().parse_args(arguments)
    sizes = sorted(set(given.sizes))
    for kind, opened in (("SQLite", _sqlite), ("PostgreSQL", _postgres)):
        if given.database is None or kind.lower() in given.database:
            with opened(sizes) as (urls, make_cold):
                rows = list(_rows(urls, make_cold, given.calls))
            load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
            print(f"{kind}; load over the last 1, 5 and 15 minutes: {load}\n\n{as_growth_table(rows)}\n", flush=True)


def as_growth_table(rows: Sequence[Row]) -> str:
    """Return a Markdown table: a line for each row, a column for each size, and what became of the goal."""
    sizes = sorted(rows[0].values)
    reference = min(sizes, key=lambda size: abs(size - _NEAR))
    lines = [["bets", *(f"{size:,}" for size in sizes), "goal"]]
    for row in rows:
        times = {size: row.values[size] / row.values[reference] for size in sizes}
        cells = [
            row.form.format(row.values[size]) + (f" ({times[size]:.2f})" if row.most_times else "") for size in sizes
        ]
        goals = []
        if row.most_times is not None:
            goals.append(f"≤ {row.most_times:.2f} times, {_verdict(times[sizes[-1]], row.most_times)}")
        if row.most is not None:
            goals.append(f"≤ {row.form.format(row.most)}, {_verdict(row.values[sizes[-1]], row.most)}")
        lines.append([row.what, *cells, "; ".join(goals)])
    return markdown_table(lines)


def _verdict(value: float, most: float) -> str:
    return "met" if value <= most else "MISSED"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description="How a ledger grows.")
    parser.add_argument("sizes", nargs="*", type=int, default=_SIZES, help="numbers of bets; 1,000 to 100,000")
    parser.add_argument("--calls", type=int, default=1_000, help="how many of each call and look-up; %(default)s")
    parser.add_argument("--database", action="append", choices=["sqlite", "postgresql"], help="only this kind")
    return parser


@contextlib.contextmanager
def _sqlite(sizes: Sequence[int]) -> Iterator[tuple[dict[int, str], Callable[[], None]]]:
    with contextlib.ExitStack() as stack:
        urls = {size: stack.enter_context(sqlite_file()) for size in sizes}
        yield urls, lambda: _forget([Path(path_of(url)).parent for url in urls.values()])


@contextlib.contextmanager
def _postgres(sizes: Sequence[int]) -> Iterator[tuple[dict[int, str], Callable[[], None]]]:
    with running_postgres() as server:
        yield {size: server.create_database() for size in sizes}, partial(_restart, server)


def _restart(server: PostgresServer) -> None:
    server.stop()
    _forget([server.folder / "data"])
    server.start()


def _forget(folders: Sequence[Path]) -> None:
    """Let the system drop all files of *folders* from its cache."""
    os.sync()  # It keeps what is not on the disk yet.
    for path in (path for folder in folders for path in folder.rglob("*") if path.is_file()):
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def _rows(urls: dict[int, str], make_cold: Callable[[], None], calls: int) -> Iterator[Row]:
    is_postgres = not urls[min(urls)].startswith("sqlite")
    for size, url in urls.items():
        _say(f"{size:,} bets are filled in")
        fill_books(url, size, players=_players(size))
        if is_postgres:  # As autovacuum does, while a ledger grows.
            with connected(url) as connection:
                connection.execute("ANALYZE")
                connection.commit()
    yield Row("bytes a bet", _bytes(urls), "{:,.0f}", most=_MOST_BYTES if is_postgres else None)
    full, first = _worked("verify-full", urls), _worked("maintain", urls)
    with contextlib.ExitStack() as stack:
        ledgers = {size: stack.enter_context(SqlLedger(url)) for size, url in urls.items()}
        yield from _calls(ledgers, calls)
        drawn = {size: [_drawn(ledger, size) for _ in range(min(calls, 50))] for size, ledger in ledgers.items()}
        yield from _looks(ledgers, drawn, calls)
        for size, ledger in ledgers.items():
            with ThreadPoolExecutor(32) as threads:
                made = (fresh_withdraw(_players(size)) for _ in range(8 * calls))
                list(threads.map(ledger.apply, made))
    new = _worked("verify", urls)  # Of calls that were just made, so that memory has what they wrote.
    yield from _cold_looks(urls, drawn, make_cold)
    for url in urls.values():
        _a_day_passes(url)
    night = _worked("maintain", urls)
    yesterday, today = _worked("totals-yesterday", urls), _worked("totals-today", urls)
    yield _seconds(f"verify, {10 * calls:,} new calls", new, most=2.0)
    yield _seconds("totals of yesterday", yesterday)
    yield _seconds("totals of today", today)
    yield _seconds(f"maintain, a night, {10 * calls:,} new calls", night)
    yield _seconds("maintain, the first", first)
    yield _seconds("verify --full", full)
    yield Row(
        "verify --full, rows a second", {size: each.rows / each.seconds for size, each in full.items()}, "{:,.0f}"
    )
    for what, works in {
        "verify --full": [full],
        "verify": [new],
        "maintain": [first, night],
        "totals": [yesterday, today],
    }.items():
        megabytes = {size: max(work[size].megabytes for work in works) for size in urls}
        yield Row(f"memory of {what}", megabytes, "{:.0f} MB", most=_MOST_MEGABYTES)


class _Worked(NamedTuple):
    seconds: float
    rows: int
    megabytes: float


def _worked(name: str, urls: dict[int, str]) -> dict[int, _Worked]:
    """Let a process do that work on the books of each size."""
    found = {}
    for size, url in urls.items():
        command = [sys.executable, "-m", "benchmarks.books_work", name, url]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        found[size] = _Worked(**json.loads(done.stdout))
        _say(f"{size:,} bets, {name}: {found[size]}")
    return found


def _seconds(what: str, worked: dict[int, _Worked], *, most: float | None = None) -> Row:
    return Row(what, {size: each.seconds for size, each in worked.items()}, "{:.2f} s", most=most)


def _calls(ledgers: dict[int, SqlLedger], rounds: int) -> Iterator[Row]:
    """Make the same calls in the ledgers, in turns."""
    seconds: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for _ in range(rounds):
        for size in random.sample(list(ledgers), len(ledgers)):
            withdraw = fresh_withdraw(_players(size))
            deposit = DepositCall(player_id=withdraw.player_id, bet_id=withdraw.bet_id, amount_cents=250)
            calls: dict[str, WebhookCall] = {"withdraw": withdraw, "the same again": withdraw, "deposit": deposit}
            for what, call in calls.items():
                seconds[what][size].append(_timed(partial(ledgers[size].apply, call)))
    for what, taken in seconds.items():
        yield Row(f"{what}, p50", _medians(taken), "{:.2f} ms", most_times=_MOST_TIMES)


def _looks(ledgers: dict[int, SqlLedger], drawn: dict[int, list[Drawn]], rounds: int) -> Iterator[Row]:
    """Look the same up in the ledgers, in turns."""
    for what, look in LOOKS.items():
        seconds: dict[int, list[float]] = defaultdict(list)
        for _ in range(max(1, rounds // 5)):
            for size in random.sample(list(ledgers), len(ledgers)):
                seconds[size].append(_timed(partial(look, ledgers[size], random.choice(drawn[size]))))
        yield Row(f"{what}, p50", _medians(seconds), "{:.2f} ms", most_times=_MOST_TIMES)
        _say(f"{what} was looked up")


def _cold_looks(urls: dict[int, str], drawn: dict[int, list[Drawn]], make_cold: Callable[[], None]) -> Iterator[Row]:
    opening: dict[int, list[float]] = defaultdict(list)
    for what, look in LOOKS.items():
        seconds: dict[int, list[float]] = defaultdict(list)
        for _ in range(_COLD_ROUNDS):
            make_cold()
            for size in random.sample(list(urls), len(urls)):
                began = time.perf_counter()
                with SqlLedger(urls[size]) as ledger:
                    opening[size].append(time.perf_counter() - began)
                    seconds[size].append(_timed(partial(look, ledger, random.choice(drawn[size]))))
        yield Row(f"{what}, cold", _medians(seconds), "{:.1f} ms", most=_MOST_COLD_MILLIS)
        _say(f"{what} was looked up cold")
    yield Row("opening the ledger, cold", _medians(opening), "{:.1f} ms")


def _drawn(ledger: SqlLedger, bets: int) -> Drawn:
    whole = DAYS * 86_400_000
    span = min(whole // 2, whole * _BETS_OF_SPAN // bets)
    since_millis = time.time_ns() // 1_000_000 - whole + int(random.uniform(0.01, 0.99) * (whole - span))
    bet = next(ledger.bets(since_millis=since_millis))
    return Drawn(since_millis, since_millis + span, bet.player_id, bet.bet_id)


def _bytes(urls: dict[int, str]) -> dict[int, float]:
    return {size: _size_of(url) / size for size, url in urls.items()}


def _size_of(url: str) -> int:
    if url.startswith("sqlite"):
        return Path(path_of(url)).stat().st_size
    with connected(url) as connection:
        row: Any = connection.execute(
            "SELECT sum(pg_total_relation_size(oid)) FROM pg_class "
            f"WHERE relkind = 'r' AND left(relname, {len(PREFIX)}) = '{PREFIX}'"
        ).fetchone()
    return int(row[0])


def _a_day_passes(url: str) -> None:
    """Let the last run of ``maintain`` be yesterday's: the next reads as much again as each night."""
    with connected(url) as connection:
        connection.execute(f"UPDATE {PREFIX}meta SET value = value - 86400000 WHERE name = 'maintained_millis'")
        connection.commit()


def _players(bets: int) -> int:
    return max(1, bets // _BETS_OF_PLAYER)


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _medians(seconds: Mapping[int, Sequence[float]]) -> dict[int, float]:
    return {size: statistics.median(each) * 1_000 for size, each in seconds.items()}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
