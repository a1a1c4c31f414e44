"""
A recorded request: without its signature (docs/decisions/0030), and as a line for the shell that sends it again.

``game-operator call`` signs the body again. A signature is as good as money: with it, and the body, anybody is paid by
each wallet that trusts the key and has not seen the call.
"""

from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from game_operator.protocol.http import REMOVED, is_loopback, redacted, without_echoes
from game_operator_testkit.certifier.report.shown import LINE
from game_operator_testkit.certifier.report.verdicts import Exchange
from game_operator_testkit.provider.delivery import Carried
from game_operator_testkit.provider.requests import Seal
from game_operator_testkit.provider.shell_lines import line_with_body, quoted, quoted_text

#: What game-operator call sets by itself.
_LEFT_TO_CALL: Final = frozenset(
    {b"connection", b"content-encoding", b"content-length", b"content-type", b"host", b"transfer-encoding"}
)
_JSON: Final = (b"content-type", b"application/json")
#: In place of a signer: only this scenario signs so.
ODD: Final = "odd"


def call_of(exchange: Exchange, url: str) -> str | None:
    """Return the line that sends *exchange*'s call to the wallet at *url* again; None if none would, or a long one."""
    if not _can_be_sent_again(exchange, url):
        return None
    words = ["game-operator call", quoted_text(exchange.path), "--url", quoted_text(url)]
    words += ["--service-private-key", f"{exchange.signed_by}.pem"]
    for name, value in _added(exchange):
        words += ["--header", quoted(name + b": " + value)]
    if not is_loopback(urlsplit(url).hostname or ""):
        words += ["--moves-money"] + ["--allow-insecure-http"] * url.startswith("http:")
    line = line_with_body(words, exchange.request_body, "--body", from_stdin="-")
    return line if len(line) <= LINE else None


def _can_be_sent_again(exchange: Exchange, url: str) -> bool:
    """Return whether ``game-operator call`` sends such a request to a wallet at *url*."""
    is_whole = exchange.request_bytes == len(exchange.request_body) and exchange.manner == "whole"
    is_usual = exchange.method == "POST" and exchange.at == "wallet" and exchange.signed_by not in ("", ODD)
    is_path = set(" ?#\\").isdisjoint(exchange.path)
    is_left_to_call = any(name.lower() in _LEFT_TO_CALL for name, _ in _added(exchange))
    return bool(url) and is_whole and is_usual and is_path and not is_left_to_call


def _added(exchange: Exchange) -> list[tuple[bytes, bytes]]:
    pairs = exchange.request_headers
    return [(name, value) for name, value in pairs if value != LEFT_OUT and (name.lower(), value) != _JSON]


#: What stands in a report in place of a signature.
LEFT_OUT: Final = b"[left out]"
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")


def signer_of(seal: Seal) -> str:
    """Return whose key made the signature, ``ODD`` if it has an unexpected form, or "" if it is missing."""
    if seal.key is None or seal.literal is not None:
        return ""
    return seal.key if seal == Seal(key=seal.key) else ODD


def without_signatures(carried: Carried, header: bytes) -> Carried:
    """Return *carried* without what stands in *header*, which is cut out of what came back too."""
    if not signer_of(carried.request.seal):
        return carried
    signatures = {value for name, value in carried.headers if name.lower() == header.lower()}
    headers = tuple((name, LEFT_OUT if value in signatures else value) for name, value in carried.headers)
    answer, problem = carried.answer, left_out(carried.problem.encode(errors="backslashreplace"), *signatures).decode()
    if answer is not None:
        answer = redacted(answer, lambda part: left_out(part, *signatures))
    return replace(carried, headers=headers, answer=answer, problem=problem)


def left_out(text: bytes, *signatures: bytes) -> bytes:
    """Return *text* with *signatures* cut out wherever they are quoted: in any form, broken into lines, or in part."""
    for signature in signatures:
        text = without_echoes(text, signature.rstrip(b"=").translate(_URL_SAFE)).replace(REMOVED, LEFT_OUT)
    return text
