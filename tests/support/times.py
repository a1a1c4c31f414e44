"""What a timestamp must be: Unix time in whole milliseconds, and now."""

import time

__all__ = ["is_now"]

_SLACK_MILLIS = 5_000


def is_now(timestamp: object, since: float) -> bool:
    """Return whether *timestamp* is an int of Unix milliseconds between *since*, in seconds, and now, within 5 s."""
    if type(timestamp) is not int:
        return False
    return since * 1000 - _SLACK_MILLIS < timestamp < time.time() * 1000 + _SLACK_MILLIS
