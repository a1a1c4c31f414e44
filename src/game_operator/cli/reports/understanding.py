"""How the body of a webhook is understood, field by field (assumed: docs/decisions/0010)."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from game_operator.errors import MalformedCallError
from game_operator.models.webhooks import DepositCall, RollbackCall, WebhookCall
from game_operator.money import amount_from_cents
from game_operator.profile import Profile
from game_operator.protocol.exact_json import read_json
from game_operator.protocol.webhook import names_found, read_call_and_oddities

#: The note on an amount that looks like currency units.
WITH_DECIMALS = "written with decimals, and read as cents"
_TOLD = ("round_id", "instance_id", "game")
_BET = ("player_id", "bet_id", "tx_id", "amount_cents", "action")
#: The canonical fields of each operation.
FIELDS = {
    "withdraw": (*_BET, *_TOLD),
    "deposit": (*_BET, "wager_cents", "won_cents", "free_bets", "jackpot_id", *_TOLD),
    "rollback": (*_BET, *_TOLD),
    "player-balance": ("player_id",),
}


@dataclass(frozen=True)
class Reading:
    """
    One canonical field.

    Attributes:
        field: Its name.
        found_under: The name under which the body has it, or None.
        in_body: What stands there.
        read_as: What it means; None when it is absent or unreadable, or the call is refused.
        note: What is derived, assumed or odd about it.
    """

    field: str
    found_under: str | None
    in_body: object
    read_as: object
    note: str


@dataclass(frozen=True)
class Understanding:
    """
    What a body says to an operator.

    Attributes:
        operation: The operation; None when the body looks like none.
        why: Why the operation was guessed; "" when it was given, or there is none.
        problem: Why the call is refused with INVALID_REQUEST; "" when it is not.
        readings: Its fields, as far as the body is an object.
        unknown: Members that mean nothing here; they are kept.
    """

    operation: str | None
    why: str
    problem: str
    readings: tuple[Reading, ...] = ()
    unknown: tuple[str, ...] = ()


def understood(body: bytes, operation: str | None, profile: Profile) -> Understanding:
    """Return how *body* is understood as a call of *operation*, which is guessed if it is None."""
    if len(body) > profile.max_body_bytes:
        return Understanding(operation, "", f"the body has more than {profile.max_body_bytes} bytes")
    try:
        raw = read_json(body)
    except MalformedCallError as malformed:
        return Understanding(operation, "", str(malformed))
    if not isinstance(raw, dict) or (operation is None and "bets" in raw):
        batch = "this looks like a batch: check one of its deposits, in a file of its own"
        return Understanding(operation, "", batch if isinstance(raw, list | dict) else "the body must be a JSON object")
    operation, why = (operation, "") if operation else _guess(raw, profile)
    call: WebhookCall | None = None
    odd: set[str] = set()
    problem = ""
    try:
        call, oddities = read_call_and_oddities(operation, body, profile)
        odd = {oddity.field.partition(".")[0] for oddity in oddities if not oddity.absent}
    except MalformedCallError as malformed:
        problem = str(malformed)
    found, paths = names_found(operation, raw, profile), profile.names(operation).paths
    readings = tuple(_reading(name, found.get(name), raw, call, is_odd=name in odd) for name in FIELDS[operation])
    known = {first for canonical in FIELDS[operation] for first, _ in paths[canonical]}
    return Understanding(operation, why, problem, readings, tuple(name for name in raw if name not in known))


def _guess(raw: dict[str, Any], profile: Profile) -> tuple[str, str]:
    """Return the operation that *raw* looks like, and why."""
    if _reads_as_deposit(raw, profile):
        return "deposit", "it has what only deposits have"
    if not {"bet_id", "amount_cents", "action"} & names_found("withdraw", raw, profile).keys():
        return "player-balance", "it names no bet, amount or action"
    if "round_id" in names_found("rollback", raw, profile):
        return "rollback", "it names a round, as rollbacks do and withdraws need not"
    return "withdraw", "it names a bet and no round"


def _reads_as_deposit(raw: dict[str, Any], profile: Profile) -> bool:
    # With an action that is no object it is none, whatever else it has.
    names = profile.names("deposit")
    if any(holder in raw for holder in names.holders):
        return all(isinstance(raw[holder], dict) for holder in names.holders if holder in raw)
    return any(first in raw for first, _ in names.marks)


def _reading(
    name: str, found_under: str | None, raw: dict[str, Any], call: WebhookCall | None, *, is_odd: bool
) -> Reading:
    in_body = None if found_under is None else _at(raw, found_under)
    read_as = None if call is None else getattr(call, name)
    if call is None:
        note = "" if found_under else "absent"
    elif is_odd:
        note = "cannot be read: kept raw, and moves no money"
    else:
        note = "; ".join((*_notes(name, found_under, call), *_notes_on_decimals(name, in_body)))
    return Reading(name, found_under, in_body, read_as, note)


def _at(raw: dict[str, Any], name: str) -> object:
    value: Any = raw
    for step in name.split("."):
        value = value[step]
    return value


def _notes(name: str, found_under: str | None, call: WebhookCall) -> Iterator[str]:
    if found_under is None:
        yield _absent(name, call)
    elif name == "amount_cents" and isinstance(call, RollbackCall):
        yield "moves nothing: what is refunded is the wager that was taken"
    elif name == "action" and isinstance(call, DepositCall) and call.is_claim:
        yield "a claim: credited without touching any bet"
    if isinstance(call, DepositCall) and (
        (name == "won_cents" and call.won_cents not in (None, call.amount_cents) and not call.is_claim)
        or (name == "free_bets" and call.free_bets and _sum(call) != call.amount_cents)
    ):
        yield "differs from the amount, which is what is credited: an anomaly"


def _notes_on_decimals(name: str, in_body: object) -> Iterator[str]:
    # 5.00 looks like currency units, and is read as 5 cents (docs/decisions/0010).
    if name.endswith("_cents") and isinstance(in_body, Decimal):
        yield WITH_DECIMALS


def _absent(name: str, call: WebhookCall) -> str:
    if name == "tx_id":
        return "absent: its withdraw's, whatever that is" if isinstance(call, RollbackCall) else "absent: derived"
    if name == "action":
        return "absent: assumed"
    return "absent: a claim may name no bet" if name == "bet_id" else "absent"


def _sum(call: DepositCall) -> int:
    return sum(bet.won_cents or 0 for bet in call.free_bets)


def in_words(reading: Reading) -> str:
    """Return what *reading* was read as, for people: amounts in currency units beside the cents."""
    value = reading.read_as
    if value is None:
        return "–"
    if isinstance(value, tuple):
        return f"{len(value)} free bet{'s'[: len(value) != 1]}" if value else "–"
    if reading.field.endswith("_cents") and isinstance(value, int):
        return f"{amount_from_cents(value)} ({value} cent{'s'[: value != 1]})"
    return str(value)
