"""
Every error this package raises, in one tree.

::

    GameOperatorError
    ├── ConfigurationError                a setting is missing or cannot work
    │   ├── SigningKeyError               the signing key cannot be used
    │   └── CampaignRefusedError          a campaign cannot be planned like that; nothing was kept or sent
    ├── TransportError                    no usable answer arrived
    │   ├── RequestNotSentError           no attempt left us: nothing happened at the service
    │   ├── NoAnswerError                 a lookup went unanswered: safe to repeat
    │   ├── OutcomeUnknownError           a grant may have been made: look before you repeat
    ├── ApiError                          the service answered, and it is not a success
    │   ├── BadRequestError               400
    │   │   └── FreeBetRejectedError      400 of free-bet/grant, with its error code
    │   ├── AuthenticationError           401
    │   ├── OperatorInactiveError         403
    │   ├── RateLimitedError              429
    │   ├── ServiceError                  5xx
    │   └── UnexpectedResponseError       an answer that the specification does not describe
    ├── SessionTokenError                 a session token that cannot be built or trusted
    ├── WebhookError                      raised by the receiver's pieces, never out of the receiver
    │   ├── WebhookSignatureError         no known key signed this call
    │   ├── MalformedCallError            the body is not a call
    │   └── InstancesUnavailableError     whose game instance a call names cannot be said now
    └── LedgerError                       the ledger cannot do what was asked; nothing was changed
        ├── AccountNotFoundError          no such account
        ├── AccountExistsError            the account is open already
        ├── AdjustmentRefusedError        the adjustment would go below zero, or its reference is taken
        ├── RetryRefusedError             the anomaly cannot be applied again
        ├── RepairRefusedError            the bet cannot be settled without a call of the provider
        ├── FindingError                  there is no such finding, or it is resolved already
        ├── RunError                      a run of the back office cannot begin or go on
        │   └── LeaseLostError            another process has taken over this part of it
        ├── UnknownSourceError            the call's source is not among those that the ledger knows
        ├── SchemaError                   the tables are missing, newer than this program, or not as they should be
        ├── TransactionRequiredError      connection= without an open transaction
        └── LedgerUnavailableError        the database is down, locked or full: repeat the call

``game_operator`` has what calls, webhooks and accounts raise; ``game_operator.backoffice`` has the errors of
campaigns, runs, leases, findings and repairs; ``game_operator.ledger``, ``game_operator.webhooks`` and
``game_operator_testkit.provider.caller`` have the others.

What a program branches on is an attribute; ``str()`` is written for the person on call. Every error
pickles and copies. None holds a key, a signature, a token or a live request.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import wraps
from reprlib import Repr
from typing import ParamSpec, TypeVar

from game_operator.codes import GrantErrorCode

_SHOWN_CHARACTERS = 200
# A list of a million items is not written out to be cut afterwards.
_BRIEF = Repr()
_BRIEF.maxstring = _BRIEF.maxother = _BRIEF.maxlong = _SHOWN_CHARACTERS


def shown(value: object) -> str:
    """Return *value* fit for one line of a log: escaped, cut after 200 characters, and without any key in PEM."""
    try:
        text = repr(value[: _SHOWN_CHARACTERS + 1]) if isinstance(value, str | bytes) else _BRIEF.repr(value)
    except Exception:  # A number of 5,000 digits has no repr either.
        text = f"<{type(value).__name__}>"
    if "-----BEGIN" in text:
        return "[a key, not shown]"
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"


def one_line(text: str, longest: int = sys.maxsize) -> str:
    """Return *text* for a log: cut after *longest* characters, its line breaks and control characters escaped."""
    if len(text) > longest:
        text = text[:longest] + "…"
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


_P = ParamSpec("_P")
_T = TypeVar("_T")


def without_frames(check: Callable[_P, _T]) -> Callable[_P, _T]:
    """
    Return *check* such that its errors do not carry its frames: a decorator.

    Error trackers show the locals of every frame that an error passes, and a key or a token may be among them.
    """

    @wraps(check)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return check(*args, **kwargs)
        except BaseException as raised:
            error = raised
        finally:
            del args, kwargs
        error.__traceback__ = error.__context__ = None  # Both lead to frames.
        if error.__cause__ is not None:
            error.__cause__ = None  # As this does; setting it hides what the caller was handling.
        raise error

    return checked


class GameOperatorError(Exception):
    """
    The root of every error of this package. ``str(error)`` is ``what`` and ``remedy`` together.

    Attributes:
        what: What happened, to which value.
        setting: The parameter to change, such as "private_key" or "database", where one is to blame.
        remedy: What to do next, or "" where ``what`` says it.
    """

    setting: str | None = None
    remedy: str = ""

    def __init__(self, what: str, *, setting: str | None = None, remedy: str = "") -> None:
        super().__init__(what)
        if setting is not None:
            self.setting = setting
        if remedy:
            self.remedy = remedy

    @property
    def what(self) -> str:
        return str(self.args[0])

    def __str__(self) -> str:
        return f"{self.what} {self.remedy}" if self.remedy else self.what

    def __reduce__(self) -> tuple[object, ...]:
        # Exception.__reduce__ would call the class with positional arguments alone, and lose the cause, which
        # is where OutcomeUnknownError says what went wrong. A foreign cause may hold a live request: it stays.
        cause = self.__cause__ if isinstance(self.__cause__, GameOperatorError) else None
        return Exception.__new__, (type(self), *self.args), {**self.__dict__, "__cause__": cause}


class ConfigurationError(GameOperatorError):
    """A setting is missing, or cannot work; the message names it and says what to set."""


class SigningKeyError(ConfigurationError):
    """The key cannot sign Operator API requests (spec §5): unreadable, too short, public, or not RSA."""


class CampaignRefusedError(ConfigurationError):
    """
    A campaign cannot be planned as asked. Nothing was kept, and nothing was sent.

    Attributes:
        problems: What is wrong with the rows of the players, each with ``line`` and ``text``; at most 100 of them.
        problem_count: How many rows have a problem.
    """

    def __init__(
        self, what: str, *, remedy: str = "", problems: "Sequence[tuple[int, str]]" = (), problem_count: int = 0
    ) -> None:
        super().__init__(what, remedy=remedy)
        self.problems: tuple[tuple[int, str], ...] = tuple(problems)
        self.problem_count: int = problem_count


class SessionTokenError(GameOperatorError):
    """A session token cannot be built as asked, or does not deserve trust."""


class WebhookError(GameOperatorError):
    """A webhook call cannot be accepted. The receiver turns it into a reply: it is never raised out of it."""


class WebhookSignatureError(WebhookError):
    """No key that we know signed this call (spec §5 does not show how webhooks are authenticated)."""


class MalformedCallError(WebhookError):
    """The body of a webhook is not a call; the message names the field, for the log alone."""


class InstancesUnavailableError(WebhookError):
    """
    Whether a game instance is this operator's cannot be said now: the receiver answers SYSTEM_ERROR.

    What is passed to a receiver as ``instances`` raises it. The service may send the call again.
    """


class LedgerError(GameOperatorError):
    """The ledger cannot do what was asked, and has changed nothing."""


class AccountNotFoundError(LedgerError):
    """There is no such account."""


class AccountExistsError(LedgerError):
    """The account is open already."""

    remedy = "Use adjust() or `game-operator ledger adjust` to change its balance."


class AdjustmentRefusedError(LedgerError):
    """The adjustment would take the balance below zero, or its reference belongs to another adjustment."""


class RetryRefusedError(LedgerError):
    """There is no such anomaly, or its call cannot be applied again; the message says why, and what to do instead."""


class RepairRefusedError(LedgerError):
    """A bet is not OPEN, or must not be settled without a call of the provider; nothing was moved."""


class FindingError(LedgerError):
    """There is no such finding, it is resolved already, or nothing can be paid for it; nothing was changed."""


class RunError(LedgerError):
    """A run of the back office cannot begin or go on; the message says why, and what to do."""


class LeaseLostError(RunError):
    """Another process has taken over this part of a run, or the run ended; nothing of it was committed here."""


class UnknownSourceError(LedgerError):
    """The ledger does not know the source of a call; the message says how to add it, and nothing was moved."""


class SchemaError(LedgerError):
    """
    The tables are missing, old, newer than this program, or not what the ledger needs.

    Attributes:
        statements: The statements that make or migrate the tables, or "" where these would not help.
        version: The version that the tables have, 0 if there are none; None where the version is not the problem.
    """

    def __init__(self, what: str, *, remedy: str = "", statements: str = "", version: int | None = None) -> None:
        super().__init__(what, remedy=remedy)
        self.statements: str = statements
        self.version: int | None = version


class TransactionRequiredError(LedgerError):
    """``connection=`` was given without an open transaction, so nothing would be committed together."""


class LedgerUnavailableError(LedgerError):
    """The database is down, locked or full. A call under way may have been committed: repeat it to find out."""


@dataclass(eq=False, repr=False)
class TransportError(GameOperatorError):
    """
    No usable answer arrived from the service.

    Attributes:
        reason: What went wrong, without the attempts and the time.
        attempts: How many attempts were made.
        elapsed_seconds: How long the whole call took, waits included.
        timed_out: Whether a timeout or the deadline ended the call.
    """

    reason: str
    _: KW_ONLY
    attempts: int = 1
    elapsed_seconds: float = 0.0
    timed_out: bool = False
    setting: str | None = None
    remedy: str = ""

    def __post_init__(self) -> None:
        self.remedy = self.remedy or type(self).remedy

    @property
    def what(self) -> str:
        tries = "1 attempt" if self.attempts == 1 else f"{self.attempts} attempts"
        return f"{one_line(self.reason)} ({tries}, {self.elapsed_seconds:.2f} s)."


class RequestNotSentError(TransportError):
    """No attempt left this machine (DNS, connect, TLS, connection pool): nothing happened at the service."""

    remedy = "The request never left: check the base URL, DNS, firewall, proxy and TLS, then repeat the call."


class NoAnswerError(TransportError):
    """A lookup went unanswered. Lookups change nothing, so repeating is safe."""

    remedy = "A lookup changes nothing at the service, so it is safe to repeat."


@dataclass(eq=False, repr=False, kw_only=True)
class OutcomeUnknownError(TransportError):
    """
    A free-bet grant may or may not have been made.

    Attributes:
        reference_id: The grant's reference id.
        instance_id: The game instance it was meant for.
        error_code: The code with which a later attempt was refused, or None. DUPLICATE_REFERENCE_ID: count the grant
            as made.
    """

    reference_id: str
    instance_id: str
    error_code: GrantErrorCode | str | None = None

    def __post_init__(self) -> None:
        self.remedy: str = (
            f"Repeat the grant with the same reference_id {shown(self.reference_id)} on instance "
            f"{shown(self.instance_id)} and the same values: GrantAccepted or DUPLICATE_REFERENCE_ID then says that "
            "they exist. Never repeat it under a new one."
        )
        if self.error_code == GrantErrorCode.DUPLICATE_REFERENCE_ID:
            self.remedy = (
                "A grant under this reference exists, most likely this one. Count it as granted; never send another "
                "reference for it."
            )

    @property
    def what(self) -> str:
        if self.error_code == GrantErrorCode.DUPLICATE_REFERENCE_ID:
            names = f"reference_id {shown(self.reference_id)} on instance {shown(self.instance_id)}"
            return f"{super().what} An earlier attempt of the grant with {names} went unanswered."
        return f"{super().what} Whether the free bets were granted is unknown."


@dataclass(eq=False, repr=False)
class ApiError(GameOperatorError):
    """
    The service answered, and the answer is not a success.

    Attributes:
        status_code: The HTTP status.
        message: The service's own text, or the specification's when the call was refused before sending.
        detail: What this package has to add, or "".
        body: The body as received, at most 64 KiB of it; ``b""`` when refused before sending.
        headers: Response headers, names in lower case, without cookies and credentials.
        attempts: How many attempts were made; 0 means that the call was refused before sending.
    """

    message: str
    _: KW_ONLY
    status_code: int
    detail: str = ""
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    attempts: int = 0

    def __post_init__(self) -> None:
        self.headers = dict(self.headers or {})

    @property
    def what(self) -> str:
        origin = "Refused before sending"
        if self.attempts:
            origin = f"The service answered HTTP {self.status_code}"
        elif not self.detail:  # With a detail the call cannot travel, so the service never has to say so.
            origin += f", as the service would with HTTP {self.status_code}"
        return f"{origin}: {self._answer_shown()}. {self.detail}".rstrip()

    def _answer_shown(self) -> str:
        return shown(self.message)


class BadRequestError(ApiError):
    """HTTP 400: the request is malformed (spec §7.3)."""

    remedy = "Fix the arguments; repeating the same call cannot help."


@dataclass(eq=False, repr=False, kw_only=True)
class FreeBetRejectedError(BadRequestError):
    """
    The service refuses the grant and says why (spec §7.2): this call granted nothing.

    Attributes:
        error_code: A ``GrantErrorCode``, or plain text when the code is new to this version.
        reference_id: The grant's reference id.
    """

    status_code: int = 400
    error_code: GrantErrorCode | str
    reference_id: str

    def _answer_shown(self) -> str:
        code = shown(str(self.error_code))[1:-1]
        return f"{code}, {shown(self.message)}, for reference_id {shown(self.reference_id)}"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.remedy: str = "Nothing was granted: fix the request, then grant again."
        if self.error_code == GrantErrorCode.DUPLICATE_REFERENCE_ID:
            self.remedy = (
                "This call granted nothing: an earlier grant under this reference_id stands on this instance. Never "
                "send another reference_id for the same grant."
            )


class AuthenticationError(ApiError):
    """HTTP 401: the service knows neither this operator nor this signature (spec §5)."""

    remedy = (
        "Check that operator_id is the one you were given and that the public key of this private key is registered "
        "with the provider; then run `game-operator doctor`."
    )


class OperatorInactiveError(ApiError):
    """HTTP 403: the operator account is inactive (spec §5, §7.3)."""

    remedy = "The account is inactive: only the provider can activate it."


@dataclass(eq=False, repr=False, kw_only=True)
class RateLimitedError(ApiError):
    """
    HTTP 429: too many requests. Not in the specification; handled as any HTTP client would.

    Attributes:
        retry_after: Seconds the service asked us to wait, or None.
    """

    remedy = "Slow down, and repeat the call later."

    retry_after: float | None = None
    status_code: int = 429


class ServiceError(ApiError):
    """HTTP 5xx with any body: the service has a problem."""

    remedy = "The trouble is at the service: repeat the call later."


class UnexpectedResponseError(ApiError):
    """
    An answer that the specification does not describe: HTML, a redirect, a 200 that does not fit.

    ``str()`` shows the status, the content type and the first bytes.
    """

    remedy = "Check that the base URL leads to the Operator API and that no proxy or login page answers in its place."

    def _answer_shown(self) -> str:
        content_type = self.headers.get("content-type")
        kind = f"content type {shown(content_type)}" if content_type else "no content type"
        return f"{one_line(self.message)}; {kind}, body begins {shown(self.body[:80])}"
