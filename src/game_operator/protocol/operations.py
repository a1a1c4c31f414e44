"""
The four calls of the Operator API from the operator's side: what to send, what to sign, how to read the answer.

An ``Operation`` is a pure value (spec §4.2, §5). Building one either succeeds or raises what the
service itself would have answered. Reading a response ends in a model or an ``ApiError``.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from urllib.parse import quote

from game_operator import models
from game_operator._lazy import lazy_names
from game_operator.codes import GRANT_MESSAGES, GrantErrorCode
from game_operator.errors import (
    ApiError,
    AuthenticationError,
    BadRequestError,
    FreeBetRejectedError,
    OperatorInactiveError,
    RateLimitedError,
    ServiceError,
    UnexpectedResponseError,
    shown,
)
from game_operator.models.wire_format import WireFormatError, once
from game_operator.protocol.exact_json import encode_json
from game_operator.protocol.http import HeaderPairs, HttpReply, HttpRequest
from game_operator.protocol.signing import Signature

if TYPE_CHECKING:
    from game_operator.models import AnyBet as AnyBet
    from game_operator.models import AnyRound as AnyRound
else:  # An import of the client loads neither pydantic nor a model.
    __getattr__, __dir__ = lazy_names(__name__, {"game_operator.models": "AnyBet AnyRound"})

T = TypeVar("T")

_LOOK_UPS: Final = frozenset({"fetch-bet", "fetch-round-bets"})

#: The version of the Operator API is part of the path (spec §9).
API_PREFIX = "/api/v0.2"

INVALID_REQUEST = "Invalid request"
ROUND_WITHOUT_KEY = "Either round_id or round_no must be provided"


@dataclass(frozen=True, slots=True)
class Operation(Generic[T]):
    """
    One call of the Operator API, ready to be signed and sent (spec §4.2, §5).

    Attributes:
        name: The endpoint, such as ``fetch-bet``.
        method: ``GET`` or ``POST``.
        path: The raw path, escaped, from ``/api`` on.
        to_sign: The bytes that are signed; for a POST these are the bytes of the body.
        parse: Reads the answer; raises an ``ApiError`` for anything but a success.
        body: The exact bytes sent; ``b""`` for a GET.
        grant: The grant of free bets, which changes something at the service; None for a look-up.
    """

    name: str
    method: str
    path: str
    to_sign: bytes = field(repr=False)
    parse: Callable[[HttpReply], T] = field(repr=False)
    body: bytes = b""
    grant: "models.GrantRequest | None" = None

    @property
    def is_lookup(self) -> bool:
        """Whether it asks for a bet or a round: its answer, unless that is NOT_FOUND, names what was asked for."""
        return self.name in _LOOK_UPS


def request_of(operation: Operation[T], operator_id: str, signature: Signature, extra: HeaderPairs = ()) -> HttpRequest:
    """Return the signed request: the headers of spec §5, after *extra*."""
    credentials = ((b"X-Operator-Id", operator_id.encode()), (b"X-Signature", bytes(signature)))
    return HttpRequest(operation.method, operation.path, extra + credentials, operation.body)


def fetch_games(operator_id: str) -> "Operation[list[models.GameInfo]]":
    """List all games of the operator; the operator id is signed (spec §4.2, §5)."""

    def parse(response: HttpReply) -> "list[models.GameInfo]":
        games: list[models.GameInfo] = _read(response, "fetch-games")
        return games

    return Operation("fetch-games", "GET", f"{API_PREFIX}/fetch-games", operator_id.encode(), parse)


def fetch_bet(operator_id: str, bet_id: str) -> "Operation[models.AnyBet]":
    """
    Look up a bet; ``<operator_id>:<bet_id>`` is signed, unescaped (spec §4.2, §5).

    Raises:
        BadRequestError: *bet_id* cannot travel as one path segment.
    """
    _check_text(bet_id=bet_id)
    if bet_id in {"", ".", ".."}:
        detail = f"A bet id must not be empty, '.' or '..' (it is {shown(bet_id)}): the URL would name another address."
        raise BadRequestError(INVALID_REQUEST, status_code=400, detail=detail)
    path = f"{API_PREFIX}/fetch-bet/{quote(bet_id, safe='')}"
    # Not formatted: a str of an Enum would be signed as another text than stands in the path.
    to_sign = operator_id.encode() + b":" + bet_id.encode()

    def parse(response: HttpReply) -> "models.AnyBet":
        found: models.AnyBet = _read(response, "fetch-bet")
        if not isinstance(found, models.BetNotFound):
            _check_answers(response, reference_id=(found.reference_id, bet_id))
        return found

    return Operation("fetch-bet", "GET", path, to_sign, parse)


def fetch_round_bets(
    *, instance_id: str, round_id: str | None = None, round_no: int | None = None
) -> "Operation[models.AnyRound]":
    """
    Look up a round by id or by number; given both, both are sent and the service uses the id (spec §4.2).

    Raises:
        BadRequestError: Neither *round_id* nor *round_no* is given, or an id does not fit into UTF-8.
    """
    _check_text(instance_id=instance_id)
    if round_id is not None:
        _check_text(round_id=round_id)
    if round_no is not None:
        _check_whole(round_no=round_no)
    if round_id is None and round_no is None:
        raise BadRequestError(ROUND_WITHOUT_KEY, status_code=400)
    keys = {"instance_id": instance_id, "round_no": round_no, "round_id": round_id}
    body = encode_json({name: value for name, value in keys.items() if value is not None})

    def parse(response: HttpReply) -> "models.AnyRound":
        found: models.AnyRound = _read(response, "fetch-round-bets")
        if isinstance(found, models.RoundFound):
            by_number = round_id is None
            key = {"round_no": (found.round_no, round_no)} if by_number else {"round_id": (found.round_id, round_id)}
            _check_answers(response, instance_id=(found.instance_id, instance_id), **key)
        return found

    return Operation("fetch-round-bets", "POST", f"{API_PREFIX}/fetch-round-bets", body, parse, body)


def grant_free_bet(grant: "models.GrantRequest") -> "Operation[models.GrantAccepted]":
    """
    Grant free bets (spec §2.2, §4.2); *grant* may be constructed without validation: it is checked here.

    Raises:
        FreeBetRejectedError: A limit of spec §8 is broken.
        BadRequestError: An id does not fit into UTF-8.
    """
    _check_text(player_id=grant.player_id, instance_id=grant.instance_id, reference_id=grant.reference_id)
    _check_whole(
        count=grant.count,
        wager_amount_cents=grant.wager_amount_cents,
        expire_duration_millis=grant.expire_duration_millis,
    )
    refusal = models.refusal_of(grant)
    if refusal is not None:
        raise FreeBetRejectedError(GRANT_MESSAGES[refusal], error_code=refusal, reference_id=grant.reference_id)
    body = encode_json(dict(grant))  # model_dump needs a serializer, which pydantic builds when it is first used.

    def parse(response: HttpReply) -> "models.GrantAccepted":
        rejection = rejection_of(response, grant.reference_id) if response.status == 400 else None
        if rejection is not None:
            raise rejection
        accepted: models.GrantAccepted = _read(response, "free-bet/grant")
        return accepted

    return Operation("free-bet/grant", "POST", f"{API_PREFIX}/free-bet/grant", body, parse, body, grant)


def _check_text(**arguments: object) -> None:
    for name, value in arguments.items():
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a str, not {type(value).__name__} {shown(value)}")
        try:
            value.encode()
        except UnicodeEncodeError:
            detail = f"{name} {shown(value)} holds a lone surrogate, which UTF-8 cannot carry."
            raise BadRequestError(INVALID_REQUEST, status_code=400, detail=detail) from None


def _check_whole(**arguments: object) -> None:
    for name, value in arguments.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{name} must be an int, not {type(value).__name__} {shown(value)}")


@cache
def _reader(endpoint: str) -> Callable[[bytes], Any]:  # What it returns depends on the endpoint.
    # Here, because pydantic and its models take as long as the rest of the client, and an import may never need them.
    from game_operator.models.operator_api import reader_of

    return reader_of(endpoint)


def _check_answers(response: HttpReply, **keys: tuple[object, object]) -> None:
    """Raise if one of *keys*, as it was answered and as it was asked, differs: the answer belongs to another call."""
    for name, (answered, asked) in keys.items():
        if answered != asked:
            raise unfit(response, f"{name}: is {shown(answered)}, but {shown(asked)} was asked for")


def _read(response: HttpReply, endpoint: str) -> Any:  # What the reader of the endpoint returns.
    if response.status != 200:
        raise error_of(response)
    problem = response.defect
    if not problem:
        try:
            return _reader(endpoint)(response.body)
        except WireFormatError as misfit:
            problem = str(misfit)
    raise unfit(response, problem)


_KEPT_BODY: Final = 65_536
_SECRET_HEADERS: Final = frozenset(
    {"authorization", "cookie", "proxy-authorization", "set-cookie", "set-cookie2", "x-signature"}
)
#: Of a field that stands twice, the first counts.
_DELAY_SECONDS: Final = re.compile(r"([0-9]{1,9})(?:,|\Z)")


def unfit(response: HttpReply, problem: str) -> UnexpectedResponseError:
    """Return the error for a 200 whose body does not fit, because of *problem*."""
    return UnexpectedResponseError(f"HTTP 200 does not fit the specification ({problem})", **_kept(response))


def _kept(response: HttpReply) -> dict[str, Any]:
    """Return what an error keeps of *response*: not all of a long body, and no credentials."""
    headers = {name: value for name, value in response.headers.items() if name not in _SECRET_HEADERS}
    return {"status_code": response.status, "body": response.body[:_KEPT_BODY], "headers": headers, "attempts": 1}


def error_of(response: HttpReply) -> ApiError:
    """Return the error for a *response* whose status is not 200, whichever endpoint it came from (spec §7.3)."""
    status, said = response.status, _said(response)
    if status == 429:
        return RateLimitedError(said or "Too many requests", **_kept(response))
    if 500 <= status <= 599:
        return ServiceError(said or "the service failed", **_kept(response))
    kind = _DESCRIBED.get(status)
    if kind is not None and said is not None and not response.defect:
        return kind(said, **_kept(response))
    reason = f"HTTP {status} is not described for this call"
    if response.defect:
        reason = f"HTTP {status} cannot be read ({response.defect})"
    elif 300 <= status <= 399:
        target = shown(response.headers.get("location", ""))
        reason = f"HTTP {status} redirects to {target}, and a signature is never sent elsewhere"
    elif kind is not None:
        reason = f"HTTP {status} without the JSON error body of the specification"
    return UnexpectedResponseError(reason, **_kept(response))


def rejection_of(response: HttpReply, reference_id: str) -> FreeBetRejectedError | None:
    """Return the refusal in the 400 of free-bet/grant (spec §2.3, §7.2), or None if its body has another shape."""
    match read_object(response.body):
        case {"success": False, "message": str(message), "error_code": str(code)} if not response.defect:
            known = GrantErrorCode(code) if code in GrantErrorCode.__members__ else code
            return FreeBetRejectedError(message, error_code=known, reference_id=reference_id, **_kept(response))
        case _:
            return None


def says_not_found(response: HttpReply) -> bool:
    """Return whether *response* says NOT_FOUND, which names neither a bet nor a round (spec §4.2)."""
    # JSON may write a letter as an escape, too.
    if response.status != 200 or not (b"NOT_FOUND" in response.body or b"\\u" in response.body):
        return False
    try:
        said = json.loads(response.body)
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and said.get("status") == "NOT_FOUND"


def retry_after_seconds(response: HttpReply, unix_millis: int) -> float | None:
    """Return how many seconds Retry-After asks us to wait, from *unix_millis* on; None when absent or unreadable."""
    value = response.headers.get("retry-after", "").strip()
    if delay := _DELAY_SECONDS.match(value):
        return float(delay[1])
    try:
        until = parsedate_to_datetime(value)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    if until.tzinfo is None:  # The oldest form of an HTTP date names no zone, and means UTC.
        until = until.replace(tzinfo=UTC)
    return max(0.0, until.timestamp() - unix_millis / 1000)


_DESCRIBED: dict[int, type[ApiError]] = {
    400: BadRequestError,
    401: AuthenticationError,
    403: OperatorInactiveError,
}


def _said(response: HttpReply) -> str | None:
    # The three shapes of a failure: {error}, {status: BAD_REQUEST, error} and {success: false, message, error_code}.
    match read_object(response.body):
        case {"error": str(text)}:
            return text
        case {"success": False, "message": str(text), "error_code": str(code)}:
            return f"{text} ({code})"
        case _:
            return None


def read_object(body: bytes) -> dict[str, object]:
    """
    Return the JSON object in *body*, or an empty one if there is no object or a member stands twice in it.

    For error bodies: numbers are not exact here.
    """
    try:
        value = json.loads(body[:_KEPT_BODY].decode(), object_pairs_hook=once)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
