"""
The books as they stand in the database, read by SQL of the tests' own, and what must be true of them.

Nothing here uses the package: it is the model that the ledger is judged by. Money is conserved if each balance is the
sum of its postings; a bet is sound if its postings are those of its state; an answer is honest if the books bear it
out, and its balance is one that the account really had at that time.
"""

import contextlib
import sqlite3
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import psycopg

from game_operator.models.webhooks import BalanceCall, DepositCall, MovingCall, RollbackCall
from tests.support.traffic import STRANGER, Answer, Story

PREFIX = "game_operator_"


class Call(NamedTuple):
    """A row of the calls."""

    player_id: str
    account: str
    bet_id: str | None
    action: str
    amount_cents: int
    code: str | None
    at_millis: int


class Bet(NamedTuple):
    """A row of the bets."""

    player_id: str
    account: str
    wager_cents: int
    won_cents: int | None
    state: str
    withdraw_tx_id: str | None
    deposit_tx_id: str | None


class Posting(NamedTuple):
    """A row of the postings."""

    from_account: str | None
    to_account: str | None
    amount_cents: int
    operation: str
    tx_id: str
    at_millis: int


class Books(NamedTuple):
    """All rows, as plain values."""

    accounts: Mapping[str, int]
    calls: Mapping[tuple[str, str], Call]
    bets: Mapping[str, Bet]
    postings: Sequence[Posting]


def execute(url: str, statement: str) -> list[tuple[Any, ...]]:
    """Run one statement on a connection of its own and return its rows."""
    if url.startswith("sqlite:///"):
        with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)) as connection, connection:
            return connection.execute(statement).fetchall()
    with psycopg.connect(url, autocommit=True) as server:
        cursor = server.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def read_books(url: str) -> Books:
    """Read all rows."""

    def rows(table: str, columns: str, order: str = "1") -> list[tuple[Any, ...]]:
        return execute(url, f"SELECT {columns} FROM {PREFIX}{table} ORDER BY {order}")

    calls = rows("calls", "operation, tx_id, player_id, account, bet_id, action, amount_cents, code, at_millis")
    bets = rows("bets", "bet_id, player_id, account, wager_cents, won_cents, state, withdraw_tx_id, deposit_tx_id")
    postings = rows("postings", "from_account, to_account, amount_cents, operation, tx_id, at_millis", "id")
    return Books(
        dict(rows("accounts", "account, balance_cents")),
        {(row[0], row[1]): Call(*row[2:]) for row in calls},
        {row[0]: Bet(*row[1:]) for row in bets},
        [Posting(*row) for row in postings],
    )


def problems(books: Books, stories: Iterable[Story] = (), answers: Iterable[Answer] = ()) -> list[str]:
    """Return what is wrong with the books, by themselves, by what was sent, and by what was answered; [] if nothing."""
    stories, answers = list(stories), list(answers)
    found = [*_of_money(books), *_of_bets(books), *_of_stories(books, stories), *_of_answers(books, answers)]
    if stories:
        found += _of_phantoms(books, stories)
    return [*found, *_of_times(books, answers)]


def _of_money(books: Books) -> Iterable[str]:
    sums: Counter[str] = Counter()
    for posting in books.postings:
        if (posting.from_account is None) == (posting.to_account is None):
            yield f"{posting} is not between an account and the house"
        if posting.from_account is not None:
            sums[posting.from_account] -= posting.amount_cents
        if posting.to_account is not None:
            sums[posting.to_account] += posting.amount_cents
    for account, cents in books.accounts.items():
        if cents != sums[account]:
            yield f"account {account} holds {cents}, and its postings sum to {sums[account]}"
        if cents < 0:
            yield f"account {account} is below zero: {cents}"
    yield from (f"{account} has postings and is no account" for account in sums if account not in books.accounts)
    twice = [key for key, times in Counter((p.operation, p.tx_id) for p in books.postings).items() if times > 1]
    yield from (f"{key} moved money more than once" for key in twice)
    for posting in books.postings:
        call = books.calls.get((posting.operation, posting.tx_id))
        if call is None or call.code is not None:
            yield f"{posting} belongs to no call that was answered SUCCESS, but to {call}"
        elif call.account not in (posting.from_account, posting.to_account):
            yield f"{posting} moves another account than {call}"
        elif posting.operation != "rollback" and call.amount_cents not in (posting.amount_cents, -posting.amount_cents):
            yield f"{posting} moves another amount than {call}"


def _of_bets(books: Books) -> Iterable[str]:
    """Each bet has the postings of its state, and no others: at most one debit and one resolution."""
    moved: dict[str | None, list[tuple[str, int]]] = defaultdict(list)
    for posting in books.postings:
        call = books.calls.get((posting.operation, posting.tx_id))
        if call is not None and not (posting.operation == "deposit" and call.action != "BET"):
            moved[call.bet_id].append((posting.operation, posting.amount_cents))
    for bet_id, bet in books.bets.items():
        taken, given = ("withdraw", bet.wager_cents), ("deposit", bet.won_cents or 0)
        by_state = {"CLOSED": [given, taken], "ROLLED_BACK": [("rollback", bet.wager_cents), taken]}
        by_state |= {"OPEN": [taken], "SPENT": [taken], "TOMBSTONE": [], "DECLINED": []}
        expected = [movement for movement in by_state[bet.state] if movement[1]]
        if sorted(moved[bet_id]) != sorted(expected):
            yield f"bet {bet_id} is {bet.state} and moved {sorted(moved[bet_id])}, not {expected}"
        if bet.state == "CLOSED" and ("deposit", bet.deposit_tx_id) not in books.calls:
            yield f"bet {bet_id} was closed by a call that is not there"
    orphans = [bet_id for bet_id in moved if bet_id is not None and bet_id not in books.bets]
    yield from (f"money moved for bet {bet_id}, which is not there" for bet_id in orphans)


def _of_stories(books: Books, stories: Sequence[Story]) -> Iterable[str]:
    """Once all was answered, each bet is where its calls may lead, and each claim is paid."""
    for story in stories:
        bet = books.bets.get(story.bet_id)
        if story.ends and (bet is None or bet.state not in story.ends):
            yield f"bet {story.bet_id} is {bet and bet.state}, and may be {sorted(story.ends)}"
        for call in story.calls:
            claimed = isinstance(call, DepositCall) and call.is_claim
            if claimed and getattr(books.calls.get(("deposit", call.tx_id or "")), "code", "missing") is not None:
                yield f"the claim {call.tx_id} was not paid"


def _of_phantoms(books: Books, stories: Sequence[Story]) -> Iterable[str]:
    """No money moves but for a call that was sent."""
    sent = {(call.operation, call.tx_id) for story in stories for call in story.calls}
    for posting in books.postings:
        if posting.operation not in ("open", "adjust") and (posting.operation, posting.tx_id) not in sent:
            yield f"{posting} was caused by no call that was sent"


def _of_answers(books: Books, answers: Sequence[Answer]) -> Iterable[str]:
    for answer in answers:
        problem = _of_answer(books, answer)
        if problem:
            yield f"{answer.call} was answered {answer.code or 'SUCCESS'}, but {problem}"


_UNDONE = ("ROLLED_BACK", "TOMBSTONE")
#: The states that a bet may be in after an answer; where there is none, any, and for a claim always.
_STATES: Mapping[str, Mapping[str | None, tuple[str, ...]]] = {
    "withdraw": {
        None: ("OPEN", "SPENT", "CLOSED", "ROLLED_BACK"),
        "INSUFFICIENT_BALANCE": ("DECLINED",),
        "BET_ROLLED_BACK": _UNDONE,
    },
    "deposit": {
        None: ("CLOSED",),
        "BET_NOT_FOUND": (),
        "BET_ROLLED_BACK": _UNDONE,
        "BET_ALREADY_CLOSED": ("CLOSED", "SPENT"),
    },
    "rollback": {
        None: ("ROLLED_BACK",),
        "BET_NOT_FOUND": ("TOMBSTONE", "DECLINED"),
        "BET_ALREADY_CLOSED": ("CLOSED",),
    },
    "player-balance": {None: ()},
}


def _of_answer(books: Books, answer: Answer) -> str:
    call, code = answer.call, answer.code
    if code == "PLAYER_NOT_FOUND":
        return "" if call.player_id not in books.accounts else "the player has an account"
    if code == "SYSTEM_ERROR":
        return ""
    if code not in _STATES[call.operation]:
        return "that is no answer to it"
    if answer.balance_cents is None:
        return "it tells no balance"
    return "" if isinstance(call, BalanceCall) else _of_moving(books, call, code)


def _of_moving(books: Books, call: MovingCall, code: str | None) -> str:
    record, bet = books.calls.get((call.operation, call.tx_id or "")), books.bets.get(call.bet_id or "")
    state, states = "unseen" if bet is None else bet.state, _STATES[call.operation][code]
    is_claim = isinstance(call, DepositCall) and call.is_claim
    if code is None and not isinstance(call, RollbackCall):
        if record is None or record.code is not None or record.amount_cents != call.amount_cents:
            return f"the call is kept as {record}"
        if record.bet_id != call.bet_id and not is_claim:
            return f"the call is kept as {record}"
    if is_claim:
        return ""
    if code is None and isinstance(call, DepositCall) and bet is not None and bet.won_cents != call.amount_cents:
        return f"the bet is {bet}"
    return f"the bet is {state}" if states and state not in states else ""


class _Timeline:
    """What an account held when: balances by the times they were reached."""

    def __init__(self) -> None:
        self.millis: list[int] = []
        self.cents: list[int] = []

    def move(self, at_millis: int, delta_cents: int) -> None:
        self.millis.append(at_millis)
        self.cents.append((self.cents[-1] if self.cents else 0) + delta_cents)

    def held(self, cents: int, at_millis: int) -> bool:
        """Return whether *cents* is a balance that *at_millis* may tell: reached by then, and not left before."""
        last = bisect_right(self.millis, at_millis)
        first = max(bisect_left(self.millis, at_millis) - 1, 0)
        return cents in self.cents[first:last]


def _of_times(books: Books, answers: Sequence[Answer]) -> Iterable[str]:
    """A later time never goes with an older balance: each answer tells a balance that stood at its time."""
    lines: dict[str, _Timeline] = defaultdict(_Timeline)
    for account in books.accounts:
        opened = books.calls.get(("open", account))
        if opened is not None and not opened.amount_cents:
            lines[account].move(opened.at_millis, 0)
    for posting in books.postings:
        account = posting.from_account or posting.to_account or ""
        line = lines[account]
        if line.millis and posting.at_millis <= line.millis[-1]:
            yield f"{posting} has no later time than the posting before it, {line.millis[-1]}"
        line.move(posting.at_millis, posting.amount_cents if posting.to_account else -posting.amount_cents)
    for answer in answers:
        if answer.balance_cents is None or answer.call.player_id == STRANGER:
            continue
        assert answer.at_millis is not None
        if not lines[answer.call.player_id].held(answer.balance_cents, answer.at_millis):
            yield f"{answer} tells a balance that did not stand at that time"
