"""Batches of deposits, and the answer to each of them (assumed, docs/decisions/0010)."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from game_operator.certify.engine.endings import Found
from game_operator.certify.engine.stage import Judging, Stage
from game_operator.certify.report.mistakes import NO_ANSWER, UNSERVED
from game_operator.certify.report.verdicts import Weight
from game_operator.errors import MalformedCallError
from game_operator.models.webhooks import DepositCall
from game_operator.protocol.exact_json import encode_json
from game_operator.protocol.webhook_reply import read_batch_reply
from game_operator.provider.requests import Heard, Request

_NOT_SERVED: Final = frozenset({404, 405})
_PATH: Final = "/deposit-batch"
#: Where batches may come to; the body of the second is an object with the array in it.
BATCH_PATHS: Final = (_PATH, "/deposit/batch")


def batch(at: Stage, calls: Sequence[DepositCall], title: str, *, path: str = _PATH) -> Request:
    """Return the request that brings *calls*, as an array, or as *path* has it."""
    items = [at.writer.body(call) for call in calls]
    return Request(title, path, encode_json(items if path == _PATH else {"bets": items}))


def pays_nothing(at: Stage, request: Request) -> Judging:
    """Hold that none of a batch is paid or said to be, whether it is refused as a whole or one by one."""
    heard = yield from at.send(request)
    yield from at.check_balances(at.player, after=heard)
    if _has_success(heard):
        told = "returned SUCCESS instead of a refusal; nothing moved, and the caller believes it did"
        raise Found(told, heard)


def _has_success(heard: Heard) -> bool:
    if heard.reply is not None:
        return heard.succeeded
    with suppress(MalformedCallError):
        return any(reply.code is None for reply in read_batch_reply(heard.body).values())
    return False


def answers(heard: Heard, calls: Sequence[DepositCall]) -> list[Heard | None]:
    """
    Return what *heard* says of each of *calls*, as if each had been sent alone; None where it says nothing.

    Each call has its own tx_id, which identifies its answer.
    """
    if not heard.status:
        raise Found(heard.problem, heard, weight=Weight.CONTRACT_BROKEN, cause=NO_ANSWER)
    if heard.status in _NOT_SERVED:
        told = f"answered HTTP {heard.status}, and the profile says that the service sends batches"
        raise Found(told, heard, cause=UNSERVED)
    try:
        replies = read_batch_reply(heard.body)
    except MalformedCallError as malformed:
        raise Found(f"answered HTTP {heard.status}, and no array of replies: {malformed}", heard) from None
    title = heard.request.title
    return [
        replace(heard, request=Request(f"{title}, {call.tx_id}", "/deposit", b""), reply=replies[call.tx_id])
        if call.tx_id in replies
        else None
        for call in calls
    ]
