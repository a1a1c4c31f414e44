"""A short run in which every metric and every span is made, with all their attributes."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import httpx
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics.export import Metric
from opentelemetry.sdk.trace import ReadableSpan
from prometheus_client import REGISTRY

from game_operator import DepositCall, RetryPolicy, RollbackCall, WithdrawCall
from game_operator.backoffice import Reconciler
from game_operator.errors import ServiceError
from game_operator.ledger import SqlLedger
from game_operator.protocol.webhook import encode_call
from game_operator.telemetry import Telemetry
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookCall, WebhookReceiver, asgi_app
from game_operator.webhooks.adapters import AsgiApp
from game_operator_testkit import InProcessSandbox
from tests.support.observed import Observed
from tests.support.webhooks import signed

_LIMIT_SECONDS, _WAIT_SECONDS = 20.0, 0.05
_QUICK = RetryPolicy(max_retries=1, base_delay_seconds=0.0)


@dataclass(frozen=True)
class MadeMetric:
    """A metric as an SDK collects it."""

    kind: str
    unit: str
    bounds: tuple[float, ...]
    #: The values that each attribute had.
    attributes: Mapping[str, set[object]]


@dataclass(frozen=True)
class ObservedRun:
    """What a run made."""

    metrics: Mapping[str, MadeMetric]
    spans: tuple[ReadableSpan, ...]
    #: The labels of each sample that Prometheus gets, by its name.
    samples: Mapping[str, set[str]]


@contextmanager
def observed_run(folder: Path, key: RSAPrivateKey) -> Iterator[ObservedRun]:
    """Yield what a run made whose provider signs webhooks with *key*; its database is in *folder*."""
    observed = Observed(PrometheusMetricReader(), record_ids=True)
    database = f"sqlite:///{folder / 'wallet.db'}"
    try:
        with SqlLedger(database, patience_seconds=0.1, telemetry=observed.telemetry) as ledger:
            _run(ledger, folder, key)
            metrics = {one.name: _made(one) for one in observed.metrics()}
            yield ObservedRun(metrics, tuple(observed.spans()), _samples())
    finally:
        observed.meters.shutdown()


def _run(ledger: SqlLedger, folder: Path, key: RSAPrivateKey) -> None:
    ledger.open_account("ann", Decimal("100.00"))
    telemetry = ledger.telemetry
    assert telemetry is not None
    receiver = WebhookReceiver(authenticator=RsaSignature(key.public_key()), telemetry=telemetry)
    wallet = Wallet(ledger)

    def post(call: WebhookCall, headers: Mapping[str, str] | None = None) -> None:
        body = encode_call(call)
        receiver.handle(f"/{call.operation}", signed(key, body) if headers is None else headers, body, wallet)

    bet = _bet("b1")
    for call in (bet, bet, DepositCall(player_id="ann", bet_id="b1", amount_cents=1_250), _bet("b2")):
        post(call)
    post(RollbackCall(player_id="ann", bet_id="b2"))
    post(RollbackCall(player_id="ann", bet_id="early"))
    post(_bet("too-much", 999_999))
    post(_bet("forged"), {})
    post(_bet("open"))
    _wait_for_a_commit(ledger, post)
    with closing(sqlite3.connect(folder / "wallet.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        post(_bet("locked-out"))
    _serve(telemetry, asgi_app(receiver, wallet))
    _call(wallet)


def _bet(bet_id: str, cents: int = 500) -> WithdrawCall:
    return WithdrawCall(player_id="ann", bet_id=bet_id, amount_cents=cents, round_id="r1")


def _wait_for_a_commit(ledger: SqlLedger, post: Callable[[WebhookCall], None]) -> None:
    """Let two calls wait while a commit is under way; they share the next one."""
    begun, may_end = threading.Event(), threading.Event()

    def after(_call: object, _outcome: object, _connection: object) -> None:
        begun.set()
        may_end.wait(_LIMIT_SECONDS)

    threads = [threading.Thread(target=lambda: Wallet(ledger, after=after).withdraw(_bet("slow")))]
    threads += [threading.Thread(target=post, args=(_bet(f"waits-{number}"),)) for number in range(2)]
    threads[0].start()
    begun.wait(_LIMIT_SECONDS)
    for thread in threads[1:]:
        thread.start()
    time.sleep(_WAIT_SECONDS)
    may_end.set()
    for thread in threads:
        thread.join(_LIMIT_SECONDS)


def _serve(telemetry: Telemetry, answers: AsgiApp) -> None:
    """Ask an application as `serve` measures it, and one that fails."""

    async def fails(_scope: object, _receive: object, _send: object) -> None:
        raise ConnectionResetError

    async def ask() -> None:
        for application in (answers, fails):
            transport = httpx.ASGITransport(telemetry.measured(application, ["/withdraw"]), raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://wallet") as client:
                await client.post("/withdraw", content=b"{}")

    anyio.run(ask)


def _call(wallet: Wallet) -> None:
    """Make each call of the Operator API, and reconcile bets with a provider that does not know them."""
    assert isinstance(wallet.ledger, SqlLedger)
    telemetry, at_once = wallet.ledger.telemetry, timedelta(0)
    with InProcessSandbox() as provider, provider.client(telemetry=telemetry, retries=_QUICK) as client:
        Reconciler(client, wallet, min_age=at_once, second_look=at_once, telemetry=telemetry).run()
        client.fetch_games()
        client.fetch_round_bets(instance_id=provider.instance_id, round_no=1)
        client.grant_free_bet(
            player_id="ann",
            instance_id=provider.instance_id,
            count=1,
            wager_amount_cents=100,
            expire_duration_millis=60_000,
            reference_id="welcome",
        )
    away = httpx.Client(transport=httpx.MockTransport(lambda _request: httpx.Response(503)))
    with provider.client(telemetry=telemetry, retries=_QUICK, http_client=away) as client, suppress(ServiceError):
        client.fetch_bet("b1")


def _made(metric: Metric) -> MadeMetric:
    points: list[Any] = list(metric.data.data_points)  # Any: each kind has a class.
    kind = {"Sum": "counter"}.get(type(metric.data).__name__, type(metric.data).__name__.lower())
    attributes: dict[str, set[object]] = {}
    for point in points:
        for name, value in point.attributes.items():
            attributes.setdefault(name, set()).add(value)
    return MadeMetric(kind, metric.unit or "", tuple(getattr(points[0], "explicit_bounds", ())), attributes)


def _samples() -> dict[str, set[str]]:
    samples: dict[str, set[str]] = {}
    for family in REGISTRY.collect():
        for sample in family.samples:
            samples.setdefault(sample.name, set()).update(sample.labels)
    return samples
