"""Group F, hostile input: bodies at their longest, and odd HTTP (spec §4.1, assumed)."""

from dataclasses import replace
from typing import Final

from game_operator.codes import WebhookErrorCode as Code
from game_operator_testkit.certifier.engine.stage import Stage
from game_operator_testkit.certifier.engine.steps import Found
from game_operator_testkit.certifier.report.verdicts import KnownCause, Weight
from game_operator_testkit.certifier.scenarios.bodies import deep, longest_read, of_bytes
from game_operator_testkit.provider.delivery import Carried
from game_operator_testkit.provider.requests import BetCalls, Manner, Request

_MANY_LEVELS: Final = 1_000
#: What an odd request should be answered with: accepted, refused, or either.
_EXPECTED: Final = {
    True: "SUCCESS",
    False: "a refusal, such as HTTP 405",
    None: "SUCCESS or a refusal, of any status below 500",
}
_WITH_CHARSET: Final = ("Content-Type", "application/json; charset=utf-8")
_EMOJI: Final = "\U0001f3b0"
_MANY_EMOJI: Final = 120
_WHOLE: Final = "sent in one piece, it is accepted"


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
    odd: list[tuple[Request, bool | None]] = [
        *((replace(check, title=f"a balance check by {method}", method=method), False) for method in ("GET", "PUT")),
        *(
            (replace(check, title=f"a balance check with {': '.join(header)}", headers=(header,)), None)
            for header in (("Content-Type", "text/plain"), ("Content-Encoding", "gzip"))
        ),
        (replace(check, title=f"a balance check with {': '.join(_WITH_CHARSET)}", headers=(_WITH_CHARSET,)), True),
        (replace(check, title="a balance check in chunks", manner=Manner.CHUNKED), True),
        (replace(check, title="a balance check in small pieces", manner=Manner.SLOW), True),
    ]
    for request, accepted in odd:
        heard = at.send(request)
        is_odd = accepted is not None and heard.succeeded is not accepted
        if request.manner is Manner.SLOW and not heard.succeeded:
            told = f"{_said(heard)} instead of SUCCESS; {_WHOLE}"
            raise Found(told, heard, weight=Weight.MONEY_LOST, cause=KnownCause.PIECES)
        if request.manner is Manner.CHUNKED and not heard.succeeded:
            at.note(f"{_said(heard)}; expected was SUCCESS", Weight.ADVICE, KnownCause.CHUNKS, heard)
        elif request.headers == (_WITH_CHARSET,) and not heard.succeeded:
            at.note(f"{_said(heard)}; expected was SUCCESS", Weight.ADVICE, KnownCause.CHARSET, heard)
        elif is_odd or not heard.status or heard.status >= 500:
            at.advise(f"{_said(heard)}; expected was {_EXPECTED[accepted]}", heard)
        if request.method != "POST":
            _leaves_nothing(at, replace(request, title=f"{request.title}, and after it by POST, on its connection"))
    check = replace(check, title="a balance check meanwhile")
    _split_characters(at)
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


def _split_characters(at: Stage) -> None:
    """Hold that a body whose packets end within a character is read like any other."""
    # Of two lengths, in case the pieces of one end between two characters.
    for more in ("", "-"):
        bet = at.bet(bet_id=f"{at.fresh('bet')}-{more}{_EMOJI * _MANY_EMOJI}")
        request = at.request(bet.withdraw(), "a withdraw that comes in pieces, which end within a character")
        heard = at.ask(replace(request, manner=Manner.SLOW))
        if not heard.succeeded:
            raise _refused_in_pieces(at, bet, heard)
        at.check_moved(heard, at.player, -bet.wager_cents)
        _hold_refunded(at, bet)


def _hold_refunded(at: Stage, bet: BetCalls) -> None:
    """Hold that the wallet finds a bet again that came in pieces, and gives its wager back."""
    heard = at.ask(bet.rollback(), "its rollback")
    if heard.code == Code.BET_NOT_FOUND:
        told = f"refused with {heard.code} instead of SUCCESS"
        whole = replace(bet, bet_id=f"{bet.bet_id[:-1]}-")
        at.send(at.request(whole.withdraw(), "another such withdraw, in one piece"))
        is_found = at.send(at.request(whole.rollback(), "its rollback")).succeeded
        raise Found(f"{told}; {_WHOLE}" if is_found else told, heard, cause="" if is_found else KnownCause.NARROW)
    at.check_moved(heard, at.player, bet.wager_cents)


def _refused_in_pieces(at: Stage, bet: BetCalls, heard: Carried) -> Found:
    """Return what is wrong: the pieces, or the length of the body or of the id, however it comes."""
    told, cause, length = f"refused with {heard.code} instead of SUCCESS", "", len(heard.request.body)
    weight, whole = Weight.CONTRACT_BROKEN, of_bytes(at, length)
    if not at.send(whole).succeeded:
        told = f"{told}; so is any body of more than {longest_read(at, length):,} bytes"
        cause = KnownCause.SHORT_BODIES
    elif at.send(at.request(bet.withdraw(), "the same withdraw in one piece")).succeeded:
        told = f"{told}; {_WHOLE}"
        if not at.send(replace(whole, manner=Manner.SLOW)).succeeded:
            told, cause, weight = f"{told}, as is one of ASCII alone", KnownCause.PIECES, Weight.MONEY_LOST
    else:
        told = f"{told}; so is the same in one piece, with its id of {len(bet.bet_id)} characters"
        cause = at.cause_of_refusal(heard)
    return Found(told, heard, weight=weight, cause=cause)


def _said(heard: Carried) -> str:
    told = heard.problem if heard.reply is None else heard.code or "SUCCESS"
    return f"HTTP {heard.status}, {told}" if heard.status else told
