"""What the options of ``certify`` stand for: keys, headers, a certificate authority, groups and ids, report files."""

import os
import re
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from game_operator.cli.options import PASSPHRASE, is_encrypted
from game_operator.cli.streams import is_stream
from game_operator.errors import ConfigurationError, SigningKeyError, shown
from game_operator.signers.keys import LocalSigner, load_signer

if TYPE_CHECKING:
    from game_operator.profile import Profile

__all__ = ["check_files", "headers_of", "key_in", "names_in", "trusting"]

_HEADER: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:[ \t]*([ -~\t\x80-\xff]*)")
#: What to do about a key that is none, for whoever signs as the operator, and for whoever plays the service.
_OPERATORS: Final = (
    "Pass the operator's RSA private key of at least 2048 bits, or make a pair with `game-operator keygen`."
)
_SERVICES: Final = (
    "A run plays the service: pass a private RSA key of at least 2048 bits, whose public half the wallet has, or make "
    "a pair with `game-operator keygen` and give the wallet its public half."
)
#: A run sets these by itself, or its scenarios do.
_OWN: Final = frozenset({"connection", "content-encoding", "content-length", "content-type", "transfer-encoding"})


def key_in(file: Path) -> LocalSigner:
    """Return the private key in *file*, read once; an encrypted one is opened by the environment's passphrase."""
    passphrase = os.environ.get(PASSPHRASE) if not is_stream(file) and is_encrypted(file) else None
    try:
        key = load_signer(file, passphrase)
    except SigningKeyError as wrong:
        text = str(wrong)
        if text.endswith(_OPERATORS):
            raise SigningKeyError(f"{text.removesuffix(_OPERATORS)}{_SERVICES}") from None
        raise
    finally:
        # Error trackers show the locals of every frame that an error passes.
        del passphrase
    assert isinstance(key, LocalSigner)
    return key


def headers_of(given: Iterable[str], profile: "Profile") -> list[tuple[str, str]]:
    """Return the headers that are *given* as ``Name: value``; no error shows a value, which may be a secret."""
    found = []
    for place, each in enumerate(given, start=1):
        parts = _HEADER.fullmatch(each.rstrip(" \t"))
        if parts is None:
            raise ConfigurationError(
                f"--header takes 'Name: value' on one line, and number {place} is none. It is not shown here, for it "
                "may be a secret."
            )
        name, value = parts.groups()
        if name.lower() in _OWN | {profile.signature_header.lower()}:
            raise ConfigurationError(f"A run sets the header {name} by itself. Leave --header {name} out.")
        found.append((name, value))
    return found


def trusting(authority: Path | None) -> ssl.SSLContext | None:
    """Return what trusts the certificates in *authority* and no others; None, as for any client, without."""
    if authority is None:
        return None
    try:
        return ssl.create_default_context(cafile=authority)
    except ssl.SSLError:
        problem = "holds no certificate in PEM"
    except (OSError, ValueError) as failed:
        problem = f"cannot be read: {getattr(failed, 'strerror', None) or failed}"
    raise ConfigurationError(f"--ca {shown(str(authority))} {problem}. Pass the authority's certificate.")


def names_in(option: str, given: Iterable[str]) -> list[str]:
    """Return the groups and ids in *given*, each of which may have several, with commas or blanks between them."""
    found = []
    for each in given:
        names = each.replace(",", " ").split()
        if not names:
            # A variable that was never set must not let everything run.
            raise ConfigurationError(f"{option} names nothing. Pass groups or ids, such as {option} A,B05.")
        found += names
    return found


def check_files(reports: Mapping[str, Path], sources: Iterable[Path | None]) -> None:
    """Raise ConfigurationError if a report could not be written, or would take another file's place."""
    taken = {source.absolute() for source in sources if source is not None}
    for option, path in reports.items():
        if path.absolute() in taken:
            raise ConfigurationError(f"{option} {shown(str(path))} would overwrite another file of this run.")
        taken.add(path.absolute())
        if not path.parent.is_dir():
            raise ConfigurationError(f"{option}: there is no folder {shown(str(path.parent))}. Make it first.")
        # As root, a device could be replaced by a file. Not Path.exists(), which raises for a name that is too long.
        if os.path.lexists(path) and not os.path.isfile(path):  # noqa: PTH113
            raise ConfigurationError(f"{option} {shown(str(path))} is not a file. Pass one that may be written anew.")
