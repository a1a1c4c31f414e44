"""docs/reference/findings.md: what a ledger and a reconciliation report, each with a heading, and what to do."""

import re
from collections.abc import Iterator
from typing import Any

from game_operator.backoffice.reconcile.report import advices
from game_operator.ledger import doctor
from game_operator.ledger.engine.tables import toml_texts
from game_operator.ledger.staff.anomalies import anomaly_texts

_INTRODUCTION = """\
# Findings, anomalies and verdicts

For staff who look up what a ledger reports. Read first: [the runbook](../how-to/runbook.md).

Each check of the doctor, each kind of anomaly and each verdict of a reconciliation has its heading here. What `verify`
finds is in [the ledger](tables.md#what-verify-finds). What to do about alerts is in
[the runbook](../how-to/runbook.md#alerts)."""
_VERDICTS = {"finding": "Finding", "advice": "Advice", "not visible": "Not visible"}


def findings_page() -> str:
    """Return the page."""
    return _linked("\n".join([_INTRODUCTION, "", *_checks(), *_anomalies(), *_advices()]).rstrip() + "\n")


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
    return re.sub(r"docs/((?:how-to|reference)/[\w-]+\.md)", r"[\1](../\1)", text)


def _anomalies() -> Iterator[str]:
    yield from ("## Kinds of anomalies", "")
    for kind, text in anomaly_texts().items():
        yield from (f"### Anomaly: {kind}", "", text["means"], "", f"**What to do:** {text['todo']}", "")


def _advices() -> Iterator[str]:
    yield from ("## Verdicts and findings of a reconciliation", "")
    for kind, advice in advices().items():
        yield from (f"### Verdict: {kind}", "", advice.means, "", f"**What to do:** {advice.todo}", "")
