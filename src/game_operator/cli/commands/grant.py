"""``game-operator grant``: free bets for a player (spec §2.2, §4.2, §8)."""

from typing import Annotated

import typer

from game_operator.cli.errors import grant_in_doubt
from game_operator.cli.options import AsJson, BaseUrl, Deadline, InstanceId, OperatorId, PrivateKeyFile, connect
from game_operator.cli.output import show_details, waiting, write_document

__all__ = ["LONG_NAMES", "grant"]

#: The fields of spec §2.2 whose names would not fit into the help, and the options that stand for them.
LONG_NAMES = {"wager-amount-cents": "wager-cents", "expire-duration-millis": "expire-millis"}


def grant(
    instance_id: InstanceId,
    player_id: Annotated[str, typer.Option("--player", "--player-id", help="Who gets them; 1 to 100 characters.")],
    count: Annotated[int, typer.Option(help="How many free bets; 1 to 50.")],
    wager_amount_cents: Annotated[
        int,
        typer.Option(
            "--wager-cents", help="What each is worth, in cents; 1 to 1000000. --wager-amount-cents is the same."
        ),
    ],
    expire_duration_millis: Annotated[
        int,
        typer.Option(
            "--expire-millis",
            help="How long they last, in milliseconds; up to 30 days. --expire-duration-millis is the same.",
        ),
    ],
    reference_id: Annotated[
        str,
        typer.Option(
            "--reference",
            "--reference-id",
            help="Your own id of this grant, unique for the instance; 1 to 100 characters.",
        ),
    ],
    base_url: BaseUrl = None,
    operator_id: OperatorId = None,
    private_key: PrivateKeyFile = None,
    deadline: Deadline = 30.0,
    as_json: AsJson = False,
) -> None:
    """
    Grant free bets to a player.

    Should the outcome stay unknown (exit code 3), run the very same command again: the reference id keeps the service
    from granting twice, and DUPLICATE_REFERENCE_ID then says that the grant was made.
    """
    connected = connect(base_url, operator_id, private_key, deadline)
    # An answer that nobody gets to read is in doubt too.
    with grant_in_doubt(reference_id, instance_id):
        with connected as client, waiting("Granting the free bets …"):
            accepted = client.grant_free_bet(
                player_id=player_id,
                instance_id=instance_id,
                count=count,
                wager_amount_cents=wager_amount_cents,
                expire_duration_millis=expire_duration_millis,
                reference_id=reference_id,
            )
        if as_json:
            write_document(accepted.model_dump())
            return
        facts = [("granted", f"{count} free bets of {wager_amount_cents} cents for {player_id}")]
        show_details([*facts, ("free bet", accepted.free_bet_id), ("the service says", accepted.message)])
