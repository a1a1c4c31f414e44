"""An operator's settings: the same variables and the same operator id for a client and for session tokens."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from game_operator.errors import ConfigurationError, shown, without_frames

_OPERATOR_ID = re.compile(r"[\x21-\x39\x3b-\x7e](?:[\x20-\x39\x3b-\x7e]*[\x21-\x39\x3b-\x7e])?\Z")
_LONGEST_OPERATOR_ID = 1000
_VARIABLES = {
    "base_url": "GAME_OPERATOR_BASE_URL",
    "operator_id": "GAME_OPERATOR_ID",
    "private_key": "GAME_OPERATOR_PRIVATE_KEY",
    "passphrase": "GAME_OPERATOR_PRIVATE_KEY_PASSPHRASE",
}
_KEY_FILE = "GAME_OPERATOR_PRIVATE_KEY_FILE"
_PASSPHRASE_FILE = "GAME_OPERATOR_PRIVATE_KEY_PASSPHRASE_FILE"  # noqa: S105 - the name of a variable


@without_frames
def environment_settings(
    environ: Mapping[str, str] = os.environ,
    *,
    given: Mapping[str, Any] | None = None,
    needs_address: bool = True,
) -> dict[str, Any]:
    """
    Return base_url, operator_id, private_key and passphrase as the environment gives them, with *given* put over them.

    What is *given* need not be set; a given private_key leaves the passphrase in the environment alone, too. Without
    *needs_address* there is no base_url.

    Raises:
        ConfigurationError: One is missing; the message names all that are. Or one is given twice, or the file of the
            passphrase cannot be read.
    """
    given = given or {}
    variables = {name: variable for name, variable in _VARIABLES.items() if needs_address or name != "base_url"}
    settings: dict[str, Any] = {name: environ.get(variable) or None for name, variable in variables.items()}
    file = environ.get(_KEY_FILE) or None
    if "private_key" in given:
        file = settings["passphrase"] = None
    elif file is not None and settings["private_key"] is not None:
        raise ConfigurationError(
            f"{_VARIABLES['private_key']} and {_KEY_FILE} are both set.", remedy="Unset one of them."
        )
    settings["private_key"] = settings["private_key"] if file is None else Path(file)
    if not given.keys() & {"private_key", "passphrase"}:
        settings["passphrase"] = environment_passphrase(environ)
    settings.update(given)
    missing = [variable for name, variable in variables.items() if settings[name] is None and name != "passphrase"]
    if missing:
        names = ", ".join(missing).replace(_VARIABLES["private_key"], f"{_KEY_FILE} (or {_VARIABLES['private_key']})")
        raise ConfigurationError(f"Not set in the environment: {names}.", remedy="Set them, or pass the arguments.")
    return settings


@without_frames
def environment_passphrase(environ: Mapping[str, str] = os.environ) -> str | None:
    """
    Return the passphrase of the private key, from its variable or from the file that a variable names; None if neither.

    One line end at the end of the file does not count.

    Raises:
        ConfigurationError: Both are set, or the file is empty or cannot be read.
    """
    variable = _VARIABLES["passphrase"]
    passphrase, file = environ.get(variable) or None, environ.get(_PASSPHRASE_FILE)
    if not file:
        return passphrase
    if passphrase is not None:
        raise ConfigurationError(f"{variable} and {_PASSPHRASE_FILE} are both set.", remedy="Unset one of them.")
    content, problem = b"", ""
    try:
        content = Path(file).read_bytes()
    except (OSError, ValueError) as failed:
        problem = f"cannot be read: {getattr(failed, 'strerror', None) or type(failed).__name__}"
    # As the environment itself does it, so that bytes that are not UTF-8 come through.
    text = re.sub(r"\r?\n\Z", "", content.decode("utf-8", "surrogateescape"))
    if not (text or problem):
        problem = "is empty"
    if not problem:
        return text
    # The path is not shown, because the passphrase itself may stand in its place.
    raise ConfigurationError(
        f"The file that {_PASSPHRASE_FILE} names {problem}.",
        setting="passphrase",
        remedy="Set it to the path of a file that holds the passphrase and that this process may read.",
    )


class FromEnvironment:
    """What the environment can set up: a client, or a builder of session tokens."""

    _needs_address = True

    @classmethod
    def from_env(cls, **options: Any) -> Self:
        """
        Return one that is set up by the environment; *options* are those of the constructor.

        It reads GAME_OPERATOR_BASE_URL (by a client alone), GAME_OPERATOR_ID, GAME_OPERATOR_PRIVATE_KEY or
        GAME_OPERATOR_PRIVATE_KEY_FILE, and GAME_OPERATOR_PRIVATE_KEY_PASSPHRASE or
        GAME_OPERATOR_PRIVATE_KEY_PASSPHRASE_FILE. With a *private_key* of yours, for example a signer, the last four
        are left alone.

        Raises:
            ConfigurationError: One is missing, is given twice or cannot be read; the message names it.
        """
        try:
            return cls(**environment_settings(given=options, needs_address=cls._needs_address))
        finally:
            del options  # Error trackers show the locals of every frame that an error passes.


@without_frames
def checked_operator_id(text: object) -> str:
    """
    Return *text*, an operator id.

    Raises:
        ConfigurationError: It cannot be one; a key in its place is not shown.
        TypeError: It is not a str.
    """
    remedy = "Pass the id that the provider gave you."
    if not isinstance(text, str):
        raise TypeError(f"operator_id must be a str, not {type(text).__name__}")
    if "-----BEGIN" in text or len(text) > _LONGEST_OPERATOR_ID:
        # On one line, with line breaks written as \n, a key would pass for an id and travel in each request.
        problem = f"has {len(text)} characters and looks like a key, which is not shown"
        remedy = f"Pass the id, of at most {_LONGEST_OPERATOR_ID} characters. Pass a key by the parameter for keys."
    elif not text:
        problem = "is empty"
    elif len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        problem = f"{shown(text)} is in quotes"
        remedy = "Pass it without them. Some readers of .env files leave the quotes around a value."
    elif not _OPERATOR_ID.match(text):
        problem = f"{shown(text)} cannot be used"
        remedy = (
            "It must be printable ASCII without a colon (the signed string <operator_id>:<bet_id> would be "
            "ambiguous) and without spaces around it."
        )
    else:
        return text
    raise ConfigurationError(f"The operator id {problem}.", setting="operator_id", remedy=remedy)
