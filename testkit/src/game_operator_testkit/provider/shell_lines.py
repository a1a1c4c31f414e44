"""A request as a line for the shell, for curl or for `game-operator call`: byte for byte what was sent."""

import shlex
from base64 import b64encode
from typing import Final

from game_operator.protocol.http import HeaderPairs

#: What curl says by itself, and rightly only for the bytes it sends.
_LEFT_TO_CURL: Final = frozenset({b"host", b"content-length", b"transfer-encoding", b"connection", b"expect"})
#: A longer body would not fit into an argument everywhere.
_LONGEST_ARGUMENT: Final = 60_000
#: Bytes that are themselves in every shell and on every terminal: printable ASCII.
_PLAIN: Final = frozenset(range(32, 127))
#: Characters of an address that curl would take for a pattern.
_PATTERN: Final = frozenset("[]{}")


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
