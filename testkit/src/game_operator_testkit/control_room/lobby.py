"""Lobby: the catalogue as the operator sees it, and a round to play."""

from collections.abc import Mapping, Sequence
from colorsys import hls_to_rgb
from hashlib import sha256
from typing import Annotated, ClassVar, Final, Literal, TypeAlias, get_args
from urllib.parse import urlencode

from pydantic import AfterValidator, BaseModel, BeforeValidator, ValidationInfo
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from game_operator.codes import GameStatus, Genre
from game_operator.errors import GameOperatorError, TransportError
from game_operator.models import GameInfo, GameInstance
from game_operator_testkit.control_room.amounts import cents_in, money_in
from game_operator_testkit.control_room.bets import leave_open
from game_operator_testkit.control_room.outcomes import unreachable_wallet
from game_operator_testkit.control_room.page_context import (
    LOOKED_THROUGH,
    CentsTyped,
    Page,
    PlayerTyped,
    cents,
    checked,
    environment,
    problem,
    see_other,
)
from game_operator_testkit.sandbox.games import limits_of

#: Players whom the form suggests.
_OFFERED: Final = 50
#: Fields of the form that stand in the address when a round was played.
_KEPT: Final = ("player_id", "wager", "outcome", "won")


#: How a round may end.
Outcome: TypeAlias = Literal["rules", "win", "loss", "cancelled", "open"]


def _instance_of(info: ValidationInfo) -> GameInstance | None:
    instances: Mapping[str, GameInstance] = info.context or {}
    return instances.get(info.data.get("instance_id", ""))


def _playable_id(typed: str, info: ValidationInfo) -> str:
    if typed not in (info.context or {}):
        raise problem("Choose a game that can be played now.")
    return typed


def _wager(wager_cents: int, info: ValidationInfo) -> int:
    instance = _instance_of(info)
    if wager_cents < 0:
        raise problem("Write an amount in currency units above 0.")
    if instance is not None:
        limits, currency = limits_of(instance.bet_config), instance.bet_config.currency
        if not limits.min_cents <= wager_cents <= limits.max_cents:
            raise problem(
                f"This game takes {cents_in(limits.min_cents, currency)} to {money_in(limits.max_cents, currency)}."
            )
    return wager_cents


def _outcome(typed: str) -> str:
    if typed not in get_args(Outcome):
        raise problem("Choose one of the outcomes.")
    return typed


def _won(typed: str, info: ValidationInfo) -> int | None:
    outcome, instance = info.data.get("outcome"), _instance_of(info)
    if outcome != "win":
        # What was typed counts for a win alone; where scripts run, the field is disabled.
        return 0 if outcome == "loss" else None
    won_cents = cents(typed)
    if won_cents <= 0:
        raise problem("Write an amount above 0, or choose Loss.")
    if instance is not None and won_cents > (most := limits_of(instance.bet_config).max_win_cents):
        raise problem(f"The most that a bet wins here is {money_in(most, instance.bet_config.currency)}.")
    return won_cents


class PlayForm(BaseModel):
    """The form that plays a round, amounts in cents; validated with the playable instances by id as context."""

    instance_id: Annotated[str, AfterValidator(_playable_id)]
    wager: Annotated[CentsTyped, AfterValidator(_wager)]
    outcome: Annotated[Outcome, BeforeValidator(_outcome)]
    won: Annotated[int | None, BeforeValidator(_won)]
    player_id: PlayerTyped


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
        playable = {each.id: each for _, instances in self._playable() for each in instances}
        form, problems = checked(PlayForm, typed, playable)
        if not self._sandbox.wallet_url:
            problems["round"] = "There is no wallet to take the wager from, so nothing was played."
        if form is None or problems:
            return self._page(request, typed, problems)
        before = self._sandbox.live.count
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
            problems["round"] = unreachable_wallet(self._sandbox.wallet_url or "", unreachable)
            begun = self._begun(form.player_id, after=before)
            return self._page(request, typed, problems, played=begun, unreachable=True)
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
        unreachable: bool = False,
    ) -> Response:
        games, chosen = self._context.games(), _chosen(request)
        # Players whom the wallet knows: it has answered with their balance.
        players = [each.player_id for each in self._sandbox.service.balances.players() if each.last is not None]
        return self._context.page(
            request,
            "lobby.html",
            status=502 if unreachable else 422 if problems else 200,
            games=[game for game in games if chosen.items() <= {"genre": game.genre, "status": game.status}.items()],
            playable=self._playable(),
            genres=sorted({str(game.genre) for game in games}),
            statuses=sorted({str(game.status) for game in games}),
            chosen=chosen,
            form=form,
            problems=problems,
            played=[(bet_id, self._context.bet(bet_id)) for bet_id in played],
            wallet_mistakes=mistakes,
            unreachable=unreachable,
            players=sorted(players[:_OFFERED]),
            total=len(games),
        )

    def _playable(self) -> list[tuple[GameInfo, list[GameInstance]]]:
        """Return the games that can be played now, each with its active instances."""
        active = [game for game in self._context.games() if game.status == GameStatus.ACTIVE]
        offered = [(game, [each for each in game.instances if each.active]) for game in active]
        return [(game, instances) for game, instances in offered if instances]

    def _begun(self, player_id: str, *, after: int) -> list[str]:
        """Return the id of the bet that *player_id* placed *after* a number of the log; empty if several are."""
        new = [each for each in self._sandbox.live.recent(LOOKED_THROUGH) if each.number > after]
        bet_ids = {each.bet_id for each in new if each.player_id == player_id and each.path == "/withdraw"}
        return list(bet_ids) if len(bet_ids) == 1 else []


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
