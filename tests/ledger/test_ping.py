"""`ledger.ping`: whether the database answers, in bounded time, and never in the way of calls."""

import asyncio
import errno
import os
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import psycopg
import pytest

from game_operator.errors import LedgerUnavailableError
from game_operator.ledger import AsyncSqlLedger, PingReport, SqlLedger

pytestmark = pytest.mark.outside

PASSWORD = "pa55-of-the-wallet"
Look = Callable[..., PingReport]


def in_threads(url: str, **options: float) -> PingReport:
    ledger = SqlLedger.__new__(SqlLedger)  # What cannot be reached cannot be opened, and is looked at all the same.
    ledger._url, ledger._pinger = url, AsyncSqlLedger("sqlite:///:memory:")._pinger
    return ledger.ping(**options)


def awaited(url: str, **options: float) -> PingReport:
    return asyncio.run(AsyncSqlLedger(url).ping(**options))


@pytest.fixture(params=[in_threads, awaited])
def look(request: pytest.FixtureRequest) -> Look:
    """Both kinds of ledger."""
    found: Look = request.param
    return found


@contextmanager
def silent() -> Iterator[tuple[str, socket.socket]]:
    """Yield the address of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"postgresql://wallet:{PASSWORD}@127.0.0.1:{listener.getsockname()[1]}/wallet", listener


def test_a_database_that_answers_and_takes_writes(url: str, look: Look) -> None:
    """How long it took, on a clock that is ours here."""
    report = look(url, timeout_seconds=20)
    assert report.writable
    assert 0 < report.latency_millis < 20_000
    assert abs(report.clock_difference_millis) < 1_000


def test_a_read_only_server_is_told_apart(postgres_url: str, look: Look) -> None:
    """As a standby is, which answers too."""
    report = look(f"{postgres_url}&options=-c%20default_transaction_read_only%3Don", timeout_seconds=20)
    assert not report.writable


def test_a_read_only_file_is_told_apart(tmp_path: Path, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of SQLite the file and its folder have to take writes, for the log beside the file."""
    file = tmp_path / "wallet.db"
    SqlLedger(f"sqlite:///{file}").close()
    for closed in (file, tmp_path):
        monkeypatch.setattr(os, "access", lambda path, _, closed=closed: path != closed)
        assert not look(f"sqlite:///{file}").writable
    monkeypatch.setattr(os, "access", lambda *_: True)
    assert look(f"sqlite:///{file}").writable


def test_it_never_waits_longer_than_it_may(look: Look) -> None:
    """A server that hangs; no password in the message."""
    with silent() as (url, _):
        began = time.monotonic()
        with pytest.raises(LedgerUnavailableError, match=r"did not answer within 0\.2 s\.$") as failed:
            look(url, timeout_seconds=0.2)
        assert 0.2 <= time.monotonic() - began < 1.5
    assert PASSWORD not in str(failed.value)


@pytest.mark.parametrize(
    "address",
    [
        pytest.param(f"postgresql://wallet:{PASSWORD}@127.0.0.1:1/wallet", id="nobody listens"),
        pytest.param("sqlite:///{here}/none.db", id="no file"),
        pytest.param("sqlite:///{here}/other.db", id="another kind of file"),
    ],
)
def test_what_does_not_answer(address: str, look: Look, tmp_path: Path) -> None:
    """It raises, and makes no file."""
    (tmp_path / "other.db").write_bytes(b"no database at all, for sure" * 100)
    with pytest.raises(LedgerUnavailableError, match="does not answer: ") as failed:
        look(address.format(here=tmp_path), timeout_seconds=20)
    assert PASSWORD not in str(failed.value)
    assert not (tmp_path / "none.db").exists()


def test_calls_and_looks_are_not_in_each_others_way(url: str) -> None:
    """While a transaction of another connection holds its locks, a look is answered; it holds none itself."""
    with SqlLedger(url) as ledger:
        ledger.open_account("p1")
        if url.startswith("sqlite"):
            busy = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
            busy.execute("BEGIN IMMEDIATE")
            assert ledger.ping(timeout_seconds=20).writable
            busy.close()
        else:
            with psycopg.connect(url) as connection:
                connection.execute("LOCK TABLE game_operator_accounts")
                assert ledger.ping(timeout_seconds=20).writable
        with ledger._alone():  # A call of ours that takes its time.
            assert ThreadPoolExecutor(1).submit(ledger.ping, timeout_seconds=20).result(20).writable
        assert ledger.balance("p1") == 0


def test_a_forked_process_looks_by_itself(tmp_path: Path) -> None:
    """A look that hung in the parent is not waited for in the child, where its thread does not exist."""
    with silent() as (url, _), SqlLedger(f"sqlite:///{tmp_path / 'wallet.db'}") as ledger:
        with pytest.raises(LedgerUnavailableError):
            ledger._pinger.ping(url, 0.05)
        pid = os.fork()
        if not pid:
            try:
                os._exit(0 if ledger.ping(timeout_seconds=5).writable else 1)
            except BaseException:
                os._exit(2)
        assert os.waitpid(pid, 0)[1] == 0


def test_a_look_that_gets_no_descriptor(postgres_url: str, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may be out of them for a moment; the next look finds the database."""
    with monkeypatch.context() as patch:
        patch.setattr(psycopg, "connect", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
        with pytest.raises(LedgerUnavailableError, match="Too many open files"):
            look(postgres_url)
    assert look(postgres_url).writable


def test_the_next_look_is_made_after_one_that_got_no_thread(url: str) -> None:
    """A machine may be out of threads for a moment."""

    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    with SqlLedger(url) as ledger:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("threading.Thread.start", refuse)
            with pytest.raises(LedgerUnavailableError, match="nobody could look, because of can't start new thread"):
                ledger.ping()
        assert ledger.ping().latency_millis > 0
