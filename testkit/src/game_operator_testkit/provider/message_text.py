"""How headers and bodies of HTTP messages are written for people."""

from game_operator.protocol.http import HeaderPairs
from game_operator.text import visible


def headers(pairs: HeaderPairs, *, longest: int) -> str:
    """Return header fields, one to a line; of a value only the first *longest* bytes."""
    return "\n".join(f"{_cut(name, longest)}: {_cut(value, longest)}" for name, value in pairs)


def body(data: bytes, *, longest: int) -> str:
    """Return a body as text, of a longer one the first *longest* bytes and how many more there are."""
    more = f"\n… and {len(data) - longest:,} more bytes" if len(data) > longest else ""
    return visible(data[:longest]) + more


def _cut(data: bytes, longest: int) -> str:
    return visible(data[:longest]) + ("…" if len(data) > longest else "")
