"""
A recorded request: without its signature (docs/decisions/0030), and as a line for the shell that sends it again.

With its signature, or without one, it is a line for curl. Where the signature was left out, ``game-operator call``
signs the body again. A signature is as good as money: with it, and the body, anybody is paid by each wallet that
trusts the key and has not seen the call.
"""

from dataclasses import replace
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from game_operator.protocol.http import REMOVED, is_loopback, redacted, without_echoes
from game_operator_testkit.certifier.report.verdicts import Exchange
from game_operator_testkit.provider.delivery import Carried
from game_operator_testkit.provider.requests import Seal
from game_operator_testkit.provider.shell_lines import curl_line, line_with_body, quoted, quoted_text

#: What game-operator call sets by itself.
_LEFT_TO_CALL: Final = frozenset(
    {b"connection", b"content-encoding", b"content-length", b"content-type", b"host", b"transfer-encoding"}
)
_JSON: Final = (b"content-type", b"application/json")
#: What no line does.
_HOW: Final = MappingProxyType(
    {
        "cut": "the connection was cut before the answer",
        "chunked": "the body was sent in chunks",
        "slow": "the request was sent in small pieces, with pauses",
        "half": "half of the body was sent, and then nothing",
        "second": "it went to another process of the wallet",
        "elsewhere": "it was sent from another address",
    }
)


def curl_of(exchange: Exchange, url: str) -> str | None:
    """Return the curl line that sends *exchange*'s request to the wallet at *url* again; None if it would not."""
    if exchange.is_left_out or why_no_line(exchange, url):
        return None
    return curl_line(exchange.method, exchange.request_headers, exchange.request_body, url.rstrip("/") + exchange.path)


def call_of(exchange: Exchange, url: str) -> str | None:
    """Return the line for ``game-operator call`` that signs *exchange*'s body again; None if it is a line for curl."""
    if not exchange.is_left_out or why_no_line(exchange, url):
        return None
    words = ["game-operator call", quoted_text(exchange.path), "--url", quoted_text(url)]
    words += ["--service-key", f"{exchange.signed_by}.pem"]
    for name, value in _added(exchange):
        words += ["--header", quoted(name + b": " + value)]
    if not is_loopback(urlsplit(url).hostname or ""):
        words += ["--moves-money"] + ["--allow-insecure-http"] * url.startswith("http:")
    return line_with_body(words, exchange.request_body, "--body", from_stdin="-")


def why_no_line(exchange: Exchange, url: str) -> str:
    """Return why there is no line, as a sentence; "" if there is one."""
    kept = len(exchange.request_body)
    if exchange.request_bytes != kept:
        return (
            f"There is no line to send it again: of the {exchange.request_bytes:,} bytes that were sent, only the "
            f"first {kept:,} were kept, and the signature fits all of them."
        )
    if exchange.manner != "whole" or exchange.at != "wallet":
        how = _HOW[exchange.manner if exchange.manner != "whole" else exchange.at]
        return f"There is no line to send it again: {how}."
    if not url:
        return "There is no line to send it again: the wallet ran in the process that certified it, and has no address."
    if not exchange.is_left_out:
        return ""
    is_odd = exchange.signed_by == ODD or exchange.method != "POST" or not set(" ?#\\").isdisjoint(exchange.path)
    if is_odd or any(name.lower() in _LEFT_TO_CALL for name, _ in _added(exchange)):
        return (
            "There is no line to send it again: game-operator call does not sign so, and the signature was left out. "
            "certify --with-signatures keeps signatures."
        )
    return ""


def _added(exchange: Exchange) -> list[tuple[bytes, bytes]]:
    pairs = exchange.request_headers
    return [(name, value) for name, value in pairs if value != LEFT_OUT and (name.lower(), value) != _JSON]


#: What stands in a report in place of a signature.
LEFT_OUT: Final = b"[left out]"
#: In place of a signer: only this scenario signs so.
ODD: Final = "odd"
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
