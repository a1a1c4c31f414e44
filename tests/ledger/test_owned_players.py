"""
Whose ledger it is: `owns` is asked before anything is read, and `name` when the ledger opens.

What another ledger owns is SYSTEM_ERROR and leaves nothing but an anomaly (docs/decisions/0014, question 1).
"""

from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from functools import partial
from typing import Any

import anyio
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.errors import (
    ConfigurationError,
    FindingError,
    LedgerError,
    RepairRefusedError,
    RetryRefusedError,
    SchemaError,
)
from game_operator.ledger import AsyncSqlLedger, SqlLedger, TableAccounts
from game_operator.ledger.office import Office
from game_operator.models.webhooks import WebhookCall
from game_operator.wallet import AsyncWallet, JoinedWallet
from tests.ledger.test_fence import connected, content
from tests.support.callers import KINDS
from tests.support.calls import ask_balance, claim, deposit, rollback, withdraw
from tests.support.grants import GrantingService, campaign
from tests.support.raw_sql import is_sqlite, run
from tests.support.repairs import lost, pay, repair

pytestmark = [pytest.mark.drawn(8, database_url=("postgres",))]


def ours(player_id: str) -> bool:
    """Whether this ledger owns a player."""
    return player_id.startswith("p")


def raising(player_id: str) -> bool:
    """Raise for players of others."""
    if not ours(player_id):
        raise KeyError(player_id)
    return True


def no_bool(player_id: str) -> Any:
    """Answer what is not a bool for players of others."""
    return ours(player_id) or 0


OWNS: dict[str, Callable[[str], bool]] = {"False": ours, "raises": raising, "no bool": no_bool}
CALLS = [
    pytest.param(withdraw("b2", "q1"), None, id="a withdraw"),
    pytest.param(deposit("b1", "q1"), "deposit", id="a deposit"),
    pytest.param(claim("c1", "q1"), "deposit", id="a claim"),
    pytest.param(rollback("b1", "q1"), "rollback", id="a rollback"),
    pytest.param(ask_balance("q1"), None, id="a balance"),
]


def joined(driver: str, ledger: SqlLedger, url: str, call: WebhookCall) -> None:
    """Apply a call in a transaction of the caller's, which commits whatever comes."""
    kind = next(kind for kind in KINDS if kind.name == ("sqlite3" if is_sqlite(url) else driver))
    with kind.open(url, owns=ledger._owns) as caller:
        caller.begin()
        try:
            caller.apply(call)
        finally:
            caller.commit()


def in_joined_wallet(ledger: SqlLedger, url: str, call: WebhookCall) -> None:
    """Apply a call by a JoinedWallet, whose transaction must never be opened."""

    def transaction() -> Any:
        raise AssertionError(url)

    JoinedWallet(ledger, transaction)._applied(call)


def awaited(ledger: SqlLedger, url: str, call: WebhookCall) -> None:
    """Apply a call by an AsyncWallet."""

    async def apply() -> None:
        async with AsyncSqlLedger(url, owns=ledger._owns) as other:
            await AsyncWallet(other)._applied(call)

    anyio.run(apply)


WAYS: dict[str, Callable[[SqlLedger, str, WebhookCall], object]] = {
    "apply": lambda ledger, _, call: ledger.apply(call),
    "joined": partial(joined, "psycopg"),
    "a JoinedWallet": in_joined_wallet,
    "awaited": awaited,
    "awaited, joined": partial(joined, "psycopg async"),
}


@pytest.mark.parametrize("owns", OWNS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("call", "operation"), CALLS)
@pytest.mark.drawn(30, database_url=("postgres",))
def test_another_ledgers_player(
    database_url: str, way: str, owns: str, call: WebhookCall, operation: str | None
) -> None:
    """Nothing of it is stored, even if the account is here, but an anomaly with the body of a deposit or rollback."""
    with SqlLedger(database_url) as before:
        before.open_account("q1", Decimal(100))
        before.apply(withdraw("b1", "q1"))
    with SqlLedger(database_url, owns=OWNS[owns]) as ledger:
        was = content(database_url)
        for _ in range(2):
            with pytest.raises(LedgerError, match=r"the player 'q1'.*Nothing was moved"):
                WAYS[way](ledger, database_url, call)
        now = content(database_url)
        assert {name for name in was if was[name] != now.get(name)} <= {"game_operator_anomalies"}
        kept = [(each.kind, each.code, each.operation, each.player_id, each.seen) for each in ledger.anomalies()]
        assert kept == ([("foreign_player", "SYSTEM_ERROR", operation, "q1", 2)] if operation else [])


def test_nothing_is_read_first(database_url: str) -> None:
    """Of another's withdraw and balance, the database is not even asked."""
    with SqlLedger(database_url, owns=ours) as ledger:
        run(database_url, "ALTER TABLE {p}accounts RENAME TO {p}away")
        for call in (withdraw("b1", "q1"), ask_balance("q1")):
            with pytest.raises(LedgerError, match=r"does not own the player 'q1'.*Send it to the ledger that owns"):
                ledger.apply(call)


STAFF: dict[str, Callable[[SqlLedger, GrantingService], object]] = {
    "opening": lambda ledger, _: ledger.open_account("q2"),
    "adjusting": lambda ledger, _: ledger.adjust("q1", Decimal(1), reference="r"),
    "adjusting by command": lambda ledger, _: Office(ledger).adjust("q1", Decimal(1), reference="r"),
    "repairing": lambda ledger, _: repair(ledger, lost("b1", "q1")),
    "paying": lambda ledger, _: pay(ledger, 1),
    "planning": lambda ledger, service: campaign(service, ledger).plan(["p1", "q1"], check_players=False),
}
REFUSALS: dict[str, type[LedgerError]] = {"repairing": RepairRefusedError, "paying": FindingError}


_OWED = (
    "INSERT INTO {p}findings (id, kind, source, subject, tx_id, player_id, account, detail, at_stake_cents, "
    "owed_cents, first_at_millis, last_at_millis, seen) "
    "VALUES (1, 'late_deposit', '', 'b2', 't', 'q1', 'q1', 'd', 700, 200, 1, 1, 1)"
)


@pytest.mark.parametrize("doing", STAFF)
def test_staff_and_the_back_office_refuse(database_url: str, private_key: RSAPrivateKey, doing: str) -> None:
    """They say what to do, and change nothing; without owns they go on."""
    service = GrantingService(private_key)
    with SqlLedger(database_url) as before:
        for player in ("p1", "q1"):
            before.open_account(player, Decimal(100))
        for bet_id in ("b1", "b2"):
            before.apply(withdraw(bet_id, "q1"))
        before.apply(deposit("b2", "q1", amount_cents=500))
        run(database_url, _OWED)
        with SqlLedger(database_url, owns=ours) as ledger:
            was = content(database_url)
            with pytest.raises(REFUSALS.get(doing, LedgerError), match=r"does not own the player 'q[12]'"):
                STAFF[doing](ledger, service)
            assert content(database_url) == was
        STAFF[doing](before, service)
        assert content(database_url) != was


def test_a_retry_follows_the_same_rule(database_url: str) -> None:
    """It asks owns, and without owns a person says that the player is ours after all."""
    with SqlLedger(database_url, owns=ours) as ledger:
        with pytest.raises(LedgerError):
            ledger.apply(deposit("b1", "q1"))
        number = next(each.id for each in ledger.anomalies())
        for accepts in (False, True):
            with pytest.raises(RetryRefusedError, match="does not own the player 'q1'"):
                ledger.retry(number, accept_foreign=accepts)
        assert [each.seen for each in ledger.anomalies()] == [1]
    with SqlLedger(database_url) as plain:
        plain.open_account("q1", Decimal(100))
        plain.apply(withdraw("b1", "q1"))
        with pytest.raises(RetryRefusedError, match=r"no owns= to ask.*--accept-foreign"):
            plain.retry(number)
        assert plain.balance("q1") == 9_500
    with SqlLedger(database_url, owns=lambda _: True) as corrected:
        assert corrected.retry(number).applied
        assert corrected.balance("q1") == 10_750
        assert list(corrected.anomalies()) == []


async def never(player_id: str) -> bool:
    """Answer too late."""
    return ours(player_id)


@pytest.mark.parametrize("kind", [SqlLedger, AsyncSqlLedger])
@pytest.mark.parametrize("owns", [never, "p1", {"p1"}, partial(never)])
def test_what_is_no_owns(sqlite_url: str, kind: Any, owns: Any) -> None:
    """It answers from memory."""
    with pytest.raises(TypeError, match=r"owns (is async|must be a function)"):
        kind(sqlite_url, owns=owns)


@pytest.fixture
def named(database_url: str) -> str:
    """A database whose ledger has a name."""
    with SqlLedger(database_url, name="production") as ledger:
        ledger.open_account("p1", Decimal(100))
    return database_url


@pytest.mark.parametrize("accounts", [None, TableAccounts(table="players", key="id", balance="cents")])
def test_another_name(named: str, accounts: TableAccounts | None) -> None:
    """It does not open, and notes nothing."""
    run(named, "CREATE TABLE players (id VARCHAR(20) PRIMARY KEY, cents BIGINT NOT NULL)")
    was = content(named)
    with pytest.raises(SchemaError, match="belong to the ledger 'production', and this program wants 'staging'"):
        SqlLedger(named, name="staging", accounts=accounts)

    async def open_it() -> None:
        async with AsyncSqlLedger(named, name="staging", accounts=accounts):
            pass

    with pytest.raises(SchemaError, match="this program wants 'staging'"):
        anyio.run(open_it)
    assert content(named) == was


@pytest.mark.parametrize("name", ["", " ", "a\0", "x" * 257, " x", "x ", "x\u200b"])
def test_names_that_none_can_have(sqlite_url: str, name: str) -> None:
    """And the longest that one can."""
    with pytest.raises(ConfigurationError, match="The name of the ledger"):
        SqlLedger(sqlite_url, name=name)
    with pytest.raises(TypeError, match="name must be a str"):
        SqlLedger(sqlite_url, name=5)  # type: ignore[arg-type]
    SqlLedger(sqlite_url, name="x" * 256).close()


def test_another_name_in_the_callers_database(named: str, tmp_path: Any) -> None:
    """A call that joins a transaction of another ledger's database moves nothing."""
    with SqlLedger(f"sqlite:///{tmp_path / 'own.db'}", name="staging") as ledger, closing(connected(named)) as on:
        with pytest.raises(SchemaError, match="this program wants 'staging'"):
            ledger.apply(withdraw("b1"), connection=on)
        on.rollback()
    with SqlLedger(named) as ledger:
        assert ledger.balance("p1") == 10_000


def test_a_campaign_that_others_planned_is_not_run(database_url: str, private_key: RSAPrivateKey) -> None:
    """Every player of the plan is asked for before the first grant."""
    service = GrantingService(private_key)
    with SqlLedger(database_url) as before, SqlLedger(database_url, owns=ours) as ledger:
        campaign(service, before).plan(["p1", "q1"], check_players=False)
        with pytest.raises(LedgerError, match="does not own the player 'q1'"):
            campaign(service, ledger).run()
        assert service.asked == []
        campaign(service, before).run()
        assert service.players() == ["p1", "q1"]
