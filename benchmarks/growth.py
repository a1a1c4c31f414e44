"""
How calls, look-ups and books grow: ``python -m benchmarks.growth 10000 1000000`` fills ledgers and prints a table.

Calls and look-ups of all sizes take turns in one process, so a busy machine slows them alike; the ratio is to the size
nearest to 10,000 bets. Each piece of work on the books runs in a process for itself, so that its memory is its own.
"""

import argparse
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
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.ledger import fresh_withdraw
from benchmarks.ledger_stage import running_postgres, sqlite_file
from game_operator.codes import BetState
from game_operator.ledger import SqlLedger
from game_operator.ledger.engine.address import path_of
from game_operator.webhooks import DepositCall
from tests.support.filled_books import PREFIX, connected, fill_books

__all__ = ["LOOKS", "Row", "as_growth_table", "main"]

_NEAR: Final = 10_000
#: A player has so many bets, in books of any size.
_BETS_OF_PLAYER: Final = 100
_DAY_MILLIS: Final = 86_400_000


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


#: What is looked up of a player and of a bet.
LOOKS: Final[dict[str, Callable[[SqlLedger, str, str], object]]] = {
    "bets(), 50": lambda ledger, _player, _bet: list(islice(ledger.bets(), 50)),
    "bets() of a player, 50": lambda ledger, player, _: list(islice(ledger.bets(player_id=player), 50)),
    "bets() that are DECLINED, 50": lambda ledger, _player, _: list(islice(ledger.bets(state=BetState.DECLINED), 50)),
    "history of a bet": lambda ledger, _, bet_id: ledger.history(bet_id),
    "account_history, 50": lambda ledger, player, _: ledger.account_history(player),
    "anomalies() to look at, 50": lambda ledger, _player, _bet: list(islice(ledger.anomalies(), 50)),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description="How a ledger grows.")
    parser.add_argument("sizes", nargs="*", type=int, default=[1_000, 10_000, 100_000], help="numbers of bets")
    parser.add_argument("--calls", type=int, default=1_000, help="how many of each call and look-up; %(default)s")
    parser.add_argument("--database", action="append", choices=["sqlite", "postgresql"], help="only this kind")
    given = parser.parse_args(arguments)
    for kind in given.database or ("sqlite", "postgresql"):
        with ExitStack() as stack:
            server = stack.enter_context(running_postgres()) if kind == "postgresql" else None
            sizes = sorted(set(given.sizes))
            urls = {each: server.create_database() if server else stack.enter_context(sqlite_file()) for each in sizes}
            rows = list(_rows(urls, given.calls))
        load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
        print(f"{kind}; load over the last 1, 5 and 15 minutes: {load}\n\n{as_growth_table(rows)}\n", flush=True)


def as_growth_table(rows: Sequence[Row]) -> str:
    """Return a Markdown table: a line for each row, a column for each size, and what became of the goal."""
    sizes = sorted(rows[0].values)
    reference = min(sizes, key=lambda size: abs(size - _NEAR))
    lines = [["bets", *(f"{size:,}" for size in sizes), "goal"], ["---"] * (len(sizes) + 2)]
    for row in rows:
        times = {size: row.values[size] / row.values[reference] for size in sizes}
        cells = [
            row.form.format(row.values[size]) + (f" ({times[size]:.2f})" if row.most_times else "") for size in sizes
        ]
        goal = ""
        if row.most_times is not None:
            goal = f"≤ {row.most_times:.2f} times, {_verdict(times[sizes[-1]], row.most_times)}"
        if row.most is not None:
            goal = f"≤ {row.form.format(row.most)}, {_verdict(row.values[sizes[-1]], row.most)}"
        lines.append([row.what, *cells, goal])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _verdict(value: float, most: float) -> str:
    return "met" if value <= most else "MISSED"


def _rows(urls: dict[int, str], calls: int) -> Iterator[Row]:
    is_postgres = urls[min(urls)].startswith("postgres")
    for size, url in urls.items():
        _say(f"{size:,} bets are filled in")
        fill_books(url, size, players=_players(size))
        if is_postgres:  # As autovacuum does, while a ledger grows.
            with connected(url) as connection:
                connection.execute("ANALYZE")
                connection.commit()
    bytes_of_bet = {size: _bytes(url) / size for size, url in urls.items()}
    yield Row("bytes a bet", bytes_of_bet, "{:,.0f}", most=1_200 if is_postgres else None)
    full, first = _worked("verify-full", urls), _worked("maintain", urls)
    with ExitStack() as stack:
        ledgers = {size: stack.enter_context(SqlLedger(url)) for size, url in urls.items()}
        yield from _calls(ledgers, calls)
        yield from _looks(ledgers, calls)
        for size, ledger in ledgers.items():
            with ThreadPoolExecutor(32) as threads:
                list(threads.map(ledger.apply, (fresh_withdraw(_players(size)) for _ in range(8 * calls))))
    new = _worked("verify", urls)
    for url in urls.values():  # The last run of maintain was yesterday's: the next reads as much as each night.
        with connected(url) as connection:
            connection.execute(
                f"UPDATE {PREFIX}meta SET value = value - {_DAY_MILLIS} WHERE name = 'maintained_millis'"
            )
            connection.commit()
    night = _worked("maintain", urls)
    yield _seconds(f"verify, {10 * calls:,} new calls", new, most=2.0)
    yield _seconds(f"maintain, a night, {10 * calls:,} new calls", night)
    yield _seconds("maintain, the first", first)
    yield _seconds("verify --full", full)
    for what, works in {"verify --full": [full], "verify": [new], "maintain": [first, night]}.items():
        megabytes = {size: max(work[size].megabytes for work in works) for size in urls}
        yield Row(f"memory of {what}", megabytes, "{:.0f} MB", most=100)


class _Worked(NamedTuple):
    seconds: float
    megabytes: float


def _worked(name: str, urls: dict[int, str]) -> dict[int, _Worked]:
    """Let a process do that work on the books of each size."""
    found = {}
    for size, url in urls.items():
        command = [sys.executable, "-m", "benchmarks.books_work", name, url]
        found[size] = _Worked(**json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout))
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
            for what, call in (("withdraw", withdraw), ("the same again", withdraw), ("deposit", deposit)):
                seconds[what][size].append(_timed(partial(ledgers[size].apply, call)))
    for what, taken in seconds.items():
        yield _medians(what, taken)


def _looks(ledgers: dict[int, SqlLedger], rounds: int) -> Iterator[Row]:
    """Look the same up in the ledgers, in turns."""
    for what, look in LOOKS.items():
        seconds: dict[int, list[float]] = defaultdict(list)
        for _ in range(max(1, rounds // 5)):
            for size in random.sample(list(ledgers), len(ledgers)):
                player = f"p{random.randint(1, _players(size))}"
                bet = next(ledgers[size].bets(player_id=player))
                seconds[size].append(_timed(partial(look, ledgers[size], player, bet.bet_id)))
        yield _medians(what, seconds)


def _medians(what: str, seconds: Mapping[int, Sequence[float]]) -> Row:
    values = {size: statistics.median(each) * 1_000 for size, each in seconds.items()}
    return Row(f"{what}, p50", values, "{:.2f} ms", most_times=1.3)


def _bytes(url: str) -> int:
    if url.startswith("sqlite"):
        return Path(path_of(url)).stat().st_size
    with connected(url) as connection:
        row: Any = connection.execute(
            "SELECT sum(pg_total_relation_size(oid)) FROM pg_class "
            f"WHERE relkind = 'r' AND left(relname, {len(PREFIX)}) = '{PREFIX}'"
        ).fetchone()
    return int(row[0])


def _players(bets: int) -> int:
    return max(1, bets // _BETS_OF_PLAYER)


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
