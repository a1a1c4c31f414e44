"""``game-operator profile``: how webhooks are understood (assumed: docs/decisions/0010 to 0014)."""

from dataclasses import asdict
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from game_operator.cli.errors import ExitCode
from game_operator.cli.files import read_file
from game_operator.cli.options import AsJson, ProfileFile, read_profile
from game_operator.cli.output import say, show_details, show_rows, write_document
from game_operator.errors import shown

if TYPE_CHECKING:
    from game_operator.cli.reports.understanding import Reading, Understanding

_IF_UNITS = (
    "An amount is written with decimals, and read as cents: if the service means currency units, the wallet must read "
    "its bodies with Profile(parse=...)."
)

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


@profiles.command()
def check(
    sample: Annotated[str, typer.Argument(metavar="SAMPLE", help="A file with one body; - reads standard input.")],
    operation: Annotated[
        Literal["withdraw", "deposit", "rollback", "player-balance"] | None,
        typer.Option(metavar="NAME", help="withdraw, deposit, rollback or player-balance; guessed if not given."),
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
    found = understood(read_file(sample, rules.max_body_bytes + 1), operation, rules)
    if as_json:
        refused = bool(found.problem)
        write_document(
            {
                "operation": found.operation,
                "guessed": bool(found.why),
                "why": found.why,
                "accepted": not refused,
                "code": "INVALID_REQUEST" if refused else None,
                "problem": found.problem,
                "fields": [asdict(reading) for reading in found.readings],
                "unknown": found.unknown,
            }
        )
    else:
        _say(found)
    return ExitCode.SAID_NO if found.problem else ExitCode.FINE


@profiles.command()
def show(profile: ProfileFile = None, as_json: AsJson = False) -> None:
    """Print a profile as TOML, by default the one with every default: a file to start from."""
    rules = read_profile(profile)
    if as_json:
        settings = {name: getattr(rules, name) for name in _COMMENTS if not name.startswith("[")}
        write_document({"profile": {**settings, "fields": rules.fields}})
        return
    say("# What the specification leaves open about webhooks, as assumed; the numbers are those of docs/decisions.")
    for line in rules.to_toml().splitlines():
        if comment := _COMMENTS.get(line.partition(" = ")[0]):
            say(f"# {comment}")
        say(line)


def _say(found: "Understanding") -> None:
    from game_operator.cli.reports.understanding import WITH_DECIMALS, in_words

    if found.why:
        say(f"Looks like a {found.operation}: {found.why}. If it is another, pass --operation.")
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
