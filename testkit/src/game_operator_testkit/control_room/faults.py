"""Faults: what goes wrong between the service and the wallet, switched on and off."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from game_operator.errors import GameOperatorError, TransportError
from game_operator_testkit.control_room.outcomes import unreachable_wallet
from game_operator_testkit.control_room.page_context import Page, checked, problem, see_other
from game_operator_testkit.provider.faults import FAULT_PRESETS, FAULTS, Fault, FaultPlan
from game_operator_testkit.sandbox.dealing.deliveries import RETRY_PRESETS

_PERCENT: Final = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,6})?", re.ASCII)
_TITLES: Final = {info.name: info.title for info in FAULTS}
_NUMBER: Final = re.compile(r"[0-9]{1,9}", re.ASCII)


def _share(typed: str) -> float:
    text = typed.removesuffix("%").rstrip() or "0"
    if not _PERCENT.fullmatch(text) or (share := float(text) / 100) > 1:
        raise problem("Write a share from 0 to 100 percent, such as 3 or 0.5.")
    return share


def _call_number(typed: str) -> int:
    if typed and not _NUMBER.fullmatch(typed):
        raise problem("Write which of the next calls, such as 1 for the next one.")
    if typed and not int(typed):
        raise problem("Calls are counted from 1, the next one; leave it empty to wait for none.")
    return int(typed or 0)


def _preset(typed: str) -> str:
    if typed not in RETRY_PRESETS:
        raise problem(f"Choose one of {', '.join(RETRY_PRESETS)}.")
    return typed


class FaultForm(BaseModel):
    """
    The form that switches faults on.

    Attributes:
        rate: How often each fault occurs, as a share of 1; 0 is off.
        call: The number of the call that each fault waits for; 0 waits for none.
        retries: The name of a preset.
    """

    rate: dict[Fault, Annotated[float, BeforeValidator(_share)]]
    call: dict[Fault, Annotated[int, BeforeValidator(_call_number)]]
    retries: Annotated[str, AfterValidator(_preset)]

    def plan(self) -> FaultPlan:
        """Return the faults that are on."""
        return FaultPlan(
            rates={fault: rate for fault, rate in self.rate.items() if rate},
            nth={fault: number for fault, number in self.call.items() if number},
        )


def read_fault_form(form: Mapping[str, str]) -> tuple[FaultForm | None, dict[str, str]]:
    """Return the form, or None and a sentence for each wrong field, by ``rate-`` or ``call-`` and the fault's name."""
    parts = {part: {info.name: form.get(f"{part}-{info.name}", "") for info in FAULTS} for part in ("rate", "call")}
    return checked(FaultForm, {**parts, "retries": form.get("retries", "")})


def percent(rate: float) -> str:
    """Return a rate in percent, as short as can be: 0.03 is ``3``, and 0 is empty."""
    return f"{rate * 100:.6f}".rstrip("0").rstrip(".") if rate else ""


class FaultsPage(Page):
    """The switches, and the forms that change them."""

    PATH: ClassVar[str] = "/faults"
    TITLE: ClassVar[str] = "Faults"
    FORMS: ClassVar[Sequence[str]] = ("set", "preset", "release")

    async def show(self, request: Request) -> Response:
        """Show what is on."""
        return self._page(request)

    async def set(self, request: Request) -> Response:
        """Switch on what the form asks for, and nothing else."""
        fields = await self._context.form(request)
        form, problems = read_fault_form(fields)
        if form is None:
            return self._page(request, 422, typed=fields, problems=problems)
        self._sandbox.service.retries = form.retries
        return self._changed(form.plan())

    async def preset(self, request: Request) -> Response:
        """Switch on the faults of a preset, and nothing else; ``none`` and ``all`` are presets too."""
        name = (await self._context.form(request)).get("name", "")
        if name not in {*FAULT_PRESETS, "all", "none"}:
            raise HTTPException(400, "There is no such preset of faults, and nothing was changed.")
        return self._changed(FaultPlan.parse(name))

    async def release(self, request: Request) -> Response:
        """Send the deposits and rollbacks that are held back."""
        await self._context.form(request)
        before = self._sandbox.live.count
        try:
            answers = await self._context.call_wallet(self._sandbox.release_held)
        except TransportError as unreachable:
            return self._page(request, 502, released=unreachable_wallet(self._sandbox, unreachable))
        except GameOperatorError as failed:
            return self._page(request, 422, released=str(failed))
        said = "Sent late. The wallet answered:" if answers else "Nothing was held back."
        return self._page(request, released=said, calls=self._sandbox.live.since(before)[::-1])

    def _changed(self, plan: FaultPlan) -> Response:
        self._sandbox.service.faults.plan = plan
        return see_other(f"{self.PATH}?saved")

    def _page(self, request: Request, status: int = 200, **more: Any) -> Response:  # Any: values of the template.
        values = {"typed": None, "problems": {}, "released": None, "calls": ()} | more
        return self._context.page(
            request,
            "faults.html",
            status=status,
            faults=FAULTS,
            presets=list(RETRY_PRESETS.values()),
            fault_presets=list(FAULT_PRESETS.values()),
            percent=percent,
            titles=_TITLES,
            **values,
        )
