"""Anomalies, their retry, and histories: what staff looks into (spec §3; docs/reference/tables.md)."""

import re
from dataclasses import replace
from decimal import Decimal
from inspect import getsource
from unittest.mock import Mock

import pytest

from game_operator.codes import BetState
from game_operator.errors import AccountNotFoundError, RetryRefusedError
from game_operator.ledger import AnomalyRecord, SqlLedger, Terms
from game_operator.ledger.books import verify
from game_operator.ledger.engine.tables import toml_texts
from game_operator.ledger.rules import decide
from game_operator.ledger.staff.anomalies import anomaly_texts
from game_operator.protocol.webhook import encode_call
from game_operator.wallet import Wallet
from game_operator.webhooks import WebhookReceiver, gate
from tests.support.calls import claim, deposit, rollback, with_body, withdraw
from tests.support.documents import ROOT
from tests.support.ledgers import funded

pytestmark = [pytest.mark.drawn(6, database_url=("postgres",))]

TERMS = Terms(source="s")


def kinds(ledger: SqlLedger, **wanted: object) -> list[str]:
    """Return the kinds of the anomalies wanted."""
    return [record.kind for record in ledger.anomalies(**wanted)]  # type: ignore[arg-type]  # Whatever a test asks for.


def test_what_a_record_says(database_url: str) -> None:
    """The call, its body, when it came first and last, and how often."""
    call = with_body(deposit("early"))
    with funded(database_url, 100, "p2") as ledger:
        outcomes = [ledger.apply(call, terms=TERMS) for _ in range(3)]
        (record,) = ledger.anomalies()
    assert record == AnomalyRecord(
        id=record.id,
        source="s",
        kind="early_deposit",
        code="BET_NOT_FOUND",
        operation="deposit",
        tx_id="deposit:bet:early",
        bet_id="early",
        player_id="p1",
        body=call.body,
        first_at_millis=outcomes[0].at_millis,
        last_at_millis=outcomes[2].at_millis,
        seen=3,
        resolved_at_millis=None,
    )


def test_the_receivers_hook(database_url: str) -> None:
    """What cannot be read, or belongs to another operator, is kept with its source; a repeat is counted."""
    receiver = WebhookReceiver(authenticator=Mock(), instances={"ours"})
    foreign = encode_call(claim(instance_id="theirs"))
    with funded(database_url, 100, "p2") as ledger:
        wallet = Wallet(ledger, source="s")
        for path, body in (("/deposit", b"{"), ("/deposit", foreign), ("/deposit", b"{"), ("/withdraw", b"{")):
            receiver.handle(path, {}, body, wallet)
        records = [(each.source, each.kind, each.code, each.body, each.seen) for each in ledger.anomalies()]
    assert records == [
        ("s", "unreadable", "INVALID_REQUEST", b"{", 2),
        ("s", "foreign_instance", "INVALID_REQUEST", foreign, 1),
    ]


def test_a_retry_that_is_answered_success(database_url: str) -> None:
    """A deposit that came before its withdraw is credited once, and its anomaly resolved."""
    with funded(database_url, 100, "p2") as ledger:
        ledger.apply(with_body(deposit("b1")), terms=TERMS)
        ledger.apply(with_body(withdraw("b1")), terms=TERMS)
        (record,) = ledger.anomalies()
        outcome = ledger.retry(record.id)
        assert (outcome.code, outcome.applied, outcome.balance_cents) == (None, True, 10_750)
        assert list(ledger.anomalies()) == []
        (resolved,) = ledger.anomalies(resolved=True)
        assert (resolved.id, resolved.resolved_at_millis is not None) == (record.id, True)
        with pytest.raises(RetryRefusedError, match="is resolved"):
            ledger.retry(record.id)
        bet = ledger.bet("b1", source="s")
        assert bet is not None
        assert bet.state is BetState.CLOSED
        assert ledger.verify().sound


@pytest.mark.parametrize(
    ("operation", "kind", "body", "problem"),
    [
        pytest.param("withdraw", "second_withdraw", encode_call(withdraw()), "would debit now", id="a withdraw"),
        pytest.param("deposit", "unreadable", b"{", "cannot be read", id="no JSON"),
        pytest.param("rollback", "unreadable", b"{}", "player_id", id="no player"),
        pytest.param("deposit-batch", "unreadable", b"[{}]", "not a single deposit", id="a batch"),
        pytest.param("deposit", "foreign_instance", encode_call(claim()), "another operator", id="not ours"),
    ],
)
def test_what_cannot_be_retried(sqlite_url: str, operation: str, kind: str, body: bytes, problem: str) -> None:
    """It says why and what to do instead; nothing moves, and the anomaly stays."""
    with funded(sqlite_url, 100, "p2") as ledger:
        ledger.keep_anomaly(operation, kind, body)
        (record,) = ledger.anomalies()
        with pytest.raises(RetryRefusedError, match=problem):
            ledger.retry(record.id)
        assert kinds(ledger) == [kind]
        assert ledger.balance("p1") == 10_000


def test_an_anomaly_that_is_not_there(sqlite_url: str) -> None:
    """Neither retried nor resolved."""
    with funded(sqlite_url, 100, "p2") as ledger:
        for anomaly_id in (0, 7, -1):
            with pytest.raises(RetryRefusedError, match=f"no anomaly {anomaly_id}"):
                ledger.retry(anomaly_id)
            with pytest.raises(RetryRefusedError, match=f"no anomaly {anomaly_id}"):
                ledger.resolve(anomaly_id)


def test_the_history_of_a_bet(database_url: str) -> None:
    """The bet, its calls, claims that name it, its movements and its anomalies, each in order; and no other's."""
    with funded(database_url, 100, "p2") as ledger:
        early = ledger.apply(with_body(deposit("b1")), terms=TERMS)
        for call in (
            withdraw("b1"),
            claim("c1", bet_id="b1"),
            deposit("b1"),
            withdraw("b2"),
            deposit("b1", amount_cents=1),
        ):
            ledger.apply(with_body(call), terms=TERMS)
        ledger.add_source("t")
        ledger.apply(with_body(withdraw("b1", "p2")), terms=replace(TERMS, source="t"))
        history = ledger.history("b1", source="s")
        assert history.bet == ledger.bet("b1", source="s")
    assert [call.operation for call in history.calls] == ["withdraw", "deposit", "deposit"]
    assert [(each.operation, each.tx_id, each.delta_cents, each.account) for each in history.movements] == [
        ("withdraw", "withdraw:bet:b1", -500, "p1"),
        ("deposit", "c1", 300, "p1"),
        ("deposit", "deposit:bet:b1", 1250, "p1"),
    ]
    assert [anomaly.kind for anomaly in history.anomalies] == ["early_deposit", "conflicting_deposit"]
    assert history.anomalies[0].first_at_millis == early.at_millis
    assert not history.is_unknown


def test_the_history_of_an_account(database_url: str) -> None:
    """Its latest movements in order, and its open bets; those of other accounts are left out."""
    with funded(database_url, 100, "p2") as ledger:
        for call in (withdraw("b1"), withdraw("b2"), deposit("b1"), withdraw("b3", "p2"), rollback("b9", tx_id="x")):
            ledger.apply(call, terms=TERMS)
        ledger.adjust("p1", Decimal("-1.00"), reference="cashout-1")
        history = ledger.account_history("p1")
        latest = ledger.account_history("p1", most=2)
        with pytest.raises(AccountNotFoundError, match="'nobody'"):
            ledger.account_history("nobody")
        assert (history.account, history.balance_cents) == ("p1", ledger.balance("p1"))
    assert [(each.operation, each.bet_id, each.delta_cents) for each in history.movements] == [
        ("open", None, 10_000),
        ("withdraw", "b1", -500),
        ("withdraw", "b2", -500),
        ("deposit", "b1", 1250),
        ("adjust", None, -100),
    ]
    assert latest.movements == history.movements[-2:]
    assert [bet.bet_id for bet in history.open_bets] == ["b2"]
    assert history.at_millis == history.movements[-1].at_millis


# --- docs/reference/tables.md tells of whatever a ledger can bring up ------------------------------------------------

PAGE = (ROOT / "docs" / "reference" / "tables.md").read_text()
FINDINGS = {
    *(kind for texts in toml_texts(verify.__package__, "verify.toml").values() for kind in texts if kind != "columns"),
    *re.findall(r'Finding\("([a-z_]+)"', getsource(verify)),
} - {"negative_balance"}
ANOMALIES = {
    *re.findall(r'anomaly="([a-z_]+)"', getsource(decide)),
    *re.findall(r'anomaly = "([a-z_]+)"', getsource(decide)),
    *re.findall(r'_nothing_to_roll_back\(seen, "([a-z_]+)"\)', getsource(decide)),
    *(word for word in ("unreadable", "foreign_instance") if f'"{word}"' in getsource(gate)),
}


def test_each_finding_is_explained() -> None:
    """Somebody whose books are wrong finds what it means."""
    assert len(FINDINGS) > 20
    assert [kind for kind in FINDINGS if f"`{kind}`" not in PAGE] == []


def test_each_kind_of_anomaly_has_something_to_do() -> None:
    """What the ledger can keep is what anomalies.toml explains."""
    assert len(ANOMALIES) > 20
    assert set(anomaly_texts()) >= ANOMALIES
