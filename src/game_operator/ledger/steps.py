"""
How everything that a ledger does is written: as steps. Read this first.

A ledger does the same for threads and for asyncio, in SQLite and in PostgreSQL, in its own transactions and in the
operator's. So what it does is written once, as generators. Each yields the steps that it needs done: a statement, a
question to the operator's code, or any call, such as one that commits. It is sent what came of each, and returns its
result. Whoever runs it performs the steps: ``run`` calls, and ``run_async`` awaits what its calls return::

    def balance(account: str) -> Steps[int]:
        rows: Rows = yield Execute("SELECT balance_cents FROM accounts WHERE account = ?", (account,))
        return rows[0][0]

What goes into one transaction is given as a callable that returns its steps, because a transaction may begin anew.
"""

import asyncio
import inspect
from collections.abc import Callable, Generator, Sequence
from functools import partial
from inspect import GEN_CLOSED, getgeneratorstate
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from game_operator.errors import LedgerError, LedgerUnavailableError

T = TypeVar("T")
#: The kinds of database.
Kind: TypeAlias = Literal["sqlite", "postgres"]
#: What a driver sends back for a statement: values of the database's own kinds.
Rows: TypeAlias = Sequence[Sequence[Any]]
#: What came of a step, which the step alone knows.
Answer: TypeAlias = Any
#: A connection of any driver or library that we take one of, most of which are not installed.
Connection: TypeAlias = Any


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
    answer: Callable[[Connection], Answer]

    def answered(self, connection: Connection) -> Answer:
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

    def answering(self, connection: Connection, *, awaits: bool) -> "Steps[Answer]":
        """Return the answer, awaited if it is to be and may be."""
        try:
            return (yield partial(self.answer if awaits else self.answered, connection))
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


#: A statement, a question, or something to call.
Step: TypeAlias = Execute | Together | AskOperator | Callable[[], object]
#: What yields steps, is sent what came of each, and returns the result.
Steps: TypeAlias = Generator[Step, Answer, T]

#: The operator's own code that is asked about calls, by its names.
MAY_BET: Final = "may_bet"
AFTER: Final = "after"
_NAME = "game_operator_lent"
SAVE = f"SAVEPOINT {_NAME}"
RELEASE = f"RELEASE SAVEPOINT {_NAME}"


def _never(step: Step) -> Answer:
    raise AssertionError(f"{step!r:.60} was yielded outside of a transaction")


def run(steps: Steps[T], perform: Callable[[Step], Answer] = _never) -> T:
    """Perform *steps* to their end and return the result; *perform* executes statements and asks the operator."""
    answer: Answer = None
    failed: BaseException | None = None
    while True:
        try:
            step = steps.send(answer) if failed is None else steps.throw(failed)
            failed = None
            answer = step() if callable(step) else perform(step)
        except BaseException as raised:  # They know whether one item fails, or all; Ctrl-C undoes a transaction.
            if getgeneratorstate(steps) != GEN_CLOSED:
                failed = _throwable(raised)
                continue
            failed = None  # In its own traceback it would live until the next collection of garbage.
            if isinstance(raised, StopIteration):
                return raised.value  # type: ignore[no-any-return]  # It is what the steps return.
            raise


async def run_async(steps: Steps[T], perform: Callable[[Step], Answer] = _never) -> T:
    """Do the same under asyncio: what a step returns is awaited if it is to be, and steps see what cancels them."""
    answer: Answer = None
    failed: BaseException | None = None
    while True:
        try:
            step = steps.send(answer) if failed is None else steps.throw(failed)
            failed = None
            answer = step() if callable(step) else perform(step)
            # Asked so because inspect.isawaitable costs a call for each step of each ledger call.
            if hasattr(answer, "__await__"):
                answer = await answer
        except BaseException as raised:  # CancelledError, too, is for them to handle.
            if getgeneratorstate(steps) != GEN_CLOSED:
                failed = _throwable(raised)
                continue
            failed = None  # As above.
            if isinstance(raised, StopIteration):
                return raised.value  # type: ignore[no-any-return]  # As above.
            raise


def _throwable(raised: BaseException) -> BaseException:
    """Return *raised*, or in place of GeneratorExit an error: steps that are thrown that could do nothing any more."""
    if not isinstance(raised, GeneratorExit):
        return raised
    failed = RuntimeError("GeneratorExit was raised by what a step called")
    failed.__cause__ = raised
    return failed


def driver(*, awaits: bool) -> Callable[..., Answer]:
    """Return ``run_async`` for what is to be awaited, and ``run`` for what is not."""
    return run_async if awaits else run


def as_steps(function: Callable[..., object]) -> Callable[..., Step]:
    """Return what makes a step of each call of *function*."""
    return partial(partial, function)
