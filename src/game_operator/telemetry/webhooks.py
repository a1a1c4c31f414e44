"""The span of one webhook, and what is counted of its calls."""

import time
from typing import Final

from opentelemetry import context as contexts
from opentelemetry import trace

from game_operator.models.webhooks import WebhookCall
from game_operator.telemetry.recorder import Recorder
from game_operator.telemetry.sdk import begin, end

__all__ = ["WEBHOOK", "WebhookSpan"]

_IDS: Final = ("player_id", "bet_id", "round_id", "tx_id")
WEBHOOK: Final = contexts.create_key("game_operator.webhook")


class WebhookSpan:
    """The span of one webhook, current from its making to its ``end``, and what is counted of the call."""

    __slots__ = ("_attributes", "_began", "_operation", "_span", "_telemetry", "_token", "repeats")

    def __init__(self, telemetry: Recorder, operation: str, correlation_id: str) -> None:
        self._telemetry, self._operation = telemetry, operation
        #: The calls that the ledger knew already; a ledger without telemetry does not say.
        self.repeats: list[WebhookCall] = []
        self._attributes: dict[str, str] = {"game_operator.correlation_id": correlation_id}
        self._span = begin(telemetry.tracer, f"webhook {operation}" if operation else "webhook")
        context = contexts.set_value(WEBHOOK, self, trace.set_span_in_context(self._span))
        self._token = contexts.attach(context)
        self._began = time.perf_counter()

    def note(self, operation: str, outcome: str, code: str | None, call: WebhookCall | None, anomaly: str) -> None:
        """Count a call of the webhook, which ended with *outcome*: success, declined, refused or failed."""
        if outcome == "success" and any(call is each for each in self.repeats):
            outcome = "repeat"
        self._telemetry.instruments.calls.add(1, operation, outcome, code or "")
        if outcome == "refused" and code == "INVALID_SIGNATURE":
            self._telemetry.instruments.signature_failures.add(1, operation)
        if anomaly:
            self._telemetry.instruments.anomalies.add(1, anomaly)
        if operation != self._operation:  # A deposit of a batch: the span is the batch's.
            return
        self._attributes["game_operator.outcome"] = outcome
        if code is not None:
            self._attributes["game_operator.code"] = code
        if self._telemetry.record_ids:
            ids = {f"game_operator.{name}": getattr(call, name, None) for name in _IDS}
            self._attributes |= {name: value for name, value in ids.items() if value is not None}

    def end(self) -> None:
        """End the span and measure the webhook."""
        contexts.detach(self._token)
        attributes = self._attributes
        measured = {"game_operator.operation": self._operation} if self._operation else {}
        if "game_operator.outcome" in attributes:
            measured["game_operator.outcome"] = attributes["game_operator.outcome"]
        self._telemetry.instruments.webhook_seconds.record(time.perf_counter() - self._began, measured)
        if self._span.is_recording():
            self._span.set_attributes({**measured, **attributes})
        if measured.get("game_operator.outcome") == "failed":
            self._span.set_attribute("error.type", attributes.get("game_operator.code", "failed"))
            self._span.set_status(trace.StatusCode.ERROR)
        end(self._span)
