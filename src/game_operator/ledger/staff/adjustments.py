"""Money outside games: opening an account, and adjusting one for payments, cash-outs and corrections."""

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final, NamedTuple

from game_operator.errors import AccountExistsError, AccountNotFoundError, AdjustmentRefusedError, LedgerError, shown
from game_operator.ledger.api import MAX_BALANCE_CENTS, OPEN_FIRST, Account, CallRecord
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.engine.sources import checked_id
from game_operator.ledger.rules.book import Changes, Needs, posting
from game_operator.ledger.steps import Execute, Steps
from game_operator.models.webhooks import problem_of_id
from game_operator.money import Cents, amount_from_cents, cents_from_amount

_MOST: Final = amount_from_cents(MAX_BALANCE_CENTS)


class TimeCorrection(NamedTuple):
    """
    An account whose time was brought back.

    Attributes:
        account: Its key.
        from_millis: When it had moved last, by a clock that was ahead.
        to_millis: What was put in its place: the time it is.
    """

    account: str
    from_millis: int
    to_millis: int


class Adjustment(NamedTuple):
    """
    What became of an adjustment.

    Attributes:
        balance_cents: What the account holds now.
        applied: Whether it was moved; False if the reference was known, with this very account and amount.
    """

    balance_cents: Cents
    applied: bool


def open_account(player_id: str, opening: Decimal, dialect: SqlDialect) -> Steps[Cents]:
    """Open an account that holds *opening* currency units; return its balance in cents."""
    key, cents = checked_id(player_id, "the player id"), cents_from_amount(opening)
    if not 0 <= cents <= MAX_BALANCE_CENTS:
        raise ValueError(f"an account cannot be opened with {opening}: it must be from 0.00 to {_MOST}")
    loaded = yield from dialect.load(Needs("", accounts={key}))
    if any(account.key == key for account in loaded.accounts):
        raise AccountExistsError(f"The account {shown(key)} is open already.")
    account = Account(key, cents, loaded.clock_millis)
    changes = _changes(account, "open", key, "OPEN", cents)
    changes.new_accounts[key] = account
    changes.accounts.clear()
    yield from dialect.store("", changes, was={})
    return Cents(cents)


def adjust(player_id: str, amount: Decimal, reference: str, dialect: SqlDialect) -> Steps[Adjustment]:
    """Move *amount* currency units, once for each *reference*; return the balance, and whether it was moved now."""
    key, cents = checked_id(player_id, "the player id"), cents_from_amount(amount)
    if problem_of_id(reference, 320):
        raise ValueError(f"reference must be a text of 1 to 320 characters that is not blank, not {shown(reference)}")
    loaded = yield from dialect.load(Needs("", calls={("adjust", reference)}, accounts={key}))
    account = _only(loaded.accounts, key)
    known = next(iter(loaded.calls), None)
    if known is not None:
        if (known.account, known.amount_cents) != (key, cents):
            raise AdjustmentRefusedError(
                f"The reference {shown(reference)} belongs to an adjustment of {shown(known.account)} by "
                f"{amount_from_cents(known.amount_cents)}. Nothing was moved. Give each adjustment its own reference."
            )
        return Adjustment(Cents(account.balance_cents), applied=False)
    balance_cents = account.balance_cents + cents
    if cents < 0 and balance_cents < 0:
        raise AdjustmentRefusedError(
            f"The account {shown(key)} holds {amount_from_cents(account.balance_cents)}, and an adjustment by "
            f"{amount_from_cents(cents)} would take it below zero. Nothing was moved."
        )
    if balance_cents > MAX_BALANCE_CENTS:
        raise AdjustmentRefusedError(f"The account {shown(key)} cannot hold more than {_MOST}. Nothing was moved.")
    moved = Account(key, balance_cents, max(loaded.clock_millis, account.at_millis + 1))
    yield from dialect.store("", _changes(moved, "adjust", reference, "ADJUST", cents), was={key: account})
    return Adjustment(Cents(balance_cents), applied=True)


def correct_time(player_id: str, prefix: str, dialect: SqlDialect) -> Steps[TimeCorrection]:
    """
    Bring the time of an account that lies in the future back to the clock's.

    It changes no posting. It notes for ``verify`` that postings up to the last one may be later than those that follow.
    """
    key = checked_id(player_id, "the player id")
    loaded = yield from dialect.load(Needs("", accounts={key}))
    account = _only(loaded.accounts, key)
    now_millis = loaded.clock_millis
    if account.at_millis <= now_millis:
        raise LedgerError(
            f"The account {shown(key)} moved last at {_utc(account.at_millis)}, and it is {_utc(now_millis)} by this "
            "clock: its time is not in the future, and nothing was changed."
        )
    # S608: the prefix was checked; all else is a parameter.
    last = yield Execute(f"SELECT COALESCE(MAX(id), 0) FROM {prefix}postings", ())  # noqa: S608
    yield Execute(
        f"INSERT INTO {prefix}corrections (account, last_posting_id, from_millis, to_millis) VALUES (?, ?, ?, ?) "  # noqa: S608
        "ON CONFLICT (account, last_posting_id) DO UPDATE SET to_millis = excluded.to_millis",
        (key, last[0][0], account.at_millis, now_millis),
    )
    for table in ("accounts", "clocks"):
        yield Execute(f"UPDATE {prefix}{table} SET at_millis = ? WHERE account = ?", (now_millis, key))  # noqa: S608
    return TimeCorrection(key, account.at_millis, now_millis)


def _only(accounts: Iterable[Account], key: str) -> Account:
    """Return the account with that key; raise AccountNotFoundError if there is none."""
    for account in accounts:
        if account.key == key:
            return account
    raise AccountNotFoundError(f"There is no account {shown(key)}.", remedy=OPEN_FIRST)


def _utc(millis: int) -> str:
    return f"{datetime.fromtimestamp(millis / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _changes(account: Account, operation: str, tx_id: str, action: str, cents: int) -> Changes:
    key, balance_cents, at_millis = account
    record = CallRecord(operation, tx_id, key, key, None, action, cents, None, balance_cents, at_millis)
    changes = Changes(calls=[record], accounts={key: account})
    if cents:
        changes.postings.append(posting(key, cents, "", operation, tx_id, at_millis))
    return changes
