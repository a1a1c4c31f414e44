"""Judging what should rather be refused: a wallet that takes it does no harm if it means what was said."""

from typing import Final

from game_operator.certify.engine.stage import Asking, Stage
from game_operator.codes import WebhookErrorCode
from game_operator.provider.requests import Request

__all__ = ["better_refused", "refused_or_meant"]

_INVALID: Final = WebhookErrorCode.INVALID_REQUEST


def better_refused(at: Stage, request: Request, *, moves: int) -> Asking:
    """Hold that *request* moves money as it says or not at all; that it should be refused is advice."""
    heard = yield from refused_or_meant(at, request, moves=moves)
    if heard.succeeded:
        at.advise(f"{request.title}: accepted; no money moved wrongly, and {_INVALID} is assumed", heard)
    else:
        at.check_code(heard, _INVALID)
    return heard


def refused_or_meant(at: Stage, request: Request, *, moves: int) -> Asking:
    """Hold that *request* moves money as it says or not at all."""
    heard = yield from at.hear(request)
    if heard.succeeded:
        at.player.due_cents += moves
    yield from at.check_told(heard, at.player)
    return heard
