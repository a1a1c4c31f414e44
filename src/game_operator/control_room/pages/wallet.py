"""Wallet: what it told of balances, beside what they should be, and how long it took to answer."""

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from game_operator.control_room.charts import balance_chart, latency_chart
from game_operator.control_room.desk import Desk
from game_operator.control_room.streams import Streams

__all__ = ["PATH", "TITLE", "routes"]

PATH: Final = "/wallet"
TITLE: Final = "Wallet"

_SEE_OTHER: Final = 303
_SHOWN: Final = 200
_LOOKED_THROUGH: Final = 1_000


def routes(desk: Desk, streams: Streams) -> Sequence[Route]:  # noqa: ARG001 - as every page
    """Return the page, and the form that accepts a balance."""
    wallet = _Wallet(desk)
    return [Route(PATH, wallet.show), Route(f"{PATH}/accept", wallet.accept, methods=["POST"])]


class _Wallet:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._sandbox = desk.sandbox
        self._board = desk.sandbox.house.balances

    async def show(self, request: Request) -> Response:
        players = self._board.players()
        asked = request.query_params.get("player", players[0].player_id if players else "")
        latencies = self._latencies()
        # The charts escape what they write themselves.
        return self._desk.page(
            request,
            "wallet.html",
            players=players[:_SHOWN],
            total=len(players),
            wrong=[player for player in players if not player.agrees],
            asked=asked,
            chosen=self._board.player(asked),
            balances=Markup(balance_chart(self._board.series(asked), player_id=asked)),  # noqa: S704
            answers=len(latencies),
            latencies=Markup(latency_chart(latencies)),  # noqa: S704
        )

    async def accept(self, request: Request) -> Response:
        self._board.accept((await self._desk.form(request)).get("player_id", ""))
        return RedirectResponse(PATH, _SEE_OTHER)

    def _latencies(self) -> list[float]:
        exchanges = self._sandbox.live.recent(_LOOKED_THROUGH)
        return [each.elapsed_ms for each in exchanges if each.direction == "webhook" and each.status is not None]
