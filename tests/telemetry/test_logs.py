"""Log records: each has a stable event name, and structured logging takes its fields."""

import ast
import re
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.webhooks import RsaSignature, WebhookReceiver
from tests.support.sources import sources
from tests.support.webhooks import WITHDRAW, Handler, encoded, signed

_METHODS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
_LOGGERS = re.compile(r"\b(_log|log|_refusals)\.", re.IGNORECASE)


def _log_calls() -> Iterator[tuple[str, ast.Call]]:
    """Yield where each of our modules logs, and how."""
    for file in sources().values():
        text = file.read_text()
        for node in ast.walk(ast.parse(text)) if _LOGGERS.search(text) else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
                logger = node.func.value
                if isinstance(logger, ast.Name) and _LOGGERS.fullmatch(f"{logger.id}."):
                    yield f"{file.name}:{node.lineno}", node


def test_every_record_has_fields() -> None:
    """A line of the log that is added without an event name is found here."""
    calls = list(_log_calls())
    assert len(calls) > 20
    assert [where for where, call in calls if not any(each.arg == "extra" for each in call.keywords)] == []


@pytest.mark.parametrize(
    ("body", "options", "event"),
    [
        pytest.param({}, {}, "webhook.refused", id="refused by the receiver"),
        pytest.param(WITHDRAW, {"on_call": lambda _: 1 / 0}, "webhook.on_call_raised", id="on_call raises"),
        pytest.param(WITHDRAW, {"warn_seconds": 1e-9}, "webhook.slow", id="slow"),
    ],
)
def test_events_of_a_webhook(
    private_key: RSAPrivateKey, caplog: pytest.LogCaptureFixture, body: Any, options: Any, event: str
) -> None:
    """By names that stay, beside texts that may change."""
    raw = encoded(body)
    receiver = WebhookReceiver(authenticator=RsaSignature(private_key.public_key()), **options)
    receiver.handle("/withdraw", signed(private_key, raw), raw, Handler())
    assert [vars(record)["event"] for record in caplog.records] == [event]
