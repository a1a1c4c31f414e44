"""
A webhook call on the wire, from both sides: bytes to a call and a reply to bytes; a call to bytes and bytes to a reply.

The specification fixes the paths (spec §4.1) and the reply (spec §2.1). The bodies are not shown: how they are read is
the profile's (docs/decisions/0010). Only what moves money can make a body unreadable; all else is kept raw.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any, Final

from game_operator.codes import WebhookErrorCode
from game_operator.errors import MalformedCallError, shown
from game_operator.models.webhooks import (
    BalanceCall,
    DepositCall,
    FreeBet,
    Reply,
    RollbackCall,
    WebhookCall,
    WithdrawCall,
)
from game_operator.money import Cents, cents_from_amount, json_cents
from game_operator.profile import Profile
from game_operator.protocol.canonical import Json, encode_json

__all__ = [
    "BATCH_PATHS",
    "MAX_AMOUNT_CENTS",
    "OPERATIONS",
    "BatchItem",
    "Oddity",
    "encode_batch_reply",
    "encode_call",
    "encode_reply",
    "fold_code",
    "read_batch",
    "read_call",
    "read_call_and_oddities",
    "read_json",
    "read_reply",
]

#: What each path asks for (spec §4.1).
OPERATIONS: Final = MappingProxyType(
    {"/withdraw": "withdraw", "/deposit": "deposit", "/rollback": "rollback", "/player-balance": "player-balance"}
)
#: The two spellings of a batch of deposits; off unless the profile says otherwise (docs/decisions/0010).
BATCH_PATHS: Final = frozenset({"/deposit-batch", "/deposit/batch"})
#: Ten trillion currency units.
MAX_AMOUNT_CENTS: Final = 10**15

_LONGEST_ID = 256
_LONGEST_TX_ID = 320
_DEEPEST = 64
_MISSING: Final = object()


class _Exponential(Decimal):
    """A JSON number written with an exponent: kept exactly, and never an amount."""


def _number(text: str) -> Decimal:
    try:
        return _Exponential(text) if "e" in text or "E" in text else Decimal(text)
    except InvalidOperation:  # An exponent of 19 digits and more.
        raise MalformedCallError(f"the number {shown(text)} is beyond all bounds") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        # Parsers disagree on which of the two counts, and another one may have looked at this body before us.
        raise MalformedCallError(f"a member stands twice among {shown([name for name, _ in pairs])}")
    return members


def _constant(name: str) -> Any:
    raise MalformedCallError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_number, parse_constant=_constant)


def read_json(body: bytes) -> Any:
    """
    Return the JSON value in *body*: exact numbers, no member twice, no NaN, at most 64 levels deep.

    Raises:
        MalformedCallError: It is none.
    """
    try:
        value = _DECODER.decode(body.decode())
    except MalformedCallError:
        raise
    except UnicodeDecodeError as broken:
        raise MalformedCallError(f"the body is no UTF-8 from byte {broken.start} on") from None
    except RecursionError:
        raise MalformedCallError(f"the body is more than {_DEEPEST} levels deep") from None
    except ValueError as broken:
        raise MalformedCallError(f"the body is no JSON: {broken}, it begins {shown(body[:40])}") from None
    if body.count(b"{") + body.count(b"[") > _DEEPEST and _is_deep(value):
        raise MalformedCallError(f"the body is more than {_DEEPEST} levels deep")
    return value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST + 1):
        below: list[Any] = []
        for item in level:
            below.extend(item.values() if isinstance(item, dict) else item if isinstance(item, list) else ())
        level = [item for item in below if isinstance(item, dict | list)]
        if not level:
            return False
    return True


@dataclass(frozen=True, slots=True)
class Oddity:
    """A field that could not be read and moves no money: it is kept raw, and logged."""

    field: str
    value: object


class _Body:
    """A body as seen through a profile: canonical fields, found by the first name present."""

    __slots__ = ("_operation", "_profile", "oddities", "raw")

    def __init__(self, raw: Mapping[str, Any], operation: str, profile: Profile) -> None:
        self.raw = raw
        self.oddities: list[Oddity] = []
        self._operation = operation
        self._profile = profile

    def find(self, canonical: str) -> Any:
        """Return the value under the first name present, or _MISSING."""
        raw = self.raw
        for name in self._profile.names_of(canonical, self._operation):
            if name in raw:
                return raw[name]
            if "." in name:
                found = _at(raw, name)
                if found is not _MISSING:
                    return found
        return _MISSING

    def id(self, canonical: str, longest: int = _LONGEST_ID) -> str:
        value = self.find(canonical)
        if value is _MISSING:
            raise MalformedCallError(f"{self._called(canonical)} is missing")
        return self._checked_id(canonical, value, longest)

    def optional_id(self, canonical: str, longest: int = _LONGEST_ID) -> str | None:
        value = self.find(canonical)
        return None if value is _MISSING else self._checked_id(canonical, value, longest)

    def amount(self) -> int:
        value = self.find("amount_cents")
        if value is _MISSING:
            raise MalformedCallError(f"{self._called('amount_cents')} is missing")
        cents = _whole(value)
        if cents is None:
            raise MalformedCallError(
                f"{self._called('amount_cents')} must be a whole number of cents from 0 to {MAX_AMOUNT_CENTS}, "
                f"not {shown(value)}"
            )
        return cents

    def action(self, admitted: tuple[str, ...]) -> str:
        value = self.find("action")
        if value is _MISSING:
            return "BET"
        if not isinstance(value, str) or value not in admitted:
            raise MalformedCallError(
                f"{self._called('action')} must be one of {', '.join(admitted)}, not {shown(value)}"
            )
        return value

    def text(self, canonical: str) -> str | None:
        """Return an id that moves nothing, or None when it is absent or unreadable."""
        value = self.find(canonical)
        if value is _MISSING:
            return None
        if isinstance(value, str) and not _problem_of_id(value, _LONGEST_ID):
            return value
        self.oddities.append(Oddity(canonical, value))
        return None

    def told_cents(self, canonical: str) -> int | None:
        """Return an amount that moves nothing, or None when it is absent or unreadable."""
        value = self.find(canonical)
        cents = None if value is _MISSING else _whole(value)
        if cents is None and value is not _MISSING:
            self.oddities.append(Oddity(canonical, value))
        return cents

    def free_bets(self) -> tuple[FreeBet, ...]:
        value = self.find("free_bets")
        if value is _MISSING:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.oddities.append(Oddity("free_bets", value))
            return ()
        return tuple(map(_free_bet, value))

    def _checked_id(self, canonical: str, value: object, longest: int) -> str:
        if not isinstance(value, str):
            raise MalformedCallError(f"{self._called(canonical)} must be a string, not {shown(value)}")
        problem = _problem_of_id(value, longest)
        if problem:
            raise MalformedCallError(f"{self._called(canonical)} {problem}, it is {shown(value)}")
        return value

    def _called(self, canonical: str) -> str:
        names = self._profile.names_of(canonical, self._operation)
        return f"{canonical} ({' or '.join(names)})" if names != (canonical,) else canonical


def _at(raw: Mapping[str, Any], path: str) -> Any:
    value: Any = raw
    for step in path.split("."):
        if not isinstance(value, dict) or step not in value:
            return _MISSING
        value = value[step]
    return value


def _problem_of_id(value: str, longest: int) -> str:
    """Return what is wrong with *value* as an id, or "". Ids are compared bytewise, and never trimmed or folded."""
    if not value or value.isspace():
        return "must not be blank"
    if len(value) > longest:
        return f"must have at most {longest} characters, and has {len(value)}"
    if value.isascii():
        return "must not hold U+0000" if "\0" in value else ""
    if "\0" in value:
        return "must not hold U+0000"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "must not hold a lone surrogate"
    return ""


def _whole(value: object) -> int | None:
    """Return *value* as cents: 500 and 500.0 are 500; text, true, 5.5 and 5e2 are None."""
    if type(value) is Decimal and value == value.to_integral_value() and abs(value) <= MAX_AMOUNT_CENTS:
        value = int(value)
    return value if type(value) is int and 0 <= value <= MAX_AMOUNT_CENTS else None


def _free_bet(item: dict[str, Any]) -> FreeBet:
    identity, round_id = (item[name] if isinstance(item.get(name), str) else None for name in ("id", "round_id"))
    return FreeBet(
        id=identity, round_id=round_id, wager_cents=_whole(item.get("wager")), won_cents=_whole(item.get("won"))
    )


def read_call(operation: str, body: bytes, profile: Profile) -> WebhookCall:
    """
    Return the call in *body*, posted to the path of *operation* (spec §4.1).

    Raises:
        MalformedCallError: The body is no such call; the message names the field.
    """
    return read_call_and_oddities(operation, body, profile)[0]


def read_call_and_oddities(operation: str, body: bytes, profile: Profile) -> tuple[WebhookCall, list[Oddity]]:
    """Return the call in *body* as ``read_call`` does, and what in it could not be read and moves no money."""
    if profile.parse is not None:
        return profile.parse(operation, body), []
    raw = read_json(body)
    if not isinstance(raw, dict):
        raise MalformedCallError(f"the body must be a JSON object, not {shown(raw)}")
    return _call_of(operation, raw, body, profile)


def _call_of(operation: str, raw: dict[str, Any], body: bytes, profile: Profile) -> tuple[WebhookCall, list[Oddity]]:
    seen = _Body(raw, operation, profile)
    call = _READERS[operation](seen, body, profile)
    return call, seen.oddities


def _read_balance(seen: _Body, body: bytes, _profile: Profile) -> BalanceCall:
    return BalanceCall(player_id=seen.id("player_id"), raw=seen.raw, body=body)


def _read_withdraw(seen: _Body, body: bytes, profile: Profile) -> WithdrawCall:
    player_id, bet_id = seen.id("player_id"), seen.id("bet_id")
    tx_id, amount_cents = seen.optional_id("tx_id", _LONGEST_TX_ID), seen.amount()
    if not amount_cents and not profile.allow_zero_withdraw:
        raise MalformedCallError("a withdraw of 0 is no bet; Profile(allow_zero_withdraw=True) accepts it")
    return WithdrawCall(
        player_id=player_id,
        bet_id=bet_id,
        amount_cents=amount_cents,
        tx_id=tx_id or "",
        action=seen.action(profile.withdraw_actions),
        round_id=seen.text("round_id"),
        instance_id=seen.text("instance_id"),
        game=seen.text("game"),
        raw=seen.raw,
        body=body,
    )


def _read_deposit(seen: _Body, body: bytes, profile: Profile) -> DepositCall:
    _check_shape_of_deposit(seen.raw, seen.find("action"), profile)
    player_id = seen.id("player_id")
    action = seen.action(("BET", *profile.claim_types))
    is_claim = action in profile.claim_types
    tx_id = seen.optional_id("tx_id", _LONGEST_TX_ID)
    bet_id = seen.optional_id("bet_id") if is_claim and tx_id is not None else seen.id("bet_id")
    return DepositCall(
        player_id=player_id,
        bet_id=bet_id,
        amount_cents=seen.amount(),
        tx_id=tx_id or "",
        action=action,
        is_claim=is_claim,
        wager_cents=seen.told_cents("wager_cents"),
        won_cents=seen.told_cents("won_cents"),
        free_bets=seen.free_bets(),
        jackpot_id=seen.text("jackpot_id"),
        round_id=seen.text("round_id"),
        instance_id=seen.text("instance_id"),
        game=seen.text("game"),
        raw=seen.raw,
        body=body,
    )


def _check_shape_of_deposit(raw: Mapping[str, Any], action: object, profile: Profile) -> None:
    # The signature covers the body and not the path: a withdraw's bytes posted to /deposit must not be read as one.
    if profile.names_of("action", "deposit") != ("action.type",):
        return
    if "action" in raw:
        if not isinstance(raw["action"], dict):
            raise MalformedCallError(f"a deposit's action must be an object, not {shown(raw['action'])}")
        if action is _MISSING:
            raise MalformedCallError("a deposit's action must have a type")
    elif "won" not in raw:
        raise MalformedCallError("a deposit must have an action object or a won field; this looks like another call")


def _read_rollback(seen: _Body, body: bytes, profile: Profile) -> RollbackCall:
    return RollbackCall(
        player_id=seen.id("player_id"),
        bet_id=seen.id("bet_id"),
        tx_id=seen.optional_id("tx_id", _LONGEST_TX_ID),
        action=seen.action(profile.withdraw_actions),
        amount_cents=seen.told_cents("amount_cents"),
        round_id=seen.text("round_id"),
        instance_id=seen.text("instance_id"),
        game=seen.text("game"),
        raw=seen.raw,
        body=body,
    )


_READERS: Mapping[str, Callable[[_Body, bytes, Profile], WebhookCall]] = {
    "withdraw": _read_withdraw,
    "deposit": _read_deposit,
    "rollback": _read_rollback,
    "player-balance": _read_balance,
}


@dataclass(frozen=True, slots=True)
class BatchItem:
    """
    One deposit of a batch.

    Attributes:
        tx_id: What its answer is matched by; None when it cannot be read.
        call: The deposit, with the bytes it would have had alone; None when it is malformed.
        problem: Why it is malformed, for the log; "" when it is not.
        body: Those bytes.
    """

    tx_id: str | None
    call: DepositCall | None
    problem: str = ""
    body: bytes = b""


def read_batch(body: bytes, profile: Profile) -> list[BatchItem]:
    """
    Return the deposits of a batch in order (assumed, docs/decisions/0010).

    Raises:
        MalformedCallError: The body is no batch at all, or has too many items.
    """
    value = read_json(body)
    items = value.get("bets") if isinstance(value, dict) else value
    if not isinstance(items, list):
        raise MalformedCallError("a batch must be an array of deposits, or an object with an array in bets")
    if len(items) > profile.max_batch_items:
        raise MalformedCallError(f"a batch has at most {profile.max_batch_items} deposits, not {len(items)}")
    return [_batch_item(item, profile) for item in items]


def _batch_item(item: object, profile: Profile) -> BatchItem:
    body = _reencoded(item)
    try:
        if not isinstance(item, dict):
            raise MalformedCallError(f"a deposit must be a JSON object, not {shown(item)}")
        call, _ = _call_of("deposit", item, body, profile)
    except MalformedCallError as malformed:
        return BatchItem(_tx_id_of(item, profile), None, str(malformed), body)
    assert isinstance(call, DepositCall)
    return BatchItem(call.tx_id, call, "", body)


def _tx_id_of(item: object, profile: Profile) -> str | None:
    tx_id = _Body(item, "deposit", profile).find("tx_id") if isinstance(item, dict) else None
    return tx_id if isinstance(tx_id, str) and not _problem_of_id(tx_id, _LONGEST_TX_ID) else None


def _reencoded(item: Any) -> bytes:
    try:
        return encode_json(item)
    except ValueError:  # A lone surrogate, or a number beyond all bounds, in a field that moves nothing.
        return json.dumps(item, default=str).encode()


#: What each code becomes for a service that knows five of them (docs/decisions/0013).
_FOLDED = MappingProxyType(
    {
        WebhookErrorCode.BET_ROLLED_BACK: WebhookErrorCode.BET_ALREADY_CLOSED,
        WebhookErrorCode.INVALID_SIGNATURE: WebhookErrorCode.SYSTEM_ERROR,
        WebhookErrorCode.SYSTEM_ERROR: WebhookErrorCode.SYSTEM_ERROR,
        WebhookErrorCode.INSUFFICIENT_BALANCE: WebhookErrorCode.INSUFFICIENT_BALANCE,
        WebhookErrorCode.PLAYER_NOT_FOUND: WebhookErrorCode.PLAYER_NOT_FOUND,
        WebhookErrorCode.BET_NOT_FOUND: WebhookErrorCode.BET_NOT_FOUND,
        WebhookErrorCode.BET_ALREADY_CLOSED: WebhookErrorCode.BET_ALREADY_CLOSED,
    }
)


def fold_code(code: str, profile: Profile) -> str:
    """Return what *code* is called on the wire: itself, or one of the core codes (assumed, docs/decisions/0013)."""
    if profile.codes == "extended":
        return code
    return _FOLDED.get(code, WebhookErrorCode.INVALID_REQUEST)  # type: ignore[call-overload, no-any-return]  # A StrEnum is its text.


def encode_reply(reply: Reply, *, now_millis: int) -> bytes:
    """Return the body of spec §2.1; the balance is written from whole cents, digit for digit."""
    timestamp = now_millis if reply.timestamp is None else reply.timestamp
    if reply.code is None:
        assert reply.balance_cents is not None
        return b'{"type":"SUCCESS","balance":%b,"timestamp":%d}' % (json_cents(reply.balance_cents).encode(), timestamp)
    if reply.balance_cents is None:
        return b'{"type":"ERROR","code":"%b","timestamp":%d}' % (reply.code.encode(), timestamp)
    return b'{"type":"ERROR","code":"%b","balance":%b,"timestamp":%d}' % (
        reply.code.encode(),
        json_cents(reply.balance_cents).encode(),
        timestamp,
    )


def encode_batch_reply(items: Sequence[tuple[str | None, Reply]], *, now_millis: int) -> bytes:
    """Return the answer to a batch: (tx_id, reply) in order, as an array (assumed, docs/decisions/0010)."""
    return b"[" + b",".join(_batch_answer(tx_id, reply, now_millis) for tx_id, reply in items) + b"]"


def _batch_answer(tx_id: str | None, reply: Reply, now_millis: int) -> bytes:
    return b'{"tx_id":' + encode_json(tx_id) + b"," + encode_reply(reply, now_millis=now_millis)[1:]


def encode_call(call: WebhookCall) -> bytes:
    """Return *call* as the service writes it (assumed, docs/decisions/0010); a sandbox and tests send this."""
    body: dict[str, Json] = {"player_id": call.player_id}
    if isinstance(call, BalanceCall):
        return encode_json(body)
    if call.amount_cents is not None:
        body["amount"] = call.amount_cents
    body |= {name: value for name in ("game", "instance_id") if (value := getattr(call, name)) is not None}
    body["action"] = _action_object(call) if isinstance(call, DepositCall) else call.action
    if call.bet_id is not None:
        body["action_id"] = call.bet_id
    if call.tx_id is not None:
        body["tx_id"] = call.tx_id
    if call.round_id is not None and not isinstance(call, DepositCall):
        body["round_id"] = call.round_id
    return encode_json(body)


def _action_object(call: DepositCall) -> dict[str, Json]:
    told: dict[str, Json | None] = {
        "type": call.action,
        "round_id": call.round_id,
        "wager": call.wager_cents,
        "won": call.won_cents,
        "jackpot_id": call.jackpot_id,
        "bets": [_told(bet) for bet in call.free_bets] or None,
    }
    return {name: value for name, value in told.items() if value is not None}


def _told(bet: FreeBet) -> dict[str, Json]:
    told = {"id": bet.id, "round_id": bet.round_id, "wager": bet.wager_cents, "won": bet.won_cents}
    return {name: value for name, value in told.items() if value is not None}


def read_reply(body: bytes) -> Reply:
    """
    Return the reply in *body*, as the service reads it (spec §2.1).

    Raises:
        MalformedCallError: It is not of spec §2.1, or its balance is finer than a cent.
    """
    value = read_json(body)
    if not isinstance(value, dict):
        raise MalformedCallError(f"a reply must be a JSON object, not {shown(value)}")
    kind, code, timestamp = value.get("type"), value.get("code"), value.get("timestamp")
    if kind not in ("SUCCESS", "ERROR"):
        raise MalformedCallError(f"a reply's type must be SUCCESS or ERROR, not {shown(kind)}")
    if kind == "ERROR" and not isinstance(code, str):
        raise MalformedCallError(f"an ERROR must have a code, not {shown(code)}")
    if kind == "SUCCESS" and ("balance" not in value or type(timestamp) is not int):
        raise MalformedCallError("a SUCCESS must have a balance and a timestamp in whole milliseconds")
    balance_cents = _balance_cents(value["balance"]) if "balance" in value else None
    return Reply(
        code=code if kind == "ERROR" else None,
        balance_cents=balance_cents,
        timestamp=timestamp if type(timestamp) is int else None,
    )


def _balance_cents(value: object) -> Cents:
    try:
        return cents_from_amount(Decimal(value) if type(value) is int else value)  # type: ignore[arg-type]  # It checks.
    except (TypeError, ValueError):
        pass
    raise MalformedCallError(f"a balance must be a number of whole cents in currency units, not {shown(value)}")
