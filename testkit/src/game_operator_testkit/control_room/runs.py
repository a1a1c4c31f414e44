"""Test runs: a certification or a storm of the wallet, begun as the command line does, and its report."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from game_operator.profile import Profile
from game_operator.protocol.http import is_loopback
from game_operator_testkit.control_room.page_context import Page, see_other
from game_operator_testkit.control_room.run_process import RunProcess
from game_operator_testkit.provider.faults import FAULT_PRESETS
from game_operator_testkit.provider.message_text import body

#: Players that the form of a storm suggests.
_SUGGESTED: Final = 200
_REPORT: Final = "report.html"
_TRACE: Final = "storm.trace"
#: As a sandbox, a report has another origin than our pages; it runs nothing, and loads nothing.
_REPORT_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'; sandbox"
#: What an exit code of the command line means, and how it is coloured.
_ENDINGS: Final[Mapping[int, tuple[str, str]]] = {
    0: ("It passed.", "good"),
    1: ("There are findings.", "bad"),
    2: ("It could not begin.", "bad"),
    3: ("The wallet could not be reached.", "bad"),
}


def _certification(form: Mapping[str, str], wallet_url: str, place: Path) -> list[str]:
    only = [f"--only={form['only']}"] if form["only"] else []
    players = [f"--player={form['player_id']}", f"--other-player={form['other_player_id']}"]
    return ["certify", wallet_url, *players, *only, f"--html={place / _REPORT}"]


def _storm(form: Mapping[str, str], wallet_url: str, place: Path) -> list[str]:
    file = place / "players.txt"
    file.write_text("".join(f"{each}\n" for each in _players(form)), encoding="utf-8")
    plan = [f"--bets={form['bets']}", f"--faults={form['faults'] or 'none'}"]
    files = [f"--trace={place / _TRACE}", f"--html={place / _REPORT}"]
    return ["storm", f"--url={wallet_url}", f"--players-file={file}", *plan, *files]


def _players(form: Mapping[str, str]) -> list[str]:
    """Return whose money moves."""
    # Ids are not trimmed: a blank at the end may be a part of one.
    lines = [line for line in form["players"].replace("\r\n", "\n").split("\n") if line.strip()]
    return lines if form["kind"] == "storm" else [form["player_id"], form["other_player_id"]]


#: How the arguments of ``game-operator`` are made, by the kind of run.
_KINDS: Final[Mapping[str, Callable[[Mapping[str, str], str, Path], list[str]]]] = {
    "certification": _certification,
    "storm": _storm,
}


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
        return self._page(request, self._suggested())

    async def begin(self, request: Request) -> Response:
        """Begin the run that the form asks for."""
        fields = await self._context.form(request)
        form = dict.fromkeys(self._suggested(), "") | fields
        if form.get("kind") not in _KINDS or "\0" in "".join(form.values()):
            raise HTTPException(400, "There is no such kind of run, or a field has a NUL character. Nothing was begun.")
        if problem := self._obstacle():
            return self._page(request, self._suggested() | fields, problem)
        # Without a thread: no other request comes between the look at the earlier run and this one.
        self._begin(form)
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

    def _obstacle(self) -> str:
        if self._context.is_stopped:
            return "The sandbox stops, so nothing was begun."
        if not self._sandbox.wallet_url or self._context.service_key is None:
            return "Nothing was begun: wallet and key are needed."
        if self._run is not None and self._run.exit_code is None:
            return "A run is at work. Wait for its end, or stop it."
        return ""

    def _begin(self, form: Mapping[str, str]) -> None:
        earlier, sandbox = self._run, self._sandbox

        def arguments(place: Path) -> list[str]:
            made = _KINDS[form["kind"]](form, sandbox.wallet_url or "", place)
            made.append(f"--service-private-key={self._context.service_key}")
            if sandbox.service.profile != Profile():
                (place / "profile.toml").write_text(sandbox.service.profile.to_toml(), encoding="utf-8")
                made.append(f"--profile={place / 'profile.toml'}")
            if form.get("moves_money") == "on":
                made.append("--moves-money")
            return made

        def believe() -> None:
            # The run has moved their money, and is not in Live.
            for player_id in _players(form):
                sandbox.service.balances.accept(player_id)

        self._run = RunProcess(form["kind"], arguments, believe)
        if earlier is not None:
            earlier.end()

    def _page(self, request: Request, form: Mapping[str, str], problem: str = "") -> Response:
        run = self._run
        code = None if run is None else run.exit_code
        ending, tone = ("", "") if code is None else _ENDINGS.get(code, (f"It ended early (exit code {code}).", "bad"))
        return self._context.page(
            request,
            "runs.html",
            status=409 if problem else 200,
            form=form,
            problem=problem,
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
        able = [each.player_id for each in self._sandbox.service.balances.players() if each.last_cents is not None]
        first, second, *_ = [*sorted(able), "", ""]
        return {
            "player_id": first,
            "other_player_id": second,
            "bets": "1000",
            "players": "\n".join(sorted(able)[:_SUGGESTED]),
            "faults": "all",
        }

    def _is_far(self) -> bool:
        """Return whether the wallet is on another machine, whose money nobody moves by mistake."""
        host = urlsplit(self._sandbox.wallet_url or "").hostname or ""
        return bool(host) and not is_loopback(host)
