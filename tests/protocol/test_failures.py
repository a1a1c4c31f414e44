"""Any answer ends in a model or in a documented error, told apart as the specification does (spec §4.2, §7.2, §7.3)."""

import pickle
import re
import time
import tracemalloc
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, strategies
from pydantic import BaseModel

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
)
from game_operator.protocol.http import HttpReply, joined_headers
from game_operator.protocol.operations import (
    Operation,
    fetch_bet,
    fetch_games,
    fetch_round_bets,
    retry_after_seconds,
)
from tests.support.spread import spread
from tests.support.wire import (
    JSON_VALUES,
    JsonObject,
    bet,
    examples,
    game,
    grant_operation,
    granted,
    response,
    round_of,
    wire,
)

GAMES = fetch_games("acme")
BET = fetch_bet("acme", "bet-1")
ROUND = fetch_round_bets(instance_id="instance-1", round_id="round-1")
GRANT = grant_operation()
CALLS: list[Operation[Any]] = [GAMES, BET, ROUND, GRANT]

JSON = (b"Content-Type", b"application/json")
REFUSAL = {"success": False, "message": "Count cannot exceed 50", "error_code": "COUNT_TOO_HIGH"}

every_call = pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
EACH_CALL = [pytest.param(call, id=call.name) for call in (BET, GAMES, ROUND, GRANT)]


def each_call_with(*statuses: int) -> list[pytest.ParameterSet]:
    """Return rows of a call and a status."""
    return [pytest.param(call, status, id=f"{call.name}-{status}") for call in CALLS for status in statuses]


def each(*values: Any) -> list[pytest.ParameterSet]:
    """Return rows of one value, which is its own id."""
    return [pytest.param(value, id=repr(value)) for value in values]


def _error(call: Operation[Any], answer: HttpReply) -> ApiError:
    with pytest.raises(ApiError) as raised:
        call.parse(answer)
    return raised.value


@every_call
@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        pytest.param(400, {"error": "the text"}, BadRequestError, id="400"),
        pytest.param(400, {"status": "BAD_REQUEST", "error": "the text"}, BadRequestError, id="400 with a status"),
        pytest.param(401, {"error": "the text"}, AuthenticationError, id="401"),
        pytest.param(403, {"error": "the text"}, OperatorInactiveError, id="403"),
    ],
)
def test_an_error_text(call: Operation[Any], status: int, body: JsonObject, kind: type[ApiError]) -> None:
    """400, a bad request; 401, a wrong operator or signature; 403, inactive; at each endpoint (spec §4.2, §5, §7.3)."""
    error = _error(call, response(status, body, JSON))
    assert type(error) is kind
    assert (error.status_code, error.message) == (status, "the text")
    assert (error.body, error.headers) == (wire(body), {"content-type": "application/json"})


@pytest.mark.parametrize("code", GrantErrorCode, ids=str)
def test_each_refused_grant(code: GrantErrorCode) -> None:
    """All 13 codes arrive as members of the enum, with their message and the reference id (spec §2.3, §7.2)."""
    body = {"success": False, "message": GRANT_MESSAGES[code], "error_code": str(code)}
    error = _error(GRANT, response(400, body, JSON))
    assert type(error) is FreeBetRejectedError
    assert error.error_code is code
    assert (error.status_code, error.message) == (400, GRANT_MESSAGES[code])
    assert error.reference_id == "welcome-7"
    assert error.body == wire(body)
    assert error.attempts == 1


@pytest.mark.parametrize("code", ["NEW_CODE", "invalid_count", "", "INVALID_COUNT ", "日本", "name", "__class__"])
def test_an_unknown_code_stays_text(code: str) -> None:
    """A code that a later version adds is still a refusal, and kept as text (spec §2.3, §7.2)."""
    error = _error(GRANT, response(400, {"success": False, "message": "m", "error_code": code}))
    assert isinstance(error, FreeBetRejectedError)
    assert type(error.error_code) is str
    assert (error.error_code, error.message) == (code, "m")


@pytest.mark.parametrize("call", [GAMES, BET, ROUND], ids=lambda call: call.name)
def test_a_refusal_of_another_endpoint_is_a_bad_request(call: Operation[Any]) -> None:
    """The shape of a refused grant means 400 elsewhere too, but no grant was refused (spec §7.3)."""
    error = _error(call, response(400, REFUSAL))
    assert type(error) is BadRequestError
    assert error.message == "Count cannot exceed 50 (COUNT_TOO_HIGH)"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"success": True, "message": "m", "error_code": "X"}, id="success is true"),
        pytest.param({"message": "m", "error_code": "X"}, id="no success"),
        pytest.param({"success": False, "message": "m"}, id="no code"),
        pytest.param({"success": False, "error_code": "X"}, id="no message"),
    ],
)
def test_a_refusal_has_all_its_parts(body: object) -> None:
    """A 400 that only resembles a refusal is not read as one (spec §2.3)."""
    error = _error(GRANT, response(400, body))
    assert type(error) is UnexpectedResponseError
    assert "without the JSON error body" in error.message


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (200, UnexpectedResponseError),
        (401, AuthenticationError),
        (403, OperatorInactiveError),
        (404, UnexpectedResponseError),
        (409, UnexpectedResponseError),
        (422, UnexpectedResponseError),
        (429, RateLimitedError),
        (500, ServiceError),
        (502, ServiceError),
        (503, ServiceError),
    ],
)
def test_only_a_400_refuses_a_grant(status: int, kind: type[ApiError]) -> None:
    """A body that reads like a refusal refuses nothing under another status: the grant may stand (spec §2.3, §7.2)."""
    error = _error(GRANT, response(status, REFUSAL, JSON))
    assert type(error) is kind
    assert error.status_code == status


def test_a_refusal_that_was_not_read_whole_is_none() -> None:
    """A body that was encoded or cut off proves nothing, however it reads (spec §7.2)."""
    error = _error(GRANT, response(400, REFUSAL, defect="the body is 'gzip' encoded"))
    assert type(error) is UnexpectedResponseError
    assert "cannot be read (the body is 'gzip' encoded)" in error.message


UNREADABLE = [
    pytest.param(b"", id="empty"),
    pytest.param(b"<html><h1>Log in</h1></html>", id="HTML"),
    pytest.param(b'{"error":"no"', id="cut off"),
    pytest.param(b'{"error":5}', id="a number for the text"),
    pytest.param(b'\xef\xbb\xbf{"error":"no"}', id="a byte order mark"),
    pytest.param('{"error":"no"}'.encode("utf-16"), id="UTF-16"),
    pytest.param(b'{"error":"' + b"x" * 70_000 + b'"}', id="over 64 KiB"),
]


@pytest.mark.parametrize(("call", "status", "body"), spread(each_call_with(401, 400, 403, 200), UNREADABLE))
def test_without_the_described_json_it_was_not_the_service(call: Operation[Any], status: int, body: bytes) -> None:
    """A login page or a proxy answers so as well: without the described JSON it is unexpected (spec §4.2, §7.3)."""
    error = _error(call, response(status, body, (b"Content-Type", b"text/html")))
    assert type(error) is UnexpectedResponseError
    assert error.status_code == status
    problem = "does not fit the" if status == 200 else "without the JSON error body of the"
    assert f"HTTP {status} {problem} specification" in error.message
    assert "content type 'text/html'" in str(error)
    assert repr(body[:20])[2:-1] in str(error)
    assert error.body == body[:65_536]


@pytest.mark.parametrize(("call", "status"), spread(EACH_CALL, each(500, 503, 599, 429)))
def test_5xx_and_429(call: Operation[Any], status: int) -> None:
    """Any 5xx is the service's trouble and 429 a limit, whatever its body (the specification is silent; §7.3)."""
    kind, silent = (RateLimitedError, "Too many requests") if status == 429 else (ServiceError, "the service failed")
    for body, message in ((b"", silent), (b"<html>", silent), (b"\xff", silent), (b'{"error":"no"}', "no")):
        error = _error(call, response(status, body))
        assert (type(error), error.status_code, error.message) == (kind, status, message)


@pytest.mark.parametrize(("call", "status"), spread(EACH_CALL, each(302, 300, 301, 303, 304, 307, 308, 399)))
def test_redirects(call: Operation[Any], status: int) -> None:
    """A redirect is not followed, and the error names where it leads (the specification is silent; §7.3)."""
    error = _error(call, response(status, b"", (b"Location", b"https://evil.example/\x1b[31m")))
    assert type(error) is UnexpectedResponseError
    assert "'https://evil.example/\\x1b[31m'" in error.message
    assert "a signature is never sent elsewhere" in error.message


@pytest.mark.parametrize(
    ("call", "status"),
    spread(EACH_CALL, each(404, 100, 201, 202, 204, 206, 299, 402, 405, 409, 413, 418, 422, 428, 499, 600, 999)),
)
def test_other_statuses(call: Operation[Any], status: int) -> None:
    """A status that the specification does not know is unexpected, however its body reads (spec §4.2)."""
    for body in (b"", b'{"error":"no"}', b'{"status":"NOT_FOUND"}', wire(granted()), wire(REFUSAL)):
        error = _error(call, response(status, body))
        assert type(error) is UnexpectedResponseError
        assert error.status_code == status
        assert error.message == f"HTTP {status} is not described for this call"


@pytest.mark.parametrize(
    ("call", "body", "path"),
    [
        pytest.param(GAMES, {}, "games: Field required", id="no games"),
        pytest.param(GAMES, [game()], "the body: ", id="a bare list"),
        pytest.param(GAMES, {"games": [game(), game(rtp="97")]}, "games[1].rtp: ", id="text for an RTP"),
        pytest.param(BET, bet("PENDING"), "status: must be one of 'OPEN'", id="an unknown bet status"),
        pytest.param(BET, round_of(), "status: must be one of 'OPEN'", id="a round for a bet"),
        pytest.param(
            ROUND, round_of(*[bet()] * 3, bet(wager=None)), "bets[3].wager: must be a whole", id="null for a wager"
        ),
        pytest.param(GRANT, REFUSAL, "success: ", id="a refusal with 200"),
        pytest.param(GRANT, granted(free_bet_id=None), "free_bet_id: ", id="a grant without an id"),
    ],
)
def test_a_200_that_does_not_fit(call: Operation[Any], body: object, path: str) -> None:
    """What does not fit is named with its field; nothing is guessed, for money may hang on it (spec §2.3 to §2.8)."""
    error = _error(call, response(200, body, JSON))
    assert type(error) is UnexpectedResponseError
    assert path in error.message
    assert path in str(error)
    assert str(error).isprintable()


@every_call
def test_a_200_that_was_not_read_whole(call: Operation[Any]) -> None:
    """A body that was encoded or cut off is not parsed at all (spec §4.2)."""
    whole = {"fetch-games": {"games": []}, "fetch-bet": bet(), "fetch-round-bets": round_of()}
    body = whole.get(call.name, granted())
    assert call.parse(response(200, body)) is not None
    error = _error(call, response(200, body, defect="the body is longer than 5 bytes"))
    assert type(error) is UnexpectedResponseError
    assert "(the body is longer than 5 bytes)" in error.message


def test_what_an_error_keeps_of_a_response() -> None:
    """64 KiB of the body, and all headers but those that carry secrets, names in lower case (spec §7.3)."""
    headers = (
        (b"Content-Type", b"application/json"),
        (b"X-Request-Id", b"caf\xe9"),
        (b"Set-Cookie", b"session=secret"),
        (b"SET-COOKIE2", b"session=secret"),
        (b"Cookie", b"secret"),
        (b"Authorization", b"Bearer secret"),
        (b"Proxy-Authorization", b"Basic secret"),
        (b"x-signature", b"secret"),
    )
    error = _error(BET, response(500, b"x" * 65_537, *headers))
    assert error.headers == {"content-type": "application/json", "x-request-id": "café"}
    assert len(error.body) == 65_536
    assert "secret" not in str(error) + repr(error) + repr(vars(error))
    assert b"secret" not in pickle.dumps(error)
    assert len(_error(BET, response(500, b"x" * 65_536)).body) == 65_536


BODIES = (
    strategies.binary(max_size=80)
    | JSON_VALUES.map(wire)
    | strategies.sampled_from([REFUSAL, {"error": "no"}, bet(), round_of(bet()), {"games": [game()]}, granted()]).map(
        wire
    )
    | strategies.dictionaries(
        strategies.sampled_from(["error", "status", "success", "message", "error_code", "games", "bets", "wager"]),
        JSON_VALUES,
    ).map(wire)
)
HEADERS = strategies.lists(
    strategies.tuples(
        strategies.sampled_from([b"content-type", b"Location", b"retry-after"]) | strategies.binary(max_size=8),
        strategies.binary(max_size=12),
    ),
    max_size=3,
).map(tuple)


@given(
    strategies.sampled_from(CALLS),
    strategies.integers(100, 599) | strategies.sampled_from([200, 400, 401, 403, 429, 0, 999]),
    BODIES,
    HEADERS,
    strategies.sampled_from(["", "", "the body is too long"]),
)
@examples(400)
def test_any_answer_ends_in_a_model_or_a_documented_error(
    call: Operation[Any], status: int, body: bytes, headers: tuple[tuple[bytes, bytes], ...], defect: str
) -> None:
    """Whatever a service answers, nothing else ever comes out; and only a 200 is a success (spec §4.2, §7)."""
    answer = HttpReply(status, joined_headers(headers), body, defect)
    try:
        found = call.parse(answer)
    except ApiError as error:
        _check(error, answer)
        return
    assert status == 200
    assert isinstance(found, BaseModel | list)


def _check(error: ApiError, answer: HttpReply) -> None:
    assert (error.status_code, error.body) == (answer.status, answer.body)
    assert type(error) in _KINDS.get(answer.status, {_kind_of(answer.status)})
    assert str(error).isprintable()
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


_KINDS: dict[int, set[type[ApiError]]] = {
    400: {BadRequestError, FreeBetRejectedError, UnexpectedResponseError},
    401: {AuthenticationError, UnexpectedResponseError},
    403: {OperatorInactiveError, UnexpectedResponseError},
    429: {RateLimitedError},
}


def _kind_of(status: int) -> type[ApiError]:
    return ServiceError if 500 <= status <= 599 else UnexpectedResponseError


def test_half_a_letter_in_an_error_text() -> None:
    """JSON can name half a surrogate pair; the error still prints and travels (spec §7.3)."""
    error = _error(BET, response(400, rb'{"error":"\ud800"}'))
    assert type(error) is BadRequestError
    assert str(error).encode()
    assert pickle.loads(pickle.dumps(error)).message == "\ud800"


NOW = datetime(2026, 11, 21, 12, 0, 0, 250_000, tzinfo=UTC)
NOW_MILLIS = int(NOW.timestamp() * 1000)


def _after(value: bytes) -> float | None:
    return retry_after_seconds(response(503, b"", (b"Retry-After", value)), NOW_MILLIS)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        pytest.param(b"0", 0.0, id="none"),
        pytest.param(b"5", 5.0, id="seconds"),
        pytest.param(b"  120 ", 120.0, id="spaces around"),
        pytest.param(b"999999999", 999_999_999.0, id="the most there is"),
        pytest.param(b"Sat, 21 Nov 2026 12:00:30 GMT", 29.75, id="a date"),
        pytest.param(b"Saturday, 21-Nov-26 12:00:30 GMT", 29.75, id="a date of the second kind"),
        pytest.param(b"Sat Nov 21 12:00:30 2026", 29.75, id="a date of the third kind, without a zone"),
        pytest.param(b"Sat, 21 Nov 2026 14:00:30 +0200", 29.75, id="a date of another zone"),
        pytest.param(b"Sat, 21 Nov 2026 11:59:59 GMT", 0.0, id="a date in the past"),
    ],
)
def test_retry_after(value: bytes, seconds: float) -> None:
    """Seconds or any HTTP date, counted from the injected clock in milliseconds (the specification is silent; §7.3)."""
    assert _after(value) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"-1",
        b"+5",
        b"1.",
        b"9" * 5000 + b".5",
        b"1_0",
        b"1e3",
        b"nan",
        b"Infinity",
        b"9" * 5000,
        b"\xd9\xa5",
        b"soon",
        b"Sat, 21 Nov 99999999999999999999 12:00:30 GMT",
        b"Sat, 21 Nov 2026 12:00:30 +99999999999999",
        b"Sat, 21 Nov 2026 25:00:00 GMT",
    ],
)
def test_junk_in_retry_after_is_ignored(value: bytes) -> None:
    """What is neither seconds nor a date is as good as absent (the specification is silent; §7.3)."""
    assert _after(value) is None


def test_retry_after_may_be_absent_or_repeated() -> None:
    """No header, no wait; of two the first counts (the specification is silent; §7.3)."""
    assert retry_after_seconds(response(503), NOW_MILLIS) is None
    twice = response(503, b"", (b"retry-after", b"5"), (b"Retry-After", b"9"))
    assert retry_after_seconds(twice, NOW_MILLIS) == 5.0
    date = b"Sat, 21 Nov 2026 12:00:30 GMT"
    twice = response(503, b"", (b"retry-after", date), (b"retry-after", b"9"))
    assert retry_after_seconds(twice, NOW_MILLIS) == _after(date)


def test_retry_after_does_not_ask_the_local_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A date without a zone is UTC wherever the machine stands (the specification is silent; §7.3)."""
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "Pacific/Auckland")
        time.tzset()
        waits = [_after(b"Sat Nov 21 12:00:30 2026"), _after(b"Sat, 21 Nov 2026 12:00:30 -0000")]
    time.tzset()
    assert waits == pytest.approx([29.75, 29.75])


@given(strategies.binary(max_size=40) | strategies.text("0123456789 :,+-SatNovGMT.", max_size=40).map(str.encode))
@examples(150)
def test_any_retry_after_is_seconds_or_none(value: bytes) -> None:
    """No header, however made, raises anything; a wait is never negative (the specification is silent; §7.3)."""
    seconds = _after(value)
    assert seconds is None or seconds >= 0


@pytest.mark.parametrize(
    ("operation", "body", "first"),
    [
        pytest.param(fetch_games("acme"), b'{"games":[' + b"{}," * 50_000 + b"{}]}", "games[0].id", id="games"),
        pytest.param(fetch_games("acme"), b'{"games":[' + b"1," * 50_000 + b"1]}", "games[0]", id="no games"),
        pytest.param(
            fetch_round_bets(instance_id="i", round_id="r"),
            b'{"status":"OK","round_id":"r","round_no":1,"instance_id":"i","game":"g","bets":['
            + b'{"status":"OPEN"},' * 50_000
            + b"1]}",
            "bets[0].reference_id",
            id="bets",
        ),
    ],
)
def test_a_body_that_is_wrong_everywhere_is_told_once(operation: Operation[Any], body: bytes, first: str) -> None:
    """Described fault by fault, a small body would fill the memory (spec §4.2)."""
    tracemalloc.start()
    try:
        with pytest.raises(UnexpectedResponseError, match=re.escape(f"({first}: ")):
            operation.parse(HttpReply(200, {}, body))
        # A dict for each `{}` takes 24 times its bytes; its faults would take hundreds.
        assert tracemalloc.get_traced_memory()[1] < 30 * len(body)
    finally:
        tracemalloc.stop()
