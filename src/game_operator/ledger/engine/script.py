"""
What a ledger does in one transaction, written once for all databases, sync and async, own and joined.

Each script is a generator: it yields the steps it needs done (statements to execute, questions to the operator), is
sent what came of them, and returns the result. A driver performs the steps and commits or rolls back.
"""

import asyncio
import inspect
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from game_operator.errors import LedgerError, LedgerUnavailableError, UnknownSourceError, shown
from game_operator.ledger.api import Account, BetRecord, CallRecord, Outcome
from game_operator.ledger.rules.book import Book, Changes, Item, Needs
from game_operator.models.webhooks import BalanceCall, WebhookCall, WithdrawCall
from game_operator.money import Cents

T = TypeVar("T")
#: The kinds of database.
Kind: TypeAlias = Literal["sqlite", "postgres"]
#: Work that is written once for threads and for asyncio. It yields what each call of a driver has returned, which
#: ``at_once`` sends back as it is, and ``awaited`` once it was awaited.
Work: TypeAlias = Generator[Any, Any, T]
#: What a driver sends back for a statement.
Rows: TypeAlias = Sequence[Sequence[Any]]
Result: TypeAlias = Outcome | Exception

#: Rows are loaded twice at most, except where they name further ones.
_MOST_LOADS = 10
_CODE = re.compile(r"[A-Z0-9_]{1,64}")
#: Codes that would promise what a stored refusal cannot keep.
_NO_REFUSAL = frozenset({"SYSTEM_ERROR", "INVALID_SIGNATURE"})


class ConflictError(Exception):
    """Another machine stored the same call or bet meanwhile: begin again, from what is committed now."""


class UnwritableError(Exception):
    """The server takes no changes now, as a standby: the next connection may find another one."""

    sqlstate = "25006"


class Execute(NamedTuple):
    """
    A statement, with ``?`` for each parameter; the rows it returns are sent back.

    With *many*, *parameters* is a list of rows, and the number of rows changed is sent back.
    """

    sql: str
    parameters: Sequence[Any]
    many: bool = False


class Together(NamedTuple):
    """Statements that need not wait for each other's rows; the rows of each are sent back."""

    statements: tuple[Execute, ...]


class AskOperator(NamedTuple):
    """
    Let the operator's own code answer in a transaction; its answer is sent back.

    Attributes:
        name: What the operator calls that code.
        answer: Called with the connection.
    """

    name: str
    answer: Callable[[Any], Any]

    def answered(self, connection: Any) -> Any:
        """Return the answer, where nothing awaits."""
        answer = self.answer(connection)
        if inspect.isawaitable(answer):
            if inspect.iscoroutine(answer):
                answer.close()
            raise LedgerError(
                f"The answer of {self.name} is to be awaited, and nothing awaits here. Pass a plain function, or use "
                "an AsyncWallet or an AsyncJoinedWallet."
            )
        return answer

    def answering(self, connection: Any, *, awaits: bool) -> Work[Any]:
        """Return the answer, awaited if it is to be and may be."""
        try:
            return (yield self.answer(connection)) if awaits else self.answered(connection)
        except LedgerUnavailableError as raised:  # Of another ledger: for this one it would go to all who wait.
            raise LedgerError(f"{self.name} failed: {raised}") from raised
        except asyncio.CancelledError as raised:  # Likewise, if it is not this task that was cancelled.
            task = asyncio.current_task() if awaits else None
            if task is None or task.cancelling():
                raise
            raise LedgerError(f"{self.name} awaited a task that was cancelled.") from raised

    def breach(self) -> LedgerError:
        """Return the error for code that has ended the transaction, or swallowed what undoes it."""
        return LedgerError(
            f"{self.name} ran in the ledger's transaction and has ended it (commit, rollback, close), "
            "or swallowed the error of a statement, which undoes all before it. Whether the call was kept is unknown: "
            "repeat it. Put a statement that may fail into a savepoint: with connection.transaction(): …"
        )


Step: TypeAlias = Execute | Together | AskOperator
#: What yields steps, is sent what came of each, and returns the result.
Script: TypeAlias = Generator[Step, Any, T]


#: The operator's own code that is asked about calls, by its names.
MAY_BET: Final = "may_bet"
AFTER: Final = "after"
_NAME = "game_operator_lent"
SAVE = f"SAVEPOINT {_NAME}"
RELEASE = f"RELEASE SAVEPOINT {_NAME}"


class Loaded(NamedTuple):
    """
    The rows a batch needs, and the clock as it was read while they were locked.

    With a withdraw in the batch, *stop_code* is what it is refused with while bets are stopped.
    """

    accounts: Iterable[Account]
    bets: Iterable[BetRecord]
    calls: Iterable[CallRecord]
    clock_millis: int
    stop_code: str | None = None


class KnownSources(Protocol):
    """The sources whose calls are taken."""

    def knows(self, source: str) -> bool:
        """Return whether calls of *source* are taken, as far as is known without looking."""

    def settle(self, source: str) -> Script[LedgerError | None]:
        """Register *source* if it is the first; return the error if its calls are refused."""


class Dialect(Protocol):
    """
    How one kind of database loads and stores.

    One whose accounts have keys of several parts has ``key_parts``, and one whose balances move by more than a cent
    ``step_cents``.
    """

    @property
    def sources(self) -> KnownSources:
        """The sources whose calls are taken."""

    def load(self, needs: Needs) -> Script[Loaded]:
        """Lock the accounts, then read bets and calls: rows of a locked account stand still."""

    def store(self, source: str, changes: Changes, *, was: Mapping[str, Account]) -> Script[None]:
        """Write *changes*; raise ConflictError if any row is there already. *was* is the accounts as loaded."""

    def balance_now(self, account: str) -> Script[int | None]:
        """Return a balance in cents as this transaction sees it; None if it is not there, or nobody else moves it."""

    def restate(self, source: str, record: CallRecord, balance_cents: int) -> Script[None]:
        """Keep another balance as the one that a stored call is answered with."""


def apply_items(items: Sequence[Item], dialect: Dialect) -> Script[list[Result]]:
    """
    Apply *items*, all of one source, one after another; return an outcome or an exception for each.

    An item whose account_of raises fails alone: nothing of it is written. What may_bet or after raises passes through
    and undoes all, so an item with one of them comes alone. Of an unknown source, every call but player-balance is
    refused; deposits and rollbacks are kept as anomalies.
    """
    source = items[0].terms.source
    refused: LedgerError | None = None
    if not dialect.sources.knows(source) and any(_needs_source(item) for item in items):
        refused = yield from dialect.sources.settle(source)
    needs, failed = _needs_of(items, Needs(source, key_parts=getattr(dialect, "key_parts", 1)), refused)
    book, clock_millis = yield from _loaded_book(items, failed, needs, dialect)
    was = dict(book.accounts)
    if isinstance(refused, UnknownSourceError):
        for item in items:
            book.note_unknown_source(item.call, item.terms, clock_millis)
    results: list[Result] = []
    for index, item in enumerate(items):
        results.append(failed.get(index) or (yield from apply_item(book, item, clock_millis)))
    if book.changes:
        yield from dialect.store(source, book.changes, was=was)
    for index, ((call, terms, *_), result) in enumerate(zip(items, results, strict=True)):
        if terms.after is not None and isinstance(result, Outcome) and not isinstance(call, BalanceCall):
            is_verbatim = result.replayed and terms.rules.duplicate_reply == "verbatim"
            account = None if is_verbatim else book.account_key(call, terms)
            ask = AskOperator(AFTER, partial(terms.after, call, result))
            results[index] = yield from run_after(ask, result, account, book.changes.calls, source, dialect)
    return results


def run_after(
    ask: AskOperator,
    outcome: Outcome,
    account: str | None,
    stored: Sequence[CallRecord],
    source: str,
    dialect: Dialect,
) -> Script[Outcome]:
    """
    Let the operator's own statements run after those of a call; return the outcome to answer with.

    They may have moved *account*, which is still locked: then its balance is answered as it is now, and kept with the
    *stored* call. The time stays that of the posting. Without an account, the outcome is answered as it is.
    """
    yield ask
    if account is None or outcome.balance_cents is None:
        return outcome
    cents = yield from dialect.balance_now(account)
    if cents is None or cents == outcome.balance_cents:
        return outcome
    for record in stored:
        if not record.held:  # What a tombstone holds was not answered.
            yield from dialect.restate(source, record, cents)
    return replace(outcome, balance_cents=Cents(cents))


def completed(
    items: Sequence[Item], done: Mapping[int, Result], apply: Callable[[Sequence[Item]], Work[list[Result]]]
) -> Work[list[Result]]:
    """Return the results of *items* in order: those that are *done*, by index, and what *apply* does with the rest."""
    rest = [item for index, item in enumerate(items) if index not in done]
    others = iter((yield from apply(rest)) if rest else ())
    return [done[index] if index in done else next(others) for index in range(len(items))]


def _needs_of(items: Sequence[Item], needs: Needs, refused: LedgerError | None) -> tuple[Needs, dict[int, Exception]]:
    failed: dict[int, Exception] = {}
    for index, item in enumerate(items):
        if refused is not None and _needs_source(item):
            failed[index] = refused
            continue
        try:
            needs.add(item.call, item.terms)
        except Exception as raised:  # The operator's account_of: this item fails, the others do not.
            failed[index] = raised
            given: object = item.call
            if not isinstance(given, WebhookCall):
                failed[index] = TypeError(
                    "call must be a WithdrawCall, DepositCall, RollbackCall or BalanceCall, not "
                    f"{type(given).__name__} {shown(given)}. Make one, or give the body of a webhook to a "
                    "WebhookReceiver."
                )
    return needs, failed


def _needs_source(item: Item) -> bool:
    # What is not a call is refused as such, before its source.
    return getattr(item.call, "operation", "player-balance") != "player-balance"


def _loaded_book(
    items: Sequence[Item], failed: dict[int, Exception], needs: Needs, dialect: Dialect
) -> Script[tuple[Book, int]]:
    """Load until all is there: a bet may name another account than its player's, and its withdraw's tx_id."""
    sound = [item for index, item in enumerate(items) if index not in failed] if failed else items
    read_again = False
    for _ in range(_MOST_LOADS):
        loaded = yield from dialect.load(needs)
        step_cents = getattr(dialect, "step_cents", 1)
        book = Book(needs.source, key_parts=needs.key_parts, step_cents=step_cents)
        book.accounts = {account.key: account for account in loaded.accounts}
        book.stop_code = loaded.stop_code
        book.bets = {bet.bet_id: bet for bet in loaded.bets}
        book.calls = {(call.operation, call.tx_id): call for call in loaded.calls}
        if not read_again and book.calls and _is_torn(book, needs):
            read_again = True
            continue
        accounts = {book.account_key(item.call, item.terms) for item in sound}
        calls = {each for item in sound for each in book.identities_named_by_bet(item.call, item.terms)}
        if accounts <= needs.accounts and calls <= needs.calls:
            return book, loaded.clock_millis
        # Rows are read again too: until its account was locked, a bet may have been settled elsewhere.
        needs.accounts |= accounts
        needs.calls |= calls
    raise LedgerError("account_of answers something else each time it is asked about a call; it must answer alike.")


def _is_torn(book: Book, needs: Needs) -> bool:
    """
    Return whether a call is there and its bet is not.

    Bets are read before calls, and where no account is locked, since there is none, another machine may commit in
    between. Read again both are there; or the books are damaged indeed.
    """
    return any(
        call.bet_id in needs.bets
        and call.bet_id not in book.bets
        and (call.operation != "deposit" or call.action == "BET")  # A claim has no bet.
        for call in book.calls.values()
    )


def apply_item(book: Book, item: Item, clock_millis: int) -> Script[Result]:
    """Apply *item* to *book*; what account_of raises is returned, and nothing is noted; what may_bet raises, raised."""
    call, terms = item.call, item.terms
    try:
        account = book.asks_may_bet(call, terms)
    except Exception as raised:  # The operator's account_of: this item fails, the others do not.
        return raised
    refusal = None
    if account is not None:
        assert terms.may_bet is not None
        assert isinstance(call, WithdrawCall)
        refusal = _checked((yield AskOperator(MAY_BET, partial(terms.may_bet, call, account))))
    try:
        return book.apply(call, terms, clock_millis=clock_millis, refusal=refusal)
    except Exception as raised:  # As above.
        return raised


def may_refuse(code: object) -> bool:
    """Return whether a withdraw can be refused with *code*: LIMIT_EXCEEDED and such, or the operator's own."""
    return isinstance(code, str) and _CODE.fullmatch(code) is not None and code not in _NO_REFUSAL


def _checked(refusal: object) -> str | None:
    if refusal is None:
        return None
    if may_refuse(refusal):
        return str(refusal)
    raise LedgerError(f"may_bet answered {shown(refusal)}; it must answer None or a code of A-Z, 0-9 and _")


def drive(script: Script[T], perform: Callable[[Any], Any]) -> T:  # Any: a ledger in memory has no statements.
    """Run *script* to its end and return its result; what performing a step raises is raised in the script."""
    try:
        step = next(script)
        while True:
            try:
                answer = perform(step)
            except Exception as raised:  # It is the script that knows whether one item fails, or all.
                step = script.throw(raised)
            else:
                step = script.send(answer)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]  # It is what the script returns.


def driven(script: Script[T], perform: Callable[[Step], Work[Any]]) -> Work[T]:
    """Run *script* as ``drive`` does, where to perform a step is work."""
    try:
        step = next(script)
        while True:
            try:
                answer = yield from perform(step)
            except Exception as raised:  # It is the script that knows whether one item fails, or all.
                step = script.throw(raised)
            else:
                step = script.send(answer)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]  # It is what the script returns.


def at_once(work: Work[T]) -> T:
    """Do *work* whose calls block."""
    try:
        answer = next(work)
        while True:
            answer = work.send(answer)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]  # It is what the work returns.


async def awaited(work: Work[T]) -> T:
    """Do *work* whose calls are awaited; it is also thrown what cancels it."""
    try:
        called = next(work)
        while True:
            try:
                # Asked so because inspect.isawaitable costs a call for each step of each ledger call.
                answer = await called if hasattr(called, "__await__") else called
            except BaseException as raised:  # CancelledError, too, is for the work to handle.
                called = work.throw(raised)
            else:
                called = work.send(answer)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]  # It is what the work returns.
