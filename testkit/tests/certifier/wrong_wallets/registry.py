"""The register of wrong wallets: what each does wrong, which scenario must catch it, and which others may."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from wallet_by_hand import PlainWallet

from game_operator_testkit.certifier import scenarios

__all__ = [
    "BAD_GATEWAY",
    "RANDOM_OPERATIONS",
    "WRONG_WALLETS",
    "Answered",
    "Counting",
    "Headers",
    "Sent",
    "WrongWallet",
]
__all__ += ["is_alone", "wrong"]

#: Enough for whatever shows in them at all, mostly.
RANDOM_OPERATIONS: Final = 60

W = TypeVar("W", bound=PlainWallet)
Headers = list[tuple[str, str]]
#: What a wallet's ``handle`` takes and returns.
Sent = Iterable[tuple[str, str]]
Answered = tuple[int, dict[str, str], bytes]
BAD_GATEWAY: Final[Answered] = (502, {"Content-Type": "text/html"}, b"<html>Bad Gateway</html>")


@dataclass(frozen=True)
class WrongWallet:
    """
    A wallet that is wrong in one way.

    Attributes:
        name: Of its class.
        kind: Its class.
        what: What it does wrong, in one line.
        must: The scenario that must fail.
        may: The other scenarios that may fail, for the same mistake shows there; nothing else may.
        on_file: Whether it needs a database in a file, as several processes share one.
        operations: How many random operations show what it does wrong.
    """

    name: str
    kind: type[PlainWallet]
    what: str
    must: str
    may: frozenset[str]
    on_file: bool = False
    operations: int = RANDOM_OPERATIONS

    @property
    def may_anything(self) -> bool:
        """Whether it may fail any scenario."""
        return len(self.may) + 1 == len(scenarios())

    def __str__(self) -> str:
        return self.name


WRONG_WALLETS: Final[dict[str, WrongWallet]] = {}


def wrong(
    what: str, *, must: str, may: str = "", on_file: bool = False, operations: int = RANDOM_OPERATIONS
) -> Callable[[type[W]], type[W]]:
    """Register the class below; *may* has ids with spaces between them, or is ``*`` for all."""
    all_ids = frozenset(each.id for each in scenarios())

    def registered(kind: type[W]) -> type[W]:
        assert kind.__name__ not in WRONG_WALLETS, kind.__name__
        WRONG_WALLETS[kind.__name__] = WrongWallet(
            kind.__name__,
            kind,
            what,
            must,
            (all_ids if may == "*" else frozenset(may.split())) - {must},
            on_file,
            operations,
        )
        return kind

    return registered


def is_alone() -> bool:
    """Return whether the certifier makes calls one by one, which it does in the main thread."""
    return threading.current_thread() is threading.main_thread()


class Counting(PlainWallet):
    """Finds every so manieth."""

    _count = 0

    def is_unlucky(self, every: int) -> bool:
        """Return whether this is one of *every* so many."""
        self._count += 1
        return self._count % every == every // 2
