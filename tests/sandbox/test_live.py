"""The live log: the newest exchanges, numbered, for watchers of any thread."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from game_operator.sandbox.live import Exchange, LiveLog

SECRET = b"c2lnbmF0dXJl"


def exchange(path: str = "/withdraw") -> Exchange:
    return Exchange(
        at_millis=1,
        direction="webhook",
        method="POST",
        path=path,
        request_headers=((b"signature", SECRET),),
        request_body=b'{"player_id":"p1"}',
        signature="valid",
        status=200,
        response_body=b'{"type":"SUCCESS"}',
    )


def test_exchanges_are_numbered_and_found() -> None:
    """From 1 up, the newest first; what there is not is None."""
    live = LiveLog()
    assert live.recent() == []
    recorded = [live.record(exchange(f"/{number}")) for number in range(3)]
    assert [each.number for each in recorded] == [1, 2, 3]
    assert live.recent() == recorded[::-1]
    assert live.recent(2) == recorded[:0:-1]
    assert live.exchange(2) == recorded[1]
    assert live.exchange(0) is live.exchange(4) is None


@pytest.mark.parametrize(("count", "oldest"), [(5, 1), (6, 2)])
def test_only_the_newest_are_kept(count: int, oldest: int) -> None:
    """What is older is gone, and its number is never given again."""
    live = LiveLog(kept=5)
    for _ in range(count):
        live.record(exchange())
    assert [each.number for each in live.recent(100)] == [*range(count, oldest - 1, -1)]
    assert (live.exchange(oldest - 1) is None) is (live.exchange(oldest) is not None) is True


def one_more(live: LiveLog, told: list[int]) -> None:
    with live.watched_by(lambda each: told.append(each.number)):
        live.record(exchange())
        raise OSError("gone")


def test_watchers_are_told_while_they_watch() -> None:
    """Each exchange with its number, and no more after the block, even when it ends by an error."""
    live = LiveLog()
    first: list[int] = []
    second: list[int] = []
    with live.watched_by(lambda each: first.append(each.number)):
        live.record(exchange())
        with pytest.raises(OSError, match="gone"):
            one_more(live, second)
        live.record(exchange())
    live.record(exchange())
    assert (first, second) == ([1, 2, 3], [2])


def test_a_watcher_may_look_into_the_log() -> None:
    """It is told outside the lock."""
    live = LiveLog()
    seen: list[Exchange | None] = []
    with live.watched_by(lambda each: seen.append(live.exchange(each.number))):
        live.record(exchange())
    assert seen == live.recent()


def test_many_threads_record() -> None:
    """None is lost, and no number is given twice."""
    live = LiveLog(kept=2_000)
    told: list[int] = []
    with live.watched_by(lambda each: told.append(each.number)), ThreadPoolExecutor(8) as threads:
        for _ in range(1_000):
            threads.submit(live.record, exchange())
    assert sorted(told) == [each.number for each in live.recent(2_000)][::-1] == [*range(1, 1_001)]


def test_what_is_secret_is_not_shown() -> None:
    """Signatures and bodies are for the page, not for logs."""
    told = repr(exchange())
    assert SECRET.decode() not in told
    assert "player_id" in told
    assert "p1" not in told
