"""From bytes to bytes: whatever comes in, a well-formed reply goes out, and the reason to the log (spec §2.1)."""

import asyncio
import email.message
import json
import logging
import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from game_operator import Profile
from game_operator.codes import WebhookErrorCode
from game_operator.errors import ConfigurationError, shown
from game_operator.webhooks import (
    HandledCall,
    HttpReply,
    IpAllowList,
    RsaSignature,
    WebhookCall,
    WebhookReceiver,
    WebhookRequest,
    WithdrawCall,
    error,
    success,
)
from tests.support.webhooks import DEPOSIT, WITHDRAW, AsyncHandler, Handler, code_of, encoded, signature_of, signed
from tests.webhooks.conftest import Post, handled

#: Posts a withdraw in some way, to a handler that does something.
By = Callable[[str, Callable[[WebhookCall], object]], HttpReply]


@pytest.fixture
def by(receiver: WebhookReceiver, private_key: RSAPrivateKey) -> By:
    """Post to the receiver."""
    return lambda way, does: _posted(way, receiver, private_key, "/withdraw", WITHDRAW, does)[0]


@pytest.mark.parametrize(("status", "code"), [(200, "INVALID_SIGNATURE"), (401, "INVALID_SIGNATURE")])
def test_an_unsigned_call_is_refused(
    status: Any, code: str, public_key: RSAPublicKey, handler: Handler, caplog: pytest.LogCaptureFixture
) -> None:
    """E01: HTTP 200 as spec §4.1 says, 401 by the profile's switch; nothing is asked of the handler."""
    profile = Profile(unauthenticated_status=status)
    receiver = WebhookReceiver(authenticator=RsaSignature(public_key), profile=profile)
    reply = receiver.handle("/withdraw", {}, encoded(WITHDRAW), handler)
    assert (reply.status, code_of(reply)) == (status, code)
    assert "balance" not in json.loads(reply.body)
    assert handler.calls == []
    assert "there is no header signature" in caplog.text


@pytest.mark.parametrize(
    ("answer", "lines"),
    [
        pytest.param(success(balance_cents=1), [], id="a success"),
        pytest.param(error("PLAYER_NOT_FOUND"), ["withdraw answered PLAYER_NOT_FOUND after"], id="a refusal"),
    ],
)
def test_a_refused_call_is_one_line_of_information(
    answer: Any, lines: list[str], by: By, receiver: WebhookReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    """Operation, code and time, at INFO, and no id; what we refuse ourselves is a warning, and nothing besides."""
    caplog.set_level(logging.INFO)
    by("handle", lambda call: answer)
    assert [record.levelno for record in caplog.records] == [logging.INFO] * len(lines)
    for record, line in zip(caplog.records, lines, strict=True):
        assert re.fullmatch(line + r" \d+\.\d ms", record.getMessage())
    caplog.clear()
    receiver.handle("/withdraw", {}, encoded(WITHDRAW), Handler())
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_genuine_call_that_cannot_be_read_is_kept(
    receiver: WebhookReceiver, handler: Handler, private_key: RSAPrivateKey
) -> None:
    """Money may be owed: the handler's keep_anomaly is given the bytes; not of an unsigned one, which anybody sends."""
    receiver.handle("/deposit", {}, b"{", handler)
    assert code_of(receiver.handle("/deposit", signed(private_key, b"{"), b"{", handler)) == "INVALID_REQUEST"
    assert handler.anomalies == [("deposit", "unreadable", b"{")]


def _boom(*_: object) -> None:
    raise RuntimeError("the disk is full")


def test_an_anomaly_that_cannot_be_kept_changes_no_answer(
    receiver: WebhookReceiver, private_key: RSAPrivateKey, caplog: pytest.LogCaptureFixture
) -> None:
    """The refusal stands, and the log tells."""
    handler: Any = Handler()
    handler.keep_anomaly = _boom
    assert code_of(receiver.handle("/deposit", signed(private_key, b"{"), b"{", handler)) == "INVALID_REQUEST"
    assert "could not be kept" in caplog.text
    assert "the disk is full" in caplog.text


class _NoKeeper:
    def withdraw(self, call: WebhookCall) -> Any:
        return success(balance_cents=1)

    deposit = rollback = player_balance = withdraw


def test_a_handler_need_not_keep_anomalies(receiver: WebhookReceiver, private_key: RSAPrivateKey) -> None:
    """keep_anomaly is optional."""
    assert code_of(receiver.handle("/deposit", signed(private_key, b"{"), b"{", _NoKeeper())) == "INVALID_REQUEST"


_ODD_HEADERS: dict[str, Any] = {
    "odd values": {None: None, 5: [], "signature": 7, b"x": object()},
    "no latin-1": {"signature": "\U0001f3b0", "\u2028": "\ud800"},
    "line breaks": {"signature": "x\r\nx: y", "a\nb": "c"},
    "bytes": {b"signature": b"\xff\x00"},
    "thousands": [(f"x-{number}", "y" * 100) for number in range(5_000)],
    "thousands alike": [("signature", "AAAA")] * 5_000,
    "a very long one": {"signature": "A" * 1_000_000},
}


@pytest.mark.parametrize("headers", [pytest.param(odd, id=name) for name, odd in _ODD_HEADERS.items()])
def test_no_header_makes_anything_raise(
    headers: Any, receiver: WebhookReceiver, handler: Handler, caplog: pytest.LogCaptureFixture
) -> None:
    """Of whatever type, form and number: refused like any unsigned call."""
    assert code_of(receiver.handle("/withdraw", headers, encoded(WITHDRAW), handler)) == "INVALID_SIGNATURE"
    assert code_of(asyncio.run(receiver.handle_async("/withdraw", headers, encoded(WITHDRAW), handler))) is not None
    assert handler.calls == []
    assert all(record.getMessage().isprintable() for record in caplog.records)


@pytest.mark.parametrize(
    ("path", "method", "peer"),
    [
        pytest.param(b"/withdraw", "POST", None, id="the path as bytes"),
        pytest.param("/\udcff\n\x1b[2J", "POST", "\n\x1b[2J", id="control characters"),
        pytest.param(None, None, 5, id="other types"),
        pytest.param("/withdraw", b"POST", object(), id="the method as bytes"),
        pytest.param("/" * 100_000, "X" * 100_000, "y" * 100_000, id="very long ones"),
    ],
)
def test_no_path_method_or_peer_makes_anything_raise(
    path: Any, method: Any, peer: Any, public_key: RSAPublicKey, caplog: pytest.LogCaptureFixture
) -> None:
    """A reply goes out, and no line of the log is forged."""
    for authenticator in (RsaSignature(public_key), IpAllowList(["192.0.2.1"])):
        receiver = WebhookReceiver(authenticator=authenticator)
        reply = receiver.handle(path, {}, b"{}", Handler(), method=method, peer=peer)
        assert code_of(reply) in ("INVALID_REQUEST", "INVALID_SIGNATURE")
    assert all(record.getMessage().isprintable() for record in caplog.records)
    assert all(len(record.getMessage()) < 2_000 for record in caplog.records)


@pytest.mark.parametrize("form", ["mapping", "pairs", "bytes", "message"])
@pytest.mark.parametrize("name", ["signature", "Signature", "SIGNATURE", "sIgNaTuRe"])
def test_headers_come_in_many_forms(
    form: str, name: str, receiver: WebhookReceiver, handler: Handler, private_key: RSAPrivateKey
) -> None:
    """E05: in any case, as frameworks and the standard library hand them over."""
    value = signature_of(private_key, encoded(WITHDRAW))
    message = email.message.Message()
    message[name] = value
    headers: Any = {
        "mapping": {name: value},
        "pairs": [("Host", "x"), (name, value)],
        "bytes": [(name.encode(), value.encode())],
        "message": message,
    }[form]
    assert code_of(receiver.handle("/withdraw", headers, encoded(WITHDRAW), handler)) is None


@pytest.mark.parametrize(("released", "code"), [(False, None), (True, "SYSTEM_ERROR")])
def test_a_view_of_the_body_may_be_gone(
    released: bool, code: str | None, receiver: WebhookReceiver, handler: Handler, private_key: RSAPrivateKey
) -> None:
    """What a server lent is read while it is there; after that its program is at fault, so the call may come again."""
    body = encoded(WITHDRAW)
    view: Any = memoryview(body)
    if released:
        view.release()
    assert code_of(receiver.handle("/withdraw", signed(private_key, body), view, handler)) == code
    assert len(handler.calls) == (not released)


def _raise(error: BaseException) -> Callable[[WebhookCall], object]:
    def does(call: WebhookCall) -> object:
        raise error

    return does


class _TellsNothingError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text either")


_FAILURES = [
    RuntimeError("x"),
    KeyError("p1"),
    StopIteration(5),
    MemoryError(),
    ExceptionGroup("many", [ValueError("a")]),
    BaseExceptionGroup("of two kinds", [ValueError("a"), asyncio.CancelledError()]),
    BaseExceptionGroup("nested", [BaseExceptionGroup("inner", [GeneratorExit()])]),
    _TellsNothingError(),
]


_WAYS = ["handle", "in a thread", "sync handler, awaited", "async handler"]


@pytest.mark.parametrize("failure", _FAILURES, ids=lambda failure: type(failure).__name__)
@pytest.mark.parametrize("way", _WAYS)
def test_a_handler_may_raise_anything(
    failure: BaseException, way: str, by: By, caplog: pytest.LogCaptureFixture
) -> None:
    """SYSTEM_ERROR, with nothing of the exception in the body and its traceback in the log."""
    assert code_of(by(way, _raise(failure))) == "SYSTEM_ERROR"
    assert "raised" in caplog.text
    assert any(record.exc_info or "|" in record.getMessage() for record in caplog.records)


def _posted(
    way: str,
    receiver: WebhookReceiver,
    private_key: RSAPrivateKey,
    path: str,
    content: object,
    does: Callable[[Any], object] | None = None,
) -> tuple[HttpReply, Any]:
    """Return the reply, and the handler that was asked."""
    body = encoded(content)
    headers = signed(private_key, body)
    handler: Any = (AsyncHandler if way == "async handler" else Handler)(does)
    return handled(way, receiver, path, headers, body, handler), handler


@pytest.mark.parametrize("failure", [SystemExit(1), KeyboardInterrupt(), GeneratorExit(), BaseException("x")])
def test_what_ends_a_program_does_not_end_it_from_a_thread_of_ours(failure: BaseException, by: By) -> None:
    """``sys.exit()`` in a handler would otherwise end the event loop that waits for it."""
    for way in ("in a thread", "sync handler, awaited"):
        assert code_of(by(way, _raise(failure))) == "SYSTEM_ERROR"
    with pytest.raises(type(failure)):
        by("handle", _raise(failure))


@pytest.mark.parametrize("way", ["handle", "async handler"])
@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_what_ends_a_program_may_come_in_a_group(end: type[BaseException], way: str, by: By) -> None:
    """As a task group hands it on, at any depth: it is no answer to a call."""
    group = BaseExceptionGroup("outer", [ValueError("a"), BaseExceptionGroup("inner", [end()])])
    with pytest.raises(BaseExceptionGroup) as passed:
        by(way, _raise(group))
    assert passed.value is group


def test_a_cancellation_from_inside_is_a_failure_like_any_other(by: By) -> None:
    """Something that the handler awaited was cancelled, and not the call."""
    assert code_of(by("async handler", _raise(asyncio.CancelledError()))) == "SYSTEM_ERROR"


_FORGED = "p1\n2026-11-21 12:00:00 ERROR forged\x1b[2J"


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(lambda: ValueError(f"no player {_FORGED}"), id="its own text"),
        pytest.param(lambda: ExceptionGroup("many", [ValueError(_FORGED)]), id="in a group"),
        pytest.param(lambda: _chained(ValueError(_FORGED)), id="its cause"),
        pytest.param(lambda: _noted(_FORGED), id="a note"),
    ],
)
def test_no_line_of_the_log_is_forged(
    failure: Callable[[], Exception], by: By, caplog: pytest.LogCaptureFixture
) -> None:
    """F08: an exception that quotes an id, as databases do, is told line by line, escaped."""
    assert code_of(by("handle", _raise(failure()))) == "SYSTEM_ERROR"
    assert "forged" in caplog.text
    assert not re.search(r"^\S*2026-11-21", caplog.text, re.MULTILINE)
    assert "\x1b" not in caplog.text
    assert "Traceback" in caplog.text


def _chained(cause: Exception) -> Exception:
    outer = RuntimeError("plain")
    outer.__cause__ = cause
    return outer


def _noted(note: str) -> Exception:
    failure = RuntimeError("plain")
    failure.add_note(note)
    return failure


def test_a_plain_failure_keeps_its_traceback_as_such(by: By, caplog: pytest.LogCaptureFixture) -> None:
    """Error trackers read exc_info."""
    by("handle", _raise(RuntimeError("plain")))
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [RuntimeError]


@pytest.mark.parametrize("value", [_FORGED, "x" * 5_000])
def test_ids_forge_no_line_when_they_are_refused(value: str, post: Post, caplog: pytest.LogCaptureFixture) -> None:
    """F08: every line is printable and of bounded length."""
    post("/withdraw", {**WITHDRAW, "action": value, "round_id": [value]})
    post("/withdraw", {**WITHDRAW, "round_id": [value]})
    assert caplog.records
    assert all(record.getMessage().isprintable() and len(record.getMessage()) < 1_500 for record in caplog.records)


def test_signatures_are_never_logged(
    receiver: WebhookReceiver, handler: Handler, private_key: RSAPrivateKey, other_key: RSAPrivateKey,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """Neither a good one nor a bad one, in no refusal and no failure."""
    caplog.set_level(logging.DEBUG)
    body = encoded(WITHDRAW)
    good, bad = signature_of(private_key, body), signature_of(other_key, body)
    request = WebhookRequest("POST", "/withdraw", ((b"signature", good.encode()),), body)
    for value in (good, bad, good[:-1], good + "!", f"{good},{good}"):
        receiver.handle("/withdraw", {"signature": value}, body, handler)
        receiver.handle("/deposit", {"signature": value}, body, Handler(_raise(RuntimeError("x"))))
        receiver.handle("/x", {"signature": value}, body, handler, method="GET")
    for secret in (good, bad):
        assert secret[:40] not in caplog.text
        assert secret[:40] not in repr(request)


def test_on_call_is_told_everything(public_key: RSAPublicKey, private_key: RSAPrivateKey) -> None:
    """The call, the code, why, and how long; the reply never says why (spec §7.1)."""
    told: list[HandledCall] = []
    receiver = WebhookReceiver(authenticator=RsaSignature(public_key), on_call=told.append)
    body = encoded(WITHDRAW)
    receiver.handle("/withdraw", signed(private_key, body), body, Handler(), peer="192.0.2.7")
    receiver.handle("/withdraw", signed(private_key, b"{"), b"{", Handler())
    receiver.handle("/withdraw", {}, body, Handler())
    receiver.handle("/nowhere", {}, body, Handler())
    receiver.handle("/withdraw", signed(private_key, body), body, Handler(_raise(RuntimeError("secret"))))
    receiver.handle("/withdraw", signed(private_key, body), body, Handler(lambda call: error("LIMIT_EXCEEDED")))
    assert [(each.status, each.code, bool(each.reason), each.call is not None) for each in told] == [
        (200, None, False, True),
        (200, "INVALID_REQUEST", True, False),
        (200, "INVALID_SIGNATURE", True, False),
        (404, "INVALID_REQUEST", True, False),
        (200, "SYSTEM_ERROR", True, True),
        (200, "LIMIT_EXCEEDED", False, True),
    ]
    assert (told[0].path, told[0].peer) == ("/withdraw", "192.0.2.7")
    assert isinstance(told[0].call, WithdrawCall)
    assert 0 < told[0].elapsed_seconds < 10


def test_what_on_call_raises_changes_nothing(
    public_key: RSAPublicKey, private_key: RSAPrivateKey, caplog: pytest.LogCaptureFixture
) -> None:
    """A look on must not change what is answered."""
    receiver = WebhookReceiver(authenticator=RsaSignature(public_key), on_call=_boom)
    body = encoded(WITHDRAW)
    assert code_of(receiver.handle("/withdraw", signed(private_key, body), body, Handler())) is None
    assert caplog.messages == ["on_call raised"]
    assert "the disk is full" in caplog.text


def test_a_request_that_was_cut_off_is_reported(public_key: RSAPublicKey, caplog: pytest.LogCaptureFixture) -> None:
    """An adapter refuses what it cannot read to its end; on_call and the log learn path, peer and reason."""
    handled: list[HandledCall] = []
    receiver = WebhookReceiver(authenticator=RsaSignature(public_key), on_call=handled.append)
    assert code_of(receiver.refuse("/deposit", "the body ended early", peer="192.0.2.7")) == "SYSTEM_ERROR"
    [call] = handled
    assert (call.path, call.peer, call.call, call.code) == ("/deposit", "192.0.2.7", None, "SYSTEM_ERROR")
    assert (call.reason, call.status) == ("the body ended early", 200)
    assert caplog.messages == ["'/deposit' from '192.0.2.7' refused with SYSTEM_ERROR: the body ended early"]
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_times_in_the_log_are_milliseconds(
    public_key: RSAPublicKey, private_key: RSAPrivateKey, caplog: pytest.LogCaptureFixture
) -> None:
    """A refusal says how long it took, and so does a slow call."""
    caplog.set_level(logging.INFO)
    receiver = WebhookReceiver(authenticator=RsaSignature(public_key), warn_seconds=0.02)
    body = encoded(WITHDRAW)

    def slowly(call: object) -> Any:
        time.sleep(0.03)
        return error("PLAYER_BLOCKED")

    began = time.perf_counter()
    receiver.handle("/withdraw", signed(private_key, body), body, Handler(slowly))
    most = (time.perf_counter() - began) * 1000
    refusal, slow = caplog.messages
    found = re.fullmatch(r"withdraw answered PLAYER_BLOCKED after (\d+\.\d) ms", refusal)
    assert found
    assert 30 <= float(found[1]) <= most + 0.1
    found = re.fullmatch(r"'/withdraw' took (\d+) ms; the service may give up before that", slow)
    assert found
    assert 30 <= int(found[1]) <= most + 1


async def _async_on_call(handled: HandledCall) -> None: ...


@pytest.mark.parametrize(
    ("argument", "value", "kind", "says"),
    [
        pytest.param("on_call", _async_on_call, TypeError, "on_call", id="an async on_call"),
        pytest.param("on_call", 5, TypeError, "on_call", id="an on_call that cannot be called"),
        pytest.param("profile", "codes = 1", TypeError, "from_toml", id="a profile as text"),
        *(
            pytest.param(name, value, ConfigurationError, name, id=f"{name}={value}")
            for name in ("budget_seconds", "warn_seconds")
            for value in (0, -1, True, "5", float("nan"), float("inf"), None)
        ),
        *(
            pytest.param("max_threads", value, ConfigurationError, "max_threads", id=f"max_threads={value}")
            for value in (0, -1, True, 1.5)
        ),
    ],
)
def test_settings_that_cannot_work_are_refused(
    argument: str, value: Any, kind: type[Exception], says: str, public_key: RSAPublicKey
) -> None:
    """When the receiver is built, and not with the first call."""
    arguments: dict[str, Any] = {argument: value}
    with pytest.raises(kind, match=says) as refused:
        WebhookReceiver(authenticator=RsaSignature(public_key), **arguments)
    if isinstance(refused.value, ConfigurationError):
        assert refused.value.setting == argument
        assert (shown(value) if value is not None else "None") in str(refused.value)


class _Half(Handler):
    async def deposit(self, call: WebhookCall) -> Any: ...  # type: ignore[override]  # That is the mistake.


class _Without:
    withdraw = deposit = rollback = Handler.withdraw


@pytest.mark.parametrize(
    ("handler", "says"),
    [
        pytest.param(_Half(), "sync and async", id="half async"),
        pytest.param(_Without(), "no method player_balance", id="a method is missing"),
        pytest.param(Handler, "is the class Handler", id="the class"),
        pytest.param(None, "NoneType has no method", id="nothing"),
    ],
)
def test_a_handler_that_is_none_is_told_in_words(handler: Any, says: str, receiver: WebhookReceiver) -> None:
    """It is the program's mistake, so it raises: nothing that is sent to us can be at fault."""
    for call in (receiver.handle, partial(receiver.handle, in_thread=True)):
        with pytest.raises(TypeError, match=says):
            call("/withdraw", {}, b"", handler)
    with pytest.raises(TypeError, match=says):
        asyncio.run(receiver.handle_async("/withdraw", {}, b"", handler))
    asynchronous: Any = AsyncHandler()
    with pytest.raises(TypeError, match="handle_async"):
        receiver.handle("/withdraw", {}, b"", asynchronous)  # Its coroutines would never be awaited.


#: Posts a batch in some way; returns the reply, and the handler that was asked.
Batch = Callable[..., tuple[HttpReply, Any]]


@pytest.fixture
def batch(public_key: RSAPublicKey, private_key: RSAPrivateKey) -> Batch:
    """Post to a receiver that serves batches."""
    receiver = WebhookReceiver(authenticator=RsaSignature(public_key), profile=Profile(deposit_batch=True))
    return lambda way, *rest: _posted(way, receiver, private_key, "/deposit-batch", *rest)


def _deposit(name: str, **change: Any) -> dict[str, Any]:
    return {**DEPOSIT, "action_id": name, "tx_id": f"deposit:bet:{name}", **change}


def _told(reply: HttpReply) -> list[tuple[str | None, str | None]]:
    return [(item["tx_id"], item.get("code")) for item in json.loads(reply.body)]


@pytest.mark.parametrize("way", _WAYS)
def test_a_batch_is_answered_in_order(way: str, batch: Batch) -> None:
    """A11: three deposits, one bad: two SUCCESS, one ERROR, matched by tx_id; the bad one is kept."""
    items = [_deposit("b1"), _deposit("b2", amount=-1), _deposit("b3"), 7]
    reply, handler = batch(way, items)
    assert reply.status == 200
    assert _told(reply) == [
        ("deposit:bet:b1", None),
        ("deposit:bet:b2", "INVALID_REQUEST"),
        ("deposit:bet:b3", None),
        (None, "INVALID_REQUEST"),
    ]
    assert handler.anomalies == [("deposit", "unreadable", encoded(items[1])), ("deposit", "unreadable", b"7")]
    assert json.loads(reply.body)[0].keys() == {"tx_id", "type", "balance", "timestamp"}


@pytest.mark.parametrize("way", _WAYS)
def test_a_long_batch_is_answered_in_order(way: str, batch: Batch) -> None:
    """All 200, over several rounds, and the empty one too."""
    items = [_deposit(f"b{number}") for number in range(200)]
    reply, handler = batch(way, items)
    assert [tx_id for tx_id, _ in _told(reply)] == [f"deposit:bet:b{number}" for number in range(200)]
    assert len(handler.calls) == 200
    assert batch(way, {"bets": []})[0].body == b"[]"


@pytest.mark.parametrize("way", _WAYS)
def test_our_own_failures_are_left_out_of_a_batch(way: str, batch: Batch) -> None:
    """A missing item is sent again; the others stand. The same identity twice is asked twice (the ledger knows)."""

    def does(call: Any) -> object:
        if call.bet_id == "b2":
            raise RuntimeError("x")
        return error("BET_NOT_FOUND") if call.bet_id == "b3" else success(balance_cents=1)

    items = [_deposit("b1"), _deposit("b2"), _deposit("b3"), _deposit("b1")]
    reply, handler = batch(way, items, does)
    assert _told(reply) == [("deposit:bet:b1", None), ("deposit:bet:b3", "BET_NOT_FOUND"), ("deposit:bet:b1", None)]
    assert sorted(call.bet_id for call in handler.calls) == ["b1", "b1", "b2", "b3"]


def test_foreign_claims_of_a_batch_are_kept_as_such(public_key: RSAPublicKey, private_key: RSAPrivateKey) -> None:
    """E13, one by one; on_call is told of each item."""
    told: list[HandledCall] = []
    receiver = WebhookReceiver(
        authenticator=RsaSignature(public_key),
        profile=Profile(deposit_batch=True),
        instances={"i1"},
        on_call=told.append,
    )
    claim = {"type": "JACKPOT"}
    items = [_deposit("b1", action=claim), _deposit("b2", action=claim, instance_id="i2")]
    reply, handler = _posted("handle", receiver, private_key, "/deposit-batch", items)
    assert _told(reply) == [("deposit:bet:b1", None), ("deposit:bet:b2", "INVALID_REQUEST")]
    assert handler.anomalies == [("deposit", "foreign_instance", encoded(items[1]))]
    assert [(each.path, each.code, each.status) for each in told] == [
        ("/deposit-batch", None, 200),
        ("/deposit-batch", "INVALID_REQUEST", 200),
    ]
    assert told[0].call == handler.calls[0]
    assert told[0].reason == ""
    assert "i2" in told[1].reason


def test_a_batch_of_a_stranger_is_refused_whole(public_key: RSAPublicKey, handler: Handler) -> None:
    """One ERROR of spec §2.1, for nothing in it was read."""
    receiver = WebhookReceiver(authenticator=RsaSignature(public_key), profile=Profile(deposit_batch=True))
    assert code_of(receiver.handle("/deposit-batch", {}, encoded([DEPOSIT]), handler)) == "INVALID_SIGNATURE"


def test_a_call_refused_by_a_mistake_of_ours_is_not_remembered(
    public_key: RSAPublicKey, private_key: RSAPrivateKey, other_key: RSAPrivateKey, handler: Handler
) -> None:
    """E12: with the wrong key all calls fail; mended, the same bytes are accepted."""
    body = encoded(WITHDRAW)
    wrong = WebhookReceiver(authenticator=RsaSignature(other_key.public_key()))
    assert code_of(wrong.handle("/withdraw", signed(private_key, body), body, handler)) == "INVALID_SIGNATURE"
    mended = WebhookReceiver(authenticator=RsaSignature(public_key))
    assert code_of(mended.handle("/withdraw", signed(private_key, body), body, handler)) is None
    assert len(handler.calls) == 1


def test_folding_hides_nothing_from_on_call(public_key: RSAPublicKey, private_key: RSAPrivateKey) -> None:
    """The wire has the core code, on_call the one that was meant."""
    told: list[HandledCall] = []
    receiver = WebhookReceiver(
        authenticator=RsaSignature(public_key), profile=Profile(codes="core"), on_call=told.append
    )
    handler = Handler(lambda call: error(WebhookErrorCode.BET_ROLLED_BACK))
    body = encoded(WITHDRAW)
    assert code_of(receiver.handle("/withdraw", signed(private_key, body), body, handler)) == "BET_ALREADY_CLOSED"
    assert [each.code for each in told] == ["BET_ROLLED_BACK"]
