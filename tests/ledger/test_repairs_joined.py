"""Repairs and payments in the operator's transactions: its own rows come with them, or nothing does."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from decimal import Decimal
from itertools import count
from typing import Any, NamedTuple

import psycopg
import pytest

from game_operator.codes import BetState
from game_operator.errors import FindingError, LedgerError, RepairRefusedError
from game_operator.ledger import SqlLedger, joined_block
from game_operator.ledger.staff.findings import Finding
from game_operator.ledger.staff.repairs import Repair
from tests.support.calls import deposit, withdraw
from tests.support.joined_wallets import WALLETS, Opened, Statements, WalletKind
from tests.support.postgres import PostgresServer
from tests.support.raw_sql import rows, run
from tests.support.repairs import findings, nothing, payment, repair, won

pytestmark = pytest.mark.outside

_NUMBERS = count(1)
_RUNS = Generator[Any, Any, None]
#: The back office is not for asyncio.
_KINDS = [kind for kind in WALLETS if "async" not in kind.name]


@pytest.fixture(autouse=True)
def without_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that never commits is looked up for less long."""
    monkeypatch.setattr(joined_block, "_CONFIRM_SECONDS", 0.1)


@pytest.fixture(scope="module")
def shared_database(postgres: PostgresServer) -> Iterator[str]:
    """One PostgreSQL database for all these tests."""
    url = postgres.create_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE journal (entry varchar(80) PRIMARY KEY)")
    yield url
    postgres.drop_database(url)


class Desk(NamedTuple):
    """A player with 10.00 and an OPEN bet of 5.00, and transactions of one kind."""

    opened: Opened
    url: str
    player: str

    @property
    def bet(self) -> str:
        """The bet's id."""
        return f"bet of {self.player}"

    @property
    def ledger(self) -> SqlLedger:
        """The ledger."""
        ledger: SqlLedger = self.opened.ledger
        return ledger

    @property
    def state(self) -> tuple[BetState, int]:
        """The bet's state, and what the player holds."""
        bet = self.ledger.bet(self.bet)
        assert bet is not None
        return bet.state, self.ledger.balance(self.player)

    def entries(self) -> list[str]:
        """What the operator's statements left behind."""
        return sorted(
            row[0] for row in rows(self.url, "SELECT entry FROM journal WHERE entry LIKE ?", f"{self.player}:%")
        )

    def found(self) -> list[Finding]:
        """The findings about the bet."""
        return [found for found in findings(self.ledger) if found.subject == self.bet]

    def writing(self, *, fails: bool = False) -> Any:
        """Return statements of the operator that leave a row, and may fail after that."""

        def after(does: Statements, call: Any, outcome: Any, connection: Any) -> _RUNS:
            entry = f"{self.player}:{call.operation} {getattr(call, 'amount_cents', None)} {outcome.applied}"
            yield does.execute(connection, f"INSERT INTO journal VALUES ('{entry}')")
            if fails:
                raise ValueError("not now")

        return after

    def repair(self, call: Any, **settings: Any) -> Any:
        """Settle the bet in a transaction of the operator."""
        wallet = self.opened.wallet(settings.pop("after", self.writing()), **settings)
        return wallet.repair(Repair(call, "reconcile", nothing))

    def owed(self, cents: int) -> int:
        """Settle the bet by 1.00, let a deposit of *cents* come late, and return the finding."""
        repair(self.ledger, won(100, self.bet, self.player))
        self.ledger.apply(deposit(self.bet, self.player, cents))
        return self.found()[0].id


@pytest.fixture(scope="module", params=_KINDS, ids=str)
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[WalletKind, str, Opened]]:
    """A ledger and transactions of each kind."""
    kind: WalletKind = request.param
    if kind.database == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('joined') / 'wallet.db'}"
        run(url, "CREATE TABLE journal (entry varchar(80) PRIMARY KEY)")
    else:
        url = request.getfixturevalue("shared_database")
    with kind.open(url) as made:
        yield kind, url, made


@pytest.fixture
def desk(opened: tuple[WalletKind, str, Opened]) -> Desk:
    """A player of this test's own."""
    desk = Desk(opened[2], opened[1], f"player {next(_NUMBERS)}")
    desk.ledger.open_account(desk.player, Decimal("15.00"))
    desk.ledger.apply(withdraw(desk.bet, desk.player))
    return desk


def test_own_rows_come_with_a_repair(desk: Desk) -> None:
    """The call that never came is given to *after*; what comes later moves nothing and runs it as a repeat."""
    outcome = desk.repair(won(700, desk.bet, desk.player))
    assert (outcome.applied, outcome.balance_cents) == (True, 1_700)
    assert desk.entries() == [f"{desk.player}:deposit 700 True"]
    assert desk.state == (BetState.CLOSED, 1_700)
    late = deposit(desk.bet, desk.player, 700)
    assert desk.opened.call(desk.opened.wallet(desk.writing()), late).balance_cents == 1_700
    assert desk.entries() == [f"{desk.player}:deposit 700 False", f"{desk.player}:deposit 700 True"]
    with pytest.raises(RepairRefusedError, match="is CLOSED"):
        desk.repair(won(700, desk.bet, desk.player))
    assert len(desk.entries()) == 2
    assert desk.ledger.verify().findings == ()


def test_own_code_that_fails_undoes_the_repair(desk: Desk) -> None:
    """Nothing moves and no row stays; the next attempt settles the bet."""
    with pytest.raises(ValueError, match="not now"):
        desk.repair(won(700, desk.bet, desk.player), after=desk.writing(fails=True))
    assert (desk.state, desk.entries()) == ((BetState.OPEN, 1_000), [])
    assert desk.repair(won(700, desk.bet, desk.player)).applied


@contextmanager
def _undone(desk: Desk) -> Iterator[Any]:
    """Open a transaction of that kind, and roll it back at the end without a word."""

    class _UndoneError(Exception):
        """Raised to undo."""

    try:
        with desk.opened.transaction() as connection:
            yield connection or _of_django(desk)
            raise _UndoneError
    except _UndoneError:
        pass


def _of_django(desk: Desk) -> Any:
    from django.db import connections

    return connections[desk.opened.transaction.keywords["using"]]


@pytest.mark.drawn(4)
def test_a_transaction_that_does_not_commit_is_not_believed(desk: Desk) -> None:
    """Neither a repair nor a payment is reported as made; with confirm="never" that is the caller's affair."""
    call = won(700, desk.bet, desk.player)
    with pytest.raises(LedgerError, match="is not committed"):
        desk.repair(call, transaction=lambda: _undone(desk))
    assert (desk.state, desk.entries()) == ((BetState.OPEN, 1_000), [])
    assert desk.repair(call, transaction=lambda: _undone(desk), confirm="never").applied
    assert (desk.state, desk.entries()) == ((BetState.OPEN, 1_000), [])
    number = desk.owed(900)
    with pytest.raises(LedgerError, match="is not committed"):
        desk.opened.wallet(desk.writing(), lambda: _undone(desk)).pay(payment(number))
    assert (desk.found()[0].paid_cents, desk.state[1], desk.entries()) == (None, 1_100, [])
    wallet = desk.opened.wallet(None, lambda: _undone(desk), confirm="never")
    assert wallet.pay(payment(number))[1].balance_cents == 1_900
    assert desk.state[1] == 1_100


def test_what_another_has_repaired_proves_nothing(desk: Desk) -> None:
    """Our transaction was undone, and the bet was settled elsewhere meanwhile, by another amount."""

    @contextmanager
    def overtaken() -> Iterator[Any]:
        with _undone(desk) as connection:
            yield connection
        repair(desk.ledger, won(1, desk.bet, desk.player))

    with pytest.raises(LedgerError, match="is not committed"):
        desk.repair(won(700, desk.bet, desk.player), transaction=overtaken)
    assert desk.state == (BetState.CLOSED, 1_001)


def test_own_rows_come_with_a_payment(desk: Desk) -> None:
    """*after* gets a deposit of what is owed; once."""
    number = desk.owed(900)
    found, outcome = desk.opened.wallet(desk.writing()).pay(payment(number))
    assert (found.paid_cents, found.resolved_by, outcome.balance_cents) == (800, "ann", 1_900)
    assert desk.entries() == [f"{desk.player}:deposit 800 True"]
    with pytest.raises(FindingError, match="resolved by ann already"):
        desk.opened.wallet(desk.writing()).pay(payment(number))
    assert (desk.state[1], len(desk.entries())) == (1_900, 1)
    assert desk.ledger.verify().findings == ()
