"""Bets and rounds: the newest ones, and look-ups that answer what the Operator API answers."""

import json
from collections.abc import Mapping
from typing import ClassVar, Final

from starlette.requests import Request
from starlette.responses import Response

from game_operator.protocol.operations import INVALID_REQUEST, ROUND_WITHOUT_KEY, AnyBet, AnyRound
from game_operator_testkit.control_room.outcomes import row
from game_operator_testkit.control_room.page_context import WHOLE_NUMBER, Page
from game_operator_testkit.sandbox.service.world import RETENTION_MILLIS

_SHOWN: Final = 100


class BetsPage(Page):
    """One route for all: what is looked up stands in the query, because an id may hold anything."""

    PATH: ClassVar[str] = "/bets"
    TITLE: ClassVar[str] = "Bets and rounds"

    async def show(self, request: Request) -> Response:
        """Show a bet, a round, or the newest bets."""
        query = request.query_params
        if query.get("id", "").strip():
            outcome = self._context.bet(query["id"])
            return self._context.page(
                request,
                "bet.html",
                bet_id=query["id"],
                answer=_laid_out(outcome.bet),
                outcome=outcome,
                rows=[row(each) for each in outcome.exchanges],
            )
        keys = {name: query.get(name, "") for name in ("instance_id", "round_id", "round_no")}
        keys["round_no"] = keys["round_no"].strip()
        if "id" in query or keys.keys().isdisjoint(query):
            problems = {"id": "Write the id of a bet."} if "id" in query else {}
            return self._list(request, {"instance_id": self._sandbox.instance_id}, problems)
        return self._round(request, keys)

    def _list(self, request: Request, keys: Mapping[str, str], problems: Mapping[str, str]) -> Response:
        # As everywhere, what is older than 90 days is gone (spec §8).
        oldest = self._context.now_millis() - RETENTION_MILLIS
        bets = [bet for bet in self._sandbox.world.bets(limit=_SHOWN) if bet.timestamp >= oldest]
        return self._context.page(
            request,
            "bets.html",
            status=422 if problems else 200,
            bets=bets,
            doubts=self._context.doubts(bets),
            shown=_SHOWN,
            keys={"round_id": "", "round_no": ""} | dict(keys),
            problems=problems,
        )

    def _round(self, request: Request, keys: Mapping[str, str]) -> Response:
        round_id, round_no = keys["round_id"], keys["round_no"]
        if not round_id and not round_no:
            return self._list(request, keys, {"round_id": f"{ROUND_WITHOUT_KEY}. (BAD_REQUEST)"})
        if not round_id and not WHOLE_NUMBER.fullmatch(round_no):
            return self._list(request, keys, {"round_no": f"{INVALID_REQUEST}: a round number is a whole number."})
        found = self._sandbox.world.round(
            self._sandbox.operator_id,
            keys["instance_id"],
            round_id or None,
            None if round_id else int(round_no),
            now_millis=self._context.now_millis(),
        )
        return self._context.page(
            request,
            "round.html",
            round=found,
            doubts=self._context.doubts(getattr(found, "bets", ())),
            keys=keys,
            answer=_laid_out(found),
        )


def _laid_out(found: AnyBet | AnyRound) -> str:
    """Return the answer of the API for people: the same fields and values, one to a line."""
    return json.dumps(found.model_dump(mode="json"), indent=2)
