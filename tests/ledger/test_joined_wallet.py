"""JoinedWallet: the call and the operator's statements are committed before the answer, or SUCCESS is not answered."""

import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from game_operator.errors import LedgerError, UnknownSourceError
from game_operator.models.webhooks import WithdrawCall
from tests.support.calls import ask_balance, deposit, rollback, withdraw
from tests.support.documents import ROOT
from tests.support.joined_wallets import WALLETS, Opened, Statements, WalletKind, asked
from tests.support.ledgers import funded
from tests.support.postgres import PostgresServer
from tests.support.raw_sql import run

_NUMBERS = count(1)
_RUNS = Generator[Any, Any, None]

# A refusal of the server's as it comes, as often as it is told: a sequence is not rolled back.
_ON_POSTGRES = """
CREATE SEQUENCE refusals;
CREATE TABLE trouble (sqlstate text NOT NULL, times integer NOT NULL);
CREATE FUNCTION refuse(state text, times bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('refusals') <= times THEN RAISE EXCEPTION USING ERRCODE = state, MESSAGE = 'refused for a test'; END IF;
END $$;
CREATE FUNCTION refuse_late() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.sqlstate = 'terminated' THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
    PERFORM refuse(NEW.sqlstate, NEW.times);
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON trouble DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION refuse_late();
"""


@pytest.fixture(scope="module")
def shared_database(postgres: PostgresServer) -> Iterator[str]:
    """One PostgreSQL database for all these tests."""
    url = postgres.create_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE journal (entry varchar(80) PRIMARY KEY)")
        connection.execute(_ON_POSTGRES.encode())
    yield url
    postgres.drop_database(url)


@pytest.fixture(scope="module", params=WALLETS, ids=str)
def kind(request: pytest.FixtureRequest) -> WalletKind:
    """Each kind of transaction."""
    chosen: WalletKind = request.param
    return chosen


@pytest.fixture(scope="module")
def opened(
    kind: WalletKind, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    """A ledger and transactions of that kind."""
    if kind.database == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('joined') / 'wallet.db'}"
        run(url, "CREATE TABLE journal (entry varchar(80) PRIMARY KEY)")
    else:
        url = request.getfixturevalue("shared_database")
    with kind.open(url) as made:
        yield made


class Player(NamedTuple):
    """A player with 10.00 and a bet of 5.00, and what is written beside it."""

    opened: Opened
    id: str
    bet: WithdrawCall

    @property
    def held(self) -> tuple[int, bool]:
        """The balance in cents, and whether the bet is stored."""
        ledger, portal = self.opened.ledger, self.opened.portal
        ask = portal.call if portal else lambda work, *arguments: work(*arguments)
        return ask(ledger.balance, self.id), ask(ledger.bet, self.bet.bet_id) is not None

    def entries(self) -> list[str]:
        """What the operator's statements left behind."""
        rows: list[str] = []

        def look(does: Statements, _call: Any, _outcome: Any, connection: Any) -> _RUNS:
            found = yield does.execute(connection, f"SELECT entry FROM journal WHERE entry LIKE '{self.id}:%'")
            rows.extend(sorted(row[0].partition(":")[2] for row in found))

        late = rollback(f"{self.id} looked at", self.id, None)
        self.opened.call(self.opened.wallet(look), late)
        return rows

    def writes(self, entry: str) -> str:
        """A statement that leaves *entry*."""
        return f"INSERT INTO journal VALUES ('{self.id}:{entry}')"

    def play(self, after: Any, **settings: Any) -> Any:
        """Return the reply to the bet."""
        return self.opened.call(self.opened.wallet(after, **settings), self.bet)


@pytest.fixture
def player(opened: Opened) -> Player:
    """A player of this test's own."""
    name = f"player {next(_NUMBERS)}"
    arguments = (name, Decimal("10.00"))
    if opened.portal:
        opened.portal.call(opened.ledger.open_account, *arguments)
    else:
        opened.ledger.open_account(*arguments)
    return Player(opened, name, withdraw(f"bet of {name}", name))


def _writing(player: Player, entry: str = "mine") -> Any:
    def after(does: Statements, call: Any, outcome: Any, connection: Any) -> _RUNS:
        yield does.execute(connection, player.writes(f"{call.operation} {outcome.code or outcome.applied} {entry}"))

    return after


@pytest.mark.drawn(6)
def test_the_call_and_own_statements_are_committed_before_the_answer(player: Player) -> None:
    """Both are there once SUCCESS was answered; refusals and repeats run them too, player-balance does not."""
    wallet = player.opened.wallet(_writing(player))
    assert player.opened.call(wallet, player.bet).balance_cents == 500
    assert player.held == (500, True)
    assert player.opened.call(player.opened.wallet(_writing(player, "again")), player.bet).balance_cents == 500
    large = withdraw(f"{player.id} large", player.id, 501)
    assert player.opened.call(wallet, large).code == "INSUFFICIENT_BALANCE"
    assert player.opened.call(wallet, ask_balance(player.id)).balance_cents == 500
    assert player.opened.call(wallet, deposit(player.bet.bet_id, player.id)).balance_cents == 1750
    assert player.entries() == [
        "deposit True mine",
        "withdraw False again",
        "withdraw INSUFFICIENT_BALANCE mine",
        "withdraw True mine",
    ]


def test_an_error_in_a_savepoint_of_its_own_may_be_swallowed(player: Player) -> None:
    """The way to do without a statement: psycopg's transaction(), SQLAlchemy's begin_nested(), Django's atomic()."""

    def after(does: Statements, _call: Any, _outcome: Any, connection: Any) -> _RUNS:
        yield does.nested(connection, player.writes("once"))
        with suppress(Exception):
            yield does.nested(connection, player.writes("once"))
        yield does.execute(connection, player.writes("more"))

    assert player.play(after).balance_cents == 500
    assert (player.held, player.entries()) == ((500, True), ["more", "once"])


class OddError(Exception):
    """An error of the operator's own."""


_ASKING = [*asked("transaction()"), *asked("psycopg async"), *asked("session, psycopg"), *asked("session, asyncpg")]
_ASKING += asked("django, postgres")


@pytest.mark.parametrize("kind", _ASKING, ids=str, indirect=True, scope="module")
@pytest.mark.parametrize("late", [False, True], ids=["in a statement", "at commit"])
@pytest.mark.parametrize(
    ("sqlstate", "times", "runs", "is_kept"),
    [
        pytest.param("40001", 2, 3, True, id="two serialization failures"),
        pytest.param("40P01", 1, 2, True, id="a deadlock"),
        pytest.param("40001", 3, 3, False, id="serialization failures without end"),
        pytest.param("55P03", 1, 1, False, id="a lock that is not available"),
    ],
)
@pytest.mark.drawn(10)
def test_only_what_postgresql_asks_to_repeat_is_repeated(
    player: Player, sqlstate: str, times: int, runs: int, is_kept: bool, late: bool
) -> None:
    """The whole block, at most three times: nothing of an attempt that failed is left."""
    seen = []
    refuse = f"INSERT INTO trouble VALUES ('{sqlstate}', {times})"
    if not late:
        refuse = f"SELECT refuse('{sqlstate}', {times})"

    def after(does: Statements, _call: Any, outcome: Any, connection: Any) -> _RUNS:
        seen.append(outcome.applied)
        if len(seen) == 1:
            yield does.execute(connection, "SELECT setval('refusals', 1, false)")
        yield does.execute(connection, player.writes("mine"))
        yield does.execute(connection, refuse)

    if is_kept:
        assert player.play(after).balance_cents == 500
    else:
        with pytest.raises(Exception, match="refused for a test"):
            player.play(after)
    assert seen == [True] * runs
    assert player.held == ((500, True) if is_kept else (1000, False))
    assert player.entries() == (["mine"] if is_kept else [])


@pytest.mark.parametrize(
    "kind", asked("transaction()") + asked("session, asyncpg"), ids=str, indirect=True, scope="module"
)
def test_a_connection_that_is_lost_at_commit_is_doubt(player: Player) -> None:
    """Whether it was committed nobody can say: one attempt, the driver's own error, and the repeat finds out."""
    runs = []

    def after(does: Statements, _call: Any, _outcome: Any, connection: Any) -> _RUNS:
        runs.append(1)
        yield does.execute(connection, "INSERT INTO trouble VALUES ('terminated', 0)")

    with pytest.raises(Exception, match=r"(?i)terminating connection|connection (is|was) (lost|closed)") as failed:
        player.play(after)
    assert not isinstance(failed.value, LedgerError)
    assert (len(runs), player.held) == (1, (1000, False))
    assert player.play(_writing(player)).balance_cents == 500


class _Swallowing:
    """A context manager that swallows what it is left with."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __enter__(self) -> Any:
        return self._inner.__enter__()

    def __exit__(self, *failed: Any) -> bool:
        self._inner.__exit__(*failed)
        return True

    async def __aenter__(self) -> Any:
        return await self._inner.__aenter__()

    async def __aexit__(self, *failed: Any) -> bool:
        await self._inner.__aexit__(*failed)
        return True


_TWO = [each for each in WALLETS if each.name in ("sqlite3", "sqlalchemy async session, asyncpg")]


@pytest.mark.parametrize("kind", _TWO, ids=str, indirect=True, scope="module")
def test_a_manager_that_swallows_is_a_failure(player: Player) -> None:
    """Rolled back and silent, it would let the call be answered."""

    def after(_does: Statements, _call: Any, _outcome: Any, _connection: Any) -> _RUNS:
        raise OddError
        yield  # type: ignore[unreachable]  # It makes a generator of it.

    def transaction() -> _Swallowing:
        return _Swallowing(player.opened.transaction())

    with pytest.raises(LedgerError, match=r"swallowed the exception of a failed call"):
        player.play(after, transaction=transaction)
    assert player.held == (1000, False)
    assert player.play(_writing(player), transaction=transaction).balance_cents == 500


@pytest.mark.parametrize(
    "kind", asked("psycopg, transaction()") + asked("sqlite3"), ids=str, indirect=True, scope="module"
)
def test_an_anomaly_is_kept_with_the_transaction_or_not_at_all(player: Player) -> None:
    """``ledger.keep_anomaly(connection=…)`` belongs to the caller's transaction."""
    ledger, body = player.opened.ledger, player.id.encode()
    for fails in (True, False):

        @contextmanager
        def own(fails: bool = fails) -> Iterator[Any]:
            with player.opened.transaction() as connection:
                yield connection
                if fails:
                    raise OddError

        try:
            with own() as connection:
                ledger.keep_anomaly("deposit", "unreadable", body, source="kept", connection=connection)
        except OddError:
            assert fails
        kept = [each for each in ledger.anomalies(source="kept") if each.body == body]
        assert len(kept) == (0 if fails else 1)


@pytest.mark.parametrize("name", ["sqlite3", "psycopg", "psycopg async", "sqlalchemy async connection, aiosqlite"])
def test_a_deposit_of_an_unknown_source_is_kept_beside_the_transaction(name: str, url_of: Callable[[str], str]) -> None:
    """The wallet was made before its ledger knew any source. The operator's transaction is rolled back."""
    kind = next(each for each in WALLETS if each.name == name)
    url = url_of(kind.database)
    with kind.open(url) as opened, funded(url) as other:
        wallet = opened.wallet(source="live")
        other.add_source("another")
        with pytest.raises(UnknownSourceError, match="it knows 'another'"):
            opened.call(wallet, deposit("b1"))
        assert [(each.kind, each.source, each.bet_id) for each in other.anomalies()] == [
            ("unknown_source", "live", "b1")
        ]
        assert other.balance("p1") == 1_000


_EXAMPLES = sorted((ROOT / "examples").glob("own_transaction_*.py"))


@pytest.mark.artefact
@pytest.mark.outside
@pytest.mark.parametrize("example", _EXAMPLES, ids=lambda example: str(example.stem))
def test_an_example_prints_the_same_on_postgresql(example: Path, postgres_url: str) -> None:
    """The second statement fails, nothing of the call remains, and the repeat is no second debit."""
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    command = [sys.executable, "-W", "error", str(example), postgres_url]
    ran = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=50, check=False)
    # The server of the tests runs without fsync, which the ledger warns of.
    assert [line for line in ran.stderr.splitlines() if not line.startswith("PostgreSQL runs with")] == []
    printed = ran.stdout.splitlines()
    promised = [line.removeprefix("# ") for line in example.read_text().partition("\n# Prints:\n")[2].splitlines()]
    # The example that needs a server begins by saying so when it has none.
    assert printed == promised[-len(printed) :]
    assert len(printed) == 5
