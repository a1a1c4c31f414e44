"""Batches of deposits, and the answer to each of them (assumed, docs/decisions/0010)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from game_operator.certify.mistakes import NO_ANSWER, UNSERVED
from game_operator.certify.scenario import Found
from game_operator.certify.stage import Stage
from game_operator.certify.verdicts import Weight
from game_operator.certify.wire import Heard, Request
from game_operator.errors import MalformedCallError
from game_operator.models.webhooks import DepositCall
from game_operator.protocol.canonical import encode_json
from game_operator.protocol.webhook_reply import read_batch_reply

__all__ = ["answers", "batch"]

_NOT_SERVED: Final = frozenset({404, 405})
_PATH: Final = "/deposit-batch"


def batch(at: Stage, calls: Sequence[DepositCall], title: str) -> Request:
    """Return the request that brings *calls*, as an array."""
    return Request(title, _PATH, encode_json([at.writer.body(call) for call in calls]))


def answers(heard: Heard, calls: Sequence[DepositCall]) -> list[Heard | None]:
    """
    Return what *heard* says of each of *calls*, as if each had been sent alone; None where it says nothing.

    Each call has a tx_id of its own, by which its answer is found.
    """
    title = heard.request.title
    if not heard.status:
        raise Found(f"{title}: {heard.problem}", Weight.CONTRACT_BROKEN, NO_ANSWER, heard.place)
    if heard.status in _NOT_SERVED:
        told = f"{title}: answered HTTP {heard.status}, and the profile says that the service sends batches"
        raise Found(told, cause=UNSERVED, place=heard.place)
    try:
        replies = read_batch_reply(heard.body)
    except MalformedCallError as malformed:
        told = f"{title}: answered HTTP {heard.status}, and no array of replies: {malformed}"
        raise Found(told, place=heard.place) from None
    return [
        replace(heard, request=Request(f"{title}, {call.tx_id}", "/deposit", b""), reply=replies[call.tx_id])
        if call.tx_id in replies
        else None
        for call in calls
    ]
