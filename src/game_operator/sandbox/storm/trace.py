"""
The trace of a storm: what was sent, in which order, and what was heard, a JSON document on each line.

The first line says how the plan was made; with it the storm can be played again, in the order of the trace.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from game_operator.errors import ConfigurationError, shown
from game_operator.models.webhooks import LONGEST_ID, MAX_AMOUNT_CENTS, problem_of_id
from game_operator.provider.delivery import Answer
from game_operator.provider.http import Courier
from game_operator.sandbox.dealing.carrying import OnAnswer, OnOrder, carried, play
from game_operator.sandbox.dealing.dealer import Dealer
from game_operator.sandbox.dealing.dealt import Order

#: In characters. A call takes some 600, its batch a hundred times as many, and each player of the first line 50.
LONGEST_LINE: Final = 64 * 1024 * 1024
#: In characters: more than a million bets with all faults.
LARGEST_TRACE: Final = 2 * 1024 * 1024 * 1024

#: What a person waits for; a trace that asks for more is none of ours.
_MOST_BETS: Final = 10_000_000
#: The end of the year 9999.
_LAST_MILLIS: Final = 253_402_300_799_999
_FORMAT: Final = 1
_WHAT_TO_DO: Final = "Pass a file that a storm wrote; for a smaller one let it play fewer --bets"


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
    """One line: which calls were sent, at which simulated time, and the bodies of the posts."""

    names: tuple[str, ...]
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
    return json.dumps({"calls": order.names, "at_millis": order.at_millis, "posts": posts})


def head_line(head: TraceHead) -> str:
    """Return the first line."""
    return json.dumps({"game_operator_storm": _FORMAT} | asdict(head))


def read_trace(path: Path) -> Trace:
    """
    Return the trace in the file *path*.

    Raises:
        ConfigurationError: It cannot be read, or is no trace of this version.
    """
    number = 0
    try:
        with path.open(encoding="utf-8") as file:
            told: list[Any] = []  # Any: what the JSON parser makes.
            for number, line in enumerate(_lines(file), 1):
                told.append(_head(json.loads(line)) if number == 1 else _order(json.loads(line)))
    except _TooLargeError as large:
        problem = str(large)
    except OSError as failed:
        problem = failed.strerror or type(failed).__name__
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        problem = f"line {number} is none of a storm's trace of this version"
        if number == 0:
            problem = "it is no UTF-8 text"
    else:
        if told:
            return Trace(told[0], tuple(told[1:]))
        problem = "it is empty"
    raise ConfigurationError(f"The trace {shown(str(path))} cannot be read: {problem}.")


class _TooLargeError(Exception):
    """What is no trace of ours, by its size."""


def _lines(file: TextIO) -> Iterator[str]:
    """Yield the lines of *file*; a device such as /dev/zero has one without an end."""
    total = 0
    # One more than may be, to see that there is more.
    while line := file.readline(LONGEST_LINE + 1):
        total += len(line)
        if len(line) > LONGEST_LINE:
            raise _TooLargeError(f"it has a line of more than {LONGEST_LINE} characters. {_WHAT_TO_DO}")
        if total > LARGEST_TRACE:
            raise _TooLargeError(f"it has more than {LARGEST_TRACE} characters. {_WHAT_TO_DO}")
        yield line


def _head(told: dict[str, Any]) -> TraceHead:
    if told.pop("game_operator_storm") != _FORMAT:
        raise ValueError("its format is another")
    head = TraceHead(**told)
    texts = (head.currency, head.faults, head.retries, *head.opening)
    numbers = (head.seed, head.start_millis, head.bets, *head.opening.values())
    if not (_all(str, texts) and _all(int, numbers) and _all(bool, (head.batches,)) and head.opening):
        raise ValueError("a setting is of another kind")
    if not (1 <= head.bets <= _MOST_BETS and 0 <= head.start_millis <= _LAST_MILLIS):
        raise ValueError("a number is out of bounds")
    if not all(0 <= cents <= MAX_AMOUNT_CENTS for cents in head.opening.values()):
        raise ValueError("a balance is out of bounds")
    if any(problem_of_id(player_id, LONGEST_ID) for player_id in head.opening):
        raise ValueError("a player's id is none")
    return head


def _order(told: dict[str, Any]) -> TracedOrder:
    order = TracedOrder(tuple(told["calls"]), told["at_millis"], tuple(post["body"] for post in told["posts"]))
    if not (order.names and _all(str, (*order.names, *order.bodies)) and _all(int, (order.at_millis,))):
        raise ValueError("a value is of another kind")
    if not 0 <= order.at_millis <= _LAST_MILLIS:
        raise ValueError("a time is out of bounds")
    return order


def _all(kind: type, values: Iterable[object]) -> bool:
    # For isinstance, true would be a number.
    return all(type(value) is kind for value in values)


async def replay(
    dealer: Dealer,
    courier: Courier,
    trace: Trace,
    *,
    on_order: OnOrder | None = None,
    on_answer: OnAnswer | None = None,
) -> None:
    """
    Play *dealer*'s plan in the order of *trace*, one post at a time; what is left then, in the order of the plan.

    Raises:
        TransportError: Nobody can reach the wallet.
        ConfigurationError: The plan makes other calls than the trace has.
    """
    for line in trace.orders:
        # A wallet that was mended answers otherwise, and some calls of the trace have no reason any more.
        order = dealer.take(line.names, line.at_millis)
        if order is None:
            continue
        _check_bodies(order, line)
        if on_order is not None:
            on_order(order)
        answers = await carried(order, courier, at_once=False)
        dealer.answered(order, answers)
        if on_answer is not None:
            on_answer(order, answers)
    await play(dealer, courier, on_order=on_order, on_answer=on_answer)


def _check_bodies(order: Order, line: TracedOrder) -> None:
    bodies = {post.sent_for(post.signed).decode() for post in order.posts}
    # Of a batch, some deposits may have no reason any more.
    if order.names == line.names and not bodies <= set(line.bodies):
        raise ConfigurationError(
            f"The trace was changed, or made by another version of this package: {shown(line.names[0])} has another "
            "body there. Make a new one."
        )
