"""
Write the table of docs/reference/licences.md: what an installation with extras brings, and under which licence.

    .venv/bin/python -m tools.licences

It reads what is installed, in the versions of requirements/dev.txt. A licence is what a package declares.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement

from tools.release import ROOT, runtime_extras

PAGE = ROOT / "docs" / "reference" / "licences.md"
#: Licences without a duty beyond keeping their text, and two packages that ask for more; the page says what.
ALLOWED = {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "PSF-2.0"}
ALLOWED_FOR = {"certifi": "MPL-2.0", "psycopg": "LGPL-3.0-only", "psycopg-binary": "LGPL-3.0-only"}
#: How packages without an SPDX expression spell what they mean.
_SPELLINGS = {
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License": "ISC",
    "MIT License": "MIT",
}
#: Read by a person: these have no licence in their metadata but its text, or one that is not exact.
_READ = {
    "python-dateutil": "Apache-2.0 OR BSD-3-Clause",
    "socksio": "MIT",
    "uvloop": "Apache-2.0 OR MIT",
}


class Package(NamedTuple):
    """A package, as the page shows it."""

    name: str
    version: str
    licence: str
    needed_by: str


@cache
def packages() -> tuple[Package, ...]:
    """Return all packages of an installation with every extra but those for tests, by name."""
    by_extra = {extra: dict(_brought(Requirement(f"game-operator[{extra}]"), {})) for extra in runtime_extras()}
    always = dict(_brought(Requirement("game-operator"), {}))
    everything = {name: found for each in by_extra.values() for name, found in each.items()}
    del everything["game-operator"]
    return tuple(
        Package(name, found.version, licence_of(name, found), _needed_by(name, always, by_extra))
        for name, found in sorted(everything.items())
    )


def _brought(wanted: Requirement, seen: dict[str, set[str]]) -> Iterator[tuple[str, Distribution]]:
    """Yield what *wanted* names, and all that it needs on this platform."""
    name, extras = wanted.name.lower().replace("_", "-"), {"", *wanted.extras}
    if extras <= seen.setdefault(name, set()):
        return
    seen[name] |= extras
    found = distribution(name)
    yield name, found
    for text in found.requires or ():
        needed = Requirement(text)
        if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
            yield from _brought(needed, seen)


def licence_of(name: str, found: Distribution) -> str:
    """Return the SPDX expression of *found*, or what it declares instead."""
    declared = [
        *_said(found, "License-Expression"),
        _READ.get(name),
        *_said(found, "License"),
        *(each.rpartition(" :: ")[2] for each in _said(found, "Classifier") if "License ::" in each),
    ]
    text = next(filter(None, declared), "unknown")
    return _SPELLINGS.get(text, text)


def _said(found: Distribution, field: str) -> list[str]:
    return found.metadata.get_all(field) or []


def _needed_by(name: str, always: Mapping[str, object], by_extra: Mapping[str, Mapping[str, object]]) -> str:
    return "always" if name in always else ", ".join(extra for extra, brought in by_extra.items() if name in brought)


def refused(package: Package) -> set[str]:
    """Return the licences of *package* that may not come in without a decision."""
    return set(re.split(" AND | OR ", package.licence)) - ALLOWED - {ALLOWED_FOR.get(package.name, "")}


def page(text: str) -> str:
    """Return the page *text* with the table of now."""
    rows = [f"| {' | '.join(package)} |" for package in packages()]
    table = "\n".join(["| Package | Version | Licence | Needed by |", "|---|---|---|---|", *rows])
    return re.sub(r"^\|.*\|$(?:\n^\|.*\|$)*", lambda _: table, text, count=1, flags=re.MULTILINE)


def main(page_path: Path = PAGE) -> None:
    """Write the table anew."""
    page_path.write_text(page(page_path.read_text()))


if __name__ == "__main__":
    main()
