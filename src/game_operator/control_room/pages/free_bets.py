"""Free bets: granted by the API's own rules, and what became of them."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from game_operator.codes import GrantErrorCode
from game_operator.control_room.desk import Desk
from game_operator.control_room.exchanges import folded, row
from game_operator.control_room.grant_form import UNITS, GrantForm, read_grant_form
from game_operator.control_room.instances import instance_names
from game_operator.control_room.streams import Streams
from game_operator.errors import GameOperatorError
from game_operator.sandbox.service.world import Grant, GrantStatus

__all__ = ["PATH", "TITLE", "routes"]

PATH: Final = "/free-bets"
TITLE: Final = "Free bets"

_SEE_OTHER: Final = 303
_SHOWN: Final = 200
_LOOKED_THROUGH: Final = 1_000
#: Claims whose mistakes can be looked at again.
_REMEMBERED: Final = 200
#: Choices of the form that the API refuses, so that one can see it do so.
_REFUSED: Final = {
    "not-an-instance": "not an instance id",
    "0" * 24: "an instance that does not exist",
}


def routes(desk: Desk, streams: Streams) -> Sequence[Route]:  # noqa: ARG001 - as every page
    """Return the list, and its two forms."""
    free_bets = _FreeBets(desk)
    return [
        Route(PATH, free_bets.show),
        Route(f"{PATH}/grant", free_bets.grant, methods=["POST"]),
        Route(f"{PATH}/claim", free_bets.claim, methods=["POST"]),
    ]


@dataclass(frozen=True, slots=True)
class _Granted:
    grant: Grant
    status: GrantStatus


class _FreeBets:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._sandbox = desk.sandbox
        self._world = desk.sandbox.world
        #: What the wallet did in a claim that no sound wallet does, by the grant's id.
        self._problems: OrderedDict[str, tuple[str, ...]] = OrderedDict()

    async def show(self, request: Request) -> Response:
        reference_id = f"free-bets-{len(self._world.grants()) + 1}"
        form = GrantForm(
            player_id=self._desk.likely_player(), instance_id=self._sandbox.instance_id, reference_id=reference_id
        )
        return self._page(request, form)

    async def grant(self, request: Request) -> Response:
        form, asked = read_grant_form(await self._desk.form(request))
        if asked is None:
            return self._page(request, form, status=422)
        granted = self._world.grant(self._sandbox.operator_id, asked, now_millis=self._desk.now_millis())
        if isinstance(granted, GrantErrorCode):
            form.refuse(granted)
            return self._page(request, form, status=422)
        return RedirectResponse(f"{PATH}?granted={granted.free_bet_id}#grants", _SEE_OTHER)

    async def claim(self, request: Request) -> Response:
        free_bet_id = (await self._desk.form(request)).get("free_bet_id", "")
        try:
            played = await self._desk.done_by_wallet(self._sandbox.claim_free_bets, free_bet_id)
        except GameOperatorError as failed:
            form = GrantForm(instance_id=self._sandbox.instance_id)
            return self._page(request, form, status=422, problem=str(failed))
        self._remember(free_bet_id, played.problems)
        return RedirectResponse(f"{PATH}?claimed={free_bet_id}#grants", _SEE_OTHER)

    def _remember(self, free_bet_id: str, problems: tuple[str, ...]) -> None:
        self._problems[free_bet_id] = problems
        while len(self._problems) > _REMEMBERED:
            self._problems.popitem(last=False)

    def _page(self, request: Request, form: GrantForm, *, status: int = 200, problem: str = "") -> Response:
        now_millis = self._desk.now_millis()
        grants = [
            _Granted(grant, self._world.grant_status(grant, now_millis=now_millis)) for grant in self._world.grants()
        ]
        changed = request.query_params.get("granted") or request.query_params.get("claimed") or ""
        about = [row(each) for each in self._sandbox.live.recent(_LOOKED_THROUGH) if changed and each.bet_id == changed]
        return self._desk.page(
            request,
            "free_bets.html",
            status=status,
            form=form,
            grants=grants[: -_SHOWN - 1 : -1],
            total=len(grants),
            changed=next((each for each in grants if each.grant.free_bet_id == changed), None),
            rows=folded(about[::-1]),
            instances=instance_names(self._sandbox),
            refused=_REFUSED,
            units=UNITS,
            problem=problem,
            problems=self._problems.get(changed, ()),
        )
