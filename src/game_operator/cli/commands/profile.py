"""``game-operator profile``: how webhooks are understood (assumed: docs/decisions/0010 to 0014)."""

import tomllib
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import asdict
from decimal import Decimal
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from game_operator.cli.errors import ExitCode
from game_operator.cli.options import Commands, ProfileFile, read_file, read_profile
from game_operator.cli.output import answer, say
from game_operator.errors import MalformedCallError
from game_operator.models.webhooks import BalanceCall, DepositCall, RollbackCall, WebhookCall, WithdrawCall
from game_operator.profile import DEFAULT_FIELDS, Profile
from game_operator.protocol.exact_json import read_json
from game_operator.protocol.webhook import names_found, read_call

#: The canonical fields of each operation.
FIELDS: Final[dict[str, tuple[str, ...]]] = {
    call.operation: tuple(name for name in DEFAULT_FIELDS if name in call.__dataclass_fields__)
    for call in (WithdrawCall, DepositCall, RollbackCall, BalanceCall)
}
_VIEW: Final = {"": "operation unknown", "fields": "field found_under in_body read_as note"}

profiles: Commands = Commands(
    name="profile",
    help="How webhooks are understood. All of it is assumed: the specification does not show their bodies.",
)


@profiles.command()
def check(
    sample: Annotated[str, typer.Argument()],
    operation: Annotated[Literal["withdraw", "deposit", "rollback", "player-balance"], typer.Option()],
    profile: ProfileFile = None,
) -> int:
    """
    Show field by field how a sample body is understood: under which name it is found, and as what it is read.

    The exit code is 1 for a body that would be refused. What is in unknown means nothing here, and is kept. An amount
    is read as whole cents, so 5.00 is 5 cents: if the service means currency units, see Profile(parse=...).
    """
    rules = read_profile(profile)
    body = read_file(sample, rules.max_body_bytes + 1)
    found: dict[str, Any] = {"code": "INVALID_REQUEST", "fields": [], "unknown": []}
    try:
        found |= _understood(body, operation, rules)
    except MalformedCallError as malformed:
        found["problem"] = str(malformed)
    if found["problem"]:
        sentence = f"Refused with {found['code']}: {found['problem']}"
    else:
        sentence, found["code"] = "It is accepted.", None
    answer({"operation": operation, "accepted": not found["problem"]} | found, sentence, view=_VIEW)
    return ExitCode.SAID_NO if found["problem"] else ExitCode.FINE


def _understood(body: bytes, operation: str, profile: Profile) -> dict[str, Any]:
    """Return how *body* is understood; raise MalformedCallError if it is not a JSON object."""
    if len(body) > profile.max_body_bytes:
        problem = f"the body has more bytes than the profile's max_body_bytes, {profile.max_body_bytes}"
        return {"problem": problem, "code": "SYSTEM_ERROR"}
    raw = read_json(body)
    if not isinstance(raw, dict):
        raise MalformedCallError("the body must be a JSON object")
    call: WebhookCall | None = None
    odd, problem = set[str](), ""
    try:
        call, oddities = read_call(operation, body, profile)
        odd = {oddity.field.partition(".")[0] for oddity in oddities if not oddity.absent}
    except MalformedCallError as malformed:  # Where its fields are found is shown all the same.
        problem = str(malformed)
    paths = profile.names(operation).paths
    known = {first for canonical in FIELDS[operation] for first, _ in paths[canonical]}
    return {
        "problem": problem,
        "fields": list(_readings(raw, call, odd, names_found(operation, raw, profile), FIELDS[operation])),
        "unknown": [name for name in raw if name not in known],
    }


# Any: JSON, and a call of any operation, whose fields differ; None for one that is refused.
def _readings(
    raw: dict[str, Any], call: Any, odd: Container[str], found: Mapping[str, str], names: Iterable[str]
) -> Iterator[dict[str, object]]:
    for name in names:
        under = found.get(name)
        in_body: object = None if under is None else reduce(getitem, under.split("."), raw)
        note = ""
        if name in odd:
            note = "cannot be read: kept raw, and moves no money"
        elif name.endswith("_cents") and isinstance(in_body, Decimal):
            note = "written with decimals, and read as cents"  # docs/decisions/0010
        read_as = getattr(call, name, None)
        if isinstance(read_as, tuple):  # The bets of a claim.
            read_as = list(map(asdict, read_as))
        yield {"field": name, "found_under": under, "in_body": in_body, "read_as": read_as, "note": note}


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
