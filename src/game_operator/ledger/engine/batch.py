"""How a batch of calls is applied in one transaction: load the rows, decide, store what changed."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from game_operator.errors import LedgerError, UnknownSourceError, shown
from game_operator.ledger.api import CallRecord, Outcome
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.rules.book import Book, Item, Needs
from game_operator.ledger.steps import AFTER, MAY_BET, AskOperator, Steps
from game_operator.models.webhooks import BalanceCall, WebhookCall, WithdrawCall
from game_operator.money import Cents

Result: TypeAlias = Outcome | Exception

#: Rows are loaded twice at most, except where they name further ones.
_MOST_LOADS = 10
_CODE = re.compile(r"[A-Z0-9_]{1,64}")
#: Codes that would promise what a stored refusal cannot keep.
_NO_REFUSAL = frozenset({"SYSTEM_ERROR", "INVALID_SIGNATURE"})


def apply_items(items: Sequence[Item], dialect: SqlDialect) -> Steps[list[Result]]:
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
    needs, failed = _needs_of(items, Needs(source, key_parts=dialect.key_parts), refused)
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
    dialect: SqlDialect,
) -> Steps[Outcome]:
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
    items: Sequence[Item], done: Mapping[int, Result], apply: Callable[[Sequence[Item]], Steps[list[Result]]]
) -> Steps[list[Result]]:
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
    items: Sequence[Item], failed: dict[int, Exception], needs: Needs, dialect: SqlDialect
) -> Steps[tuple[Book, int]]:
    """Load until all is there: a bet may name another account than its player's, and its withdraw's tx_id."""
    sound = [item for index, item in enumerate(items) if index not in failed] if failed else items
    read_again = False
    for _ in range(_MOST_LOADS):
        loaded = yield from dialect.load(needs)
        book = Book(needs.source, key_parts=needs.key_parts, step_cents=dialect.step_cents)
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


def apply_item(book: Book, item: Item, clock_millis: int) -> Steps[Result]:
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
