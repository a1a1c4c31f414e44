"""Balances in a table of the operator's own: types, units, ids, and money that is conserved."""

import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any, get_args
from uuid import UUID

import psycopg
import pytest

from game_operator.errors import AccountNotFoundError, ConfigurationError, LedgerError, SchemaError
from game_operator.ledger import SqlLedger, TableAccounts
from game_operator.ledger.accounts.catalogue import KeyColumn
from game_operator.ledger.accounts.table import balance_after, cents_of
from game_operator.ledger.api import Unit
from tests.support.calls import ask_balance, claim, deposit, rollback, withdraw
from tests.support.raw_sql import rows

pytestmark = [pytest.mark.drawn(21, url=("postgres",))]

Run = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def run(url: str) -> Run:
    """Run a statement of the operator's, committed at once."""
    return partial(rows, url)


def _table(**more: Any) -> TableAccounts:
    return TableAccounts(**{"table": "players", "key": "id", "balance": "balance", "unit": "cents"} | more)


@pytest.mark.parametrize(
    ("kind", "unit", "before", "after_withdraw", "after_deposit"),
    [
        pytest.param("bigint", "cents", "1999", "1500", "1615", id="cents in a bigint"),
        pytest.param("numeric(14, 2)", "units", "19.99", "15.00", "16.15", id="units in a numeric"),
        pytest.param("numeric", "units", "19.9999", "15.0099", "16.1599", id="units finer than a cent"),
        pytest.param("bigint", "thousandths", "19990", "15000", "16150", id="thousandths in a bigint"),
        pytest.param("integer", "thousandths", "19999", "15009", "16159", id="thousandths finer than a cent"),
        pytest.param("numeric(20, 6)", "units", "19.999999", "15.009999", "16.159999", id="units with six decimals"),
    ],
)
def test_units_are_lossless_both_ways(
    url: str, run: Run, kind: str, unit: str, before: str, after_withdraw: str, after_deposit: str
) -> None:
    """G05: what is finer than a cent is shown rounded down, and stays to the last digit."""
    run(f"CREATE TABLE players (id varchar(40) PRIMARY KEY, balance {kind} NOT NULL)")
    run("INSERT INTO players VALUES ('p1', ?)", Decimal(before) if not url.startswith("sqlite") else before)
    with SqlLedger(url, accounts=_table(unit=unit)) as ledger:
        assert ledger.balance("p1") == 1999
        assert ledger.apply(withdraw(amount_cents=499)).balance_cents == 1500
        assert _stored(run) == Decimal(after_withdraw)
        assert ledger.apply(deposit(amount_cents=115)).balance_cents == 1615
        assert _stored(run) == Decimal(after_deposit)
        assert ledger.apply(withdraw("b2", amount_cents=1615)).applied
        assert ledger.apply(withdraw("b3", amount_cents=1)).code == "INSUFFICIENT_BALANCE"
        assert ledger.apply(rollback("b2", tx_id=None)).applied
        assert _stored(run) == Decimal(after_deposit)


def _stored(run: Run) -> Decimal:
    return Decimal(str(run("SELECT balance FROM players")[0][0]))


def test_a_hundred_cents_in_units_are_exactly_zero(url: str, run: Run) -> None:
    """G01: 0.01 a hundred times from 1.00."""
    run("CREATE TABLE players (id varchar(40) PRIMARY KEY, balance numeric(10, 2))")
    run("INSERT INTO players VALUES ('p1', 1.00)")
    with SqlLedger(url, accounts=_table(unit="units")) as ledger:
        for number in range(100):
            assert ledger.apply(withdraw(f"b{number}", amount_cents=1)).applied
        assert ledger.apply(withdraw("one more", amount_cents=1)).code == "INSUFFICIENT_BALANCE"
    assert _stored(run) == 0


@pytest.mark.parametrize(
    ("key", "known", "unknown"),
    [
        pytest.param(
            "text",
            ["Ann", "007", "a'b", 'a"b', "x; DROP TABLE players", "é", "🎲"],
            ["ann", "7", "Ann ", "e\u0301"],
            id="text",
        ),
        pytest.param(
            "integer", ["7", "0", "-3"], ["007", "+7", "7.0", " 7", "-0", "٧", "seven", "9" * 30], id="integer"
        ),
        pytest.param("bigint", [str(2**63 - 1)], [str(2**63)], id="bigint"),
        pytest.param(
            "uuid",
            ["6f1c2f4e-0d5b-4b0e-9d0a-1f2e3d4c5b6a"],
            ["6F1C2F4E-0D5B-4B0E-9D0A-1F2E3D4C5B6A", "6f1c2f4e0d5b4b0e9d0a1f2e3d4c5b6a", "{6f1c2f4e}", "p1"],
            id="uuid",
        ),
    ],
)
def test_ids_are_keys_in_their_one_spelling(url: str, run: Run, key: str, known: list[str], unknown: list[str]) -> None:
    """What a cast would take for the same player is another, and unknown; ids are values, whatever they look like."""
    run(f"CREATE TABLE players (id {key} PRIMARY KEY, balance bigint)")
    for player in known:
        is_number = key in ("integer", "bigint")
        value: Any = int(player) if is_number else player
        run("INSERT INTO players VALUES (?, 1000)", UUID(player) if key == "uuid" and "postgres" in url else value)
    with SqlLedger(url, accounts=_table()) as ledger:
        for player in known:
            assert ledger.apply(withdraw(f"bet of {player}", player_id=player)).balance_cents == 500
            assert ledger.balance(player) == 500
        for player in unknown:
            assert ledger.apply(ask_balance(player)).code == "PLAYER_NOT_FOUND"
            assert ledger.apply(withdraw(f"bet of {player}", player_id=player)).code == "PLAYER_NOT_FOUND"
            with pytest.raises(AccountNotFoundError, match="no such row in players"):
                ledger.balance(player)
    assert run("SELECT sum(balance) FROM players") == [(500 * len(known),)]


_NO_NAMES = ("", "a b", 'a"b', "a'b", 'players" WHERE 1=1 --', "1st", "a-b", "a?b", "a%b", "a\0b", "x" * 64, "é" * 32)


@pytest.mark.parametrize("name", [*_NO_NAMES, "a.b.c", "a.", ".a", None])
def test_names_that_are_none_are_refused(name: Any) -> None:
    """A name cannot end its own quotes, hold a placeholder, or be cut off by PostgreSQL."""
    with pytest.raises(ConfigurationError):
        _table(table=name)
    if name is None or "." not in name:
        for column in ("key", "balance"):
            with pytest.raises(ConfigurationError, match=r"cannot be the name of a table|key must be a col"):
                _table(**{column: name})


def test_names_are_quoted(url: str, run: Run) -> None:
    """Reserved words, capitals and names that our own statements use are names like others; a schema may be told."""
    run('CREATE TABLE "Order" ("User" varchar(9) PRIMARY KEY, item bigint, balance bigint)')
    run("""INSERT INTO "Order" VALUES ('p1', 1000, 7)""")
    schema = "main" if url.startswith("sqlite") else "public"
    for table in ("Order", f"{schema}.Order"):
        with SqlLedger(url, accounts=TableAccounts(table=table, key="User", balance="item", unit="cents")) as ledger:
            assert ledger.apply(withdraw(f"in {table}", amount_cents=100)).applied
    assert run('SELECT item, balance FROM "Order"') == [(800, 7)]


_PRIMARY = "id varchar(9) PRIMARY KEY"

_WHOLE = {"cents": "1999", "whole": "19", "thousandths": "19990"}
_DECIMAL = {"units": "19.99"}
_ANY = _DECIMAL | _WHOLE


@pytest.mark.parametrize(
    ("declared", "fitting"),
    [
        pytest.param("integer", _WHOLE, id="integer"),
        pytest.param("bigint", _WHOLE, id="bigint"),
        pytest.param("numeric(12, 0)", _WHOLE, id="numeric without decimals"),
        pytest.param("decimal( 12 , 0 )", _WHOLE, id="decimal with spaces"),
        pytest.param("numeric(12, 2)", _DECIMAL, id="two decimals"),
        pytest.param("numeric(18, 6)", _DECIMAL, id="six decimals"),
        pytest.param("numeric", _ANY, id="numeric"),
        pytest.param("numeric(12, -2)", {}, id="rounded to hundreds"),
    ],
)
def test_a_column_holds_a_unit_or_is_refused(url: str, run: Run, declared: str, fitting: dict[str, str]) -> None:
    """The error names the column and the unit that was passed. No other is called fitting: nothing can tell it."""
    run(f"CREATE TABLE players (id varchar(9) PRIMARY KEY, balance {declared})")
    kind = declared.partition("(")[0].replace("decimal", "(numeric|decimal)")
    for unit in ("units", "cents", "whole", "thousandths"):
        if unit not in fitting:
            refused = rf'(?i)players\.balance is {kind}.* unit "{unit}" was passed'
            with pytest.raises(SchemaError, match=refused) as failed:
                SqlLedger(url, accounts=_table(unit=unit))
            assert not _other_units(str(failed.value), unit)
            continue
        run("DELETE FROM players")
        run(f"INSERT INTO players VALUES ('p1', {fitting[unit]})")
        with SqlLedger(url, accounts=_table(unit=unit)) as ledger:
            before = 1900 if unit == "whole" else 1999
            assert ledger.apply(withdraw(f"in {unit}", amount_cents=100)).balance_cents == before - 100


def _other_units(message: str, unit: str) -> set[str]:
    """Return which units but the one that was passed are words of a message."""
    return set(re.findall(r"\w+", message)) & (set(get_args(Unit)) - {unit})


@pytest.mark.parametrize("unit", ["cents", "whole", "thousandths"])
def test_a_balance_with_decimals_is_never_read_as_whole_numbers(url: str, run: Run, unit: str) -> None:
    """Neither moved nor shown, and PostgreSQL keeps that zeros were written: 102.00 is an amount in units."""
    run("CREATE TABLE players (id varchar(9) PRIMARY KEY, balance numeric)")
    run("INSERT INTO players VALUES ('p1', 102.50), ('p2', 102.00), ('p3', 102)")
    wrong = ("p1",) if url.startswith("sqlite") else ("p1", "p2")  # SQLite keeps 102.00 as 102.
    with SqlLedger(url, accounts=_table(unit=unit)) as ledger:
        for player in wrong:
            with pytest.raises(LedgerError, match=rf'102\.[50]+.* and unit="{unit}" has no decimals') as failed:
                ledger.apply(withdraw(player_id=player, amount_cents=100))
            assert not _other_units(str(failed.value), unit)
            assert ledger.bet("b1") is None
        assert ledger.balance("p3") == {"cents": 102, "whole": 10_200, "thousandths": 10}[unit]


@pytest.mark.parametrize(
    ("columns", "unit", "problem"),
    [
        pytest.param(
            "id varchar(9), balance bigint", "cents", "unique by itself.* add a unique index", id="not unique"
        ),
        pytest.param(
            "id varchar(9), x int, balance bigint, PRIMARY KEY (id, x)",
            "cents",
            "unique by itself.* If an account has more columns, name all",
            id="half a key",
        ),
        pytest.param(f"{_PRIMARY}, balance double precision", "units", "not exact", id="double precision"),
        pytest.param(f"{_PRIMARY}, balance bigint", "units", "keeps no decimals", id="whole numbers"),
        pytest.param(
            f"{_PRIMARY}, balance numeric(9, 2)", None, "--accounts-unit: .*whole, thousandths", id="no unit told"
        ),
        pytest.param(f"{_PRIMARY}, purse bigint", "cents", "no column balance; it has id, purse", id="no balance"),
        pytest.param("name varchar(9) PRIMARY KEY, balance bigint", "cents", "no column id", id="no key"),
        pytest.param("id numeric(9) PRIMARY KEY, balance bigint", "cents", "must be", id="a key of another type"),
    ],
)
def test_a_table_that_cannot_hold_money_is_refused_on_opening(
    url: str, run: Run, columns: str, unit: Any, problem: str
) -> None:
    """Before the first call, in words."""
    run(f"CREATE TABLE players ({columns})")
    with pytest.raises(SchemaError, match=problem):
        SqlLedger(url, accounts=_table(unit=unit))


def test_a_table_that_is_none_is_refused(url: str, run: Run) -> None:
    """A table that does not exist, and a view."""
    with pytest.raises(SchemaError, match="There is no table players"):
        SqlLedger(url, accounts=_table())
    run("CREATE VIEW players AS SELECT 'p1' AS id, 1000 AS balance")
    with pytest.raises(SchemaError, match="players is a view"):
        SqlLedger(url, accounts=_table())


_FOLDED = (
    "CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false); "
    "CREATE TABLE players (id text COLLATE folded PRIMARY KEY, balance bigint)"
)
_AMONG_SOME = (
    "CREATE TABLE players (id text, gone boolean, balance bigint); "
    "CREATE UNIQUE INDEX live ON players (id) WHERE NOT gone"
)


@pytest.mark.parametrize(
    ("url", "made", "problem"),
    [
        ("sqlite", "CREATE TABLE players (id text COLLATE NOCASE PRIMARY KEY, balance bigint)", "collation BINARY"),
        ("sqlite", "CREATE TABLE players (id text COLLATE RTRIM PRIMARY KEY, balance bigint)", "collation BINARY"),
        ("sqlite", "CREATE TABLE players (id BLOB PRIMARY KEY, balance bigint)", "must be TEXT"),
        ("sqlite", "CREATE TABLE players (id text PRIMARY KEY, balance BLOB)", "not exact"),
        ("postgres", "CREATE TABLE players (id char(9) PRIMARY KEY, balance bigint)", "type bpchar"),
        ("postgres", _FOLDED, "takes different ids for equal"),
        ("postgres", "CREATE TABLE players (id text PRIMARY KEY, balance money)", "type money"),
        ("postgres", _AMONG_SOME, "unique by itself"),
    ],
    indirect=["url"],
)
def test_what_one_database_would_fold_or_round(url: str, run: Run, made: str, problem: str) -> None:
    """Types that pad, collations that take Ann for ann, columns that round, and what is unique among some rows."""
    for statement in made.split("; "):
        try:
            run(statement)
        except psycopg.errors.FeatureNotSupported:  # pragma: no cover - a server without ICU
            # Collations of ICU do not exist there. CI never skips this: its server has ICU.
            pytest.skip("this PostgreSQL was built without ICU")
    with pytest.raises(SchemaError, match=problem):
        SqlLedger(url, accounts=_table())


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_domains_are_what_they_are_made_of(url: str, run: Run) -> None:
    """A domain over numeric(12, 2) is as good as that."""
    run("CREATE DOMAIN purse AS numeric(12, 2) CHECK (VALUE >= 0)")
    run("CREATE DOMAIN name AS varchar(20)")
    run("CREATE DOMAIN bonus AS purse DEFAULT 0")
    run("CREATE TABLE players (id public.name PRIMARY KEY, balance bonus)")
    run("INSERT INTO players VALUES ('p1', 10)")
    with SqlLedger(url, accounts=_table(unit="units")) as ledger:
        assert ledger.apply(withdraw()).balance_cents == 500
    assert _stored(run) == 5
    with pytest.raises(SchemaError, match=r"balance is bonus, which is numeric\(12,2\), which keeps 2 decimals"):
        SqlLedger(url, accounts=_table(unit="cents"))


def test_a_balance_that_cannot_be_read_is_our_own_failure(url: str, run: Run) -> None:
    """NULL is no balance of 0: nothing is stored, and once it is mended the repeat is applied."""
    run("CREATE TABLE players (id varchar(9) PRIMARY KEY, balance bigint)")
    run("INSERT INTO players VALUES ('p1', NULL)")
    with SqlLedger(url, accounts=_table()) as ledger:
        for call in (withdraw(), ask_balance(), rollback()):
            with pytest.raises(LedgerError, match=r"'p1' cannot be read: its players\.balance is None"):
                ledger.apply(call)
        run("UPDATE players SET balance = 700")
        assert ledger.apply(withdraw()).balance_cents == 200


def test_a_negative_balance(url: str, run: Run) -> None:
    """Shown as it is, below zero rounded down as well; withdraws are refused, credits accepted."""
    run("CREATE TABLE players (id varchar(9) PRIMARY KEY, balance numeric(12, 4))")
    run("INSERT INTO players VALUES ('p1', -0.0010)")
    with SqlLedger(url, accounts=_table(unit="units")) as ledger:
        refused = ledger.apply(withdraw(amount_cents=1))
        assert (refused.code, refused.balance_cents) == ("INSUFFICIENT_BALANCE", -1)
        assert ledger.apply(claim(amount_cents=1)).balance_cents == 0
        assert _stored(run) == Decimal("0.0090")


def test_a_timestamp_never_goes_back(url: str, run: Run) -> None:
    """When a balance last moved is kept beside the operator's table (spec §2.1)."""
    run("CREATE TABLE players (id varchar(9) PRIMARY KEY, balance bigint)")
    run("INSERT INTO players VALUES ('p1', 10000)")
    with SqlLedger(url, accounts=_table()) as ledger:
        times = [ledger.apply(withdraw(f"b{number}", amount_cents=1)).at_millis for number in range(5)]
        assert times == sorted(set(times))
        run("UPDATE game_operator_clocks SET at_millis = at_millis + 10000000")
        assert ledger.apply(ask_balance()).at_millis == times[-1] + 10_000_000
        assert ledger.apply(withdraw("later")).at_millis == times[-1] + 10_000_001


@pytest.mark.parametrize(
    ("declared", "stored", "cents"),
    [
        pytest.param("TEXT", "12345678901234567.89", 1_234_567_890_123_456_789, id="19 digits of a text"),
        pytest.param("NUMERIC", 92233720368547758, 9_223_372_036_854_775_800, id="a large integer"),
        pytest.param("DECIMAL(20, 2)", 99999999999999.99, None, id="16 digits of a float"),
        pytest.param("DECIMAL(20, 2)", 0.1 + 0.2, None, id="a float that was computed"),
        pytest.param("TEXT", "Infinity", None, id="infinite"),
        pytest.param("NUMERIC", b"12", None, id="bytes"),
        pytest.param("NUMERIC", 92233720368547759, None, id="more than 63 bits"),
    ],
)
def test_what_sqlite_keeps_is_read_exactly_or_not_at_all(
    sqlite_url: str, declared: str, stored: object, cents: int | None
) -> None:
    """SQLite has no decimals: 15 digits of a float are what was written, and more are not."""
    rows(sqlite_url, f"CREATE TABLE players (id TEXT PRIMARY KEY, balance {declared})")
    rows(sqlite_url, "INSERT INTO players VALUES ('p1', ?)", stored)
    with SqlLedger(sqlite_url, accounts=_table(unit="units")) as ledger:
        if cents is not None:
            assert ledger.balance("p1") == cents
            return
        with pytest.raises(LedgerError, match=r"'p1' cannot be read"):
            ledger.apply(withdraw(amount_cents=1))


def test_a_balance_that_sqlite_cannot_keep_is_not_written(sqlite_url: str) -> None:
    """A credit that would need a 16th digit moves nothing; one that needs 15 is kept."""
    rows(sqlite_url, "CREATE TABLE players (id TEXT PRIMARY KEY, balance DECIMAL(20, 2))")
    rows(sqlite_url, "INSERT INTO players VALUES ('p1', '9999999999999.98')")
    with SqlLedger(sqlite_url, accounts=_table(unit="units")) as ledger:
        assert ledger.apply(claim("c1", amount_cents=1)).balance_cents == 999_999_999_999_999
        with pytest.raises(LedgerError, match="keeps 15 digits exactly"):
            ledger.apply(claim("c2", amount_cents=2))
        assert ledger.balance("p1") == 999_999_999_999_999
        assert ledger.apply(claim("c3", amount_cents=1)).balance_cents == 10**15


def test_arithmetic_on_balances_never_rounds() -> None:
    """Whatever the decimal context, and however many digits."""
    fine = Decimal("12345678901234567890.123456789012345678901234567890")
    assert balance_after(fine, -1, "units") == Decimal("12345678901234567890.113456789012345678901234567890")
    assert str(balance_after(Decimal("0.10"), 20, "units")) == "0.30"
    assert cents_of(Decimal("-0.001"), "units") == -1
    assert KeyColumn("integer", 16).value_of("32767") == 32767
    assert KeyColumn("integer", 16).value_of("32768") is None
    assert KeyColumn("integer", 16).value_of("-32768") == -32768
