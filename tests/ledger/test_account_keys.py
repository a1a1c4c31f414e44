"""Keys of several columns: a player has a balance for each currency."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from game_operator.errors import AccountNotFoundError, LedgerError, SchemaError
from game_operator.ledger import Outcome, SqlLedger, TableAccounts, Terms
from game_operator.ledger.api import account_of_parts, parts_of_account
from game_operator.models.webhooks import BalanceCall, WebhookCall
from game_operator.wallet import Wallet
from tests.support.calls import ask_balance, claim, deposit, rollback, withdraw
from tests.support.raw_sql import rows

WALLETS = TableAccounts(table="wallets", key=("player_id", "currency"), balance="balance", unit="units")
VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "account-keys.json").read_text())

#: A player who is called like the account of another.
LOOKALIKE = '["p1","EUR"]'


def _by_currency(call: Any) -> tuple[str, ...]:
    """Return the account of a call; a player-balance names the player alone, whose first currency is euro."""
    in_yen = not isinstance(call, BalanceCall) and call.instance_id == "tokyo"
    return call.player_id, "JPY" if in_yen else "EUR"


TERMS = Terms(account_of=_by_currency)


@pytest.fixture
def url(database_url: str) -> str:
    """A database of each kind, with balances by player and currency."""
    rows(
        database_url,
        "CREATE TABLE wallets (player_id varchar(256) NOT NULL, currency varchar(256) NOT NULL, "
        "balance numeric(14, 2) NOT NULL, PRIMARY KEY (player_id, currency))",
    )
    rows(database_url, "INSERT INTO wallets VALUES ('p1', 'EUR', 10), ('p1', 'JPY', 20), ('p2', 'EUR', 30)")
    return database_url


@pytest.fixture
def ledger(url: str) -> Iterator[SqlLedger]:
    """A ledger over them."""
    with SqlLedger(url, accounts=WALLETS) as opened:
        yield opened


def _balances(url: str) -> dict[tuple[str, str], int]:
    return {(row[0], row[1]): int(row[2] * 100) for row in rows(url, "SELECT * FROM wallets")}


def _apply(ledger: SqlLedger, call: WebhookCall, terms: Terms = TERMS) -> Outcome:
    return ledger.apply(call, terms=terms)


def test_each_currency_has_its_own_balance(ledger: SqlLedger, url: str) -> None:
    """A bet is bound to the account that it was debited from, whatever its deposit and rollback name."""
    assert _apply(ledger, withdraw("yen", instance_id="tokyo")).balance_cents == 1500
    assert _apply(ledger, withdraw("euro", amount_cents=100)).balance_cents == 900
    assert _apply(ledger, withdraw("yen", instance_id="tokyo")).replayed
    # No account_of is asked about these.
    assert _apply(ledger, deposit("yen", amount_cents=1_000)).balance_cents == 2500
    assert _apply(ledger, rollback("euro", tx_id=None)).balance_cents == 1000
    assert _apply(ledger, claim("c", instance_id="tokyo")).balance_cents == 2800
    assert _apply(ledger, ask_balance()).balance_cents == 1000
    refused = _apply(ledger, withdraw("large", amount_cents=1_001))
    assert (refused.code, refused.balance_cents) == ("INSUFFICIENT_BALANCE", 1000)
    assert _balances(url) == {("p1", "EUR"): 1000, ("p1", "JPY"): 2800, ("p2", "EUR"): 3000}
    bet = ledger.bet("yen")
    assert bet is not None
    assert bet.account == '["p1","JPY"]'
    assert {row[0] for row in rows(url, "SELECT account FROM game_operator_calls")} == {'["p1","JPY"]', '["p1","EUR"]'}


def test_balances_and_histories_are_asked_for_by_a_text_or_a_tuple(ledger: SqlLedger) -> None:
    """The values of the key, or the account as a bet names it; what has another number of parts does not exist."""
    _apply(ledger, withdraw("yen", instance_id="tokyo"))
    assert ledger.balance(("p1", "JPY")) == ledger.balance('["p1","JPY"]') == 1500
    by_tuple, by_text = ledger.account_history(("p1", "JPY")), ledger.account_history('["p1","JPY"]')
    assert by_tuple == by_text
    assert [bet.bet_id for bet in by_tuple.open_bets] == ["yen"]
    assert [each.delta_cents for each in by_tuple.movements] == [-500]
    for unknown in (("p1",), ("p1", "EUR", "x"), "p1", '["p1", "EUR"]', '["p1","USD"]', ("p1", "eur"), ""):
        with pytest.raises(AccountNotFoundError):
            ledger.balance(unknown)
        with pytest.raises(AccountNotFoundError):
            ledger.account_history(unknown)
    with pytest.raises(AccountNotFoundError, match="the key of an account is a tuple of player_id, currency"):
        ledger.balance(("p1",))


def test_without_account_of_no_bet_is_declined(ledger: SqlLedger, url: str) -> None:
    """A wallet that forgot it answers SYSTEM_ERROR; the repeat, to one that has it, is applied."""
    for call in (withdraw(), claim(), ask_balance()):
        with pytest.raises(LedgerError, match=r"pass account_of="):
            Wallet(ledger).ledger.apply(call)
    assert rows(url, "SELECT count(*) FROM game_operator_bets") == [(0,)]
    assert _apply(ledger, withdraw()).applied
    # These are bound by their bet.
    assert ledger.apply(deposit()).applied


@pytest.mark.parametrize("player", ["p1", "nobody", LOOKALIKE, '["p1"]', "[" * 256])
def test_a_player_alone_is_unknown(ledger: SqlLedger, url: str, player: str) -> None:
    """Rollbacks and deposits of unseen bets name no currency; the tombstone is kept all the same."""
    early = _apply(ledger, deposit("b2", player_id=player))
    assert (early.code, early.balance_cents) == ("PLAYER_NOT_FOUND", None)
    undone = _apply(ledger, rollback(player_id=player))
    assert (undone.code, undone.balance_cents) == ("PLAYER_NOT_FOUND", None)
    bet = ledger.bet("b1")
    assert bet is not None
    assert bet.state == "TOMBSTONE"
    assert _apply(ledger, withdraw(player_id=player)).code in ("BET_ROLLED_BACK", "PLAYER_NOT_FOUND")
    assert _apply(ledger, withdraw()).code == "BET_ROLLED_BACK"
    assert _balances(url)["p1", "EUR"] == 1000


def test_lookalikes_in_one_batch(ledger: SqlLedger, url: str) -> None:
    """Another player's id that reads like an account neither moves it nor learns its balance."""
    rows(url, "INSERT INTO wallets VALUES (?, 'EUR', 1)", LOOKALIKE)
    assert _apply(ledger, withdraw("b1")).applied
    stranger = _apply(ledger, deposit("b1", player_id=LOOKALIKE))
    assert (stranger.code, stranger.balance_cents) == ("PLAYER_NOT_FOUND", None)
    assert _apply(ledger, withdraw("b2", player_id=LOOKALIKE, amount_cents=40)).balance_cents == 60
    assert ledger.balance((LOOKALIKE, "EUR")) == 60
    assert ledger.balance(LOOKALIKE) == 500


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["parts"]))
def test_the_bytes_of_an_account_are_pinned(vector: dict[str, Any]) -> None:
    """They are stored for good: another spelling would be another account."""
    parts, account = vector["parts"], bytes.fromhex(vector["account_utf8_hex"]).decode()
    assert account_of_parts(parts) == account
    assert parts_of_account(account, len(parts)) == tuple(parts)
    assert parts_of_account(account, len(parts) + 1) is None
    assert parts_of_account(account.replace(",", ", "), len(parts)) is None
    if any(ord(letter) > 127 for letter in account):
        assert parts_of_account(json.dumps(parts, separators=(",", ":")), len(parts)) is None


@pytest.mark.parametrize(
    ("columns", "key"),
    [
        pytest.param(
            "player_id integer, currency uuid, PRIMARY KEY (currency, player_id)", ("player_id", "currency"), id="order"
        ),
        pytest.param(
            "player_id integer, currency uuid, brand text, UNIQUE (brand, player_id, currency)",
            ("brand", "player_id", "currency"),
            id="three columns",
        ),
    ],
)
def test_types_and_indexes(url: str, columns: str, key: tuple[str, ...]) -> None:
    """Integers and uuids among them, in their one spelling; any unique index over these columns or fewer will do."""
    euro = "6f1c2f4e-0d5b-4b0e-9d0a-1f2e3d4c5b6a"
    parts = {"player_id": "7", "currency": euro, "brand": "x"}
    rows(url, f"CREATE TABLE purses (balance bigint, {columns})")
    rows(url, f"INSERT INTO purses ({', '.join(key)}, balance) VALUES ({', '.join(repr(parts[c]) for c in key)}, 1000)")
    accounts = TableAccounts(table="purses", key=key, balance="balance")
    with SqlLedger(url, accounts=accounts) as ledger:
        terms = Terms(account_of=lambda call: tuple({**parts, "player_id": call.player_id}[c] for c in key))
        assert _apply(ledger, withdraw(player_id="7"), terms).balance_cents == 500
        assert ledger.balance(tuple(parts[c] for c in key)) == 500
        for player in ("007", "+7", "8", "seven"):
            assert _apply(ledger, ask_balance(player), terms).code == "PLAYER_NOT_FOUND"
        upper = Terms(account_of=lambda call: tuple({**parts, "currency": euro.upper()}[c] for c in key))
        assert _apply(ledger, ask_balance("7"), upper).code == "PLAYER_NOT_FOUND"


def test_keys_that_cannot_tell_accounts_apart_are_refused(url: str) -> None:
    """On opening, in words; test_accounts_table.py has what is refused of each column."""
    rows(url, "CREATE TABLE purses (player_id text, currency text, balance bigint)")
    with pytest.raises(SchemaError, match="must be unique together"):
        SqlLedger(url, accounts=TableAccounts(table="purses", key=("player_id", "currency"), balance="balance"))


def test_two_rows_of_inherited_tables_are_an_error(postgres_url: str) -> None:
    """A table's unique index says nothing of the tables that inherit from it: and nothing moves."""
    rows(postgres_url, "CREATE TABLE players (id text PRIMARY KEY, balance bigint)")
    rows(postgres_url, "CREATE TABLE guests () INHERITS (players)")
    rows(postgres_url, "INSERT INTO players VALUES ('p1', 1000), ('p2', 2750)")
    rows(postgres_url, "INSERT INTO guests VALUES ('p1', 1000)")
    accounts = TableAccounts(table="players", key="id", balance="balance")
    with SqlLedger(postgres_url, accounts=accounts) as ledger:
        for call in (withdraw(), ask_balance(), claim()):
            with pytest.raises(LedgerError, match="two rows or more for the account 'p1'"):
                ledger.apply(call)
        with pytest.raises(LedgerError, match="two rows or more"):
            ledger.balance("p1")
        assert ledger.bet("b1") is None
        assert ledger.apply(withdraw(player_id="p2")).balance_cents == 2250
