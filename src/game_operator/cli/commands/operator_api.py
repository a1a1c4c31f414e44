"""The calls of the Operator API as commands: games, bet, round and grant (spec §2, §4.2, §8)."""

import signal
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from game_operator.cli.errors import ExitCode, StoppedError, on_signals
from game_operator.cli.options import InstanceId, PlayerId, ServiceOptions
from game_operator.cli.output import answer, say, show, show_records, waiting

if TYPE_CHECKING:
    from game_operator.models import GameInfo


_GAMES: Final = "name genre status rtp instance active min_wager max_wager max_win currency"
_BET: Final = "reference_id status player_id round_id instance_id game wager_cents won_cents placed_at_millis"
_BETS: Final = "reference_id player_id status wager_cents won_cents placed_at_millis"
_NOT_FOUND = "NOT_FOUND: there is no such {0}, or it is older than 90 days."


def games(*, service: ServiceOptions) -> None:
    """List your games with their instances and betting limits."""
    with service.client() as client, waiting("Asking for the games …"):
        found = client.fetch_games()
    sentence = f"{len(found)} games, {sum(len(game.instances) for game in found)} instances"
    answer({"games": [game.model_dump() for game in found]}, sentence)
    show_records("Games", _GAMES.split(), _rows(found))


def _rows(found: "Iterable[GameInfo]") -> Iterator[dict[str, Any]]:
    """Yield a row for each instance, or for a game without any; limits are in currency units."""
    for game in found:
        about = {"name": game.name, "genre": game.genre, "status": game.status, "rtp": game.rtp}
        if not game.instances:
            yield about
        for instance in game.instances:
            yield about | {"instance": instance.id, "active": instance.active, **instance.bet_config.model_dump()}


def bet(*, bet_id: Annotated[str, typer.Argument()], service: ServiceOptions) -> None:
    """Look up one bet: OPEN, CLOSED, ROLLED_BACK or NOT_FOUND. All four are answers: the exit code is 0."""
    with service.client() as client, waiting("Looking up the bet …"):
        found = client.fetch_bet(bet_id)
    document = found.model_dump()
    if found.status == "NOT_FOUND":
        answer(document, _NOT_FOUND.format("bet"))
    else:
        answer(document)
        show(_with_units(document), {"": _BET})


def _with_units(document: dict[str, Any]) -> dict[str, Any]:
    """Return a bet of the service, whose fields do not name their units, as people see it."""
    units = {"wager_cents": document["wager"], "won_cents": document.get("won")}
    return document | units | {"placed_at_millis": document["timestamp"]}


def round_(
    *,
    instance_id: InstanceId,
    round_id: Annotated[str | None, typer.Option("--id")] = None,
    round_no: Annotated[int | None, typer.Option("--no")] = None,
    service: ServiceOptions,
) -> None:
    """
    Look up a round with all its bets, by --id or by --no; given both, the service uses the id.

    NOT_FOUND is an answer: the exit code is 0.
    """
    from game_operator.protocol.operations import fetch_round_bets

    if round_id is None and round_no is None:
        raise typer.BadParameter("Pass --id or --no: which round of the instance?")
    with service.client() as client, waiting("Looking up the round …"):
        # Not the client's method: a type checker does not see that one of the two is given.
        found = client.perform(fetch_round_bets(instance_id=instance_id, round_id=round_id, round_no=round_no))
    document = found.model_dump()
    if found.status == "NOT_FOUND":
        answer(document, _NOT_FOUND.format("round of this instance"))
    else:
        answer(document, view={"": "round_id round_no instance_id game"})
        if not document["bets"]:
            say("The round has no bets.")
        show({"bets": list(map(_with_units, document["bets"]))}, {"bets": _BETS})


def grant(
    *,
    instance_id: InstanceId,
    player_id: PlayerId,
    count: int,
    wager_amount_cents: Annotated[int, typer.Option("--wager-cents")],
    expire_duration_millis: Annotated[int, typer.Option("--expire-millis")],
    reference_id: Annotated[str, typer.Option("--reference")],
    service: ServiceOptions,
) -> None:
    """
    Grant free bets to a player.

    Should the outcome stay unknown (exit code 3), run the very same command again: the reference id keeps the service
    from granting twice. DUPLICATE_REFERENCE_ID, with exit code 1 or 3, then says that the grant was made.
    """
    connected = service.client()
    try:
        # SIGTERM would end this process without a word. An answer that cannot be printed is in doubt too.
        with on_signals([signal.SIGTERM], signal.default_int_handler):
            with connected as client, waiting("Granting the free bets …"):
                accepted = client.grant_free_bet(
                    player_id=player_id,
                    instance_id=instance_id,
                    count=count,
                    wager_amount_cents=wager_amount_cents,
                    expire_duration_millis=expire_duration_millis,
                    reference_id=reference_id,
                )
            sentence = f"Granted: {count} free bets of {wager_amount_cents} cents for {player_id}."
            answer(accepted.model_dump(), sentence, view={"": "free_bet_id message"})
    except KeyboardInterrupt:
        raise StoppedError(
            ExitCode.INTERRUPTED,
            "Interrupted. Whether the free bets were granted is unknown: run the very same command again "
            f"(reference id {reference_id!r}).",
            reference_id=reference_id,
            instance_id=instance_id,
        ) from None
