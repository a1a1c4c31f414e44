"""A PostgreSQL primary and its synchronous standby, each on a machine of a test's network."""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from shutil import rmtree

import psycopg

from tests.support.books import execute
from tests.support.namespaces import Machine
from tests.support.postgres import PostgresServer

_PATIENCE_SECONDS = 30.0
_STANDBY = "standby"
#: A silent network is noticed within seconds; by default it takes a minute, or hours.
_SETTINGS: Mapping[str, str] = {
    "wal_sender_timeout": "5s",
    "wal_receiver_timeout": "5s",
    "wal_retrieve_retry_interval": "500ms",
    "tcp_user_timeout": "10s",
    "wal_keep_size": "256MB",
}


@contextmanager
def replicated(first: Machine, second: Machine) -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """Start a primary on *first* and its standby on *second*; commits of the primary wait for the standby."""
    with ExitStack() as stack:
        primary, standby = (
            PostgresServer(durable=True, settings={**_SETTINGS, "listen_addresses": machine.address})
            for machine in (first, second)
        )
        with first.entered():
            stack.enter_context(primary)
        hba = "".join(f"host {what} all samenet trust\n" for what in ("all", "replication"))
        with (primary.folder / "data" / "pg_hba.conf").open("a") as file:
            file.write(hba)
        execute(primary.url, "SELECT pg_reload_conf()")
        with second.entered():
            stack.enter_context(standby)
            follow(standby, first.address)
        execute(primary.url, f"ALTER SYSTEM SET synchronous_standby_names = '{_STANDBY}'")
        execute(primary.url, "SELECT pg_reload_conf()")
        until_synchronous(primary)
        yield primary, standby


def follow(standby: PostgresServer, address: str) -> None:
    """Make *standby*, whatever it was, a standby of the primary at *address*."""
    standby.stop(immediate=True)
    data = standby.folder / "data"
    rmtree(data)
    source = f"host={address} port=5432 user=postgres application_name={_STANDBY}"
    standby.run(
        "pg_basebackup", "--dbname", source, "--pgdata", str(data), "--checkpoint=fast", "--write-recovery-conf"
    )
    standby.start()


def until_synchronous(primary: PostgresServer) -> None:
    """Wait until the commits of *primary* wait for its standby, and are confirmed by it."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while execute(primary.url, "SELECT sync_state FROM pg_stat_replication") != [("sync",)]:
        assert time.monotonic() < until, primary.log()[-2000:]
        time.sleep(0.05)


def promote(standby: PostgresServer) -> None:
    """Make *standby* a primary, whose commits wait for nobody."""
    with psycopg.connect(standby.url, autocommit=True) as connection:
        assert connection.execute("SELECT pg_promote()").fetchone() == (True,)
