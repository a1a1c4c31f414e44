"""What an answer may mean is said on the page of the call."""

from dataclasses import replace

import httpx
import pytest

from game_operator.sandbox import Sandbox
from game_operator.sandbox.service.exchange_log import Exchange
from tests.control_room.support import page

pytestmark = pytest.mark.outside

PREFIX = "is a prefix such as /wallet missing?"
INSTANCES = "A receiver that was given instances= refuses all game instances but its own: "
FAILED = "Your wallet failed: look into its log."


def answered(status: int | None, body: bytes, direction: str = "webhook") -> Exchange:
    """Return a withdraw that was answered so."""
    return Exchange(
        at_millis=0,
        direction="api" if direction == "api" else "webhook",
        method="POST",
        path="/withdraw",
        request_headers=(),
        request_body=b"{}",
        signature="valid",
        status=status,
        response_body=body,
    )


@pytest.mark.parametrize(
    ("exchange", "hint"),
    [
        pytest.param(answered(404, b"<html>"), PREFIX, id="not found"),
        pytest.param(answered(405, b""), PREFIX, id="method not allowed"),
        pytest.param(answered(499, b""), "The body cannot be read as a reply: ", id="the last before the errors"),
        pytest.param(answered(500, b"oops"), FAILED, id="an error"),
        pytest.param(answered(503, b""), FAILED, id="another error"),
        pytest.param(answered(301, b""), "The service follows no redirect", id="a redirect"),
        pytest.param(
            answered(200, b'{"type":"OK"}'), "a reply's type must be SUCCESS or ERROR, not 'OK'.", id="another type"
        ),
        pytest.param(
            answered(200, b'{"type":"SUCCESS","balance":"1.00","timestamp":1}'),
            "a balance must be a number in currency units, not '1.00'.",
            id="a balance in quotes",
        ),
        pytest.param(answered(200, b'{"type":"ERROR","code":"INVALID_REQUEST"}'), INSTANCES, id="its instances"),
        pytest.param(answered(404, b'{"type":"ERROR","code":"INVALID_REQUEST"}'), PREFIX, id="our receiver, elsewhere"),
        pytest.param(answered(200, b'{"type":"ERROR","code":"PLAYER_BLOCKED"}'), None, id="another refusal"),
        pytest.param(answered(200, b'{"type":"SUCCESS","balance":1,"timestamp":1}'), None, id="success"),
        pytest.param(answered(500, b'{"type":"ERROR","code":"SYSTEM_ERROR"}'), None, id="a reply all the same"),
        pytest.param(answered(None, b""), None, id="no answer"),
        pytest.param(answered(404, b"{}", "api"), None, id="an answer of the Operator API"),
    ],
)
def test_what_an_answer_means(sandbox: Sandbox, http: httpx.Client, exchange: Exchange, hint: str | None) -> None:
    """The reason why it is no reply, and the hint that fits its status; nothing of one that speaks for itself."""
    html = page(http, f"/live/{sandbox.live.record(exchange).number}")
    assert ("problem" in html.values("class")) == (hint is not None)
    assert hint is None or hint in html.text
    assert hint is PREFIX or PREFIX not in html.text


def test_a_call_without_an_answer(sandbox: Sandbox, http: httpx.Client) -> None:
    """It was not answered in any time, and a sentence ends once; an answered call tells how long it took."""
    lost = replace(answered(None, b""), note="the wallet must change nothing twice.", elapsed_ms=9.15)
    text = page(http, f"/live/{sandbox.live.record(lost).number}").text
    assert "UTC, and not answered within 9.15 ms." in text
    assert "There was none: the wallet must change nothing twice. As a curl line" in text.replace(" Copy", "")
    assert "answered in" not in text
    told = replace(answered(200, b"{}"), elapsed_ms=9.15)
    assert "UTC, answered in 9.15 ms." in page(http, f"/live/{sandbox.live.record(told).number}").text
