"""The live log: the newest exchanges, numbered, from any thread."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from game_operator_testkit.sandbox.service.exchange_log import LiveLog
from testkit.tests.sandbox.support import exchange


def test_exchanges_are_numbered_and_found() -> None:
    """From 1 up, the newest first; what there is not is None."""
    live = LiveLog()
    assert live.recent() == []
    recorded = [live.record(exchange(path=f"/{number}")) for number in range(3)]
    assert [each.number for each in recorded] == [1, 2, 3]
    assert live.recent() == recorded[::-1]
    assert live.recent(2) == recorded[:0:-1]
    assert live.exchange(2) == recorded[1]
    assert live.exchange(0) is live.exchange(4) is None


def test_deliveries_of_one_call() -> None:
    """They have the same path, bytes and signer; what has left the log is not among them."""
    live = LiveLog(kept=4)
    first, other, second = live.record(exchange()), live.record(exchange(path="/deposit")), live.record(exchange())
    forged = live.record(exchange(signature="forged"))
    assert live.deliveries(first) == live.deliveries(second) == (1, 3)
    assert (live.deliveries(other), live.deliveries(forged)) == ((2,), (4,))
    live.record(exchange())
    assert live.deliveries(second) == (3, 5)
    for unlike in (
        exchange(path="/player-balance"),
        exchange(direction="api"),
        exchange(request_body=b"{}"),
    ):
        assert len(live.deliveries(live.record(unlike))) <= 1
    for _ in range(4):
        live.record(exchange(path="/rollback"))
    assert live.deliveries(first) == ()


@pytest.mark.parametrize(
    ("direction", "path", "operation"),
    [
        ("webhook", "/withdraw", "withdraw"), ("webhook", "/a/b", "a/b"),
        ("api", "/api/v0.2/fetch-games", "fetch-games"),
        ("api", "/api/v0.2/fetch-bet/bet-1", "fetch-bet"), ("api", "/api/v0.2/fetch-bet?x=/y", "fetch-bet"),
        ("api", "/else/where", "else"),
    ],
)  # fmt: skip
def test_the_operation_of_a_path(direction: Any, path: str, operation: str) -> None:
    """What was asked, without the id."""
    assert exchange(path=path, direction=direction).operation == operation


@pytest.mark.parametrize(("count", "oldest"), [(5, 1), (6, 2)])
def test_only_the_newest_are_kept(count: int, oldest: int) -> None:
    """What is older is gone, and its number is never given again."""
    live = LiveLog(kept=5)
    for _ in range(count):
        live.record(exchange())
    assert [each.number for each in live.recent(100)] == [*range(count, oldest - 1, -1)]
    assert (live.exchange(oldest - 1) is None) is (live.exchange(oldest) is not None) is True


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        pytest.param({"response_body": b"x" * 60}, [3, 2, 1], id="as many bytes as may be"),
        pytest.param({"response_body": b"x" * 61}, [3, 2], id="a byte of an answer more"),
        pytest.param({"response_body": b"x" * 59, "response_headers": ((b"a", b"b"),)}, [3, 2], id="of a header more"),
        pytest.param({"response_body": b"x" * 10_000}, [3], id="the newest stays"),
    ],
)
def test_long_ones_push_out_more(changes: dict[str, Any], kept: list[int]) -> None:
    """The bytes of all bodies and headers are bounded, on either side; and what went makes room again."""
    live = LiveLog(kept_bytes=160)
    empty = exchange(request_headers=(), request_body=b"", response_body=b"")
    for size in (40, 60):
        live.record(replace(empty, response_body=b"x" * size))
    live.record(replace(empty, **changes))
    assert [each.number for each in live.recent()] == kept
    for _ in range(4):
        live.record(replace(empty, response_body=b"x" * 40))
    assert [each.number for each in live.recent()] == [7, 6, 5, 4]
    live.record(replace(empty, request_body=b"x"))
    assert [each.number for each in live.recent()] == [8, 7, 6, 5]


def test_many_threads_record() -> None:
    """None is lost, and no number is given twice."""
    live = LiveLog(kept=2_000)
    with ThreadPoolExecutor(8) as threads:
        recorded = [threads.submit(live.record, exchange()) for _ in range(1_000)]
    assert (
        sorted(each.result().number for each in recorded)
        == [each.number for each in live.recent(2_000)][::-1]
        == [*range(1, 1_001)]
    )


def test_a_reply_is_read_if_it_is_whole() -> None:
    """A body that was cut, or is encoded, says nothing, even if its beginning reads well (spec §2.1)."""
    told = exchange(response_body=b'{"type":"ERROR","code":"BET_NOT_FOUND","balance":1.50}')
    assert (told.code, told.balance_cents, told.problem) == ("BET_NOT_FOUND", 150, "")
    cut = replace(told, defect="the body is longer than 1048576 bytes")
    assert (cut.code, cut.balance_cents, cut.problem) == (None, None, "the body is longer than 1048576 bytes")
    broken = replace(told, response_body=b"{")
    assert broken.code is None
    assert broken.problem
