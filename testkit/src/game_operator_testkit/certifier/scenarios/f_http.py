"""Group F, hostile input: bodies at their longest, and odd HTTP (spec §4.1, assumed)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from game_operator.codes import WebhookErrorCode as Code
from game_operator_testkit.certifier.engine.stage import Stage
from game_operator_testkit.certifier.engine.steps import Found
from game_operator_testkit.certifier.report.verdicts import KnownCause, Weight
from game_operator_testkit.certifier.scenarios.bodies import check_length_is_read, deep, of_bytes
from game_operator_testkit.provider.delivery import Carried
from game_operator_testkit.provider.requests import Manner, Request

_MANY_LEVELS: Final = 1_000
#: What an odd request should be answered with: accepted, refused, or either.
_EXPECTED: Final = {
    True: "SUCCESS",
    False: "a refusal, such as HTTP 405",
    None: "SUCCESS or a refusal, of any status below 500",
}
#: How a balance check is sent, whether it is accepted, and what it means if it is not. Any: fields of a request.
_ODD: Final[Sequence[tuple[str, Mapping[str, Any], bool | None, str]]] = (
    ("by GET", {"method": "GET"}, False, ""),
    ("by PUT", {"method": "PUT"}, False, ""),
    ("with text/plain", {"headers": (("Content-Type", "text/plain"),)}, None, ""),
    ("with Content-Encoding: gzip", {"headers": (("Content-Encoding", "gzip"),)}, None, ""),
    (
        "with a charset",
        {"headers": (("Content-Type", "application/json; charset=utf-8"),)},
        True,
        KnownCause.CHARSET,
    ),
    ("in chunks", {"manner": Manner.CHUNKED}, True, KnownCause.CHUNKS),
    ("in small pieces", {"manner": Manner.SLOW}, True, KnownCause.PIECES),
)
_EMOJI: Final = "\U0001f3b0"
_MANY_EMOJI: Final = 120
_WHOLE: Final = "one that is sent in one piece is accepted"


def f09(at: Stage) -> None:
    """The longest body that the profile has is accepted, one byte more is not; a thousand levels take no time."""
    most = at.profile.max_body_bytes
    longest = at.send(of_bytes(at, most))
    if not longest.succeeded:
        at.advise(f"{_said(longest)}, and SUCCESS is assumed", longest)
    longer = at.send(of_bytes(at, most + 1))
    nested = at.ask(deep(at, _MANY_LEVELS))
    for heard, due in ((longer, Code.SYSTEM_ERROR), (nested, Code.INVALID_REQUEST)):
        if heard.succeeded:
            at.advise("accepted; the wallet seems to have no size limit", heard)
        elif heard.status >= 400:
            at.advise(f"{_said(heard)}; {due} with HTTP 200 is assumed", heard)
    if nested.elapsed_ms > 1_000:
        at.advise(f"took {nested.elapsed_ms:.0f} ms", nested)


def f10(at: Stage) -> None:
    """Other methods, types and manners are answered in some way; a caller that falls silent does no harm to others."""
    check = at.balance_request("a balance check")
    for how, changes, accepted, cause in _ODD:
        request = replace(check, title=f"a balance check {how}", **changes)
        heard = at.send(request)
        told = f"{_said(heard)}; expected was {_EXPECTED[accepted]}"
        if cause == KnownCause.PIECES and not heard.succeeded:
            raise Found(told, heard, weight=Weight.MONEY_LOST, cause=cause)
        if accepted is not None and heard.succeeded is not accepted:
            at.note(told, Weight.ADVICE, cause, heard)
        elif not heard.status or heard.status >= 500:
            at.advise(told, heard)
        if request.method != "POST":
            _leaves_nothing(at, replace(request, title=f"{request.title}, and after it by POST, on its connection"))
    # Of two lengths, in case the pieces of one end between two characters.
    for more in ("", "-"):
        for manner in (Manner.WHOLE, Manner.SLOW):
            _placed_and_refunded(at, f"{at.fresh('bet')}-{more}{_EMOJI * _MANY_EMOJI}", manner)
    check = replace(check, title="a balance check meanwhile")
    half = replace(check, title="a balance check that breaks off half way", manner=Manner.HALF)
    silent, other = at.together([half, check])
    for heard, accepted in ((silent, False), (other, True)):
        if heard.succeeded is not accepted:
            at.advise(_said(heard), heard)


def _leaves_nothing(at: Stage, request: Request) -> None:
    """Hold that a call by another method leaves nothing on its connection that spoils the next one."""
    heard = at.send(replace(request, manner=Manner.FOLLOWED))
    if heard.answer is not None and heard.answer.reused and not heard.succeeded:
        told = f"{_said(heard)}; on a new connection it is accepted"
        raise Found(told, heard, weight=Weight.CONTRACT_BROKEN, cause=KnownCause.LEFT_OVER)


def _placed_and_refunded(at: Stage, bet_id: str, manner: Manner) -> None:
    """Hold that a bet is placed and refunded: one in pieces, which end within a character, like the one before."""
    bet = at.bet(bet_id=bet_id)
    in_pieces = manner is Manner.SLOW
    how = "comes in pieces, which end within a character" if in_pieces else f"has {len(bet_id)} characters in its id"
    heard = at.ask(replace(at.request(bet.withdraw(), f"a withdraw that {how}"), manner=manner))
    if in_pieces and not heard.succeeded:
        raise Found(f"refused with {heard.code} instead of SUCCESS; {_WHOLE}", heard, weight=Weight.CONTRACT_BROKEN)
    if not heard.succeeded:
        check_length_is_read(at, heard)
    at.check_moved(heard, at.player, -bet.wager_cents)
    heard = at.ask(bet.rollback(), f"the rollback of a bet whose withdraw {how}")
    if heard.code == Code.BET_NOT_FOUND:
        told = f"refused with {heard.code} instead of SUCCESS"
        raise Found(f"{told}; {_WHOLE}" if in_pieces else told, heard, cause="" if in_pieces else KnownCause.NARROW)
    at.check_moved(heard, at.player, bet.wager_cents)


def _said(heard: Carried) -> str:
    told = heard.problem if heard.reply is None else heard.code or "SUCCESS"
    return f"HTTP {heard.status}, {told}" if heard.status else told
