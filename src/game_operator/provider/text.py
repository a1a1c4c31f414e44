"""How values are written in reports: text of strangers, bytes that may be anything, money, times and durations."""

from datetime import UTC, datetime, timedelta
from typing import Final

from game_operator.money import amount_from_cents
from game_operator.protocol.http import HeaderPairs
from game_operator.protocol.printable import visible

__all__ = ["body", "clean", "day_and_time", "duration", "headers", "iso_time", "money"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND_MS: Final = 1_000


def clean(text: str) -> str:
    """Return *text* such that nothing hides in it, for HTML and XML alike: what no document may hold is escaped."""
    return visible(text.encode(errors="backslashreplace"))


def headers(pairs: HeaderPairs, *, longest: int) -> str:
    """Return header fields, one to a line; of a value only the first *longest* bytes."""
    return "\n".join(f"{_cut(name, longest)}: {_cut(value, longest)}" for name, value in pairs)


def body(data: bytes, *, longest: int) -> str:
    """Return a body as text, of a longer one the first *longest* bytes and how many more there are."""
    more = f"\n… and {len(data) - longest:,} more bytes" if len(data) > longest else ""
    return visible(data[:longest]) + more


def money(cents: int) -> str:
    """Return *cents* as currency units: 123450 is ``1,234.50``."""
    return f"{amount_from_cents(cents):,}"


def iso_time(at_millis: int) -> str:
    """Return the time as a machine reads it: ``2026-11-21T14:03:59.120Z``."""
    return _at(at_millis).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def day_and_time(at_millis: int) -> str:
    """Return date and time in UTC, to the second: ``2026-11-21 14:03:59``."""
    return f"{_at(at_millis):%Y-%m-%d %H:%M:%S}"


def duration(elapsed_ms: float) -> str:
    """Return a duration so that three digits are seen: ``0.84 ms``, ``12.3 ms``, ``1.50 s``."""
    if elapsed_ms >= _SECOND_MS:
        return f"{elapsed_ms / _SECOND_MS:.2f} s"
    return f"{elapsed_ms:.2f} ms" if elapsed_ms < 10 else f"{elapsed_ms:.1f} ms"


def _at(at_millis: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=at_millis)


def _cut(data: bytes, longest: int) -> str:
    return visible(data[:longest]) + ("…" if len(data) > longest else "")
