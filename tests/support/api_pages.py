"""The pages of docs/reference/api: every public name on one of them, in the form that mkdocstrings reads."""

from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib import import_module
from inspect import isclass, ismodule, isroutine
from typing import Final, NamedTuple

#: The public modules by their page: what is on it. A name that two modules offer is on the page of the first.
MODULES: Final = {
    "client": ("game_operator", "clients, session tokens, settings"),
    "webhooks": ("game_operator.webhooks", "receiver, authenticators, handlers, replies"),
    "wallet": ("game_operator.wallet", "ready wallets, and those in your own transaction"),
    "ledger": ("game_operator.ledger", "ledgers, balances, records and reports"),
    "django": ("game_operator.ledger.django", "a ledger on Django's database"),
    "backoffice": ("game_operator.backoffice", "reconciliation, campaigns, catalogue, case files"),
    "signers": ("game_operator.signers", "keys from files, AWS KMS or elsewhere"),
    "serve": ("game_operator.serve", "a safe connection for your own program under uvicorn"),
    "telemetry": ("game_operator.telemetry", "traces and metrics"),
    "testkit": ("game_operator_testkit", "sandbox, certifier, callers"),
    "certifier": ("game_operator_testkit.certifier", "scenarios, verdicts, reports"),
    "sandbox": ("game_operator_testkit.sandbox", "the simulated provider and its faults"),
    "control-room": ("game_operator_testkit.control_room", "the sandbox in the browser"),
}
_READERS: Final = "For engineers who look up a name. Read first: [the reference](../index.md)."
#: They have the methods of SqlLedger and of OperatorClient.
_WITHOUT_MEMBERS: Final = ("AsyncOperatorClient", "AsyncSqlLedger", "MemoryLedger")


class _Name(NamedTuple):
    module: str
    name: str
    thing: object


def public_names(module: str) -> list[str]:
    """Return the names that *module* offers: those of its ``__all__``, or else those without an underscore."""
    found = import_module(module)
    names = getattr(found, "__all__", None) or [name for name, value in vars(found).items() if not ismodule(value)]
    return sorted(name for name in names if not name.startswith("_"))


def api_pages() -> dict[str, str]:
    """Return the text of each page by its name in docs."""
    pages: dict[str, list[_Name]] = {name: [] for name in (*MODULES, "models", "errors", "records")}
    seen: set[str] = set()
    for page, (module, _) in MODULES.items():
        for name in public_names(module):
            if name not in seen:
                seen.add(name)
                thing = getattr(import_module(module), name)
                pages[_page_of(page, thing)].append(_Name(module, name, thing))
    return {f"reference/api/{page}.md": _page(page, names) for page, names in pages.items()}


def _page_of(page: str, thing: object) -> str:
    if isclass(thing) and issubclass(thing, Exception):
        return "errors"
    if page == "ledger" and isclass(thing) and (is_dataclass(thing) or issubclass(thing, tuple)):
        return "records"
    home = getattr(thing, "__module__", "")
    return "models" if page == "client" and home.startswith(("game_operator.models", "game_operator.codes")) else page


def _page(page: str, names: list[_Name]) -> str:
    module, about = MODULES.get(page, ("", page))
    lines = [f"# `{module}`: {about}" if module else f"# {about.capitalize()}", "", _READERS, ""]
    if page in _NOTES:
        lines += [_NOTES[page], ""]
    for each in names:
        lines += [f"::: {each.module}.{each.name}", *_options(each), ""]
    return "\n".join(lines)


_NOTES: Final = {
    "client": "`AsyncOperatorClient` has the methods of `OperatorClient`, awaited.",
    "ledger": "`AsyncSqlLedger` has most methods of `SqlLedger`, awaited. `MemoryLedger` has them in memory.",
    "models": (
        "Import them from `game_operator`. Values are frozen. `wager`, `won` and names that end in `_cents` are whole "
        "cents. Names that end in `_amount` are `Decimal` currency units."
    ),
    "records": "Import them from `game_operator.ledger`, which returns them.",
    "errors": "[Codes and errors](../codes.md) has the tree. Import each from the module that its title names.",
}


def _options(each: _Name) -> Iterator[str]:
    options = {}
    if each.name in _WITHOUT_MEMBERS:
        options = {"members": "false", "inherited_members": "false"}
    elif isclass(each.thing) and issubclass(each.thing, Exception):
        options = {"inherited_members": "false", "show_root_full_path": "true"}
    elif not isclass(each.thing) and not isroutine(each.thing):  # A constant or a type has no docstring to find.
        options = {"show_if_no_docstring": "true"}
    if options:
        yield f"    options: {{{', '.join(f'{name}: {value}' for name, value in options.items())}}}"
