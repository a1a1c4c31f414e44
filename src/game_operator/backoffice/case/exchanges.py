"""
Webhooks out of the operator's own logs: read from files, verified by the service's keys, compared with the ledger.

A ledger keeps no signature, and of most calls no body. What the operator's own logs have of a call is looked at here:
who signed it, whether its bytes are those whose digest the ledger keeps, and whether the ledger has applied it.
"""

import json
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple, TypeAlias

from game_operator.backoffice.case.redaction import LEFT_OUT, Bytes, Free
from game_operator.backoffice.case.rows import KeptRows
from game_operator.errors import ConfigurationError, MalformedCallError, WebhookSignatureError, shown
from game_operator.models.webhooks import BalanceCall, RollbackCall, WebhookCall
from game_operator.profile import Profile
from game_operator.protocol.http import HeaderPairs
from game_operator.protocol.webhook import BATCH_PATHS, OPERATIONS, read_batch, read_call
from game_operator.webhooks import Authenticator, RsaSignature, WebhookRequest

LoggedExchange: TypeAlias = tuple[str, Mapping[str, str] | Iterable[tuple[str, str]], bytes]
"""A webhook as it was logged: the path it was posted to, its header fields, and the body's raw bytes."""

_BATCH: Final = "deposit-batch"


class Examined(NamedTuple):
    """
    What an exchange is worth as evidence.

    Attributes:
        path, operation: Where it was posted, and what that asks for; "" for an unknown path.
        headers: The names of its header fields; their values may be secrets.
        body: The body.
        verdict: ``genuine``; ``forged``: one of the keys made the signature, for another body; ``key unknown``: none
            of the keys made it; ``refused`` by an authenticator that cannot tell these apart; ``unsigned``;
            ``left out``: the log has no signature; ``not checked``.
        note: The verdict in a sentence.
        kept_body: ``same`` or ``differs`` for a withdraw whose body's SHA-256 the ledger keeps; else ``not kept``.
        content: Whether the ledger has applied what the body says, in sentences.
        calls: What the body says about the bet, by the profile.
    """

    path: str
    operation: str
    headers: tuple[str, ...]
    body: Bytes
    verdict: str
    note: str | Free
    kept_body: str
    content: tuple[str, ...]
    calls: tuple[dict[str, Any], ...]


def examined(
    exchange: LoggedExchange, bet_id: str, rows: KeptRows, authenticator: Authenticator | None, profile: Profile
) -> Examined:
    """
    Return what *exchange* is worth as evidence about a bet.

    Raises:
        TypeError: It is not (path, headers, body), or the body is not bytes: only raw bytes carry a signature.
    """
    path, headers, body = _checked(*exchange)
    operation = _operation_of(path)
    request = WebhookRequest("POST", path, headers, body)
    verdict, note = _verdict(request, rows, authenticator, profile)
    calls, problem = _calls(operation, body, profile)
    about = [call for call in calls if not isinstance(call, BalanceCall) and call.bet_id == bet_id]
    content = [problem] if problem else [_applied(call, rows) for call in about]
    if not content:
        content = ["The body does not name this bet."]
    named = tuple(_fields(call) for call in about)
    names = tuple(name.decode("latin-1") for name, _ in headers)
    is_of_another_bet = not problem and not about
    kept_body = "not kept" if is_of_another_bet else _kept_body(operation, body, rows)
    path = path.partition("?")[0]  # What follows may be a secret.
    return Examined(path, operation, names, Bytes(body), verdict, note, kept_body, tuple(content), named)


def _checked(path: Any, headers: Any, body: Any) -> tuple[str, HeaderPairs, bytes]:  # Any: what a program passes.
    if not isinstance(path, str) or not isinstance(body, bytes):
        raise TypeError(
            f"an exchange must be a path (str), headers and a body (bytes), not {type(path).__name__} and "
            f"{type(body).__name__}. Pass the raw bytes: a signature is for these alone."
        )
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    try:
        return path, tuple((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in pairs), body
    except (AttributeError, TypeError, ValueError):
        raise TypeError("the headers of an exchange must be a mapping or pairs, of texts in Latin-1") from None


def _operation_of(path: str) -> str:
    """Return what *path*, with whatever stands before it, asks for; "" if it is none of the service's paths."""
    bare = path.partition("?")[0]
    for known, operation in (*OPERATIONS.items(), *((batch, _BATCH) for batch in BATCH_PATHS)):
        if bare.endswith(known):
            return operation
    return ""


def _verdict(
    request: WebhookRequest, rows: KeptRows, authenticator: Authenticator | None, profile: Profile
) -> tuple[str, str | Free]:
    if authenticator is None:
        return "not checked", "The signature was not checked, because no key of the service was given."
    if any(value == LEFT_OUT.encode() for _, value in request.headers):
        return "left out", "The log has no signature: it was left out when the exchange was recorded."
    try:
        authenticator.authenticate(request, profile)
    except WebhookSignatureError as refused:
        return _refused(request, rows, authenticator, profile, str(refused))
    return "genuine", "The signature was made by one of the service's keys, for exactly these bytes."


def _refused(
    request: WebhookRequest, rows: KeptRows, authenticator: Authenticator, profile: Profile, reason: str
) -> tuple[str, str | Free]:
    if not isinstance(authenticator, RsaSignature):
        return "refused", Free(f"The authenticator refuses the call: {reason}.")
    try:
        signed = authenticator.digest_signed(request, profile)
    except WebhookSignatureError:
        return "unsigned", f"There is no signature that can be checked: {reason}."
    if signed is None:
        return "key unknown", "None of the given keys made this signature. It is a forgery, or the key is missing here."
    whose = "another body"
    if rows.bet is not None and signed == rows.bet.withdraw_digest:
        whose = "the withdraw whose SHA-256 the ledger keeps"
    return "forged", f"One of the service's keys made this signature, for {whose} and not for these bytes."


def _calls(operation: str, body: bytes, profile: Profile) -> tuple[list[WebhookCall], str]:
    """Return the calls in *body*, and why there are none, or ""."""
    if not operation:
        return [], "The path is not one of the service's, so the body was not read."
    try:
        if operation == _BATCH:
            return [item.call for item in read_batch(body, profile) if item.call is not None], ""
        return [read_call(operation, body, profile)[0]], ""
    except MalformedCallError:
        return [], f"The body cannot be read as a {operation} by this profile."


def _fields(call: Any) -> dict[str, Any]:  # Any: one of three calls.
    names = ["operation", "tx_id", "player_id", "bet_id", "action", "amount_cents", "round_id", "instance_id", "game"]
    return {name: getattr(call, name) for name in names}


def _kept_body(operation: str, body: bytes, rows: KeptRows) -> str:
    if operation != "withdraw" or rows.bet is None or rows.bet.withdraw_digest is None:
        return "not kept"
    return "same" if sha256(body).digest() == rows.bet.withdraw_digest else "differs"


def _applied(call: Any, rows: KeptRows) -> str:  # Any: one of three calls.
    """Return whether the ledger has a row for *call*, and with the same content."""
    operation = call.operation
    tx_id = call.tx_id
    if isinstance(call, RollbackCall) and tx_id is None:
        known = [each.call for each in rows.calls if each.call.operation == "rollback"]
    else:
        known = [each.call for each in rows.calls if (each.call.operation, each.call.tx_id) == (operation, tx_id)]
    known = [each for each in known if not each.held]
    if not known:
        kept = any(each.record.body == call.body for each in rows.anomalies)
        if kept:
            return f"The ledger did not apply this {operation}. It keeps the same body with an anomaly."
        return f"The ledger has no row for this {operation}: it did not arrive, or it was refused."
    ours = known[0]
    differing = [name for name in ("player_id", "action") if getattr(call, name) != getattr(ours, name)]
    if operation != "rollback" and call.amount_cents != ours.amount_cents:
        differing.append("amount_cents")
    if differing:
        return f"The ledger has another {operation} under this tx_id: {', '.join(differing)} differs."
    answered = "SUCCESS" if ours.code is None else ours.code
    return f"The ledger has this {operation}, with the same content. It answered {answered}."


def read_exchanges(content: bytes, name: str) -> list[LoggedExchange]:
    """
    Return the webhooks in the *content* of the file *name*: JSON, or JSON Lines with a document on each line.

    A document is what ``game-operator call --with-signature --json`` prints, an exchange of a certification's report,
    or an object with path, headers and body. A document may also be a list of these, or an object with a list of them
    under ``exchanges``. A body is a text, or an object with ``encoding`` (``utf-8`` or ``base64``) and ``data``.

    Raises:
        ConfigurationError: It is none of these; the message names the place.
    """
    return [_exchange_in(document, name, place) for place, document in enumerate(_documents(content, name), start=1)]


def _documents(content: bytes, name: str) -> Iterator[Any]:  # Any: JSON.
    try:
        text = content.decode("utf-8-sig")  # Some systems begin each file with a byte order mark.
    except UnicodeDecodeError:
        raise _unreadable(name, "is not UTF-8") from None
    if not text.strip():
        raise _unreadable(name, "is empty")
    try:
        values = [json.loads(text)]
    except (ValueError, RecursionError):
        values = [_line(line, name, at) for at, line in enumerate(text.split("\n"), start=1) if line.strip()]
    for value in values:
        found = value.get("exchanges", value) if isinstance(value, dict) else value
        yield from found if isinstance(found, list) else [found]


def _line(line: str, name: str, number: int) -> Any:  # Any: JSON.
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise _unreadable(name, f"is neither JSON nor JSON Lines: line {number} is not JSON") from None


def _exchange_in(document: Any, name: str, place: int) -> LoggedExchange:  # Any: JSON.
    try:
        request = document.get("request", document)
        path = request.get("path", document.get("path"))
        pairs = request["headers"]
        pairs = list(pairs.items()) if isinstance(pairs, dict) else [(key, value) for key, value in pairs]
        body = _body_in(request["body"])
        if not isinstance(path, str) or not all(isinstance(part, str) for pair in pairs for part in pair):
            raise TypeError
        return path, tuple(pairs), body
    except (AttributeError, KeyError, TypeError, ValueError):
        raise _unreadable(name, f"has no exchange in place {place}") from None


def _body_in(body: Any) -> bytes:  # Any: JSON.
    if isinstance(body, str):
        return body.encode()
    data: str = body["data"]
    if body["encoding"] == "base64":
        return b64decode(data, validate=True)
    if body["encoding"] != "utf-8":
        raise ValueError
    return data.encode()


def _unreadable(name: str, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"The exchanges in {shown(name)} cannot be read: the file {problem}. An exchange is an object with path, "
        "headers and body, as `game-operator call --with-signature --json` prints it."
    )
