"""Webhooks: a span and a measurement each, and counts by how they ended (spec §2.1, §4.1)."""

import contextvars
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from game_operator.ledger import MemoryLedger, SqlLedger
from game_operator.money import Cents
from game_operator.profile import Profile
from game_operator.wallet import Wallet
from game_operator.webhooks import HandledCall, HttpReply, Reply, RsaSignature, WebhookReceiver
from tests.support.observed import Observed, failing
from tests.support.webhooks import BALANCE, DEPOSIT, WITHDRAW, AsyncHandler, Handler, encoded, signed

_DONE = Reply(code=None, balance_cents=Cents(0))


def _receiver(key: RSAPrivateKey, observed: Observed, **options: Any) -> WebhookReceiver:
    return WebhookReceiver(authenticator=RsaSignature(key.public_key()), telemetry=observed.telemetry, **options)


def _answers(answer: Any) -> Handler:
    """Return a handler whose every answer is given, or raised."""

    def does(_call: object) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return Handler(does)


@pytest.mark.parametrize(
    ("path", "body", "answer", "series"),
    [
        pytest.param("/withdraw", WITHDRAW, _DONE, ("withdraw", "success"), id="success"),
        pytest.param(
            "/withdraw",
            WITHDRAW,
            Reply(code="INSUFFICIENT_BALANCE", balance_cents=Cents(0)),
            ("withdraw", "declined", "INSUFFICIENT_BALANCE"),
            id="the handler declines",
        ),
        pytest.param("/withdraw", {}, _DONE, ("withdraw", "refused", "INVALID_REQUEST"), id="the receiver refuses"),
        pytest.param(
            "/withdraw", WITHDRAW, ValueError("odd"), ("withdraw", "failed", "SYSTEM_ERROR"), id="the handler raises"
        ),
        pytest.param("/else", WITHDRAW, _DONE, ("refused", "INVALID_REQUEST"), id="an unknown path"),
    ],
)
def test_a_webhook_is_counted_by_how_it_ended(
    private_key: RSAPrivateKey, path: str, body: Mapping[str, Any], answer: Any, series: tuple[str, ...]
) -> None:
    """By operation, outcome and code; its span says the same, and only a failure is an error of ours."""
    observed, raw = Observed(), encoded(body)
    _receiver(private_key, observed).handle(path, signed(private_key, raw), raw, _answers(answer))
    assert observed.sums("game_operator.webhook.calls") == {series: 1}
    (span,) = observed.spans()
    assert (span.name, span.kind) == (f"webhook {path[1:]}" if path != "/else" else "webhook", SpanKind.INTERNAL)
    attributes = dict(span.attributes or {})
    ended = [attributes.get(f"game_operator.{key}") for key in ("operation", "outcome", "code")]
    assert tuple(filter(None, ended)) == series
    assert (span.status.status_code is StatusCode.ERROR) is ("failed" in series)
    ((measured, point),) = observed.points("game_operator.webhook.duration")
    assert (point.count, measured["game_operator.outcome"]) == (1, ended[1])
    assert 0 < point.sum < 10


def test_a_forged_call_is_a_failure_of_a_signature(private_key: RSAPrivateKey, other_key: RSAPrivateKey) -> None:
    """Counted apart, so that somebody can be woken; a handler that answers the same code counts as no forgery."""
    observed, raw = Observed(), encoded(WITHDRAW)
    receiver = _receiver(private_key, observed)
    receiver.handle("/withdraw", signed(other_key, raw), raw, _answers(_DONE))
    assert observed.sums("game_operator.signature.failures") == {("withdraw",): 1}
    receiver.handle("/withdraw", signed(private_key, raw), raw, _answers(Reply(code="INVALID_SIGNATURE")))
    assert observed.sums("game_operator.signature.failures") == {("withdraw",): 1}


def test_a_refusal_that_needs_a_person_is_an_anomaly(private_key: RSAPrivateKey) -> None:
    """A genuine bet for a game instance that is another operator's."""
    observed, raw = Observed(), encoded(WITHDRAW)
    _receiver(private_key, observed, instances={"i2"}).handle(
        "/withdraw", signed(private_key, raw), raw, _answers(_DONE)
    )
    assert observed.sums("game_operator.anomalies") == {("foreign_instance",): 1}


def test_each_deposit_of_a_batch_is_counted(private_key: RSAPrivateKey) -> None:
    """In one span, which is the batch's."""
    observed = Observed()
    raw = encoded([DEPOSIT, DEPOSIT | {"action_id": "b2", "tx_id": "t2"}, {"player_id": "p1"}])
    receiver = _receiver(private_key, observed, profile=Profile(deposit_batch=True))
    receiver.handle("/deposit-batch", signed(private_key, raw), raw, _answers(_DONE))
    assert dict(observed.span("webhook deposit-batch").attributes or {})["game_operator.operation"] == "deposit-batch"
    assert observed.sums("game_operator.webhook.calls") == {
        ("deposit", "success"): 2,
        ("deposit", "refused", "INVALID_REQUEST"): 1,
    }


@pytest.mark.parametrize("record_ids", [False, True])
def test_ids_are_on_spans_if_asked_for(private_key: RSAPrivateKey, record_ids: bool) -> None:
    """And in no metric; neither is the signature, nor the key, ever."""
    observed = Observed(record_ids=record_ids)
    body = WITHDRAW | {"player_id": "a-player", "action_id": "a-bet", "tx_id": "a-transaction"}
    raw, headers = encoded(body), signed(private_key, encoded(body))
    _receiver(private_key, observed).handle("/withdraw", headers, raw, Wallet(MemoryLedger()))
    spans, told = "\n".join(span.to_json() for span in observed.spans()), observed.everything()
    for planted in ("a-player", "a-bet", "a-transaction"):
        assert (planted in spans) is record_ids
        assert told.count(planted) == spans.count(planted)
    signature = headers["Signature"]
    assert not any(signature[at : at + 20] in told for at in range(0, len(signature) - 20, 20))


@pytest.mark.parametrize("way", ["here", "in a thread", "awaited", "from a loop"])
def test_a_handler_runs_in_the_context_of_its_webhook(private_key: RSAPrivateKey, way: str) -> None:
    """Its own spans are below ours in every way of running it; afterwards nothing of ours is current."""
    observed, raw = Observed(), encoded(BALANCE)
    receiver, headers = _receiver(private_key, observed), signed(private_key, raw)

    def work(_call: object = None) -> Reply:
        with observed.tracers.get_tracer("shop").start_as_current_span("work"):
            return _DONE

    async def work_async(_call: object) -> Reply:
        await anyio.sleep(0)
        return work()

    handler: Any = AsyncHandler() if way == "awaited" else Handler()
    handler.player_balance = work_async if way == "awaited" else work

    async def scenario() -> HttpReply:
        reply = await receiver.handle_async("/player-balance", headers, raw, handler)
        assert trace.get_current_span() is trace.INVALID_SPAN
        return reply

    if way in ("here", "in a thread"):
        reply = receiver.handle("/player-balance", headers, raw, handler, in_thread=way == "in a thread")
        assert trace.get_current_span() is trace.INVALID_SPAN
    else:
        reply = anyio.run(scenario, backend="asyncio")
    assert b"SUCCESS" in reply.body
    assert observed.span("work").parent == observed.span("webhook player-balance").context


def test_spans_end_in_the_context_they_began_in(private_key: RSAPrivateKey) -> None:
    """Requests one after another in one context are siblings, whatever became of the one before."""
    observed, raw = Observed(), encoded(BALANCE)
    receiver, headers = _receiver(private_key, observed), signed(private_key, raw)

    def both() -> None:
        with pytest.raises(KeyboardInterrupt):
            receiver.handle("/player-balance", headers, raw, _answers(KeyboardInterrupt()))
        receiver.handle("/player-balance", headers, raw, _answers(_DONE))

    contextvars.copy_context().run(both)
    assert [span.parent for span in observed.spans()] == [None, None]


@pytest.mark.parametrize(
    ("method", "path", "attributes"),
    [
        pytest.param("POST", "/withdraw", {"http.request.method": "POST", "http.route": "/withdraw"}, id="a route"),
        pytest.param("POST", "/guess/1", {"http.request.method": "POST"}, id="any other path has no name"),
        pytest.param("BREW", "/withdraw", {"http.request.method": "_OTHER", "http.route": "/withdraw"}, id="a method"),
    ],
)
def test_requests_of_serve_are_measured(method: str, path: str, attributes: dict[str, str]) -> None:
    """By method, route and status; nobody makes new series by guessing paths or methods."""
    observed = Observed()

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 500, "headers": []})

    async def sent(_message: Any) -> None: ...

    scope = {"type": "http", "scheme": "http", "method": method, "path": path}
    anyio.run(observed.telemetry.measured(app, ["/withdraw"]), scope, None, sent)
    ((measured, point),) = observed.points("http.server.request.duration")
    common = {"url.scheme": "http", "http.response.status_code": 500, "error.type": "500"}
    assert (measured, point.count) == (common | attributes, 1)


def test_a_call_has_one_correlation_id_everywhere(private_key: RSAPrivateKey, caplog: pytest.LogCaptureFixture) -> None:
    """In what on_call is given, in its log records and on its span; beside the operation and the time."""
    observed, raw, seen = Observed(), encoded({}), list[HandledCall]()
    receiver = _receiver(private_key, observed, on_call=seen.append)
    receiver.handle("/deposit", signed(private_key, raw), raw, _answers(_DONE))
    (handled,), (record,), (span,) = seen, caplog.records, observed.spans()
    logged = vars(record)
    assert len(handled.correlation_id) == 16
    assert (
        handled.correlation_id
        == logged["correlation_id"]
        == dict(span.attributes or {})["game_operator.correlation_id"]
    )
    assert handled.operation == logged["operation"] == "deposit"
    assert handled.elapsed_seconds == logged["elapsed_seconds"]
    assert (logged["event"], logged["code"]) == ("webhook.refused", "INVALID_REQUEST")


@pytest.mark.parametrize("moment", ["start", "end"])
@pytest.mark.parametrize("name", ["webhook withdraw", "ledger commit"])
def test_webhooks_are_answered_although_a_processor_of_the_sdk_raises(
    tmp_path: Path, private_key: RSAPrivateKey, moment: str, name: str
) -> None:
    """The first with SUCCESS, and so is its repeat; the wager is counted once."""
    observed, raw = failing(moment, name), encoded(WITHDRAW)
    receiver = _receiver(private_key, observed)
    with SqlLedger(f"sqlite:///{tmp_path / 'wallet.db'}", telemetry=observed.telemetry) as ledger:
        ledger.open_account("p1", Decimal(1000))
        replies = [receiver.handle("/withdraw", signed(private_key, raw), raw, Wallet(ledger)) for _ in range(2)]
    assert [b'"SUCCESS"' in reply.body for reply in replies] == [True, True]
    assert observed.sums("game_operator.wagered") == {("unknown", "BET"): 5000}
