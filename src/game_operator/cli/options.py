"""The options that commands share, and the client or signer settings they make up together with the environment."""

import os
import sys
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from game_operator.cli.streams import is_stream, read_stream
from game_operator.errors import ConfigurationError, SigningKeyError, shown

if TYPE_CHECKING:
    from game_operator.client.sync import OperatorClient

__all__ = ["AsJson", "BaseUrl", "Deadline", "InstanceId", "OperatorId", "PrivateKeyFile", "connect", "environment"]
__all__ += ["PASSPHRASE", "is_encrypted", "settings", "token_settings", "with_option_groups"]

PASSPHRASE = "GAME_OPERATOR_PRIVATE_KEY_PASSPHRASE"  # noqa: S105 - the name of a variable

_LARGEST_KEY = 65_536
_SERVICE = "The service and who you are"

AsJson = Annotated[bool, typer.Option("--json", help="Print exactly one JSON document, for failures too.")]
BaseUrl = Annotated[
    str | None,
    typer.Option(help="Where the service lives; else GAME_OPERATOR_BASE_URL.", rich_help_panel=_SERVICE),
]
OperatorId = Annotated[
    str | None,
    typer.Option(help="The id the provider gave you; else GAME_OPERATOR_ID.", rich_help_panel=_SERVICE),
]
PrivateKeyFile = Annotated[
    Path | None,
    typer.Option(
        "--private-key",
        help="Your key's PEM file; else GAME_OPERATOR_PRIVATE_KEY_FILE or GAME_OPERATOR_PRIVATE_KEY. "
        f"{PASSPHRASE} opens an encrypted one.",
        rich_help_panel=_SERVICE,
    ),
]
Deadline = Annotated[
    float, typer.Option(help="Seconds for the whole call, repeats included.", rich_help_panel=_SERVICE)
]
InstanceId = Annotated[str, typer.Option("--instance", "--instance-id", help="The game instance's id.")]


def with_option_groups(command: Callable[..., Any]) -> Callable[..., Any]:
    """
    Let *command* take groups of options that several commands share.

    A group is a frozen dataclass whose fields are annotated as options. Where a parameter of *command* is annotated
    with a group, Typer gets the group's options in its place, and *command* gets the group.
    """
    declared = signature(command, eval_str=True)
    # Any: classes of groups, which have nothing in common but their fields.
    groups: dict[str, Any] = {
        name: each.annotation for name, each in declared.parameters.items() if is_dataclass(each.annotation)
    }
    parameters: list[Parameter] = []
    for name, parameter in declared.parameters.items():
        if name not in groups:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
            continue
        hints = get_type_hints(groups[name], include_extras=True)
        for option in fields(groups[name]):
            default = Parameter.empty if option.default is MISSING else option.default
            parameters.append(
                Parameter(option.name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[option.name])
            )

    @wraps(command)
    def with_groups(**given: Any) -> Any:
        for name, group in groups.items():
            given[name] = group(**{option.name: given.pop(option.name) for option in fields(group)})
        return command(**given)

    # Typer reads both.
    vars(with_groups)["__signature__"] = declared.replace(parameters=parameters)
    with_groups.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_groups


def environment(base_url: str | None, operator_id: str | None, private_key: Path | None) -> dict[str, str]:
    """Return the environment as it would be if the options given had been set in it."""
    environ = dict(os.environ)
    if base_url is not None:
        environ["GAME_OPERATOR_BASE_URL"] = base_url
    if operator_id is not None:
        environ["GAME_OPERATOR_ID"] = operator_id
    if private_key is not None:
        environ.pop("GAME_OPERATOR_PRIVATE_KEY", None)
        environ["GAME_OPERATOR_PRIVATE_KEY_FILE"] = str(private_key)
    return environ


def settings(environ: dict[str, str]) -> dict[str, Any]:
    """
    Return base_url, operator_id, private_key and passphrase, asking for the last if it is needed and missing.

    Raises:
        ConfigurationError: A setting is missing; the message names it.
    """
    from game_operator.signers.environment import environment_settings

    try:
        found = environment_settings(environ)
    except ConfigurationError as missing:
        problem = str(missing)
    else:
        if isinstance(found["private_key"], Path) and is_stream(found["private_key"]):
            return found | _read_once(found["private_key"], found["passphrase"])
        found["passphrase"] = found["passphrase"] or _passphrase_for(found["private_key"])
        return found
    raise ConfigurationError(f"{problem} The options are --base-url, --operator-id and --private-key.")


def token_settings(operator_id: str | None, private_key: Path | None) -> dict[str, Any]:
    """
    Return operator_id, private_key and passphrase: a session token needs no address.

    Raises:
        ConfigurationError: A setting is missing; the message names it.
    """
    found = settings(environment("unused", operator_id, private_key))
    del found["base_url"]
    return found


def connect(
    base_url: str | None, operator_id: str | None, private_key: Path | None, deadline: float
) -> "OperatorClient":
    """
    Return a client set up by options and environment.

    Raises:
        ConfigurationError: A setting is missing or cannot work.
    """
    from game_operator.client.sync import OperatorClient

    return OperatorClient(**settings(environment(base_url, operator_id, private_key)), deadline=deadline)


def _passphrase_for(private_key: str | Path) -> str | None:
    """Return the passphrase of an encrypted key, as typed by the person at the terminal."""
    if not is_encrypted(private_key):
        return None
    return _typed_passphrase(str(private_key) if isinstance(private_key, Path) else "GAME_OPERATOR_PRIVATE_KEY")


def _typed_passphrase(name: str) -> str:
    if not sys.stdin.isatty():
        raise SigningKeyError(f"{name} is encrypted. Set {PASSPHRASE} to its passphrase.")
    typed: str = typer.prompt(f"Passphrase of {name}", hide_input=True, err=True)
    return typed


def _read_once(path: Path, passphrase: str | None) -> dict[str, Any]:
    """Return the signer for the key that comes through *path*, a pipe, which cannot be read again."""
    from game_operator.signers.keys import load_signer

    pem = read_stream(path, _LARGEST_KEY + 1)
    try:
        if passphrase is None and b"ENCRYPTED" in pem:
            passphrase = _typed_passphrase(str(path))
        return {"private_key": load_signer(pem, passphrase), "passphrase": None}
    except SigningKeyError as wrong:
        problem = str(wrong).replace("The PEM passed as private_key", shown(str(path)))
    finally:
        # Error trackers show the locals of every frame that an error passes.
        del pem, passphrase
    raise SigningKeyError(problem)


def is_encrypted(private_key: str | Path) -> bool:
    """Return whether *private_key*, a PEM or its file, is encrypted; False for a file that cannot be read."""
    if isinstance(private_key, str):
        return "ENCRYPTED" in private_key
    try:
        with private_key.open("rb") as file:
            return b"ENCRYPTED" in file.read(_LARGEST_KEY)
    except (OSError, ValueError):
        return False  # Loading the key will say what is wrong with the file.
