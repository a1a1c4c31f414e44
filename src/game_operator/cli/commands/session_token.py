"""``game-operator token``: session tokens, built and read (assumed: docs/decisions/0005)."""

import sys
from datetime import timedelta
from decimal import Decimal
from typing import Annotated

import typer

from game_operator.cli.options import AsJson, Commands, InstanceId, OperatorOptions, amount_in
from game_operator.cli.output import say, show_details, write_document

tokens = Commands(help="Build and read session tokens. What is in them is assumed: the specification does not show it.")


@tokens.command()
def build(
    *,
    instance_id: InstanceId,
    player_id: Annotated[str, typer.Option("--player", "--player-id", help="The player's id.")],
    balance: Annotated[
        Decimal | None, typer.Option(parser=amount_in, metavar="AMOUNT", help="In currency units, exact.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The player's display name.")] = None,
    minutes: Annotated[float, typer.Option(help="How long the token is valid; at most 180.")] = 15.0,
    launch: Annotated[
        str | None,
        typer.Option(metavar="TEMPLATE", help="Print the launch address instead: TEMPLATE with its {token} replaced."),
    ] = None,
    operator: OperatorOptions,
    as_json: AsJson = False,
) -> None:
    """Build a session token for a player, or with --launch the address that opens the game with it."""
    from game_operator.tokens import SessionTokenBuilder, launch_url

    builder = SessionTokenBuilder(**operator.token_settings(), lifetime=_lifetime(minutes))
    token = builder.build(player_id=player_id, instance_id=instance_id, balance=balance, name=name)
    address = None if launch is None else launch_url(launch, token)
    if as_json:
        write_document({"token": token, "launch_url": address})
    else:
        say(address or token)


@tokens.command()
def decode(
    *,
    token: Annotated[str, typer.Argument(help="The token; - reads it from standard input.")],
    instance_id: InstanceId,
    operator: OperatorOptions,
    as_json: AsJson = False,
) -> None:
    """Show what a token says, once its signature, issuer, audience and times are proved."""
    from game_operator.tokens import SessionTokenBuilder

    text = _from_stdin() if token == "-" else token  # noqa: S105 - a dash, not a token
    claims = SessionTokenBuilder(**operator.token_settings()).decode(text, instance_id=instance_id)
    facts = {
        "operator_id": claims.operator_id,
        "player_id": claims.player_id,
        "instance_id": claims.instance_id,
        "issued_at": claims.issued_at.isoformat(),
        "expires_at": claims.expires_at.isoformat(),
        "token_id": claims.token_id,
        "balance": claims.balance,
        "name": claims.name,
        "timestamp": claims.timestamp,
    }
    if as_json:
        write_document(facts | {"extra": claims.extra})
        return
    more = claims.extra.items()
    show_details((name, value) for name, value in [*facts.items(), *more] if value is not None)


def _from_stdin() -> str:
    text = sys.stdin.read().strip()
    if not text:
        raise typer.BadParameter("standard input is empty, where the token should be.")
    return text


def _lifetime(minutes: float) -> timedelta:
    try:
        return timedelta(minutes=minutes)
    except (OverflowError, ValueError):
        raise typer.BadParameter(f"A session token cannot live {minutes} minutes; 180 is the most.") from None
