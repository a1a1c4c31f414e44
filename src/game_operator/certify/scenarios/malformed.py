"""Genuine calls made invalid: bodies that are signed as ever and that no service should send (docs/decisions/0010)."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final, TypeAlias

from game_operator.certify.engine.stage import Asking, Stage
from game_operator.codes import WebhookErrorCode as Code
from game_operator.models.webhooks import BalanceCall, WebhookCall
from game_operator.protocol.exact_json import Json, encode_json
from game_operator.provider.requests import Request

#: A JSON object. Any: scenarios put into it what no call has.
Body: TypeAlias = dict[str, Any]


def with_field(body: Body, name: str, value: object) -> Body:
    """Return *body* with *value* under *name*, whose steps have dots between them."""
    changed = deepcopy(body)
    *steps, last = name.split(".")
    holder = changed
    for step in steps:
        holder = holder.setdefault(step, {})
    holder[last] = value
    return changed


def without_field(body: Body, name: str) -> Body:
    """Return *body* without *name*."""
    changed = deepcopy(body)
    *steps, last = name.split(".")
    holder = changed
    for step in steps:
        holder = holder[step]
    del holder[last]
    return changed


#: Stands where JSON text is put that no encoder would write.
_MARK: Final = "<raw>"
#: How a field is not there.
LACKS: Final[Mapping[str, Callable[[Body, str], Body]]] = {
    "missing": without_field,
    "null": lambda body, name: with_field(body, name, None),
    "empty": lambda body, name: with_field(body, name, ""),
    "blank": lambda body, name: with_field(body, name, "   "),
}


def lacking(at: Stage, call: WebhookCall, canonical: str, how: str) -> Request:
    """Return *call* with a field that is not there, in one of the ways of ``LACKS``."""
    name = at.writer.name(canonical, call.operation)
    request = at.request(call, f"a {call.operation} whose {name} is {how}")
    return replace(request, body=encode_json(LACKS[how](at.writer.body(call), name)))


def with_value(at: Stage, call: WebhookCall, name: str, value: Json) -> Request:
    """Return *call* with *value* under *name*."""
    title = f"a {call.operation} whose {name} is {encode_json(value).decode()}"
    return replace(at.request(call, title), body=encode_json(with_field(at.writer.body(call), name, value)))


def with_raw(at: Stage, call: WebhookCall, canonical: str, raw: str, title: str) -> Request:
    """Return *call* with the JSON text *raw* in place of a field."""
    body = with_field(at.writer.body(call), at.writer.name(canonical, call.operation), _MARK)
    return replace(at.request(call, title), body=_spliced(body, raw))


def of_amount(at: Stage, call: WebhookCall, raw: str) -> Request:
    """Return *call* with the JSON text *raw* as its amount."""
    return with_raw(at, call, "amount_cents", raw, f"a {call.operation} whose amount is {raw}")


def of_length(at: Stage, call: WebhookCall, length: int) -> Request:
    """Return *call* for a bet whose id has so many characters."""
    raw = encode_json(f"{at.fresh('bet')}-".ljust(length, "x")).decode()
    return with_raw(at, call, "bet_id", raw, f"a {call.operation} whose id has {length:,} characters")


def twice(at: Stage, call: WebhookCall, canonical: str, one: str | int, another: str | int) -> Request:
    """Return *call* with a field that stands there twice."""
    name = at.writer.name(canonical, call.operation)
    first, last_step, second = (encode_json(each).decode() for each in (one, name.rpartition(".")[2], another))
    title = f"a {call.operation} with two values of {name}"
    return with_raw(at, call, canonical, f"{first},{last_step}:{second}", title)


def of_bytes(at: Stage, length: int) -> Request:
    """Return a balance check of *length* bytes, by a field that nobody knows."""
    check = BalanceCall(player_id=at.player.id)
    padded = at.writer.body(check) | {"padding": ""}
    padded["padding"] = "x" * (length - len(encode_json(padded)))
    return replace(at.request(check, f"a balance check of {length:,} bytes"), body=encode_json(padded))


def deep(at: Stage, levels: int) -> Request:
    """Return a balance check with so many levels in a field that nobody knows."""
    check = BalanceCall(player_id=at.player.id)
    body = at.writer.body(check) | {"levels": _MARK}
    request = at.request(check, f"a balance check of {levels:,} levels")
    return replace(request, body=_spliced(body, "[" * levels + "]" * levels))


def _spliced(body: Body, raw: str) -> bytes:
    return encode_json(body).replace(encode_json(_MARK), raw.encode())


def better_refused(at: Stage, request: Request, *, moves: int) -> Asking:
    """Hold that *request* moves money as it says or not at all; that it should be refused is advice."""
    heard = yield from refused_or_meant(at, request, moves=moves)
    if heard.succeeded:
        at.advise(f"accepted; no money moved wrongly, and {Code.INVALID_REQUEST} is assumed", heard)
    else:
        at.check_code(heard, Code.INVALID_REQUEST)
    return heard


def refused_or_meant(at: Stage, request: Request, *, moves: int) -> Asking:
    """Hold that *request* moves money as it says or not at all."""
    heard = yield from at.ask(request)
    if heard.succeeded:
        at.player.due_cents += moves
    yield from at.check_balance(heard, at.player)
    return heard
