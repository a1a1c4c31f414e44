"""A refusal, field by field: what is answered, what is logged, and what is kept to look at (spec §2.1, §4.1, §7.1)."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from game_operator import Profile
from game_operator.errors import WebhookSignatureError
from game_operator.models.webhooks import Reply
from game_operator.webhooks import DepositBatch, Refusal, WebhookReceiver, WebhookRequest, success
from tests.support.webhooks import DEPOSIT, ROLLBACK, WITHDRAW, encoded

BROKEN = b"{"


class _Door:
    """An authenticator that is told the profile, and lets nobody in when it is shut."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.problem = problem
        self.seen: list[Profile] = []

    def authenticate(self, request: WebhookRequest, profile: Profile) -> None:
        self.seen.append(profile)
        if self.problem:
            raise self.problem


def opened(path: str, body: bytes, *, door: _Door | None = None, instances: Any = None, **profile: Any) -> Any:
    """Open one request; what comes is a call, a batch or a refusal."""
    receiver = WebhookReceiver(authenticator=door or _Door(), profile=Profile(**profile), instances=instances)
    return receiver.open(WebhookRequest("POST", path, (), body))


@pytest.mark.parametrize("status", [200, 401])
def test_nobody_known(status: int) -> None:
    """INVALID_SIGNATURE with HTTP 200 (spec §4.1) or as the profile says; nothing is kept of it."""
    door = _Door(WebhookSignatureError("somebody else's"))
    refusal = opened("/deposit", encoded(DEPOSIT), door=door, unauthenticated_status=status)
    assert refusal == Refusal("INVALID_SIGNATURE", "somebody else's", status, "deposit")
    assert door.seen[0].unauthenticated_status == status


def test_an_authenticator_that_breaks(caplog: pytest.LogCaptureFixture) -> None:
    """It is our own failure: SYSTEM_ERROR, and the log names the path and the cause."""
    refusal = opened("/deposit", encoded(DEPOSIT), door=_Door(ZeroDivisionError("oh")))
    assert refusal == Refusal("SYSTEM_ERROR", "reading it failed: ZeroDivisionError", 200, "deposit")
    assert "a webhook posted to '/deposit' could not be read" in caplog.text
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize(
    ("path", "anomaly"),
    [("/deposit", "unreadable"), ("/rollback", "unreadable"), ("/withdraw", ""), ("/player-balance", "")],
)
def test_an_unreadable_body(path: str, anomaly: str) -> None:
    """Where money may be owed it is kept, byte for byte."""
    refusal = opened(path, BROKEN)
    assert (refusal.code, refusal.status, refusal.operation) == ("INVALID_REQUEST", 200, path[1:])
    assert (refusal.anomaly, refusal.body) == (anomaly, BROKEN)


def test_a_foreign_instance() -> None:
    """Refused and kept, with the instance named in the log alone."""
    body = encoded({**WITHDRAW, "instance_id": "theirs"})
    assert opened("/withdraw", body, instances={"ours"}) == Refusal(
        "INVALID_REQUEST",
        "the instance 'theirs' is not one of this operator's",
        200,
        "withdraw",
        "foreign_instance",
        body,
    )


def test_a_batch_with_refused_items() -> None:
    """Each is refused by itself, with its own bytes kept; the others are calls."""
    foreign = {
        "player_id": "p1",
        "amount": 5,
        "action": {"type": "JACKPOT"},
        "action_id": "b1",
        "tx_id": "t1",
        "instance_id": "theirs",
    }
    broken = {**DEPOSIT, "amount": "5", "tx_id": "t2"}
    batch = opened(
        "/deposit-batch", encoded([DEPOSIT, foreign, broken]), deposit_batch=True, instances={DEPOSIT["instance_id"]}
    )
    assert isinstance(batch, DepositBatch)
    assert [item.call is not None for item in batch.items] == [True, False, False]
    assert [item.tx_id for item in batch.items[1:]] == ["t1", "t2"]
    good, first, second = batch.refusals
    assert good is None
    assert first is not None
    assert second is not None
    assert (first.anomaly, second.anomaly) == ("foreign_instance", "unreadable")
    for item, refusal, told in ((batch.items[1], first, foreign), (batch.items[2], second, broken)):
        assert json.loads(refusal.body) == json.loads(item.body) == told
        assert item.problem == refusal.reason
    assert "theirs" in first.reason
    assert "amount" in second.reason


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
    receiver = WebhookReceiver(authenticator=_Door(), profile=Profile(codes=codes))
    reply = Reply(code=code, balance_cents=500, timestamp=7)  # type: ignore[arg-type]  # Cents
    single = json.loads(receiver.written(reply, 200, 9).body)
    sent = receiver.written_batch([("t1", reply), ("t2", reply)], 9)
    assert (single.get("code"), single["balance"], single["timestamp"]) == (told, 5.0, 7)
    assert json.loads(sent.body) == [{"tx_id": tx_id, **single} for tx_id in ("t1", "t2")]
    assert (sent.status, sent.headers["content-length"]) == (200, str(len(sent.body)))
    timeless = json.loads(receiver.written_batch([("t1", Reply(code="BET_NOT_FOUND"))], 9).body)
    assert [item["timestamp"] for item in timeless] == [9]


def _coroutine() -> object:
    async def method() -> None: ...

    coroutine = method()
    coroutine.close()
    return coroutine


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        pytest.param(lambda: ZeroDivisionError("secret"), "the handler raised ZeroDivisionError", id="raised"),
        pytest.param(lambda: 5, "the handler returned int, not success(...) or error(...)", id="a number"),
        pytest.param(
            _coroutine,
            "the handler returned a coroutine: some decorator hides that its method is async",
            id="a coroutine",
        ),
        pytest.param(
            lambda: Reply(code="INSUFFICIENT_BALANCE"),
            "the handler answered INSUFFICIENT_BALANCE without the balance; build it with error()",
            id="no balance",
        ),
        pytest.param(
            lambda: Reply(code="no code"),
            "the handler answered 'no code', which is not an error code; build it with error()",
            id="no code",
        ),
    ],
)
def test_results_that_are_no_reply(make: Callable[[], object], reason: str) -> None:
    """The reply says SYSTEM_ERROR, and the log why; nothing of an exception's text is told."""
    receiver = WebhookReceiver(authenticator=_Door())
    call = opened("/rollback", encoded(ROLLBACK))
    assert receiver.judged(make(), call) == (Reply(code="SYSTEM_ERROR"), 200, reason)


def test_results_that_are_replies() -> None:
    """A good one has nothing for the log; a code without a balance loses what it has; a code of one's own is named."""
    receiver = WebhookReceiver(authenticator=_Door())
    call = opened("/rollback", encoded(ROLLBACK))
    for good in (Reply(code="BET_NOT_FOUND", timestamp=7), success(balance_cents=5, timestamp=7)):
        assert receiver.judged(good, call) == (good, 200, "")
    hushed = Reply(code="PLAYER_NOT_FOUND", balance_cents=5, timestamp=7)  # type: ignore[arg-type]  # Cents
    assert receiver.judged(hushed, call) == (Reply(code="PLAYER_NOT_FOUND", timestamp=7), 200, "")
    _, _, reason = receiver.judged(Reply(code="MY_OWN"), call)
    assert reason == "the handler answered 'MY_OWN' to a rollback; codes of your own can refuse withdraws alone"


@pytest.mark.parametrize(
    ("method", "path", "body", "refusal"),
    [
        pytest.param(
            "POST",
            "/else",
            b"{}",
            Refusal("INVALID_REQUEST", "'/else' is not one of our paths", 404),
            id="another path",
        ),
        pytest.param(
            "GET",
            "/deposit",
            b"{}",
            Refusal("INVALID_REQUEST", "the method is 'GET', not POST", 405, "deposit"),
            id="another method",
        ),
        pytest.param(
            "POST",
            "/deposit",
            "{}",
            Refusal(
                "SYSTEM_ERROR",
                "the body was handed over as str; hand over the raw bytes as they came",
                200,
                "deposit",
            ),
            id="decoded text",
        ),
        pytest.param(
            "POST",
            "/deposit",
            b"x" * 65_537,
            Refusal(
                "SYSTEM_ERROR",
                "the body has 65537 bytes, and the profile's max_body_bytes is 65536: is that too few?",
                200,
                "deposit",
                is_unread=True,
            ),
            id="too long",
        ),
    ],
)
def test_what_is_refused_before_it_is_read(method: str, path: str, body: Any, refusal: Refusal) -> None:
    """404, 405, and our own failure where the bytes that were signed are lost; nobody is asked to authenticate it."""
    door = _Door()
    receiver = WebhookReceiver(authenticator=door)
    assert receiver.open(WebhookRequest(method, path, (), body)) == refusal
    assert door.seen == []


@pytest.mark.parametrize(("path", "most"), [("/deposit", 7), ("/deposit-batch", 9), ("/deposit?x=1", 7)])
def test_how_long_a_body_may_be(path: str, most: int) -> None:
    """A batch has a limit of its own."""
    profile = Profile(max_body_bytes=7, max_batch_bytes=9, deposit_batch=True)
    assert WebhookReceiver(authenticator=_Door(), profile=profile).max_bytes_at(path) == most
