"""The options that commands share, and what they make up: a profile, and with the environment a client's settings."""

import os
import select
import stat
import sys
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import partial, wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from game_operator.cli.files import read_file
from game_operator.errors import ConfigurationError, SigningKeyError, shown

if TYPE_CHECKING:
    from game_operator.client.sync import OperatorClient
    from game_operator.profile import Profile
    from game_operator.signers import AsyncSigner, Signer

PASSPHRASE = "GAME_OPERATOR_PRIVATE_KEY_PASSPHRASE"  # noqa: S105 - the name of a variable

_LARGEST_KEY = 65_536
_LARGEST_PROFILE = 1_048_576
_WRITER_SECONDS = 5.0
_service = partial(typer.Option, rich_help_panel="The service and who you are")

AsJson = Annotated[bool, typer.Option("--json", help="Print exactly one JSON document, for failures too.")]
Deadline = Annotated[float, _service(help="Seconds for the whole call, repeats included.")]
InstanceId = Annotated[str, typer.Option("--instance", "--instance-id", help="The game instance's id.")]
ProfileFile = Annotated[
    Path | None,
    typer.Option("--profile", metavar="FILE", help="What is assumed about the service, as TOML; else the defaults."),
]


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


@dataclass(frozen=True, kw_only=True)
class OperatorOptions:
    """Who the operator is; else by the environment."""

    operator_id: Annotated[str | None, _service(help="The id the provider gave you; else GAME_OPERATOR_ID.")] = None
    private_key: Annotated[
        Path | None,
        _service(
            "--private-key",
            help="Your key's PEM file; else GAME_OPERATOR_PRIVATE_KEY_FILE or GAME_OPERATOR_PRIVATE_KEY. "
            f"{PASSPHRASE} opens an encrypted one.",
        ),
    ] = None

    def environment(self, base_url: str | None) -> dict[str, str]:
        """Return the environment as it would be if the options given had been set in it."""
        environ = dict(os.environ)
        if base_url is not None:
            environ["GAME_OPERATOR_BASE_URL"] = base_url
        if self.operator_id is not None:
            environ["GAME_OPERATOR_ID"] = self.operator_id
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

    base_url: Annotated[
        str | None,
        _service(help="Where the service lives; else GAME_OPERATOR_BASE_URL."),
    ] = None
    deadline: Deadline = 30.0

    def client(self) -> "OperatorClient":
        """
        Return a client set up by options and environment.

        Raises:
            ConfigurationError: A setting is missing or cannot work.
        """
        from game_operator.client.sync import OperatorClient

        return OperatorClient(**settings(self.environment(self.base_url)), deadline=self.deadline)


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
        key = found["private_key"]
        if isinstance(key, Path) and is_pipe(key):
            return found | {"private_key": _signer_from_pipe(key, found["passphrase"]), "passphrase": None}
        if not found["passphrase"] and is_encrypted(key):
            name = str(key) if isinstance(key, Path) else "GAME_OPERATOR_PRIVATE_KEY"
            found["passphrase"] = _typed_passphrase(name)
        return found
    raise ConfigurationError(f"{problem} The options are --base-url, --operator-id and --private-key.")


def read_profile(file: Path | None) -> "Profile":
    """Return the profile in *file*, or the default one; raise ConfigurationError if the file holds no valid one."""
    from game_operator.profile import Profile

    if file is None:
        return Profile()
    name, content = shown(str(file)), read_file(str(file), _LARGEST_PROFILE + 1)
    if len(content) > _LARGEST_PROFILE:
        raise ConfigurationError(f"{name} is longer than {_LARGEST_PROFILE} bytes, which no profile is.")
    try:
        return Profile.from_toml(content.decode())
    except UnicodeDecodeError:
        raise ConfigurationError(f"{name} is no UTF-8, so it is no TOML. Save it anew.") from None
    except ConfigurationError as wrong:
        raise ConfigurationError(f"In {name}: {wrong}") from None


def _typed_passphrase(name: str) -> str:
    if not sys.stdin.isatty():
        raise SigningKeyError(f"{name} is encrypted. Set {PASSPHRASE} to its passphrase.")
    typed: str = typer.prompt(f"Passphrase of {name}", hide_input=True, err=True)
    return typed


def _signer_from_pipe(path: Path, passphrase: str | None) -> "Signer | AsyncSigner":
    """Return the signer for the key that comes through *path*, which cannot be read again."""
    from game_operator.signers.keys import load_signer

    pem = _read_pipe(path)
    try:
        if passphrase is None and b"ENCRYPTED" in pem:
            passphrase = _typed_passphrase(str(path))
        return load_signer(pem, passphrase)
    except SigningKeyError as wrong:
        problem = str(wrong).replace("The PEM passed as private_key", shown(str(path)))
    finally:
        # Error trackers show the locals of every frame that an error passes.
        del pem, passphrase
    raise SigningKeyError(problem)


def _read_pipe(path: Path) -> bytes:
    """Return what comes through a pipe; b"" if nobody writes to it for five seconds, or it cannot be read."""
    data = b""
    try:
        pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(pipe, "rb", buffering=0) as file:
            while len(data) <= _LARGEST_KEY and select.select([pipe], [], [], _WRITER_SECONDS)[0]:
                piece = file.read(_LARGEST_KEY)
                if not piece:
                    break
                data += piece
    except OSError:
        return b""
    return data


def is_pipe(path: Path) -> bool:
    """Return whether *path* is a readable pipe or device, which returns what it holds once."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)) and os.access(path, os.R_OK) and hasattr(os, "O_NONBLOCK")


def is_encrypted(private_key: str | Path) -> bool:
    """Return whether *private_key*, a PEM or its file, is encrypted; False for a file that cannot be read."""
    if isinstance(private_key, str):
        return "ENCRYPTED" in private_key
    try:
        with private_key.open("rb") as file:
            return b"ENCRYPTED" in file.read(_LARGEST_KEY)
    except (OSError, ValueError):
        return False  # Loading the key will say what is wrong with the file.
