"""Faults: what goes wrong between the service and the wallet, switched on and off."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from game_operator.errors import ConfigurationError, GameOperatorError, TransportError
from game_operator_testkit.control_room.outcomes import unreachable_wallet
from game_operator_testkit.control_room.page_context import Page, see_other
from game_operator_testkit.provider.faults import FAULT_PRESETS, FAULTS, FaultPlan
from game_operator_testkit.sandbox.dealing.deliveries import RETRY_PRESETS

_TITLES: Final = {info.name: info.title for info in FAULTS}


def read_plan(form: Mapping[str, str]) -> FaultPlan:
    """
    Return the faults that the form switches on.

    Raises:
        ConfigurationError: A field cannot be read.
    """
    rates = {info.name: form.get(f"rate-{info.name}", "").removesuffix("%").rstrip() for info in FAULTS}
    calls = {info.name: form.get(f"call-{info.name}", "") for info in FAULTS}
    parts = [f"{name}={share}%" for name, share in rates.items() if share]
    parts += [f"{name}@{number}" for name, number in calls.items() if number]
    plan = FaultPlan.parse(",".join(parts) or "none")
    return replace(plan, rates={fault: rate for fault, rate in plan.rates.items() if rate})


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
        if fields.get("retries") not in RETRY_PRESETS:
            raise HTTPException(400, "There is no such preset of repeats, and nothing was changed.")
        try:
            plan = read_plan(fields)
        except ConfigurationError as unreadable:
            return self._page(request, 422, typed=fields, problem=str(unreadable))
        self._sandbox.service.retries = fields["retries"]
        return self._changed(plan)

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
        values = {"typed": None, "problem": "", "released": None, "calls": ()} | more
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
