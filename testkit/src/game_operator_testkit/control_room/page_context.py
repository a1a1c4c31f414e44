"""What every page works with: the sandbox, the templates, and how values are written."""

import asyncio
import secrets
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from jinja2 import Environment
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from game_operator.codes import GameStatus
from game_operator.models import GameInfo, GameInstance
from game_operator.protocol.operations import AnyBet
from game_operator.text import clean, iso_time, templates
from game_operator_testkit.control_room.amounts import money_in, units_in
from game_operator_testkit.control_room.bet_outcome import BetOutcome
from game_operator_testkit.control_room.forms import TOKEN_FIELD, read_form
from game_operator_testkit.control_room.outcomes import folded, row
from game_operator_testkit.control_room.status import status_of
from game_operator_testkit.sandbox.service.exchange_log import Exchange
from game_operator_testkit.sandbox.service.world import PlacedBet

if TYPE_CHECKING:
    from game_operator_testkit.sandbox.server import Sandbox

T = TypeVar("T")

#: How many wait for the wallet at once. All pages share a few dozen threads, and a wallet that hangs takes only these.
_MOST_CALLING: Final = 8
_MOST_PLAYED: Final = 200
#: Exchanges of the live log that are looked through.
LOOKED_THROUGH: Final = 1_000


class PageContext:
    """
    What the pages share.

    Args:
        sandbox: What is shown and used.
        navigation: The pages that each page links to.
        service_key: The file with the service's private key, or None.

    Attributes:
        is_stopped: Whether the server ends, and streams of events with it.
        played: The bets of each round or claim that was played here, and the wallet's mistakes, by its id. Not all of
            it is kept: the deliveries are in the live log, too.
    """

    is_stopped = False

    def __init__(
        self,
        sandbox: "Sandbox",
        navigation: "Sequence[type[Page]]",
        service_key: Path | None = None,
    ) -> None:
        self.sandbox: Sandbox = sandbox
        self.service_key: Path | None = service_key
        self._navigation = navigation
        self.played: dict[str, tuple[Sequence[str], Sequence[str]]] = {}
        self._token = secrets.token_urlsafe(32)
        self._calling = asyncio.Semaphore(_MOST_CALLING)

    def remember(self, played_id: str, bet_ids: "Sequence[str]", mistakes: "Sequence[str]") -> None:
        """Keep what was *played*, and forget the oldest of what is too much."""
        newest = self.sandbox.live.newest_webhook
        # While the wallet does not know the service's key, what it refuses is no mistake.
        is_refused_key = newest is not None and row(newest).is_refused_key
        self.played[played_id] = bet_ids, () if is_refused_key else mistakes
        if len(self.played) > _MOST_PLAYED:
            del self.played[next(iter(self.played))]

    def now_millis(self) -> int:
        """Return the service's time, Unix milliseconds."""
        return self.sandbox.service.clock()

    def likely_player(self) -> str:
        """Return the player of the newest call, to fill in forms."""
        recent = self.sandbox.live.recent()
        return next((exchange.player_id for exchange in recent if exchange.player_id), "p1")

    def games(self) -> Sequence[GameInfo]:
        """Return the catalogue."""
        return self.sandbox.world.games()

    def instance(self, instance_id: str) -> GameInstance | None:
        """Return the instance with this id, or None."""
        return next((each for game in self.games() for each in game.instances if each.id == instance_id), None)

    def instance_names(self) -> dict[str, str]:
        """Return the name of each instance by its id, in the order of the catalogue, those that are off included."""
        names = {}
        for game in self.games():
            why = "" if game.status == GameStatus.ACTIVE else f" ({game.status.replace('_', ' ').lower()})"
            for each in game.instances:
                names[each.id] = each.name + (why if each.active else " (off)")
        return names

    def currencies(self) -> dict[str, str]:
        """Return the currency of each instance by its id."""
        return {each.id: each.bet_config.currency for game in self.games() for each in game.instances}

    def bet(self, bet_id: str) -> BetOutcome:
        """Return a bet with the calls about it in the live log, oldest first."""
        bet = self.sandbox.world.bet(bet_id, now_millis=self.now_millis())
        return self._outcome(bet, self.calls_about(bet_id))

    def doubts(self, bets: Iterable[PlacedBet]) -> dict[str, BetOutcome]:
        """Return what became of those *bets*, by id, whose state the answers in the live log do not confirm."""
        calls: defaultdict[str, list[Exchange]] = defaultdict(list)
        for each in reversed(self.sandbox.live.recent(LOOKED_THROUGH)):
            calls[each.bet_id].append(each)
        outcomes = {bet.reference_id: self._outcome(bet, calls[bet.reference_id]) for bet in bets}
        return {bet_id: outcome for bet_id, outcome in outcomes.items() if outcome.confirmed is False}

    def _outcome(self, bet: AnyBet, calls: list[Exchange]) -> BetOutcome:
        service = self.sandbox.service
        mistakes = service.balances.mistakes()
        first = next((mistakes[each.number] for each in calls if each.number in mistakes), None)
        return BetOutcome(bet, calls, service.profile, first)

    def calls_about(self, bet_id: str) -> list[Exchange]:
        """Return the calls about a bet or grant in the live log, oldest first."""
        return [each for each in self.sandbox.live.recent(LOOKED_THROUGH) if each.bet_id == bet_id][::-1]

    async def call_wallet(self, work: Callable[..., T], *args: Any, **named: Any) -> T:
        """
        Return what *work* returns, done in a thread: a slow wallet must not hold up the pages.

        Any: the arguments are those of *work*.
        """
        async with self._calling:
            return await run_in_threadpool(work, *args, **named)

    async def form(self, request: Request) -> dict[str, str]:
        """Return the fields of a form of ours, as ``read_form`` does."""
        return await read_form(request, self._token)

    def page(self, request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """
        Return the page that *template* makes of *values*; a template that misses one raises.

        Any: the values are those of the template.
        """
        shared = {
            "here": request.url.path,
            "query": request.query_params,
            "instances": self.instance_names(),
            "currencies": self.currencies(),
        }
        return HTMLResponse(self.fragment(template, **shared, **values), status)

    def fragment(self, template: str, **values: Any) -> str:
        """Return the HTML that *template* makes of *values*; what UTF-8 cannot carry is escaped."""
        shared = {
            "places": self._navigation,
            "token_field": TOKEN_FIELD,
            "form_token": self._token,
            "status": status_of(self.sandbox),
        }
        html = environment().get_template(template).render(sandbox=self.sandbox, **shared, **values)
        # A lone surrogate in something that was recorded would else be an error of the server, again and again.
        return html.encode(errors="backslashreplace").decode()


class Page(ABC):
    """
    A page of the control room.

    Attributes:
        PATH: Where ``show`` answers.
        TITLE: Its name in the navigation.
        FORMS: The methods that take a form, by their names, which end its address.
    """

    PATH: ClassVar[str]
    TITLE: ClassVar[str]
    FORMS: ClassVar[Sequence[str]] = ()

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._sandbox = context.sandbox

    def routes(self) -> Sequence[Route]:
        """Return the routes of the page, its forms included."""
        forms = [Route(f"{self.PATH}/{form}", getattr(self, form), methods=["POST"]) for form in self.FORMS]
        return [Route(self.PATH, self.show), *forms]

    @abstractmethod
    async def show(self, request: Request) -> Response:
        """Show the page."""

    def stop(self) -> None:  # noqa: B027 - most pages have nothing to end
        """End what the page has begun; the server stops."""


def see_other(path: str) -> RedirectResponse:
    """Return what a form answers: the page to look at next."""
    return RedirectResponse(path, 303)


@cache
def environment() -> Environment:
    """Return the templates of the pages."""
    filters = (clipped, clock_time, folded, money_in, units_in)
    return templates(Path(__file__).with_name("templates"), *filters)


def clipped(text: str, most: int) -> str:
    """Return the first *most* characters of *text*, in which nothing hides, and … if there are more."""
    return clean(text[:most]) + ("…" if len(text) > most else "")


def clock_time(at_millis: int) -> str:
    """Return the time of the day in UTC, to the millisecond: ``14:03:59.120``."""
    return iso_time(at_millis)[11:23]
