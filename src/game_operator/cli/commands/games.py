"""``game-operator games``: the catalogue (spec §2.5 to §2.7, §4.2)."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from game_operator.cli.options import AsJson, BaseUrl, Deadline, OperatorId, PrivateKeyFile, connect
from game_operator.cli.output import say, show_rows, waiting, write_document

if TYPE_CHECKING:
    from game_operator.models import GameInfo, GameInstance

__all__ = ["games"]

_HEADINGS = ("Game", "Genre", "Status", "RTP %", "Instance", "Active", "Wager", "Highest win")


def games(
    genre: Annotated[str | None, typer.Option(help="Only games of this genre, such as Crash.")] = None,
    status: Annotated[str | None, typer.Option(help="Only games in this status, such as ACTIVE.")] = None,
    currency: Annotated[str | None, typer.Option(help="Only instances in this currency, such as EUR.")] = None,
    active: Annotated[bool, typer.Option("--active", help="Only active instances.")] = False,
    base_url: BaseUrl = None,
    operator_id: OperatorId = None,
    private_key: PrivateKeyFile = None,
    deadline: Deadline = 30.0,
    as_json: AsJson = False,
) -> None:
    """List your games with their instances and betting limits."""
    with connect(base_url, operator_id, private_key, deadline) as client, waiting("Asking for the games …"):
        found = client.fetch_games()
    kept = list(_filtered(found, genre, status, currency, active=active))
    if as_json:
        write_document({"games": [game.model_dump() for game in kept]})
        return
    if genre is not None and found and not any(_is(game.genre, genre) for game in found):
        say(f"no game has genre {genre}; there are {', '.join(sorted({game.genre for game in found}))}")
    if kept:
        title = "Games; limits in currency units"
        show_rows(title, _HEADINGS, _rows(kept), numbers={"RTP %", "Wager", "Highest win"})
    say(f"{len(kept)} of {len(found)} games, {sum(len(game.instances) for game in kept)} instances")


def _filtered(
    found: "Iterable[GameInfo]", genre: str | None, status: str | None, currency: str | None, *, active: bool
) -> "Iterable[GameInfo]":
    for game in found:
        if not (_is(game.genre, genre) and _is(game.status, status)):
            continue
        instances = tuple(
            instance
            for instance in game.instances
            if _is(instance.bet_config.currency, currency) and (instance.active or not active)
        )
        # A game without instances is listed, but not as an answer to a question about instances.
        if instances or (currency is None and not active):
            yield game.model_copy(update={"instances": instances})


def _is(value: str, wanted: str | None) -> bool:
    return wanted is None or value.casefold() == wanted.casefold()


def _rows(found: "Iterable[GameInfo]") -> "Iterator[tuple[str, ...]]":
    for game in found:
        about: tuple[str, ...] = (
            game.name,
            game.genre,
            game.status,
            "–" if game.rtp is None else format(game.rtp, "f"),
        )
        for instance in game.instances or (None,):
            yield about + _of_instance(instance)
            about = ("",) * len(about)


def _of_instance(instance: "GameInstance | None") -> tuple[str, ...]:
    if instance is None:
        return ("", "", "", "")
    limits = instance.bet_config
    return (
        instance.id,
        "yes" if instance.active else "no",
        f"{limits.min_wager:f} – {limits.max_wager:f} {limits.currency}",
        f"{limits.max_win:f} {limits.currency}",
    )
