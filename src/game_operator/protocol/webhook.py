"""
A webhook call on the wire, from both sides: bytes to a call, and a call to bytes; its reply is in ``webhook_reply``.

The specification fixes the paths (spec §4.1). The bodies are not shown: how they are read is the profile's
(docs/decisions/0010). Only what moves money can make a body unreadable; all else is kept raw.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final

from game_operator.errors import MalformedCallError, shown
from game_operator.models.webhooks import (
    LONGEST_ID,
    LONGEST_TX_ID,
    MAX_AMOUNT_CENTS,
    BalanceCall,
    DepositCall,
    FreeBet,
    RollbackCall,
    WebhookCall,
    WithdrawCall,
    problem_of_id,
)
from game_operator.profile import CALLS, Path, Profile
from game_operator.protocol.exact_json import Json, encode_json, items_with_bytes, read_json

#: What each path asks for (spec §4.1).
OPERATIONS: Final = MappingProxyType({f"/{operation}": operation for operation in CALLS})
#: The two spellings of a batch of deposits; off unless the profile says otherwise (docs/decisions/0010).
BATCH_PATHS: Final = frozenset({"/deposit-batch", "/deposit/batch"})

_MISSING: Final = object()
#: In one batch.
_MOST_DEPOSITS: Final = 1_000
#: Of a number, in a message.
_SHOWN_DIGITS: Final = 60


@dataclass(frozen=True, slots=True)
class Oddity:
    """
    Something about a body that moves no money and should be looked at: it is logged.

    Attributes:
        field: The canonical field.
        value: What stands there and cannot be read; it is kept raw.
        absent: Whether nothing stands there, though the service's calls have the field.
    """

    field: str
    value: object
    absent: bool = False

    def __str__(self) -> str:
        return f"{self.field} is absent" if self.absent else f"{self.field} cannot be read: {shown(self.value)}"


class _Body:
    """A body as seen through a profile: canonical fields, found by the first name present."""

    __slots__ = ("_paths", "names", "oddities", "raw")

    def __init__(self, raw: dict[str, Any], operation: str, profile: Profile) -> None:
        self.raw = raw
        self.names = profile.names(operation)
        self.oddities: list[Oddity] = []
        self._paths = self.names.paths

    def find(self, canonical: str) -> Any:
        """Return the value under the first name present, or _MISSING."""
        raw = self.raw
        for first, rest in self._paths[canonical]:
            value = raw.get(first, _MISSING)
            if rest:
                value = _below(value, rest)
            if value is not _MISSING:
                return value
        return _MISSING

    def id(self, canonical: str) -> str:
        value = self.find(canonical)
        if type(value) is str and value:
            return value
        if value is _MISSING:
            raise MalformedCallError(f"{self._called(canonical)} is missing")
        # Blank ones are refused here: a call made by hand may leave out what a body may not leave empty.
        raise MalformedCallError(f"{self._called(canonical)} must be a string and not empty, not {shown(value)}")

    def optional_id(self, canonical: str) -> str | None:
        value = self.find(canonical)
        if type(value) is str and value:
            return value
        return None if value is _MISSING else self.id(canonical)

    def amount(self) -> int:
        value = self.find("amount_cents")
        if value is _MISSING:
            raise MalformedCallError(f"{self._called('amount_cents')} is missing")
        cents = _whole(value)
        if cents is None:
            # A number as JSON has it, without Python's word around it.
            digits = str(value) if isinstance(value, Decimal) else ""
            written = digits[:_SHOWN_DIGITS] + "…" * (len(digits) > _SHOWN_DIGITS) if digits else shown(value)
            raise MalformedCallError(
                f"{self._called('amount_cents')} must be a whole number of cents from 0 to {MAX_AMOUNT_CENTS}, "
                f"without quotes or an exponent, not {written}"
            )
        return cents

    def action(self, admitted: tuple[str, ...]) -> str:
        value = self.find("action")
        if isinstance(value, str) and value in admitted:
            return value
        if value is _MISSING:
            return "BET"
        raise MalformedCallError(f"{self._called('action')} must be one of {', '.join(admitted)}, not {shown(value)}")

    def text(self, canonical: str, *, expected: bool = True) -> str | None:
        """Return an id that moves nothing, or None when it is absent or unreadable."""
        value = self.find(canonical)
        if type(value) is str and not problem_of_id(value, LONGEST_ID):
            return value
        if value is _MISSING:
            if expected:
                self.oddities.append(Oddity(canonical, None, absent=True))
            return None
        return self._readable_text(canonical, value)

    def reported_cents(self, canonical: str) -> int | None:
        """Return an amount that moves nothing, or None when it is absent or unreadable."""
        value = self.find(canonical)
        return None if value is _MISSING else self._readable_cents(canonical, value)

    def free_bets(self) -> tuple[FreeBet, ...]:
        value = self.find("free_bets")
        if value is _MISSING:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.oddities.append(Oddity("free_bets", value))
            return ()
        return tuple(map(self._free_bet, value))

    def _free_bet(self, item: dict[str, Any]) -> FreeBet:
        return FreeBet(
            id=self._readable_text("free_bets.id", item["id"]) if "id" in item else None,
            round_id=self._readable_text("free_bets.round_id", item["round_id"]) if "round_id" in item else None,
            wager_cents=self._readable_cents("free_bets.wager", item["wager"]) if "wager" in item else None,
            won_cents=self._readable_cents("free_bets.won", item["won"]) if "won" in item else None,
        )

    def _readable_text(self, field: str, value: object) -> str | None:
        if isinstance(value, str) and not problem_of_id(value, LONGEST_ID):
            return value
        self.oddities.append(Oddity(field, value))
        return None

    def _readable_cents(self, field: str, value: object) -> int | None:
        cents = _whole(value)
        if cents is None:
            self.oddities.append(Oddity(field, value))
        return cents

    def _called(self, canonical: str) -> str:
        names = _joined(self._paths[canonical])
        return canonical if names == canonical else f"{canonical} ({names})"


def _below(value: Any, steps: tuple[str, ...]) -> Any:
    for step in steps:
        if not isinstance(value, dict) or step not in value:
            return _MISSING
        value = value[step]
    return value


def _is_at(raw: dict[str, Any], path: Path) -> bool:
    first, rest = path
    return _below(raw.get(first, _MISSING), rest) is not _MISSING


def _whole(value: object) -> int | None:
    """Return *value* as cents: 500 and 500.0 are 500; text, true, 5.5 and 5e2 are None."""
    # Compared first: nothing here may depend on the thread's decimal context, or take long for many digits.
    if type(value) is Decimal and 0 <= value <= MAX_AMOUNT_CENTS and value == value.to_integral_value():
        return int(value)
    return value if type(value) is int and 0 <= value <= MAX_AMOUNT_CENTS else None


def read_call(
    operation: str, body: bytes, profile: Profile, raw: object = _MISSING
) -> tuple[WebhookCall, list[Oddity]]:
    """
    Return the call in *body*, posted to the path of *operation* (spec §4.1), and what is odd about it.

    *raw* is the JSON value of *body*, where that has been read already.

    Raises:
        MalformedCallError: The body is not such a call; the message names the field.
        TypeError: ``profile.parse`` returned something else than a call of *operation*.
    """
    if profile.parse is not None:
        call: object = profile.parse(operation, body)
        # A withdraw from the path of deposits would be taken as one: handlers go by the call, not by the path.
        if not isinstance(call, WebhookCall) or call.operation != operation:
            raise TypeError(f"parse must return a call of {operation}, not {shown(call)}")
        # The bytes distinguish a rollback from its withdraw posted again, so they are not left to the parser.
        return call if call.body == body else replace(call, body=body), []
    raw = read_json(body) if raw is _MISSING else raw
    if not isinstance(raw, dict):
        raise MalformedCallError(f"the body must be a JSON object, not {shown(raw)}")
    seen = _Body(raw, operation, profile)
    try:
        return _READERS[operation](seen, body, profile), seen.oddities
    except ValueError as wrong:  # An id or an amount that no call can have, however it is made.
        raise MalformedCallError(str(wrong)) from None


def _read_withdraw(seen: _Body, body: bytes, profile: Profile) -> WithdrawCall:
    _check_no_deposit(seen)
    amount_cents = seen.amount()
    if amount_cents == 0 and not profile.allow_zero_withdraw:
        raise MalformedCallError("a withdraw of 0 is not a bet; Profile(allow_zero_withdraw=True) accepts it")
    return WithdrawCall(
        player_id=seen.id("player_id"),
        bet_id=seen.id("bet_id"),
        amount_cents=amount_cents,
        tx_id=seen.optional_id("tx_id") or "",
        action=seen.action(profile.withdraw_actions),
        round_id=seen.text("round_id", expected=False),
        instance_id=seen.text("instance_id"),
        game=seen.text("game"),
        raw=seen.raw,
        body=body,
    )


def _read_deposit(seen: _Body, body: bytes, profile: Profile) -> DepositCall:
    _check_is_deposit(seen)
    action = seen.action(("BET", *profile.claim_types))
    is_claim = action != "BET"
    tx_id = seen.optional_id("tx_id") or ""
    return DepositCall(
        player_id=seen.id("player_id"),
        bet_id=seen.optional_id("bet_id") if is_claim and tx_id else seen.id("bet_id"),
        amount_cents=seen.amount(),
        tx_id=tx_id,
        action=action,
        is_claim=is_claim,
        wager_cents=seen.reported_cents("wager_cents"),
        won_cents=seen.reported_cents("won_cents"),
        free_bets=seen.free_bets(),
        jackpot_id=seen.text("jackpot_id", expected=False),
        # A claim's rounds stand with its free bets.
        round_id=seen.text("round_id", expected=not is_claim),
        instance_id=seen.text("instance_id"),
        game=seen.text("game"),
        raw=seen.raw,
        body=body,
    )


def _read_rollback(seen: _Body, body: bytes, profile: Profile) -> RollbackCall:
    _check_no_deposit(seen)
    return RollbackCall(
        player_id=seen.id("player_id"),
        bet_id=seen.id("bet_id"),
        tx_id=seen.optional_id("tx_id"),
        action=seen.action(profile.withdraw_actions),
        amount_cents=seen.reported_cents("amount_cents"),
        round_id=seen.text("round_id"),
        instance_id=seen.text("instance_id"),
        game=seen.text("game"),
        raw=seen.raw,
        body=body,
    )


# The signature covers the body and not the path: a withdraw's bytes posted to /deposit would be a win. So a body has
# to look like what it was posted as. A withdraw's bytes on /rollback look right, and the ledger knows them again.


def _check_is_deposit(seen: _Body) -> None:
    raw, names = seen.raw, seen.names
    for holder in names.holders:
        if holder not in raw:
            continue
        if not isinstance(raw[holder], dict):
            raise MalformedCallError(f"a deposit's {holder} must be an object, not {shown(raw[holder])}")
        if seen.find("action") is _MISSING:
            raise MalformedCallError(
                f"a deposit's {holder} must say what it is; it does not have {_joined(names.marks)}"
            )
    if not _is_marked(seen):
        raise MalformedCallError(f"a deposit must have {_joined(names.marks)}; this looks like another call")


def _check_no_deposit(seen: _Body) -> None:
    for stranger in seen.names.strangers:
        if stranger in seen.raw:
            raise MalformedCallError(f"only a deposit has {stranger}; this looks like another call")
    # A lost bet's deposit, posted to /rollback, would give the wager back.
    if seen.find("action") is _MISSING and _is_marked(seen):
        raise MalformedCallError(f"without an action, {_joined(seen.names.marks)} looks like a deposit")


def _is_marked(seen: _Body) -> bool:
    return any(_is_at(seen.raw, mark) for mark in seen.names.marks)


def _joined(paths: tuple[Path, ...]) -> str:
    return " or ".join(".".join((first, *rest)) for first, rest in paths)


_READERS: Mapping[str, Callable[[_Body, bytes, Profile], WebhookCall]] = {
    "withdraw": _read_withdraw,
    "deposit": _read_deposit,
    "rollback": _read_rollback,
    "player-balance": lambda seen, body, _: BalanceCall(player_id=seen.id("player_id"), raw=seen.raw, body=body),
}


def names_found(operation: str, raw: dict[str, Any], profile: Profile) -> dict[str, str]:
    """Return under which name each canonical field stands in *raw*, a parsed body, as far as it is there."""
    found: dict[str, str] = {}
    for canonical, paths in profile.names(operation).paths.items():
        present = [path for path in paths if _is_at(raw, path)]
        if present:
            found[canonical] = _joined((present[0],))
    return found


@dataclass(frozen=True, slots=True)
class BatchItem:
    """
    One deposit of a batch.

    Attributes:
        tx_id: What its answer is matched by; None when it cannot be read.
        call: The deposit; None when it is malformed.
        problem: Why it is malformed, for the log; "" when it is not.
        body: The very bytes that it has in the batch, which are those of a deposit alone.
    """

    tx_id: str | None
    call: DepositCall | None
    problem: str = ""
    body: bytes = b""


def read_batch(body: bytes, profile: Profile) -> list[BatchItem]:
    """
    Return the deposits of a batch in order (assumed, docs/decisions/0010).

    Raises:
        MalformedCallError: The body is not a batch, or has too many items.
        TypeError: ``profile.parse`` returned something else than a deposit.
    """
    value = read_json(body)
    items = value.get("bets") if isinstance(value, dict) else value
    if not isinstance(items, list):
        raise MalformedCallError("a batch must be an array of deposits, or an object with an array in bets")
    if len(items) > _MOST_DEPOSITS:
        raise MalformedCallError(f"a batch has at most {_MOST_DEPOSITS} deposits, not {len(items)}")
    return [_batch_item(item, alone, profile) for item, alone in items_with_bytes(body, items, "bets")]


def _batch_item(item: object, body: bytes, profile: Profile) -> BatchItem:
    try:
        call, _ = read_call("deposit", body, profile, item)
    except MalformedCallError as malformed:
        tx_id = _Body(item, "deposit", profile).find("tx_id") if isinstance(item, dict) else None
        is_readable = isinstance(tx_id, str) and not problem_of_id(tx_id, LONGEST_TX_ID)
        return BatchItem(tx_id if is_readable else None, None, str(malformed), body)
    assert isinstance(call, DepositCall)
    return BatchItem(call.tx_id, call, "", body)


def encode_call(call: WebhookCall) -> bytes:
    """Return *call*, which was made by hand and has no body, under the default names (docs/decisions/0010)."""
    if isinstance(call, BalanceCall):
        return encode_json({"player_id": call.player_id})
    action: Json = call.action
    if isinstance(call, DepositCall):
        more = {"round_id": call.round_id, "wager": call.wager_cents, "won": call.won_cents}
        free_bets = [_present(_free_bet(bet)) for bet in call.free_bets]
        action = _present({"type": action, **more, "jackpot_id": call.jackpot_id, "bets": free_bets or None})
    body = {
        "player_id": call.player_id,
        "amount": call.amount_cents,
        "game": call.game,
        "instance_id": call.instance_id,
        "action": action,
        "action_id": call.bet_id,
        "tx_id": call.tx_id,
        "round_id": None if isinstance(call, DepositCall) else call.round_id,
    }
    return encode_json(_present(body))


def _present(fields: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in fields.items() if value is not None}


def _free_bet(bet: FreeBet) -> dict[str, Json]:
    return {"id": bet.id, "round_id": bet.round_id, "wager": bet.wager_cents, "won": bet.won_cents}
