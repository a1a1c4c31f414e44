"""
What the docstrings of the public API leave out.

A docstring says what each parameter is, what comes back, what is raised, and the unit of each number. It may point to
another public name, as in "see ``OperatorClient.fetch_bet``": then what that name's docstring says counts too.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import griffe

from tests.support.api_pages import public_names
from tests.support.documents import ROOT

#: What users import from, as docs/reference/versions.md lists it.
PACKAGES: Final = (
    "game_operator",
    *(f"game_operator.backoffice{part}" for part in ("", ".case", ".catalogue")),
    *(f"game_operator.{name}" for name in ("ledger", "ledger.django", "models", "serve", "signers", "telemetry")),
    *("game_operator.wallet", "game_operator.webhooks", "game_operator_testkit", "game_operator_testkit.certifier"),
    *(
        f"game_operator_testkit.certifier.report{part}"
        for part in ("", ".as_html", ".as_json", ".as_junit", ".comparison")
    ),
    *("game_operator_testkit.control_room", "game_operator_testkit.sandbox"),
)
#: Methods that Python calls, and that users therefore call without their name.
_CALLED_BY_PYTHON: Final = frozenset(
    {"__init__", "__call__", "__iter__", "__len__", "__contains__"}
    | {"__enter__", "__exit__", "__aenter__", "__aexit__"}
)

#: Parameters that mean the same everywhere; docs/explanation/architecture.md explains the words.
_SAME_EVERYWHERE: Final = frozenset(
    {"self", "cls", "player_id", "bet_id", "round_id", "instance_id", "operator_id", "free_bet_id", "source", "call"}
    | {"args", "options", "scope", "receive", "send"}
)
_NUMBER: Final = re.compile(r"\b(?:int|float|Decimal|Cents|Amount|CentsField|MillisField)\b")
#: The end of a name that is a unit, or that says which number it is.
_UNIT_OF_NAME: Final = re.compile(r"_(?:cents|millis|seconds|ms|bytes|id|no)$")
_UNIT: Final = re.compile(
    r"(?i)\b(?:cents?|currency units?|milli\w+|seconds?|minutes|hours?|days?|bytes|mib|kib|characters|per ?cent\w*"
    r"|share|how (?:many|much|often|long|heavy)|number|counts?|most|more|attempts?|status|version|port|threads|calls"
    r"|bets|times|tasks|0 to 1|id of|position|place|money|same seed|sample|wagers|deposits)\b"
)
_POINTER: Final = re.compile(r"\b([A-Z]\w+(?:\.\w+)?)\b|``([a-z_]\w*)``")


@dataclass(frozen=True)
class _Part:
    """A public name, or a public member of one, with the class that it is a member of."""

    path: str
    value: griffe.Object
    owner: griffe.Class | None = None


class Reference:
    """The docstrings of the public names, read without importing them."""

    def __init__(self) -> None:
        folders = (ROOT / "src", ROOT / "testkit" / "src")
        loader = griffe.GriffeLoader(search_paths=folders, docstring_parser="google", allow_inspection=False)
        for package in ("game_operator", "game_operator_testkit"):
            loader.load(package)
        loader.resolve_aliases()
        self._packages = loader.modules_collection

    @cached_property
    def parts(self) -> Mapping[str, _Part]:
        """All public names and their members by path, each definition once."""
        found: dict[str, _Part] = {}
        named = [(place, name) for place in PACKAGES for name in public_names(place)]
        for place, name in named:
            value = _found(self._packages, place, name)
            path = f"{place}.{name}".removeprefix("game_operator.")
            found.setdefault(value.path, _Part(path, value))
            if isinstance(value, griffe.Class):
                for member, each in _public_members(value):
                    part = _Part(f"{path}.{member}", each, value)
                    # Of what is inherited, the class that defines it.
                    found[each.path] = part if each.parent is value else found.get(each.path, part)
        return {part.path: part for part in found.values()}

    def gaps(self) -> Iterator[str]:
        """Yield what is left out, each with the name that it is about."""
        for part in self.parts.values():
            yield from (f"{part.path}: {gap}" for gap in self._gaps_of(part))

    def text(self, path: str) -> str:
        """Return what the docstring of a public name says, with those of the classes that it inherits from."""
        return self._own(self.parts[path])

    def _gaps_of(self, part: _Part) -> Iterator[str]:
        if isinstance(part.value, griffe.Function):
            yield from self._gaps_of_function(part, part.value)
        elif isinstance(part.value, griffe.Class):
            if not part.value.docstring:
                yield "has no docstring"
        else:
            yield from self._gaps_of_attribute(part, part.value)

    def _gaps_of_function(self, part: _Part, function: griffe.Function) -> Iterator[str]:
        told = self._said(part)
        is_special = function.name.startswith("__")
        if not is_special and not function.docstring:
            yield "has no docstring"
            return
        for each in function.parameters if function.name != "__exit__" else ():
            if each.name.startswith("_") or each.name in _SAME_EVERYWHERE:
                continue
            description = _about(each.name, told)
            if not description:
                yield f"does not describe {each.name}"
            elif _lacks_unit(each.name, str(each.annotation), description):
                yield f"does not say in which unit {each.name} is"
        for error in sorted(_raised(function)):
            if not re.search(rf"\b{error}\b", told):
                yield f"does not say that it raises {error}"
        returns = str(function.returns)
        if not is_special and returns not in ("None", "NoReturn") and not re.search(r"(?i)\b(?:return|yield)", told):
            yield "does not say what it returns"

    def _gaps_of_attribute(self, part: _Part, value: griffe.Object) -> Iterator[str]:
        if value.name.startswith("__") or _is_word(part) or _is_mirrored(value):
            return
        told = value.docstring.value if value.docstring else ""
        description = told or (_about(value.name, self._said(part)) if part.owner else "")
        if not description and value.name.endswith("_cents"):  # Beside the number of these there is their sum.
            description = _about(value.name.removesuffix("_cents"), self._said(part))
        if not description:
            yield "is not described"
        elif _lacks_unit(value.name, str(getattr(value, "annotation", "")), description):
            yield "has no unit"

    def _own(self, part: _Part) -> str:
        texts = [part.value.docstring.value] if part.value.docstring else []
        owners = [owner for owner in (part.value, part.owner) if isinstance(owner, griffe.Class)]
        for owner in owners:
            texts += [each.docstring.value for each in (owner, *owner.mro()) if each.docstring]
        return "\n".join(texts)

    def _said(self, part: _Part) -> str:
        """Return what a docstring says, and those that it points to."""
        text = self._own(part)
        pointed = {name for names in _POINTER.findall(text) for name in names if name}
        beside = part.path.rpartition(".")[0]
        targets = [each for name in pointed for each in self._named(name, beside) if each.path != part.path]
        return "\n".join([text, *(self._own(each) for each in targets)])

    def _named(self, name: str, beside: str) -> Iterator[_Part]:
        for part in self._by_last_word.get(name.rpartition(".")[2], ()):
            is_near = name[0].isupper() or part.path == f"{beside}.{name}"
            if part.path == name or (is_near and part.path.endswith(f".{name}")):
                yield part

    @cached_property
    def _by_last_word(self) -> Mapping[str, Sequence[_Part]]:
        found: defaultdict[str, list[_Part]] = defaultdict(list)
        for path, part in self.parts.items():
            found[path.rpartition(".")[2]].append(part)
        return found


def _public_members(owner: griffe.Class) -> Iterator[tuple[str, griffe.Object]]:
    """Yield the public members of a class by name, those that it inherits from classes of this package too."""
    for name, found in sorted(owner.all_members.items()):
        if not name.startswith("_") or name in _CALLED_BY_PYTHON:
            yield name, found.final_target if isinstance(found, griffe.Alias) else found


def _found(packages: griffe.ModulesCollection, place: str, name: str) -> griffe.Object:
    module = packages[place]
    found: griffe.Object | griffe.Alias = module.members[name]
    if isinstance(found, griffe.Module) and name in module.imports:  # It has a function and a module of this name.
        found = packages[module.imports[name]]
    if isinstance(found, griffe.Alias):
        found = found.final_target
    if isinstance(found, griffe.Module):
        found = found.members[name]
    assert isinstance(found, griffe.Object)
    return found


def _about(name: str, text: str) -> str:
    """Return what *text* says of a parameter or attribute: its entries in lists, or the sentences that name it."""
    entries = re.findall(rf"^ *(?:\w+, )*{name}(?:, \w+)*: (.*(?:\n {{8,}}.*)*)", text, re.MULTILINE)
    return "\n".join(entries or re.findall(rf"[^.]*(?:\*{name}\*|``{name}``)[^.]*", text))


def _lacks_unit(name: str, annotation: str, description: str) -> bool:
    return bool(
        _NUMBER.search(re.sub(r"Callable\[.*", "", annotation))
        and not _UNIT_OF_NAME.search(name)
        and not _UNIT.search(description)
    )


def _raised(function: griffe.Function) -> set[str]:
    """Return the names of the errors that the body of *function* raises itself."""
    body = re.sub(r'"""(.|\n)*?"""', "", function.source)
    return set(re.findall(r"^\s*raise ([A-Z]\w*Error)\b", body, re.MULTILINE)) - {"NotImplementedError"}


def _is_word(part: _Part) -> bool:
    """Whether it is a member of an enumeration, which its class explains."""
    return part.owner is not None and any("Enum" in str(base) for base in part.owner.bases)


def _is_mirrored(value: griffe.Object) -> bool:
    """Whether it is a method of AsyncSqlLedger that is made of one of SqlLedger, with its docstring."""
    return isinstance(value, griffe.Attribute) and str(value.value).startswith(("_awaited(", "_iterated("))
