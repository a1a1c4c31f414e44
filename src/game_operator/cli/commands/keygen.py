"""``game-operator keygen``: the key pair that signs requests (spec §5)."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from game_operator.cli.options import PASSPHRASE
from game_operator.cli.output import say, waiting
from game_operator.cli.render import answer
from game_operator.errors import ConfigurationError
from game_operator.signers.environment import environment_passphrase

_LEAST_BITS = 2048
# Making a longer one takes minutes, and each signature tenths of a second.
_MOST_BITS = 8192


def keygen(
    path: Annotated[str, typer.Argument()] = "operator.pem",
    bits: Annotated[int, typer.Option(min=_LEAST_BITS, max=_MOST_BITS)] = _LEAST_BITS,
    encrypt: bool = False,
) -> None:
    """
    Make a key pair: the private key signs requests, the public one is registered with the provider.

    An existing file is never overwritten.
    """
    from game_operator.cli.keys import fingerprint, write_pair

    private = _file(path)
    passphrase = _passphrase(encrypt=encrypt)
    with waiting(f"Making an RSA key of {bits} bits …"):
        pair = write_pair(private, bits=bits, passphrase=passphrase)
    sha256 = fingerprint(pair.public_key)
    document = {
        "private_key_file": str(pair.private),
        "public_key_file": str(pair.public),
        "public_key_pem": pair.public_pem,
        "fingerprint_sha256": sha256,
        "bits": pair.public_key.key_size,
        "encrypted": encrypt,
    }
    answer(document, view={"": "private_key_file public_key_file fingerprint_sha256 bits encrypted"})
    say("Register this public key with the provider, and compare the SHA-256 over another channel:")
    for line in pair.public_pem.splitlines():
        say(line)


def _file(path: str) -> Path:
    """Return where the private key goes; refuse a directory, and the name of a public key."""
    # As a Path it would have lost a slash at its end.
    is_there = os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises for a name that is too long
    if is_there or path.endswith("/") or Path(path).name in {"", ".."}:
        beside = path and path.rstrip("/") + "/"
        raise ConfigurationError(f"{path!r} is a directory; name a file, such as {beside}operator.pem")
    if path.casefold().endswith((".pub", ".pub.pem")):
        raise ConfigurationError(f"{path!r} is named like a public key; name the private one, such as operator.pem")
    return Path(path)


def _passphrase(*, encrypt: bool) -> str | None:
    given = environment_passphrase()
    if not encrypt:
        if given:
            # A key in the clear would be refused later on, by every command that takes the passphrase.
            raise ConfigurationError(
                f"{PASSPHRASE} or {PASSPHRASE}_FILE is set, but --encrypt is not given. Pass --encrypt, or unset it."
            )
        return None
    if not given and not sys.stdin.isatty():
        raise ConfigurationError(f"--encrypt needs a passphrase. Set {PASSPHRASE}, or run this at a terminal.")
    if not given:
        given = typer.prompt("Passphrase of the new key", hide_input=True, confirmation_prompt=True, err=True)
    return str(given)
