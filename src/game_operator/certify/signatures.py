"""
Signatures, left out of what a run records (docs/decisions/0030).

A signature is as good as money: with it, and the body, anybody is paid by each wallet that trusts the key and has not
seen the call.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from game_operator.certify.carrier import Carried, Parcel
from game_operator.certify.wire import Seal
from game_operator.protocol.http import HeaderPairs

__all__ = ["LEFT_OUT", "ODD", "left_out", "signer_of", "without_signatures"]

#: What stands in a report in place of a signature.
LEFT_OUT: Final = b"[left out]"
#: In place of a signer: nobody signs so but this scenario.
ODD: Final = "odd"
#: Nobody guesses so many characters: a signature that lacks them is worth nothing.
_PIECE: Final = 32
_ALPHABETS: Final = (bytes.maketrans(b"+/", b"-_"), bytes.maketrans(b"-_", b"+/"))


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
    pieces = [piece for signature in signatures for piece in _pieces(signature)]
    answer, problem = carried.answer, _cut(carried.problem.encode(errors="backslashreplace"), pieces).decode()
    if answer is not None:
        told = tuple((name, _cut(value, pieces)) for name, value in answer.headers)
        answer = replace(answer, headers=told, body=_cut(answer.body, pieces))
    return headers, replace(carried, answer=answer, problem=problem)


def left_out(text: bytes, signature: bytes) -> bytes:
    """Return *text* with *signature* cut out wherever it is quoted, in either alphabet of Base64, or in part."""
    return _cut(text, list(_pieces(signature)))


def _pieces(signature: bytes) -> Iterator[bytes]:
    """Yield *signature* in both alphabets, whole and then in pieces, of which a part of it has some."""
    for alphabet in _ALPHABETS:
        written = signature.rstrip(b"=").translate(alphabet)
        yield written
        yield from (written[place : place + _PIECE] for place in range(0, len(written) - _PIECE + 1, _PIECE))


def _cut(text: bytes, pieces: list[bytes]) -> bytes:
    for piece in pieces:
        text = text.replace(piece, LEFT_OUT)
    return text
