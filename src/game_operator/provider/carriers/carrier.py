"""Whoever carries requests to a wallet and brings back what it says."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from game_operator.protocol.http import HeaderPairs, HttpResponse
from game_operator.provider.requests import Request

__all__ = ["Carried", "Carrier", "Parcel"]


@dataclass(frozen=True, slots=True)
class Parcel:
    """A request with the headers that it travels with, its signature among them."""

    request: Request
    headers: HeaderPairs = field(repr=False)


@dataclass(frozen=True, slots=True)
class Carried:
    """
    What came of a parcel.

    Attributes:
        answer: What came back; None if nothing did.
        problem: Why nothing came back, or why it is not whole; "" if all is well.
        elapsed_seconds: How long it took.
        timed_out: Whether no answer came in time.
        unreachable: Whether nobody could be reached: nothing was sent.
    """

    answer: HttpResponse | None
    problem: str
    elapsed_seconds: float
    timed_out: bool = False
    unreachable: bool = False


class Carrier(Protocol):
    """
    Carries parcels.

    Attributes:
        on_wire: Whether they travel over HTTP, so that headers may repeat and connections
            be cut.
    """

    on_wire: bool

    def carry(self, parcels: Sequence[Parcel]) -> list[Carried]:
        """Carry *parcels*, all at once if there are several; never raises for what a wallet does."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...
