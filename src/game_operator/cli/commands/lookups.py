"""``game-operator bet`` and ``game-operator round``: what became of a wager (spec §2.4, §2.8, §4.2)."""

from typing import TYPE_CHECKING, Annotated

import typer

from game_operator.cli.options import AsJson, BaseUrl, Deadline, InstanceId, OperatorId, PrivateKeyFile, connect
from game_operator.cli.output import say, show_details, show_rows, waiting, write_document

if TYPE_CHECKING:
    from game_operator.models import ClosedBet, OpenBet, RolledBackBet, RoundFound

    AnyPlacedBet = OpenBet | ClosedBet | RolledBackBet

__all__ = ["bet", "round_"]

_NOT_FOUND = "NOT_FOUND: there is no such {0}, or it is older than 90 days."


def bet(
    bet_id: Annotated[str, typer.Argument(metavar="ID", help="The bet's id; after -- if it begins with a dash.")],
    base_url: BaseUrl = None,
    operator_id: OperatorId = None,
    private_key: PrivateKeyFile = None,
    deadline: Deadline = 30.0,
    as_json: AsJson = False,
) -> None:
    """Look up one bet: OPEN, CLOSED, ROLLED_BACK or NOT_FOUND. All four are answers: the exit code is 0."""
    with connect(base_url, operator_id, private_key, deadline) as client, waiting("Looking up the bet …"):
        found = client.fetch_bet(bet_id)
    if as_json:
        write_document(found.model_dump())
    elif found.status == "NOT_FOUND":
        say(_NOT_FOUND.format("bet"))
    else:
        show_details(_facts(found))


def round_(
    instance_id: InstanceId,
    round_id: Annotated[str | None, typer.Option("--id", "--round-id", help="The round's id.")] = None,
    round_no: Annotated[int | None, typer.Option("--no", "--round-no", help="The number shown to players.")] = None,
    base_url: BaseUrl = None,
    operator_id: OperatorId = None,
    private_key: PrivateKeyFile = None,
    deadline: Deadline = 30.0,
    as_json: AsJson = False,
) -> None:
    """
    Look up a round with all its bets, by --id or by --no; given both, the service uses the id.

    NOT_FOUND is an answer: the exit code is 0.
    """
    if round_id is None and round_no is None:
        raise typer.BadParameter("Pass --id or --no: which round of the instance?")
    with connect(base_url, operator_id, private_key, deadline) as client, waiting("Looking up the round …"):
        found = client.fetch_round_bets(instance_id=instance_id, round_id=round_id, round_no=round_no)
    if as_json:
        write_document(found.model_dump())
    elif found.status == "NOT_FOUND":
        say(_NOT_FOUND.format("round of this instance"))
    else:
        _show_round(found)


def _facts(found: "AnyPlacedBet") -> list[tuple[str, object]]:
    won = [("won", f"{found.won_amount} ({found.won} cents)")] if found.status == "CLOSED" else []
    return [
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


def _show_round(found: "RoundFound") -> None:
    numbers = [("round", found.round_id), ("number", found.round_no)]
    show_details([*numbers, ("instance", found.instance_id), ("game", found.game)])
    if not found.bets:
        say("The round has no bets.")
        return
    headings = ("Bet", "Player", "Status", "Wager", "Won", "Placed at (UTC)")
    rows = (_row(placed) for placed in found.bets)
    show_rows("Bets; amounts in currency units", headings, rows, numbers={"Wager", "Won"})


def _row(placed: "AnyPlacedBet") -> tuple[object, ...]:
    won = placed.won_amount if placed.status == "CLOSED" else "–"
    when = placed.placed_at.strftime("%Y-%m-%d %H:%M:%S")
    return (placed.reference_id, placed.player_id, placed.status, placed.wager_amount, won, when)
