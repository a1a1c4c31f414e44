"""``game-operator games``: the catalogue (spec §2.5 to §2.7, §4.2)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from game_operator.cli._options import AsJson, BaseUrl, Deadline, OperatorId, PrivateKeyFile, connect
from game_operator.cli._output import cell, say, show, waiting, write_document

if TYPE_CHECKING:
    from game_operator.models import GameInfo, GameInstance

__all__ = ["games"]


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
    if kept:
        show(_table(kept))
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


def _table(found: "Iterable[GameInfo]") -> Table:
    table = Table(title="Games; limits in currency units", title_justify="left")
    for heading in ("Game", "Genre", "Status"):
        table.add_column(heading, overflow="fold")
    table.add_column("RTP %", justify="right")
    # Instance ids are copied into other commands: folded, never cut.
    table.add_column("Instance", overflow="fold", min_width=24)
    table.add_column("Active")
    for heading in ("Wager", "Highest win"):
        table.add_column(heading, justify="right", overflow="fold")
    for game in found:
        rtp = "–" if game.rtp is None else format(game.rtp, "f")
        about = [cell(game.name), cell(game.genre), cell(game.status), cell(rtp)]
        for instance in game.instances or (None,):
            table.add_row(*about, *_of_instance(instance))
            about = [cell("")] * len(about)
    return table


def _of_instance(instance: "GameInstance | None") -> Iterable[Text]:
    if instance is None:
        return ()
    limits = instance.bet_config
    return (
        cell(instance.id),
        cell("yes" if instance.active else "no"),
        cell(f"{limits.min_wager:f} – {limits.max_wager:f} {limits.currency}"),
        cell(f"{limits.max_win:f} {limits.currency}"),
    )
