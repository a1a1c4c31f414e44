"""Bets and rounds: the newest ones, and look-ups that answer what the Operator API answers."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from game_operator.control_room.desk import Desk
from game_operator.control_room.exchanges import row
from game_operator.control_room.instances import currency_of, instance_names
from game_operator.control_room.streams import Streams
from game_operator.control_room.verdict import standing
from game_operator.models import RoundFound
from game_operator.protocol.operations import INVALID_REQUEST, ROUND_WITHOUT_KEY, AnyBet, AnyRound
from game_operator.sandbox.service.world import RETENTION_MILLIS

__all__ = ["PATH", "TITLE", "routes"]

PATH: Final = "/bets"
TITLE: Final = "Bets and rounds"

_SHOWN: Final = 100
_LOOKED_THROUGH: Final = 1_000
_WHOLE: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)


def routes(desk: Desk, streams: Streams) -> Sequence[Route]:  # noqa: ARG001 - as every page
    """Return the one route: what is looked up stands in the query, for an id may hold anything."""
    return [Route(PATH, _Bets(desk).show)]


@dataclass(frozen=True, slots=True)
class _RoundKeys:
    """The fields of the look-up as they were filled in, and what is wrong with them."""

    instance_id: str = ""
    round_id: str = ""
    round_no: str = ""
    problems: dict[str, str] = field(default_factory=dict)


class _Bets:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._sandbox = desk.sandbox
        self._world = desk.sandbox.world

    async def show(self, request: Request) -> Response:
        query = request.query_params
        if query.get("id", "").strip():
            return self._bet(request, query["id"])
        if "id" in query:
            keys = _RoundKeys(self._sandbox.instance_id, problems={"id": "Write the id of a bet."})
            return self._list(request, keys, status=422)
        if {"instance_id", "round_id", "round_no"}.isdisjoint(query):
            return self._list(request, _RoundKeys(self._sandbox.instance_id))
        instance_id, round_id, round_no = (query.get(name, "") for name in ("instance_id", "round_id", "round_no"))
        return self._round(request, _RoundKeys(instance_id, round_id, round_no.strip()))

    def _list(self, request: Request, keys: _RoundKeys, *, status: int = 200) -> Response:
        # As everywhere, what is older than 90 days is gone (spec §8).
        oldest = self._desk.now_millis() - RETENTION_MILLIS
        return self._desk.page(
            request,
            "bets.html",
            status=status,
            bets=[bet for bet in self._world.bets(limit=_SHOWN) if bet.timestamp >= oldest],
            shown=_SHOWN,
            keys=keys,
            instances=instance_names(self._sandbox),
        )

    def _bet(self, request: Request, bet_id: str) -> Response:
        bet = self._world.bet(self._sandbox.operator_id, bet_id, now_millis=self._desk.now_millis())
        about = [each for each in self._sandbox.live.recent(_LOOKED_THROUGH) if each.bet_id == bet_id][::-1]
        return self._desk.page(
            request,
            "bet.html",
            bet=bet,
            bet_id=bet_id,
            answer=_laid_out(bet),
            standing=standing(bet, about, currency_of(self._sandbox, bet)),
            rows=[row(each) for each in about],
            instances=instance_names(self._sandbox),
        )

    def _round(self, request: Request, keys: _RoundKeys) -> Response:
        if not keys.round_id and not keys.round_no:
            keys.problems["round_id"] = f"{ROUND_WITHOUT_KEY}. (BAD_REQUEST)"
        elif not keys.round_id and not _WHOLE.fullmatch(keys.round_no):
            keys.problems["round_no"] = f"{INVALID_REQUEST}: a round number is a whole number."
        if keys.problems:
            return self._list(request, keys, status=422)
        found = self._world.round(
            self._sandbox.operator_id,
            keys.instance_id,
            keys.round_id or None,
            None if keys.round_id else int(keys.round_no),
            now_millis=self._desk.now_millis(),
        )
        return self._desk.page(
            request,
            "round.html",
            round=found,
            bets=found.bets if isinstance(found, RoundFound) else (),
            keys=keys,
            answer=_laid_out(found),
            instances=instance_names(self._sandbox),
        )


def _laid_out(found: AnyBet | AnyRound) -> str:
    """Return the answer of the API for people: the same fields and values, one to a line."""
    return json.dumps(found.model_dump(mode="json"), indent=2)
