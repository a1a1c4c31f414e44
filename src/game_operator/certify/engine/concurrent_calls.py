"""Many calls at once, and calls that are sent again: as the service does with what it got no final answer to."""

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from game_operator.certify.engine.stage import Asking, Judging, Stage
from game_operator.certify.report.verdicts import Weight
from game_operator.codes import WebhookErrorCode
from game_operator.provider.bets import Bet
from game_operator.provider.delivery import Finality, finality
from game_operator.provider.requests import Heard, Manner, Request, Step

__all__ = ["Place", "answered", "insisted", "is_unanswered", "refunded"]

#: Which of the wallet's processes.
Place: TypeAlias = Literal["wallet", "second"]

_MOST_REPEATS: Final = 4
_COMES_AGAIN: Final = (Finality.REPEAT, Finality.UNKNOWN)


def answered(at: Stage, requests: Sequence[Request]) -> Generator[Step, list[Heard], list[Heard]]:
    """
    Send *requests* all at once, and return what was heard of each, in their order: each of them is a reply.

    What was answered SYSTEM_ERROR is sent again, as the service would; that it was needed is advice.
    """
    heard = yield from at.together(requests)
    failed = 0
    for place, each in enumerate(heard):
        at.check_reply(each)
        if each.code == WebhookErrorCode.SYSTEM_ERROR:
            failed += 1
            heard[place] = yield from insisted(at, each.request)
    if failed:
        told = f"{failed} of {len(requests)} calls at once were answered SYSTEM_ERROR, and had to be sent again"
        at.note(told, Weight.ADVICE, "SYSTEM_ERROR where many call at once")
    return heard


def insisted(at: Stage, request: Request) -> Asking:
    """Send *request* again, whole, until there is a final answer, a few times at most; hold that there is a reply."""
    again = replace(request, title=f"{request.title}, again", manner=Manner.WHOLE)
    heard = yield from at.send(again)
    for _ in range(_MOST_REPEATS - 1):
        if not is_unanswered(heard):
            break
        heard = yield from at.send(again)
    at.check_reply(heard)
    return heard


def is_unanswered(heard: Heard) -> bool:
    """Return whether the service cannot know what became of the call, or knows that it must come again."""
    if heard.reply is None:
        return True
    return heard.code is not None and finality(heard.request.path.strip("/"), heard.code) in _COMES_AGAIN


def refunded(at: Stage, bets: Sequence[Bet]) -> Judging:
    """Roll *bets* back, all at once, and hold that each is refunded."""
    heard = yield from answered(at, [at.request(bet.rollback(), "one of many rollbacks at once") for bet in bets])
    for bet, each in zip(bets, heard, strict=True):
        at.check_success(each)
        bet.player.due_cents += bet.wager_cents
