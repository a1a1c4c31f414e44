"""What whoever certifies does to the wallet while a scenario is played, and how it is undone."""

from collections.abc import Callable
from contextlib import suppress
from types import MappingProxyType
from typing import Final

from game_operator.certify.engine.endings import NotTried, Undone
from game_operator.certify.engine.supplies import Supplies
from game_operator.provider.requests import Act

__all__ = ["Levers"]

#: What ends what was done to a wallet.
_UNDONE_BY: Final = MappingProxyType({"block": "unblock", "fail": "recover", "distrust": "trust"})


class Levers:
    """
    Pulls the levers of *supplies*, and remembers what is to be undone.

    Args:
        supplies: What can be done to the wallet.
    """

    def __init__(self, supplies: Supplies) -> None:
        self._supplies = supplies
        self._to_undo: list[tuple[str, tuple[object, ...]]] = []

    def pull(self, act: Act) -> None:
        """
        Do to the wallet what a scenario asks for.

        Raises:
            NotTried: It cannot be done to this wallet; ``Undone`` if it was to be, and did not work.
        """
        deed: Callable[..., object] = getattr(self._supplies, act.what)
        if undone_by := _UNDONE_BY.get(act.what):
            self._to_undo.append((undone_by, act.arguments))
        try:
            deed(*act.arguments)
        except NotTried:
            raise
        except Exception as failed:  # What whoever certifies wrote may raise anything.
            raise Undone(f"{act.what} could not be done: {_told(failed)}") from failed
        with suppress(ValueError):
            self._to_undo.remove((act.what, act.arguments))

    def let_go(self) -> list[str]:
        """Undo what a scenario did to the wallet, if it was broken off before it could; return what did not work."""
        stuck = []
        while self._to_undo:
            what, arguments = self._to_undo.pop()
            deed: Callable[..., object] | None = getattr(self._supplies, what)
            if deed is None:
                continue
            try:
                deed(*arguments)
            except Exception as failed:  # Whoever certifies could not; what they were to do is their own.
                stuck.append(f"{what} could not be done: {_told(failed)}")
        return stuck


def _told(failed: Exception) -> str:
    return str(failed) if isinstance(failed, NotTried) else f"{type(failed).__name__}: {failed}"
