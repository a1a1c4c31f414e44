"""Commits of the ledger: a span each, linked with its calls, and the money that they moved."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from decimal import Decimal
from functools import partial
from typing import Any

import httpx
import psycopg
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from game_operator.ledger import SqlLedger, Terms
from game_operator.models.webhooks import WebhookCall
from game_operator.wallet import JoinedWallet
from testkit.tests.support.reconciling import REPAIR, WALLETS, desk_of, verdicts
from tests.support.calls import deposit, rollback, withdraw
from tests.support.joined_wallets import of_sqlite3
from tests.support.observed import Observed

_EURO = Terms(currency_of=lambda _: "EUR")


def _opened(url: str, observed: Observed, **options: Any) -> SqlLedger:
    ledger = SqlLedger(url, telemetry=observed.telemetry, **options)
    ledger.open_account("p1", Decimal(1000))
    return ledger


def _linked(commits: list[ReadableSpan]) -> Counter[int]:
    """Return how many of *commits* link to each span."""
    return Counter(link.context.span_id for commit in commits for link in commit.links)


def test_a_lone_call_has_its_commit_in_its_trace(url: str) -> None:
    """As a CLIENT span below what was current, linked to it, and measured by the conventions' names."""
    observed = Observed()
    with _opened(url, observed) as ledger, observed.tracers.get_tracer("shop").start_as_current_span("shop") as shop:
        ledger.apply(withdraw())
    commit = observed.span("ledger commit")
    assert (commit.kind, commit.parent) == (SpanKind.CLIENT, shop.get_span_context())
    assert [link.context for link in commit.links] == [shop.get_span_context()]
    system = {"db.system.name": "sqlite" if url.startswith("sqlite") else "postgresql", "db.operation.name": "commit"}
    assert dict(commit.attributes or {}) == system
    ((measured, point),) = observed.points("db.client.operation.duration")
    assert (measured, point.count) == (system, 1)
    assert observed.counts("game_operator.ledger.batch.size") == {(): 1}


def test_calls_of_threads_that_share_a_commit_keep_their_traces(url: str) -> None:
    """The first is committed while the others come; each is linked to its one commit, and finds the way there."""
    observed, come = Observed(), threading.Event()
    tracer = observed.tracers.get_tracer("shop")

    def may_bet(*_: Any) -> None:
        come.wait(5)
        time.sleep(0.05)

    def apply(number: int) -> None:
        with tracer.start_as_current_span("shop"):
            if number == 7:
                come.set()
            ledger.apply(withdraw(f"b{number}"), terms=Terms(may_bet=may_bet if number == 0 else None))

    with _opened(url, observed) as ledger, ThreadPoolExecutor(8) as pool:
        first = pool.submit(apply, 0)
        time.sleep(0.05)
        list(pool.map(apply, range(1, 8)))
        first.result()
    _check_group(observed, calls=8)


def _check_group(observed: Observed, *, calls: int) -> None:
    made, shops = observed.spans("ledger commit"), observed.spans("shop")
    assert len(made) < calls == len(shops)
    assert len({span.context.trace_id for span in shops}) == calls
    assert _linked(made) == {span.context.span_id: 1 for span in shops}
    by_id = {commit.context.span_id: commit for commit in made}
    for shop in shops:
        (home,) = [commit for commit in made if shop.context.span_id in _linked([commit])]
        is_first = home.parent == shop.context
        assert [by_id[link.context.span_id] for link in shop.links] == ([] if is_first else [home])
    sizes: list[Any] = [dict(commit.attributes or {}).get("db.operation.batch.size", 1) for commit in made]
    ((_, point),) = observed.points("game_operator.ledger.batch.size")
    assert (point.sum, point.count, point.max) == (calls, len(made), max(sizes))
    assert calls >= sum(observed.counts("game_operator.ledger.wait").values()) > 0


def test_a_commit_that_fails_says_so(url: str) -> None:
    """By the type of the error; nothing is counted as moved."""
    observed = Observed()

    def may_bet(*_: Any) -> None:
        raise ValueError("a-secret-of-the-operator")

    with _opened(url, observed) as ledger, pytest.raises(ValueError, match="a-secret"):
        ledger.apply(withdraw(), terms=Terms(may_bet=may_bet))
    commit = observed.spans("ledger commit")[-1]
    assert commit.status.status_code is StatusCode.ERROR
    assert dict(commit.attributes or {})["error.type"] == "ValueError"
    assert observed.sums("game_operator.wagered") == {}
    assert "a-secret" not in observed.everything()


@pytest.mark.parametrize(
    ("calls", "moved"),
    [
        pytest.param([withdraw()], {"wagered": {("EUR", "BET"): 500}}, id="a wager"),
        pytest.param([withdraw(), withdraw()], {"wagered": {("EUR", "BET"): 500}}, id="a repeat moves nothing"),
        pytest.param(
            [withdraw(), deposit()],
            {"wagered": {("EUR", "BET"): 500}, "won": {("EUR", "BET"): 1250}},
            id="a win",
        ),
        pytest.param(
            [withdraw(), rollback()],
            {"wagered": {("EUR", "BET"): 500}, "refunded": {("EUR",): 500}},
            id="a refund, by what was taken",
        ),
    ],
)
def test_money_is_counted_once_it_is_committed(
    url: str, calls: list[WebhookCall], moved: dict[str, dict[tuple[str, ...], int]]
) -> None:
    """In cents by currency and action; no float is added up (spec §3, §8)."""
    observed = Observed()
    with _opened(url, observed) as ledger:
        for call in calls:
            ledger.apply(call, terms=_EURO)
    found = {name: observed.sums(f"game_operator.{name}") for name in ("wagered", "won", "refunded")}
    assert {name: sums for name, sums in found.items() if sums} == moved
    assert all(type(value) is int for sums in found.values() for value in sums.values())


def test_a_joined_call_has_the_commit_of_its_transaction(url: str) -> None:
    """A JoinedWallet counts what it has committed; a transaction that is undone counts for nothing."""
    observed, failing = Observed(), [True, False]

    def after(_call: Any, _outcome: Any, _connection: Any) -> None:
        if failing.pop(0):
            raise ValueError("of the operator")

    transaction: Any = partial(of_sqlite3, url) if url.startswith("sqlite") else partial(_of_psycopg, url)
    with _opened(url, observed) as ledger:
        wallet = JoinedWallet(ledger, transaction, after, currency_of=lambda _: "EUR")
        with pytest.raises(ValueError, match="of the operator"):
            wallet.withdraw(withdraw())
        assert observed.sums("game_operator.wagered") == {}
        wallet.withdraw(withdraw())
    failed, committed = observed.spans("ledger commit")
    assert [failed.status.status_code, committed.status.status_code] == [StatusCode.ERROR, StatusCode.UNSET]
    assert observed.sums("game_operator.wagered") == {("EUR", "BET"): 500}


@contextmanager
def _of_psycopg(url: str) -> Iterator[Any]:
    with closing(psycopg.connect(url)) as connection, connection:
        yield connection


def test_the_age_of_the_oldest_open_bet_is_measured(url: str) -> None:
    """Whenever metrics are collected, and over a connection beside the ledger's; 0 once all bets are settled."""
    observed = Observed()

    def age() -> float:
        ((_, point),) = observed.points("game_operator.bets.oldest_open")
        return float(point.value)

    with _opened(url, observed) as ledger:
        assert age() == 0
        ledger.apply(withdraw())
        time.sleep(0.02)
        assert 0 < age() < 60
        ledger.apply(deposit())
        assert age() == 0


@pytest.mark.parametrize("kind", [WALLETS[0], WALLETS[4]], ids=str)
def test_a_reconciliation_has_a_span_with_its_calls_and_counts_its_findings(kind: Any, tmp_path: Any) -> None:
    """A settlement that was lost is settled, and counted as won; a difference is a finding, counted once."""
    observed = Observed()
    with desk_of(kind, f"sqlite:///{tmp_path / 'wallet.db'}", telemetry=observed.telemetry) as desk:
        desk.play("lose")
        lost = desk.play("lose")
        desk.deposit(lost, 1)
        assert observed.sums("game_operator.won") == {("unknown", "BET"): 1}
        client = desk.sandbox.client(http_client=httpx.Client(transport=desk.way), telemetry=observed.telemetry)
        report = desk.reconciler(client=client, telemetry=observed.telemetry).run(**REPAIR)
        desk.reconciler(client=client, telemetry=observed.telemetry).run_some()
        found = Counter(verdicts(report).values())
    assert found == {"settled": 1, "amount_differs": 1}
    runs = observed.spans("reconcile run")
    assert [run.status.status_code for run in runs] == [StatusCode.UNSET] * 2
    assert {call.parent.span_id for call in observed.spans("fetch-bet") if call.parent} == {
        run.context.span_id for run in runs
    }
    assert observed.sums("game_operator.won") == {("unknown", "BET"): 1 + 1250}
    assert observed.sums("game_operator.reconcile.findings") == {("amount_differs",): 2}
