"""The page docs/maintainers/mutation.md, from the lists of faults that the tests catch."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from tests.support.documents import ROOT

_TEXT: Final = """\
# Mutations

For maintainers who measure the tests. Read first: [architecture](../explanation/architecture.md).

```text
python tools/mutations.py [FILE …]
python tools/planted_faults.py [MODULE …]
```

A test that cannot fail proves nothing. So the code that decides about money is changed on purpose, one small change at
a time, and its own tests must fail. Both commands run tests of `make test` alone, and fail if a fault that was caught
before is missed now. **What is caught may only grow.** `--record` writes it down. `make .venv/fuzz` installs
[mutmut](https://mutmut.readthedocs.io).

## What mutmut changes

Each operator, constant and argument of these files (`tools/mutations.toml`):

{mutations}

What is left in `decide.py` changes nothing: an identity without a bet uses no rules, a repair never asks for three
values, and an `assert_never` is not reached. In `money.py` and `signing.py` it changes a sentence, or padding that
Python ignores. In `receiver.py` most of it is texts of the log, and fields for telemetry, whose tests are not run here.

## Faults planted by hand

For mutmut a statement of SQL is one text. So `tools/planted_faults.toml` lists faults, each with the test that caught
it: a missing condition, a bound moved by one, a missing lock.

{planted}

What is left in `express.py` changes the path and not the answer: a deadlock is tried again, and a unique constraint
undoes what a look-up would have found. In `ledger/books` some of what is left is found by another check, too, and some
has no test yet: look for `caught_by = ''` in the list.
"""


def page() -> str:
    """Return the text of the page."""
    return _TEXT.format(
        mutations="\n".join(_table("File", _mutated(_listed("mutations")))),
        planted="\n".join(_table("Module", _planted(_listed("planted_faults")))),
    )


# Any, here and below: TOML.
def _listed(name: str) -> Mapping[str, Any]:
    return tomllib.loads((ROOT / "tools" / f"{name}.toml").read_text())


def _mutated(files: Mapping[str, Any]) -> Iterator[tuple[str, int, int]]:
    for file, each in files.items():
        caught, left = (sum(map(len, each.get(kind, {}).values())) for kind in ("caught", "left"))
        yield file, caught, left


def _planted(modules: Mapping[str, Any]) -> Iterator[tuple[str, int, int]]:
    for file in dict.fromkeys(each["file"] for each in modules.values()):
        faults = [fault for each in modules.values() if each["file"] == file for fault in each["faults"]]
        caught = sum(bool(fault["caught_by"]) for fault in faults)
        yield file, caught, len(faults) - caught


def _table(what: str, rows: Iterable[tuple[str, int, int]]) -> Iterator[str]:
    yield from (f"| {what} | Faults | Caught | Left |", "|---|---|---|---|")
    yield from (f"| `{name}` | {caught + left} | {caught} | {left} |" for name, caught, left in rows)
