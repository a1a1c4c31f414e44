"""What the pages of test runs share: the runs that are kept, the one at work, and who may play in them."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Generic, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from game_operator.errors import GameOperatorError, RequestNotSentError, TransportError
from game_operator.ledger.sql import SqlLedger, are_balances_elsewhere
from game_operator.protocol.http import is_loopback
from game_operator.text import clean
from game_operator_testkit.control_room.jobs import Job
from game_operator_testkit.control_room.page_context import WHOLE_NUMBER, Page, PageContext, problem, see_other
from game_operator_testkit.control_room.runs.shelf import MOST_RUNS, BusyError, KeptRun, Shelf
from game_operator_testkit.sandbox.dealing.balances import PlayerBalance

if TYPE_CHECKING:
    from game_operator.wallet import JoinedWallet, Wallet

#: A run, and what its form asks for.
R = TypeVar("R", bound=KeptRun)
S = TypeVar("S")

#: What begins is sometimes over by then, and has always something to show.
_WAIT_SECONDS: Final = 0.5
#: Of a text that the wallet has a part in.
_LONGEST: Final = 400


class RunsPage(Page, Generic[R, S]):
    """
    A page on which runs are begun, watched and stopped.

    Attributes:
        KIND: What a run is called.
        TEMPLATE: Of the page with the form.
    """

    KIND: ClassVar[str]
    TEMPLATE: ClassVar[str]
    FORMS: ClassVar[Sequence[str]] = ("start", "interrupt")

    def __init__(self, context: PageContext) -> None:
        super().__init__(context)
        self._shelf: Shelf[R] = Shelf(self.KIND, context.in_use)

    def routes(self) -> Sequence[Route]:  # noqa: D102 - as every page
        return [*super().routes(), Route(f"{self.PATH}/runs/{{number:int}}", self.run)]

    def stop(self) -> None:
        """Let the run that is at work end; the server stops."""
        self._shelf.interrupt()

    async def show(self, request: Request) -> Response:
        """Show the form and the runs."""
        return await self._page(request, await run_in_threadpool(self._suggested), {})

    async def start(self, request: Request) -> Response:
        """Begin a run, and show it."""
        fields = await self._context.form(request)
        settings, problems = await run_in_threadpool(self._read, fields)
        if settings is None:
            return await self._page(request, fields, problems)
        try:
            run = await run_in_threadpool(self._begin, settings)
        except BusyError as busy:
            return await self._page(request, fields, {}, failed=str(busy), status=409)
        return await self._shown(run)

    async def run(self, request: Request) -> Response:
        """Show how far a run is, and what it found."""
        return await run_in_threadpool(self._run_page, request, self._run(request.path_params["number"]))

    async def interrupt(self, request: Request) -> Response:
        """Let the run that is at work finish what is under way, and end."""
        await self._context.form(request)
        self._shelf.interrupt()
        newest = next(iter(self._shelf.latest()), None)
        if newest is None:
            return see_other(self.PATH)
        return await self._shown(newest)

    @abstractmethod
    def _suggested(self) -> dict[str, str]:
        """Return what the form begins with."""

    @abstractmethod
    def _read(self, fields: Mapping[str, str]) -> tuple[S | None, dict[str, str]]:
        """Return what the form asks for, None if it cannot be done; and what is wrong with it, by field."""

    @abstractmethod
    def _begin(self, settings: S) -> R:
        """Begin a run; raise ``BusyError`` while another is at work."""

    @abstractmethod
    def _choices(self) -> dict[str, Any]:  # Any: values of the template
        """Return what the form has besides its fields."""

    @abstractmethod
    def _run_page(self, request: Request, run: R) -> Response:
        """Return the page of *run*."""

    async def _page(
        self,
        request: Request,
        form: Mapping[str, str],
        problems: Mapping[str, str],
        *,
        failed: str = "",
        status: int = 200,
    ) -> Response:
        choices = await run_in_threadpool(self._choices)
        return self._context.page(
            request,
            self.TEMPLATE,
            status=422 if problems else status,
            form=form,
            problems=problems,
            failed=failed,
            runs=self._shelf.latest(),
            is_far=self._is_far(),
            most_runs=MOST_RUNS,
            short=short,
            **choices,
        )

    async def _shown(self, run: R) -> Response:
        await run_in_threadpool(run.job.wait, _WAIT_SECONDS)
        return see_other(f"{self.PATH}/runs/{run.number}")

    def _run(self, number: int | None) -> R:
        """Return the run with this number, as it stands in an address; raise 404 if it is not kept."""
        run = None if number is None else self._shelf.run(number)
        if run is None:
            raise HTTPException(404, "There is no such run, or it is not kept any more: the sandbox keeps the latest.")
        return run

    def _players_with(self, least_cents: int) -> list[PlayerBalance]:
        """Return the players whose last balance is enough, by their ids."""
        players = self._sandbox.service.balances.players()
        able = (each for each in players if each.last is not None and each.last.reported_cents >= least_cents)
        return sorted(able, key=lambda each: each.player_id)

    def _is_far(self) -> bool:
        """Return whether the wallet is on another machine, whose money nobody moves by mistake."""
        try:
            host = urlsplit(self._sandbox.wallet_url or "").hostname or ""
        except ValueError:
            return False
        return bool(host) and not is_loopback(host)


def _permitted(typed: str) -> bool:
    if typed != "on":
        raise problem("The wallet is on another machine. Tick this if the run may move its players’ money.")
    return True


class FarForm(BaseModel):
    """What is asked for besides where the wallet is on another machine."""

    moves_money: Annotated[bool, BeforeValidator(_permitted)]


def own_ledger(wallet: "Wallet | JoinedWallet | None") -> SqlLedger | None:
    """Return the ledger of *wallet* if accounts can be opened in it; None if balances are elsewhere. It is read."""
    ledger = getattr(wallet, "ledger", None)
    try:
        return None if not isinstance(ledger, SqlLedger) or are_balances_elsewhere(ledger) else ledger
    except GameOperatorError:
        return None


def number_in(text: str) -> int | None:
    """Return the number of a run in a form or an address; None if it is not one."""
    return int(text) if WHOLE_NUMBER.fullmatch(text) else None


def typed(form: type[BaseModel], fields: Mapping[str, str]) -> dict[str, str]:
    """Return what *fields* have for *form*; what is missing is empty."""
    return {name: fields.get(name, "") for name in form.model_fields}


def short(text: str) -> str:
    """Return a text that the wallet has a part in, so that nothing hides in it, and it stays short."""
    seen = clean(text)
    return seen if len(seen) <= _LONGEST else f"{seen[:_LONGEST]}…"


def why_not_begun(job: Job, url: str) -> str:
    """Return why a run could not begin with the wallet at *url*, and what to look at."""
    failed, place = job.failed, urlsplit(url).netloc
    if isinstance(failed, RequestNotSentError):
        return f"Nobody answers at {place}, so nothing was sent. Is the wallet running? ({failed.reason})"
    if isinstance(failed, TransportError) and failed.timed_out:
        waited = f"{failed.elapsed_seconds:.0f} s"
        return f"The wallet at {place} gave no answer within {waited}. Look into its log: what does it wait for?"
    return job.problem
