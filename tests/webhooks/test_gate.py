"""What is a call and what is refused, and what a handler's result becomes (spec §2.1, §4.1, §7.1)."""

import json
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest

from game_operator import Profile
from game_operator.errors import InstancesUnavailableError, WebhookSignatureError, shown
from game_operator.models.webhooks import Reply
from game_operator.protocol.webhook import read_call
from game_operator.webhooks import (
    AcceptUnsigned,
    BalanceCall,
    DepositBatch,
    DepositCall,
    Refusal,
    RollbackCall,
    WebhookCall,
    WebhookReceiver,
    WebhookRequest,
    WithdrawCall,
    error,
    success,
)
from tests.support.webhooks import BALANCE, DEPOSIT, GENUINE, ROLLBACK, WITHDRAW, Handler, code_of, encoded, read_reply

_CALLS: dict[str, type[WebhookCall]] = {
    "/withdraw": WithdrawCall,
    "/deposit": DepositCall,
    "/rollback": RollbackCall,
    "/player-balance": BalanceCall,
}


class _Door:
    """An authenticator that covers the body, remembers whom it was asked for, and lets nobody in when it is shut."""

    covers_body = True

    def __init__(self, problem: Exception | None = None) -> None:
        self.problem = problem
        self.seen: list[Profile] = []

    def authenticate(self, request: WebhookRequest, profile: Profile) -> None:
        self.seen.append(profile)
        if self.problem:
            raise self.problem


def _gate(*, door: _Door | None = None, instances: Any = None, **profile: Any) -> WebhookReceiver:
    return WebhookReceiver(authenticator=door or _Door(), profile=Profile(**profile), instances=instances)


def _opened(path: str, body: object, *, method: str = "POST", **settings: Any) -> WebhookCall | DepositBatch | Refusal:
    raw = body if isinstance(body, bytes) else encoded(body)
    return _gate(**settings).open(WebhookRequest(method, path, (), raw))


def _refused(path: str, body: object, **settings: Any) -> Refusal:
    opened = _opened(path, body, **settings)
    assert isinstance(opened, Refusal)
    return opened


@pytest.mark.parametrize("path", GENUINE)
def test_a_genuine_body_is_a_call(path: str) -> None:
    """Each path has its call, with the body as it came in (spec §4.1)."""
    call = _opened(path, GENUINE[path])
    assert isinstance(call, _CALLS[path])
    assert call.player_id == "p1"
    assert call.body == encoded(GENUINE[path])
    assert call.raw == GENUINE[path]


@pytest.mark.parametrize("query", ["?", "?a=b", "?x=/deposit"])
def test_a_query_changes_nothing(query: str) -> None:
    """A proxy may add one."""
    assert isinstance(_opened("/withdraw" + query, WITHDRAW), WithdrawCall)


@pytest.mark.parametrize(
    "path",
    ["", "/", "/withdraw/", "//withdraw", "/Withdraw", "/withdraw/x", "withdraw", "/deposit-batch", "/deposit/batch",
     "/player_balance", "/wallet/withdraw", "/\ud800", "/\x00", "/withdraw\n", "?/withdraw", "/withdraw%20"],
)  # fmt: skip
def test_other_paths_are_not_found(path: str) -> None:
    """404, whatever the body: none of the four paths of spec §4.1."""
    door = _Door()
    refusal = _refused(path, b"[" * 100_000, door=door)
    assert (refusal.status, refusal.code, refusal.operation) == (404, "INVALID_REQUEST", "")
    assert door.seen == []
    assert refusal.reason == f"{shown(path)} is not one of our paths"


@pytest.mark.parametrize(
    "method", ["GET", "PUT", "HEAD", "DELETE", "OPTIONS", "post", "", "POST ", "P\nST", "x" * 9999]
)
def test_other_methods_are_not_allowed(method: str) -> None:
    """F10: 405, for all webhooks are POST (spec §4.1)."""
    door = _Door()
    refusal = _refused("/withdraw", WITHDRAW, method=method, door=door)
    assert (refusal.status, refusal.code, refusal.operation) == (405, "INVALID_REQUEST", "withdraw")
    assert refusal.reason == f"the method is {shown(method)}, not POST"
    assert door.seen == []
    reply = _gate().close(refusal, now_millis=7)
    assert reply.headers["allow"] == "POST"
    assert read_reply(reply.body) == Reply(code="INVALID_REQUEST", timestamp=7)


@pytest.mark.parametrize("status", [200, 401])
def test_nobody_known(status: int) -> None:
    """INVALID_SIGNATURE with HTTP 200 (spec §4.1) or as the profile says; nothing is kept of it."""
    door = _Door(WebhookSignatureError("somebody else's"))
    refusal = _refused("/deposit", DEPOSIT, door=door, unauthenticated_status=status)
    assert refusal == Refusal("INVALID_SIGNATURE", "somebody else's", status, "deposit")
    assert door.seen[0].unauthenticated_status == status


def test_an_authenticator_that_breaks(caplog: pytest.LogCaptureFixture) -> None:
    """It is our own failure: SYSTEM_ERROR, and the log names the path and the cause."""
    refusal = _refused("/deposit", DEPOSIT, door=_Door(ZeroDivisionError("oh")))
    assert refusal == Refusal("SYSTEM_ERROR", "reading it failed: ZeroDivisionError", 200, "deposit")
    assert "a webhook posted to '/deposit' could not be read" in caplog.text
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize(
    ("path", "anomaly"),
    [("/deposit", "unreadable"), ("/rollback", "unreadable"), ("/withdraw", ""), ("/player-balance", "")],
)
@pytest.mark.parametrize("body", [b"{", b"", b"[]", b'{"player_id":" "}'])
def test_an_unreadable_body(path: str, anomaly: str, body: bytes) -> None:
    """F01, F02: final, and nobody is told why (spec §7.1); where money may be owed it is kept, byte for byte."""
    refusal = _refused(path, body)
    assert (refusal.code, refusal.status, refusal.operation) == ("INVALID_REQUEST", 200, path[1:])
    assert (refusal.anomaly, refusal.body) == (anomaly, body)
    assert read_reply(_gate().close(refusal, now_millis=7).body) == Reply(code="INVALID_REQUEST", timestamp=7)


@pytest.mark.parametrize(
    ("path", "size", "profile"),
    [
        pytest.param("/withdraw", 65_536, {}, id="F09 a call has 64 KiB"),
        pytest.param("/deposit-batch", 1_048_576, {"deposit_batch": True}, id="F09 a batch has 1 MiB"),
        pytest.param("/withdraw", 1_000, {"max_body_bytes": 1_000}, id="F09 a limit of one's own"),
    ],
)
def test_a_body_has_a_longest_length(path: str, size: int, profile: dict[str, Any]) -> None:
    """F09: accepted at the limit; one byte more is refused before anything is looked at."""
    body = encoded(WITHDRAW if path == "/withdraw" else [DEPOSIT])
    assert not isinstance(_opened(path, body + b" " * (size - len(body)), **profile), Refusal)
    refusal = _refused(path, body + b" " * (size + 1 - len(body)), **profile)
    assert (refusal.code, refusal.status, refusal.operation) == ("SYSTEM_ERROR", 200, path[1:])
    assert refusal.is_unread
    setting = "max_body_bytes" if path == "/withdraw" else "max_batch_bytes"
    assert refusal.reason == f"the body has {size + 1} bytes, and the profile's {setting} is {size}: is that too few?"
    assert _gate(**profile).max_bytes_at(f"{path}?x=1") == size


def test_a_body_that_is_too_long_is_not_authenticated() -> None:
    """E11, F09: 5 MB from a stranger cost a comparison."""
    door = _Door()
    assert _refused("/withdraw", b"[" * 5_000_000, door=door).code == "SYSTEM_ERROR"
    assert door.seen == []


_CLAIM = {**DEPOSIT, "action": {"type": "JACKPOT", "jackpot_id": "j1"}}


@pytest.mark.parametrize(
    ("path", "body", "accepted"),
    [
        pytest.param("/withdraw", WITHDRAW, True, id="E13 our instance"),
        pytest.param("/withdraw", {**WITHDRAW, "instance_id": "i2"}, False, id="E13 a foreign instance"),
        pytest.param("/withdraw", {k: v for k, v in WITHDRAW.items() if k != "instance_id"}, False, id="E13 none"),
        pytest.param("/withdraw", {**WITHDRAW, "instance_id": ["i1"]}, False, id="E13 unreadable"),
        pytest.param("/deposit", _CLAIM, True, id="E13 a claim of ours"),
        pytest.param("/deposit", {**_CLAIM, "instance_id": "i2"}, False, id="E13 a foreign claim"),
        pytest.param("/deposit", {**DEPOSIT, "instance_id": "i2"}, True, id="a deposit is bound by its bet"),
        pytest.param("/rollback", {**ROLLBACK, "instance_id": "i2"}, True, id="a rollback is bound by its bet"),
        pytest.param("/player-balance", BALANCE, True, id="a balance names no instance"),
    ],
)
def test_other_operators_calls_are_refused(path: str, body: Any, accepted: bool) -> None:
    """E13: the provider may sign for other operators with the same key."""
    door = _Door()
    door.covers_body = False  # Unsigned calls are looked at, too.
    opened = _opened(path, body, door=door, instances={"i1"})
    assert isinstance(opened, Refusal) is not accepted
    if isinstance(opened, Refusal):
        assert (opened.code, opened.status, opened.operation) == ("INVALID_REQUEST", 200, path[1:])
        assert (opened.anomaly, opened.body) == ("foreign_instance", encoded(body))


@pytest.mark.parametrize(
    "instances",
    [
        pytest.param("i1", id="one text"),
        pytest.param(iter(["i1"]), id="an iterator"),
        pytest.param(lambda: {"i1"}, id="a callable"),
    ],
)
def test_instances_that_are_no_set_are_a_mistake(instances: Any) -> None:
    """In a text every part of an id would be found, and the first withdraw would use a generator up."""
    with pytest.raises(TypeError, match=f"^instances must be a set of instance ids, not {type(instances).__name__}$"):
        _gate(instances=instances)


@pytest.mark.parametrize("kind", [set, list, tuple, frozenset, dict.fromkeys])
def test_instances_may_be_any_collection(kind: Callable[[list[str]], Any]) -> None:
    """As often as they are looked at."""
    receiver = _gate(instances=kind(["i0", "i1"]))
    request = WebhookRequest("POST", "/withdraw", (), encoded(WITHDRAW))
    assert [type(receiver.open(request)) for _ in range(3)] == [WithdrawCall] * 3


class _Unready:
    """Knows ``i1``, and cannot say of any other instance whose it is."""

    def __contains__(self, instance_id: object) -> bool:
        if instance_id == "i1":
            return True
        raise InstancesUnavailableError("The games were not fetched yet.")


@pytest.mark.parametrize(
    ("path", "body"), [("/withdraw", {**WITHDRAW, "instance_id": "i2"}), ("/deposit", {**_CLAIM, "instance_id": "i2"})]
)
def test_instances_that_cannot_be_looked_up_now_refuse_nothing_for_good(path: str, body: Any) -> None:
    """SYSTEM_ERROR, so that the call comes again; nothing is kept of it, and the log has the reason (spec §7.1)."""
    refusal = _refused(path, body, instances=_Unready())
    assert refusal == Refusal("SYSTEM_ERROR", "The games were not fetched yet.", 200, path[1:])


def test_a_claim_that_cannot_be_judged_now_is_left_out_of_the_batchs_answers() -> None:
    """The others are answered, and the service sends the one again (assumed, docs/decisions/0010)."""
    handler = Handler()
    body = encoded([DEPOSIT, {**_CLAIM, "instance_id": "i2", "tx_id": "later"}])
    reply = _gate(deposit_batch=True, instances=_Unready()).handle("/deposit-batch", {}, body, handler)
    assert [item["tx_id"] for item in json.loads(reply.body)] == [DEPOSIT["tx_id"]]
    assert handler.anomalies == []


def test_a_batch_with_refused_items() -> None:
    """Each is refused by itself, with its own bytes and the reason; the others are calls."""
    items = [DEPOSIT, {**_CLAIM, "instance_id": "i2"}, {**DEPOSIT, "amount": "5"}]
    batch = _opened("/deposit-batch", encoded(items), deposit_batch=True, instances={"i1"})
    assert isinstance(batch, DepositBatch)
    assert [(item.body, item.call is None) for item in batch.items] == [
        (encoded(each), each != DEPOSIT) for each in items
    ]
    assert [item.problem for item in batch.items] == [refusal.reason if refusal else "" for refusal in batch.refusals]
    assert "'i2'" in batch.items[1].problem
    assert "amount" in batch.items[2].problem


@pytest.mark.parametrize("authenticator", [None, object(), AcceptUnsigned, "signature"])
def test_an_authenticator_must_be_named(authenticator: Any) -> None:
    """There is no default, and the error shows what was passed: a class is refused too."""
    with pytest.raises(TypeError, match=rf"^authenticator must be .*, not {re.escape(shown(authenticator))}$"):
        WebhookReceiver(authenticator=authenticator)


@pytest.mark.parametrize(
    ("game", "logged"),
    [
        pytest.param("g1", [], id="there"),
        pytest.param(None, [(logging.INFO, "withdraw: game is absent")], id="absent"),
        pytest.param(7, [(logging.WARNING, "withdraw: game cannot be read: 7")], id="unreadable"),
    ],
)
def test_an_odd_field_that_moves_no_money_is_logged(
    game: object, logged: list[tuple[int, str]], caplog: pytest.LogCaptureFixture
) -> None:
    """The call is handled; what is odd about it is a line of the log, louder if something unreadable stands there."""
    body = {name: value for name, value in {**WITHDRAW, "game": game}.items() if value is not None}
    with caplog.at_level(logging.INFO, "game_operator.webhooks"):
        assert isinstance(_opened("/withdraw", body), WithdrawCall)
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == logged


_GOOD = success(balance_cents=1, timestamp=5)
_WITHDRAW_CALL = read_call("withdraw", encoded(WITHDRAW), Profile())[0]
_DEPOSIT_CALL = read_call("deposit", encoded(DEPOSIT), Profile())[0]
_ROLLBACK_CALL = read_call("rollback", encoded(ROLLBACK), Profile())[0]


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        pytest.param(success(balance_cents=1_234), success(balance_cents=1_234, timestamp=7), id="SUCCESS"),
        pytest.param(error("MY_OWN"), Reply(code="MY_OWN", timestamp=7), id="a code of one's own"),
        pytest.param(
            error("BET_NOT_FOUND", balance_cents=3),
            error("BET_NOT_FOUND", balance_cents=3, timestamp=7),
            id="ERROR with the balance",
        ),
        *(
            pytest.param(error(code, balance_cents=3), Reply(code=code, timestamp=7), id=f"{code} tells no balance")
            for code in ("SYSTEM_ERROR", "PLAYER_NOT_FOUND", "INVALID_SIGNATURE")
        ),
    ],
)
def test_a_result_becomes_a_reply(result: Reply, expected: Reply) -> None:
    """Spec §2.1: type, balance, timestamp, code; nothing of it is for the log."""
    reply = _gate().close(result, now_millis=7, call=_WITHDRAW_CALL)
    assert (reply.status, read_reply(reply.body)) == (200, expected)
    assert _gate().judged(result, _WITHDRAW_CALL)[1:] == (200, "")


async def _coroutine() -> Reply:
    return _GOOD


#: What a handler may return by mistake, and what the log says of it.
_JUNK: dict[str, tuple[Callable[[], object], str]] = {
    "nothing": (lambda: None, "returned NoneType, not success(...) or error(...)"),
    "a bool": (lambda: True, "returned bool"),
    "a dict": (lambda: {"type": "SUCCESS", "balance": 1}, "returned dict"),
    "the class": (lambda: Reply, "returned type"),
    "a code in lower case": (lambda: Reply(code="no"), "answered 'no', which is not an error code"),
    "a code too long": (lambda: Reply(code="X" * 65), "answered 'XXXX"),
    "INSUFFICIENT_BALANCE alone": (lambda: Reply(code="INSUFFICIENT_BALANCE"), "answered INSUFFICIENT_BALANCE without"),
    "a refusal": (lambda: Refusal("INVALID_REQUEST", "mine", 404), "returned Refusal"),
    "an exception": (lambda: ValueError("secret"), "raised ValueError"),
    "a coroutine": (_coroutine, "returned a coroutine: some decorator hides that its method is async"),
}


@pytest.mark.parametrize(("junk", "told"), _JUNK.values(), ids=_JUNK)
def test_junk_from_a_handler_is_our_own_failure(junk: Callable[[], object], told: str) -> None:
    """SYSTEM_ERROR, which says that the outcome is unknown; the reason names the mistake, and no exception's text."""
    reply, status, reason = _gate().judged(junk(), _WITHDRAW_CALL)
    assert (reply, status) == (Reply(code="SYSTEM_ERROR"), 200)
    assert reason.startswith(f"the handler {told}")
    assert "secret" not in reason
    assert read_reply(_gate().close(junk(), now_millis=1, call=_WITHDRAW_CALL).body).code == "SYSTEM_ERROR"


def test_a_time_of_ones_own_is_kept() -> None:
    """Where a balance is taken out, and where a code is folded."""
    told = error("PLAYER_NOT_FOUND", balance_cents=3, timestamp=5)
    assert read_reply(_gate().close(told, now_millis=7).body) == Reply(code="PLAYER_NOT_FOUND", timestamp=5)
    folded = _gate(codes="core").close(error("BET_ROLLED_BACK", balance_cents=3, timestamp=5), now_millis=7)
    assert read_reply(folded.body) == error("BET_ALREADY_CLOSED", balance_cents=3, timestamp=5)


def test_codes_of_ones_own_refuse_withdraws_alone() -> None:
    """A deposit or rollback refused for a reason the service does not know might never be sent again."""
    assert _gate().judged(error("MY_OWN"), _WITHDRAW_CALL)[0].code == "MY_OWN"
    for call in (_DEPOSIT_CALL, _ROLLBACK_CALL):
        reply, _, reason = _gate().judged(error("MY_OWN"), call)
        assert reply.code == "SYSTEM_ERROR"
        assert reason.startswith(f"the handler answered 'MY_OWN' to a {call.operation}")
    assert _gate().judged(error("BET_NOT_FOUND"), _DEPOSIT_CALL) == (error("BET_NOT_FOUND"), 200, "")


@pytest.mark.parametrize(
    ("codes", "code", "told"),
    [
        pytest.param("extended", "PLAYER_BLOCKED", "PLAYER_BLOCKED", id="as it is"),
        pytest.param("core", "PLAYER_BLOCKED", "INVALID_REQUEST", id="folded"),
        pytest.param("core", None, None, id="a success has no code"),
    ],
)
def test_codes_in_replies_and_batches(codes: Any, code: str | None, told: str | None) -> None:
    """A batch's answers are folded as single ones are (spec §7.1), and matched by tx_id."""
    reply = Reply(code=code, balance_cents=500, timestamp=7)  # type: ignore[arg-type]  # Cents
    single = json.loads(_gate(codes=codes).written(reply, 200, 9).body)
    sent = _gate(codes=codes).written_batch([("t1", reply), ("t2", reply)], 9)
    assert (single.get("code"), single["balance"], single["timestamp"]) == (told, 5.0, 7)
    assert json.loads(sent.body) == [{"tx_id": tx_id, **single} for tx_id in ("t1", "t2")]
    assert (sent.status, sent.headers["content-length"]) == (200, str(len(sent.body)))
    timeless = json.loads(_gate().written_batch([("t1", Reply(code="BET_NOT_FOUND"))], 9).body)
    assert [item["timestamp"] for item in timeless] == [9]


def test_a_body_that_is_no_bytes_is_the_programs_mistake(
    receiver: WebhookReceiver, handler: Handler, caplog: pytest.LogCaptureFixture
) -> None:
    """Decoded text is not what was signed; the log says so, and the call may come again."""
    for body in ("{}", None, 5, {"player_id": "p1"}):
        odd: Any = body
        assert code_of(receiver.handle("/withdraw", {}, odd, handler)) == "SYSTEM_ERROR"
    assert caplog.text.count("hand over the raw bytes") == 4
    assert {record.levelno for record in caplog.records} == {logging.ERROR}
