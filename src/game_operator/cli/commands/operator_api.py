"""The calls of the Operator API as commands: games, bet, round and grant (spec §2, §4.2, §8)."""

import signal
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from game_operator.cli.commands.catalogue import EVERY_SECONDS, ChangesOptions, report_changes, watch
from game_operator.cli.errors import ExitCode, StoppedError, on_signals
from game_operator.cli.options import InstanceId, PlayerId, ServiceOptions
from game_operator.cli.output import answer, say, show_details, show_rows, waiting

if TYPE_CHECKING:
    from game_operator.models import GameInfo

_HEADINGS = ("Game", "Genre", "Status", "RTP %", "Instance", "Active", "Wager", "Highest win")
_NOT_FOUND = "NOT_FOUND: there is no such {0}, or it is older than 90 days."
#: The fields of spec §2.2 whose names would not fit into the help, and the options that stand for them.
LONG_NAMES = {"wager-amount-cents": "wager-cents", "expire-duration-millis": "expire-millis"}


def games(
    *,
    seconds: Annotated[float | None, typer.Argument(metavar="SECONDS", min=1)] = None,
    genre: str | None = None,
    status: str | None = None,
    currency: str | None = None,
    active: bool = False,
    beyond: ChangesOptions,
    service: ServiceOptions,
) -> int:
    """
    List your games with their instances and betting limits.

    With --changes, report what has changed since the last good list, which the ledger's database keeps. With --watch,
    report changes as they come, until Ctrl-C; --json then writes one document for each look that found something. A
    list in which more than 30 % of the games or instances would be gone is held, and the exit code is 1: --most-gone
    allows more.
    """
    beyond.check(has_filters=active or any((genre, status, currency)), seconds=seconds)
    if beyond.watch:
        return watch(beyond, service, EVERY_SECONDS if seconds is None else seconds)
    if beyond.are_asked_for:
        return report_changes(beyond, service)
    with service.client() as client, waiting("Asking for the games …"):
        found = client.fetch_games()
    kept = list(_filtered(found, genre, status, currency, active=active))
    answer({"games": [game.model_dump() for game in kept]})
    if genre is not None and found and not any(_is(game.genre, genre) for game in found):
        say(f"no game has genre {genre}; there are {', '.join(sorted({game.genre for game in found}))}")
    if kept:
        title = "Games; limits in currency units"
        show_rows(title, _HEADINGS, _rows(kept), numbers={"RTP %", "Wager", "Highest win"})
    say(f"{len(kept)} of {len(found)} games, {sum(len(game.instances) for game in kept)} instances")
    return ExitCode.FINE


def _filtered(
    found: "Iterable[GameInfo]", genre: str | None, status: str | None, currency: str | None, *, active: bool
) -> "Iterator[GameInfo]":
    for game in found:
        of_game = (each for each in game.instances if each.active or not active)
        instances = tuple(each for each in of_game if _is(each.bet_config.currency, currency))
        # A game without instances is listed, but not as an answer to a question about instances.
        is_asked_for = instances or (currency is None and not active)
        if is_asked_for and _is(game.genre, genre) and _is(game.status, status):
            yield game.model_copy(update={"instances": instances})


def _is(value: str, wanted: str | None) -> bool:
    return wanted is None or value.casefold() == wanted.casefold()


def _rows(found: "Iterable[GameInfo]") -> Iterator[tuple[str, ...]]:
    for game in found:
        rtp = "–" if game.rtp is None else format(game.rtp, "f")
        about: tuple[str, ...] = (game.name, game.genre, game.status, rtp)
        if not game.instances:
            yield (*about, "", "", "", "")
        for instance in game.instances:
            limits, active = instance.bet_config, "yes" if instance.active else "no"
            wager = f"{limits.min_wager:f} – {limits.max_wager:f} {limits.currency}"
            yield (*about, instance.id, active, wager, f"{limits.max_win:f} {limits.currency}")
            about = ("",) * len(about)


def bet(*, bet_id: Annotated[str, typer.Argument()], service: ServiceOptions) -> None:
    """Look up one bet: OPEN, CLOSED, ROLLED_BACK or NOT_FOUND. All four are answers: the exit code is 0."""
    with service.client() as client, waiting("Looking up the bet …"):
        found = client.fetch_bet(bet_id)
    answer(found.model_dump())
    if found.status == "NOT_FOUND":
        say(_NOT_FOUND.format("bet"))
    else:
        won = [("won", f"{found.won_amount} ({found.won} cents)")] if found.status == "CLOSED" else []
        facts = [
            ("status", found.status),
            ("bet", found.reference_id),
            ("player", found.player_id),
            ("round", found.round_id),
            ("instance", found.instance_id),
            ("game", found.game),
            ("wager", f"{found.wager_amount} ({found.wager} cents)"),
            *won,
            ("placed at", found.placed_at.isoformat(sep=" ", timespec="milliseconds")),
        ]
        show_details(facts)


def round_(
    *,
    instance_id: InstanceId,
    round_id: Annotated[str | None, typer.Option("--id", "--round-id")] = None,
    round_no: Annotated[int | None, typer.Option("--no", "--round-no")] = None,
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
    answer(found.model_dump())
    if found.status == "NOT_FOUND":
        say(_NOT_FOUND.format("round of this instance"))
    else:
        numbers = [("round", found.round_id), ("number", found.round_no)]
        show_details([*numbers, ("instance", found.instance_id), ("game", found.game)])
        if not found.bets:
            say("The round has no bets.")
            return
        headings = ("Bet", "Player", "Status", "Wager", "Won", "Placed at (UTC)")
        rows = []
        for placed in found.bets:
            won = placed.won_amount if placed.status == "CLOSED" else "–"
            when = placed.placed_at.strftime("%Y-%m-%d %H:%M:%S")
            rows.append((placed.reference_id, placed.player_id, placed.status, placed.wager_amount, won, when))
        show_rows("Bets; amounts in currency units", headings, rows, numbers={"Wager", "Won"})


def grant(
    *,
    instance_id: InstanceId,
    player_id: PlayerId,
    count: int,
    wager_amount_cents: Annotated[int, typer.Option("--wager-cents")],
    expire_duration_millis: Annotated[int, typer.Option("--expire-millis")],
    reference_id: Annotated[str, typer.Option("--reference", "--reference-id")],
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
            answer(accepted.model_dump())
            facts = [("granted", f"{count} free bets of {wager_amount_cents} cents for {player_id}")]
            show_details([*facts, ("free bet", accepted.free_bet_id), ("the service says", accepted.message)])
    except KeyboardInterrupt:
        raise StoppedError(
            ExitCode.INTERRUPTED,
            "Interrupted. Whether the free bets were granted is unknown: run the very same command again "
            f"(reference id {reference_id!r}).",
            reference_id=reference_id,
            instance_id=instance_id,
        ) from None
