"""Lobby: the catalogue as the operator sees it, and a round to play."""

from collections.abc import Mapping, Sequence
from colorsys import hls_to_rgb
from hashlib import sha256
from typing import Annotated, ClassVar, Final, Literal, TypeAlias, get_args
from urllib.parse import urlencode

from pydantic import BaseModel, BeforeValidator, ValidationInfo
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from game_operator.codes import Genre
from game_operator.errors import GameOperatorError, TransportError
from game_operator.models import GameInfo
from game_operator_testkit.control_room.bets import leave_open
from game_operator_testkit.control_room.forms import CentsTyped, cents, checked, problem
from game_operator_testkit.control_room.outcomes import unreachable_wallet
from game_operator_testkit.control_room.page_context import Page, environment, see_other

#: Players whom the form suggests.
_OFFERED: Final = 50
#: Fields of the form that stand in the address when a round was played.
_KEPT: Final = ("player_id", "wager", "outcome", "won")
#: How a round may end.
Outcome: TypeAlias = Literal["rules", "win", "loss", "cancelled", "open"]


def _outcome(typed: str) -> str:
    if typed not in get_args(Outcome):
        raise problem("Choose one of the outcomes.")
    return typed


def _won(typed: str, info: ValidationInfo) -> int | None:
    outcome = info.data.get("outcome")
    if outcome != "win":
        # What was typed counts for a win alone; where scripts run, the field is disabled.
        return 0 if outcome == "loss" else None
    return cents(typed)


class PlayForm(BaseModel):
    """The form that plays a round, amounts in cents. The sandbox knows the limits."""

    player_id: str
    instance_id: str
    wager: CentsTyped
    outcome: Annotated[Outcome, BeforeValidator(_outcome)]
    won: Annotated[int | None, BeforeValidator(_won)]


def _chosen(request: Request) -> dict[str, str]:
    """Return which games are shown, by ``genre`` and by ``status``; what is not named stands for all."""
    return {name: value for name in ("genre", "status") if (value := request.query_params.get(name))}


class LobbyPage(Page):
    """The catalogue, its pictures and the form."""

    PATH: ClassVar[str] = "/"
    TITLE: ClassVar[str] = "Lobby"

    def routes(self) -> Sequence[Route]:  # noqa: D102 - as every page
        return [
            Route(self.PATH, self.show),
            Route("/play", self.play, methods=["POST"]),
            Route("/thumbnails/{game_id:path}.svg", self.thumbnail),
        ]

    async def show(self, request: Request) -> Response:
        """Show the catalogue, and the result of a round if the address names one."""
        query = request.query_params
        instance = self._context.instance(query.get("instance", self._sandbox.instance_id))
        form = {
            "player_id": query.get("player_id", self._context.likely_player()),
            "instance_id": "" if instance is None else instance.id,
            "wager": query.get("wager", "" if instance is None else f"{instance.bet_config.default_wager:f}"),
            "outcome": query.get("outcome", "rules"),
            "won": query.get("won", ""),
        }
        bet_ids, mistakes = self._context.played.get(query.get("played", ""), ((), ()))
        return self._page(request, form, {}, played=bet_ids, mistakes=mistakes)

    async def play(self, request: Request) -> Response:
        """Play a round."""
        fields = {"outcome": "rules"} | await self._context.form(request)
        typed = {name: fields.get(name, "") for name in PlayForm.model_fields}
        form, problems = checked(PlayForm, typed)
        if form is None:
            return self._page(request, typed, problems)
        try:
            played = await self._context.call_wallet(
                self._sandbox.play_round,
                player_id=form.player_id,
                instance_id=form.instance_id,
                wager_cents=form.wager,
                won_cents=form.won,
                cancel=form.outcome == "cancelled",
                settlement="lose" if form.outcome == "open" else "send",
            )
        except TransportError as unreachable:
            return self._page(request, typed, {"wallet": unreachable_wallet(self._sandbox, unreachable)}, status=502)
        except GameOperatorError as failed:
            return self._page(request, typed, {"round": str(failed)})
        for bet_id in played.unsent if form.outcome == "open" else ():
            leave_open(self._sandbox, bet_id)
        self._context.remember(played.round_id, played.bet_ids, played.problems)
        # The form stays filled in, to play another round.
        filled_in = {name: typed[name] for name in _KEPT if typed[name]}
        query = {**_chosen(request), "instance": form.instance_id, "played": played.round_id, **filled_in}
        return see_other(f"{self.PATH}?{urlencode(query)}#play")

    async def thumbnail(self, request: Request) -> Response:
        """Return the picture of a game."""
        game = next((game for game in self._context.games() if game.id == request.path_params["game_id"]), None)
        if game is None:
            raise HTTPException(404, "There is no such game.")
        return Response(thumbnail(game), headers={"cache-control": "max-age=300"}, media_type="image/svg+xml")

    def _page(
        self,
        request: Request,
        form: Mapping[str, str],
        problems: Mapping[str, str],
        *,
        played: Sequence[str] = (),
        mistakes: Sequence[str] = (),
        status: int = 200,
    ) -> Response:
        games, chosen = self._context.games(), _chosen(request)
        # Players whom the wallet knows: it has answered with their balance.
        players = [each.player_id for each in self._sandbox.service.balances.players() if each.last_cents is not None]
        return self._context.page(
            request,
            "lobby.html",
            status=422 if problems and status == 200 else status,
            games=[game for game in games if chosen.items() <= {"genre": game.genre, "status": game.status}.items()],
            catalogue=games,
            genres=sorted({str(game.genre) for game in games}),
            statuses=sorted({str(game.status) for game in games}),
            chosen=chosen,
            form=form,
            problems=problems,
            played=[(bet_id, self._context.bet(bet_id)) for bet_id in played],
            wallet_mistakes=mistakes,
            players=sorted(players[:_OFFERED]),
            total=len(games),
        )


def thumbnail(game: GameInfo) -> str:
    """Return the picture of *game* as SVG: the drawing of its genre, with colours and details that its id decides."""
    digest = sha256(game.id.encode("utf-8", "surrogatepass")).digest()
    # Neither brown nor olive: of the circle of hues, what lies between is left out.
    hue = 0.25 + digest[29] / 256 * 0.8
    # The accent lies across the circle, give or take an eighth.
    accent = hue + 0.5 + (digest[1] - 128) / 1024
    # A genre of a later version is any text, and must not become a path.
    genre = Genre(game.genre) if game.genre in set(Genre) else Genre.OTHER
    picture = environment().get_template(f"genres/{genre}.svg")
    return picture.render(
        digest=digest,
        ground=_hex(hue, 0.36, 0.5),
        depth=_hex(hue + 0.07, 0.16, 0.55),
        soft=_hex(hue, 0.62, 0.45),
        accent=_hex(accent, 0.62, 0.75),
    )


def _hex(hue: float, lightness: float, saturation: float) -> str:
    return "#" + "".join(f"{round(part * 255):02x}" for part in hls_to_rgb(hue % 1, lightness, saturation))
