"""The tree of errors: what a program branches on, what a person reads, and what travels between processes (spec §7)."""

import copy
import importlib
import pickle
import pkgutil
import traceback
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies

import game_operator
import game_operator.backoffice
import game_operator.ledger
import game_operator.webhooks
from game_operator import errors
from game_operator.codes import GrantErrorCode
from game_operator.errors import GameOperatorError, one_line, shown, without_frames
from tests.support.wire import examples


def _classes() -> Iterator[type[GameOperatorError]]:
    waiting: list[type[GameOperatorError]] = [GameOperatorError]
    while waiting:
        kind = waiting.pop()
        yield kind
        waiting.extend(kind.__subclasses__())


TREE = {
    "GameOperatorError": "Exception",
    "ConfigurationError": "GameOperatorError",
    "SigningKeyError": "ConfigurationError",
    "CampaignRefusedError": "ConfigurationError",
    "TransportError": "GameOperatorError",
    "RequestNotSentError": "TransportError",
    "NoAnswerError": "TransportError",
    "OutcomeUnknownError": "TransportError",
    "ApiError": "GameOperatorError",
    "BadRequestError": "ApiError",
    "FreeBetRejectedError": "BadRequestError",
    "AuthenticationError": "ApiError",
    "OperatorInactiveError": "ApiError",
    "RateLimitedError": "ApiError",
    "ServiceError": "ApiError",
    "UnexpectedResponseError": "ApiError",
    "SessionTokenError": "GameOperatorError",
    "WebhookError": "GameOperatorError",
    "WebhookSignatureError": "WebhookError",
    "MalformedCallError": "WebhookError",
    "InstancesUnavailableError": "WebhookError",
    "LedgerError": "GameOperatorError",
    "AccountNotFoundError": "LedgerError",
    "AccountExistsError": "LedgerError",
    "AdjustmentRefusedError": "LedgerError",
    "RetryRefusedError": "LedgerError",
    "RepairRefusedError": "LedgerError",
    "FindingError": "LedgerError",
    "RunError": "LedgerError",
    "LeaseLostError": "RunError",
    "SchemaError": "LedgerError",
    "UnknownSourceError": "LedgerError",
    "TransactionRequiredError": "LedgerError",
    "LedgerUnavailableError": "LedgerError",
}

FORGERY = "fine\r\n2026-01-01 ERROR forged\x1b[31m red\x00\u2028next\u202ethgil"

ANSWER: dict[str, Any] = {  # Any: keyword arguments of several types
    "body": b'{"error":"no"}',
    "headers": {"content-type": "application/json"},
    "attempts": 2,
}

#: Those that are made of a text.
PLAIN = (errors.SigningKeyError, errors.SessionTokenError, errors.WebhookError, errors.LedgerError)
ERRORS: list[GameOperatorError] = [
    *(kind("refused. Look at the log.") for kind in _classes() if issubclass(kind, PLAIN)),
    errors.ConfigurationError("base_url is missing.", setting="base_url", remedy="Set it."),
    errors.CampaignRefusedError("2 rows are wrong.", remedy="Fix them.", problems=[(2, "blank")], problem_count=2),
    errors.TransportError("reset", attempts=2, elapsed_seconds=1.5, timed_out=True),
    errors.RequestNotSentError("no route", attempts=3, elapsed_seconds=0.25),
    errors.NoAnswerError("silence", attempts=1, elapsed_seconds=10.0, timed_out=True),
    errors.OutcomeUnknownError("silence", reference_id="r-1", instance_id="i-1", attempts=2, elapsed_seconds=9.0),
    errors.ApiError("no", status_code=418, detail="More.", **ANSWER),
    errors.BadRequestError("Invalid request", status_code=400, **ANSWER),
    errors.FreeBetRejectedError(
        "exists", error_code=GrantErrorCode.DUPLICATE_REFERENCE_ID, reference_id="r-1", **ANSWER
    ),
    errors.OutcomeUnknownError(
        "exists", reference_id="r-1", instance_id="i-1", error_code=GrantErrorCode.DUPLICATE_REFERENCE_ID, attempts=2
    ),
    errors.FreeBetRejectedError("new", error_code="NEW_CODE", reference_id="r-1", **ANSWER),
    errors.AuthenticationError("Authentication failed", status_code=401, **ANSWER),
    errors.OperatorInactiveError("inactive", status_code=403, **ANSWER),
    errors.RateLimitedError("slow down", retry_after=2.5, **ANSWER),
    errors.ServiceError("down", status_code=503, **ANSWER),
    errors.UnexpectedResponseError("HTTP 302", status_code=302, **ANSWER),
]


def _name(error: GameOperatorError) -> str:
    return type(error).__name__


def test_the_tree() -> None:
    """There is one tree, and it is the documented one."""
    for module in pkgutil.walk_packages(game_operator.__path__, "game_operator."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found = {
        kind.__name__: kind.__bases__[0].__name__ for kind in _classes() if kind.__module__ == "game_operator.errors"
    }
    assert found == TREE
    # No program catches what the commands raise and tell themselves.
    of_sdk = [kind for kind in _classes() if kind.__module__.startswith("game_operator.")]
    ours = [kind for kind in of_sdk if not kind.__module__.startswith("game_operator.cli.")]
    elsewhere = [kind.__name__ for kind in ours if kind.__module__ != "game_operator.errors"]
    assert all(name.startswith("_") for name in elsewhere), "what a program may catch stands in the tree"


def test_every_error_is_public() -> None:
    """What can be raised can be caught by name, from one of the packages that users import from."""
    homes = (game_operator, game_operator.backoffice, game_operator.ledger, game_operator.webhooks)
    assert [name for name in TREE if not any(hasattr(home, name) for home in homes)] == []


@pytest.mark.parametrize("error", ERRORS, ids=_name)
def test_errors_travel(error: GameOperatorError) -> None:
    """A pickled or copied error says the same, has the same attributes and the same class (spec §7.2, §7.3)."""
    pickled = [pickle.loads(pickle.dumps(error, protocol)) for protocol in (0, pickle.HIGHEST_PROTOCOL)]
    for twin in (*pickled, copy.copy(error), copy.deepcopy(error)):
        assert type(twin) is type(error)
        assert twin is not error
        assert twin.args == error.args
        assert vars(twin) == vars(error)
        assert str(twin) == str(error)
        assert repr(twin) == repr(error)
    # No code has to cut a message to find its parts.
    assert str(error) == f"{error.what} {error.remedy}".rstrip()


def test_a_story_and_a_remedy_are_told_apart() -> None:
    """What happened, the setting to change and what to do are attributes; ``str`` joins them."""
    error = errors.SigningKeyError("the key has 1024 bits.", setting="private_key", remedy="Make another.")
    for each in (error, pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert (each.what, each.setting, each.remedy) == ("the key has 1024 bits.", "private_key", "Make another.")
        assert str(each) == "the key has 1024 bits. Make another."
    plain = errors.LedgerError("refused")
    assert (plain.what, plain.setting, plain.remedy, str(plain)) == ("refused", None, "", "refused")
    unsent = errors.RequestNotSentError("no route", remedy="Start the wallet.")
    assert (unsent.reason, unsent.what, unsent.remedy) == (
        "no route", "no route (1 attempt, 0.00 s).", "Start the wallet."
    )  # fmt: skip


def test_our_cause_travels() -> None:
    """What went wrong before a grant's outcome became unknown is not lost on the way to another process."""
    error = errors.OutcomeUnknownError("HTTP 503", reference_id="r", instance_id="i")
    error.__cause__ = errors.ServiceError("down", status_code=503, attempts=2)
    error.__cause__.__cause__ = errors.NoAnswerError("silence", timed_out=True)
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert isinstance(twin.__cause__, errors.ServiceError)
        assert twin.__cause__.status_code == 503
        assert twin.__cause__.attempts == 2
        assert isinstance(twin.__cause__.__cause__, errors.NoAnswerError)
        assert twin.__cause__.__cause__.timed_out is True


def test_a_foreign_cause_stays_behind() -> None:
    """Another library's exception may hold a live request, which cannot travel; ours can all the same."""
    error = errors.NoAnswerError("reset")
    error.__cause__ = _UnpicklableError()
    twin = pickle.loads(pickle.dumps(error))
    assert twin.__cause__ is None
    assert str(twin) == str(error)


class _UnpicklableError(Exception):
    def __reduce__(self) -> str:
        raise TypeError("holds a socket")


def test_notes_travel() -> None:
    """What a program adds to an error with add_note is kept."""
    error = errors.ServiceError("down", status_code=500)
    error.add_note("while reconciling bet-1")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["while reconciling bet-1"]


@pytest.mark.parametrize(
    "error",
    [
        errors.NoAnswerError(FORGERY),
        errors.OutcomeUnknownError(FORGERY, reference_id=FORGERY, instance_id=FORGERY),
        errors.BadRequestError(FORGERY, status_code=400, attempts=1),
        errors.FreeBetRejectedError(FORGERY, error_code=FORGERY, reference_id=FORGERY, attempts=1),
        errors.RateLimitedError(FORGERY),
        errors.UnexpectedResponseError(
            FORGERY, status_code=200, body=FORGERY.encode(), headers={"content-type": FORGERY}
        ),
    ],
    ids=_name,
)
def test_log_lines_cannot_be_forged(error: GameOperatorError) -> None:
    """Text of the service or the network never breaks the line, colours the terminal or turns the text round."""
    assert "fine" in str(error)
    assert str(error).isprintable()
    assert repr(error).isprintable()


@given(strategies.text())
@examples(100)
def test_any_text_fits_into_one_line(text: str) -> None:
    """Whatever the text, what is shown is printable, and UTF-8 can carry it."""
    for line in (one_line(text), shown(text)):
        assert line.isprintable()
        line.encode()
    assert len(shown(text)) <= 201
    if text.isprintable():
        assert one_line(text) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("a\nb", r"'a\nb'", id="escaped"),
        pytest.param(b"\xff", r"b'\xff'", id="bytes"),
        pytest.param("x" * 199, "'" + "x" * 199 + "…", id="one too long"),
        pytest.param(list(range(1000)), "[0, 1, 2, 3, 4, 5, ...]", id="a long list"),
        pytest.param(10**5000, "<int>", id="a number that Python does not write"),
        pytest.param("-----BEGIN PRIVATE KEY-----\nMIIE", "[a key, not shown]", id="a key in the wrong place"),
        pytest.param(b"-----BEGIN RSA PRIVATE KEY-----\n", "[a key, not shown]", id="the same in bytes"),
    ],
)
def test_values_are_shown_short(value: object, text: str) -> None:
    """A value in a message is escaped, cut after 200 characters, and never a key."""
    assert shown(value) == text


@without_frames
def _refuses(secret: str, raises: str, kind: type[BaseException]) -> None:
    def fails() -> None:
        raise ValueError(len(secret))

    if raises == "at once":
        raise kind("refused")
    try:
        fails()
    except ValueError as failed:
        if raises == "in between":
            raise kind("refused")  # noqa: B904 - what stays behind as its context
        if raises == "because":
            raise kind("refused") from failed
        raise kind("refused") from None


def _reachable(error: BaseException | None, seen: set[int]) -> Iterator[str]:
    """Yield the repr of each local of each frame that *error*, its causes and its contexts lead to, ours apart."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_name != "test_without_frames_no_argument_can_be_reached":
            yield from map(repr, frame.f_locals.values())
    yield from _reachable(error.__cause__, seen)
    yield from _reachable(error.__context__, seen)


@pytest.mark.parametrize("kind", [errors.ConfigurationError, KeyboardInterrupt])
@pytest.mark.parametrize("raises", ["at once", "in between", "because", "from nothing"])
def test_without_frames_no_argument_can_be_reached(raises: str, kind: type[BaseException]) -> None:
    """Neither by the traceback, nor by a cause, nor by a context; the error itself arrives."""
    with pytest.raises(kind, match="refused") as raised:
        _refuses("s3cret", raises, kind)
    told = list(_reachable(raised.value, set()))
    assert told
    assert not [each for each in told if "s3cret" in each]


def test_without_frames_what_the_caller_was_handling_stays() -> None:
    """It is the caller's own, and a reader of the traceback needs it."""
    with pytest.raises(errors.ConfigurationError) as raised:  # noqa: PT012 - the outer error is the point
        try:
            raise OSError("before")
        except OSError:
            _refuses("s3cret", "at once", errors.ConfigurationError)
    assert isinstance(raised.value.__context__, OSError)
    assert not raised.value.__suppress_context__


def test_an_error_keeps_its_own_headers() -> None:
    """Changing the mapping that was passed does not change the error; none is an empty one."""
    headers = {"a": "b"}
    error = errors.ApiError("x", status_code=400, headers=headers)
    headers["a"] = "changed"
    assert error.headers == {"a": "b"}
    assert errors.ApiError("x", status_code=400).headers == {}
