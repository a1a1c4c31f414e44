"""Bodies that no service should send, signed as ever, and how they are judged; batches (docs/decisions/0010)."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

from game_operator.codes import WebhookErrorCode as Code
from game_operator.errors import MalformedCallError
from game_operator.models.webhooks import LONGEST_ID, BalanceCall, DepositCall, FreeBet, WebhookCall
from game_operator.protocol.exact_json import encode_json
from game_operator.protocol.webhook_reply import encode_reply
from game_operator_testkit.certifier.engine.stage import Stage
from game_operator_testkit.certifier.engine.steps import Found
from game_operator_testkit.certifier.report.verdicts import KnownCause, Weight
from game_operator_testkit.provider.delivery import Carried
from game_operator_testkit.provider.replies import read_batch_reply
from game_operator_testkit.provider.requests import BetCalls, Request

#: A JSON object. Any: scenarios put into it what no call has.
Body: TypeAlias = dict[str, Any]
#: What should become of a call that a wallet may refuse, or take as it is meant.
Better: TypeAlias = Literal["refused", "accepted", "either"]
#: So many bytes a usual body has at least.
_SHORT_BYTES: Final = 200
#: In place of a value: the field is not there.
MISSING: Final = object()
#: Stands where JSON text is put that no encoder would write.
_MARK: Final = "<raw>"
#: How a field is not there.
LACKS: Final[Mapping[str, object]] = {"missing": MISSING, "null": None, "empty": "", "blank": "   "}
_NOT_SERVED: Final = frozenset({404, 405})
#: Where batches may come to (assumed, docs/decisions/0010); the body of the second is an object with the array in it.
_BATCH_PATH: Final = "/deposit-batch"
BATCH_PATHS: Final = (_BATCH_PATH, "/deposit/batch")


def with_field(body: Body, name: str, value: object) -> Body:
    """Return *body* with *value* under *name*, whose steps have dots between them, or without it if *MISSING*."""
    changed = deepcopy(body)
    *steps, last = name.split(".")
    holder = changed
    for step in steps:
        holder = holder.setdefault(step, {})
    holder[last] = value
    if value is MISSING:
        del holder[last]
    return changed


def lacking(at: Stage, call: WebhookCall, canonical: str, how: str = "missing", *, title: str = "") -> Request:
    """Return *call* with a field that is not there, in one of the ways of ``LACKS``; as it is if it has no such one."""
    name = at.writer.name(canonical, call.operation)
    request = at.request(call, title or f"a {call.operation} whose {name} is {how}")
    return replace(request, body=encode_json(with_field(at.writer.body(call), name, LACKS[how]))) if name else request


def with_raw(at: Stage, call: WebhookCall, canonical: str, raw: str, title: str = "") -> Request:
    """Return *call* with the JSON text *raw* in place of a field."""
    name = at.writer.name(canonical, call.operation)
    told = raw if len(raw) < LONGEST_ID else f"{len(raw) - 2} characters long"
    request = at.request(call, title or f"a {call.operation} whose {name} is {told}")
    return replace(request, body=_spliced(with_field(at.writer.body(call), name, _MARK), raw))


def of_bytes(at: Stage, length: int) -> Request:
    """Return a balance check of *length* bytes, by an unknown field."""
    check = BalanceCall(player_id=at.player.id)
    padded = at.writer.body(check) | {"padding": ""}
    padded["padding"] = "x" * (length - len(encode_json(padded)))
    return replace(at.request(check, f"a balance check of {length:,} bytes"), body=encode_json(padded))


def check_length(at: Stage, refused: Carried) -> None:
    """End the scenario if a call was *refused* for its length, as a balance check of as many bytes is."""
    length = len(refused.request.body)
    if at.send(of_bytes(at, length)).succeeded:
        return
    fits, too_long = _SHORT_BYTES, length
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if at.send(of_bytes(at, middle)).succeeded:
            fits = middle
        else:
            too_long = middle
    told = f"refused with {refused.code} instead of SUCCESS; its body has {length:,} bytes. "
    told += f"A balance check of {fits:,} bytes is accepted, and none that is longer"
    weight = Weight.CONTRACT_BROKEN if refused.request.path == "/withdraw" else None
    raise Found(told, refused, weight=weight, cause=KnownCause.SHORT_BODIES)


def deep(at: Stage, levels: int) -> Request:
    """Return a balance check with so many levels in an unknown field."""
    check = BalanceCall(player_id=at.player.id)
    body = at.writer.body(check) | {"levels": _MARK}
    request = at.request(check, f"a balance check of {levels:,} levels")
    return replace(request, body=_spliced(body, "[" * levels + "]" * levels))


def _spliced(body: Body, raw: str) -> bytes:
    return encode_json(body).replace(encode_json(_MARK), raw.encode())


def free_bets(at: Stage, count: int, won_cents: int, *, width: int = 0) -> tuple[FreeBet, ...]:
    """Return free bets that won *won_cents* each, with ids of at least *width* characters."""
    ids = [(at.fresh("free").ljust(width, "x"), at.fresh("round").ljust(width, "x")) for _ in range(count)]
    return tuple(FreeBet(id=one, round_id=other, wager_cents=won_cents, won_cents=won_cents) for one, other in ids)


def tolerated(at: Stage, request: Request, *, moves: int, better: Better) -> Carried:
    """Hold that *request* moves money as it says or not at all; that it is *better* refused or accepted is advice."""
    heard = at.ask(request)
    if heard.succeeded:
        at.player.due_cents += moves
    at.check_balance(heard, at.player)
    if heard.succeeded and better == "refused":
        at.advise(f"accepted; no money moved wrongly, and {Code.INVALID_REQUEST} is assumed", heard)
    elif not heard.succeeded and (better == "refused" or heard.code == Code.SYSTEM_ERROR):
        at.check_code(heard, Code.INVALID_REQUEST)
    elif not heard.succeeded and better == "accepted":
        at.advise(f"refused with {heard.code}, and SUCCESS is assumed", heard)
    return heard


def end_tolerated(at: Stage, bet: BetCalls, end: Request, cents: int, *, better: Better = "refused") -> None:
    """Place *bet*, hold that *end* is tolerated, which pays *cents* if it is accepted, and otherwise end the bet."""
    at.placed(bet)
    if not tolerated(at, end, moves=cents, better=better).succeeded:
        at.accepts(bet.deposit(bet.wager_cents), "the deposit as it must be")


def batch(at: Stage, calls: Sequence[DepositCall], title: str, *, path: str = _BATCH_PATH) -> Request:
    """Return the request that brings *calls*, as an array, or as *path* has it."""
    items = [at.writer.body(call) for call in calls]
    return Request(title, path, encode_json(items if path == _BATCH_PATH else {"bets": items}))


def pays_nothing(at: Stage, request: Request) -> None:
    """Hold that nothing in a batch is paid or said to be, whether it is refused as a whole or one by one."""
    heard = at.send(request)
    at.check_balances(at.player, after=heard)
    is_success = heard.succeeded
    if heard.reply is None:
        with suppress(MalformedCallError):
            is_success = any(reply.code is None for reply in read_batch_reply(heard.body).values())
    if is_success:
        told = "returned SUCCESS instead of a refusal; nothing moved, and the caller believes it did"
        raise Found(told, heard)


def answers(heard: Carried, calls: Sequence[DepositCall]) -> list[Carried | None]:
    """
    Return what *heard* says of each of *calls*, as if each had been sent alone; None where it says nothing.

    Each call has its own tx_id, which identifies its answer.
    """
    if not heard.status:
        raise Found(heard.problem, heard, weight=Weight.CONTRACT_BROKEN, cause=KnownCause.NO_ANSWER)
    if heard.status in _NOT_SERVED:
        told = f"answered HTTP {heard.status}, and the profile says that the service sends batches"
        raise Found(told, heard, cause=KnownCause.UNSERVED)
    try:
        replies = read_batch_reply(heard.body)
    except MalformedCallError as malformed:
        raise Found(f"answered HTTP {heard.status}, and no array of replies: {malformed}", heard) from None
    assert heard.answer is not None
    title = heard.request.title
    return [
        replace(
            heard,
            request=Request(f"{title}, {call.tx_id}", "/deposit", b""),
            answer=replace(heard.answer, body=encode_reply(replies[call.tx_id], now_millis=0)),
            problem="",
        )
        if call.tx_id in replies
        else None
        for call in calls
    ]
