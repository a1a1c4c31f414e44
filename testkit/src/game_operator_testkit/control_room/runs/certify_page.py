"""Certify: a certification of the wallet, begun here, watched while it is at work, and its report."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from game_operator.errors import ConfigurationError
from game_operator_testkit.control_room.page_context import PlayerTyped, Whole, checked, problem
from game_operator_testkit.control_room.runs.runs_page import (
    FarForm,
    RunsPage,
    number_in,
    own_ledger,
    short,
    typed,
    why_not_begun,
)

if TYPE_CHECKING:
    # Loaded when the page is used: a sandbox starts without the certifier.
    from game_operator_testkit.control_room.runs.certify_run import CertifyRun, CertifySettings

#: What both players need, in cents.
_LEAST_CENTS: Final = 1_000
_MOST_OPERATIONS: Final = 2_000
#: Fields of the form: one for each group.
_GROUP: Final = "group-"
#: Balances that are listed beside the form.
_MOST_PLAYERS: Final = 20


def _operations(number: int) -> int:
    if not 0 <= number <= _MOST_OPERATIONS:
        raise problem(f"Write a number from 0 to {_MOST_OPERATIONS:,}.")
    return number


class CertifyForm(BaseModel):
    """The form that begins a certification; groups and ids are read beside it."""

    player_id: PlayerTyped
    other_player_id: PlayerTyped
    random_operations: Annotated[Whole, AfterValidator(_operations)]


class CertifyPage(RunsPage["CertifyRun", "CertifySettings"]):
    """The form, the runs that are kept, each run with its report and its files, and two runs compared."""

    PATH: ClassVar[str] = "/certify"
    TITLE: ClassVar[str] = "Certify"
    KIND: ClassVar[str] = "certification"
    TEMPLATE: ClassVar[str] = "certify.html"

    def routes(self) -> Sequence[Route]:  # noqa: D102 - as every page
        return [
            *super().routes(),
            Route(f"{self.PATH}/compare", self.compare),
            Route(f"{self.PATH}/runs/{{number:int}}/{{name}}", self.file),
        ]

    async def file(self, request: Request) -> Response:
        """Send the report of a run as a file."""
        from game_operator_testkit.control_room.runs.certify_report import FILES

        run, file = self._run(request.path_params["number"]), FILES.get(request.path_params["name"])
        if file is None or run.report is None:
            raise HTTPException(404)
        text = await run_in_threadpool(file.make, run.report)
        return Response(text.encode(), media_type=file.media_type, headers=dict(file.headers))

    async def compare(self, request: Request) -> Response:
        """Show what has changed from one run to another."""
        from game_operator_testkit.certifier.report.comparison import compared

        before, after = (self._run(number_in(request.query_params.get(name, ""))) for name in ("before", "after"))
        if before.report is None or after.report is None:
            raise HTTPException(404, "Only runs that have ended with a report can be compared.")
        return self._context.page(
            request,
            "certify_compare.html",
            before=before,
            after=after,
            comparison=compared(before.report, after.report),
            short=short,
        )

    def _begin(self, settings: "CertifySettings") -> "CertifyRun":
        from game_operator_testkit.control_room.runs import certify_run

        supplies = certify_run.supplies_of(own_ledger(self._context.wallet), settings.random_operations)
        has_ledger = self._context.wallet is not None
        return self._shelf.begin(
            lambda number: certify_run.begun(number, settings, self._sandbox, leaves_bets=has_ledger),
            lambda run, job: certify_run.play(run, job, self._sandbox, supplies),
            (settings.player_id, settings.other_player_id),
        )

    def _read(self, fields: Mapping[str, str]) -> "tuple[CertifySettings | None, dict[str, str]]":
        from game_operator_testkit.certifier.selection import selected
        from game_operator_testkit.control_room.runs.certify_run import CertifySettings

        form, problems = checked(CertifyForm, typed(CertifyForm, fields))
        if form is not None and form.player_id == form.other_player_id:
            problems["other_player_id"] = "Choose another player: a run needs two, and compares them."
        only = [name.removeprefix(_GROUP) for name in fields if name.startswith(_GROUP)]
        only += fields.get("ids", "").replace(",", " ").split()
        try:
            selected(only, ())
        except ConfigurationError:
            problems["ids"] = "Write ids of scenarios, such as B01 or B01, C04. The list below has those of each group."
        if not only:
            problems["ids"] = "Choose a group, or write the id of a scenario."
        if fields.get("instance_id", "") not in self._context.instance_names():
            problems["instance_id"] = "Choose one of the games."
        if not self._sandbox.wallet_url:
            problems["player_id"] = "The sandbox knows no wallet, so there is nothing to certify."
        far = None
        if self._is_far():
            far, more = checked(FarForm, typed(FarForm, fields))
            problems |= more
        if form is None or problems:
            return None, problems
        settings = CertifySettings(
            **form.model_dump(), only=tuple(only), instance_id=fields["instance_id"], moves_money=far is not None
        )
        return settings, {}

    def _choices(self) -> dict[str, Any]:  # Any: values of the template
        from game_operator_testkit.control_room.runs.certify_run import groups, out_of_reach, supplies_of

        return {
            "groups": groups(),
            "missing": out_of_reach(supplies_of(own_ledger(self._context.wallet), 1), self._sandbox),
            "players": self._players_with(_LEAST_CENTS)[:_MOST_PLAYERS],
            "wrong": [each.player_id for each in self._sandbox.service.balances.players() if not each.agrees],
        }

    def _run_page(self, request: Request, run: "CertifyRun") -> Response:
        from game_operator_testkit.certifier.report.comparison import compared
        from game_operator_testkit.certifier.report.summary import Summary, by_reason
        from game_operator_testkit.control_room.runs.certify_report import MOST_CAUSES, causes_shown
        from game_operator_testkit.control_room.runs.certify_run import why_not_tried

        # Read before all else: a report that comes meanwhile is shown by the next request.
        at_work, report = run.job.is_running, run.report
        earlier = None if report is None else self._ended_before(run)
        before = None if earlier is None else earlier.report
        return self._context.page(
            request,
            "certify_run.html",
            run=run,
            at_work=at_work,
            problem=why_not_begun(run.job, run.url),
            verdicts=list(run.verdicts),
            report=report,
            summary=None if report is None else Summary(report),
            causes=[] if report is None else causes_shown(report),
            skipped={} if report is None else by_reason(report.skipped),
            earlier=earlier,
            change=None if before is None or report is None else compared(before, report),
            most_causes=MOST_CAUSES,
            short=short,
            reason=why_not_tried,
        )

    def _ended_before(self, run: "CertifyRun") -> "CertifyRun | None":
        earlier = (each for each in self._shelf.latest() if each.number < run.number and each.report is not None)
        return next(earlier, None)

    def _suggested(self) -> dict[str, str]:
        """Return what the form begins with: all groups, and two players who have enough."""
        from game_operator_testkit.certifier.report.verdicts import GROUPS

        able = [each.player_id for each in self._players_with(_LEAST_CENTS)] + ["", ""]
        return {
            "player_id": able[0],
            "other_player_id": able[1],
            "random_operations": "100",
            "instance_id": self._sandbox.instance_id,
            **{f"{_GROUP}{letter}": "on" for letter in GROUPS},
        }
