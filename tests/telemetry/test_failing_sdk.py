"""A processor of the SDK that raises: calls are answered, money moves once and is counted all the same."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from opentelemetry.sdk.trace import SpanProcessor

from game_operator import OperatorClient
from game_operator.ledger import SqlLedger
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver
from tests.support.observed import Observed
from tests.support.webhooks import WITHDRAW, encoded, signed
from tests.support.wire import bet, wire


class _Failing(SpanProcessor):
    """Raises when a span of a name starts, or ends."""

    def __init__(self, moment: str, name: str) -> None:
        self._moment, self._name = moment, name

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self._fail("start", span)

    def on_end(self, span: Any) -> None:
        self._fail("end", span)

    def _fail(self, moment: str, span: Any) -> None:
        if (moment, span.name) == (self._moment, self._name):
            raise RuntimeError("of the SDK")


def _failing(moment: str, name: str) -> Observed:
    observed = Observed()
    observed.tracers.add_span_processor(_Failing(moment, name))
    return observed


@pytest.mark.parametrize("moment", ["start", "end"])
@pytest.mark.parametrize("name", ["webhook withdraw", "ledger commit"])
def test_webhooks_are_answered(tmp_path: Path, private_key: RSAPrivateKey, moment: str, name: str) -> None:
    """The first with SUCCESS, and so is its repeat; the wager is counted once."""
    observed, raw = _failing(moment, name), encoded(WITHDRAW)
    receiver = WebhookReceiver(authenticator=RsaSignature(private_key.public_key()), telemetry=observed.telemetry)
    with SqlLedger(f"sqlite:///{tmp_path / 'wallet.db'}", telemetry=observed.telemetry) as ledger:
        ledger.open_account("p1", Decimal(1000))
        replies = [receiver.handle("/withdraw", signed(private_key, raw), raw, Wallet(ledger)) for _ in range(2)]
    assert [b'"SUCCESS"' in reply.body for reply in replies] == [True, True]
    assert observed.sums("game_operator.wagered") == {("unknown", "BET"): 5000}


@pytest.mark.parametrize("moment", ["start", "end"])
@pytest.mark.parametrize("name", ["fetch-bet", "GET /api/v0.2/fetch-bet/{bet_id}"])
def test_calls_are_made(private_key: RSAPrivateKey, moment: str, name: str) -> None:
    """And measured."""
    observed = _failing(moment, name)
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=wire(bet())))
    with httpx.Client(transport=transport) as http:
        client = OperatorClient(
            "http://127.0.0.1:1", "acme", private_key, http_client=http, telemetry=observed.telemetry
        )
        assert client.fetch_bet(bet()["reference_id"]).status
    assert sum(observed.counts("http.client.request.duration").values()) == 1
