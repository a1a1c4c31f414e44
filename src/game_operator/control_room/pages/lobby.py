"""Lobby: the catalogue as the operator sees it, and a round to play."""

import re
from collections import OrderedDict
from collections.abc import Sequence
from colorsys import hls_to_rgb
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from game_operator.codes import GameStatus, Genre
from game_operator.control_room.desk import Desk
from game_operator.control_room.exchanges import ExchangeRow, folded, row
from game_operator.control_room.instances import currency_of
from game_operator.control_room.play_form import Outcome, PlayForm, read_play_form
from game_operator.control_room.refusal import NotServedError
from game_operator.control_room.streams import Streams
from game_operator.control_room.verdict import headline, unreachable_wallet
from game_operator.errors import GameOperatorError, TransportError
from game_operator.models import GameInfo, GameInstance
from game_operator.sandbox.service.state import PlayedRound

__all__ = ["PATH", "TITLE", "routes"]

PATH: Final = "/"
TITLE: Final = "Lobby"

_SEE_OTHER: Final = 303
#: Rounds whose result can be looked at again.
_REMEMBERED: Final = 200
_LOOKED_THROUGH: Final = 1_000

#: Of every bet.
_FIRST_CALL: Final = "/withdraw"

#: Players whom the form suggests.
_OFFERED: Final = 50

#: Fields of the form that stand in the address when a round was played.
_KEPT: Final = ("player_id", "wager", "outcome", "won")

_OUTCOMES: Final = {
    Outcome.RULES: "By the game’s rules",
    Outcome.WIN: "Win",
    Outcome.LOSS: "Loss",
    Outcome.CANCELLED: "Cancelled",
}

#: A drawing for each genre (spec §2.5), and the colours in these files: ground, its darker end, a softer one, accent.
_DRAWINGS: Final = Path(__file__).parents[1] / "static" / "genres"
_DRAWN_IN: Final = ("#2e688a", "#13273f", "#7bb1cb", "#e6a857")


def routes(desk: Desk, streams: Streams) -> Sequence[Route]:  # noqa: ARG001 - as every page
    """Return the catalogue, its pictures and the form."""
    lobby = _Lobby(desk)
    return [
        Route("/", lobby.show),
        Route("/play", lobby.play, methods=["POST"]),
        Route("/thumbnails/{game_id:path}.svg", lobby.thumbnail),
    ]


class _BetPlayed(NamedTuple):
    """
    A bet of a round that was played.

    Attributes:
        bet_id: The bet.
        headline: What became of it.
        problems: What the wallet did in its round that no sound wallet does.
        rows: What was said about it, equal lines as one.
    """

    bet_id: str
    headline: str
    problems: tuple[str, ...]
    rows: list[tuple[ExchangeRow, int]]


@dataclass(frozen=True, slots=True)
class _Filter:
    """Which games are shown; "" stands for all."""

    genre: str
    status: str

    def admits(self, game: GameInfo) -> bool:
        return self.genre in {"", game.genre} and self.status in {"", game.status}

    def link(self, path: str = "/", **more: str) -> str:
        """Return the address of *path* so filtered, with *more* in its query."""
        chosen = {"genre": self.genre, "status": self.status} | more
        query = urlencode({name: value for name, value in chosen.items() if value})
        return f"{path}?{query}" if query else path


class _Lobby:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._sandbox = desk.sandbox
        #: The bets of each round that was played here, and the wallet's mistakes, by the round's id.
        self._played: OrderedDict[str, tuple[tuple[str, ...], tuple[str, ...]]] = OrderedDict()

    async def show(self, request: Request) -> Response:
        instance = self._instance(request.query_params.get("instance", self._sandbox.instance_id))
        form = _filled_in(request, instance, self._desk.likely_player())
        return self._page(request, form, played=self._result(request.query_params.get("played", "")))

    async def play(self, request: Request) -> Response:
        form, asked = read_play_form(await self._desk.form(request), self._playable_instances())
        if not self._sandbox.wallet_url:
            form.problems["round"] = "There is no wallet to take the wager from, so nothing was played."
            asked = None
        if asked is None:
            return self._page(request, form, status=422)
        newest = self._sandbox.live.recent(1)
        try:
            played = await self._desk.done_by_wallet(partial(self._sandbox.play_round, **asked))
        except TransportError as unreachable:
            form.problems["round"] = unreachable_wallet(self._sandbox.wallet_url or "", unreachable)
            begun = self._begun(form.player_id, after=newest[0].number if newest else 0)
            return self._page(request, form, status=502, played=begun, unreachable=True)
        except GameOperatorError as failed:
            form.problems["round"] = str(failed)
            return self._page(request, form, status=422)
        self._remember(played)
        # The form stays filled in: whoever plays one round plays another.
        filled_in = {name: getattr(form, name) for name in _KEPT}
        chosen = _chosen(request).link(instance=form.instance_id, played=played.round_id, **filled_in)
        return RedirectResponse(f"{chosen}#play", _SEE_OTHER)

    async def thumbnail(self, request: Request) -> Response:
        game = next((game for game in self._games() if game.id == request.path_params["game_id"]), None)
        if game is None:
            raise NotServedError(404, "There is no such game.")
        return Response(thumbnail(game), headers={"cache-control": "max-age=300"}, media_type="image/svg+xml")

    def _page(
        self,
        request: Request,
        form: PlayForm,
        *,
        status: int = 200,
        played: Sequence[_BetPlayed] = (),
        unreachable: bool = False,
    ) -> Response:
        games, chosen = self._games(), _chosen(request)
        return self._desk.page(
            request,
            "lobby.html",
            status=status,
            games=[game for game in games if chosen.admits(game)],
            playable=_playable(games),
            genres=sorted({str(game.genre) for game in games}),
            statuses=sorted({str(game.status) for game in games}),
            chosen=chosen,
            form=form,
            outcomes=_OUTCOMES,
            played=played,
            unreachable=unreachable,
            players=self._players(),
            total=len(games),
        )

    def _players(self) -> list[str]:
        """Return players whom the wallet knows, as far as it has told their balance."""
        players = self._sandbox.service.balances.players()
        return sorted([player.player_id for player in players if player.last is not None][:_OFFERED])

    def _games(self) -> Sequence[GameInfo]:
        return self._sandbox.world.games(self._sandbox.operator_id)

    def _instance(self, instance_id: str) -> GameInstance | None:
        return next((each for game in self._games() for each in game.instances if each.id == instance_id), None)

    def _playable_instances(self) -> dict[str, GameInstance]:
        return {each.id: each for _, instances in _playable(self._games()) for each in instances}

    def _remember(self, played: PlayedRound) -> None:
        # Not all of it: the deliveries are in the live log, too.
        self._played[played.round_id] = played.bet_ids, played.problems
        while len(self._played) > _REMEMBERED:
            self._played.popitem(last=False)

    def _result(self, round_id: str) -> list[_BetPlayed]:
        bet_ids, problems = self._played.get(round_id, ((), ()))
        return [self._bet(bet_id, problems) for bet_id in bet_ids]

    def _begun(self, player_id: str, *, after: int) -> list[_BetPlayed]:
        """Return the bet of *player_id* whose calls are in the log *after* a number; none if it may be one of many."""
        new = [each for each in self._sandbox.live.recent(_LOOKED_THROUGH) if each.number > after]
        bet_ids = {each.bet_id for each in new if each.player_id == player_id and each.path == _FIRST_CALL}
        return [self._bet(bet_id, ()) for bet_id in bet_ids] if len(bet_ids) == 1 else []

    def _bet(self, bet_id: str, problems: tuple[str, ...]) -> _BetPlayed:
        bet = self._sandbox.world.bet(self._sandbox.operator_id, bet_id, now_millis=self._desk.now_millis())
        about = [each for each in self._sandbox.live.recent(_LOOKED_THROUGH) if each.bet_id == bet_id][::-1]
        told = headline(bet, about, currency_of(self._sandbox, bet))
        return _BetPlayed(bet_id, told, problems, folded(map(row, about)))


def _chosen(request: Request) -> _Filter:
    return _Filter(request.query_params.get("genre", ""), request.query_params.get("status", ""))


def _filled_in(request: Request, instance: GameInstance | None, player_id: str) -> PlayForm:
    query = request.query_params
    usual = "" if instance is None else f"{instance.bet_config.default_wager:f}"
    return PlayForm(
        player_id=query.get("player_id", player_id),
        instance_id="" if instance is None else instance.id,
        wager=query.get("wager", usual),
        outcome=query.get("outcome", Outcome.RULES),
        won=query.get("won", ""),
    )


def _playable(games: Sequence[GameInfo]) -> list[tuple[GameInfo, list[GameInstance]]]:
    active = [
        (game, [each for each in game.instances if each.active]) for game in games if game.status == GameStatus.ACTIVE
    ]
    return [(game, instances) for game, instances in active if instances]


def thumbnail(game: GameInfo) -> str:
    """Return the picture of *game* as SVG: the drawing of its genre, in colours that follow from its id."""
    digest = sha256(game.id.encode("utf-8", "surrogatepass")).digest()
    # Neither brown nor olive: of the circle of hues, what lies between is left out.
    hue = 0.25 + digest[29] / 256 * 0.8
    # The accent lies across the circle, give or take an eighth.
    accent = hue + 0.5 + (digest[1] - 128) / 1024
    own = (_hex(hue, 0.36, 0.5), _hex(hue + 0.07, 0.16, 0.55), _hex(hue, 0.62, 0.45), _hex(accent, 0.62, 0.75))
    colours = dict(zip(_DRAWN_IN, own, strict=True))
    # A genre of a later version is any text, and must not become a path.
    drawing = _drawing(Genre(game.genre) if game.genre in set(Genre) else Genre.OTHER)
    return re.sub("|".join(_DRAWN_IN), lambda found: colours[found[0]], drawing)


@cache
def _drawing(genre: Genre) -> str:
    return (_DRAWINGS / f"{genre}.svg").read_text(encoding="utf-8")


def _hex(hue: float, lightness: float, saturation: float) -> str:
    return "#" + "".join(f"{round(part * 255):02x}" for part in hls_to_rgb(hue % 1, lightness, saturation))
