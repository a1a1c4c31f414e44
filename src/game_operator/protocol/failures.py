"""From an HTTP response that is no success to the error that says so (spec §5, §7.2, §7.3)."""

import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final

from game_operator.codes import GrantErrorCode
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
from game_operator.protocol.canonical import read_object
from game_operator.protocol.http import HttpResponse

__all__ = ["error_of", "rejection_of", "retry_after_seconds", "unfit"]

_KEPT_BODY: Final = 65_536
_SECRET_HEADERS: Final = frozenset(
    {"authorization", "cookie", "proxy-authorization", "set-cookie", "set-cookie2", "x-signature"}
)
_DELAY_SECONDS: Final = re.compile(r"[0-9]{1,9}\Z")


def unfit(response: HttpResponse, problem: str) -> UnexpectedResponseError:
    """Return the error for a 200 that is none, because of *problem*."""
    return UnexpectedResponseError(f"HTTP 200 does not fit the specification ({problem})", **_kept(response))


def _kept(response: HttpResponse) -> dict[str, Any]:
    """Return what an error keeps of *response*: not all of a long body, and no credentials."""
    pairs = ((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in response.headers)
    headers = {name: value for name, value in pairs if name not in _SECRET_HEADERS}
    return {"status_code": response.status, "body": response.body[:_KEPT_BODY], "headers": headers, "attempts": 1}


def error_of(response: HttpResponse) -> ApiError:
    """Return the error for a *response* whose status is not 200, whichever endpoint it came from (spec §7.3)."""
    status = response.status
    if status == 429:
        return _error(RateLimitedError, response, _said(response) or "Too many requests")
    if 500 <= status <= 599:
        return _error(ServiceError, response, _said(response) or "the service failed")
    kind = _DESCRIBED.get(status)
    said = _said(response)
    if kind is None or said is None or response.defect:
        return _unexpected(response)
    return _error(kind, response, said)


def rejection_of(response: HttpResponse, reference_id: str) -> FreeBetRejectedError | None:
    """Return the refusal in the 400 of free-bet/grant (spec §2.3, §7.2), or None if its body has another shape."""
    match read_object(response.body):
        case {"success": False, "message": str(message), "error_code": str(code)} if not response.defect:
            return FreeBetRejectedError(message, error_code=_known(code), reference_id=reference_id, **_kept(response))
        case _:
            return None


def retry_after_seconds(response: HttpResponse, unix_millis: int) -> float | None:
    """Return how long Retry-After asks us to wait, from *unix_millis* on; None when absent or unreadable."""
    value = (response.header(b"retry-after") or "").strip()
    if _DELAY_SECONDS.match(value):
        return float(value)
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


def _known(code: str) -> GrantErrorCode | str:
    return GrantErrorCode(code) if code in GrantErrorCode.__members__ else code


def _said(response: HttpResponse) -> str | None:
    # The three shapes of a failure: {error}, {status: BAD_REQUEST, error} and {success: false, message, error_code}.
    match read_object(response.body):
        case {"error": str(text)}:
            return text
        case {"success": False, "message": str(text), "error_code": str(code)}:
            return f"{text} ({code})"
        case _:
            return None


def _error(kind: type[ApiError], response: HttpResponse, message: str) -> ApiError:
    return kind(message, **_kept(response))


def _unexpected(response: HttpResponse) -> ApiError:
    reason = f"HTTP {response.status} is not described for this call"
    if response.defect:
        reason = f"HTTP {response.status} cannot be read ({response.defect})"
    elif 300 <= response.status <= 399:
        target = shown(response.header(b"location") or "")
        reason = f"HTTP {response.status} redirects to {target}, and a signature is never sent elsewhere"
    elif response.status in _DESCRIBED:
        reason = f"HTTP {response.status} without the JSON error body of the specification"
    return _error(UnexpectedResponseError, response, reason)
