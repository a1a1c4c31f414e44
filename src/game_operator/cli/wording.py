"""
The library's errors in the words of the command line: options and variables, where a program has arguments.

Only how a message begins and ends is compared: in its middle stand values, which are shown as they are.
"""

import re

from game_operator.errors import ConfigurationError, GameOperatorError

__all__ = ["for_command_line", "told"]

_PASSPHRASE = "GAME_OPERATOR_PRIVATE_KEY_PASSPHRASE"  # noqa: S105 - the name of a variable
_ENCRYPT = "or encrypt the key with `openssl pkcs8 -topk8 -in KEY -out NEW`."

_BEGINNINGS = {
    "base_url ": "--base-url ",
    "operator_id ": "--operator-id ",
    "player_id ": "--player ",
    "instance_id ": "--instance ",
    "deadline ": "--deadline ",
    "port ": "--port ",
    "table_prefix ": "--table-prefix ",
}

_ENDINGS = {
    "Open it with open_account() first.": "Open it with `game-operator ledger open` first.",
    "Use adjust() to change its balance.": "Use `game-operator ledger adjust` to change its balance.",
    "List them with anomalies().": "`game-operator ledger anomalies` lists them.",
    "repeat with accept_foreign=True.": "repeat with --accept-foreign.",
    "move what is owed with adjust(), and mark it with resolve().": (
        "move what is owed with `game-operator ledger adjust`, and mark it with `game-operator ledger resolve`."
    ),
    "and mark it with resolve().": "and mark it with `game-operator ledger resolve`.",
    "Use https, or pass allow_insecure_http=True if the way is private.": (
        "Use https: the command line speaks plain http to this machine alone."
    ),
    "port=0 to take a free one.": "--port 0 to take a free one.",
    "or pass trust_env=False to do without them.": "or unset them.",
    f"Pass its passphrase= ({_PASSPHRASE}) as well.": f"Set {_PASSPHRASE} to its passphrase.",
    f"Leave passphrase= ({_PASSPHRASE}) out, {_ENCRYPT}": f"Unset {_PASSPHRASE}, {_ENCRYPT}",
    "Leave passphrase= out.": f"Unset {_PASSPHRASE}.",
    "Pass that table_prefix; or TableAccounts(shared=True) if two services really share these balances.": (
        "Pass that prefix as --table-prefix; or --accounts-shared if two services really share these balances."
    ),
    'What fits is unit="units".': "What fits is --accounts-unit units.",
    'What fits is unit="cents" or unit="micros".': "What fits is --accounts-unit cents, or micros.",
    'What fits is unit="units" or unit="cents" or unit="micros".': (
        "What fits is --accounts-unit units, cents or micros."
    ),
    'What fits is unit="units"; if the decimals are zeros and the amounts are not units, update the rows to whole '
    "numbers.": (
        "What fits is --accounts-unit units; if the decimals are zeros and the amounts are not units, update the rows "
        "to whole numbers."
    ),
    "The request never left: check base_url, DNS, firewall, proxy and TLS, then repeat the call.": (
        "The request never left: check --base-url, DNS, firewall, proxy and TLS, then repeat the call."
    ),
    "Check that base_url leads to the Operator API and that no proxy or login page answers in its place.": (
        "Check that --base-url leads to the Operator API and that no proxy or login page answers in its place."
    ),
}


#: How a message of a table of balances names the columns of a key, at its end.
_KEY = re.compile(r'key=\(((?:"[\w$]+"(?:, )?)+)\)\Z')


def told(error: GameOperatorError) -> str:
    """Return what *error* says, for somebody at the command line."""
    text = for_command_line(str(error))
    if not isinstance(error, ConfigurationError):
        return text
    for theirs, ours in _BEGINNINGS.items():
        if text.startswith(theirs):
            return ours + text.removeprefix(theirs)
    return text


def for_command_line(advice: str) -> str:
    """Return *advice*, or a message that ends in it, for somebody at the command line."""
    if columns := _KEY.search(advice):
        names = columns[1].replace('"', "").replace(", ", ",")
        return f"{advice[: columns.start()]}--accounts-key {names}"
    for theirs, ours in _ENDINGS.items():
        if advice.endswith(theirs):
            return advice.removesuffix(theirs) + ours
    return advice
