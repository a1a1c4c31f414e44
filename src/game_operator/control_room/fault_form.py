"""The form that switches faults on: a share in percent, or the number of a call, for each of them."""

import re
from dataclasses import dataclass, field
from typing import Final

from game_operator.control_room.forms import Form
from game_operator.provider.faults import FAULTS, Fault, FaultPlan
from game_operator.sandbox.dealing.timing import RETRY_PRESETS

__all__ = ["FaultForm", "form_of", "percent", "read_fault_form"]

_PERCENT: Final = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,6})?", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_WHOLE_SHARE: Final = 100


@dataclass(frozen=True, slots=True)
class FaultForm:
    """
    The form as it stands on the page, as it was typed.

    Attributes:
        rates: The share of each fault in percent; "" for one that is off.
        calls: The number of the call that each fault waits for; "" for one that waits for none.
        retries: The name of a preset.
        problems: A sentence for each field that is wrong, by ``rate-`` or ``call-`` and the fault's name.
    """

    rates: dict[Fault, str]
    calls: dict[Fault, str]
    retries: str
    problems: dict[str, str] = field(default_factory=dict)


def form_of(plan: FaultPlan, retries: str) -> FaultForm:
    """Return the form that says what is switched on."""
    return FaultForm(
        rates={info.name: percent(plan.rates.get(info.name, 0.0)) for info in FAULTS},
        calls={info.name: str(plan.nth.get(info.name, "")) for info in FAULTS},
        retries=retries,
    )


def read_fault_form(form: Form) -> tuple[FaultForm, FaultPlan | None]:
    """Return the form as it was filled in, and the faults it asks for, or None if it has problems."""
    shown = FaultForm(
        rates={info.name: form.text(f"rate-{info.name}") for info in FAULTS},
        calls={info.name: form.text(f"call-{info.name}") for info in FAULTS},
        retries=form.text("retries"),
    )
    rates = {fault: _rate(shown, fault) for fault in shown.rates}
    nth = {fault: _number(shown, fault) for fault in shown.calls}
    if shown.retries not in RETRY_PRESETS:
        shown.problems["retries"] = f"Choose one of {', '.join(RETRY_PRESETS)}."
    if shown.problems:
        return shown, None
    return shown, FaultPlan(
        rates={fault: rate for fault, rate in rates.items() if rate},
        nth={fault: number for fault, number in nth.items() if number},
    )


def percent(rate: float) -> str:
    """Return a rate in percent, as short as can be: 0.03 is ``3``, and 0 is empty."""
    return f"{rate * 100:.6f}".rstrip("0").rstrip(".") if rate else ""


def _rate(shown: FaultForm, fault: Fault) -> float:
    text = shown.rates[fault].removesuffix("%").rstrip() or "0"
    rate = float(text) / _WHOLE_SHARE if _PERCENT.fullmatch(text) else 2.0
    if rate > 1:
        shown.problems[f"rate-{fault}"] = "Write a share from 0 to 100 percent, such as 3 or 0.5."
    return rate


def _number(shown: FaultForm, fault: Fault) -> int:
    text = shown.calls[fault]
    number = int(text) if _NUMBER.fullmatch(text) else 0
    if text and not number:
        counted = "Calls are counted from 1, the next one; leave it empty to wait for none."
        unreadable = "Write which of the next calls, such as 1 for the next one."
        shown.problems[f"call-{fault}"] = counted if _NUMBER.fullmatch(text) else unreadable
    return number
