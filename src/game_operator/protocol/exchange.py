"""
One call from the first signature to its result, as a generator that does nothing itself.

``exchange`` yields steps, a driver performs them and sends back what came of it: ``Sign`` is answered with a
``Signed``, ``Send`` with an ``Answer``, ``Wait`` with a ``Waited``; each has the time of the driver's clock.
Every decision about time, repetition and doubt is made here, once, for the sync and the async client alike.

The rule that protects money: after an attempt at a grant whose outcome is unknown, only a 200 or a refusal that the
same bytes must always meet ends the call as itself. Everything else ends it as ``OutcomeUnknownError``.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Generic, TypeAlias, TypeVar

from game_operator.codes import GrantErrorCode
from game_operator.errors import (
    ApiError,
    ConfigurationError,
    FreeBetRejectedError,
    GameOperatorError,
    NoAnswerError,
    OutcomeUnknownError,
    RateLimitedError,
    RequestNotSentError,
    ServiceError,
    TransportError,
    one_line,
    shown,
)
from game_operator.protocol.http import HeaderPairs, HttpReply, HttpRequest, redacted, without_echoes, without_secret
from game_operator.protocol.operations import Operation, request_of, retry_after_seconds, says_not_found, unfit
from game_operator.protocol.signing import Signature

#: Longer waits and timeouts are mistakes, and clocks and sockets refuse them later with other errors.
LONGEST_SECONDS: Final = 1_000_000.0


def checked_seconds(name: str, value: float, *, setting: str | None = None, least: float = 0.001) -> float:
    """
    Return *value* as seconds, from *least* to a million; an error names it, and *setting* where that is another name.

    Raises:
        TypeError: It is not a number.
        ConfigurationError: It is less than *least*, or over a million.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__} {shown(value)}")
    if not least <= value <= LONGEST_SECONDS:
        problem = f"The {name} is {shown(value)}, but must be from {least:g} seconds to a million."
        raise ConfigurationError(problem, setting=setting or name)
    return float(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """
    How a client repeats a call that failed for a passing reason (assumed: not in the specification).

    Waits double from *base_delay_seconds* to *max_delay_seconds*, each cut by up to half at random so that clients
    do not return in step. A longer Retry-After is honoured, unless it exceeds *max_retry_after_seconds* or what
    remains of the deadline: then the call ends at once.

    Attributes:
        max_retries: How often a call is repeated; 0 for a single attempt.
    """

    max_retries: int = 2
    base_delay_seconds: float = 0.2
    max_delay_seconds: float = 5.0
    max_retry_after_seconds: float = 60.0

    def __post_init__(self) -> None:
        if type(self.max_retries) is not int:
            raise TypeError(f"max_retries must be an int, not {type(self.max_retries).__name__}")
        if self.max_retries < 0:
            raise ConfigurationError(
                f"max_retries is {shown(self.max_retries)}.",
                setting="retries",
                remedy="Pass how often to repeat, 0 for a single attempt.",
            )
        for name in ("base_delay_seconds", "max_delay_seconds", "max_retry_after_seconds"):
            checked_seconds(name, getattr(self, name), setting="retries", least=0)

    def delay_seconds(self, repeat: int, jitter: float) -> float:
        """Return the wait before a *repeat*, the first of which is 1; *jitter* is from 0 to 1."""
        # The exponent is bounded: 2.0 ** 1024 is an OverflowError.
        longest = min(self.max_delay_seconds, self.base_delay_seconds * 2.0 ** min(repeat - 1, 64))
        return longest * (1 - jitter / 2)


T = TypeVar("T")

_LONGEST_REASON: Final = 300
_UNCONFIRMED: Final = "NOT_FOUND came over a reused connection and could not be confirmed"
#: A client of httpx keeps 20 connections by default.
_MOST_DOUBTS: Final = 25
#: Refusals of spec §7.2 that depend on what the service holds. All others depend on the request alone, so they say that
#: no attempt with the same bytes was granted.
_BY_STATE: Final = frozenset({GrantErrorCode.DUPLICATE_REFERENCE_ID, GrantErrorCode.INSTANCE_NOT_FOUND})


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSettings:
    """What all calls of a client have in common; durations in seconds, None for no limit."""

    operator_id: str
    base_url: str = "The service"
    headers: HeaderPairs = ()
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    timeout_seconds: float = 10.0
    deadline_seconds: float | None = 30.0


@dataclass(frozen=True, slots=True)
class Sign:
    """Sign *message*, within *timeout_seconds* where that can be enforced."""

    message: bytes = field(repr=False)
    timeout_seconds: float | None


@dataclass(slots=True)
class Departure:
    """Whether a request *may_have_left*. A driver that sees it connect, and sees it leave, says so here."""

    may_have_left: bool = True


@dataclass(frozen=True, slots=True)
class Send:
    """Send *request* as it is, and answer within *timeout_seconds*; if it is *fresh*, over a new connection."""

    request: HttpRequest
    timeout_seconds: float
    attempt: int
    operation_name: str
    fresh: bool = False
    correlation_id: str = ""
    departure: Departure = field(default_factory=Departure, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing for *seconds*."""

    seconds: float


@dataclass(frozen=True, slots=True)
class TransportFailed:
    """
    No response.

    Attributes:
        reason: Why, in words.
        sent: False only if nothing of the request can have reached the service.
        timed_out: Whether the time was up.
        remedy: What to do about it, where that is known; "" if not.
    """

    reason: str = field(repr=False)
    sent: bool
    timed_out: bool = False
    remedy: str = ""

    def reason_without(self, secret: bytes) -> str:
        """Return the reason as one short line, *secret* cut out: it may quote what the other side sent."""
        return one_line(without_echoes(self.reason.encode(errors="replace"), secret).decode(), _LONGEST_REASON)


@dataclass(frozen=True, slots=True)
class Signed:
    """The signature, or why there is none, at *seconds* of the driver's monotonic clock."""

    result: Signature | TransportFailed
    seconds: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a ``Send``, at *seconds* of the monotonic and *unix_millis* of the wall clock."""

    result: HttpReply | TransportFailed
    seconds: float
    unix_millis: int


@dataclass(frozen=True, slots=True)
class Waited:
    """The wait is over, at *seconds* of the driver's monotonic clock."""

    seconds: float


Step: TypeAlias = Sign | Send | Wait
Reply: TypeAlias = Signed | Answer | Waited


@dataclass(slots=True)
class _Call(Generic[T]):
    """What is known of a call so far."""

    operation: Operation[T]
    settings: CallSettings
    started: float
    now: float
    attempts: int = 0
    repeats: int = 0
    #: How often NOT_FOUND came over a connection that may have held the answer to another call.
    doubts: int = 0
    left_us: bool = False
    in_doubt: bool = False
    under_way: Departure | None = None
    out_of_time: bool = False
    said: ApiError | None = None

    def remaining(self) -> float | None:
        """Return the seconds until the deadline, or None without one."""
        deadline = self.settings.deadline_seconds
        return None if deadline is None else self.started + deadline - self.now

    def transport_error(self, reason: str, *, timed_out: bool, remedy: str = "") -> TransportError:
        """Return the error for a call whose last attempt failed for *reason*; *remedy* is for one that never left."""
        elapsed = self.now - self.started
        if not self.left_us:
            return RequestNotSentError(
                reason, attempts=self.attempts, elapsed_seconds=elapsed, timed_out=timed_out, remedy=remedy
            )
        kind = TransportError if self.operation.grant else NoAnswerError
        return kind(reason, attempts=self.attempts, elapsed_seconds=elapsed, timed_out=timed_out)


def exchange(
    operation: Operation[T],
    settings: CallSettings,
    *,
    started_seconds: float,
    jitter: Iterator[float],
    correlation_id: str = "",
) -> Generator[Step, Reply, T]:
    """
    Yield the steps of *operation*, and return its result.

    Args:
        operation: The call.
        settings: The client's side of it.
        started_seconds: The driver's monotonic clock at the start, from which the deadline counts.
        jitter: Endless random numbers from 0 to 1.
        correlation_id: What names the call in each ``Send``.

    Raises:
        ApiError: The service said no, or something unintelligible.
        TransportError: No usable answer arrived.
        BaseException: Whatever the driver throws in, such as a cancellation or an exception out of a signal handler. If
            a grant may have been made by then, a note says so.
    """
    call = _Call(operation, settings, started_seconds, started_seconds)
    try:
        return (yield from _attempts(call, jitter, correlation_id))
    except GameOperatorError:
        raise
    except BaseException as interruption:
        is_under_way = call.under_way is not None and call.under_way.may_have_left
        if operation.grant is not None and (is_under_way or call.in_doubt):
            reference_id, instance_id = shown(operation.grant.reference_id), shown(operation.grant.instance_id)
            interruption.add_note(
                f"The grant of free bets with reference_id {reference_id} on instance {instance_id} was under way: it "
                "may have been made. To find out, repeat it with the same reference_id and the same values. Never "
                "repeat it under a new reference_id."
            )
        raise


def _attempts(call: _Call[T], jitter: Iterator[float], correlation_id: str) -> Generator[Step, Reply, T]:
    operation, settings = call.operation, call.settings
    signature = yield from _sign(call)
    request = request_of(operation, settings.operator_id, signature, settings.headers)
    while True:
        remaining, timeout = call.remaining(), settings.timeout_seconds
        if remaining is not None:
            timeout = min(timeout, max(remaining, 0.0))
        call.attempts += 1
        call.under_way = departure = Departure()
        answer: Answer | None = None
        try:
            fresh = call.doubts > 0 or not operation.is_lookup
            reply = yield Send(request, timeout, call.attempts, operation.name, fresh, correlation_id, departure)
            assert isinstance(reply, Answer)
            answer, call.now = reply, reply.seconds
            if _may_answer_another(operation, answer.result):
                _ask_again(call)
                continue
            return _read(call, answer, signature)
        except GameOperatorError as error:
            failure = error
        # Without an answer the client was closed in between; an earlier attempt may have made the grant all the same.
        pause = None if answer is None else _pause(call, answer, failure, jitter)
        if pause is None:
            raise _verdict(call, failure)
        call.repeats += 1
        waited = yield Wait(pause)
        call.now = waited.seconds
        if _is_out_of_time(call, 0.0):
            raise _verdict(call, failure)


def _sign(call: _Call[T]) -> Generator[Step, Reply, Signature]:
    signed = yield Sign(call.operation.to_sign, call.remaining())
    assert isinstance(signed, Signed)
    call.now = signed.seconds
    if isinstance(signed.result, TransportFailed):
        raise call.transport_error(signed.result.reason, timed_out=signed.result.timed_out)
    if _is_out_of_time(call, 0.0):
        raise call.transport_error("The deadline passed while signing", timed_out=True)
    return signed.result


def _read(call: _Call[T], answer: Answer, signature: Signature) -> T:
    result = answer.result
    if isinstance(result, TransportFailed):
        call.left_us = call.left_us or result.sent
        call.in_doubt = call.in_doubt or result.sent
        call.under_way = None
        subject = "" if call.left_us else f"{call.settings.base_url} cannot be reached: "
        if call.doubts:
            subject = f"{_UNCONFIRMED}: "
        reason = f"{subject}{result.reason_without(signature)}"
        raise call.transport_error(reason, timed_out=result.timed_out, remedy=result.remedy)
    call.left_us = True
    if call.attempts > 1:
        result = replace(result, attempts=call.attempts)
    try:
        # A debugging service may echo our headers: no error carries the signature on.
        try:
            return call.operation.parse(without_secret(result, signature))
        except ApiError:
            cleaned = redacted(result, partial(without_echoes, secret=signature))
        # Only an error shows what was received, so that only an error costs the closer look.
        call.operation.parse(cleaned)
        raise unfit(cleaned, "it can be read only without the signature in it")
    except ApiError as error:
        error.attempts = call.attempts
        if isinstance(error, RateLimitedError):
            error.retry_after = retry_after_seconds(result, answer.unix_millis)
        call.said = error
        call.in_doubt = call.in_doubt or _leaves_doubt(error)
        call.under_way = None
        raise


def _may_answer_another(operation: Operation[T], result: HttpReply | TransportFailed) -> bool:
    """
    Return whether *result* may be the rest of an answer to another call: then the service is asked again.

    It says NOT_FOUND, so it names nothing that could be compared, and its connection had carried another call before.
    Believed, it would refund a bet that was placed.
    """
    return isinstance(result, HttpReply) and result.reused and operation.is_lookup and says_not_found(result)


def _ask_again(call: _Call[T]) -> None:
    """
    Take note that NOT_FOUND is asked again.

    One question is enough over a connection of ours, because it is a new one. A client of the user's may have several
    connections that other code has left.

    Raises:
        NoAnswerError: The deadline has passed, or nothing but reused connections can be had.
    """
    call.left_us, call.under_way = True, None
    call.doubts += 1
    if call.doubts > _MOST_DOUBTS or _is_out_of_time(call, 0.0):
        why = "no new connection can be had" if call.doubts > _MOST_DOUBTS else "the deadline has passed"
        raise call.transport_error(f"{_UNCONFIRMED}: {why}", timed_out=call.out_of_time)


def _leaves_doubt(error: ApiError) -> bool:
    """
    Whether a request that was answered so may have been carried out all the same.

    A redirect or a 4xx is taken to say that it was not. All else leaves it open: 5xx, a success that cannot be read,
    and a status that HTTP does not know.
    """
    return not 300 <= error.status_code <= 499


def _pause(call: _Call[T], answer: Answer, failure: GameOperatorError, jitter: Iterator[float]) -> float | None:
    """Return the seconds to wait before the next attempt, or None if the call ends here."""
    policy = call.settings.policy
    if call.repeats >= policy.max_retries or not _worth_repeating(call, answer, failure):
        return None
    pause = policy.delay_seconds(call.repeats + 1, next(jitter))
    if isinstance(answer.result, HttpReply):
        asked = retry_after_seconds(answer.result, answer.unix_millis) or 0.0
        if asked > policy.max_retry_after_seconds:
            return None
        pause = max(pause, asked)
    return None if _is_out_of_time(call, pause) else pause


def _is_out_of_time(call: _Call[T], pause: float) -> bool:
    """Return whether the deadline allows no attempt after *pause* seconds, and remember it."""
    remaining = call.remaining()
    call.out_of_time = remaining is not None and pause >= remaining
    return call.out_of_time


def _worth_repeating(call: _Call[T], answer: Answer, failure: GameOperatorError) -> bool:
    if isinstance(failure, RateLimitedError | ServiceError):
        return True
    result = answer.result
    if call.operation.grant is not None:
        # The same bytes again: by the reference id, the service recognises them and reports what became of them.
        return isinstance(result, TransportFailed) or (isinstance(failure, ApiError) and _leaves_doubt(failure))
    # A look-up that was sent and not answered in time is not sent again: a slow service needs no second one.
    return isinstance(result, TransportFailed) and not (result.sent and result.timed_out)


def _verdict(call: _Call[T], failure: GameOperatorError) -> GameOperatorError:
    """Return what the caller gets when *failure* ends the call."""
    if isinstance(failure, TransportError):
        failure.elapsed_seconds = call.now - call.started
        failure.timed_out = failure.timed_out or call.out_of_time
    grant = call.operation.grant
    if grant is None:
        return failure
    if not call.in_doubt:
        if isinstance(failure, TransportError) and call.said is not None:
            # This attempt never left us, and every earlier one was refused: that refusal is the answer.
            call.said.attempts = call.attempts
            return call.said
        return failure
    code = failure.error_code if isinstance(failure, FreeBetRejectedError) else None
    if isinstance(code, GrantErrorCode) and code not in _BY_STATE:
        return failure
    if isinstance(failure, ApiError):
        reason = f"HTTP {failure.status_code}: {f'{code}, ' if code else ''}{failure.message}"
    else:
        reason = failure.reason if isinstance(failure, TransportError) else failure.what
    unknown = OutcomeUnknownError(
        reason,
        reference_id=grant.reference_id,
        instance_id=grant.instance_id,
        error_code=code,
        attempts=call.attempts,
        elapsed_seconds=call.now - call.started,
        timed_out=call.out_of_time or (isinstance(failure, TransportError) and failure.timed_out),
    )
    unknown.__cause__ = failure
    return unknown
