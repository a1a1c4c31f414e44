"""Commits of the ledger: a span each, linked with its calls, and the money that they moved."""

import asyncio
import sqlite3
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

from game_operator.errors import ApiError, LedgerError, LedgerUnavailableError, UnknownSourceError
from game_operator.ledger import AsyncSqlLedger, SqlLedger, Terms
from game_operator.models.webhooks import WebhookCall
from game_operator.telemetry import webhooks
from game_operator.wallet import JoinedWallet
from testkit.tests.support.reconciling import REPAIR, WALLETS, desk_of, verdicts
from tests.support.calls import claim, deposit, rollback, withdraw
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


def test_calls_of_tasks_that_share_a_commit_keep_their_traces(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same under asyncio."""
    monkeypatch.setattr(webhooks, "_LEAST_WAIT_SECONDS", 0.0001)  # A commit in memory takes about a millisecond.
    observed = Observed()
    tracer = observed.tracers.get_tracer("shop")

    async def apply(ledger: AsyncSqlLedger, number: int) -> None:
        with tracer.start_as_current_span("shop"):
            await ledger.apply(withdraw(f"b{number}"))

    async def scenario() -> None:
        async with AsyncSqlLedger(url, telemetry=observed.telemetry) as ledger:
            await ledger.open_account("p1", Decimal(1000))
            await asyncio.gather(*(apply(ledger, number) for number in range(20)))

    asyncio.run(scenario())
    _check_group(observed, calls=20)


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
        pytest.param([withdraw(amount_cents=10**9)], {}, id="a refusal moves nothing"),
        pytest.param(
            [withdraw(), deposit()],
            {"wagered": {("EUR", "BET"): 500}, "won": {("EUR", "BET"): 1250}},
            id="a win",
        ),
        pytest.param([withdraw(), deposit(amount_cents=0)], {"wagered": {("EUR", "BET"): 500}}, id="a loss"),
        pytest.param([claim()], {"won": {("EUR", "FREE_BET_CLAIM"): 300}}, id="a claim"),
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


def test_money_of_no_known_currency_is_counted_apart(url: str) -> None:
    """As it is in the totals of the ledger."""
    observed = Observed()
    with _opened(url, observed) as ledger:
        ledger.apply(withdraw())
        ledger.apply(withdraw("b2"), terms=_EURO)
    assert observed.sums("game_operator.wagered") == {("unknown", "BET"): 500, ("EUR", "BET"): 500}


def test_an_anomaly_is_counted(url: str) -> None:
    """By its kind: here a deposit that says another amount than the one before."""
    observed = Observed()
    with _opened(url, observed) as ledger:
        for call in (withdraw(), deposit(), deposit(amount_cents=1)):
            outcome = ledger.apply(call)
    assert outcome.anomaly
    assert observed.sums("game_operator.anomalies") == {(outcome.anomaly,): 1}


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


def test_a_database_that_is_away_leaves_the_other_metrics(url: str) -> None:
    """The age is left out then."""
    observed = Observed()
    ledger = _opened(url, observed)
    ledger.apply(withdraw())
    ledger.close()
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.execute("DROP TABLE game_operator_bets")
    else:
        with psycopg.connect(url) as connection_:
            connection_.execute("DROP TABLE game_operator_bets CASCADE")
    assert observed.points("game_operator.bets.oldest_open") == []
    assert observed.sums("game_operator.wagered") == {("unknown", "BET"): 500}


def test_a_ledger_that_is_closed_is_no_success(tmp_path: Any) -> None:
    """The span of the commit that could not begin has the error."""
    observed = Observed()
    ledger = _opened(f"sqlite:///{tmp_path / 'wallet.db'}", observed)
    ledger.close()
    with pytest.raises(LedgerUnavailableError):
        ledger.apply(withdraw())
    assert dict(observed.span("ledger commit").attributes or {})["error.type"] == "LedgerUnavailableError"


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


def test_a_reconciliation_that_fails_says_so(tmp_path: Any) -> None:
    """By the type of the error."""
    observed = Observed()
    with desk_of(WALLETS[0], f"sqlite:///{tmp_path / 'wallet.db'}") as desk:
        desk.play("lose")
        desk.way.instead = [httpx.Response(403, json={"error": "inactive"})]
        with pytest.raises(ApiError):
            desk.reconciler(telemetry=observed.telemetry).run()
    assert observed.span("reconcile run").status.status_code is StatusCode.ERROR


def test_a_call_that_was_answered_before_its_commit_gets_no_link(caplog: pytest.LogCaptureFixture) -> None:
    """A call over its time budget is answered first; the SDK would log a warning for each."""
    observed, waiting = Observed(), []
    for _ in range(2):
        with observed.tracers.get_tracer("shop").start_as_current_span("shop"):
            waiting.append(observed.telemetry.waiting_call())
    observed.telemetry.commit(waiting, "sqlite").end()
    assert caplog.records == []
    assert [span.links for span in observed.spans("shop")] == [(), ()]
    assert len(observed.span("ledger commit").links) == 2


def test_a_joined_call_that_is_not_committed_is_not_counted(tmp_path: Any) -> None:
    """A transaction= that rolls back silently: the wallet finds out, and the money was never moved."""
    observed, url = Observed(), f"sqlite:///{tmp_path / 'wallet.db'}"

    @contextmanager
    def never_commits() -> Iterator[Any]:
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("ROLLBACK")

    with _opened(url, observed) as ledger, pytest.raises(LedgerError, match="not committed"):
        JoinedWallet(ledger, never_commits).withdraw(withdraw())
    assert observed.sums("game_operator.wagered") == {}
    assert observed.span("ledger commit").status.status_code is StatusCode.ERROR


def test_a_call_of_an_unknown_source_is_counted_as_an_anomaly(url: str) -> None:
    """It is kept, for it may be owed; a withdraw is not."""
    observed = Observed()
    with _opened(url, observed) as ledger:
        ledger.apply(withdraw())
        for call in (deposit("b9"), withdraw("b9")):
            with pytest.raises(UnknownSourceError):
                ledger.apply(call, terms=Terms(source="else"))
    assert observed.sums("game_operator.anomalies") == {("unknown_source",): 1}
