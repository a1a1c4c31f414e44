"""Calls of the Operator API: a span each, a CLIENT span and a measurement for each attempt (spec §4.2)."""

from collections.abc import Callable
from typing import Any

import anyio
import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from opentelemetry.trace import SpanKind, StatusCode

from game_operator import AsyncOperatorClient, Exchange, OperatorClient, RetryPolicy
from game_operator.errors import GameOperatorError
from tests.support.flavours import run_over
from tests.support.observed import Observed, failing
from tests.support.servers import asgi_server
from tests.support.wire import bet, wire

Respond = Callable[[httpx.Request], httpx.Response]

_QUICK = RetryPolicy(max_retries=2, base_delay_seconds=0.0)
_TEMPLATE = "GET /api/v0.2/fetch-bet/{bet_id}"


def _answers(*answers: httpx.Response | Exception) -> Respond:
    """Return what answers with each of *answers* in turn."""
    left = list(answers)

    def respond(_request: httpx.Request) -> httpx.Response:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return respond


def _fetched(kind: str, respond: Respond, key: RSAPrivateKey, bet_id: str = "b1", **options: Any) -> object:
    """Fetch a bet by a client of a kind; return what came of it, an error too."""

    async def fetch(client: AsyncOperatorClient) -> object:
        return await client.fetch_bet(bet_id)

    try:
        return run_over(httpx, kind, respond, fetch, "http://127.0.0.1:1", key, retries=_QUICK, **options)
    except GameOperatorError as failed:
        return failed


@pytest.fixture(params=["sync", "asyncio"])
def kind(request: pytest.FixtureRequest) -> str:
    """Both clients."""
    return str(request.param)


def _found() -> httpx.Response:
    return httpx.Response(200, content=wire(bet()))


def test_a_call_has_a_span_and_each_attempt_has_one_below_it(kind: str, private_key: RSAPrivateKey) -> None:
    """Two failures and an answer: three CLIENT spans of one trace, numbered, with their statuses."""
    observed = Observed()
    respond = _answers(httpx.ConnectError("refused"), httpx.Response(503), _found())
    _fetched(kind, respond, private_key, bet()["reference_id"], telemetry=observed.telemetry)
    call, attempts = observed.span("fetch-bet"), observed.spans(_TEMPLATE)
    assert (call.kind, call.status.status_code) == (SpanKind.INTERNAL, StatusCode.UNSET)
    assert [span.kind for span in attempts] == [SpanKind.CLIENT] * 3
    assert all(span.parent == call.context for span in attempts)
    seen = [dict(span.attributes or {}) for span in attempts]
    assert [each.get("http.response.status_code") for each in seen] == [None, 503, 200]
    assert [each.get("error.type") for each in seen] == ["connection", "503", None]
    assert [each.get("http.request.resend_count") for each in seen] == [None, 1, 2]
    assert [span.status.status_code for span in attempts] == [StatusCode.ERROR, StatusCode.ERROR, StatusCode.UNSET]


def test_each_attempt_is_measured(kind: str, private_key: RSAPrivateKey) -> None:
    """By method, server, template and status, as the semantic conventions name them; in seconds."""
    observed = Observed()
    _fetched(
        kind, _answers(httpx.Response(503), _found()), private_key, bet()["reference_id"], telemetry=observed.telemetry
    )
    common = {
        "http.request.method": "GET",
        "server.address": "127.0.0.1",
        "server.port": 1,
        "url.template": "/api/v0.2/fetch-bet/{bet_id}",
    }
    points = observed.points("http.client.request.duration")
    failed = {"http.response.status_code": 503, "error.type": "503"}
    assert [each for each, _ in points] == [common | failed, common | {"http.response.status_code": 200}]
    assert all(point.count == 1 and 0 < point.sum < 10 for _, point in points)


def test_a_call_that_fails_names_its_error_and_not_its_text(kind: str, private_key: RSAPrivateKey) -> None:
    """What the service says may quote anything; the type says enough."""
    observed = Observed()
    refused = httpx.Response(400, json={"error": "a-text-of-the-service"})
    failed = _fetched(kind, _answers(refused), private_key, telemetry=observed.telemetry)
    call = observed.span("fetch-bet")
    assert call.status.status_code is StatusCode.ERROR
    assert dict(call.attributes or {})["error.type"] == type(failed).__qualname__ == "BadRequestError"
    assert "a-text-of-the-service" not in observed.everything()


@pytest.mark.parametrize("record_ids", [False, True])
def test_ids_are_recorded_if_asked_for(kind: str, private_key: RSAPrivateKey, record_ids: bool) -> None:
    """On spans alone: no metric ever has one."""
    observed = Observed(record_ids=record_ids)
    _fetched(kind, _answers(httpx.Response(404)), private_key, "bet-of-a-player", telemetry=observed.telemetry)
    spans = "\n".join(span.to_json() for span in observed.spans())
    assert ("bet-of-a-player" in spans) is record_ids
    assert observed.everything().count("bet-of-a-player") == spans.count("bet-of-a-player")


def test_no_key_and_no_signature_is_recorded(kind: str, private_key: RSAPrivateKey) -> None:
    """Not even where ids are, and the service echoes the signature."""
    observed, sent = Observed(record_ids=True), []

    def respond(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers["X-Signature"])
        return httpx.Response(401, json={"error": request.headers["X-Signature"]})

    _fetched(kind, respond, private_key, telemetry=observed.telemetry)
    told = observed.everything()
    assert len(sent[0]) > 300
    assert not any(sent[0][at : at + 20] in told for at in range(0, 300, 20))
    assert "PRIVATE" not in told


def test_the_bytes_on_the_wire_are_the_same(kind: str, private_key: RSAPrivateKey) -> None:
    """No header is added for the service's own traces: it is another company's system."""
    seen = []

    def respond(request: httpx.Request) -> httpx.Response:
        seen.append((request.url, request.headers.raw))
        return _found()

    for telemetry in (None, Observed().telemetry):
        _fetched(kind, respond, private_key, telemetry=telemetry)
    assert seen[0] == seen[1]


@pytest.mark.outside
def test_the_instrumentation_of_httpx_counts_nothing_twice(kind: str, private_key: RSAPrivateKey) -> None:
    """With it beside us an attempt has one CLIENT span and one measurement; other calls of httpx still have theirs."""
    observed, seen = Observed(), []

    async def service(scope: Any, receive: Any, send: Any) -> None:
        seen.append(dict(scope["headers"]))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": wire(bet())})

    async def fetched(url: str) -> None:
        async with AsyncOperatorClient(url, "acme", private_key, telemetry=observed.telemetry) as client:
            await client.fetch_bet(bet()["reference_id"])

    instrumentor = HTTPXClientInstrumentor()
    instrumentor.instrument(tracer_provider=observed.tracers, meter_provider=observed.meters)
    try:
        with asgi_server(service) as port:
            url = f"http://127.0.0.1:{port}"
            if kind == "asyncio":
                anyio.run(fetched, url)
            else:
                with OperatorClient(url, "acme", private_key, telemetry=observed.telemetry) as client:
                    client.fetch_bet(bet()["reference_id"])
            assert len([span for span in observed.spans() if span.kind is SpanKind.CLIENT]) == 1
            assert sum(observed.counts("http.client.request.duration").values()) == 1
            httpx.get(url)
    finally:
        instrumentor.uninstrument()
    assert len([span for span in observed.spans() if span.kind is SpanKind.CLIENT]) == 2
    assert [b"traceparent" in headers for headers in seen] == [False, True]


def test_attempts_share_a_correlation_id_and_calls_do_not(kind: str, private_key: RSAPrivateKey) -> None:
    """It is on the call's span and on every exchange, beside the operation."""
    observed, seen = Observed(), list[Exchange]()
    for _ in range(2):
        respond = _answers(httpx.Response(503), _found())
        _fetched(kind, respond, private_key, telemetry=observed.telemetry, on_exchange=seen.append)
    ids = [each.correlation_id for each in seen]
    assert ids[0] == ids[1] != ids[2] == ids[3]
    assert [dict(span.attributes or {})["game_operator.correlation_id"] for span in observed.spans("fetch-bet")] == ids[
        ::2
    ]
    assert {each.operation for each in seen} == {"fetch-bet"}


def test_a_cancelled_call_ends_its_spans(private_key: RSAPrivateKey) -> None:
    """The attempt under way and the call; and what was current is current again."""
    observed = Observed()

    async def never(_request: httpx.Request) -> httpx.Response:
        await anyio.sleep_forever()
        raise AssertionError

    async def scenario(client: AsyncOperatorClient) -> None:
        with anyio.move_on_after(0.05):
            await client.fetch_bet("b1")

    run_over(httpx, "asyncio", never, scenario, "http://127.0.0.1:1", private_key, telemetry=observed.telemetry)
    assert [span.name for span in observed.spans()] == [_TEMPLATE, "fetch-bet"]
    assert all(span.status.status_code is StatusCode.ERROR for span in observed.spans())


@pytest.mark.parametrize("moment", ["start", "end"])
@pytest.mark.parametrize("name", ["fetch-bet", _TEMPLATE])
def test_calls_are_made_although_a_processor_of_the_sdk_raises(
    private_key: RSAPrivateKey, moment: str, name: str
) -> None:
    """And measured."""
    observed = failing(moment, name)
    reference_id = bet()["reference_id"]
    found: Any = _fetched("sync", _answers(_found()), private_key, reference_id, telemetry=observed.telemetry)
    assert found.reference_id == reference_id
    assert sum(observed.counts("http.client.request.duration").values()) == 1
