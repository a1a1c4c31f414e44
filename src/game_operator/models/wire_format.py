"""What of the wire's format needs no pydantic: the largest number, and members that stand twice."""

from typing import TypeVar

from game_operator.errors import shown

T = TypeVar("T")

#: What no number of the wire exceeds; up to here the limits of spec §8, not the reader, say what is wrong with one.
MAX_WHOLE = 10**60


class WireFormatError(ValueError):
    """A body does not fit its model; the message names the field and what is wrong with it."""


def once(pairs: list[tuple[str, T]]) -> dict[str, T]:
    """
    Return the members of a JSON object: an ``object_pairs_hook``.

    Raises:
        WireFormatError: A member stands twice. Readers disagree on which one counts.
    """
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        raise WireFormatError(f"the member {shown(next(n for n in names if names.count(n) > 1))} stands twice")
    return members
