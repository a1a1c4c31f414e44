"""The services and environments that a ledger takes calls from: the first registers itself, no other does."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from decimal import Decimal
from threading import Barrier
from typing import Any

import anyio
import psycopg
import pytest

from game_operator.errors import LedgerError, UnknownSourceError
from game_operator.ledger import AsyncSqlLedger, MemoryLedger, SqlLedger, Terms
from game_operator.models.webhooks import WebhookCall
from game_operator.wallet import AsyncWallet, JoinedWallet, Wallet
from tests.support.callers import KINDS
from tests.support.calls import ask_balance, claim, deposit, rollback, withdraw
from tests.support.raw_sql import is_sqlite, rows

pytestmark = [pytest.mark.drawn(7, database_url=("postgres",))]

OTHER = Terms(source="other")
REFUSED = r"does not know the source 'other'; it knows ''.*ledger add-source other"
MOVING = [
    pytest.param(withdraw("b1"), [], id="a withdraw"),
    pytest.param(deposit("b1"), [("unknown_source", "deposit", "deposit:bet:b1", "b1")], id="a deposit"),
    pytest.param(claim("c1"), [("unknown_source", "deposit", "c1", None)], id="a claim"),
    pytest.param(rollback("b1"), [("unknown_source", "rollback", "withdraw:bet:b1", "b1")], id="a rollback"),
]


@pytest.mark.parametrize(("call", "kept"), MOVING)
def test_another_source_moves_nothing(
    database_url: str, call: WebhookCall, kept: list[tuple[str, str, str, str | None]]
) -> None:
    """Before, a bet of 5.00 that came through a second source was debited again."""
    with SqlLedger(database_url) as ledger:
        ledger.open_account("p1", Decimal(100))
        assert ledger.apply(withdraw("b1")).balance_cents == 9_500
    with SqlLedger(database_url) as ledger:
        for _ in range(2):
            with pytest.raises(UnknownSourceError, match=REFUSED):
                ledger.apply(call, terms=OTHER)
        assert ledger.balance("p1") == 9_500
        assert ledger.bet("b1", source="other") is None
        records = [(each.kind, each.operation, each.tx_id, each.bet_id) for each in ledger.anomalies(source="other")]
        assert records == kept
        assert {each.seen for each in ledger.anomalies()} <= {2}
        assert ledger.apply(deposit("b1")).balance_cents == 10_750
        assert ledger.verify().sound


@pytest.mark.parametrize("first", [param.values[0] for param in MOVING], ids=[str(param.id) for param in MOVING])
def test_the_first_call_registers_its_source(database_url: str, first: WebhookCall) -> None:
    """Whatever becomes of it; looking, opening and adjusting register nothing, and are refused in no source."""
    with SqlLedger(database_url) as ledger:
        ledger.open_account("p1", Decimal(100))
        ledger.adjust("p1", Decimal(1), reference="r")
        ledger.keep_anomaly("deposit", "unreadable", b"{", source="any")
        assert ledger.apply(ask_balance(), terms=OTHER).balance_cents == 10_100
        assert (ledger.bet("b1", source="x"), list(ledger.bets(source="x")), ledger.sources()) == (None, [], [])
        ledger.apply(first, terms=OTHER)
        assert ledger.sources() == ["other"]
        with pytest.raises(UnknownSourceError, match="add-source ''"):
            ledger.apply(withdraw("b2"))
        assert ledger.apply(ask_balance()).code is None
        ledger.adjust("p1", Decimal(1), reference="r2")


def test_sources_that_were_added(database_url: str) -> None:
    """Another process sees it with its next call; adding it again changes nothing, and no name is ever lost."""
    with SqlLedger(database_url) as ledger, SqlLedger(database_url) as other:
        ledger.open_account("p1", Decimal(100))
        ledger.apply(withdraw("b1"))
        with pytest.raises(UnknownSourceError):
            other.apply(withdraw("b1"), terms=OTHER)
        for _ in range(2):
            ledger.add_source("other")
        assert other.apply(withdraw("b1"), terms=OTHER).balance_cents == 9_000
        assert ledger.sources() == other.sources() == ["", "other"]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        (5, TypeError),
        *((name, ValueError) for name in (" ", "a\0", "a" * 257, "\ud800")),
        *((name, ValueError) for name in (" live", "live ", "live\n", "\tlive", "live\u3000", "\u00a0live")),
        # Zero-width, byte order mark, direction, soft hyphen, filler, variation selector, blank of another alphabet.
        *((f"li{letter}ve", ValueError) for letter in "\u200b\ufeff\u202e\u00ad\u3164\ufe0f\u2800\u034f\u00a0\n\x1b"),
        *((f"live{letter}", ValueError) for letter in "\u200d\u2060\u115f\U000e0001"),
    ],
)
def test_names_that_are_none(name: Any, error: type[Exception]) -> None:
    """A source is a text that people can tell from every other, wherever it is named."""
    fine = ["", "a" * 256, "live 2", "東京-ライブ", "żółć"]
    for ledger in (MemoryLedger(), SqlLedger("sqlite:///:memory:")):
        with ledger:
            for enter in (ledger.add_source, lambda given, ledger=ledger: Wallet(ledger, source=given)):
                with pytest.raises(error, match="source"):
                    enter(name)
            for each in fine:
                ledger.add_source(each)
                assert Wallet(ledger, source=each).terms.source == each
            assert set(ledger.sources()) == set(fine)


# --- in the caller's transaction --------------------------------------------------------------------------------------


def test_joined_the_caller_decides(database_url: str) -> None:
    """Registered with the caller's commit, not before; rolled back, the next source is the first."""
    kind = next(kind for kind in KINDS if (kind.database == "sqlite") == is_sqlite(database_url))
    with SqlLedger(database_url) as ledger, kind.open(database_url) as caller:
        ledger.open_account("p1", Decimal(100))
        caller.begin()
        caller.apply(withdraw("b1"), OTHER)
        caller.apply(deposit("b1"), OTHER)
        caller.rollback()
        assert ledger.sources() == []
        ledger.apply(withdraw("b1"))
        caller.begin()
        with pytest.raises(UnknownSourceError, match=REFUSED):
            caller.apply(withdraw("b1"), OTHER)
        caller.rollback()
        caller.begin()
        assert caller.apply(deposit("b1")).balance_cents == 10_750
        caller.commit()
        assert (ledger.sources(), ledger.balance("p1")) == ([""], 10_750)


def test_joined_nobody_waits_for_a_stranger(postgres_url: str) -> None:
    """Two that begin at once with one source both go on; one with another source repeats, then finds it refused."""
    with SqlLedger(postgres_url) as ledger:
        for player in ("p1", "p2", "p3"):
            ledger.open_account(player, Decimal(100))
        with ExitStack() as stack:
            one, two, three = (stack.enter_context(psycopg.connect(postgres_url)) for _ in range(3))
            for connection in (one, two, three):
                connection.execute("SET lock_timeout = '2s'")
            ledger.apply(withdraw("b1"), connection=one)
            ledger.apply(withdraw("b2", "p2"), connection=two)
            with pytest.raises(LedgerError, match=r"another transaction registers.*repeat"):
                ledger.apply(withdraw("b3", "p3"), terms=OTHER, connection=three)
            with pytest.raises(LedgerError, match=r"another transaction registers.*repeat"):
                ledger.apply(withdraw("b3", "p3"), terms=OTHER)
            one.rollback()  # It was the one that registered.
            two.commit()
            with pytest.raises(UnknownSourceError, match="it knows ''"):
                ledger.apply(withdraw("b3", "p3"), terms=OTHER)
        assert (ledger.sources(), ledger.balance("p2"), ledger.balance("p3")) == ([""], 9_500, 10_000)
        assert ledger.verify().sound


def _is_taken(ledger: SqlLedger, call: WebhookCall, terms: Terms) -> bool:
    """Return whether *call* is applied, repeated for as long as the first source is undecided."""
    until = time.monotonic() + 30
    while True:
        try:
            return ledger.apply(call, terms=terms).applied
        except UnknownSourceError:
            return False
        except LedgerError:
            assert time.monotonic() < until


def test_two_processes_that_begin_at_once(database_url: str) -> None:
    """With a source each: one of them is registered, and only its calls are answered."""
    with SqlLedger(database_url) as ledger:
        ledger.open_account("p1", Decimal(100))
    barrier = Barrier(4)

    def played(number: int) -> list[str]:
        source = f"s{number % 2}"
        with SqlLedger(database_url) as each:
            barrier.wait()
            taken = [_is_taken(each, withdraw(f"b{number}-{bet}"), Terms(source=source)) for bet in range(3)]
        return [source for is_taken in taken if is_taken]

    with ThreadPoolExecutor(4) as pool:
        answered = [source for sources in pool.map(played, range(4)) for source in sources]
    with SqlLedger(database_url) as ledger:
        assert ledger.balance("p1") == 10_000 - 500 * len(answered)
        assert {bet_source for (bet_source,) in rows(database_url, "SELECT source FROM {p}bets")} == set(answered)
        assert ledger.sources() == sorted(set(answered))
        assert len(set(answered)) == 1


# --- wallets ----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def played(request: pytest.FixtureRequest) -> Any:
    """A ledger that knows the source ""."""
    if request.param == "memory":
        ledger: Any = MemoryLedger({"p1": 10_000})
    else:
        ledger = SqlLedger(request.getfixturevalue(f"{request.param}_url"))
        ledger.open_account("p1", Decimal(100))
    with ledger:
        ledger.apply(withdraw("b1"))
        yield ledger


def test_a_wallet_says_it_before_traffic(played: Any) -> None:
    """With a source that the ledger does not know, it is not made; after add_source it is."""
    with pytest.raises(UnknownSourceError, match=REFUSED):
        Wallet(played, source="other")
    with pytest.raises(UnknownSourceError, match=REFUSED):
        JoinedWallet(played, nullcontext, source="other")
    played.add_source("other")
    Wallet(played, source="other").withdraw(withdraw("b1"))
    assert played.balance("p1") == 9_000


def test_an_async_wallet_says_it_when_the_ledger_opens(database_url: str) -> None:
    """Made before the ledger is open, its calls are refused; made later, the wallet is not made."""
    with SqlLedger(database_url) as ledger:
        ledger.open_account("p1", Decimal(100))
        ledger.apply(withdraw("b1"))

    async def check() -> None:
        unopened = AsyncSqlLedger(database_url)
        early = AsyncWallet(unopened, source="other")
        with pytest.raises(UnknownSourceError, match=REFUSED):
            await early.withdraw(withdraw("b1"))
        await unopened.close()
        async with AsyncSqlLedger(database_url) as opened:
            with pytest.raises(UnknownSourceError, match=REFUSED):
                AsyncWallet(opened, source="other")
            with pytest.raises(UnknownSourceError, match=REFUSED):
                await opened.apply(deposit("b1"), terms=OTHER)
            with SqlLedger(database_url) as beside:
                assert [each.kind for each in beside.anomalies()] == ["unknown_source"]
            await opened.add_source("other")
            wallet = AsyncWallet(opened, source="other")
            assert (await wallet.withdraw(withdraw("b1"))).balance_cents == 9_000
            assert await opened.sources() == ["", "other"]

    anyio.run(check)


def test_an_old_snapshot_registers_no_second_source(postgres_url: str) -> None:
    """In REPEATABLE READ a joined call may not see the source that was added; the database tells it."""
    with SqlLedger(postgres_url) as ledger, psycopg.connect(postgres_url) as connection:
        ledger.open_account("p1", Decimal(100))
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT 1 FROM game_operator_meta")
        ledger.add_source("live")
        with pytest.raises(psycopg.errors.SerializationFailure):
            ledger.apply(withdraw("b1"), terms=OTHER, connection=connection)
        connection.rollback()
        assert ledger.sources() == ["live"]
        with pytest.raises(UnknownSourceError):
            ledger.apply(withdraw("b1"), terms=OTHER, connection=connection)
