"""The options that commands share, and what they make up: a profile, and with the environment a client's settings."""

import os
import re
import sys
import time
import tomllib
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import wraps
from importlib.util import find_spec
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args, get_origin, get_type_hints

import typer

from game_operator.cli.output import answering
from game_operator.errors import ConfigurationError, shown, without_frames
from game_operator.profile import Profile
from game_operator.signers.environment import environment_settings
from game_operator.text import when

if TYPE_CHECKING:
    from game_operator.client.sync import OperatorClient


PASSPHRASE = "GAME_OPERATOR_PRIVATE_KEY_PASSPHRASE"  # noqa: S105 - the name of a variable

_LARGEST_PROFILE = 1_048_576
#: The settings of the operator, and where else they may stand.
_NEEDED = {
    "--base-url": ("GAME_OPERATOR_BASE_URL",),
    "--operator-id": ("GAME_OPERATOR_ID",),
    "--private-key": ("GAME_OPERATOR_PRIVATE_KEY_FILE", "GAME_OPERATOR_PRIVATE_KEY"),
}
#: What the help says of the options of each command and of each group.
TEXTS: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))

_AsJson = Annotated[bool, typer.Option("--json", help="Print exactly one JSON document, for failures too.")]
InstanceId = Annotated[str, typer.Option("--instance", help="The game instance's id.")]
PlayerId = Annotated[str, typer.Option("--player")]
Player = Annotated[str | None, typer.Option("--player")]
Limit = Annotated[int, typer.Option(min=1, max=1_000_000, help="How many to list at most.")]
ProfileFile = Annotated[
    Path | None,
    typer.Option("--profile", metavar="FILE", help="What is assumed about the service, as TOML; else the defaults."),
]


@contextmanager
def checked_values() -> Iterator[None]:
    """Turn a ValueError into BadParameter: an id, an amount or a name that no ledger can have."""
    try:
        yield
    except ValueError as wrong:
        raise typer.BadParameter(f"{wrong}.") from None


def source_in(name: str | None) -> str | None:
    """Return the name of a source, if one can have it; the callback of an option or argument."""
    if name:
        from game_operator.ledger.api import check_source_name

        with checked_values():
            check_source_name(name)
    return name


Source = Annotated[str, typer.Option(help="The service and environment, if the wallet names one.", callback=source_in)]
OnlySource = Annotated[
    str | None, typer.Option(help="List only what belongs to this source; else all.", callback=source_in)
]

# Decimal also takes 1e3 and 1_000, which are likelier to be typing mistakes than amounts.
_AMOUNT = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{1,2})?")
_AGE = re.compile(r"([0-9]{1,6})([dhms])")
_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_EPOCH = datetime.fromtimestamp(0, UTC)


def amount_in(text: str | Decimal) -> Decimal:
    """Return an amount in currency units; a default is passed as the Decimal that it is."""
    if not _AMOUNT.fullmatch(str(text)):
        problem = f"{text!r} is not an amount in currency units with at most two decimals, such as 12.50."
        raise typer.BadParameter(problem)
    return Decimal(text)


def moment_in(text: str) -> int:
    """Return a time in Unix milliseconds: an age, which is so long ago, or a date with or without a time, in UTC."""
    if age := _AGE.fullmatch(text):
        ago = timedelta(**{_UNITS[age[2]]: int(age[1])})
        return time.time_ns() // 1_000_000 - ago // timedelta(milliseconds=1)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        problem = f"{text!r} is not a time: write 2d, 12h or 30m for so long ago, or 2026-11-22T12:00 in UTC."
        raise typer.BadParameter(problem) from None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)


def check_between(since: int | None, until: int | None) -> None:
    """Raise BadParameter if no time is between --since and --until."""
    if since is not None and until is not None and since >= until:
        raise typer.BadParameter(
            f"--since is {when(since)} and --until is {when(until)} UTC: nothing is between. An age is so long ago, so "
            "--since takes the greater one."
        )


def span_in(text: str | timedelta) -> timedelta:
    """Return how long a text says: 2d, 12h, 30m or 60s; a default is passed as the timedelta that it is."""
    if isinstance(text, timedelta):
        return text
    if not (span := _AGE.fullmatch(text)):
        raise typer.BadParameter(f"{text!r} is not a length of time: write 2d, 12h, 30m or 60s.")
    return timedelta(**{_UNITS[span[2]]: int(span[1])})


Moment = Annotated[int | None, typer.Option(parser=moment_in, metavar="TIME")]
AmountArgument = Annotated[Decimal, typer.Argument(parser=amount_in, metavar="AMOUNT")]


def comma_separated(value: list[str] | None) -> list[str]:
    """Return the names in *value*, several in a text perhaps; the callback of an option that may be repeated."""
    found = [each.replace(",", " ").split() for each in value or ()]
    # A variable that was never set must not select everything.
    if not all(found):
        raise typer.BadParameter("It names nothing. Leave it out, or pass names, with commas between them.")
    return [name for names in found for name in names]


# Any: a type, or what Annotated makes of it.
def _as_option(name: str, annotation: Any, default: object, texts: Mapping[str, Any]) -> Parameter:
    """Return the parameter *name* as an option, or as the argument it is declared as, with its text in *texts*."""
    is_declared = get_origin(annotation) is Annotated
    if name in texts or not is_declared:
        kind, declared = get_args(annotation) if is_declared else (annotation, typer.Option())
        option, text = copy(declared), texts[name]
        about = text if isinstance(text, dict) else {"help": text}
        option.help, option.metavar = about["help"], about.get("metavar", option.metavar)
        if default is False and option.default is ...:  # It has no other name, and Typer would add --no-NAME.
            option.param_decls = (f"--{name.replace('_', '-')}",)
        annotation = Annotated[kind, option]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def with_options(command: Callable[..., Any], name: str, texts: Mapping[str, Any] = TEXTS) -> Callable[..., Any]:
    """
    Let *command* take options with the *texts* of *name*, groups of options that several share, and ``--json``.

    A group is a frozen dataclass whose fields are options; its texts are under the name of its class. Where a parameter
    of *command* is annotated with a group, Typer gets the group's options in its place, and *command* gets the group.
    """
    own = texts.get(name, {})
    declared, parameters = signature(command, eval_str=True), list[Parameter]()
    # Any: classes of groups, which have nothing in common but their fields.
    groups: dict[str, Any] = {}
    for argument, parameter in declared.parameters.items():
        group = parameter.annotation
        if not is_dataclass(group):
            parameters.append(_as_option(argument, group, parameter.default, own))
            continue
        groups[argument], hints = group, get_type_hints(group, include_extras=True)
        of_group = ChainMap(*(texts.get(each.__name__, {}) for each in parameter.annotation.__mro__))
        for option in fields(group):
            default = Parameter.empty if option.default is MISSING else option.default
            parameters.append(_as_option(option.name, hints[option.name], default, of_group))

    @wraps(command)
    def with_groups(*, as_json: bool, **given: Any) -> Any:
        for argument, group in groups.items():
            given[argument] = group(**{option.name: given.pop(option.name) for option in fields(group)})
        with answering(as_json=as_json):
            return command(**given)

    parameters.append(_as_option("as_json", _AsJson, default=False, texts={}))
    # Typer reads both.
    vars(with_groups)["__signature__"] = declared.replace(parameters=parameters)
    with_groups.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_groups


class Commands(typer.Typer):
    """A group of commands, whose options have their texts in options.toml, and which may take groups of options."""

    # Any: what Typer takes, and any function.
    def command(self, name: str | None = None, *args: Any, **kwargs: Any) -> Callable[[Any], Any]:
        """Return the decorator that adds a command."""
        declare = super().command

        def with_texts(run: Any) -> Any:
            add = declare(name, *args, **kwargs)
            words = filter(None, (self.info.name, name or run.__name__))
            return add(with_options(run, " ".join(words)))

        return with_texts

    def add(self, name: str, run: Callable[..., Any], **kwargs: Any) -> None:
        """Add a command whose options have their texts already."""
        super().command(name, **kwargs)(run)


@dataclass(frozen=True, kw_only=True)
class OperatorOptions:
    """Who the operator is; else by the environment."""

    operator_id: str | None = None
    private_key: Path | None = None

    def environment(self, base_url: str | None) -> dict[str, str]:
        """Return the environment as it would be if the options given had been set in it."""
        given = {"GAME_OPERATOR_BASE_URL": base_url, "GAME_OPERATOR_ID": self.operator_id}
        environ = os.environ | {name: value for name, value in given.items() if value is not None}
        if self.private_key is not None:
            environ.pop("GAME_OPERATOR_PRIVATE_KEY", None)
            environ["GAME_OPERATOR_PRIVATE_KEY_FILE"] = str(self.private_key)
        return environ

    def token_settings(self) -> dict[str, Any]:
        """Return operator_id, private_key and passphrase: a session token needs no address."""
        found = settings(self.environment("unused"))
        del found["base_url"]
        return found


@dataclass(frozen=True, kw_only=True)
class ServiceOptions(OperatorOptions):
    """Where the service is too, and how long a call may take."""

    base_url: str | None = None
    deadline: float = 30.0

    @property
    def are_given(self) -> bool:
        """Whether the command line or the environment says anything of the service and the operator."""
        environ = self.environment(self.base_url)
        return any(environ.get(name) for names in _NEEDED.values() for name in names)

    def client(self) -> "OperatorClient":
        """
        Return a client set up by options and environment.

        Raises:
            ConfigurationError: A setting is missing or cannot work.
        """
        from game_operator.client.sync import OperatorClient

        return OperatorClient(**settings(self.environment(self.base_url)), deadline=self.deadline)


@without_frames
def settings(environ: dict[str, str]) -> dict[str, Any]:
    """
    Return base_url, operator_id, private_key and passphrase.

    Raises:
        ConfigurationError: A setting is missing; the message names it.
    """
    from game_operator.signers.keys import load_signer

    if missing := [name for name, variables in _NEEDED.items() if not any(map(environ.get, variables))]:
        texts = ", ".join(f"{name} (or {' or '.join(_NEEDED[name])})" for name in missing)
        raise ConfigurationError(f"Missing or empty: {texts}.")
    found = environment_settings(environ)
    key = found["private_key"]
    if isinstance(key, Path) and not os.path.isfile(key):  # noqa: PTH113 - Path.is_file raises for a long name
        # A pipe can be read once.
        return found | {"private_key": load_signer(key, found["passphrase"]), "passphrase": None}
    return found


def check_extra(command: str, extra: str, packages: Iterable[str]) -> None:
    """Raise ConfigurationError if one of *packages* is missing, which *command* needs and *extra* installs."""
    for name in packages:
        if find_spec(name) is None:
            raise ConfigurationError(
                f"{command} needs the package {name}. Install the extra: pip install 'game-operator[{extra}]'"
            )


def read_file(name: str, limit: int) -> bytes:
    """Return up to *limit* bytes of a file, or of standard input for "-"; raise ConfigurationError if that fails."""
    try:
        if name == "-":
            return sys.stdin.buffer.read(limit)
        with Path(name).open("rb") as file:
            return file.read(limit)
    except (OSError, ValueError) as unreadable:
        reason = unreadable.strerror if isinstance(unreadable, OSError) else str(unreadable)
        raise ConfigurationError(f"{shown(name)} cannot be read: {reason}. Pass a file that can be read.") from None


def read_profile(file: Path | None) -> Profile:
    """Return the profile in *file*, or the default one; raise ConfigurationError if the file holds no valid one."""
    if file is None:
        return Profile()
    name, content = shown(str(file)), read_file(str(file), _LARGEST_PROFILE + 1)
    if len(content) > _LARGEST_PROFILE:
        raise ConfigurationError(f"{name} is longer than {_LARGEST_PROFILE} bytes, too long for a profile.")
    try:
        return Profile.from_toml(content.decode())
    except UnicodeDecodeError:
        raise ConfigurationError(f"{name} is not valid UTF-8, so it is not TOML. Save it again as UTF-8.") from None
    except ConfigurationError as wrong:
        raise ConfigurationError(f"In {name}: {wrong}") from None
