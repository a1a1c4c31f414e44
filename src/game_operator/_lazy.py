"""Lazy names of a package (PEP 562): a module is imported when one of its names is first used."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """
    Return ``__getattr__`` and ``__dir__`` for *package*, and give it an ``__all__`` unless it has one.

    Call it under ``if not TYPE_CHECKING``, and import the same names under ``if TYPE_CHECKING``, each ``as`` itself. A
    type checker then knows each name, and reports a misspelt one. A test compares the two lists.

    Args:
        package: The package's ``__name__``.
        homes: A module, absolute or relative to the package (".sync"), to its names, separated by spaces.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}
    namespace = vars(sys.modules[package])
    namespace.setdefault("__all__", sorted(home_of))

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = namespace[name] = getattr(import_module(home_of[name], package), name)
        return value

    return load, lambda: sorted({*namespace, *home_of})
