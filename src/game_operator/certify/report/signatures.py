"""
Signatures, left out of what a run records (docs/decisions/0030).

A signature is as good as money: with it, and the body, anybody is paid by each wallet that trusts the key and has not
seen the call.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from game_operator.protocol.http import REMOVED, HeaderPairs, without_echoes
from game_operator.provider.carriers.carrier import Carried, Parcel
from game_operator.provider.requests import Seal

__all__ = ["LEFT_OUT", "ODD", "left_out", "signer_of", "without_signatures"]

#: What stands in a report in place of a signature.
LEFT_OUT: Final = b"[left out]"
#: In place of a signer: nobody signs so but this scenario.
ODD: Final = "odd"
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")


def signer_of(seal: Seal) -> str:
    """Return whose key made the signature, ``ODD`` if it is another than the service's form, "" if there is none."""
    if seal.key is None or seal.literal is not None:
        return ""
    return seal.key if seal == Seal(key=seal.key) else ODD


def without_signatures(parcel: Parcel, carried: Carried, header: bytes) -> tuple[HeaderPairs, Carried]:
    """Return the headers of *parcel* without what stands in *header*, and *carried* with that cut out, if quoted."""
    if not signer_of(parcel.request.seal):
        return parcel.headers, carried
    signatures = {value for name, value in parcel.headers if name.lower() == header.lower()}
    headers = tuple((name, LEFT_OUT if value in signatures else value) for name, value in parcel.headers)
    answer, problem = carried.answer, _cut(carried.problem.encode(errors="backslashreplace"), signatures).decode()
    if answer is not None:
        told = tuple((name, _cut(value, signatures)) for name, value in answer.headers)
        answer = replace(answer, headers=told, body=_cut(answer.body, signatures))
    return headers, replace(carried, answer=answer, problem=problem)


def left_out(text: bytes, signature: bytes) -> bytes:
    """Return *text* with *signature* cut out wherever it is quoted: in whatever form, broken into lines, or in part."""
    return _cut(text, {signature})


def _cut(text: bytes, signatures: Iterable[bytes]) -> bytes:
    for signature in signatures:
        text = without_echoes(text, signature.rstrip(b"=").translate(_URL_SAFE)).replace(REMOVED, LEFT_OUT)
    return text
