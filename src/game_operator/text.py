"""How values are written for people: text, money, times, and templates of pages."""

import re
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from game_operator.money import amount_from_cents

if TYPE_CHECKING:
    from jinja2 import Environment

#: Unassigned, private and control characters, lone surrogates, and those that turn the direction of the text around.
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
#: What is looked at more closely: a page of megabytes is mostly ASCII.
_DOUBTFUL: Final = re.compile(r"[^\n\t -~]")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND_MS: Final = 1_000


def templates(folder: Path, *filters: Callable[..., object]) -> "Environment":
    """Return the templates in *folder*: everything is escaped, and a name that is missing is an error."""
    # Here, because it comes with an extra.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(folder)
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters |= {each.__name__: each for each in (clean, day_and_time, duration, iso_time, money, *filters)}
    return made


def clean(text: str) -> str:
    """Return *text* such that nothing hides in it, for HTML and XML alike: what no document may hold is escaped."""
    return visible(text.encode(errors="backslashreplace"))


def money(cents: int) -> str:
    """Return *cents* as currency units: 123450 is ``1,234.50``."""
    return f"{amount_from_cents(cents):,}"


def iso_time(at_millis: int) -> str:
    """Return the time as a machine reads it: ``2026-11-21T14:03:59.120Z``."""
    return _at(at_millis).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def day_and_time(at_millis: int) -> str:
    """Return date and time in UTC, to the second: ``2026-11-21 14:03:59``."""
    return f"{_at(at_millis):%Y-%m-%d %H:%M:%S}"


def when(at_millis: int) -> str:
    """Return date and time in UTC; after the year 9999, where a wrong clock may lead, Unix milliseconds."""
    try:
        return iso_time(at_millis).replace("T", " ").removesuffix("Z")
    except OverflowError:
        return f"{at_millis} ms"


def duration(elapsed_ms: float) -> str:
    """Return a duration so that three digits are seen: ``0.84 ms``, ``12.3 ms``, ``1.50 s``."""
    if elapsed_ms >= _SECOND_MS:
        return f"{elapsed_ms / _SECOND_MS:.2f} s"
    return f"{elapsed_ms:.2f} ms" if elapsed_ms < 10 else f"{elapsed_ms:.1f} ms"


def _at(at_millis: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=at_millis)


def visible(data: bytes) -> str:
    r"""
    Return *data* as text in which nothing hides.

    What is not UTF-8 is shown as ``\xff``, and so is every character that would be invisible, move the cursor or turn
    the text around. Line ends and tabs stay.
    """
    text = data.decode("utf-8", errors="backslashreplace").replace("\r\n", "\n")
    return _DOUBTFUL.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    character = found[0]
    return character.encode("unicode_escape").decode() if unicodedata.category(character) in _HIDDEN else character
