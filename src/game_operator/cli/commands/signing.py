"""
``game-operator keygen`` and ``token``: the key pair that signs (spec §5), and session tokens, built and read.

What is in a token is assumed: docs/decisions/0005.
"""

import sys
from dataclasses import fields
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import typer

from game_operator.cli.options import Commands, InstanceId, OperatorOptions, PlayerId, amount_in
from game_operator.cli.output import answer, say, waiting
from game_operator.errors import ConfigurationError, shown

_LEAST_BITS = 2048
# Making a longer one takes minutes, and each signature tenths of a second.
_MOST_BITS = 8192


def keygen(
    path: Annotated[Path, typer.Argument(dir_okay=False)] = Path("operator.pem"),
    bits: Annotated[int, typer.Option(min=_LEAST_BITS, max=_MOST_BITS)] = _LEAST_BITS,
) -> None:
    """
    Make a key pair: the private key signs requests, the public one is registered with the provider.

    An existing file is never overwritten. To encrypt the key: openssl pkcs8 -topk8 -in operator.pem -out encrypted.pem
    """
    from game_operator.cli.keys import write_pair
    from game_operator.signers.keys import fingerprint

    if not path.name or path.name.casefold().endswith((".pub", ".pub.pem")):  # It would be handed to the provider.
        problem = f"{shown(str(path))} is not the name of a private key; pass one such as operator.pem"
        raise ConfigurationError(problem)
    with waiting(f"Making an RSA key of {bits} bits …"):
        pair = write_pair(path, bits=bits)
    sha256 = fingerprint(pair.public_key)
    document = {
        "private_key_file": str(pair.private),
        "public_key_file": str(pair.public),
        "public_key_pem": pair.public_pem,
        "fingerprint_sha256": sha256,
        "bits": pair.public_key.key_size,
    }
    answer(document, view={"": "private_key_file public_key_file fingerprint_sha256 bits"})
    say("Register this public key with the provider, and compare the SHA-256 over another channel:")
    for line in pair.public_pem.splitlines():
        say(line)


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
