"""What an answer may mean is said on the page of the call."""

from dataclasses import replace
from typing import Any

import httpx
import pytest

from game_operator.errors import RequestNotSentError, TransportError
from game_operator_testkit import DeliveryInDoubtError
from game_operator_testkit.control_room.outcomes import unreachable_wallet
from game_operator_testkit.sandbox import Sandbox
from game_operator_testkit.sandbox.service.exchange_log import Exchange
from testkit.tests.control_room.support import page
from testkit.tests.sandbox.support import exchange

pytestmark = pytest.mark.outside

PREFIX = "is a prefix such as /wallet missing?"
INSTANCES = "A receiver that was given instances= refuses all game instances but its own: "
FAILED = "Your wallet failed: look into its log."


def answered(status: int | None, body: bytes, direction: str = "webhook") -> Exchange:
    """Return a withdraw that was answered so."""
    return exchange(status=status, response_body=body, direction=direction)


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        pytest.param(answered(404, b"<html>"), PREFIX, id="not found"),
        pytest.param(answered(499, b""), "The body cannot be read as a reply: ", id="the last before the errors"),
        pytest.param(answered(500, b"oops"), FAILED, id="an error"),
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
def test_what_an_answer_means(sandbox: Sandbox, http: httpx.Client, answer: Exchange, hint: str | None) -> None:
    """The reason why it is no reply, and the hint that fits its status; nothing of one that speaks for itself."""
    html = page(http, f"/live/{sandbox.live.record(answer).number}")
    assert ("problem" in html.values("class")) == (hint is not None)
    assert hint is None or hint in html.text
    assert hint is PREFIX or PREFIX not in html.text


@pytest.mark.parametrize(
    ("signature", "sentences"),
    [
        ("valid", "does not accept the signature of this call, so no money moved. The wallet does not know the key "),
        ("forged", "The wallet refuses the wrong signature of this call, as it must, so no money moved."),
    ],
)
def test_a_refused_signature(sandbox: Sandbox, http: httpx.Client, signature: Any, sentences: str) -> None:
    """One paragraph: what happened, and why if the signature was right. A wrong one is no problem of the wallet."""
    refused = replace(answered(200, b'{"type":"ERROR","code":"INVALID_SIGNATURE"}'), signature=signature)
    html = page(http, f"/live/{sandbox.live.record(refused).number}")
    assert sentences in html.text
    assert ("problem banner" in html.values("class")) == (signature == "valid")
    assert (html.source.count('<a href="/keys">See the keys') == 1) == (signature == "valid")
    assert ("signed right" in html.text) == (signature == "valid")
    assert html.text.count("signature of this call") == 1


def test_a_call_without_an_answer(sandbox: Sandbox, http: httpx.Client) -> None:
    """It was not answered in any time, and a sentence ends once; an answered call tells how long it took."""
    lost = replace(answered(None, b""), note="the wallet must change nothing twice.", elapsed_ms=9.15)
    text = page(http, f"/live/{sandbox.live.record(lost).number}").text
    assert "UTC, and not answered within 9.15 ms." in text
    assert "There was none: the wallet must change nothing twice. As a curl line" in text.replace(" Copy", "")
    assert "answered in" not in text
    told = replace(answered(200, b"{}"), elapsed_ms=9.15)
    assert "UTC, answered in 9.15 ms." in page(http, f"/live/{sandbox.live.record(told).number}").text


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(
            RequestNotSentError("127.0.0.1:9 cannot be reached: connection refused"),
            "Nobody answers at 127.0.0.1:9, so the call was not sent (127.0.0.1:9 cannot be reached: connection "
            "refused). Is the wallet running?",
            id="not sent",
        ),
        pytest.param(
            DeliveryInDoubtError("no answer", elapsed_seconds=59.7, timed_out=True),
            "The wallet at 127.0.0.1:9 gave no answer within 60 s. Look into its log.",
            id="too late",
        ),
        pytest.param(
            # Its words decide nothing.
            DeliveryInDoubtError("the proxy said: connection refused", elapsed_seconds=1),
            "The wallet cannot be reached. the proxy said: connection refused",
            id="in doubt",
        ),
    ],
)
def test_why_a_wallet_gave_no_answer(own: Sandbox, error: TransportError, said: str) -> None:
    """The kind of the error decides what to look at, and not its words."""
    own.wallet_url = "http://127.0.0.1:9/wallet"
    assert unreachable_wallet(own, error).startswith(said)
