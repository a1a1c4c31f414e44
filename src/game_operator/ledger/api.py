"""
What a ledger keeps and answers: records of bets and calls, accounts, outcomes, and the Protocol all ledgers meet.

All amounts are whole cents, all times Unix milliseconds.
"""

import json
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, get_args

from game_operator.codes import BetState, WebhookErrorCode
from game_operator.errors import AccountNotFoundError, ConfigurationError, LedgerError, shown
from game_operator.models.webhooks import (
    LONGEST_ID,
    BalanceCall,
    DepositCall,
    MovingCall,
    Reply,
    WebhookCall,
    WithdrawCall,
    problem_of_id,
)
from game_operator.money import Cents, amount_from_cents
from game_operator.profile import Profile

#: What a BIGINT holds. A credit beyond it moves nothing.
MAX_BALANCE_CENTS = 2**63 - 1
#: Characters that are drawn as nothing or as a blank, although Python calls them printable.
_HIDDEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
OPEN_FIRST = "Open it with open_account() or `game-operator ledger open` first."


class Account(NamedTuple):
    """
    A balance as it stands while its row is locked.

    Attributes:
        key: The account.
        balance_cents: What it holds, in cents.
        at_millis: When it last moved, in Unix milliseconds; 0 if that is not known.
    """

    key: str
    balance_cents: int
    at_millis: int = 0


class BetRecord(NamedTuple):
    """
    What is known of a bet (spec §3; docs/decisions/0014).

    Attributes:
        bet_id: Its id within the source.
        player_id: Who placed it, or who was named by the rollback that came first.
        account: The account that was debited; its winnings and its refund go there. Where the key of accounts has
            several columns, it is the JSON array of their values.
        instance_id, game, round_id: From the withdraw; the round also from deposit or rollback (spec §6).
        wager_cents: What was debited; 0 for a TOMBSTONE, what was asked for a DECLINED bet.
        won_cents: What was credited; None unless CLOSED.
        state: Where it stands.
        opened_at_millis: When the first call about it was answered.
        settled_at_millis: When it was closed or rolled back, or None.
        action: ``BET``, ``RAIN`` or another the profile admits.
        withdraw_tx_id: Identity of its withdraw; of a TOMBSTONE, the one its rollback named.
        deposit_tx_id: Identity of the deposit that closed it; None if something else did.
        withdraw_digest: SHA-256 of the withdraw's body, or None.
        source: The service and environment it belongs to.
        currency: What ``currency_of`` answered for its withdraw, or None.
        settled_by: None if a call of the provider settled it; ``reconcile`` for a reconciliation, ``refund`` for a
            person who refunded it.
    """

    bet_id: str
    player_id: str
    account: str
    instance_id: str | None
    game: str | None
    round_id: str | None
    wager_cents: int
    won_cents: int | None
    state: BetState
    opened_at_millis: int
    settled_at_millis: int | None = None
    action: str = "BET"
    withdraw_tx_id: str | None = None
    deposit_tx_id: str | None = None
    withdraw_digest: bytes | None = None
    source: str = ""
    currency: str | None = None
    settled_by: str | None = None


class CallRecord(NamedTuple):
    """
    A call that was answered for good: its identity, its content, and its answer.

    Attributes:
        operation: ``withdraw``, ``deposit``, ``rollback``; ``reconcile`` for a bet that was settled without a call,
            ``pay`` for what was paid for a finding; ``adjust`` and ``open`` for money outside games.
        tx_id: Identity among the calls of that operation and source.
        player_id, bet_id, action, amount_cents: The content that makes two calls the same.
        account: The account it moved, or would have moved.
        code: None for SUCCESS, else the error code.
        balance_cents: The balance it was answered with, or None.
        at_millis: The time it was answered with.
        instance_id, game, currency: As the call reported them, the currency as ``currency_of`` answered; or None.
    """

    operation: str
    tx_id: str
    player_id: str
    account: str
    bet_id: str | None
    action: str
    amount_cents: int
    code: str | None
    balance_cents: int | None
    at_millis: int
    instance_id: str | None = None
    game: str | None = None
    currency: str | None = None

    @property
    def held(self) -> bool:
        """Whether no such call came yet: a tombstone keeps its withdraw's identity from every other bet."""
        return not self.action


class _InTransaction:
    """
    Of an outcome in the caller's own transaction: whether that has failed since.

    It is not a field, so outcomes are compared, pickled and shown without it, and cost nothing where there is none.
    """

    __slots__ = ("_has_failed",)
    _has_failed: Callable[[], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(_InTransaction):
    """
    What became of a call. Every outcome is to be committed, a refusal too: it stores a decline or a tombstone.

    Attributes:
        code: None for SUCCESS, else the error code.
        balance_cents: The balance to answer with; None where the account was not read, and with
            SYSTEM_ERROR.
        at_millis: The time to answer with.
        applied: Whether this call moved money or closed a bet.
        replayed: Whether it is a known call again.
        anomaly: What a person should look at; "" for nothing.
        delta_cents: What this call moved on the account: below zero for a debit, 0 for a repeat or a refusal. Two
            outcomes that differ in it alone are equal.
    """

    code: str | None
    balance_cents: Cents | None
    at_millis: int
    applied: bool = False
    replayed: bool = False
    anomaly: str = ""
    delta_cents: int = field(default=0, compare=False)

    @property
    def refused(self) -> bool:
        """Whether the answer is an ERROR."""
        return self.code is not None

    @property
    def balance_amount(self) -> Decimal | None:
        """The same balance in currency units, or None."""
        return None if self.balance_cents is None else amount_from_cents(self.balance_cents)

    @property
    def new_balance_cents(self) -> Cents:
        """
        The balance after this call; where ``applied`` is true there always is one.

        Raises:
            LedgerError: Nothing was applied: the call was refused, is a repeat, or only asks for a balance.
        """
        if not self.applied or self.balance_cents is None:
            what = "is a repeat" if self.replayed else "moved nothing"
            if self.refused:
                what = f"was refused with {self.code}"
            raise LedgerError(
                f"The call {what}, so there is no new balance.",
                remedy="Ask outcome.applied first, or read outcome.balance_cents, which may be None.",
            )
        return self.balance_cents

    def reply(self) -> Reply:
        """
        Return the reply of spec §2.1.

        Raises:
            LedgerError: The call joined a transaction of yours, and the driver reports that the transaction has failed
                (psycopg, also under SQLAlchemy and Django). Ask before you commit: afterwards it cannot be known.
        """
        has_failed = getattr(self, "_has_failed", None)
        if has_failed is not None and has_failed():
            raise LedgerError(
                "The transaction that this call joined has failed since, so COMMIT will roll the call back without an "
                "error: a statement of yours failed, and its error was swallowed. Let the error through, or put a "
                "statement that may fail into a savepoint. A JoinedWallet takes care of all this."
            )
        return Reply(code=self.code, balance_cents=self.balance_cents, timestamp=self.at_millis)


def watched(outcome: Outcome, has_failed: Callable[[], bool]) -> Outcome:
    """Return *outcome*, which asks *has_failed* before it makes a reply."""
    object.__setattr__(outcome, "_has_failed", has_failed)
    return outcome


#: Asked with the connection about a withdraw that is about to debit: a code that refuses it, or None.
MayBet: TypeAlias = Callable[[WithdrawCall, Account, Any], Any]
#: The account of a withdraw, claim or player-balance, when it is not the player's own id: a text, or as many texts as
#: the key of a TableAccounts has columns.
AccountOf: TypeAlias = Callable[[WithdrawCall | DepositCall | BalanceCall], str | tuple[str, ...]]
#: The currency of a call, for totals; None where it is unknown.
CurrencyOf: TypeAlias = Callable[[MovingCall], str | None]
#: The operator's own statements, run with the connection in the transaction of a call.
After: TypeAlias = Callable[[MovingCall, Outcome, Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """
    By what rules a ledger applies calls; a Wallet keeps one of these.

    Attributes:
        rules: What is assumed about bodies, repeats, late and early calls.
        source: The service and environment of the call; "" if there is one alone.
        may_bet: Asked, with the connection of the transaction, about a withdraw that is about to debit; it answers a
            code that refuses it, or None.
        account_of: Returns the account of a withdraw, claim or player-balance; None takes the player's id.
        after: Runs your statements in the transaction of the call; None runs nothing.
        currency_of: Returns the currency of a call for totals; None leaves it unknown.
    """

    rules: Profile = field(default_factory=Profile)
    source: str = ""
    may_bet: MayBet | None = None
    account_of: AccountOf | None = None
    after: After | None = None
    currency_of: CurrencyOf | None = None

    def __post_init__(self) -> None:
        check_source_name(self.source)


def check_source_name(name: str) -> str:
    """
    Return *name* if a source can have it; raise TypeError or ValueError if not.

    Two names that look alike would be two sets of books, and one call under both moves money twice.
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of the source must be a str, not {type(name).__name__}")
    if name and (problem := problem_of_name(name)):
        raise ValueError(f"the name of the source {problem}, it is {shown(name)}")
    return name


def problem_of_name(name: str) -> str:
    """Return what is wrong with the name of a source or ledger, or ""."""
    if problem := problem_of_id(name, LONGEST_ID):
        return problem
    if hidden := next((letter for letter in name if not letter.isprintable() or _HIDDEN.match(letter)), ""):
        return f"must not hold the invisible character U+{ord(hidden):04X}"
    return "must not begin or end with a blank" if name != name.strip() else ""


DEFAULT_TERMS = Terms()


class Ledger(Protocol):
    """What every ledger does, wherever it keeps its rows."""

    def apply(self, call: WebhookCall, *, terms: Terms = DEFAULT_TERMS) -> Outcome:
        """Apply *call* by *terms* in one transaction and return what became of it."""

    def balance(self, player_id: str) -> Cents:
        """Return the balance of an account; raise AccountNotFoundError if there is none."""

    def bet(self, bet_id: str, *, source: str = "") -> BetRecord | None:
        """Return what is known of a bet, or None."""

    def bets(
        self, *, since_millis: int | None = None, until_millis: int | None = None, source: str = ""
    ) -> Iterable[BetRecord]:
        """Return the bets opened from *since_millis* up to but not at *until_millis*, oldest first."""


def without_balance(code: str | None) -> bool:
    """Return whether a reply with *code* has no balance (docs/decisions/0012)."""
    return code in _SILENT


_SILENT = frozenset(
    {WebhookErrorCode.PLAYER_NOT_FOUND, WebhookErrorCode.SYSTEM_ERROR, WebhookErrorCode.INVALID_SIGNATURE}
)


Unit: TypeAlias = Literal["cents", "units", "whole", "thousandths"]
"""What a balance counts: see ``TableAccounts``."""

#: A name as it is written without quotes; PostgreSQL keeps 63 bytes of it.
_NAME: Final = re.compile(r"[^\W\d][\w$]{0,62}")
_MOST_BYTES: Final = 63


class Accounts(Protocol):
    """
    The operator's own accounts, asked and moved one call at a time in the transaction of the call.

    *account* is the player's id, or what ``account_of`` of the wallet returned. *connection* is what the call is
    applied with: the one that was given to ``apply``, or the ledger's own (``sqlite3.Connection``,
    ``psycopg.Connection``). What a method raises undoes the call.
    """

    def lock(self, connection: Any, account: str) -> Cents | None:
        """Lock the account's row until the transaction ends; return its balance in cents, or None without a row."""

    def move(self, connection: Any, account: str, delta_cents: int) -> Cents:
        """Add *delta_cents*, which may be negative, to an account that is locked; return its new balance in cents."""


class AsyncAccounts(Protocol):
    """The same as ``Accounts``, awaited: for an AsyncSqlLedger on PostgreSQL, or in a transaction of asyncio."""

    def lock(self, connection: Any, account: str) -> Awaitable[Cents | None]:
        """Lock the account's row until the transaction ends; return its balance in cents, or None without a row."""

    def move(self, connection: Any, account: str, delta_cents: int) -> Awaitable[Cents]:
        """Add *delta_cents*, which may be negative, to an account that is locked; return its new balance in cents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAccounts:
    """
    Balances in a table of the operator's, in the ledger's own database; read and moved for whole batches at once.

    Args:
        table: The table, perhaps with its schema: ``players``, ``shop.players``. Names are taken as they are stored:
            what was created without quotes is lowercase in PostgreSQL.
        key: The column that holds the player id: text, varchar, uuid or integer, and unique by itself. Or a tuple of
            columns that are unique together, such as ``("player_id", "currency")``: then ``account_of`` returns a
            tuple of as many texts, and an account is known by their compact JSON array, ``["p1","EUR"]``.
        balance: The column that holds the balance: exact, so integer or numeric.
        unit: What the balance counts: ``cents``, hundredths of the currency unit, in integers; ``units`` of the
            currency, with decimals; ``whole`` units of a currency without cents, in integers; ``thousandths`` of a
            unit (fils), in integers. Calls have hundredths in every currency. An amount that is no whole unit does not
            fit ``whole``: a withdraw is INVALID_REQUEST, and what credits is SYSTEM_ERROR and the anomaly
            ``unit_does_not_fit``. None is cents, in a column of integers: for yen pass ``whole``. Another column needs
            the unit.
        shared: Whether ledgers with other table prefixes move these balances too. A call that reaches two ledgers moves
            money twice, so a second ledger is refused without it.

    Raises:
        ConfigurationError: A name, the key or the unit is invalid.
    """

    table: str
    key: str | tuple[str, ...]
    balance: str
    unit: Unit | None = None
    shared: bool = False

    def __post_init__(self) -> None:
        parts = self.table.split(".") if type(self.table) is str else [str(self.table), "", ""]
        if len(parts) > 2:
            raise ConfigurationError(f"table must be a table or schema.table, not {shown(self.table)}")
        if not isinstance(self.key, str | tuple):
            raise ConfigurationError(
                f"key must be a column, or a tuple of columns, not {type(self.key).__name__} {shown(self.key)}. "
                'Pass key="id", or key=("player_id", "currency").'
            )
        if isinstance(self.key, tuple) and not 1 < len(self.key) == len(set(self.key)):
            raise ConfigurationError(
                f"key must be a column, or a tuple of two or more different columns, not {shown(self.key)}"
            )
        names: tuple[object, ...] = (*parts, *self.keys, self.balance)
        for name in names:
            # No quotes among these characters, so a quoted name ends where we end it.
            if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name.encode()) > _MOST_BYTES:
                raise ConfigurationError(
                    f"{shown(name)} cannot be the name of a table or column in TableAccounts. A name has letters, "
                    f"digits, _ and $, at most {_MOST_BYTES} bytes, and begins with no digit. Rename it, or write an "
                    "Accounts object."
                )
        if self.unit is not None and self.unit not in get_args(Unit):
            problem = f"unit must be one of {', '.join(get_args(Unit))}, not {shown(self.unit)}"
            raise ConfigurationError(problem, setting="unit")
        if not isinstance(self.shared, bool):
            raise ConfigurationError(f"shared must be True or False, not {shown(self.shared)}")

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the key."""
        return self.key if isinstance(self.key, tuple) else (self.key,)

    @property
    def quoted_table(self) -> str:
        """The table as SQL names it."""
        return ".".join(f'"{part}"' for part in self.table.split("."))


#: What ``accounts=`` takes; None is the ledger's own table.
AccountsSpec: TypeAlias = TableAccounts | Accounts | AsyncAccounts | None


def account_of_parts(parts: Iterable[str]) -> str:
    """
    Return the account whose key has several *parts*: a compact JSON array (docs/decisions/0020).

    Its bytes are kept for good: no spaces, and nothing is escaped that JSON lets stand. Escaped, an id of 256 emoji
    would not fit in PostgreSQL's index.
    """
    return json.dumps(list(parts), ensure_ascii=False, separators=(",", ":"))


def parts_of_account(account: str, count: int) -> tuple[str, ...] | None:
    """Return the *count* parts of *account*, or None if ``account_of_parts`` does not write it so, byte by byte."""
    try:
        parts: object = json.loads(account)
    except (ValueError, RecursionError):
        return None
    if not isinstance(parts, list) or len(parts) != count or not all(isinstance(part, str) for part in parts):
        return None
    return tuple(parts) if account_of_parts(parts) == account else None


def account_asked_for(key: str | tuple[str, ...], accounts: AccountsSpec) -> str:
    """
    Return the account that a program names by a text, or by the parts of its key.

    Raises:
        AccountNotFoundError: The keys of *accounts* have another number of parts.
    """
    if not isinstance(key, tuple):
        return key
    names = accounts.keys if isinstance(accounts, TableAccounts) else ()
    if len(names) < 2 or len(key) != len(names):
        wanted = f"a tuple of {', '.join(names)}" if len(names) > 1 else "one text"
        raise AccountNotFoundError(f"There is no account {shown(key)}: the key of an account is {wanted}.")
    return account_of_parts(key)
