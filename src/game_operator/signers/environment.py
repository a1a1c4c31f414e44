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
        ConfigurationError: One is missing; the message names all that are.
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
    settings.update(given)
    missing = [variable for name, variable in variables.items() if settings[name] is None and name != "passphrase"]
    if missing:
        names = ", ".join(missing).replace(_VARIABLES["private_key"], f"{_KEY_FILE} (or {_VARIABLES['private_key']})")
        raise ConfigurationError(f"Not set in the environment: {names}.", remedy="Set them, or pass the arguments.")
    return settings


class FromEnvironment:
    """What the environment can set up: a client, or a builder of session tokens."""

    _needs_address = True

    @classmethod
    def from_env(cls, **options: Any) -> Self:
        """
        Return one that is set up by the environment; *options* are those of the constructor.

        It reads GAME_OPERATOR_BASE_URL (by a client alone), GAME_OPERATOR_ID, GAME_OPERATOR_PRIVATE_KEY or
        GAME_OPERATOR_PRIVATE_KEY_FILE, and GAME_OPERATOR_PRIVATE_KEY_PASSPHRASE. With a *private_key* of yours, for
        example a signer, the last three are left alone.

        Raises:
            ConfigurationError: One is missing; the message names it.
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
    elif not _OPERATOR_ID.match(text):
        problem = f"{shown(text)} cannot be used"
        remedy = (
            "It must be printable ASCII without a colon (the signed string <operator_id>:<bet_id> would be "
            "ambiguous) and without spaces around it."
        )
    else:
        return text
    raise ConfigurationError(f"The operator id {problem}.", setting="operator_id", remedy=remedy)
