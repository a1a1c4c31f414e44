"""``game-operator token``: session tokens, built and read (assumed: docs/decisions/0005)."""

import sys
from dataclasses import fields
from datetime import timedelta
from decimal import Decimal
from typing import Annotated

import typer

from game_operator.cli.options import Commands, InstanceId, OperatorOptions, PlayerId, amount_in
from game_operator.cli.render import answer

tokens: Commands = Commands(
    name="token", help="Build and read session tokens. What is in them is assumed: the specification does not show it."
)


@tokens.command()
def build(
    *,
    instance_id: InstanceId,
    player_id: PlayerId,
    balance: Annotated[Decimal | None, typer.Option(parser=amount_in)] = None,
    name: str | None = None,
    minutes: float = 15.0,
    launch: str | None = None,
    operator: OperatorOptions,
) -> None:
    """Build a session token for a player, or with --launch the address that opens the game with it."""
    from game_operator.tokens import SessionTokenBuilder, launch_url

    try:
        lifetime = timedelta(minutes=minutes)
    except (OverflowError, ValueError):
        raise typer.BadParameter(f"A session token cannot live {minutes} minutes; 180 is the most.") from None
    builder = SessionTokenBuilder(**operator.token_settings(), lifetime=lifetime)
    token = builder.build(player_id=player_id, instance_id=instance_id, balance=balance, name=name)
    address = None if launch is None else launch_url(launch, token)
    answer({"token": token, "launch_url": address}, address or token)


@tokens.command()
def decode(*, token: Annotated[str, typer.Argument()], instance_id: InstanceId, operator: OperatorOptions) -> None:
    """Show what a token says, once its signature, issuer, audience and times are proved."""
    from game_operator.tokens import SessionTokenBuilder

    if token == "-":  # noqa: S105 - a dash, not a token
        token = sys.stdin.read().strip()
        if not token:
            raise typer.BadParameter("standard input is empty, where the token should be.")
    claims = SessionTokenBuilder(**operator.token_settings()).decode(token, instance_id=instance_id)
    facts = {each.name: getattr(claims, each.name) for each in fields(claims)}
    facts |= {name: facts[name].isoformat() for name in ("issued_at", "expires_at")}
    answer(facts, view={"": " ".join(facts)})
