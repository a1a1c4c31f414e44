"""What every page works with: the sandbox, the templates, and the token of our forms."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse

from game_operator.control_room import words
from game_operator.control_room.forms import TOKEN_FIELD, Form, read_form
from game_operator.provider.latency_chart import coordinate

if TYPE_CHECKING:
    from game_operator.sandbox.server import Sandbox

__all__ = ["Desk", "Place"]

T = TypeVar("T")

#: How many wait for the wallet at once. All pages share a few dozen threads, and a wallet that hangs takes only these.
_MOST_CALLING: Final = 8

_TEMPLATES: Final = Path(__file__).with_name("templates")


@dataclass(frozen=True, slots=True)
class Place:
    """An entry of the navigation."""

    path: str
    title: str


class Desk:
    """
    What the pages share.

    Args:
        sandbox: What is shown and used.
        places: The navigation.
    """

    def __init__(self, sandbox: "Sandbox", places: Sequence[Place]) -> None:
        self.sandbox = sandbox
        self._places = tuple(places)
        self._token = secrets.token_urlsafe(32)
        self._calling = asyncio.Semaphore(_MOST_CALLING)

    def now_millis(self) -> int:
        """Return the service's time, Unix milliseconds."""
        return self.sandbox._clock()

    def likely_player(self) -> str:
        """Return whom a form is likely about: the player who was played for last."""
        recent = self.sandbox.live.recent()
        return next((exchange.player_id for exchange in recent if exchange.player_id), "p1")

    async def done_by_wallet(self, work: Callable[..., T], *args: Any) -> T:
        """
        Return what *work* returns, done in a thread: the wallet may take its time, and the pages shall not.

        Any: what *work* takes is its own affair.
        """
        async with self._calling:
            return await run_in_threadpool(work, *args)

    async def form(self, request: Request) -> Form:
        """
        Return what the form has sent.

        Raises:
            NotServedError: It is too long, or none of ours.
        """
        return await read_form(request, self._token)

    def page(self, request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """
        Return the page that *template* makes of *values*; a template that misses one raises.

        Any: what a template takes is its own affair.
        """
        return HTMLResponse(self.fragment(template, here=request.url.path, **values), status)

    def fragment(self, template: str, **values: Any) -> str:
        """Return the HTML that *template* makes of *values*; what UTF-8 cannot carry is escaped."""
        shared = {"places": self._places, "token_field": TOKEN_FIELD, "form_token": self._token}
        html = environment().get_template(template).render(sandbox=self.sandbox, **shared, **values)
        # A lone surrogate in whatever was recorded would else be an error of the server, again and again.
        return html.encode(errors="backslashreplace").decode()


@cache
def environment() -> Environment:
    """Return the templates: everything is escaped, and a name that is missing is an error."""
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in words.__all__:
        made.filters[name] = getattr(words, name)
    made.filters["n"] = coordinate
    return made
