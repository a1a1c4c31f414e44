"""Failures in the log: with their traceback, and without letting a caller write lines of the log."""

import logging
import traceback

from game_operator.errors import one_line

_LONGEST = 1_000


def brief(text: str) -> str:
    """Return *text* as one line of bounded length."""
    return one_line(text if len(text) <= _LONGEST else text[:_LONGEST] + "…")


def tell(log: logging.Logger, what: str, failed: BaseException) -> None:
    """
    Log that *what* came of *failed*, as an error with its traceback.

    A message with line breaks in it, such as a database's that quotes an id, is escaped line by line: as it stands it
    could pass for lines of the log.
    """
    if all(map(_is_plain, _chain(failed))):
        log.error("%s", what, exc_info=failed)
        return
    lines = [line for part in _formatted(failed) for line in part.splitlines()]
    log.error("%s\n%s", what, "\n".join(f"  | {one_line(line)}" for line in lines))


def _is_plain(error: BaseException) -> bool:
    try:
        notes = getattr(error, "__notes__", ())
        return all(text.isprintable() for text in (str(error), *notes))
    except Exception:  # An error whose own text fails is told by the traceback module, which survives it.
        return False


def _chain(error: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        link = waiting.pop()
        if link is not None and all(link is not known for known in chain):
            chain.append(link)
            waiting += [link.__cause__, link.__context__, *(link.exceptions if isinstance(link, _Group) else ())]
    return chain


_Group = BaseExceptionGroup


def _formatted(failed: BaseException) -> list[str]:
    try:
        return traceback.format_exception(failed)
    except Exception:  # Such as a text that no traceback can show.
        return [f"{type(failed).__name__}, of which no traceback can be made"]
