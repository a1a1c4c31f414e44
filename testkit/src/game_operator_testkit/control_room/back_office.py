"""Back office: settlements that are lost, a reconciliation that finds them, and a campaign of free bets."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, ClassVar, Final, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from game_operator.errors import GameOperatorError, TransportError
from game_operator_testkit.control_room.back_office_work import SHOWN, BackOffice, Seen
from game_operator_testkit.control_room.jobs import Job
from game_operator_testkit.control_room.outcomes import unreachable_wallet
from game_operator_testkit.control_room.page_context import (
    WHOLE_NUMBER,
    CentsTyped,
    Page,
    PageContext,
    PlayerTyped,
    Whole,
    checked,
    problem,
    see_other,
)

#: Most of what a form begins is over by then, and the page that follows shows it.
_WAIT_SECONDS: Final = 1.0
_MOST_PLAYERS: Final = 50
_NO_MORE_THAN: Final = 10**11
_AGES: Final = ((86_400_000, "days"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))

Ending = Literal["win", "loss", "cancelled"]
KeptBack = Literal["hold", "lose"]


def _positive(number: int) -> int:
    if not 0 < number <= _NO_MORE_THAN:
        raise problem("Write a number above 0.")
    return number


def _brake(number: int) -> int:
    if not 0 <= number <= _NO_MORE_THAN:
        raise problem("Write a number from 0 on.")
    return number


def _ending(typed: str) -> str:
    if typed not in get_args(Ending):
        raise problem("Choose one of the outcomes.")
    return typed


def _kept_back(typed: str) -> str:
    if typed not in get_args(KeptBack):
        raise problem("Choose whether it is held or lost.")
    return typed


def _reason(typed: str) -> str:
    if not typed:
        raise problem("Write why: the ledger keeps it with each repair.")
    return typed


def _players(typed: str) -> list[str]:
    players = [line.strip() for line in typed.splitlines() if line.strip()]
    if not 0 < len(players) <= _MOST_PLAYERS:
        raise problem(f"Write 1 to {_MOST_PLAYERS} players, each on a line.")
    return players


class LoseForm(BaseModel):
    """A round of one bet whose deposit or rollback does not arrive; a win is twice the wager."""

    player_id: PlayerTyped
    wager: Annotated[CentsTyped, AfterValidator(_positive)]
    ending: Annotated[Ending, BeforeValidator(_ending)]
    settlement: Annotated[KeptBack, BeforeValidator(_kept_back)]


class RepairForm(BaseModel):
    """What a run may repair at most, and why."""

    max_bets: Annotated[Whole, AfterValidator(_brake)]
    max_total: Annotated[CentsTyped, AfterValidator(_brake)]
    reason: Annotated[str, AfterValidator(_reason)]


class PlanForm(BaseModel):
    """A campaign: who gets how many free bets, and what they may add up to."""

    campaign: str
    players: Annotated[list[str], BeforeValidator(_players)]
    count: Whole
    free_bet: CentsTyped
    max_exposure: Annotated[CentsTyped, AfterValidator(_brake)]


class BackOfficePage(Page):
    """The runs, and the forms that begin, interrupt and resume them."""

    PATH: ClassVar[str] = "/back-office"
    TITLE: ClassVar[str] = "Back office"
    FORMS: ClassVar[Sequence[str]] = ("lose", "release", "lookup", "repair", "stop_run", "plan", "grant", "interrupt")

    def __init__(self, context: PageContext) -> None:
        super().__init__(context)
        wallet = context.wallet
        self._office = None if wallet is None else BackOffice(self._sandbox, wallet)

    def stop(self) -> None:
        """Let what is at work end."""
        if self._office is not None:
            self._office.interrupt()

    async def show(self, request: Request) -> Response:
        """Show the latest run, the open findings and the latest campaign."""
        return await self._page(request, {}, {})

    async def lose(self, request: Request) -> Response:
        """Play a round whose settlement does not arrive."""
        fields = await self._context.form(request)
        form, problems = checked(LoseForm, _typed(LoseForm, fields))
        if form is not None and (at_work := self._context.at_work_with(form.player_id)):
            problems["player_id"] = f"{at_work} Wait for its end, or choose another player."
        if form is None or problems or self._office is None:
            return await self._page(request, fields, problems)
        won_cents = {"win": 2 * form.wager, "loss": 0, "cancelled": None}[form.ending]
        try:
            played = await self._context.call_wallet(
                self._sandbox.play_round,
                player_id=form.player_id,
                wager_cents=form.wager,
                won_cents=won_cents,
                cancel=won_cents is None,
                settlement=form.settlement,
            )
        except GameOperatorError as failed:
            return await self._not_sent(request, fields, failed)
        if not played.unsent:
            codes = ", ".join(str(delivery.code) for delivery in played.deliveries if delivery.code)
            return await self._page(request, fields, {}, failed=f"The wallet did not take the bet: {codes}.")
        said = f"The bet {played.bet_ids[0]} is over at the service. The wallet was not told, so it is open there."
        return await self._page(request, {}, {}, said=said)

    async def release(self, request: Request) -> Response:
        """Send the settlements that did not arrive, held or lost."""
        await self._context.form(request)
        if self._office is None:
            return await self._page(request, {}, {})
        try:
            answers = await self._context.call_wallet(self._sandbox.release_held, lost=True)
        except GameOperatorError as failed:
            return await self._not_sent(request, {}, failed)
        codes = Counter(answer.problem or answer.code or "SUCCESS" for answer in answers)
        answered = ", ".join(f"{code} {number}" for code, number in sorted(codes.items()))
        said = f"Sent late. The wallet answered: {answered}." if answered else "Every settlement has arrived already."
        return await self._page(request, {}, {}, said=said, settled=self._context.settlements(answers))

    async def lookup(self, request: Request) -> Response:
        """Begin a dry run."""
        await self._context.form(request)
        return await self._began(request, {}, BackOffice.look_up)

    async def repair(self, request: Request) -> Response:
        """Begin a run that repairs."""
        fields = await self._context.form(request)
        form, problems = checked(RepairForm, _typed(RepairForm, fields))
        if form is None:
            return await self._page(request, fields, problems)
        brakes = {"max_bets": form.max_bets, "max_total_cents": form.max_total}
        return await self._began(request, fields, lambda office: office.repair(**brakes, reason=form.reason))

    async def stop_run(self, request: Request) -> Response:
        """Stop the run that is under way, for good."""
        await self._context.form(request)
        return await self._began(request, {}, BackOffice.stop_run)

    async def plan(self, request: Request) -> Response:
        """Plan a campaign."""
        fields = await self._context.form(request)
        form, problems = checked(PlanForm, _typed(PlanForm, fields))
        if form is None:
            return await self._page(request, fields, problems)
        terms = {"count": form.count, "wager_cents": form.free_bet, "max_exposure_cents": form.max_exposure}
        return await self._began(request, fields, lambda office: office.plan(form.campaign, form.players, **terms))

    async def grant(self, request: Request) -> Response:
        """Run or resume a campaign."""
        fields = await self._context.form(request)
        return await self._began(request, {}, lambda office: office.grant(fields.get("campaign", "")))

    async def interrupt(self, request: Request) -> Response:
        """Let what is at work finish what is under way."""
        await self._context.form(request)
        job = None if self._office is None else self._office.job
        if job is not None:
            job.interrupt()
            await run_in_threadpool(job.wait, _WAIT_SECONDS)
        return see_other(f"{self.PATH}#state")

    async def _began(
        self, request: Request, fields: Mapping[str, str], begin: Callable[[BackOffice], Job | None]
    ) -> Response:
        """Show what *begin* has begun, unless something else is at work."""
        job = None if self._office is None else begin(self._office)
        if job is None:
            busy = "Something is at work already. Wait for it, or interrupt it."
            return await self._page(request, fields, {}, failed=busy, status=409)
        await run_in_threadpool(job.wait, _WAIT_SECONDS)
        return see_other(f"{self.PATH}#state")

    async def _not_sent(self, request: Request, fields: Mapping[str, str], failed: GameOperatorError) -> Response:
        if not isinstance(failed, TransportError):
            return await self._page(request, fields, {}, failed=str(failed))
        words = unreachable_wallet(self._sandbox.wallet_url or "", failed)
        return await self._page(request, fields, {}, failed=words, status=502)

    async def _page(
        self,
        request: Request,
        typed: Mapping[str, str],
        problems: Mapping[str, str],
        *,
        said: str = "",
        failed: str = "",
        settled: Sequence[str] = (),
        status: int = 200,
    ) -> Response:
        if self._office is None:
            return self._context.page(request, "no_back_office.html", status=status)
        seen = await run_in_threadpool(self._office.seen)
        refused = problems or (failed and status == 200)
        return self._context.page(
            request,
            "back_office.html",
            status=422 if refused else status,
            form={**self._suggested(seen), **typed},
            problems=problems,
            said=said,
            failed=failed,
            settled=settled,
            job=self._office.job,
            seen=seen,
            shown=SHOWN,
            age=age,
        )

    def _suggested(self, seen: Seen) -> dict[str, str]:
        players = sorted(each.player_id for each in self._sandbox.service.balances.players() if each.last is not None)
        number = "" if seen.campaign is None else seen.campaign.name.rpartition("-")[2]
        following = int(number) + 1 if WHOLE_NUMBER.fullmatch(number) else 1
        return {
            "player_id": self._context.likely_player(),
            "wager": "5.00",
            "ending": "win",
            "settlement": "hold",
            "max_bets": "10",
            "max_total": "100.00",
            "reason": "tried in the control room",
            "campaign": f"welcome-{following}",
            "players": "\n".join(players[:_MOST_PLAYERS]),
            "count": "2",
            "free_bet": "0.50",
            "max_exposure": "50.00",
        }


def _typed(form: type[BaseModel], fields: Mapping[str, str]) -> dict[str, str]:
    return {name: fields.get(name, "") for name in form.model_fields}


def age(millis: int) -> str:
    """Return how long something has been, in its largest unit: ``5 min``."""
    for unit_millis, unit in _AGES:
        if millis >= unit_millis:
            return f"{millis // unit_millis} {unit}"
    return "now"
