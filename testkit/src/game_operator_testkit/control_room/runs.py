"""Test runs: a certification or a storm of the wallet, begun as the command line does, and its report."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from game_operator.profile import Profile
from game_operator.protocol.http import is_loopback
from game_operator.text import body
from game_operator_testkit.control_room.page_context import (
    Page,
    PlayerTyped,
    Whole,
    checked,
    player,
    problem,
    see_other,
)
from game_operator_testkit.control_room.run_process import RunProcess
from game_operator_testkit.provider.faults import FAULT_PRESETS

_MOST_BETS: Final = 5_000
_MOST_PLAYERS: Final = 200
_LONGEST: Final = 200
_REPORT: Final = "report.html"
_TRACE: Final = "storm.trace"
#: A report runs its own script. As a sandbox it has another origin than our pages, and loads nothing.
_REPORT_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; frame-ancestors 'self'; "
    "sandbox allow-scripts"
)
#: What an exit code of the command line means, and how it is coloured.
_ENDINGS: Final[Mapping[int, tuple[str, str]]] = {
    0: ("It passed.", "good"),
    1: ("There are findings.", "bad"),
    2: ("It could not begin.", "bad"),
    3: ("The wallet could not be reached.", "bad"),
}


def _bets(number: int) -> int:
    if not 1 <= number <= _MOST_BETS:
        raise problem(f"Write a number from 1 to {_MOST_BETS:,}.")
    return number


def _players(text: str) -> list[str]:
    # Ids are not trimmed: a blank at the end may be a part of one.
    players = [line for line in text.replace("\r\n", "\n").split("\n") if line.strip()]
    if not 0 < len(players) <= _MOST_PLAYERS:
        raise problem(f"Write 1 to {_MOST_PLAYERS} players, each on a line.")
    return [player(each) for each in players]


def _plan(text: str) -> str:
    if len(text) > _LONGEST or not text.isprintable():
        raise problem(f"Write at most {_LONGEST} characters, on one line.")
    return text


def _permitted(typed: str) -> str:
    if typed != "on":
        raise problem("The wallet is on another machine. Tick this if the run may move its players’ money.")
    return typed


class CertifyForm(BaseModel):
    """The form of a certification: two players, and groups or ids of scenarios; "" for all."""

    player_id: PlayerTyped
    other_player_id: PlayerTyped
    only: Annotated[str, AfterValidator(_plan)]

    def arguments(self, wallet_url: str, place: Path) -> list[str]:
        """Return the arguments of ``game-operator`` but for those that both kinds have."""
        only = [f"--only={self.only}"] if self.only else []
        players = [f"--player={self.player_id}", f"--other-player={self.other_player_id}"]
        return ["certify", wallet_url, *players, *only, f"--html={place / _REPORT}"]

    @property
    def players(self) -> Sequence[str]:
        """Whose money moves."""
        return self.player_id, self.other_player_id


class StormForm(BaseModel):
    """The form of a storm: how many bets, who plays, and what goes wrong."""

    bets: Annotated[Whole, AfterValidator(_bets)]
    players: Annotated[list[str], BeforeValidator(_players)]
    faults: Annotated[str, AfterValidator(_plan)]

    def arguments(self, wallet_url: str, place: Path) -> list[str]:
        """Return the arguments of ``game-operator`` but for those that both kinds have."""
        file = place / "players.txt"
        file.write_text("".join(f"{each}\n" for each in self.players), encoding="utf-8")
        plan = [f"--bets={self.bets}", f"--faults={self.faults or 'none'}"]
        files = [f"--trace={place / _TRACE}", f"--html={place / _REPORT}"]
        return ["storm", f"--wallet={wallet_url}", f"--players-file={file}", *plan, *files]


class _FarForm(BaseModel):
    moves_money: Annotated[Literal["on"], BeforeValidator(_permitted)]


_FORMS: Final[Mapping[str, type[CertifyForm | StormForm]]] = {"certification": CertifyForm, "storm": StormForm}


class RunsPage(Page):
    """The two forms, the run that is at work or was last, its report, and the button that stops it."""

    PATH: ClassVar[str] = "/runs"
    TITLE: ClassVar[str] = "Test runs"
    FORMS: ClassVar[Sequence[str]] = ("begin", "interrupt")
    _run: RunProcess | None = None

    def routes(self) -> Sequence[Route]:  # noqa: D102 - as every page
        files = [Route(f"{self.PATH}/{name}", self.file) for name in (_REPORT, _TRACE)]
        return [*super().routes(), *files]

    def stop(self) -> None:
        """End the run that is at work; the server stops."""
        if self._run is not None:
            self._run.end()

    async def show(self, request: Request) -> Response:
        """Show the forms, and the run."""
        return self._page(request, self._suggested(), {})

    async def begin(self, request: Request) -> Response:
        """Begin the run that the form asks for."""
        fields = await self._context.form(request)
        kind = _FORMS.get(fields.get("kind", ""))
        if kind is None:
            raise HTTPException(400, "There is no such kind of run, and nothing was begun.")
        form, problems = checked(kind, {name: fields.get(name, "") for name in kind.model_fields})
        if self._is_far():
            problems |= checked(_FarForm, {"moves_money": fields.get("moves_money", "")})[1]
        problems |= self._obstacle()
        if form is None or problems:
            return self._page(request, self._suggested() | fields, problems)
        # Without a thread: no other request comes between the look at the earlier run and this one.
        self._begin(fields["kind"], form)
        return see_other(self.PATH)

    async def interrupt(self, request: Request) -> Response:
        """Ask the run to end."""
        await self._context.form(request)
        if self._run is not None:
            self._run.interrupt()
        return see_other(self.PATH)

    async def file(self, request: Request) -> Response:
        """Send what the run has written: its report, or the trace of a storm."""
        name = request.url.path.rpartition("/")[2]
        content = None if self._run is None else self._run.written(name)
        if content is None:
            raise HTTPException(404, "The latest run has not written that.")
        if name == _REPORT:
            return Response(content, headers={"content-security-policy": _REPORT_POLICY}, media_type="text/html")
        return Response(content, headers={"content-disposition": f'attachment; filename="{name}"'})

    def _obstacle(self) -> dict[str, str]:
        if self._context.is_stopped:
            return {"run": "The sandbox stops, so nothing was begun."}
        if not self._sandbox.wallet_url or self._context.service_key is None:
            return {"run": "Nothing was begun: wallet and key are needed."}
        if self._run is not None and self._run.exit_code is None:
            return {"run": "A run is at work. Wait for its end, or stop it."}
        return {}

    def _begin(self, kind: str, form: CertifyForm | StormForm) -> None:
        earlier, sandbox = self._run, self._sandbox

        def arguments(place: Path) -> list[str]:
            shared = [f"--service-key={self._context.service_key}"]
            if sandbox.service.profile != Profile():
                (place / "profile.toml").write_text(sandbox.service.profile.to_toml(), encoding="utf-8")
                shared.append(f"--profile={place / 'profile.toml'}")
            if self._is_far():
                shared.append("--moves-money")
            return [*form.arguments(sandbox.wallet_url or "", place), *shared]

        def believe() -> None:
            # The run has moved their money, and is not in Live.
            for player_id in form.players:
                sandbox.service.balances.accept(player_id)

        self._run = RunProcess(kind, arguments, believe)
        if earlier is not None:
            earlier.end()

    def _page(self, request: Request, form: Mapping[str, str], problems: Mapping[str, str]) -> Response:
        run = self._run
        code = None if run is None else run.exit_code
        ending, tone = ("", "") if code is None else _ENDINGS.get(code, (f"It ended early (exit code {code}).", "bad"))
        return self._context.page(
            request,
            "runs.html",
            status=409 if "run" in problems else 422 if problems else 200,
            form=form,
            problems=problems,
            run=run,
            at_work=run is not None and code is None,
            ending=ending,
            tone=tone,
            printed="" if run is None else body(run.printed, longest=len(run.printed)),
            has_report=run is not None and run.written(_REPORT) is not None,
            has_trace=run is not None and run.written(_TRACE) is not None,
            presets=list(FAULT_PRESETS),
            service_key=self._context.service_key,
            is_far=self._is_far(),
        )

    def _suggested(self) -> dict[str, str]:
        able = [each.player_id for each in self._sandbox.service.balances.players() if each.last is not None]
        first, second, *_ = [*sorted(able), "", ""]
        return {
            "player_id": first,
            "other_player_id": second,
            "bets": "1000",
            "players": "\n".join(sorted(able)[:_MOST_PLAYERS]),
            "faults": "all",
        }

    def _is_far(self) -> bool:
        """Return whether the wallet is on another machine, whose money nobody moves by mistake."""
        host = urlsplit(self._sandbox.wallet_url or "").hostname or ""
        return bool(host) and not is_loopback(host)
