"""The live log in a file: what survives a restart, how much, and who can read it."""

import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.errors import ConfigurationError
from game_operator_testkit.sandbox import Sandbox
from game_operator_testkit.sandbox.service.exchange_file import ExchangeFile
from game_operator_testkit.sandbox.service.exchange_log import Exchange, LiveLog
from testkit.tests.sandbox.support import exchange

SECRET = b"c2lnbmF0dXJl"


def kept_in(path: Path, *, kept: int = 1_000, kept_bytes: int = 10_000_000) -> LiveLog:
    """Return a log that is kept in the file at *path*."""
    live = LiveLog(kept, kept_bytes)
    live.keep_in(path)
    return live


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "calls.db"


@pytest.fixture
def odd() -> Exchange:
    """A call with all that is unusual: no answer, binary bytes, Latin-1 in a header, half an emoji, other signs."""
    return exchange(
        at_millis=2**41,
        direction="api",
        method="GET",
        path="/api/v0.2/fetch-bet/\u202e\0",
        request_headers=((b"x-signature", SECRET), (b"x", b"\xff\x00")),
        request_body=b"\xff\x00",
        signature="invalid",
        status=None,
        response_body=b"",
        elapsed_ms=1.25,
        note="\ud83d",
        amount_cents=2**60,
    )


def test_calls_survive_a_restart(file: Path, odd: Exchange) -> None:
    """All of each, with its number, and the deliveries of each call; the numbers go on, and so does the run."""
    live = kept_in(file)
    before = [live.record(each) for each in (exchange(), exchange(), odd)]
    live.close_file()
    again = kept_in(file)
    assert again.recent() == before[::-1]
    assert (again.count, again.run) == (3, live.run)
    assert again.deliveries(before[0]) == (1, 2)
    assert [each.code for each in again.recent()] == [each.code for each in before[::-1]]
    assert again.record(exchange()).number == 4
    again.close_file()
    assert kept_in(file).count == 4


@pytest.mark.parametrize(
    ("limit", "left"),
    [({"kept": 3}, [5, 4, 3]), ({"kept": 5}, [5, 4, 3, 2, 1]), ({"kept_bytes": 160}, [5, 4])],
    ids=["three", "all", "by bytes"],
)
def test_the_file_has_what_the_log_has(file: Path, limit: dict[str, int], left: list[int]) -> None:
    """No more, so it does not grow for ever."""
    live = kept_in(file, **limit)
    for _ in range(5):
        live.record(exchange())
    assert [each.number for each in live.recent()] == left
    live.close_file()
    again = kept_in(file)
    assert [each.number for each in again.recent()] == left
    assert again.exchange(left[-1]) == live.exchange(left[-1])


@pytest.mark.parametrize("before", [None, 0o644], ids=["a new file", "a file that others could read"])
def test_only_its_owner_reads_it(file: Path, before: int | None) -> None:
    """It has the signatures that Live shows; SQLite's other files too are its owner's alone."""
    if before is not None:
        kept_in(file).close_file()
        file.chmod(before)
    live = kept_in(file)
    live.record(exchange(request_headers=((b"signature", SECRET),)))
    files = list(file.parent.glob("calls.db*"))
    assert {mode(each) for each in files} == {0o600}
    assert any(SECRET in each.read_bytes() for each in files)


@pytest.mark.parametrize("kind", ["a later version", "text"])
def test_another_file_is_left_alone(file: Path, kind: str) -> None:
    """Such as the wallet's own database: refused, with its bytes and its mode as they were."""
    if kind == "text":
        file.write_text("player_id,balance\n" * 100)
    else:
        kept_in(file).close_file()
        with closing(sqlite3.connect(file)) as database:
            database.execute("PRAGMA user_version = 3")
    file.chmod(0o640)
    before = file.read_bytes()
    with pytest.raises(
        ConfigurationError, match=r"Calls cannot be recorded in .*calls\.db.*\. Pass a new file"
    ) as refused:
        kept_in(file)
    assert refused.value.setting == "record"
    assert (file.read_bytes(), mode(file)) == (before, 0o640)


def test_a_second_sandbox_cannot_use_it(file: Path) -> None:
    """Both would give the same numbers to other calls. Once the first one has stopped, it can."""
    first = kept_in(file)
    with pytest.raises(ConfigurationError, match="another sandbox uses it"):
        kept_in(file)
    first.close_file()
    kept_in(file)


def test_a_full_disk_fails_no_call(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log goes on in memory, which is said once; what was written before is still there."""

    def fails(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    live = kept_in(file)
    live.record(exchange())
    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(ExchangeFile, "write", fails)
        assert [live.record(exchange()).number for _ in range(2)] == [2, 3]
    assert [record.__dict__["event"] for record in caplog.records] == ["sandbox.recording_failed"]
    assert live.count == 3
    assert kept_in(file).count == 1


@pytest.mark.outside
def test_a_sandbox_records_while_it_serves(file: Path, private_key: RSAPrivateKey) -> None:
    """Calls of both runs are there, and no private key; the file is free after the block, and after one that failed."""
    for number in (1, 2):
        with Sandbox(record=file, service_private_key=private_key) as sandbox, sandbox.client() as client:
            client.fetch_games()
            assert sandbox.live.count == number
            assert b"PRIVATE" not in b"".join(each.read_bytes() for each in file.parent.glob("calls.db*"))
            with pytest.raises(ConfigurationError, match="cannot listen"):
                Sandbox(record=file.with_name("b.db"), port=int(sandbox.base_url.rpartition(":")[2])).__enter__()
    kept_in(file.with_name("b.db"))
    kept_in(file)
