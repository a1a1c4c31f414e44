"""
The trace of a storm: what was sent, in which order, and what was heard, a JSON document on each line.

The first line says how the plan was made; with it the storm can be played again, in the order of the trace.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from game_operator.errors import ConfigurationError, shown
from game_operator.sandbox.dealer import Order
from game_operator.sandbox.delivery import Answer

__all__ = ["Trace", "TraceHead", "TracedOrder", "read_trace", "traced"]

_FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceHead:
    """How the plan was made: seed, start, players with what they had in cents, and the rest of the settings."""

    seed: int
    start_millis: int
    bets: int
    currency: str
    faults: str
    retries: str
    batches: bool
    opening: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TracedOrder:
    """One line: which order, at which simulated time, and the bodies of its posts."""

    name: str
    at_millis: int
    bodies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace as it was read."""

    head: TraceHead
    orders: tuple[TracedOrder, ...]


def traced(order: Order, answers: list[tuple[Answer, ...]]) -> str:
    """Return the line for an *order* and its *answers*; it holds no signature."""
    posts = [
        {
            "serial": post.serial,
            "delivery": post.attempt,
            "faults": post.faults,
            "path": post.path,
            "body": post.sent_for(post.signed).decode(),
            "heard": [str(answer) for answer in heard],
        }
        for post, heard in zip(order.posts, answers, strict=True)
    ]
    return json.dumps({"order": order.name, "at_millis": order.at_millis, "posts": posts})


def head_line(head: TraceHead) -> str:
    """Return the first line."""
    return json.dumps({"game_operator_storm": _FORMAT} | asdict(head))


def read_trace(path: Path) -> Trace:
    """
    Return the trace in the file *path*.

    Raises:
        ConfigurationError: It cannot be read, or is no trace of this version.
    """
    try:
        with path.open(encoding="utf-8") as file:
            lines = iter(file)
            head = _head(json.loads(next(lines)))
            return Trace(head, tuple(_orders(lines)))
    except OSError as failed:
        problem = failed.strerror or type(failed).__name__
    except StopIteration:
        problem = "it is empty"
    except (ValueError, KeyError, TypeError, AttributeError) as malformed:
        problem = f"it is no trace of a storm of this version ({malformed})"
    raise ConfigurationError(f"The trace {shown(str(path))} cannot be read: {problem}.")


def _head(told: dict[str, Any]) -> TraceHead:  # Any: what the JSON parser made.
    if told.pop("game_operator_storm") != _FORMAT:
        raise ValueError("its format is another")
    return TraceHead(**told)


def _orders(lines: Iterator[str]) -> Iterator[TracedOrder]:
    for line in lines:
        told = json.loads(line)
        yield TracedOrder(told["order"], told["at_millis"], tuple(post["body"] for post in told["posts"]))
