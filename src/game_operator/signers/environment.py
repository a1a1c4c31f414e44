"""An operator's settings in the environment: the same variables for a client and for session tokens."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from game_operator.errors import ConfigurationError

__all__ = ["environment_settings"]

_VARIABLES = {
    "base_url": "GAME_OPERATOR_BASE_URL",
    "operator_id": "GAME_OPERATOR_ID",
    "private_key": "GAME_OPERATOR_PRIVATE_KEY",
    "passphrase": "GAME_OPERATOR_PRIVATE_KEY_PASSPHRASE",
}
_KEY_FILE = "GAME_OPERATOR_PRIVATE_KEY_FILE"


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
    settings = _settings_or_problem(environ, given or {}, needs_address)
    # Error trackers show the locals of every frame, and an environment is full of secrets.
    del environ, given
    if isinstance(settings, str):
        raise ConfigurationError(settings)
    return settings


def _settings_or_problem(
    environ: Mapping[str, str], given: Mapping[str, Any], needs_address: bool
) -> dict[str, Any] | str:
    variables = {name: variable for name, variable in _VARIABLES.items() if needs_address or name != "base_url"}
    settings: dict[str, Any] = {name: environ.get(variable) or None for name, variable in variables.items()}
    file = environ.get(_KEY_FILE) or None
    if "private_key" in given:
        file = settings["passphrase"] = None
    elif file is not None and settings["private_key"] is not None:
        return f"{_VARIABLES['private_key']} and {_KEY_FILE} are both set. Unset one of them."
    settings["private_key"] = settings["private_key"] if file is None else Path(file)
    settings.update(given)
    missing = [variable for name, variable in variables.items() if settings[name] is None and name != "passphrase"]
    if missing:
        names = ", ".join(missing).replace(_VARIABLES["private_key"], f"{_KEY_FILE} (or {_VARIABLES['private_key']})")
        return f"Not set in the environment: {names}. Set them, or pass the arguments."
    return settings
