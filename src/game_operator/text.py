"""How values are written for people: text, money, times, a request as a line for the shell, and templates of pages."""

import re
import shlex
import unicodedata
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from game_operator.money import amount_from_cents
from game_operator.protocol.http import HeaderPairs

if TYPE_CHECKING:
    from jinja2 import Environment

#: What curl says by itself, and rightly only for the bytes it sends.
_LEFT_TO_CURL: Final = frozenset({b"host", b"content-length", b"transfer-encoding", b"connection", b"expect"})
#: A longer body would not fit into an argument everywhere.
_LONGEST_ARGUMENT: Final = 60_000
#: Bytes that are themselves in every shell and on every terminal: printable ASCII.
_PLAIN: Final = frozenset(range(32, 127))
#: Characters of an address that curl would take for a pattern.
_PATTERN: Final = frozenset("[]{}")
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


def curl_line(method: str, headers: HeaderPairs, body: bytes, url: str) -> str:
    """
    Return a line that sends *method*, *headers* and *body* to *url*: the signature and the body byte for byte.

    A body that is not plain text travels through base64, because no quoting carries every byte through every shell. The
    line itself is printable throughout: a terminal takes some control characters for keys, however they are quoted.
    """
    words = ["curl", "--include", *_address(method, url, has_body=bool(body))]
    for name, value in headers:
        if name.lower() not in _LEFT_TO_CURL:
            words += ["--header", quoted(name + (b": " + value if value else b";"))]
    if not body:
        return " ".join(words)
    if all(name.lower() != b"content-type" for name, _ in headers):
        # curl would say that the body is a form.
        words += ["--header", "Content-Type:"]
    return line_with_body(words, body, "--data-binary", from_stdin="@-")


def line_with_body(words: list[str], body: bytes, option: str, *, from_stdin: str) -> str:
    """Return a line of *words*, which are quoted, with *body* as the value of *option*, or on the command's stdin."""
    text = body.decode(errors="surrogateescape")  # A byte that is not UTF-8 makes it unprintable.
    # A text that begins with "@" would be the name of a file, and "-" the standard input.
    if text.isprintable() and not text.startswith(("@", "-")) and len(body) <= _LONGEST_ARGUMENT:
        return " ".join([*words, option, shlex.quote(text)])
    encoded = b64encode(body).decode()
    return f"printf %s {shlex.quote(encoded)} | base64 -d | " + " ".join([*words, option, from_stdin])


def _address(method: str, url: str, *, has_body: bool) -> list[str]:
    words = []
    if method != ("POST" if has_body else "GET"):
        words = ["--head"] if method == "HEAD" else ["--request", quoted_text(method)]
    path = url.partition("://")[2].partition("/")[2]
    if not _PATTERN.isdisjoint(path):
        words.append("--globoff")
    if "/." in f"/{path}":
        words.append("--path-as-is")
    return [*words, quoted_text(url)]


def quoted(header: bytes) -> str:
    """Return a header as a word of the shell, whatever bytes are in it."""
    if _PLAIN.issuperset(header):
        return shlex.quote(header.decode("ascii"))
    # Other bytes, in a way that depends neither on how the shell reads the line nor on what a terminal makes of it.
    octal = "".join(chr(byte) if byte in _PLAIN and byte not in b"\\%'!" else f"\\{byte:03o}" for byte in header)
    return f"\"$(printf '{octal}')\""


def quoted_text(text: str) -> str:
    """Return *text* as a word of the shell that is printable throughout."""
    return shlex.quote(text) if text.isprintable() else quoted(text.encode(errors="backslashreplace"))
