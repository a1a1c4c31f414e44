"""The operator's rules in the transaction of a bet: they see every bet before it, and what fails is one call alone."""

import asyncio
import contextvars
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Generator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing, suppress
from decimal import Decimal
from functools import partial
from multiprocessing import get_context
from typing import Any

import pytest

from game_operator.errors import LedgerError, LedgerUnavailableError
from game_operator.ledger import AsyncSqlLedger, SqlLedger, TableAccounts, Terms
from game_operator.models.webhooks import Reply, WebhookCall, WithdrawCall
from game_operator.profile import Profile
from game_operator.wallet import AsyncWallet, JoinedWallet, Wallet
from tests.support.calls import claim, deposit, rollback, withdraw
from tests.support.joined_wallets import OWN, WALLETS, Opened, Statements, WalletKind, asked
from tests.support.raw_sql import rows, run

pytestmark = pytest.mark.outside

_Script = Generator[Any, Any, Any]
_KINDS = [*OWN, *WALLETS]
_JOINED = tuple(map(str, WALLETS))


@pytest.fixture(params=_KINDS, ids=str)
def kind(request: pytest.FixtureRequest) -> WalletKind:
    """Each kind of wallet, over each kind of connection."""
    chosen: WalletKind = request.param
    return chosen


@pytest.fixture
def url(kind: WalletKind, url_of: Callable[[str], str]) -> str:
    """A database of that kind, with tables of the operator's."""
    found = url_of(kind.database)
    run(found, "CREATE TABLE journal (entry varchar(80) PRIMARY KEY)")
    run(found, "CREATE TABLE wagers (player_id varchar(80), cents bigint)")
    run(found, "CREATE TABLE players (id varchar(80) PRIMARY KEY, balance bigint)")
    run(found, "INSERT INTO players VALUES ('p1', 1000)")
    return found


def _open(url: str, cents: int = 1_000, player: str = "p1") -> None:
    with SqlLedger(url) as ledger:
        ledger.open_account(player, Decimal(cents).scaleb(-2))


def _journal(url: str) -> list[str]:
    return sorted(row[0] for row in rows(url, "SELECT entry FROM journal"))


def _writes(entry: str) -> str:
    return f"INSERT INTO journal VALUES ('{entry}')"


# --- a limit that many bets at once reach -----------------------------------------------------------------------------

_BETS, _ALLOWED, _WAGER = 64, 10, 100
#: What a player has wagered so far: by the ledger's own table, and by one of the operator's that ``after`` fills.
_BY_BETS = "SELECT coalesce(sum(wager_cents), 0) FROM game_operator_bets WHERE state <> 'DECLINED' AND account = "
_BY_OWN = "SELECT coalesce(sum(cents), 0) FROM wagers WHERE player_id = "
_LIMITS = pytest.mark.parametrize(
    "wagered", [_BY_BETS, _BY_OWN], ids=["the ledger's bets", "a table of the operator's"]
)


def _limited(opened: Opened, wagered: str) -> Any:
    def may_bet(does: Statements, call: WithdrawCall, _account: Any, connection: Any) -> _Script:
        found = yield does.execute(connection, f"{wagered}'{call.player_id}'")
        return "LIMIT_EXCEEDED" if found[0][0] + call.amount_cents > _ALLOWED * _WAGER else None

    def after(does: Statements, call: WithdrawCall, outcome: Any, connection: Any) -> _Script:
        cents = call.amount_cents if outcome.applied else 0
        yield does.execute(connection, f"INSERT INTO wagers VALUES ('{call.player_id}', {cents})")

    return opened.wallet(after if wagered == _BY_OWN else None, may_bet=may_bet)


def _placed(name: str, url: str, wagered: str, bets: list[WithdrawCall]) -> list[str]:
    """Return the codes of *bets*, placed at once; in a process of its own, too."""
    (kind,) = (each for each in _KINDS if each.name == name)
    with kind.open(url, patience_seconds=30.0) as opened:
        wallet = _limited(opened, wagered)
        answered = dict(zip(bets, map(_said, opened.at_once(wallet, bets)), strict=True))
        # A machine that is busy lets SQLite's drivers wait longer than they do: the service sends the call again.
        while late := [bet for bet, said in answered.items() if "database is locked" in said]:
            answered |= zip(late, map(_said, opened.at_once(wallet, late)), strict=True)
    return list(answered.values())


def _said(reply: Reply | Exception) -> str:
    return str(reply.code) if isinstance(reply, Reply) else repr(reply)


def _assert_ten(url: str, codes: list[str], player: str) -> None:
    assert Counter(codes) == {"None": _ALLOWED, "LIMIT_EXCEEDED": _BETS - _ALLOWED}, player
    assert _balance(url, player) == (_BETS - _ALLOWED) * _WAGER


def _bets_of(player: str) -> list[WithdrawCall]:
    return [withdraw(f"{player} {number}", player, _WAGER) for number in range(_BETS)]


@_LIMITS
@pytest.mark.drawn(5, kind=_JOINED)
def test_a_limit_that_ten_bets_fill_holds_for_64_at_once(kind: WalletKind, url: str, wagered: str) -> None:
    """Calls that share a commit see each other, too: exactly ten are accepted (docs/decisions/0014, check 5)."""
    _open(url, _BETS * _WAGER)
    _assert_ten(url, _placed(kind.name, url, wagered, _bets_of("p1")), "p1")


@pytest.mark.parametrize("kind", OWN, ids=str)
def test_bets_of_a_wallet_without_rules_are_seen_too(kind: WalletKind, url: str) -> None:
    """Two wallets share a ledger, and one has a rule: it finds the tables as the account's balance says."""
    _open(url, _BETS * _WAGER)

    def may_bet(does: Statements, call: WithdrawCall, account: Any, connection: Any) -> _Script:
        found = yield does.execute(connection, f"{_BY_BETS}'{call.player_id}'")
        return None if found[0][0] == _BETS * _WAGER - account.balance_cents else "NOT_SEEN"

    class Both:
        def __init__(self, opened: Opened) -> None:
            self.ruled, self.free = opened.wallet(may_bet=may_bet), opened.wallet()

        def withdraw(self, call: WithdrawCall) -> Any:
            return (self.ruled if call.bet_id and call.bet_id[-1] in "02468" else self.free).withdraw(call)

    with kind.open(url) as opened:
        replies = opened.at_once(Both(opened), _bets_of("p1"))
    assert [reply.code for reply in replies if isinstance(reply, Reply)] == [None] * _BETS


@pytest.mark.parametrize("runs", [1, pytest.param(50, marks=[pytest.mark.torture, pytest.mark.timeout(900)])])
@_LIMITS
@pytest.mark.drawn(3)
def test_the_limit_holds_for_two_processes(kind: WalletKind, url: str, wagered: str, runs: int) -> None:
    """The same again and again, in each run half of the bets by either process."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        for number in range(runs):
            player = f"p{number}"
            _open(url, _BETS * _WAGER, player)
            bets = _bets_of(player)
            halves = processes.map(partial(_placed, kind.name, url, wagered), (bets[::2], bets[1::2]))
            _assert_ten(url, [code for half in halves for code in half], player)
    with SqlLedger(url) as ledger:
        assert ledger.verify().sound


# --- what it writes, and how it fails ---------------------------------------------------------------------------------


class OddError(Exception):
    """An error of the operator's own."""


def _raises(does: Statements, connection: Any, entry: str) -> _Script:
    yield does.execute(connection, _writes(entry))
    raise OddError


def _asks_another_ledger(does: Statements, connection: Any, entry: str) -> _Script:
    yield does.execute(connection, _writes(entry))
    raise LedgerUnavailableError("The other ledger is away.")


def _answers_junk(does: Statements, connection: Any, entry: str) -> _Script:
    yield does.execute(connection, _writes(entry))
    return "SYSTEM_ERROR"


def _fails(does: Statements, connection: Any, entry: str) -> _Script:
    for _ in range(2):
        yield does.execute(connection, _writes(entry))


def _swallows(does: Statements, connection: Any, entry: str) -> _Script:
    with suppress(Exception):
        yield from _fails(does, connection, entry)


def _commits(does: Statements, connection: Any, entry: str) -> _Script:
    yield does.commit(connection)
    with suppress(Exception):
        yield does.execute(connection, _writes(entry))


def _rolls_back(does: Statements, connection: Any, entry: str) -> _Script:
    yield does.execute(connection, _writes(entry))
    yield does.rollback(connection)


_FAILURES = [_raises, _asks_another_ledger, _answers_junk, _fails, _swallows, _commits, _rolls_back]
_NAMES = [each.__name__.strip("_") for each in _FAILURES]


@pytest.mark.parametrize("where", ["may_bet", "after"])
@pytest.mark.parametrize("fails", _FAILURES, ids=_NAMES)
@pytest.mark.drawn(8, kind=_JOINED)
@pytest.mark.drawn(8, kind=tuple(map(str, OWN)))
def test_what_fails_is_one_call_alone(kind: WalletKind, url: str, where: str, fails: Callable[..., _Script]) -> None:
    """Of sixteen bets at once two fail: nothing of them stays, the others are committed, and their repeat is asked."""
    if where == "after" and fails is _answers_junk:
        return  # Nobody looks at the answer of after.
    _open(url)
    broken: set[str | None] = {"b3", "b11"}

    def code(does: Statements, call: WithdrawCall, _known: Any, connection: Any) -> _Script:
        if call.bet_id in broken:
            return (yield from fails(does, connection, f"{call.bet_id} broken"))
        yield does.execute(connection, _writes(call.bet_id or ""))
        return None

    bets = [withdraw(f"b{number}", amount_cents=10) for number in range(16)]
    with kind.open(url) as opened:
        wallet = opened.wallet(code) if where == "after" else opened.wallet(may_bet=code)
        replies = opened.at_once(wallet, bets)
        failed = {bet.bet_id for bet, reply in zip(bets, replies, strict=True) if not isinstance(reply, Reply)}
        if fails is _swallows and kind.database == "sqlite":
            # There the statement alone fails, and nothing is lost.
            assert failed == set()
            return
        assert failed == broken, replies
        kept = {bet_id for bet_id in broken if _ledger_bet(url, bet_id)}
        # Committed by the operator's own code is what stood before it: a call that after was asked about.
        assert kept == (broken if fails is _commits and where == "after" and _may_commit(kind) else set())
        assert _balance(url) == 1_000 - 10 * (14 + len(kept))
        assert {entry for entry in _journal(url) if "broken" not in entry} == {f"b{n}" for n in range(16)} - broken
        if fails not in (_commits, _rolls_back):
            assert not [entry for entry in _journal(url) if "broken" in entry]
        was, broken = set(broken), set()
        again = opened.at_once(wallet, [bet for bet in bets if bet.bet_id in was])
    assert [reply.code for reply in again if isinstance(reply, Reply)] == [None, None]
    assert _balance(url) == 1_000 - 160


def _may_commit(kind: WalletKind) -> bool:
    """Return whether a connection of this kind lets its user commit in the middle."""
    return not kind.name.startswith("django") and kind.name != "psycopg, transaction()"


def _ledger_bet(url: str, bet_id: str | None) -> bool:
    return bool(rows(url, "SELECT 1 FROM {p}bets WHERE bet_id = ?", bet_id))


def _balance(url: str, player: str = "p1") -> int:
    return int(rows(url, "SELECT balance_cents FROM {p}accounts WHERE account = ?", player)[0][0])


@pytest.mark.drawn(4, kind=_JOINED)
def test_what_it_writes_stays_with_its_answer(kind: WalletKind, url: str) -> None:
    """A refusal is committed with what was written before it. It is asked at check 5 alone, and before funds."""
    _open(url)
    asked: list[str | None] = []

    def may_bet(does: Statements, call: WithdrawCall, account: Any, connection: Any) -> _Script:
        asked.append(call.bet_id)
        yield does.execute(connection, _writes(f"{call.bet_id} {account.balance_cents}"))
        return "PLAYER_BLOCKED" if call.bet_id == "blocked" else None

    with kind.open(url) as opened:
        wallet = opened.wallet(may_bet=may_bet)
        calls: list[WebhookCall] = [
            withdraw("blocked"),
            withdraw("blocked"),
            withdraw("b1"),
            withdraw("b1"),
            withdraw("dear", amount_cents=501),
            withdraw("b2", "nobody"),
            deposit("b1"),
            claim(),
            rollback("gone", "p1", None),
            withdraw("gone"),
        ]
        replies = [opened.call(wallet, call).code for call in calls]
    assert replies[:6] == ["PLAYER_BLOCKED", "PLAYER_BLOCKED", None, None, "INSUFFICIENT_BALANCE", "PLAYER_NOT_FOUND"]
    assert asked == ["blocked", "b1", "dear"]
    assert _journal(url) == ["b1 1000", "blocked 1000", "dear 500"]


@pytest.mark.parametrize("name", ["may_bet", "after"])
def test_code_that_nothing_awaits_is_refused_when_the_wallet_is_made(sqlite_url: str, name: str) -> None:
    """Found out with the first bet, every bet would be SYSTEM_ERROR."""

    async def code(*_: object) -> None: ...

    with SqlLedger(sqlite_url) as ledger:
        for code_given, match in ((code, f"{name} is async"), ("x", f"{name} must be a function")):
            with pytest.raises(TypeError, match=match):
                Wallet(ledger, **{name: code_given})  # type: ignore[arg-type]  # That is the point.
            with pytest.raises(TypeError, match=match):
                JoinedWallet(ledger, closing, **{name: code_given})  # type: ignore[arg-type]  # As above.


# --- deadlocks, and waiting -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nested", [False, True], ids=["in the transaction", "in a savepoint of the operator's"])
@pytest.mark.parametrize("where", ["may_bet", "after"])
@pytest.mark.parametrize("kind", [each for each in _KINDS if each.database == "postgres"], ids=str)
@pytest.mark.drawn(4, kind=_JOINED)
def test_a_deadlock_of_two_bets_repeats_one_of_them(kind: WalletKind, url: str, where: str, nested: bool) -> None:
    """Two bets lock rows of the operator's in opposite order (40P01): both are answered, nothing twice."""
    _open(url)
    with SqlLedger(url) as ledger:
        ledger.open_account("p2", Decimal(10))
    run(url, "INSERT INTO wagers VALUES ('p1', 0), ('p2', 0)")
    soon = "ALTER DATABASE %I SET deadlock_timeout = ''50ms''"
    run(url, f"DO $$ BEGIN EXECUTE format('{soon}', current_database()); END $$")
    met = threading.Barrier(2)

    def code(does: Statements, call: WithdrawCall, _known: Any, connection: Any) -> _Script:
        for number, player in enumerate(("p1", "p2") if call.player_id == "p1" else ("p2", "p1")):
            if number and not met.broken:
                with suppress(threading.BrokenBarrierError):
                    met.wait(5)
                met.abort()  # Repeated, it has nobody to meet.
            way = does.nested if nested and number else does.execute
            yield way(connection, f"UPDATE wagers SET cents = cents + 1 WHERE player_id = '{player}'")
        return None

    with kind.open(url) as one, kind.open(url) as other, ThreadPoolExecutor(2) as threads:
        bets = [threads.submit(_alone, each, code, where, player) for each, player in ((one, "p1"), (other, "p2"))]
        assert [bet.result().code for bet in bets] == [None, None]
    assert [row[0] for row in rows(url, "SELECT cents FROM wagers")] == [2, 2]
    assert (_balance(url), _ledger_bet(url, "of p2")) == (500, True)


def _alone(opened: Opened, code: Any, where: str, player: str) -> Reply:
    try:
        wallet = opened.wallet(code) if where == "after" else opened.wallet(may_bet=code)
        return opened.call(wallet, withdraw(f"of {player}", player))
    finally:
        opened.leave()


# --- whose context ----------------------------------------------------------------------------------------------------

_TENANT: contextvars.ContextVar[str] = contextvars.ContextVar("tenant")


@pytest.mark.parametrize("awaits", [False, True], ids=["plain", "async"])
async def test_each_task_is_asked_in_its_own_context(database_url: str, awaits: bool) -> None:
    """Whoever commits, ``may_bet`` and ``after`` see the context variables of their call."""
    seen: list[tuple[str, str]] = []

    def note(call: Any, *_: object) -> None:
        seen.append((call.player_id, _TENANT.get()))

    async def note_awaited(call: Any, *_: object) -> None:
        await asyncio.sleep(0)
        note(call)

    code: Any = note_awaited if awaits else note
    async with AsyncSqlLedger(database_url) as ledger:
        wallet = AsyncWallet(ledger, may_bet=code, after=code)
        names = [f"p{number}" for number in range(8)]
        for name in names:
            await ledger.open_account(name, Decimal(10))

        async def bet(name: str) -> None:
            _TENANT.set(name)
            assert (await wallet.withdraw(withdraw(name, name))).code is None

        await asyncio.gather(*map(bet, names))
    assert sorted(seen) == sorted((name, name) for name in names * 2)


# --- after moves the balance ------------------------------------------------------------------------------------------

_PLAYERS = TableAccounts(table="players", key="id", balance="balance", unit="cents")


@pytest.mark.drawn(4, kind=_JOINED)
def test_the_balance_that_after_leaves_is_answered_and_kept(kind: WalletKind, url: str) -> None:
    """By a statement on the player's row. Below zero, too: that refuses no deposit and no refund."""
    moves = iter((-100, 7, 0, -5_000, 3, 1))

    def after(does: Statements, _call: Any, _outcome: Any, connection: Any) -> _Script:
        yield does.execute(connection, f"UPDATE players SET balance = balance + {next(moves)} WHERE id = 'p1'")

    calls: list[tuple[WebhookCall, str | None, int]] = [
        (withdraw("b1"), None, 400),
        (deposit("b1", amount_cents=100), None, 507),
        (withdraw("b2", amount_cents=7), None, 500),
        (rollback("b2", "p1", None), None, -4_493),
        (withdraw("b3"), "INSUFFICIENT_BALANCE", -4_490),
    ]
    profile = Profile(duplicate_reply="verbatim")
    with kind.open(url, accounts=_PLAYERS) as opened:
        wallet, plain = opened.wallet(after, profile=profile), opened.wallet(profile=profile)
        first = [opened.call(wallet, call) for call, *_ in calls]
        assert [(reply.code, reply.balance_cents) for reply in first] == [tuple(known) for _, *known in calls]
        times = [reply.timestamp or 0 for reply in first]
        assert times == sorted(times)
        # Word for word, whatever became of the balance since; the withdraw that was rolled back has another answer.
        del calls[2], first[2]
        assert [opened.call(plain, call) for call, *_ in calls] == first
        # Of a repeat that is answered by today's balance, today's is what after leaves.
        assert opened.call(opened.wallet(after), withdraw("b3")).balance_cents == -4_489


def test_a_call_that_after_joins_moves_the_balance(database_url: str) -> None:
    """By the ledger itself, over the connection: a bonus for each bet."""
    _open(database_url)
    with SqlLedger(database_url) as ledger:

        def after(call: Any, outcome: Any, connection: Any) -> None:
            if outcome.applied:
                assert ledger.apply(claim(f"bonus {call.bet_id}"), connection=connection).applied

        wallet = Wallet(ledger, after=after, profile=Profile(duplicate_reply="verbatim"))
        reply = wallet.withdraw(withdraw())
        assert reply.balance_cents == 800
        assert wallet.withdraw(withdraw()) == reply
        assert ledger.balance("p1") == 800
        assert ledger.verify().sound


@pytest.mark.parametrize("kind", asked("session"), ids=str)
def test_an_object_of_the_operators_never_takes_the_debit_back(kind: WalletKind, url: str) -> None:
    """Loaded by may_bet and changed by after, it would write back the balance from before the bet."""
    from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

    class Base(DeclarativeBase):
        pass

    class Player(Base):
        __tablename__ = "players"
        id: Mapped[str] = mapped_column(primary_key=True)
        balance: Mapped[int]

    kept = []

    def may_bet(_does: Statements, _call: Any, account: Any, session: Any) -> _Script:
        player = yield session.get(Player, "p1")
        assert player.balance == account.balance_cents
        kept.append(player)  # A session forgets by itself what nobody else holds.

    def after(_does: Statements, _call: Any, _outcome: Any, session: Any) -> _Script:
        player = yield session.get(Player, "p1")
        player.balance += 30

    with kind.open(url, accounts=_PLAYERS) as opened:
        wallet = opened.wallet(after, may_bet=may_bet)
        assert opened.call(wallet, withdraw()).balance_cents == 530
        assert opened.call(opened.wallet(), withdraw()).balance_cents == 530


def test_terms_of_a_call_that_joins_by_hand(sqlite_url: str) -> None:
    """``ledger.apply(call, connection=…, terms=…)`` answers the balance that ``after`` leaves, too."""
    run(sqlite_url, "CREATE TABLE players (id varchar(80) PRIMARY KEY, balance bigint)")
    run(sqlite_url, "INSERT INTO players VALUES ('p1', 1000)")
    terms = Terms(
        may_bet=lambda _call, _account, connection: connection.execute("COMMIT") and None,
        after=lambda _call, _outcome, connection: connection.execute("UPDATE players SET balance = balance + 1"),
    )
    with SqlLedger(sqlite_url, accounts=_PLAYERS) as ledger:
        path = sqlite_url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            # Without a savepoint of its own, the call's statements would be committed one by one.
            with pytest.raises(LedgerError, match=r"may_bet\(\) has ended the transaction"):
                ledger.apply(withdraw(), terms=terms, connection=connection)
            assert not connection.in_transaction
            assert ledger.bet("b1") is None
            connection.execute("BEGIN IMMEDIATE")
            outcome = ledger.apply(withdraw(), terms=Terms(after=terms.after), connection=connection)
            connection.execute("COMMIT")
        assert (outcome.balance_cents, ledger.balance("p1")) == (501, 501)
