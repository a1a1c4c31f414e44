"""Keys of several columns: a player has a balance for each currency."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from game_operator.errors import AccountNotFoundError, ConfigurationError, LedgerError, SchemaError
from game_operator.ledger import AsyncSqlLedger, MemoryLedger, Outcome, SqlLedger, TableAccounts, Terms
from game_operator.ledger.api import account_of_parts, parts_of_account
from game_operator.ledger.engine.address import path_of
from game_operator.models.webhooks import BalanceCall, WebhookCall
from game_operator.wallet import Wallet
from tests.support.callers import KINDS, CallerKind
from tests.support.calls import ask_balance, claim, deposit, rollback, withdraw
from tests.support.sqlite_tables import sqlite_url_in

pytestmark = [
    pytest.mark.drawn(6, kind=[str(kind) for kind in KINDS if kind.name not in ("sqlite3", "psycopg async")]),
]

Run = Callable[..., list[tuple[Any, ...]]]

WALLETS = TableAccounts(table="wallets", key=("player_id", "currency"), balance="balance", unit="units")
VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "account-keys.json").read_text())

#: A player who is called like the account of another.
LOOKALIKE = '["p1","EUR"]'


def _by_currency(call: Any) -> tuple[str, ...]:
    """Return the account of a call; a player-balance names the player alone, whose first currency is euro."""
    in_yen = not isinstance(call, BalanceCall) and call.instance_id == "tokyo"
    return call.player_id, "JPY" if in_yen else "EUR"


TERMS = Terms(account_of=_by_currency)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of each kind, with balances by player and currency."""
    return _database(request.param, request, tmp_path)


def _database(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    url = sqlite_url_in(tmp_path, request) if kind == "sqlite" else request.getfixturevalue("postgres_url")
    _run(
        url,
        "CREATE TABLE wallets (player_id varchar(256) NOT NULL, currency varchar(256) NOT NULL, "
        "balance numeric(14, 2) NOT NULL, PRIMARY KEY (player_id, currency))",
    )
    _run(url, "INSERT INTO wallets VALUES ('p1', 'EUR', 10), ('p1', 'JPY', 20), ('p2', 'EUR', 30)")
    return url


def _run(url: str, statement: str, *parameters: Any) -> list[Any]:
    """Run a statement of the operator's, committed at once."""
    connect: Any = sqlite3.connect if url.startswith("sqlite") else psycopg.connect
    with closing(connect(path_of(url) if url.startswith("sqlite") else url)) as connection:
        placed = statement if url.startswith("sqlite") else statement.replace("?", "%s")
        cursor = connection.execute(placed, parameters)
        rows = cursor.fetchall() if cursor.description else []
        connection.commit()
        return list(rows)


@pytest.fixture
def ledger(url: str) -> Iterator[SqlLedger]:
    """A ledger over them."""
    with SqlLedger(url, accounts=WALLETS) as opened:
        yield opened


def _balances(url: str) -> dict[tuple[str, str], int]:
    return {(row[0], row[1]): int(row[2] * 100) for row in _run(url, "SELECT * FROM wallets")}


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
    assert {row[0] for row in _run(url, "SELECT account FROM game_operator_calls")} == {'["p1","JPY"]', '["p1","EUR"]'}


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


@pytest.mark.parametrize(
    "answer",
    ["p1", LOOKALIKE, ("p1",), ("p1", "EUR", "x"), ("p1", ""), ("p1", 7), ("p1", "x" * 257), ["p1", "EUR"], None, ()],
    ids=repr,
)
@pytest.mark.drawn(7)
def test_what_account_of_answers_is_checked(ledger: SqlLedger, url: str, answer: Any) -> None:
    """Another number of parts is the program's mistake: taken for an unknown player, it would decline the bet."""
    wrong = Terms(account_of=lambda call: answer)
    for call in (withdraw(), claim(), ask_balance()):
        with pytest.raises(LedgerError, match="a tuple of 2 texts"):
            _apply(ledger, call, wrong)
    assert _run(url, "SELECT count(*) FROM game_operator_calls") == [(0,)]
    assert _apply(ledger, withdraw()).applied


def test_without_account_of_no_bet_is_declined(ledger: SqlLedger, url: str) -> None:
    """A wallet that forgot it answers SYSTEM_ERROR; the repeat, to one that has it, is applied."""
    for call in (withdraw(), claim(), ask_balance()):
        with pytest.raises(LedgerError, match=r"pass account_of="):
            Wallet(ledger).ledger.apply(call)
    assert _run(url, "SELECT count(*) FROM game_operator_bets") == [(0,)]
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
    _run(url, "INSERT INTO wallets VALUES (?, 'EUR', 1)", LOOKALIKE)
    assert _apply(ledger, withdraw("b1")).applied
    stranger = _apply(ledger, deposit("b1", player_id=LOOKALIKE))
    assert (stranger.code, stranger.balance_cents) == ("PLAYER_NOT_FOUND", None)
    assert _apply(ledger, withdraw("b2", player_id=LOOKALIKE, amount_cents=40)).balance_cents == 60
    assert ledger.balance((LOOKALIKE, "EUR")) == 60
    assert ledger.balance(LOOKALIKE) == 500


def test_keys_of_one_column_take_arrays_for_texts(url: str) -> None:
    """Where a key is one text, a player may be called like an array, and no tuple is taken for that player."""
    _run(url, "CREATE TABLE players (id varchar(40) PRIMARY KEY, balance bigint)")
    _run(url, "INSERT INTO players VALUES (?, 1000)", LOOKALIKE)
    players = TableAccounts(table="players", key="id", balance="balance")
    for accounts, prefix in ((players, "game_operator_"), (None, "own_")):
        with SqlLedger(url, accounts=accounts, table_prefix=prefix) as ledger:
            if accounts is None:
                ledger.open_account(LOOKALIKE)
            else:
                assert ledger.apply(withdraw(player_id=LOOKALIKE)).balance_cents == 500
            with pytest.raises(LedgerError, match=r"account_of answered .*, a text"):
                ledger.apply(withdraw("b2"), terms=TERMS)
            with pytest.raises(AccountNotFoundError, match="is one text"):
                ledger.balance(("p1", "EUR"))
            with pytest.raises(AccountNotFoundError, match="is one text"):
                ledger.account_history(("p1", "EUR"))
    memory = MemoryLedger({LOOKALIKE: 1000})
    with pytest.raises(LedgerError, match="a text"):
        memory.apply(withdraw(), terms=TERMS)
    assert memory.balance(LOOKALIKE) == 1000


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


def test_the_vectors_come_back_from_the_tables(ledger: SqlLedger, url: str) -> None:
    """Bytewise, as they were stored, and each its own row."""
    pairs = [vector for vector in VECTORS if len(vector["parts"]) == 2]
    for number, vector in enumerate(pairs):
        player, currency = vector["parts"]
        if (player, currency) != ("p1", "EUR"):
            _run(url, "INSERT INTO wallets VALUES (?, ?, 10)", player, currency)
        terms = Terms(account_of=lambda _call, key=(player, currency): key)  # type: ignore[misc]
        assert _apply(ledger, withdraw(f"b{number}", player_id=player), terms).balance_cents == 500
        assert ledger.balance((player, currency)) == 500
        stored = _run(url, "SELECT account FROM game_operator_bets WHERE bet_id = ?", f"b{number}")[0][0]
        assert stored.encode().hex() == vector["account_utf8_hex"]


def test_parts_have_up_to_256_characters(ledger: SqlLedger, url: str) -> None:
    """Four bytes each; they fit in PostgreSQL's indexes, for nothing is escaped."""
    player, currency = "🎲" * 256, "".join(chr(0x1F300 + number) for number in range(256))
    _run(url, "INSERT INTO wallets VALUES (?, ?, 10)", player, currency)
    terms = Terms(account_of=lambda call: (call.player_id, currency))
    assert _apply(ledger, withdraw(player_id=player), terms).balance_cents == 500
    assert _apply(ledger, deposit(player_id=player), terms).applied


@pytest.mark.parametrize(
    ("columns", "key"),
    [
        pytest.param(
            "player_id integer, currency uuid, PRIMARY KEY (currency, player_id)", ("player_id", "currency"), id="order"
        ),
        pytest.param("player_id integer PRIMARY KEY, currency uuid", ("player_id", "currency"), id="unique by fewer"),
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
    _run(url, f"CREATE TABLE purses (balance bigint, {columns})")
    _run(url, f"INSERT INTO purses ({', '.join(key)}, balance) VALUES ({', '.join(repr(parts[c]) for c in key)}, 1000)")
    accounts = TableAccounts(table="purses", key=key, balance="balance")
    with SqlLedger(url, accounts=accounts) as ledger:
        terms = Terms(account_of=lambda call: tuple({**parts, "player_id": call.player_id}[c] for c in key))
        assert _apply(ledger, withdraw(player_id="7"), terms).balance_cents == 500
        assert ledger.balance(tuple(parts[c] for c in key)) == 500
        for player in ("007", "+7", "8", "seven"):
            assert _apply(ledger, ask_balance(player), terms).code == "PLAYER_NOT_FOUND"
        upper = Terms(account_of=lambda call: tuple({**parts, "currency": euro.upper()}[c] for c in key))
        assert _apply(ledger, ask_balance("7"), upper).code == "PLAYER_NOT_FOUND"


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        pytest.param("player_id text, currency text, balance bigint", "must be unique together", id="not unique"),
        pytest.param(
            "player_id text, currency text, x int, balance bigint, UNIQUE (player_id, currency, x)",
            "must be unique together",
            id="unique by more",
        ),
        pytest.param("player_id text PRIMARY KEY, balance bigint", "no column currency", id="no such column"),
        pytest.param(
            "player_id text, currency numeric, balance bigint, PRIMARY KEY (player_id, currency)",
            r"key purses\.currency has the type",
            id="a type that is no key",
        ),
    ],
)
def test_keys_that_cannot_tell_accounts_apart_are_refused(url: str, columns: str, problem: str) -> None:
    """On opening, in words."""
    _run(url, f"CREATE TABLE purses ({columns})")
    with pytest.raises(SchemaError, match=problem):
        SqlLedger(url, accounts=TableAccounts(table="purses", key=("player_id", "currency"), balance="balance"))


def test_a_list_of_columns_is_refused_with_the_tuple_to_pass() -> None:
    """A list can change after the check, so it is no key; the message names what is."""
    listed: Any = ["player_id", "currency"]
    with pytest.raises(ConfigurationError, match=r'a tuple of columns, not list .* key=\("player_id", "currency"\)'):
        TableAccounts(table="purses", key=listed, balance="balance")


def test_an_account_is_named_by_its_whole_key(url: str) -> None:
    """Somebody who asks for the player alone is shown the form."""
    _run(url, "CREATE TABLE purses (player_id text, currency text, balance bigint, PRIMARY KEY (player_id, currency))")
    accounts = TableAccounts(table="purses", key=("player_id", "currency"), balance="balance")
    named = pytest.raises(AccountNotFoundError, match=r"""'\["PLAYER_ID","CURRENCY"\]', or a tuple""")
    with SqlLedger(url, accounts=accounts) as ledger, named:
        ledger.balance("ann")


@pytest.mark.parametrize("key", [(), ("id",), ("id", "id"), ["id", "currency"], ("id", ""), ("id", 'a"b'), ("id", 7)])
def test_keys_that_are_none(key: Any) -> None:
    """Two or more different columns, in a tuple."""
    with pytest.raises(ConfigurationError):
        TableAccounts(table="wallets", key=key, balance="balance")


def test_shared_is_a_flag() -> None:
    """It stands with the table, and says nothing else."""
    assert not WALLETS.shared
    assert TableAccounts(table="wallets", key="id", balance="balance", shared=True).shared
    with pytest.raises(ConfigurationError, match="shared must be True or False"):
        TableAccounts(table="wallets", key="id", balance="balance", shared="no")  # type: ignore[arg-type]


def test_money_is_conserved_under_concurrency(url: str) -> None:
    """Eight threads on two ledgers, two currencies of one player, and each bet from two threads at once."""
    with SqlLedger(url, accounts=WALLETS) as one, SqlLedger(url, accounts=WALLETS) as two:
        wallets = [Wallet(ledger, account_of=_by_currency) for ledger in (one, two)]

        def play(thread: int) -> None:
            for number in range(12):
                wallet, player = wallets[(thread + number) % 2], f"p{1 + number % 2}"
                where = "tokyo" if player == "p1" and number % 3 else None
                bet = f"bet {thread // 2} {number}"
                wallet.withdraw(withdraw(bet, player, 10 + number, instance_id=where))
                wallet.deposit(deposit(bet, player, 20 * (number % 2)))

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(play, range(8)))
    moved = _run(
        url,
        "SELECT coalesce(to_account, from_account), "
        "sum(CASE WHEN to_account IS NULL THEN -amount_cents ELSE amount_cents END) "
        "FROM game_operator_postings GROUP BY 1",
    )
    opening = {("p1", "EUR"): 1000, ("p1", "JPY"): 2000, ("p2", "EUR"): 3000}
    cents = {parts_of_account(account, 2): int(delta) for account, delta in moved}
    assert _balances(url) == {key: opening[key] + cents[key] for key in opening}
    assert _run(url, "SELECT count(*) FROM game_operator_bets WHERE state = 'CLOSED'") == [(4 * 12,)]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_in_the_callers_transaction(request: pytest.FixtureRequest, tmp_path: Path, kind: CallerKind) -> None:
    """Over every kind of connection."""
    url = _database(kind.database, request, tmp_path)
    with kind.open(url, accounts=WALLETS) as caller:
        caller.begin()
        assert caller.apply(withdraw(instance_id="tokyo"), TERMS).balance_cents == 1500
        assert caller.apply(deposit(), TERMS).balance_cents == 2750
        with pytest.raises(LedgerError, match="account_of"):
            caller.apply(withdraw("b2"))
        caller.commit()
    assert _balances(url) == {("p1", "EUR"): 1000, ("p1", "JPY"): 2750, ("p2", "EUR"): 3000}


async def test_the_ledger_of_asyncio(url: str) -> None:
    """The same, awaited."""
    async with AsyncSqlLedger(url, accounts=WALLETS) as ledger:
        assert (await ledger.apply(withdraw(instance_id="tokyo"), terms=TERMS)).balance_cents == 1500
        assert await ledger.balance(("p1", "JPY")) == 1500


def test_two_rows_of_inherited_tables_are_an_error(postgres_url: str) -> None:
    """A table's unique index says nothing of the tables that inherit from it: and nothing moves."""
    _run(postgres_url, "CREATE TABLE players (id text PRIMARY KEY, balance bigint)")
    _run(postgres_url, "CREATE TABLE guests () INHERITS (players)")
    _run(postgres_url, "INSERT INTO players VALUES ('p1', 1000), ('p2', 2750)")
    _run(postgres_url, "INSERT INTO guests VALUES ('p1', 1000)")
    accounts = TableAccounts(table="players", key="id", balance="balance")
    with SqlLedger(postgres_url, accounts=accounts) as ledger:
        for call in (withdraw(), ask_balance(), claim()):
            with pytest.raises(LedgerError, match="two rows or more for the account 'p1'"):
                ledger.apply(call)
        with pytest.raises(LedgerError, match="two rows or more"):
            ledger.balance("p1")
        assert ledger.bet("b1") is None
        assert ledger.apply(withdraw(player_id="p2")).balance_cents == 2250


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("VIEW v AS SELECT * FROM players", "is a view"),
        ("VIEW v AS SELECT id, balance * 2 AS balance FROM players", "is a view"),
        ("MATERIALIZED VIEW v AS SELECT * FROM players", "is a materialized view"),
        ("SEQUENCE v", "is no table"),
    ],
    ids=["simple", "product", "copy", "sequence"],
)
def test_what_is_no_table_is_refused(postgres_url: str, statement: str, problem: str) -> None:
    """On opening: which of a view's rows are one, only the text of its query says."""
    _run(postgres_url, "CREATE TABLE players (id text PRIMARY KEY, balance bigint)")
    _run(postgres_url, f"CREATE {statement}")
    with pytest.raises(SchemaError, match=f"v {problem}: name the table behind it"):
        SqlLedger(postgres_url, accounts=TableAccounts(table="v", key="id", balance="balance"))


def test_views_of_sqlite_are_refused_as_views(sqlite_url: str) -> None:
    """With or without triggers that would update what is behind it."""
    _run(sqlite_url, "CREATE TABLE wallets (id TEXT PRIMARY KEY, balance INTEGER)")
    _run(sqlite_url, "CREATE VIEW players AS SELECT * FROM wallets")
    with pytest.raises(SchemaError, match="players is a view, and SQLite cannot update one by itself"):
        SqlLedger(sqlite_url, accounts=TableAccounts(table="players", key="id", balance="balance"))
