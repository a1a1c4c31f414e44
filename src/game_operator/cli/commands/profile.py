"""``game-operator profile``: how webhooks are understood (assumed: docs/decisions/0010 to 0014)."""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from game_operator.cli.errors import ExitCode
from game_operator.cli.options import AsJson
from game_operator.cli.output import say, show_details, show_rows, write_document
from game_operator.errors import ConfigurationError, shown

if TYPE_CHECKING:
    from game_operator.cli.reports.understanding import Reading, Understanding
    from game_operator.profile import Profile

__all__ = ["profiles", "read_profile"]

_IF_UNITS = (
    "An amount is written with decimals, and read as cents: if the service means currency units, the wallet must read "
    "its bodies with Profile(parse=...)."
)
_LARGEST_PROFILE = 1_048_576

profiles = typer.Typer(
    help="How webhooks are understood. All of it is assumed: the specification does not show their bodies."
)

#: What each setting decides, and the note on it; the names under [fields] have one together.
_COMMENTS = {
    "withdraw_actions": "0010: actions that a withdraw or rollback may have",
    "spent_actions": "0014: those of them whose bets no deposit settles",
    "claim_types": "0010: types of deposit that credit without touching a bet",
    "signature_header": "0011: the header that carries the signature",
    "unauthenticated_status": "0011: 200 as spec §4.1 has it, or 401",
    "codes": '0013: "extended", or "core" for a service that knows five codes and SYSTEM_ERROR',
    "allow_zero_withdraw": "0010: whether a withdraw of 0 is a bet",
    "unknown_rollback": '0014: a rollback of a bet that was never debited: "error" or "success"',
    "rollback_tx_id": '0014: a rollback carries its withdraw\'s tx_id, "withdraw", or one of its "own"',
    "early_deposit_code": '0013: a deposit before its withdraw: "BET_NOT_FOUND" or "SYSTEM_ERROR"',
    "duplicate_reply": '0012: a repeat is answered with the "current" balance, or "verbatim" as at first',
    "rollback_may_equal_withdraw": "0011: whether a rollback's body may be its withdraw's, byte for byte",
    "deposit_batch": "0010: whether /deposit-batch and /deposit/batch are served",
    "max_body_bytes": "0010: the longest body of a call",
    "max_batch_bytes": "0010: the longest body of a batch",
    "max_batch_items": "0010: the most deposits in a batch",
    "[fields]": "0010: where each field is looked for, in order; a dot steps into an object",
}


class Operation(StrEnum):
    """The four webhooks (spec §4.1)."""

    WITHDRAW = "withdraw"
    DEPOSIT = "deposit"
    ROLLBACK = "rollback"
    PLAYER_BALANCE = "player-balance"


ProfileFile = Annotated[
    Path | None, typer.Option("--profile", metavar="FILE", help="A profile as TOML; else the defaults.")
]


@profiles.command()
def check(
    sample: Annotated[str, typer.Argument(metavar="SAMPLE", help="A file with one body; - reads standard input.")],
    operation: Annotated[
        Operation | None, typer.Option(metavar="NAME", help=f"{', '.join(Operation)}; guessed if you do not say.")
    ] = None,
    profile: ProfileFile = None,
    as_json: AsJson = False,
) -> int:
    """
    Show field by field how a sample body is understood: under which name, as what, and what is derived or odd.

    The exit code is 1 for a body that would be refused.
    """
    from game_operator.cli.reports.understanding import understood

    rules = read_profile(profile)
    body = _content(sample, rules.max_body_bytes + 1)
    found = understood(body, operation and operation.value, rules)
    if as_json:
        write_document(_document(found))
    else:
        _tell(found)
    return ExitCode.SAID_NO if found.problem else ExitCode.FINE


@profiles.command()
def show(profile: ProfileFile = None, as_json: AsJson = False) -> None:
    """Print a profile as TOML, by default the one with every default: a file to start from."""
    rules = read_profile(profile)
    if as_json:
        settings = {name: getattr(rules, name) for name in _COMMENTS if not name.startswith("[")}
        write_document({"profile": {**settings, "fields": rules.fields}})
        return
    for line in _commented(rules):
        say(line)


def _commented(rules: "Profile") -> Iterator[str]:
    yield "# What the specification leaves open about webhooks, as assumed; the numbers are those of docs/decisions."
    for line in rules.to_toml().splitlines():
        comment = _COMMENTS.get(line.partition(" = ")[0])
        if comment:
            yield f"# {comment}"
        yield line


def read_profile(file: Path | None) -> "Profile":
    """Return the profile in *file*, or the one with every default; raise ConfigurationError if it is none."""
    from game_operator.profile import Profile

    if file is None:
        return Profile()
    name, content = shown(str(file)), _content(str(file), _LARGEST_PROFILE + 1)
    if len(content) > _LARGEST_PROFILE:
        raise ConfigurationError(f"{name} is longer than {_LARGEST_PROFILE} bytes, which no profile is.")
    try:
        return Profile.from_toml(content.decode())
    except UnicodeDecodeError:
        raise ConfigurationError(f"{name} is no UTF-8, so it is no TOML. Save it anew.") from None
    except ConfigurationError as wrong:
        raise ConfigurationError(f"In {name}: {wrong}") from None


def _content(name: str, limit: int) -> bytes:
    try:
        if name == "-":
            return sys.stdin.buffer.read(limit)
        with Path(name).open("rb") as file:
            return file.read(limit)
    except (OSError, ValueError) as unreadable:
        reason = unreadable.strerror if isinstance(unreadable, OSError) else str(unreadable)
        raise ConfigurationError(f"{shown(name)} cannot be read: {reason}. Name a file that can.") from None


def _document(found: "Understanding") -> dict[str, object]:
    guess = found.guess
    return {
        "operation": guess and guess.operation,
        "guessed": bool(guess and guess.why),
        "why": guess.why if guess else "",
        "accepted": not found.problem,
        "code": "INVALID_REQUEST" if found.problem else None,
        "problem": found.problem,
        "fields": [_told(reading) for reading in found.readings],
        "unknown": found.unknown,
    }


def _told(reading: "Reading") -> dict[str, object]:
    value = reading.read_as
    read_as = [asdict(bet) for bet in value] if isinstance(value, tuple) else value
    return {
        "field": reading.field,
        "found_under": reading.found_under,
        "in_body": reading.in_body,
        "read_as": read_as,
        "note": reading.note,
    }


def _tell(found: "Understanding") -> None:
    from game_operator.cli.reports.understanding import WITH_DECIMALS, in_words

    guess = found.guess
    if guess and guess.why:
        say(f"Looks like a {guess.operation}: {guess.why}. If it is another, pass --operation.")
    if found.readings and not found.problem:
        headings = ("Field", "Found under", "In the body", "Read as", "Note")
        rows = (
            (each.field, each.found_under or "–", _shown(each), in_words(each), each.note) for each in found.readings
        )
        show_rows("Names are assumed: docs/decisions/0010", headings, rows, numbers=())
        if any(WITH_DECIMALS in each.note for each in found.readings):
            say(_IF_UNITS)
    elif any(each.found_under for each in found.readings):
        # Refused, nothing has a meaning: only where each field was found.
        show_details(
            (f"{each.field} = {each.found_under}", _shown(each)) for each in found.readings if each.found_under
        )
    if found.unknown:
        say(f"Not understood, kept raw: {', '.join(found.unknown)}")
    if found.problem:
        say(f"Refused with INVALID_REQUEST: {found.problem}", style="red")


def _shown(reading: "Reading") -> str:
    if reading.found_under is None:
        return "–"
    return str(reading.in_body) if isinstance(reading.in_body, Decimal) else shown(reading.in_body)
