"""
Compare the public Python API with the one of the last release, or write it down.

    python tools/public_api.py             print what the API breaks; the exit code is 1 if it may not
    python tools/public_api.py --write     accept the API as it is: write it to tests/vectors/public_api.txt

The file has each public name with its parameters, and no types, docstrings or line numbers. The tests require that it
is up to date. Once a version is tagged, the file of the last tag is what the API is compared with.
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Final

import griffe

ROOT: Final = Path(__file__).resolve().parent.parent
DUMP: Final = ROOT / "tests" / "vectors" / "public_api.txt"
#: What users import from. Everything else may change from one version to the next.
PACKAGES: Final = (
    "game_operator",
    *(f"game_operator.backoffice{part}" for part in ("", ".case", ".catalogue")),
    *(f"game_operator.{name}" for name in ("ledger", "ledger.django", "models", "serve", "signers", "telemetry")),
    *("game_operator.wallet", "game_operator.webhooks", "game_operator_testkit", "game_operator_testkit.certifier"),
    *(f"game_operator_testkit.certifier.report{part}" for part in ("", ".as_html", ".as_json", ".as_junit")),
    *("game_operator_testkit.control_room", "game_operator_testkit.sandbox"),
)
#: Where both packages are.
SOURCES: Final = (ROOT / "src", ROOT / "testkit" / "src")
#: Stands in the name of such a package, so that a class can have it.
_DOT: Final = "_DOT_"
#: Methods that Python calls, and that users therefore call without their name.
_CALLED_BY_PYTHON: Final = frozenset(
    {"__init__", "__call__", "__iter__", "__len__", "__contains__"}
    | {"__enter__", "__exit__", "__aenter__", "__aexit__"}
)
_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.")


def main(options: Sequence[str]) -> int:
    """Write the API, or print what it breaks; return the exit code."""
    api = written(loaded(*SOURCES))
    if "--write" in options:
        DUMP.write_text(api)
        return 0
    problem = verdict(api, ROOT)
    print(problem or "The public API breaks nothing.")  # noqa: T201
    return 1 if problem else 0


def loaded(*folders: Path) -> griffe.ModulesCollection:
    """Return the package in each of *folders*, read without importing it."""
    loader = griffe.GriffeLoader(search_paths=folders, docstring_parser="google", allow_inspection=False)
    for folder in folders:
        (package,) = (each.parent.name for each in folder.glob("*/__init__.py"))
        loader.load(package)
    loader.resolve_aliases()
    return loader.modules_collection


def public_names(
    packages: griffe.ModulesCollection, places: Sequence[str] = PACKAGES
) -> Iterator[tuple[str, str, griffe.Object]]:
    """Yield each public name: its place, the name, and what it is."""
    for place in places:
        module = packages[place]
        for name in sorted(set(_exported(module))):
            yield _shown(place), name, _found(packages, module, name)


def _shown(place: str) -> str:
    """Return the place below ``game_operator``, whose own names stand without one."""
    return "" if place == "game_operator" else place.removeprefix("game_operator.")


def public_members(owner: griffe.Class) -> Iterator[tuple[str, griffe.Object]]:
    """Yield the public members of a class by name, those that it inherits from classes of this package too."""
    for name, found in sorted(owner.all_members.items()):
        if not name.startswith("_") or name in _CALLED_BY_PYTHON:
            yield name, found.final_target if isinstance(found, griffe.Alias) else found


def written(packages: griffe.ModulesCollection) -> str:
    """Return the public API as text that Python can parse, each package as a class."""
    lines: list[str] = []
    for place, named in groupby(public_names(packages), key=lambda each: each[0]):
        if place:
            lines.append(f"class {place.replace('.', _DOT)}:")
        for _, name, found in named:
            lines += _described(name, found, "    " if place else "")
    return "\n".join([*lines, ""])


def breakages(before: str, after: str) -> list[str]:
    """Return what of the API *before* does not work with the API *after*, each on one line."""
    was, now = _read(before), _read(after)
    found = [_plain(each) for each in griffe.find_breaking_changes(was, now)]
    return sorted([*found, *_kinds_broken(_kinds(was), _kinds(now))])


def verdict(api: str, root: Path) -> str:
    """Return what *api* breaks of the last release without being allowed to, with what to do; "" if it is fine."""
    tag = _last_release(root)
    dump = DUMP.relative_to(ROOT).as_posix()
    before = _git(root, "show", f"{tag}:{dump}") if tag else (root / dump).read_text()
    if not before:
        return f"The release {tag} has no {dump}, so nothing can be compared. Tag the commit that has it."
    broken = breakages(before, api)
    if not broken or (tag and _may_break(tag, (root / "src/game_operator/_version.py").read_text())):
        return ""
    accept = "raise the version's number first" if tag else "run: python tools/public_api.py --write"
    remedy = f"Keep the old name or parameter. To break it on purpose, {accept}."
    return "\n".join([f"The public API of {tag or dump} is broken:", *(f"  {each}" for each in broken), remedy])


def _found(packages: griffe.ModulesCollection, module: griffe.Module, name: str) -> griffe.Object:
    found: griffe.Object | griffe.Alias = module.members[name]
    if isinstance(found, griffe.Module) and name in module.imports:  # It has a function and a module of this name.
        found = packages[module.imports[name]]
    if isinstance(found, griffe.Alias):
        found = found.final_target
    if isinstance(found, griffe.Module):
        found = found.members[name]
    assert isinstance(found, griffe.Object)
    return found


def _exported(module: griffe.Module) -> Iterable[str]:
    """Return the names that *module* exports: by ``__all__``, by ``import X as X``, or because it defines them."""
    if module.exports is not None:
        return map(str, module.exports)
    imports = re.findall(r"^\s*from \S+ import (\w+) as \1$", module.source, re.MULTILINE)
    return imports or [
        name for name, each in module.members.items() if isinstance(each, griffe.Class) and not name.startswith("_")
    ]


def _described(name: str, found: griffe.Object, indent: str) -> Iterator[str]:
    if isinstance(found, griffe.Class):
        bases = ", ".join(str(base).rpartition(".")[2].partition("[")[0] for base in found.bases)
        yield f"{indent}class {name}({bases}):"
        members = [line for each in public_members(found) for line in _described(*each, indent + "    ")]
        yield from members or [f"{indent}    ..."]
    elif isinstance(found, griffe.Function):
        kind = "async def" if "async" in found.labels else "def"
        yield f"{indent}{kind} {name}({_parameters(found)}): ..."
    else:
        yield f"{indent}{name} = ..."


def _parameters(function: griffe.Function) -> str:
    """Return the parameters with their defaults, as they stand in a signature."""
    shown: list[str] = []
    marks = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}
    for each in function.parameters:
        if each.kind is griffe.ParameterKind.keyword_only and not any(one.startswith("*") for one in shown):
            shown.append("*")
        mark = marks.get(each.kind, "") if each.kind else ""
        shown.append(f"{mark}{each.name}" + ("" if each.default is None or mark else f"={each.default}"))
        if each.kind is griffe.ParameterKind.positional_only:
            shown = [one for one in shown if one != "/"] + ["/"]
    return ", ".join(shown)


@lru_cache(maxsize=2)
def _read(api: str) -> griffe.Module:
    module = griffe.visit("game_operator", filepath=DUMP, code=api)
    _make_public(module)
    return module


def _make_public(owner: griffe.Object) -> None:
    """Let griffe compare special methods too, which it takes for private."""
    for each in owner.members.values():
        each.public = True
        if isinstance(each, griffe.Class):
            _make_public(each)


def _kinds(owner: griffe.Object, prefix: str = "") -> Iterator[tuple[str, set[str]]]:
    """Yield each class with its bases, and each function with whether it is awaited, which griffe does not compare."""
    for name, each in owner.members.items():
        if isinstance(each, griffe.Class):
            yield prefix + name, {f"a subclass of {base}" for base in each.bases}
            yield from _kinds(each, f"{prefix}{name}.")
        elif isinstance(each, griffe.Function):
            yield prefix + name, {"awaited" if "async" in each.labels else "called without await"}


def _kinds_broken(was: Iterable[tuple[str, set[str]]], now: Iterable[tuple[str, set[str]]]) -> Iterator[str]:
    after = dict(now)
    for name, kinds in was:
        for lost in sorted(kinds - after.get(name, kinds)):
            yield f"{name.replace(_DOT, '.')}: Not {lost} any more"


def _plain(breakage: griffe.Breakage) -> str:
    # griffe writes the place of the text, which says nothing, and the colours of a terminal.
    _, _, text = breakage.explain(griffe.ExplanationStyle.ONE_LINE).partition(": ")
    return re.sub(r"\x1b\[\d+m", "", text).replace(_DOT, ".")


def _may_break(tag: str, version: str) -> bool:
    """Return whether the version is one that may break what *tag* has: a new major one, or a new minor one of 0."""
    before, now = (tuple(map(int, _VERSION.findall(text)[0])) for text in (tag, version))
    return now[:1] > before[:1] or (now[0] == 0 and now > before)


def _last_release(root: Path) -> str:
    """Return the tag of the release before this commit; "" if there was none. A tag on this commit is not before it."""
    newest = ("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*")
    is_tagged = _git(root, *newest, "--exact-match", "HEAD")
    return _git(root, *newest, "HEAD^" if is_tagged else "HEAD")


def _git(root: Path, *arguments: str) -> str:
    """Return what git prints; "" where it fails, as without a tag or a repository."""
    done = subprocess.run(  # noqa: S603
        ("git", "-C", str(root), *arguments),  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.rstrip("\n") if done.returncode == 0 else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
