"""Faults: what goes wrong between the service and the wallet, switched on and off."""

from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from game_operator.control_room.desk import Desk
from game_operator.control_room.fault_form import FaultForm, form_of, percent, read_fault_form
from game_operator.control_room.streams import Streams
from game_operator.provider.faults import FAULTS, FaultPlan
from game_operator.sandbox.dealing.timing import RETRY_PRESETS

__all__ = ["PATH", "TITLE", "routes"]

PATH: Final = "/faults"
TITLE: Final = "Faults"

_SEE_OTHER: Final = 303
_SIDES: Final = {
    "webhook": ("Calls to the wallet", [info for info in FAULTS if info.side == "webhook"]),
    "api": ("Calls to the Operator API", [info for info in FAULTS if info.side == "api"]),
}


def routes(desk: Desk, streams: Streams) -> Sequence[Route]:  # noqa: ARG001 - as every page
    """Return the switches, and the forms that change them."""
    faults = _Faults(desk)
    return [
        Route(PATH, faults.show),
        Route(f"{PATH}/set", faults.set, methods=["POST"]),
        Route(f"{PATH}/all", faults.all, methods=["POST"]),
        Route(f"{PATH}/none", faults.none, methods=["POST"]),
    ]


class _Faults:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._service = desk.sandbox.service

    async def show(self, request: Request) -> Response:
        return self._page(request, form_of(self._service.faults.plan, self._service.retries))

    async def set(self, request: Request) -> Response:
        form, plan = read_fault_form(await self._desk.form(request))
        if plan is None:
            return self._page(request, form, status=422)
        self._service.faults.plan = plan
        self._service.retries = form.retries
        return _back()

    async def all(self, request: Request) -> Response:
        await self._desk.form(request)
        self._service.faults.plan = FaultPlan.parse("all")
        return _back()

    async def none(self, request: Request) -> Response:
        await self._desk.form(request)
        self._service.faults.clear()
        return _back()

    def _page(self, request: Request, form: FaultForm, *, status: int = 200) -> Response:
        plan = self._service.faults.plan
        return self._desk.page(
            request,
            "faults.html",
            status=status,
            form=form,
            sides=_SIDES,
            presets=list(RETRY_PRESETS.values()),
            on=_switched_on(plan),
            active={*plan.rates, *plan.nth},
            saved="saved" in request.query_params,
        )


def _switched_on(plan: FaultPlan) -> list[tuple[str, str]]:
    """Return what is on now, by title: how often, or when."""
    on = [(info.title, f"{percent(plan.rates[info.name])} %") for info in FAULTS if info.name in plan.rates]
    waiting = [(info.title, _which(plan.nth[info.name])) for info in FAULTS if info.name in plan.nth]
    return on + waiting


def _which(number: int) -> str:
    return "the next call" if number == 1 else f"call {number} from now"


def _back() -> Response:
    return RedirectResponse(f"{PATH}?saved", _SEE_OTHER)
