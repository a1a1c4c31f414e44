"""A recorded request as a line for the shell, where that line would send what was sent."""

from types import MappingProxyType
from typing import Final

from game_operator.certify.verdicts import Exchange
from game_operator.protocol.curl import curl_line

__all__ = ["curl_of", "why_no_curl"]

#: What no curl line does.
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
    """Return the line that sends *exchange*'s request to the wallet at *url* again; None if there is no honest one."""
    if why_no_curl(exchange, url):
        return None
    return curl_line(exchange.method, exchange.request_headers, exchange.request_body, url.rstrip("/") + exchange.path)


def why_no_curl(exchange: Exchange, url: str) -> str:
    """Return why there is no line, as a sentence; "" if there is one."""
    kept = len(exchange.request_body)
    if exchange.request_bytes != kept:
        return (
            f"There is no curl line: of the {exchange.request_bytes:,} bytes that were sent, only the first {kept:,} "
            "were kept, and the signature fits all of them."
        )
    if exchange.manner != "whole" or exchange.at != "wallet":
        return f"There is no curl line: {_HOW[exchange.manner if exchange.manner != 'whole' else exchange.at]}."
    if not url:
        return "There is no curl line: the wallet ran in the process that certified it, and has no address."
    return ""
