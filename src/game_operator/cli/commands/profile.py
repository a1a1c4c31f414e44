"""``game-operator profile``: how webhooks are understood (assumed: docs/decisions/0010 to 0014)."""

import tomllib
from collections.abc import Container, Iterator
from dataclasses import asdict, dataclass
from decimal import Decimal
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from game_operator.cli.errors import ExitCode
from game_operator.cli.options import Commands, ProfileFile, read_file, read_profile
from game_operator.cli.output import answer, counted, say, show_details, show_rows
from game_operator.errors import MalformedCallError, shown
from game_operator.models.webhooks import BalanceCall, DepositCall, RollbackCall, WithdrawCall
from game_operator.money import amount_from_cents
from game_operator.profile import DEFAULT_FIELDS, Profile
from game_operator.protocol.exact_json import read_json
from game_operator.protocol.webhook import names_found, read_call

#: The note on an amount that looks like currency units.
#: The canonical fields of each operation.
_FIELDS: dict[str, tuple[str, ...]] = {
    call.operation: tuple(name for name in DEFAULT_FIELDS if name in call.__dataclass_fields__)
    for call in (WithdrawCall, DepositCall, RollbackCall, BalanceCall)
}

profiles: Commands = Commands(
    name="profile",
    help="How webhooks are understood. All of it is assumed: the specification does not show their bodies.",
)


@dataclass(frozen=True)
class Reading:
    """One canonical field: the name and the value that it has in the body, what it is read as, and a note on it."""

    field: str
    found_under: str | None
    in_body: object
    #: None when it is absent or unreadable, or the call is refused.
    read_as: object
    note: str


@dataclass(frozen=True)
class Understanding:
    """What a body says to an operator; one with a problem is refused with *code*."""

    #: None when the body looks like none.
    operation: str | None
    #: Why the operation was guessed; "" if it was given, or if it is unknown.
    why: str
    problem: str
    fields: tuple[Reading, ...] = ()
    #: Members that mean nothing here; they are kept.
    unknown: tuple[str, ...] = ()
    code: str = "INVALID_REQUEST"


@profiles.command()
def check(
    sample: Annotated[str, typer.Argument()],
    operation: Literal["withdraw", "deposit", "rollback", "player-balance"] | None = None,
    profile: ProfileFile = None,
) -> int:
    """
    Show field by field how a sample body is understood: under which name, as what, and what is derived or odd.

    The exit code is 1 for a body that would be refused.
    """
    rules = read_profile(profile)
    found = _understood(read_file(sample, rules.max_body_bytes + 1), operation, rules)
    judged = {"guessed": bool(found.why), "accepted": not found.problem}
    answer(asdict(found) | judged | {"code": found.code if found.problem else None})
    _say(found)
    return ExitCode.SAID_NO if found.problem else ExitCode.FINE


@profiles.command()
def show(profile: ProfileFile = None) -> None:
    """Print a profile as TOML, by default the one with every default: a file to start from."""
    rules = read_profile(profile)
    comments = tomllib.loads(Path(__file__).with_name("profile_comments.toml").read_text(encoding="utf-8"))
    answer({"profile": {name: getattr(rules, name) for name in comments}})
    say("# What the specification leaves open about webhooks, as assumed; the numbers are those of docs/decisions.")
    for line in rules.to_toml().splitlines():
        if comment := comments.get(line.partition(" = ")[0].strip("[]")):
            say(f"# {comment}")
        say(line)


def _say(found: Understanding) -> None:
    if found.why:
        say(f"Looks like a {found.operation}: {found.why}. If the guess is wrong, pass --operation: it decides.")
    if found.fields and not found.problem:
        headings = ("Field", "Found under", "In the body", "Read as", "Note")
        rows = (
            (each.field, each.found_under or "–", _shown(each), _in_words(each), each.note) for each in found.fields
        )
        show_rows("Names are assumed: docs/decisions/0010", headings, rows, numbers=())
        if any(_has_decimals(each.field, each.in_body) and each.read_as is not None for each in found.fields):
            say(
                "An amount is written with decimals, and read as cents: if the service means currency units, the "
                "wallet must read its bodies with Profile(parse=...)."
            )
    elif any(each.found_under for each in found.fields):
        # Refused, nothing has a meaning: only where each field was found.
        show_details((f"{each.field} = {each.found_under}", _shown(each)) for each in found.fields if each.found_under)
    if found.unknown:
        say(f"Not understood, kept raw: {', '.join(found.unknown)}")
    if found.problem:
        say(f"Refused with {found.code}: {found.problem}", style="red")


def _shown(reading: Reading) -> str:
    if reading.found_under is None:
        return "–"
    return str(reading.in_body) if isinstance(reading.in_body, Decimal) else shown(reading.in_body)


def _in_words(reading: Reading) -> str:
    """Return what *reading* was read as, for people: amounts in currency units beside the cents."""
    value = reading.read_as
    if value is None:
        return "–"
    if isinstance(value, tuple):
        return counted(len(value), "free bet") if value else "–"
    if reading.field.endswith("_cents") and isinstance(value, int):
        return f"{amount_from_cents(value)} ({counted(value, 'cent')})"
    return str(value)


def _understood(body: bytes, operation: str | None, profile: Profile) -> Understanding:
    """Return how *body* is understood as a call of *operation*, which is guessed if it is None."""
    if len(body) > profile.max_body_bytes:
        problem = f"the body has more bytes than the profile's max_body_bytes, {profile.max_body_bytes}"
        return Understanding(operation, "", problem, code="SYSTEM_ERROR")
    try:
        raw = read_json(body)
    except MalformedCallError as malformed:
        return Understanding(operation, "", str(malformed))
    if not isinstance(raw, dict) or (operation is None and "bets" in raw):
        batch = "this looks like a batch: check one of its deposits, in a file of its own"
        return Understanding(operation, "", batch if isinstance(raw, list | dict) else "the body must be a JSON object")
    operation, why = (operation, "") if operation else _guess(raw, profile)
    call, odd, problem = None, set[str](), ""
    try:
        call, oddities = read_call(operation, body, profile)
        odd = {oddity.field.partition(".")[0] for oddity in oddities if not oddity.absent}
    except MalformedCallError as malformed:
        problem = str(malformed)
    readings, found = [], names_found(operation, raw, profile)
    for name in _FIELDS[operation]:
        under = found.get(name)
        in_body = None if under is None else reduce(getitem, under.split("."), raw)
        note = "; ".join(_notes(name, call, under, in_body, odd))
        readings.append(Reading(name, under, in_body, getattr(call, name, None), note))
    paths = profile.names(operation).paths
    known = {first for canonical in _FIELDS[operation] for first, _ in paths[canonical]}
    return Understanding(operation, why, problem, tuple(readings), tuple(name for name in raw if name not in known))


def _guess(raw: dict[str, Any], profile: Profile) -> tuple[str, str]:
    """Return the operation that *raw* looks like, and why."""
    deposit = profile.names("deposit")
    holders = [raw[holder] for holder in deposit.holders if holder in raw]
    # A deposit's action is an object; with any other action the body is not a deposit.
    if all(isinstance(held, dict) for held in holders) if holders else any(first in raw for first, _ in deposit.marks):
        return "deposit", "it has what only deposits have"
    if not {"bet_id", "amount_cents", "action"} & names_found("withdraw", raw, profile).keys():
        return "player-balance", "it names no bet, amount or action"
    if "round_id" in names_found("rollback", raw, profile):
        return "rollback", "it names a round. A withdraw may name one too, so the sample can be either"
    return "withdraw", "it names a bet and no round"


# Any: a call of any operation, whose fields differ; None for one that is refused.
def _notes(name: str, call: Any, found_under: str | None, in_body: object, odd: Container[str]) -> Iterator[str]:
    if call is None or name in odd:
        if call is not None:
            yield "cannot be read: kept raw, and moves no money"
        elif found_under is None:
            yield "absent"
        return
    is_deposit = call.operation == "deposit"
    if found_under is None and name == "tx_id":
        yield "absent: its withdraw's, whatever that is" if call.operation == "rollback" else "absent: derived"
    elif found_under is None:
        yield {"action": "absent: assumed", "bet_id": "absent: a claim may name no bet"}.get(name, "absent")
    elif name == "amount_cents" and call.operation == "rollback":
        yield "moves nothing: what is refunded is the wager that was taken"
    elif name == "action" and is_deposit and call.is_claim:
        yield "a claim: credited without touching any bet"
    if is_deposit and (
        (name == "won_cents" and call.won_cents not in (None, call.amount_cents) and not call.is_claim)
        or (
            name == "free_bets"
            and call.free_bets
            and sum(bet.won_cents or 0 for bet in call.free_bets) != call.amount_cents
        )
    ):
        yield "differs from the amount, which is what is credited: an anomaly"
    # 5.00 looks like currency units, and is read as 5 cents (docs/decisions/0010).
    if _has_decimals(name, in_body):
        yield "written with decimals, and read as cents"


def _has_decimals(name: str, in_body: object) -> bool:
    return name.endswith("_cents") and isinstance(in_body, Decimal)
