"""
The pages of the control room, in the order of the navigation.

Each is a module with ``PATH`` and ``TITLE`` for the navigation and ``routes(desk, streams)``.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from starlette.routing import Route

from game_operator.control_room.desk import Desk
from game_operator.control_room.pages import bets, faults, free_bets, keys, live, lobby, wallet
from game_operator.control_room.streams import Streams

__all__ = ["PAGES", "Page"]


class Page(Protocol):
    """What each of the modules has."""

    @property
    def PATH(self) -> str:  # noqa: N802 - a constant of a module
        """Where it is."""

    @property
    def TITLE(self) -> str:  # noqa: N802
        """What the navigation calls it."""

    def routes(self, desk: Desk, streams: Streams) -> Sequence[Route]:
        """Return the routes of the page, its forms included."""


PAGES: Final[tuple[Page, ...]] = (lobby, live, bets, free_bets, faults, wallet, keys)
