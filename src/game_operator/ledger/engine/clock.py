"""A clock that never goes back within one process, whatever is done to the machine's."""

from collections.abc import Callable

__all__ = ["never_back"]


def never_back(clock_millis: Callable[[], int]) -> Callable[[], int]:
    """
    Return *clock_millis*, standing still where it would step back.

    A balance that was told with a time is kept nowhere: if the clock steps back, the next movement would be stored with
    an earlier time than the older balance was told with. Call it with a lock held.
    """
    latest = 0

    def read() -> int:
        nonlocal latest
        latest = max(latest, clock_millis())
        return latest

    return read
