"""
Traces and metrics by OpenTelemetry (extra ``otel``); nothing else here knows it, and nothing imports this unasked.

A ``Telemetry`` is passed to a client, a receiver, a ledger or a reconciler. Ids of players, bets and transactions are
in no metric, and on a span only with ``record_ids``. Names and units are those of docs/reference/metrics.md.
"""

try:
    import opentelemetry.context  # noqa: F401 - asked for here, so that the error says what to install
except ModuleNotFoundError as missing:
    raise ImportError(
        "game_operator.telemetry needs opentelemetry-api. Install the extra: pip install 'game-operator[otel]'",
        name=missing.name,
    ) from missing

from game_operator.telemetry.telemetry import Telemetry

__all__ = ["Telemetry"]
