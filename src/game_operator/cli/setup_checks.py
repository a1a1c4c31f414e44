"""The doctor's checks, one after another: each a value that says what was found and what to do about it."""

import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import httpx
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from game_operator.cli.errors import error_text
from game_operator.cli.keys import public_path
from game_operator.cli.options import PASSPHRASE, settings
from game_operator.client.settings import base_url_of
from game_operator.client.sync import OperatorClient
from game_operator.errors import (
    ApiError,
    AuthenticationError,
    ConfigurationError,
    RequestNotSentError,
    TransportError,
    shown,
)
from game_operator.models import GameInfo
from game_operator.protocol.http import HttpReply
from game_operator.protocol.operations import fetch_games
from game_operator.signers.environment import checked_operator_id
from game_operator.signers.keys import fingerprint, load_public_key, load_signer, public_key_of
from game_operator.transport.wire import default_ssl_context

Outcome = Literal["ok", "problem", "unreachable", "skipped", "advice"]

_MOST_SKEW_SECONDS = 30.0
_FOR_OTHERS = stat.S_IRWXO | stat.S_IWGRP

_CALL = "signed fetch-games"
_WAY = "Ask whether the provider admits your address. For a private CA set SSL_CERT_FILE to its certificates."
_PADDING = "the padding of the signature, PKCS#1 v1.5"
_KEY_LENGTH = "keys under 2048 bits are refused"
_CLOCKS = "session tokens begin and end by the service's clock"


@dataclass(frozen=True, slots=True)
class Check:
    """
    What one check found.

    Attributes:
        name: What was checked.
        outcome: "unreachable" and "problem" are findings; "skipped" could not be checked, "advice" need not be.
        found: What was found.
        todo: What to do about it; "" if nothing.
        assumed: What the check rests on that the specification does not show; "" if nothing.
    """

    name: str
    outcome: Outcome
    found: str
    todo: str = ""
    assumed: str = ""


@dataclass(slots=True)
class _Patient:
    """What is known so far; None for what is missing or cannot be used."""

    base_url: str | None = None
    operator_id: str | None = None
    key: dict[str, Any] | None = None
    public_key: RSAPublicKey | None = None


def examination(environ: Mapping[str, str], registered: Path | None, deadline: float) -> Iterator[Check]:
    """Yield the checks of the set-up in *environ*; *registered* is the public key the provider has, if known."""
    patient = _Patient()
    yield _base_url(environ, patient)
    yield _operator_id(environ, patient)
    yield from _private_key(environ, patient)
    yield _key_pair(patient, registered)
    yield from _signed_call(patient, deadline)
    found = "the service may sign for all operators with one key: another operator's calls then pass your check too"
    todo = (
        "if you answer webhooks, give the receiver your game instances: instances=Catalogue(client), within "
        "its following(); or their ids, as instances= or --instances of `game-operator serve`."
    )
    assumed = "webhooks are signed by one key for all operators, and the signature names none"
    yield Check("webhooks", "advice", found, todo, assumed)


def _base_url(environ: Mapping[str, str], patient: _Patient) -> Check:
    name, value = "base URL", environ.get("GAME_OPERATOR_BASE_URL")
    if not value:
        return Check(name, "problem", "not set", "Set GAME_OPERATOR_BASE_URL, or pass --base-url.")
    todo = "Fix GAME_OPERATOR_BASE_URL or --base-url."
    try:
        base_url = base_url_of(value, allow_insecure_http=False)
        httpx.URL(base_url)
    except ConfigurationError as wrong:
        return Check(name, "problem", error_text(wrong), todo)
    except httpx.InvalidURL as wrong:
        return Check(name, "problem", f"{shown(value)} has an impossible host: {wrong}", todo)
    patient.base_url = base_url
    return Check(name, "ok", base_url)


def _operator_id(environ: Mapping[str, str], patient: _Patient) -> Check:
    name, value = "operator id", environ.get("GAME_OPERATOR_ID")
    if not value:
        return Check(name, "problem", "not set", "Set GAME_OPERATOR_ID, or pass --operator-id.")
    try:
        patient.operator_id = checked_operator_id(value)
    except ConfigurationError as wrong:
        return Check(name, "problem", error_text(wrong), "Fix GAME_OPERATOR_ID or --operator-id.")
    return Check(name, "ok", patient.operator_id)


def _private_key(environ: Mapping[str, str], patient: _Patient) -> Iterator[Check]:
    name = "private key"
    if not (environ.get("GAME_OPERATOR_PRIVATE_KEY") or environ.get("GAME_OPERATOR_PRIVATE_KEY_FILE")):
        todo = "Set GAME_OPERATOR_PRIVATE_KEY_FILE, or pass --private-key; `game-operator keygen` makes a key."
        yield Check(name, "problem", "not set", todo)
        return
    todo = f"Fix --private-key, GAME_OPERATOR_PRIVATE_KEY_FILE or {PASSPHRASE}."
    try:
        # The other two settings have checks of their own.
        found = settings({**environ, "GAME_OPERATOR_BASE_URL": "unused", "GAME_OPERATOR_ID": "unused"})
        key = {argument: found[argument] for argument in ("private_key", "passphrase")}
        patient.public_key = public_key_of(load_signer(key["private_key"], key["passphrase"]))
    except ConfigurationError as wrong:
        yield Check(name, "problem", error_text(wrong), todo, _KEY_LENGTH)
        return
    patient.key = key
    assert patient.public_key is not None, "a key in PEM has a public half"
    yield Check(name, "ok", f"RSA, {patient.public_key.key_size} bits", assumed=_KEY_LENGTH)
    if isinstance(path := key["private_key"], Path):
        mode = stat.S_IMODE(path.stat().st_mode)
        found_mode = f"{path} has mode {mode:04o}"
        if mode & _FOR_OTHERS:
            todo = f"Run: chmod 600 {path}. If others had access, make a new key."
            yield Check("key file", "problem", f"{found_mode}: others than its owner can use it", todo)
        else:
            yield Check("key file", "ok", found_mode)


def _key_pair(patient: _Patient, registered: Path | None) -> Check:
    name = "key pair"
    if patient.key is None or patient.public_key is None:
        return Check(name, "skipped", "there is no usable private key")
    own = fingerprint(patient.public_key)
    source = patient.key["private_key"]
    beside = public_path(source) if isinstance(source, Path) else None
    known = registered or (beside if beside is not None and beside.exists() else None)
    compare = "Compare it with what the provider has on file."
    if known is None:
        return Check(name, "ok", f"the public key has SHA-256 {own}", compare)
    try:
        other = fingerprint(load_public_key(known))
    except ConfigurationError as wrong:
        return Check(name, "problem", error_text(wrong), "Pass the registered public key as --public-key.")
    if other != own:
        found = f"{known} (SHA-256 {other}) is not the public half of the private key (SHA-256 {own})"
        return Check(name, "problem", found, "Use the private key that belongs to the registered public one.")
    return Check(name, "ok", f"{known} is the public half, SHA-256 {own}", compare)


def _signed_call(patient: _Patient, deadline: float) -> Iterator[Check]:
    """Ask for the games, and compare the clocks by the answer."""
    headers: Mapping[str, str] = {}
    if patient.base_url is None or patient.operator_id is None or patient.key is None:
        yield Check(_CALL, "skipped", "base URL, operator id and private key must be usable first")
    else:
        try:
            with OperatorClient(patient.base_url, patient.operator_id, **patient.key, deadline=deadline) as client:
                games, headers = _games_of(client)
            yield _of_games(games)
        except ConfigurationError as wrong:
            yield Check(_CALL, "problem", error_text(wrong), "Fix the environment of this process.")
        except TransportError as failed:
            reason = shown(failed.reason)[1:-1]
            is_named = isinstance(failed, RequestNotSentError)
            found = reason if is_named else f"{patient.base_url} cannot be reached: {reason}"
            yield Check(_CALL, "unreachable", found, f"{failed.remedy} {_WAY}")
        except ApiError as refused:
            headers = refused.headers
            yield _refused(refused, patient)
    yield _clock(headers, time.time())


def _games_of(client: OperatorClient) -> tuple[list[GameInfo], Mapping[str, str]]:
    """Return the games, and the headers of the answer."""
    replies: list[HttpReply] = []
    operation = fetch_games(client.operator_id)

    def parse(reply: HttpReply) -> list[GameInfo]:
        replies.append(reply)
        return operation.parse(reply)

    return client.perform(replace(operation, parse=parse)), replies[-1].headers


def _of_games(games: list[GameInfo]) -> Check:
    if not games:
        return Check(_CALL, "problem", "the service lists no games", "Ask the provider to assign games to you.")
    instances = sum(len(game.instances) for game in games)
    return Check(_CALL, "ok", f"{len(games)} games, {instances} instances", assumed=_PADDING)


def _refused(refused: ApiError, patient: _Patient) -> Check:
    if not isinstance(refused, AuthenticationError) or patient.public_key is None:
        return Check(_CALL, "problem", refused.what, refused.remedy)
    todo = (
        f"Ask the provider whether operator {patient.operator_id} is active and has the public key with SHA-256 "
        f"{fingerprint(patient.public_key)} on file."
    )
    assumed = f"{_PADDING}; fetch-games answers 401 to an inactive operator"
    return Check(_CALL, "problem", f"HTTP 401: {shown(refused.message)}", todo, assumed)


def _clock(headers: Mapping[str, str], answered_at: float) -> Check:
    try:
        # Date is cut to whole seconds: on average it lies half a second back.
        skew = parsedate_to_datetime(headers["date"]).timestamp() + 0.5 - answered_at
    except (KeyError, ValueError, TypeError, OverflowError):
        return Check("clock", "skipped", "not checked: there is no answer with a readable Date header")
    side = "behind" if skew > 0 else "ahead of"
    if abs(skew) > _MOST_SKEW_SECONDS:
        found = f"this machine is {abs(skew):.0f} s {side} the service"
        return Check("clock", "problem", found, "Set the clock of this machine by NTP.", _CLOCKS)
    return Check("clock", "ok", f"within {_MOST_SKEW_SECONDS:.0f} s of the service's clock", assumed=_CLOCKS)


# --- a deployed wallet: what its server makes of a request that asks for an upgrade ---

_UPGRADE: Final = "upgrade"
#: A proxy does not use each connection again, and some may lead to a sound server.
_ROUNDS: Final = 5
#: So much that a part of it comes behind the answer. A server that takes it for another request waits for the end of
#: its last line, and finds it in the next request, which it then cannot read. No path is called that way.
_BODY: Final = b"\r\n" * 300_000 + b"GET / HTTP/1.1\r\nContent-Length: "
_MOST_ANSWER_BYTES: Final = 1_048_576
_REMEDY: Final = (
    "Start uvicorn with --http game_operator.serve:SafeProtocol or --http h11, and let the proxy drop Upgrade "
    "(docs/how-to/deploy.md)."
)


def upgrade(url: str, deadline: float) -> Check:
    """Ask the root of *url* for an upgrade, and say whether the next call is understood; no money moves."""
    context = default_ssl_context(is_secure=url.startswith("https:"), trust_env=True)
    parts = urlsplit(url)
    assert parts.hostname is not None, "the address has been checked"
    secure = HTTPSConnection(parts.hostname, parts.port, timeout=deadline, context=context)
    connection = secure if parts.scheme == "https" else HTTPConnection(parts.hostname, parts.port, timeout=deadline)
    root = f"{parts.scheme}://{parts.netloc}/"
    try:
        usual = _status(connection)
        if usual == 400:
            return Check(_UPGRADE, "skipped", f"{root} answers HTTP 400 to any request, and that is what would tell")
        for _ in range(_ROUNDS):
            if _asked(connection) == 413:
                return Check(_UPGRADE, "skipped", f"{root} takes no body of {len(_BODY):,} bytes")
            found = _next_status(connection)
            if found != str(usual):
                return Check(_UPGRADE, "problem", _lost(root, found, usual), _REMEDY)
    except (OSError, HTTPException) as failed:
        found = f"{root} cannot be reached: {type(failed).__name__} {shown(str(failed))}"
        return Check(
            _UPGRADE, "unreachable", found, "Check the address, DNS, firewall and certificate (SSL_CERT_FILE)."
        )
    finally:
        connection.close()
    found = f"behind a POST to {root} that asked for an upgrade, the next call was understood, {_ROUNDS} times"
    return Check(_UPGRADE, "ok", found)


def _lost(root: str, found: str, usual: int) -> str:
    return (
        f"behind a POST to {root} that asked for an upgrade, the next call was answered {found} instead of {usual}: "
        "the server takes the body for another request. A stranger can so make the service's next withdraw or deposit "
        "end at another path, answered SUCCESS"
    )


def _status(connection: HTTPConnection) -> int:
    connection.request("GET", "/")
    return _answered(connection)


def _next_status(connection: HTTPConnection) -> str:
    try:
        return str(_status(connection))
    except (OSError, HTTPException) as failed:
        connection.close()
        return f"by {type(failed).__name__}"


def _asked(connection: HTTPConnection) -> int:
    """Post to the root and ask for an upgrade; return the status, or 0 from a server that hangs up on that."""
    try:
        connection.request("POST", "/", _BODY, {"Connection": "Upgrade", "Upgrade": "game-operator-doctor"})
        return _answered(connection)
    except (OSError, HTTPException):
        connection.close()
        return 0


def _answered(connection: HTTPConnection) -> int:
    answer = connection.getresponse()
    answer.read(_MOST_ANSWER_BYTES)
    if not answer.isclosed():
        connection.close()
    return answer.status
