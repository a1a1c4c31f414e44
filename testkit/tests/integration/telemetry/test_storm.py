"""A storm with every fault, observed: metrics and spans agree with the books."""

import logging
from collections import Counter
from typing import Any, cast

import pytest

from game_operator.ledger import SqlLedger
from game_operator.wallet import Wallet
from game_operator.webhooks import HandledCall, HmacSignature, WebhookReceiver
from game_operator_testkit.provider.keys import ServiceKeys
from game_operator_testkit.sandbox.storm.players import LedgerBooks
from game_operator_testkit.sandbox.storm.storm import Storm
from testkit.tests.sandbox.dealing import SECRETS, InProcess
from testkit.tests.sandbox.storming import head_of
from tests.support.observed import Observed


@pytest.mark.slow
@pytest.mark.drawn(1)
def test_metrics_of_a_storm_are_the_totals_of_the_ledger(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """300 bets, sixteen calls at once: no cent is missing, and every call has the span of its commit."""
    caplog.set_level(logging.CRITICAL, "game_operator")  # Thousands of refusals.
    observed, handled = Observed(), list[HandledCall]()
    head = head_of(bets=300, faults="all", players=40)
    with SqlLedger(url, telemetry=observed.telemetry) as ledger:
        wallet = Wallet(ledger, currency_of=lambda _: "EUR")
        courier = InProcess(opening=head.opening, handler=lambda _: wallet, in_threads=True)
        courier.receiver = WebhookReceiver(
            authenticator=HmacSignature(SECRETS[None]),
            telemetry=observed.telemetry,
            on_call=handled.append,
            budget_seconds=1_000,
        )
        keys = cast("ServiceKeys", courier.keys)
        storm = Storm("http://127.0.0.1:1", keys, LedgerBooks(url), head, concurrency=16, courier=courier.post)
        assert storm.run().passed
        _check_money(observed, ledger)
    _check_calls(observed, handled)
    _check_links(observed)


def _check_money(observed: Observed, ledger: SqlLedger) -> None:
    (total,) = [row for row in ledger.totals().by_currency() if row.currency == "EUR"]
    counted = {name: sum(observed.sums(f"game_operator.{name}").values()) for name in ("wagered", "won", "refunded")}
    assert counted == {
        "wagered": total.wagers_cents + total.rain_cents,
        "won": total.wins_cents + total.free_bets_cents + total.jackpots_cents + total.claims_cents,
        "refunded": total.refunds_cents + total.rain_refunds_cents,
    }
    assert all(counted.values())
    anomalies = observed.sums("game_operator.anomalies")
    assert {kind for (kind,) in anomalies} == {each.kind for each in ledger.anomalies(resolved=None)}


def _check_calls(observed: Observed, handled: list[HandledCall]) -> None:
    by_code: Counter[tuple[str, str | None]] = Counter((each.operation, each.code) for each in handled)
    counted: Counter[tuple[str, str | None]] = Counter()
    for attributes, point in observed.points("game_operator.webhook.calls"):
        counted[attributes["game_operator.operation"], attributes.get("game_operator.code")] += point.value
    assert counted == by_code
    outcomes = {attributes["game_operator.outcome"] for attributes, _ in observed.points("game_operator.webhook.calls")}
    assert outcomes >= {"success", "repeat", "declined", "refused"}
    assert sum(observed.counts("game_operator.webhook.duration").values()) == len(handled)
    forged = sum(observed.sums("game_operator.signature.failures").values())
    assert forged == sum(each.code == "INVALID_SIGNATURE" for each in handled) > 0


def _check_links(observed: Observed) -> None:
    """Each webhook that reached the ledger is linked by one commit, and all others by none."""
    linked = Counter(link.context.span_id for commit in observed.spans("ledger commit") for link in commit.links)
    outcome_of: dict[int, Any] = {
        span.context.span_id: dict(span.attributes or {}).get("game_operator.outcome")
        for span in observed.spans()
        if span.name.startswith("webhook")
    }
    assert set(linked) <= set(outcome_of)
    assert set(linked.values()) == {1}
    reached = {span_id for span_id, outcome in outcome_of.items() if outcome in ("success", "repeat", "declined")}
    assert set(linked) == reached
    ((_, sizes),) = observed.points("game_operator.ledger.batch.size")
    assert sizes.sum == len(reached)
    assert sizes.max > 1
    traces = Counter(span.context.trace_id for span in observed.spans() if span.name.startswith("webhook"))
    assert set(traces.values()) == {1}
