"""All pages of the site that the project itself describes. The site build writes them, and git does not keep them."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from game_operator.backoffice.reconcile.report import advices
from game_operator.ledger import doctor
from game_operator.ledger.engine.tables import toml_texts
from game_operator.ledger.staff.anomalies import anomaly_texts
from testkit.tests.support import scenario_table, wrong_wallet_table
from tests.support.api_pages import api_pages
from tests.support.coverage_pages import coverage_pages
from tests.support.documents import ROOT
from tests.support.reference_pages import reference_pages

_FINDINGS: Final = """\
# Findings, anomalies and verdicts

For staff who look up what a ledger reports. Read first: [the runbook](../how-to/runbook.md).

Each check of the doctor, each kind of anomaly and each verdict of a reconciliation has its heading here. What `verify`
finds is in [the ledger](tables.md#what-verify-finds). What to do about alerts is in
[the runbook](../how-to/runbook.md#alerts)."""
_VERDICTS: Final = {"finding": "Finding", "advice": "Advice", "not visible": "Not visible"}


def _findings_page() -> str:
    """Return what a ledger and a reconciliation report, each with a heading, and what to do."""
    return _linked("\n".join([_FINDINGS, "", *_checks(), *_anomalies(), *_advices()]).rstrip() + "\n")


def _checks() -> Iterator[str]:
    yield from ("## The doctor's checks", "")
    for name, check in toml_texts(doctor.__name__, "doctor.toml").items():
        yield from (f"### Doctor: {name}", "", check["why"], "", f"**What to do:** {check['todo']}", "")
        yield from (f"- {_case(text)}" for text in check.values() if _is_wrong(text))
        yield ""


def _is_wrong(text: Any) -> bool:  # Any: a text, or the table of a case.
    return isinstance(text, dict) and text["verdict"] in _VERDICTS


def _case(text: dict[str, str]) -> str:
    todo = f" {_filled(text['todo'])}" if "todo" in text else ""
    return f"{_VERDICTS[text['verdict']]}: {_filled(text['found'])}.{todo}"


def _filled(text: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: found[1].upper(), text)


def _linked(text: str) -> str:
    section = r'docs/((?:how-to|reference)/[\w-]+\.md), "([^"]+)"'
    text = re.sub(section, lambda found: f"[{found[2]}](../{found[1]}#{found[2].lower().replace(' ', '-')})", text)
    return re.sub(r"docs/((?:how-to|reference)/[\w-]+\.md)", r"[\1](../\1)", text)


def _anomalies() -> Iterator[str]:
    yield from ("## Kinds of anomalies", "")
    for kind, text in anomaly_texts().items():
        yield from (f"### Anomaly: {kind}", "", text["means"], "", f"**What to do:** {text['todo']}", "")


def _advices() -> Iterator[str]:
    yield from ("## Verdicts and findings of a reconciliation", "")
    for kind, advice in advices().items():
        yield from (f"### Verdict: {kind}", "", advice.means, "", f"**What to do:** {advice.todo}", "")


_MUTATIONS: Final = """\
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


def _mutation_page() -> str:
    """Return which faults the tests catch, from the lists of them."""
    return _MUTATIONS.format(
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


@cache
def generated_pages() -> dict[str, str]:
    """Return the text of each page by its name in docs."""
    return {
        **reference_pages(),
        **api_pages(),
        **coverage_pages(),
        "reference/findings.md": _findings_page(),
        "reference/scenarios.md": scenario_table.page(),
        "maintainers/wrong-wallets.md": wrong_wallet_table.page(),
        "maintainers/mutation.md": _mutation_page(),
    }
