"""
Bets and rounds: the newest ones, and look-ups that answer what the Operator API answers.

An open bet can lose its settlement: the service settles it, and never sends the deposit. That is what an outage leaves
behind, and what a reconciliation must find.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Final
from urllib.parse import urlencode

from pydantic import AfterValidator, BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from game_operator.models import ClosedBet, OpenBet
from game_operator.protocol.operations import INVALID_REQUEST, ROUND_WITHOUT_KEY
from game_operator_testkit.control_room.forms import WHOLE_NUMBER, CentsTyped, checked, problem
from game_operator_testkit.control_room.outcomes import row
from game_operator_testkit.control_room.page_context import Page, see_other
from game_operator_testkit.sandbox.service.world import RETENTION_MILLIS

if TYPE_CHECKING:
    from game_operator_testkit.sandbox.server import Sandbox

_SHOWN: Final = 100


def _won(won_cents: int) -> int:
    if won_cents < 0:
        raise problem("Write 0 for a loss, or an amount above it.")
    return won_cents


class LoseForm(BaseModel):
    """The form that loses the settlement of an open bet."""

    won: Annotated[CentsTyped, AfterValidator(_won)]


def leave_open(sandbox: "Sandbox", bet_id: str) -> None:
    """Let the service answer that a bet whose settlement it never sends is still open."""
    bet = sandbox.world.bet(bet_id, now_millis=sandbox.service.clock())
    if isinstance(bet, ClosedBet):
        sandbox.world.add_bet(OpenBet.model_validate(bet.model_dump(exclude={"status", "won"})))


class BetsPage(Page):
    """One route for all: what is looked up stands in the query, because an id may hold anything."""

    PATH: ClassVar[str] = "/bets"
    TITLE: ClassVar[str] = "Bets and rounds"
    FORMS: ClassVar[Sequence[str]] = ("lose",)

    async def show(self, request: Request) -> Response:
        """Show a bet, a round, or the newest bets."""
        query = request.query_params
        if query.get("id", "").strip():
            return self._bet(request, query["id"])
        keys = {name: query.get(name, "") for name in ("instance_id", "round_id", "round_no")}
        keys["round_no"] = keys["round_no"].strip()
        if "id" in query or keys.keys().isdisjoint(query):
            problems = {"id": "Write the id of a bet."} if "id" in query else {}
            return self._list(request, {"instance_id": self._sandbox.instance_id}, problems)
        return self._round(request, keys)

    async def lose(self, request: Request) -> Response:
        """Settle an open bet at the service alone."""
        fields = await self._context.form(request)
        bet = self._context.bet(fields.get("bet_id", "")).bet
        if not isinstance(bet, OpenBet):
            raise HTTPException(409, "This bet is not open (any more), so it has no settlement to lose.")
        typed = {"won": fields.get("won", "")}
        form, problems = checked(LoseForm, typed)
        if form is None:
            return self._bet(request, bet.reference_id, typed, problems)
        self._sandbox.world.add_bet(ClosedBet.model_validate(bet.model_dump(exclude={"status"}) | {"won": form.won}))
        return see_other(f"{self.PATH}?{urlencode({'id': bet.reference_id})}")

    def _bet(
        self,
        request: Request,
        bet_id: str,
        form: Mapping[str, str] | None = None,
        problems: Mapping[str, str] | None = None,
    ) -> Response:
        outcome = self._context.bet(bet_id)
        return self._context.page(
            request,
            "bet.html",
            status=422 if problems else 200,
            bet_id=bet_id,
            answer=outcome.bet.model_dump_json(indent=2),
            outcome=outcome,
            rows=[row(each) for each in outcome.exchanges],
            form=form or {"won": "0"},
            problems=problems or {},
        )

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
            answer=found.model_dump_json(indent=2),
        )
