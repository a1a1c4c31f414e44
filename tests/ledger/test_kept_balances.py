"""An update of the operator's balance that did not happen as it was written: nothing of the call may be committed."""

from collections.abc import Callable
from typing import Any

import pytest

from game_operator.errors import LedgerError, SchemaError
from game_operator.ledger import SqlLedger, TableAccounts, Terms
from tests.support.callers import KINDS, CallerKind
from tests.support.calls import withdraw
from tests.support.raw_sql import rows

pytestmark = pytest.mark.slow

PLAYERS = TableAccounts(table="players", key="id", balance="balance", unit="units")

Run = Callable[[str], list[Any]]

_MAKE = (
    "CREATE TABLE players (id varchar(9) PRIMARY KEY, balance numeric(12, 4) NOT NULL)",
    "INSERT INTO players VALUES ('p1', 10.0050), ('p2', 10)",
)

_FUNCTION = "CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$"
_TRIGGER = "CREATE TRIGGER meddle {when} UPDATE ON players FOR EACH ROW {condition} EXECUTE FUNCTION meddle()"


def _trigger(body: str, *, when: str = "BEFORE", condition: str = "") -> list[str]:
    return [_FUNCTION.format(body=body), _TRIGGER.format(when=when, condition=condition)]


_PUT_BACK = _trigger("NEW.balance := OLD.balance; RETURN NEW;")
_SQLITE = "CREATE TRIGGER meddle AFTER UPDATE ON players BEGIN UPDATE players SET balance = {0} WHERE id = NEW.id; END"
_SQLITE_PUT_BACK = [_SQLITE.format("OLD.balance")]

_RULE_TO_SHADOW = (
    "CREATE RULE meddle AS ON UPDATE TO players DO INSTEAD "
    "UPDATE shadow SET balance = NEW.balance WHERE shadow.id = OLD.id RETURNING shadow.*"
)

_MEDDLING = [
    pytest.param("postgres", _PUT_BACK, id="a trigger before it puts the balance back"),
    pytest.param("postgres", _trigger("RETURN NULL;"), id="a trigger before it drops the update"),
    pytest.param(
        "postgres",
        _trigger(
            "UPDATE players SET balance = OLD.balance WHERE id = NEW.id; RETURN NULL;",
            when="AFTER",
            condition="WHEN (pg_trigger_depth() = 0)",
        ),
        id="a trigger after it puts the balance back",
    ),
    pytest.param(
        "postgres", _trigger("NEW.balance := trunc(NEW.balance, 2); RETURN NEW;"), id="a trigger takes half a cent"
    ),
    pytest.param(
        "postgres",
        [
            "CREATE TABLE shadow (id varchar(9), balance numeric(12, 4))",
            "INSERT INTO shadow SELECT * FROM players",
            _RULE_TO_SHADOW,
        ],
        id="a rule writes to another table",
    ),
    pytest.param("sqlite", _SQLITE_PUT_BACK, id="sqlite: a trigger after it puts the balance back"),
    pytest.param(
        "sqlite",
        ["CREATE TRIGGER meddle BEFORE UPDATE ON players BEGIN SELECT RAISE(IGNORE); END"],
        id="sqlite: a trigger before it drops the update",
    ),
]


@pytest.fixture
def make(url_of: Callable[[str], str]) -> Callable[[str], str]:
    """Make the operator's table in a database of a kind, and return its address."""

    def made(database: str) -> str:
        _run(url := url_of(database), *_MAKE)
        return url

    return made


def _run(url: str, *statements: str) -> list[Any]:
    """Run the operator's own statements; return the rows of the last."""
    return [rows(url, statement) for statement in statements][-1]


def _nothing_is_kept(url: str) -> None:
    for table in ("calls", "bets", "postings", "anomalies", "clocks"):
        assert _run(url, f"SELECT * FROM game_operator_{table}") == []
    assert float(_run(url, "SELECT balance FROM players WHERE id = 'p1'")[0][0]) == 10.005


@pytest.mark.parametrize(("database", "meddling"), _MEDDLING)
def test_a_balance_that_did_not_move_as_written_commits_nothing(
    make: Callable[[str], str], database: str, meddling: list[str]
) -> None:
    """SUCCESS would be a bet without money, or money without a bet; once the cause is gone the repeat is applied."""
    url = make(database)
    with SqlLedger(url, accounts=PLAYERS, patience_seconds=0.5) as ledger:
        _run(url, *meddling)
        with pytest.raises(LedgerError, match=r"players.*Nothing was kept") as raised:
            ledger.apply(withdraw(amount_cents=250))
        assert type(raised.value) is LedgerError  # Not LedgerUnavailableError: to wait would change nothing.
        _nothing_is_kept(url)
        kind = "RULE" if "RULE meddle" in meddling[-1] else "TRIGGER"
        _run(url, f"DROP {kind} meddle" + ("" if database == "sqlite" else " ON players"))
        assert ledger.apply(withdraw(amount_cents=250)).balance_cents == 750


def test_row_policies(make: Callable[[str], str]) -> None:
    """They are refused on opening: a player who may be seen and not updated would pass for unknown."""
    url = make("postgres")
    SqlLedger(url, accounts=PLAYERS).close()
    _run(
        url,
        "DROP ROLE IF EXISTS wallet_role",
        "CREATE ROLE wallet_role LOGIN",
        "GRANT ALL ON ALL TABLES IN SCHEMA public TO wallet_role",
        "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO wallet_role",
        "GRANT USAGE ON SCHEMA public TO wallet_role",
        "ALTER TABLE players ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY kept ON players USING (true)",
    )
    served = url.replace("user=postgres", "user=wallet_role")
    with pytest.raises(SchemaError, match="Row policies of players apply to the ledger's role"):
        SqlLedger(served, accounts=PLAYERS)
    _run(url, "ALTER ROLE wallet_role BYPASSRLS")
    with SqlLedger(served, accounts=PLAYERS) as ledger:
        assert ledger.apply(withdraw(amount_cents=250)).balance_cents == 750


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.drawn(5)
def test_in_the_callers_transaction_too(make: Callable[[str], str], kind: CallerKind) -> None:
    """Over every kind of connection: the call is undone, and the caller's transaction goes on."""
    url = make(kind.database)
    with kind.open(url, accounts=PLAYERS) as caller:
        _run(url, *(_SQLITE_PUT_BACK if kind.database == "sqlite" else _PUT_BACK), "CREATE TABLE notes (note text)")
        caller.begin()
        with pytest.raises(LedgerError, match="Nothing was kept"):
            caller.apply(withdraw(amount_cents=250))
        caller.execute("INSERT INTO notes VALUES ('mine')")
        caller.commit()
    _nothing_is_kept(url)
    assert len(_run(url, "SELECT * FROM notes")) == 1


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_what_may_bet_moves_in_the_callers_transaction_is_not_lost(make: Callable[[str], str], database: str) -> None:
    """A balance that was moved behind the ledger's back, between its look and its update, is refused."""
    url = make(database)
    kind = next(kind for kind in KINDS if kind.database == database)
    with kind.open(url, accounts=PLAYERS) as caller:

        def bonus(*_: Any) -> None:
            caller.execute("UPDATE players SET balance = balance + 5 WHERE id = 'p1'")

        caller.begin()
        with pytest.raises(LedgerError, match="may_bet moved it"):
            caller.apply(withdraw(amount_cents=250), Terms(may_bet=bonus))
        caller.rollback()
    _nothing_is_kept(url)
