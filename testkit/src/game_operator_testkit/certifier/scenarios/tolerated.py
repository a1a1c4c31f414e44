"""Calls that a wallet may refuse or take as they are meant: either way, no money moves wrongly."""

from collections.abc import Callable

from game_operator.codes import WebhookErrorCode as Code
from game_operator_testkit.certifier.engine.stage import Stage
from game_operator_testkit.provider.delivery import Carried
from game_operator_testkit.provider.requests import BetCalls, Request


def better_refused(at: Stage, request: Request, *, moves: int) -> Carried:
    """Hold that *request* moves money as it says or not at all; that it should be refused is advice."""
    heard = refused_or_meant(at, request, moves=moves)
    if heard.succeeded:
        at.advise(f"accepted; no money moved wrongly, and {Code.INVALID_REQUEST} is assumed", heard)
    else:
        at.check_code(heard, Code.INVALID_REQUEST)
    return heard


def better_meant(at: Stage, request: Request, *, moves: int) -> Carried:
    """Hold that *request* moves money as it says or not at all; that it should be accepted is advice."""
    heard = refused_or_meant(at, request, moves=moves)
    if not heard.succeeded:
        at.advise(f"refused with {heard.code}, and SUCCESS is assumed", heard)
    return heard


def refused_or_meant(at: Stage, request: Request, *, moves: int) -> Carried:
    """Hold that *request* moves money as it says or not at all."""
    heard = at.ask(request)
    if heard.succeeded:
        at.player.due_cents += moves
    at.check_balance(heard, at.player)
    if heard.code == Code.SYSTEM_ERROR:
        at.check_code(heard, Code.INVALID_REQUEST)
    return heard


def end_better_refused(
    at: Stage, bet: BetCalls, end: Request, cents: int, *, by: Callable[..., Carried] = better_refused
) -> None:
    """Place *bet*, hold (*by* what) that *end* should be refused, which pays *cents* if it is not, and end the bet."""
    at.placed(bet)
    heard = by(at, end, moves=cents)
    if not heard.succeeded:
        at.accepts(bet.deposit(bet.wager_cents), "the deposit as it must be")
