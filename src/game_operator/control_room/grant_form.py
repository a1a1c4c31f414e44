"""The form that grants free bets: read as the Operator API would read it, and refused with its codes (spec §7.2)."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Final

from game_operator.codes import GRANT_MESSAGES, GrantErrorCode
from game_operator.control_room.forms import Form
from game_operator.models import GrantRequest
from game_operator.models.free_bets import refusal_of
from game_operator.money import cents_from_amount

__all__ = ["UNITS", "GrantForm", "read_grant_form"]

#: What a duration may be given in, in milliseconds.
UNITS: Final = MappingProxyType(
    {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000, "milliseconds": 1}
)
# Below zero is read too: it is for the limits of spec §8 to refuse it.
_WHOLE: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_AMOUNT: Final = re.compile(r"-?[0-9]{1,16}(?:\.[0-9]{1,2})?", re.ASCII)

_FIELD_OF: Final = MappingProxyType(
    {
        GrantErrorCode.INVALID_COUNT: "count",
        GrantErrorCode.COUNT_TOO_HIGH: "count",
        GrantErrorCode.INVALID_WAGER_AMOUNT: "wager",
        GrantErrorCode.WAGER_AMOUNT_TOO_HIGH: "wager",
        GrantErrorCode.INVALID_EXPIRE_DURATION: "duration",
        GrantErrorCode.EXPIRE_DURATION_TOO_LONG: "duration",
        GrantErrorCode.EMPTY_PLAYER_ID: "player_id",
        GrantErrorCode.PLAYER_ID_TOO_LONG: "player_id",
        GrantErrorCode.EMPTY_REFERENCE_ID: "reference_id",
        GrantErrorCode.REFERENCE_ID_TOO_LONG: "reference_id",
        GrantErrorCode.INVALID_INSTANCE_ID: "instance_id",
        GrantErrorCode.INSTANCE_NOT_FOUND: "instance_id",
        GrantErrorCode.DUPLICATE_REFERENCE_ID: "reference_id",
    }
)


@dataclass(frozen=True, slots=True)
class GrantForm:
    """The form as it stands on the page: all values as they were typed, and a sentence for each that is wrong."""

    player_id: str = "p1"
    instance_id: str = ""
    count: str = "5"
    wager: str = "1.00"
    duration: str = "1"
    unit: str = "days"
    reference_id: str = ""
    problems: dict[str, str] = field(default_factory=dict)

    def refuse(self, code: GrantErrorCode) -> None:
        """Say beside its field why the API refuses the grant: in its words, with its code."""
        self.problems[_FIELD_OF[code]] = f"{GRANT_MESSAGES[code]} ({code})"


def read_grant_form(form: Form) -> tuple[GrantForm, GrantRequest | None]:
    """Return the form as it was filled in, and the request it makes, or None if it has problems."""
    shown = GrantForm(
        player_id=form.get("player_id", ""),
        instance_id=form.text("instance_id"),
        count=form.text("count"),
        wager=form.text("wager"),
        duration=form.text("duration"),
        unit=form.text("unit"),
        reference_id=form.get("reference_id", ""),
    )
    count = _read(shown, "count", shown.count, _whole, "Write a whole number, such as 5.")
    wager_cents = _read(
        shown,
        "wager",
        shown.wager,
        _cents,
        "Write an amount in currency units with at most two decimals, such as 1.50.",
    )
    duration = _read(shown, "duration", shown.duration, _whole, "Write a whole number, such as 1.")
    if shown.unit not in UNITS:
        shown.problems["duration"] = f"Choose one of {', '.join(UNITS)}."
    if shown.problems or count is None or wager_cents is None or duration is None:
        return shown, None
    request = GrantRequest(
        player_id=shown.player_id,
        instance_id=shown.instance_id,
        count=count,
        wager_amount_cents=wager_cents,
        expire_duration_millis=duration * UNITS[shown.unit],
        reference_id=shown.reference_id,
    )
    code = refusal_of(request)
    if code is not None:
        shown.refuse(code)
        return shown, None
    return shown, request


def _read(shown: GrantForm, name: str, text: str, reader: Callable[[str], int | None], problem: str) -> int | None:
    value = reader(text)
    if value is None:
        shown.problems[name] = problem
    return value


def _whole(text: str) -> int | None:
    return int(text) if _WHOLE.fullmatch(text) else None


def _cents(text: str) -> int | None:
    return cents_from_amount(Decimal(text)) if _AMOUNT.fullmatch(text) else None
