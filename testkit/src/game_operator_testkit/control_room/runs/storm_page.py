"""Storm: many bets with faults against the wallet, begun here, watched while they are played, and their audit."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, get_args

from markupsafe import Markup
from pydantic import AfterValidator, BaseModel, BeforeValidator, ValidationInfo
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from game_operator.errors import ConfigurationError
from game_operator_testkit.control_room.faults import in_words
from game_operator_testkit.control_room.page_context import Whole, checked, player, problem, see_other, whole
from game_operator_testkit.control_room.runs.runs_page import (
    FarForm,
    RunsPage,
    number_in,
    own_ledger,
    short,
    typed,
    why_not_begun,
)
from game_operator_testkit.control_room.wallet import latencies_chart
from game_operator_testkit.provider.faults import API_FAULTS, FAULT_PRESETS, FaultPlan
from game_operator_testkit.sandbox.dealing.deliveries import DEFAULT_RETRIES, RETRY_PRESETS

if TYPE_CHECKING:
    # Loaded when the page is used: a sandbox starts without it.
    from game_operator_testkit.control_room.runs.storm_run import StormRun, StormSettings

_MOST_BETS: Final = 5_000
_MOST_PLAYERS: Final = 200
_MOST_AT_ONCE: Final = 50
#: What a player should have at least to be suggested, in cents.
_LEAST_CENTS: Final = 5_000
_SUGGESTED: Final = 20
#: Differences on the page, those with their history, and lines of a history. The trace has all.
_SHOWN: Final = 50
_WITH_HISTORY: Final = 10
_LINES: Final = 30

Who = Literal["fresh", "known"]
#: Besides the presets: nothing, everything, what the page Faults has on, and the plan that the form has.
_FAULTS: Final = ("none", "all", "page", "own")


def _within(least: int, most: int) -> AfterValidator:
    def check(number: int) -> int:
        if not least <= number <= most:
            raise problem(f"Write a number from {least} to {most:,}.")
        return number

    return AfterValidator(check)


def _one_of(choices: Sequence[str], sentence: str) -> BeforeValidator:
    def check(text: str) -> str:
        if text not in choices:
            raise problem(sentence)
        return text

    return BeforeValidator(check)


def _players(text: str, info: ValidationInfo) -> list[str]:
    # Ids are not trimmed: a blank at the end may be a part of one.
    players = [line for line in text.replace("\r\n", "\n").split("\n") if line.strip()]
    if info.data.get("who") != "known":
        return []
    if not 0 < len(players) <= _MOST_PLAYERS:
        raise problem(f"Write 1 to {_MOST_PLAYERS} players, each on a line.")
    if len(set(players)) < len(players):
        raise problem("A player is there twice. Write each one once.")
    return [player(each) for each in players]


def _plan(text: str, info: ValidationInfo) -> FaultPlan | None:
    if info.data.get("faults") != "own":
        return None
    try:
        plan = FaultPlan.parse(text)
    except ConfigurationError as wrong:
        raise problem(str(wrong)) from None
    if any(each in plan.rates or each in plan.nth for each in API_FAULTS):
        raise problem(
            f"A storm makes no calls of the Operator API, in which {', '.join(API_FAULTS)} occur. Leave them out."
        )
    return plan


def _seed(text: str) -> int | None:
    return whole(text) if text else None


class StormForm(BaseModel):
    """The form that begins a storm."""

    bets: Annotated[Whole, _within(1, _MOST_BETS)]
    who: Annotated[Who, _one_of(get_args(Who), "Choose who plays.")]
    fresh: Annotated[Whole, _within(1, _MOST_PLAYERS)]
    players: Annotated[list[str], BeforeValidator(_players)]
    faults: Annotated[str, _one_of((*_FAULTS, *FAULT_PRESETS), "Choose what goes wrong.")]
    plan: Annotated[FaultPlan | None, BeforeValidator(_plan)]
    retries: Annotated[str, _one_of(list(RETRY_PRESETS), "Choose when calls are sent again.")]
    concurrency: Annotated[Whole, _within(1, _MOST_AT_ONCE)]
    seed: Annotated[int | None, BeforeValidator(_seed)]


class StormPage(RunsPage["StormRun", "StormSettings"]):
    """The form, the runs that are kept, each run with what its audit found, and its trace."""

    PATH: ClassVar[str] = "/storm"
    TITLE: ClassVar[str] = "Storm"
    KIND: ClassVar[str] = "storm"
    TEMPLATE: ClassVar[str] = "storm.html"
    FORMS: ClassVar[Sequence[str]] = (*RunsPage.FORMS, "record")

    def routes(self) -> Sequence[Route]:  # noqa: D102 - as every page
        return [*super().routes(), Route(f"{self.PATH}/runs/{{number:int}}/storm.trace", self.trace)]

    async def record(self, request: Request) -> Response:
        """Let the Operator API answer for the bets of a run."""
        from game_operator_testkit.control_room.runs.storm_run import record

        run = self._run(number_in((await self._context.form(request)).get("run", "")))
        await run_in_threadpool(record, run, self._sandbox)
        return see_other(f"{self.PATH}/runs/{run.number}")

    async def trace(self, request: Request) -> Response:
        """Send the trace, which ``game-operator storm --replay`` sends again."""
        run = self._run(request.path_params["number"])
        if not run.trace:
            raise HTTPException(404, "This run has no trace: a storm keeps one if it did not pass.")
        name = f"storm-{run.head.seed}.trace"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(run.trace.encode(), media_type="text/plain", headers=headers)

    def _begin(self, settings: "StormSettings") -> "StormRun":
        from game_operator_testkit.control_room.runs import storm_run

        for earlier in self._shelf.latest():
            # A storm with all its calls is large: only the newest one can be recorded.
            earlier.played = None
        return self._shelf.begin(
            lambda number: storm_run.begun(number, settings, self._sandbox),
            lambda run, job: storm_run.play(run, job, self._sandbox, self._context.wallet),
            settings.players,
        )

    def _read(self, fields: Mapping[str, str]) -> "tuple[StormSettings | None, dict[str, str]]":
        from game_operator_testkit.control_room.runs.storm_run import StormSettings

        form, problems = checked(StormForm, typed(StormForm, {"fresh": "1", **fields}))
        if form is not None and form.who == "fresh" and not self._has_ledger():
            problems["who"] = "New players need the wallet’s ledger, which this control room does not have."
        if not self._sandbox.wallet_url:
            problems["bets"] = "The sandbox knows no wallet, so there is nothing to storm."
        far, more = checked(FarForm, typed(FarForm, fields)) if self._is_far() else (None, {})
        problems |= more
        if form is None or problems:
            return None, problems
        settings = StormSettings(
            bets=form.bets,
            fresh=form.fresh if form.who == "fresh" else 0,
            players=form.players,
            faults=self._faults(form),
            retries=form.retries,
            seed=form.seed,
            concurrency=form.concurrency,
            moves_money=far is not None,
        )
        return settings, {}

    def _faults(self, form: StormForm) -> FaultPlan:
        if form.plan is not None:
            return form.plan
        return self._faults_of_the_page() if form.faults == "page" else FaultPlan.parse(form.faults)

    def _faults_of_the_page(self) -> FaultPlan:
        """Return what is switched on, without what occurs in calls of the Operator API."""
        plan = self._sandbox.service.faults.plan
        return FaultPlan(
            rates={fault: rate for fault, rate in plan.rates.items() if fault not in API_FAULTS},
            nth={fault: number for fault, number in plan.nth.items() if fault not in API_FAULTS},
        )

    def _has_ledger(self) -> bool:
        return own_ledger(self._context.wallet) is not None

    def _choices(self) -> dict[str, Any]:  # Any: values of the template
        return {
            "has_ledger": self._has_ledger(),
            "switched_on": in_words(self._faults_of_the_page()),
            "fault_presets": list(FAULT_PRESETS.values()),
            "in_words": in_words,
            "presets": list(RETRY_PRESETS.values()),
            "most_bets": _MOST_BETS,
        }

    def _run_page(self, request: Request, run: "StormRun") -> Response:
        # Read before all else: a report that comes meanwhile is shown by the next request.
        at_work, report = run.job.is_running, run.report
        # The chart escapes what it writes itself.
        chart = "" if report is None else latencies_chart(report.latencies_ms)
        return self._context.page(
            request,
            "storm_run.html",
            run=run,
            at_work=at_work,
            problem=run.job.problem if run.posts else why_not_begun(run.job, run.url),
            report=report,
            chart=Markup(chart),  # noqa: S704
            shown=_SHOWN,
            with_history=_WITH_HISTORY,
            lines=_LINES,
            counts=_counts,
            in_words=in_words,
            short=short,
        )

    def _suggested(self) -> dict[str, str]:
        able = [each.player_id for each in self._players_with(_LEAST_CENTS)][:_SUGGESTED]
        return {
            "bets": "500",
            "who": "fresh" if self._has_ledger() else "known",
            "fresh": "50",
            "players": "\n".join(able),
            "faults": "all",
            "plan": "",
            "retries": DEFAULT_RETRIES,
            "concurrency": "16",
            "seed": "",
        }


def _counts(counts: Mapping[Any, int]) -> str:  # Any: names of states, codes or faults
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items())) or "none"
