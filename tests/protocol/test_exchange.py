"""One call from signature to result, played without a network: steps out, replies in (docs/decisions/0004)."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from game_operator.codes import GrantErrorCode
from game_operator.errors import (
    ApiError,
    BadRequestError,
    ConfigurationError,
    FreeBetRejectedError,
    GameOperatorError,
    NoAnswerError,
    OutcomeUnknownError,
    RateLimitedError,
    RequestNotSentError,
    ServiceError,
    TransportError,
    UnexpectedResponseError,
)
from game_operator.models import BetNotFound, GrantAccepted, OpenBet
from game_operator.protocol import operations
from game_operator.protocol.exchange import (
    Answer,
    CallSettings,
    RetryPolicy,
    Send,
    Sign,
    Signed,
    Step,
    TransportFailed,
    Wait,
    Waited,
    exchange,
)
from game_operator.protocol.http import HttpReply, HttpRequest
from game_operator.protocol.operations import Operation
from game_operator.protocol.signing import Signature
from tests.support.wire import bet, examples, grant_operation, granted, response

Outcome = HttpReply | TransportFailed

CLOSED = ConfigurationError("This OperatorClient is closed.")
SIGNATURE = Signature(b"c2lnbmF0dXJlLW9mLXRoZS1jYWxs")
NOW_MILLIS = 1_700_000_000_000  # Tue, 14 Nov 2023 22:13:20 GMT

REFUSED = TransportFailed("ConnectError: refused", sent=False)
SLOW_CONNECT = TransportFailed("ConnectTimeout", sent=False, timed_out=True)
LOST = TransportFailed("ReadError: reset", sent=True)
SILENT = TransportFailed("ReadTimeout", sent=True, timed_out=True)

FOUND = response(200, bet())
GRANTED = response(200, granted())
UNREADABLE = response(200, b"<html>")
TOO_LONG = response(200, b"{", defect="the body is longer than 1 bytes")
EMPTY_204 = response(204)
REDIRECT = response(302, b"", (b"Location", b"https://elsewhere.example/"))
BAD_REQUEST = response(400, {"error": "Invalid request"})
HTML_400 = response(400, b"<html>")
UNKNOWN_OPERATOR = response(401, {"error": "Authentication failed"})
INACTIVE = response(403, {"error": "Operator is inactive"})
NOT_FOUND = response(404, b"<html>")
BUSY = response(429, {"error": "slow down"})
BROKEN = response(500, {"error": "oops"})
BAD_GATEWAY = response(502, b"<html>")
NO_SUCH_STATUS = response(999, b"")


def refusal(code: str) -> HttpReply:
    """Return the 400 of spec §2.3 with *code*."""
    return response(400, {"success": False, "message": "no", "error_code": code})


DUPLICATE = refusal(GrantErrorCode.DUPLICATE_REFERENCE_ID)
BAD_COUNT = refusal(GrantErrorCode.INVALID_COUNT)
NO_INSTANCE = refusal(GrantErrorCode.INSTANCE_NOT_FOUND)
CODE_OF_TOMORROW = refusal("PLAYER_EXCLUDED")


@dataclass
class Played:
    """What a call did, and how it ended."""

    steps: list[Step]
    ending: Any
    seconds: float
    requests: list[HttpRequest] = field(init=False)

    def __post_init__(self) -> None:
        self.requests = [step.request for step in self.steps if isinstance(step, Send)]

    @property
    def waits(self) -> list[float]:
        return [step.seconds for step in self.steps if isinstance(step, Wait)]

    @property
    def timeouts(self) -> list[float]:
        return [step.timeout_seconds for step in self.steps if isinstance(step, Send)]


def settings_of(
    *, attempts: int = 3, deadline: float | None = 30.0, timeout: float = 10.0, **policy: float
) -> CallSettings:
    """Return settings; *policy* goes to the ``RetryPolicy``."""
    retries = RetryPolicy(max_retries=attempts - 1, **policy)
    return CallSettings(operator_id="acme", policy=retries, deadline_seconds=deadline, timeout_seconds=timeout)


def play(
    operation: Operation[Any],
    outcomes: Iterable[Outcome],
    settings: CallSettings | None = None,
    *,
    jitter: float = 0.0,
    signing: Signature | TransportFailed = SIGNATURE,
    signing_seconds: float = 0.0,
    attempt_seconds: float | Iterator[float] = 0.0,
    waking_late_seconds: float = 0.0,
) -> Played:
    """Perform *operation* on a clock of our own, each attempt answered by the next of *outcomes*; then it is closed."""
    clock = started = 1000.0
    durations = attempt_seconds if isinstance(attempt_seconds, Iterator) else itertools.repeat(attempt_seconds)
    answers = iter(outcomes)
    call = exchange(operation, settings or settings_of(), started_seconds=started, jitter=itertools.repeat(jitter))
    steps: list[Step] = [next(call)]
    try:
        while True:
            match steps[-1]:
                case Sign():
                    clock += signing_seconds
                    reply: Signed | Answer | Waited = Signed(signing, clock)
                case Send():
                    clock += next(durations)
                    if (answer := next(answers, None)) is None:
                        call.throw(CLOSED)
                        raise AssertionError("it goes on")
                    reply = Answer(answer, clock, NOW_MILLIS)
                case Wait(seconds=seconds):
                    clock += seconds + waking_late_seconds
                    reply = Waited(clock)
            steps.append(call.send(reply))
    except StopIteration as finished:
        return Played(steps, finished.value, clock - started)
    except GameOperatorError as error:
        return Played(steps, error, clock - started)


def a_lookup() -> Operation[Any]:
    return operations.fetch_bet("acme", "bet-1")


def _reused(reply: HttpReply) -> HttpReply:
    return replace(reply, reused=True)


NONE_SUCH = response(200, {"status": "NOT_FOUND"})
NONE_SUCH_ESCAPED = response(200, rb'{"status": "NOT\u005fFOUND"}')
NONE_SUCH_LONG = response(200, {"status": "NOT_FOUND", "more": "x" * 100_000})
NAMED_SO = response(200, bet() | {"game": "NOT_FOUND"})


@pytest.mark.parametrize(
    ("outcomes", "retries", "fresh", "ending"),
    [
        pytest.param([NONE_SUCH], 0, [False], BetNotFound, id="over a new connection"),
        pytest.param([_reused(FOUND)], 0, [False], OpenBet, id="a bet is named"),
        pytest.param([_reused(NAMED_SO)], 0, [False], OpenBet, id="something else is called so"),
        pytest.param([_reused(NONE_SUCH), NONE_SUCH], 0, [False, True], BetNotFound, id="confirmed"),
        pytest.param([_reused(NONE_SUCH_ESCAPED), FOUND], 0, [False, True], OpenBet, id="in other letters"),
        pytest.param([_reused(NONE_SUCH_LONG), FOUND], 0, [False, True], OpenBet, id="with much behind it"),
        pytest.param([_reused(NONE_SUCH), FOUND], 0, [False, True], OpenBet, id="left over"),
        pytest.param([_reused(NONE_SUCH), LOST], 0, [False, True], NoAnswerError, id="lost"),
        pytest.param([_reused(NONE_SUCH), SILENT], 2, [False, True], NoAnswerError, id="silent"),
        pytest.param([_reused(NONE_SUCH), BROKEN], 0, [False, True], ServiceError, id="what it says is believed"),
        pytest.param([_reused(NONE_SUCH), LOST, NONE_SUCH], 1, [False, True, True], BetNotFound, id="repeated"),
        pytest.param([LOST, _reused(NONE_SUCH), FOUND], 1, [False, False, True], OpenBet, id="it is no repeat"),
    ],
)
def test_not_found_over_a_reused_connection_is_asked_again(
    outcomes: list[Outcome], retries: int, fresh: list[bool], ending: type
) -> None:
    """NOT_FOUND names nothing, so it may answer another call; believed, it would refund a bet (decision 0028)."""
    played = play(a_lookup(), outcomes, settings_of(attempts=retries + 1))
    assert type(played.ending) is ending
    sends = [step for step in played.steps if isinstance(step, Send)]
    assert [step.fresh for step in sends] == fresh
    assert [step.attempt for step in sends] == [*range(1, len(sends) + 1)]
    assert len({step.request for step in sends}) == 1


def test_a_reader_of_your_own_is_not_shown_what_may_answer_another_call() -> None:
    """It may raise for NOT_FOUND, and would be believed (docs/decisions/0028)."""

    def parse(reply: HttpReply) -> Any:
        found = a_lookup().parse(reply)
        if isinstance(found, BetNotFound):
            raise BadRequestError("refund it", status_code=400)
        return found

    played = play(replace(a_lookup(), parse=parse), [_reused(NONE_SUCH), FOUND], settings_of(attempts=1))
    assert isinstance(played.ending, OpenBet)


def test_a_client_without_new_connections_is_not_asked_for_ever() -> None:
    """Nor beyond the deadline; neither is believed (docs/decisions/0028)."""
    played = play(a_lookup(), [_reused(NONE_SUCH)] * 100, settings_of(attempts=1, deadline=None))
    assert isinstance(played.ending, NoAnswerError)
    assert (len(played.requests), played.ending.attempts, played.ending.timed_out) == (26, 26, False)
    late = play(a_lookup(), [_reused(NONE_SUCH)] * 100, settings_of(attempts=1, deadline=3.0), attempt_seconds=1.0)
    assert isinstance(late.ending, NoAnswerError)
    assert (len(late.requests), late.ending.timed_out) == (3, True)


def test_the_second_question_has_what_is_left_of_the_deadline() -> None:
    """No answer in time is no answer (docs/decisions/0028)."""
    played = play(a_lookup(), [_reused(NONE_SUCH), SILENT], settings_of(deadline=5.0, timeout=4.0), attempt_seconds=3.0)
    assert played.timeouts == [4.0, 2.0]
    assert isinstance(played.ending, NoAnswerError)
    assert played.ending.timed_out
    assert "NOT_FOUND came over a reused connection and could not be confirmed" in str(played.ending)


@pytest.mark.parametrize(
    ("operation", "fresh"),
    [
        pytest.param(operations.fetch_games("acme"), True, id="fetch-games"),
        pytest.param(operations.fetch_bet("acme", "b"), False, id="fetch-bet"),
        pytest.param(operations.fetch_round_bets(instance_id="i", round_id="r"), False, id="fetch-round-bets"),
        pytest.param(grant_operation(), True, id="free-bet/grant"),
    ],
)
def test_look_ups_alone_take_a_connection_that_is_there(operation: Operation[Any], fresh: bool) -> None:
    """A catalogue and a grant name nothing that an answer could be compared with (docs/decisions/0028)."""
    played = play(operation, [LOST], settings_of(attempts=1))
    assert [step.fresh for step in played.steps if isinstance(step, Send)] == [fresh]


@pytest.mark.parametrize(
    ("outcomes", "attempts", "ending"),
    [
        pytest.param([FOUND], 1, OpenBet, id="found"),
        pytest.param([REFUSED, FOUND], 2, OpenBet, id="connection refused, then found"),
        pytest.param([LOST, FOUND], 2, OpenBet, id="connection lost, then found"),
        pytest.param([REFUSED] * 3, 3, RequestNotSentError, id="never connected"),
        pytest.param([REFUSED, LOST, REFUSED], 3, NoAnswerError, id="one attempt left us"),
        pytest.param([LOST] * 3, 3, NoAnswerError, id="always lost"),
        pytest.param([BUSY] * 3, 3, RateLimitedError, id="always 429"),
        pytest.param([LOST, LOST, BROKEN], 3, ServiceError, id="the last word counts"),
        pytest.param([SILENT], 1, NoAnswerError, id="a read timeout is not repeated"),
        pytest.param([response(600)], 1, UnexpectedResponseError, id="600 is not repeated"),
        pytest.param([UNREADABLE], 1, UnexpectedResponseError, id="an unreadable 200 is not repeated"),
        pytest.param([BAD_REQUEST], 1, BadRequestError, id="400 is not repeated"),
        pytest.param([response(428), FOUND], 1, UnexpectedResponseError, id="428 is not repeated"),
    ],
)
def test_a_lookup_is_repeated_where_that_can_help(outcomes: list[Outcome], attempts: int, ending: type) -> None:
    """Connection failures, lost connections, 429 and 5xx are repeated; nothing else is (docs/decisions/0004)."""
    played = play(a_lookup(), outcomes)
    assert type(played.ending) is ending
    assert len(played.requests) == attempts
    if isinstance(played.ending, ApiError | TransportError):
        assert played.ending.attempts == attempts


# Each row: outcomes, attempts, ending; for an OutcomeUnknownError also the class of its cause.
@pytest.mark.parametrize(
    ("outcomes", "attempts", "ending", "cause"),
    [
        pytest.param([GRANTED], 1, GrantAccepted, None, id="granted"),
        pytest.param([SILENT, GRANTED], 2, GrantAccepted, None, id="a grant is repeated after a read timeout"),
        pytest.param([UNREADABLE, GRANTED], 2, GrantAccepted, None, id="unreadable 200, then granted"),
        pytest.param([BAD_REQUEST], 1, BadRequestError, None, id="400 of another shape"),
        pytest.param([response(499)], 1, UnexpectedResponseError, None, id="499"),
        pytest.param([BUSY] * 3, 3, RateLimitedError, None, id="always 429"),
        pytest.param([REFUSED] * 3, 3, RequestNotSentError, None, id="never connected"),
        pytest.param(
            [BUSY, REFUSED, REFUSED], 3, RateLimitedError, None, id="the last answer is told, not the silence"
        ),
        pytest.param([LOST] * 3, 3, OutcomeUnknownError, TransportError, id="always lost"),
        pytest.param([BROKEN] * 3, 3, OutcomeUnknownError, ServiceError, id="always 500"),
        pytest.param([NO_SUCH_STATUS] * 3, 3, OutcomeUnknownError, UnexpectedResponseError, id="999"),
        pytest.param([LOST, BAD_REQUEST], 2, OutcomeUnknownError, BadRequestError, id="lost, then 400 without a code"),
        pytest.param([LOST, BUSY, BUSY], 3, OutcomeUnknownError, RateLimitedError, id="lost, then 429"),
        pytest.param([LOST, REFUSED, REFUSED], 3, OutcomeUnknownError, TransportError, id="lost, then no connection"),
    ],
)
def test_a_grant_tells_whether_it_was_made(
    outcomes: list[Outcome], attempts: int, ending: type, cause: type[BaseException] | None
) -> None:
    """After an attempt in doubt only a 200 or a refusal of the request ends a grant as itself (docs/decisions/0004)."""
    played = play(grant_operation(), outcomes)
    assert type(played.ending) is ending
    assert len(played.requests) == attempts
    error = played.ending
    if isinstance(error, ApiError | TransportError):
        assert error.attempts == attempts
    if isinstance(error, OutcomeUnknownError):
        assert type(error.__cause__) is cause
        assert (error.reference_id, error.instance_id) == ("welcome-7", "instance-1")


@pytest.mark.parametrize(
    ("outcomes", "in_doubt"),
    [
        pytest.param([DUPLICATE], False, id="no doubt before"),
        pytest.param([BUSY, DUPLICATE], False, id="429 before"),
        pytest.param([SILENT, DUPLICATE], True, id="silence before"),
        pytest.param([UNREADABLE, DUPLICATE], True, id="an unreadable 200 before"),
        pytest.param([LOST, REFUSED, DUPLICATE], True, id="doubt is not forgotten"),
    ],
)
def test_a_duplicate_after_doubt_counts_as_granted(outcomes: list[Outcome], in_doubt: bool) -> None:
    """Only a duplicate without doubt is a refusal: this call granted nothing (spec §7.2, docs/decisions/0004)."""
    ending = play(grant_operation(), outcomes).ending
    assert type(ending) is (OutcomeUnknownError if in_doubt else FreeBetRejectedError)
    assert isinstance(ending, OutcomeUnknownError | FreeBetRejectedError)
    assert ending.error_code is GrantErrorCode.DUPLICATE_REFERENCE_ID
    assert isinstance(ending, ApiError) is not in_doubt
    assert ("Count it as granted; never send another reference" in str(ending)) is in_doubt
    assert ("an earlier grant under this reference_id stands" in str(ending)) is not in_doubt


@pytest.mark.parametrize("code", [*GrantErrorCode, "A_CODE_OF_TOMORROW"])
def test_which_refusals_end_the_doubt(code: str) -> None:
    """
    Those that the same bytes must always meet: the first attempt met them too (spec §7.2, docs/decisions/0004).

    Whether the instance exists, and whether the reference is new, may have changed in between.
    """
    ending = play(grant_operation(), [SILENT, refusal(code)]).ending
    is_open = code in {"DUPLICATE_REFERENCE_ID", "INSTANCE_NOT_FOUND", "A_CODE_OF_TOMORROW"}
    assert type(ending) is (OutcomeUnknownError if is_open else FreeBetRejectedError)
    assert isinstance(ending, OutcomeUnknownError | FreeBetRejectedError)
    assert (ending.error_code, ending.attempts) == (code, 2)


@pytest.mark.parametrize("operation", [a_lookup(), grant_operation()], ids=["look-up", "grant"])
def test_a_repeat_is_the_very_same_request(operation: Operation[Any]) -> None:
    """It is signed once, and each attempt sends the same bytes (spec §5, docs/decisions/0004)."""
    played = play(operation, [LOST] * 5, settings_of(attempts=5))
    assert [type(step) for step in played.steps] == [Sign, Send, Wait, Send, Wait, Send, Wait, Send, Wait, Send]
    assert all(request is played.requests[0] for request in played.requests)
    assert (b"X-Signature", bytes(SIGNATURE)) in played.requests[0].headers
    assert played.requests[0].body == operation.body
    assert played.steps[0] == Sign(operation.to_sign, 30.0)


@pytest.mark.parametrize(
    ("jitter", "policy", "waits"),
    [
        pytest.param(0.0, {}, [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0], id="doubling up to the longest"),
        pytest.param(1.0, {}, [0.1, 0.2, 0.4, 0.8, 1.6, 2.5, 2.5], id="cut by half at most"),
        pytest.param(0.0, {"max_delay_seconds": 0.3}, [0.2] + [0.3] * 6, id="a shorter longest"),
    ],
)
def test_waits_double_and_are_spread(jitter: float, policy: dict[str, float], waits: list[float]) -> None:
    """Waits double from the base to the longest, cut by up to half (assumed, docs/decisions/0004)."""
    played = play(a_lookup(), [LOST] * 8, settings_of(attempts=8, **policy), jitter=jitter)
    assert played.waits == pytest.approx(waits)


@pytest.mark.parametrize(
    ("value", "waits"),
    [
        pytest.param(b"2", [2.0], id="seconds"),
        pytest.param(b"Tue, 14 Nov 2023 22:13:23 GMT", [3.0], id="a date"),
        pytest.param(b"Tue, 14 Nov 2023 22:13:19 GMT", [0.2], id="a date gone by: our own wait"),
        pytest.param(b"20", [20.0], id="as long as allowed"),
        pytest.param(b"21", [], id="longer than allowed: ends at once"),
        pytest.param(b"soon", [0.2], id="junk: a word"),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_honoured(status: int, value: bytes, waits: list[float]) -> None:
    """Retry-After counts as seconds or as a date, as long as allowed; junk does not (docs/decisions/0004)."""
    busy = response(status, {"error": "busy"}, (b"Retry-After", value))
    played = play(a_lookup(), [busy, FOUND], settings_of(max_retry_after_seconds=20.0))
    assert played.waits == pytest.approx(waits)
    assert isinstance(played.ending, OpenBet if waits else ApiError)
    if isinstance(played.ending, RateLimitedError):
        assert played.ending.retry_after == 21.0


@pytest.mark.parametrize(
    ("retry_after", "deadline", "waits"),
    [
        pytest.param(b"4", 5.01, [4.0], id="ends before the deadline"),
        pytest.param(b"4", 5.0, [], id="would end on the deadline"),
        pytest.param(b"4", None, [4.0], id="no deadline"),
    ],
)
def test_no_wait_goes_past_the_deadline(retry_after: bytes, deadline: float | None, waits: list[float]) -> None:
    """A wait that leaves no time for an attempt is not begun (docs/decisions/0004)."""
    busy = response(503, b"", (b"Retry-After", retry_after))
    played = play(a_lookup(), [busy, FOUND], settings_of(deadline=deadline), attempt_seconds=1.0)
    assert played.waits == waits
    assert isinstance(played.ending, OpenBet if waits else ServiceError)


@pytest.mark.parametrize(
    ("deadline", "timeouts"),
    [
        pytest.param(None, [10.0, 10.0, 10.0], id="no deadline"),
        pytest.param(30.0, [10.0, 10.0, 10.0], id="far away"),
        pytest.param(13.0, [10.0, 8.8, 4.4], id="cutting the later attempts"),
        pytest.param(5.0, [5.0, 0.8], id="cutting all, and ending the call"),
    ],
)
def test_attempts_share_the_deadline(deadline: float | None, timeouts: list[float]) -> None:
    """An attempt may take its timeout or what is left of the deadline (docs/decisions/0004)."""
    played = play(a_lookup(), [LOST] * 3, settings_of(deadline=deadline), attempt_seconds=4.0)
    assert played.timeouts == pytest.approx(timeouts)


@pytest.mark.parametrize(
    ("operation", "ending"),
    [(a_lookup(), NoAnswerError), (grant_operation(), OutcomeUnknownError)],
    ids=["look-up", "grant"],
)
def test_a_deadline_that_passes_while_waiting_ends_the_call(
    operation: Operation[Any], ending: type[TransportError]
) -> None:
    """A machine that sleeps too long makes no attempt after the deadline (docs/decisions/0004)."""
    played = play(operation, [LOST, LOST], settings_of(deadline=2.0), attempt_seconds=1.0, waking_late_seconds=5.0)
    assert type(played.ending) is ending
    assert (played.ending.attempts, played.ending.timed_out) == (1, True)
    assert played.ending.elapsed_seconds == pytest.approx(played.seconds) == pytest.approx(6.2)


@pytest.mark.parametrize("operation", [a_lookup(), grant_operation()], ids=["look-up", "grant"])
@pytest.mark.parametrize(
    ("seconds", "deadline", "sent"),
    [
        pytest.param(1.9, 2.0, True, id="in time"),
        pytest.param(2.0, 2.0, False, id="on the deadline"),
        pytest.param(60.0, None, True, id="no deadline"),
    ],
)
def test_the_deadline_counts_signing(
    operation: Operation[Any], seconds: float, deadline: float | None, sent: bool
) -> None:
    """A signature that comes too late sends nothing (docs/decisions/0004)."""
    played = play(operation, [SILENT] * 3, settings_of(deadline=deadline, attempts=1), signing_seconds=seconds)
    assert played.steps[0] == Sign(operation.to_sign, deadline)
    assert bool(played.requests) is sent
    if not sent:
        assert type(played.ending) is RequestNotSentError
        assert (played.ending.attempts, played.ending.timed_out, played.ending.elapsed_seconds) == (0, True, seconds)


@pytest.mark.parametrize(
    ("outcomes", "attempts", "deadline", "timed_out"),
    [
        pytest.param([LOST] * 3, 3, 30.0, False, id="lost"),
        pytest.param([SILENT], 1, 30.0, True, id="silent"),
        pytest.param([SLOW_CONNECT] * 3, 3, 30.0, True, id="connecting took too long"),
        pytest.param([LOST, LOST], 2, 2.5, True, id="the deadline forbade a repeat"),
    ],
)
def test_a_transport_error_tells_its_story(
    outcomes: list[Outcome], attempts: int, deadline: float, timed_out: bool
) -> None:
    """Attempts, elapsed seconds with waits, and whether time ran out are attributes (docs/decisions/0004)."""
    played = play(a_lookup(), outcomes, settings_of(deadline=deadline), attempt_seconds=1.0)
    error = played.ending
    assert isinstance(error, TransportError)
    assert (error.attempts, error.timed_out) == (attempts, timed_out)
    assert error.elapsed_seconds == pytest.approx(played.seconds) == pytest.approx(attempts + sum(played.waits))


@pytest.mark.parametrize(
    "echo",
    [
        pytest.param(response(500, {"error": f"seen {SIGNATURE.decode()}"}), id="in an error's text"),
        pytest.param(response(404, b"", (b"X-Debug", b"sig=" + SIGNATURE)), id="in a header"),
        pytest.param(
            TransportFailed(f"illegal header line: {bytes(SIGNATURE)!r}", sent=True), id="in a protocol error"
        ),
        pytest.param(refusal(SIGNATURE.decode()), id="in an error code"),
    ],
)
@pytest.mark.parametrize("operation", [a_lookup(), grant_operation()], ids=["look-up", "grant"])
def test_an_echoed_signature_is_cut_out_of_errors(operation: Operation[Any], echo: Outcome) -> None:
    """No error holds a signature, whatever the service echoes (spec §5)."""
    error = play(operation, [echo], settings_of(attempts=1)).ending
    told = f"{error} {error!r} {vars(error)} {error.__cause__} {vars(error.__cause__ or error)}"
    assert SIGNATURE.decode() not in told
    assert "[signature removed]" in told


def test_a_long_reason_is_cut_and_stays_on_one_line() -> None:
    """What the other side sent may fill no log (docs/decisions/0004)."""
    error = play(a_lookup(), [TransportFailed("bad: \r\n" + "x" * 100_000, sent=True)], settings_of(attempts=1)).ending
    assert len(str(error)) < 600
    assert "\n" not in str(error)


def test_steps_and_results_show_no_signature() -> None:
    """A step may be logged: its repr holds neither the signature nor what is signed; nor does a result (spec §5)."""
    played = play(grant_operation(), [response(200, b"", (b"X-Echo", SIGNATURE))], settings_of(attempts=1))
    assert SIGNATURE.decode() not in repr(played.steps)
    assert SIGNATURE.decode() not in repr(Answer(response(200, SIGNATURE, (b"X-Echo", SIGNATURE)), 0.0, 0))
    assert SIGNATURE.decode() not in repr(Signed(SIGNATURE, 0.0))
    found = play(a_lookup(), [response(200, bet(debug=SIGNATURE.decode()))]).ending
    assert found.model_extra == {"debug": "[signature removed]"}


# Answers that mean: nothing was done.
_NO = [BUSY, UNKNOWN_OPERATOR, INACTIVE, NOT_FOUND, BAD_REQUEST, HTML_400, REDIRECT]
# What a client may see instead of the answer of a service that did, or did not do, as asked.
_DOUBTFUL: list[Outcome] = [LOST, SILENT, BROKEN, BAD_GATEWAY, UNREADABLE, TOO_LONG, EMPTY_204, NO_SUCH_STATUS]


class GrantingService:
    """A service that grants each reference id once, behind a network that loses what it likes (spec §2.2, §7.2)."""

    def __init__(self, data: st.DataObject, *, granted_before: bool) -> None:
        self._draw = data.draw
        self._granted_before = granted_before
        self.granted_bodies: list[bytes] = []
        self.doubtful = False

    def outcome(self, body: bytes) -> Outcome:
        """Return what the client sees of one attempt."""
        match self._draw(st.sampled_from(["not sent", "turned away", "answered", "doubtful"])):
            case "not sent":
                return self._draw(st.sampled_from([REFUSED, SLOW_CONNECT]))
            case "turned away":
                return self._draw(st.sampled_from(_NO))
            case "answered":
                return self._work(body)
            case _:
                self.doubtful = True
                if self._draw(st.booleans(), label="it arrived"):
                    self._work(body)
                return self._draw(st.sampled_from(_DOUBTFUL))

    def _work(self, body: bytes) -> HttpReply:
        if self._draw(st.booleans(), label="refused"):  # An instance may have gone since the last attempt.
            return self._draw(st.sampled_from([NO_INSTANCE, CODE_OF_TOMORROW]))
        if self._granted_before or body in self.granted_bodies:
            return DUPLICATE
        self.granted_bodies.append(body)
        return GRANTED


@given(
    data=st.data(),
    granted_before=st.booleans(),
    attempts=st.integers(1, 5),
    deadline=st.none() | st.floats(0.5, 8.0),
)
@examples(300)
def test_money_is_never_granted_behind_an_error_that_denies_it(
    data: st.DataObject, granted_before: bool, attempts: int, deadline: float | None
) -> None:
    """
    An exception other than OutcomeUnknownError means: not granted; and never twice (spec §7.2).

    Whatever sequence of attempts, and whether the service acted in those that went unanswered (docs/decisions/0004).
    """
    service = GrantingService(data, granted_before=granted_before)
    operation = grant_operation()
    seconds = (data.draw(st.sampled_from([0.0, 0.3, 2.0])) for _ in itertools.count())
    outcomes = (service.outcome(operation.body) for _ in itertools.count())
    played = play(operation, outcomes, settings_of(attempts=attempts, deadline=deadline), attempt_seconds=seconds)

    assert {request.body for request in played.requests} <= {operation.body}
    assert len(service.granted_bodies) <= 1
    assert len(played.requests) <= attempts
    ending = played.ending
    if isinstance(ending, GrantAccepted):
        assert len(service.granted_bodies) == 1
    elif isinstance(ending, OutcomeUnknownError):
        assert service.doubtful
    else:
        assert isinstance(ending, RequestNotSentError | ApiError)
        assert service.granted_bodies == []


@pytest.mark.parametrize(
    ("outcomes", "ending"),
    [
        pytest.param([], ConfigurationError, id="before the first attempt"),
        pytest.param([REFUSED], ConfigurationError, id="after one that never left"),
        pytest.param([BROKEN], OutcomeUnknownError, id="after a 500"),
        pytest.param([REFUSED, SILENT], OutcomeUnknownError, id="after silence"),
    ],
)
def test_a_client_closed_in_the_middle_of_a_grant_denies_nothing(
    outcomes: list[Outcome], ending: type[GameOperatorError]
) -> None:
    """After an attempt in doubt the outcome is unknown, but a look-up leaves nothing in doubt (docs/decisions/0004)."""
    error = play(grant_operation(), outcomes).ending
    assert type(error) is ending
    assert error is CLOSED or error.__cause__ is CLOSED
    assert play(a_lookup(), outcomes[:1]).ending is CLOSED


@pytest.mark.parametrize(
    ("failed", "is_noted"), [(REFUSED, False), (LOST, True)], ids=["it never left", "it may have been made"]
)
def test_an_interruption_between_two_attempts_says_what_became_of_the_first(
    failed: TransportFailed, is_noted: bool
) -> None:
    """A grant whose first attempt never left was not made (docs/decisions/0028)."""
    call = exchange(grant_operation(), settings_of(), started_seconds=0.0, jitter=itertools.repeat(0.0))
    assert isinstance(next(call), Sign)
    assert isinstance(call.send(Signed(SIGNATURE, 0.0)), Send)
    assert isinstance(call.send(Answer(failed, 0.1, NOW_MILLIS)), Wait)
    with pytest.raises(KeyboardInterrupt) as raised:
        call.throw(KeyboardInterrupt())
    assert hasattr(raised.value, "__notes__") is is_noted
