"""
What a bet costs PostgreSQL: time, processor time, WAL and bytes; also with calls and bets partitioned by hash.

    python -m benchmarks.per_bet --bets 1000000 --partitions 16

The books are filled, then each turn plays fresh bets, a withdraw and a deposit each, on every form of the tables in
turn. docs/explanation/scaling.md and docs/decisions/0015-ledger-rows.md have the figures.
"""

import argparse
import os
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from benchmarks.books_filled import fill_books
from benchmarks.ledger_stage import PREFIX, connected, running_postgres
from game_operator.ledger import SqlLedger
from game_operator.webhooks import DepositCall, WithdrawCall
from tests.support.postgres import PostgresServer

_PLAYERS: Final = 10_000
_TICKS: Final = os.sysconf("SC_CLK_TCK")
#: What becomes of WAL: settings of the server, and whether a checkpoint comes before the turn.
_MODES: Final = {
    "records alone": ({"full_page_writes": "off", "wal_compression": "off"}, False),
    "after a checkpoint": ({"full_page_writes": "on", "wal_compression": "off"}, True),
    "after a checkpoint, pages compressed": ({"full_page_writes": "on", "wal_compression": "on"}, True),
}
_HASHED: Final = """
DO $$
    DECLARE
        definition record;
    BEGIN
        CREATE TEMPORARY TABLE definitions AS SELECT tablename, indexdef FROM pg_indexes
            WHERE tablename IN ('{prefix}calls', '{prefix}bets') AND indexname NOT LIKE '%\\_pkey';
        ALTER TABLE {prefix}{table} RENAME TO {prefix}{table}_plain;
        CREATE TABLE {prefix}{table} (LIKE {prefix}{table}_plain INCLUDING DEFAULTS INCLUDING CONSTRAINTS)
            PARTITION BY HASH ({key});
        FOR part IN 0..{partitions} - 1 LOOP
            EXECUTE format('CREATE TABLE {prefix}{table}_%s PARTITION OF {prefix}{table}'
                ' FOR VALUES WITH (MODULUS {partitions}, REMAINDER %s) WITH (fillfactor = {fillfactor})', part, part);
        END LOOP;
        ALTER TABLE {prefix}{table} ADD PRIMARY KEY ({primary_key});
        INSERT INTO {prefix}{table} SELECT * FROM {prefix}{table}_plain;
        DROP TABLE {prefix}{table}_plain;
        FOR definition IN SELECT * FROM definitions WHERE tablename = '{prefix}{table}' LOOP
            EXECUTE definition.indexdef;
        END LOOP;
        DROP TABLE definitions;
    END
$$
"""
_SIZES: Final = (
    "SELECT relname, pg_relation_size(oid) FROM pg_class WHERE starts_with(relname, 'game_operator_') "
    "AND relkind IN ('r', 'i') ORDER BY 2 DESC LIMIT 14"
)


class Cost(NamedTuple):
    """What a bet costs: microseconds, and bytes and records of WAL."""

    wall: float
    server: float
    client: float
    wal_bytes: float
    wal_pages: float


def main() -> None:
    """Fill, play and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bets", type=int, default=100_000, help="stored before (100000)")
    parser.add_argument("--turn", type=int, default=4_000, help="bets of a turn (4000)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--partitions", type=int, default=0, help="also with so many partitions by hash")
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--modes", nargs="+", choices=_MODES, default=[*_MODES])
    options = parser.parse_args()
    with running_postgres() as server:
        forms = {"plain": server.create_database()}
        fill_books(forms["plain"], options.bets, players=_PLAYERS)
        if options.partitions:
            forms["hashed"] = server.create_database(template=forms["plain"])
            _hash(forms["hashed"], options.partitions)
        for name, url in forms.items():
            print(f"{name}: VACUUM of bets {_vacuum(url):.2f} s")
            _print_sizes(url)
        for callers in options.callers:
            for mode in options.modes:
                _compare(server, forms, callers, mode, options.turn, options.rounds)
        for name, url in forms.items():
            print(f"{name}: VACUUM of bets {_vacuum(url):.2f} s")
            _print_sizes(url)


def _hash(url: str, partitions: int) -> None:
    keys = {"calls": ("tx_id", "tx_id, operation, source", 100), "bets": ("bet_id", "bet_id, source", 85)}
    with connected(url) as connection:
        for table, (key, primary_key, fillfactor) in keys.items():
            names = {"table": table, "key": key, "primary_key": primary_key}
            connection.execute(_HASHED.format(prefix=PREFIX, partitions=partitions, fillfactor=fillfactor, **names))
        connection.commit()


def _vacuum(url: str) -> float:
    """Return how long the vacuum of the bets takes."""
    with connected(url) as connection:
        connection.autocommit = True
        connection.execute(f"VACUUM (ANALYZE) {PREFIX}calls")
        began = time.perf_counter()
        connection.execute(f"VACUUM (ANALYZE) {PREFIX}bets")
        return time.perf_counter() - began


def _print_sizes(url: str) -> None:
    with connected(url) as connection:
        (bets,) = connection.execute(f"SELECT count(*) FROM {PREFIX}bets").fetchone()
        rows = connection.execute(_SIZES).fetchall()
        (total,) = connection.execute(
            f"SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relname LIKE '{PREFIX}%' AND relkind = 'r'"
        ).fetchone()
    each = ", ".join(f"{name.removeprefix(PREFIX)} {size / bets:.0f}" for name, size in rows)
    print(f"bytes of a bet: {each}; in all {total / bets:.0f}", flush=True)


def _compare(server: PostgresServer, forms: dict[str, str], callers: int, mode: str, bets: int, rounds: int) -> None:
    settings, checkpoint = _MODES[mode]
    with connected(server.url) as connection:
        connection.autocommit = True
        for name, value in settings.items():
            connection.execute(f"ALTER SYSTEM SET {name} = {value}")
        connection.execute("SELECT pg_reload_conf()")
        time.sleep(1)
        connection.execute("CHECKPOINT")
        costs: dict[str, list[Cost]] = {form: [] for form in forms}
        for _ in range(rounds):
            for form, url in forms.items():
                if checkpoint:
                    connection.execute("CHECKPOINT")
                costs[form].append(_turn(server, url, callers, bets // (1 if callers > 1 else 4)))
    for form, each in costs.items():
        medians = ", ".join(
            f"{name} {median(values):.1f} ({min(values):.1f} to {max(values):.1f})"
            for name, values in zip(Cost._fields, zip(*each, strict=True), strict=True)
        )
        print(f"{callers} callers, {mode}, {form}: {medians}", flush=True)


def _turn(server: PostgresServer, url: str, callers: int, bets: int) -> Cost:
    rounds = [list(_round()) for _ in range(bets)]
    with connected(server.url) as connection:
        connection.autocommit = True
        bytes_before, pages_before = _wal(connection)
        server_before = _server_seconds(server.pid)
        with closing(SqlLedger(url)) as ledger:
            ledger.apply(WithdrawCall(player_id="p1", bet_id=_id(), amount_cents=100))
            client_before, began = time.process_time(), time.perf_counter()
            _play(ledger, rounds, callers)
            wall, client = time.perf_counter() - began, time.process_time() - client_before
        # The session reports its WAL when it ends.
        _wait_for_sessions(connection)
        time.sleep(0.2)  # Until the server has buried it, so that its time is counted.
        wal_bytes, pages = _wal(connection)
        server_seconds = _server_seconds(server.pid) - server_before
    micros = [1e6 * seconds / bets for seconds in (wall, server_seconds, client)]
    return Cost(*micros, (wal_bytes - bytes_before) / bets, (pages - pages_before) / bets)


def _round() -> Iterator[WithdrawCall | DepositCall]:
    place = {
        "player_id": f"p{random.randint(1, _PLAYERS)}",
        "bet_id": _id(),
        "instance_id": "instance-1",
        "game": "aviator",
    }
    yield WithdrawCall(**place, amount_cents=100, tx_id=_id(), body=place["bet_id"].encode())
    yield DepositCall(**place, amount_cents=random.choice([0, 0, 0, 120, 250]), tx_id=_id())


def _id() -> str:
    # Ids as a service writes them: no order in them.
    return f"{random.getrandbits(96):024x}"


def _play(ledger: SqlLedger, rounds: Sequence[Sequence[WithdrawCall | DepositCall]], callers: int) -> None:
    def work(index: int) -> None:
        for calls in rounds[index::callers]:
            for call in calls:
                assert ledger.apply(call).applied or call.amount_cents == 0

    threads = [threading.Thread(target=work, args=(index,)) for index in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _wal(connection: Any) -> tuple[int, int]:
    return connection.execute("SELECT wal_bytes, wal_fpi FROM pg_stat_wal").fetchone()


def _wait_for_sessions(connection: Any) -> None:
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND datname <> current_database()"
    )
    while connection.execute(others).fetchone()[0]:
        time.sleep(0.02)


def _server_seconds(pid: int) -> float:
    """Return the processor time of a server's processes, with those that ended."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(stat.parent.name) == pid:
            ticks += sum(map(int, fields[11:15]))
        elif int(fields[1]) == pid:
            ticks += sum(map(int, fields[11:13]))
    return ticks / _TICKS


if __name__ == "__main__":
    main()
