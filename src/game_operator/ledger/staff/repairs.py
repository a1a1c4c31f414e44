"""
Settles a bet without a call of the provider, and pays what is owed for a finding.

The rules are those of calls: the account is locked, the bet must be OPEN, and one posting moves the money. The call
that never came is given to the operator's ``after``, so that the operator's own rows are written too.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from game_operator.codes import BetState
from game_operator.errors import FindingError, RepairRefusedError, shown
from game_operator.ledger.api import MAX_BALANCE_CENTS, Account, BetRecord, CallRecord, Outcome, Terms
from game_operator.ledger.engine.batch import run_after
from game_operator.ledger.engine.dialects import Loaded, SqlDialect
from game_operator.ledger.engine.tables import sql_texts
from game_operator.ledger.ownership import check_owned
from game_operator.ledger.rules.book import Book, Changes, Needs, posting
from game_operator.ledger.rules.decide import UNIT_DOES_NOT_FIT
from game_operator.ledger.staff.anomalies import keep_unfit
from game_operator.ledger.staff.findings import Finding, finding, resolve_finding
from game_operator.ledger.staff.queries import bet as bet_script
from game_operator.ledger.steps import AFTER, AskOperator, Execute, Steps
from game_operator.models.webhooks import DepositCall, RollbackCall
from game_operator.money import Cents, amount_from_cents

T = TypeVar("T")

_NOT_WHOLE = 'does not fit unit="whole" of the operator\'s table, which holds no part of a unit. Nothing was moved.'

_BY_HAND = (
    "resolve the finding without paying, and credit by hand: with `game-operator ledger adjust`, or in your own table."
)

#: What a bet's account got for it can still change in every other state.
_SETTLED = frozenset({BetState.CLOSED, BetState.ROLLED_BACK})


class Repair(NamedTuple):
    """
    A bet to settle without a call of the provider.

    Attributes:
        call: The deposit or rollback that should have come; it is given to ``after``.
        settled_by: ``reconcile`` or ``refund``.
        beside: What else to do in the same transaction, before the operator's own statements; raising undoes all.
    """

    call: DepositCall | RollbackCall
    settled_by: str
    beside: Callable[[Outcome, SqlDialect], Steps[None]]


class Payment(NamedTuple):
    """
    What is owed for a finding, to be posted once.

    Attributes:
        finding_id: The finding; it is resolved in the same transaction.
        actor, reason: Who pays and why.
        counted: The identities of the claims that count as paid for the bet; of those that name it none may be missing.
        due_cents: What the account should have got, where a claim keeps the finding from saying what is owed.
    """

    finding_id: int
    actor: str
    reason: str
    counted: frozenset[str] = frozenset()
    due_cents: int | None = None


class Claim(NamedTuple):
    """A claim that names a bet: its identity, what it paid, and when."""

    tx_id: str
    amount_cents: int
    at_millis: int


class Paid(NamedTuple):
    """
    What became of a payment.

    Attributes:
        finding: The finding, resolved.
        outcome: The movement; ``applied`` is True.
    """

    finding: Finding
    outcome: Outcome


def or_raise(result: T | Exception) -> T:
    """Return what came of a repair or payment; raise a refusal, whose anomaly is committed now."""
    if isinstance(result, Exception):
        raise result
    return result


def repair_bet(repair: Repair, terms: Terms, dialect: SqlDialect) -> Steps[Outcome | RepairRefusedError]:
    """
    Settle a bet, run ``after``, and return the outcome.

    If the amount does not fit the unit of the operator's column, that is kept as an anomaly. Then the refusal is
    returned, to be raised after the commit.

    Raises:
        RepairRefusedError: The bet is unknown, not OPEN, another player's, or named by a claim; or its account is
            gone or cannot hold the money.
    """
    call, source = repair.call, terms.source
    assert call.bet_id is not None
    check_owned(dialect.owns, call.player_id, RepairRefusedError)
    found = yield from bet_script(dialect.prefix, call.bet_id, source)
    if found is None:
        raise RepairRefusedError(f"There is no bet {shown(call.bet_id)} in the ledger. Nothing was moved.")
    loaded, bet = yield from _locked(found, dialect)
    claims = yield from claims_of(source, bet.bet_id, dialect)
    if claims:
        raise RepairRefusedError(
            f"The claim {shown(claims[0].tx_id)} names the bet {shown(bet.bet_id)}, so what the provider reports as "
            "won may be paid already. Nothing was moved: compare both by hand."
        )
    book = Book(source, key_parts=dialect.key_parts, step_cents=dialect.step_cents)
    book.accounts = {account.key: account for account in loaded.accounts}
    book.bets = {bet.bet_id: bet}
    outcome = book.settle(call, terms, settled_by=repair.settled_by, clock_millis=loaded.clock_millis)
    if not outcome.applied:
        refused = RepairRefusedError(_why_refused(bet, call, outcome))
        if outcome.anomaly != UNIT_DOES_NOT_FIT:
            raise refused
        yield from keep_unfit(call, terms, dialect)
        return refused
    yield from dialect.store(source, book.changes, was={account.key: account for account in loaded.accounts})
    yield from repair.beside(outcome, dialect)
    if terms.after is None:
        return outcome
    ask = AskOperator(AFTER, partial(terms.after, call, outcome))
    return (yield from run_after(ask, outcome, bet.account, book.changes.calls, source, dialect))


def paid_cents(source: str, bet_id: str, dialect: SqlDialect) -> Steps[int]:
    """Return what was paid for findings about a bet, beside its own calls."""
    return int((yield Execute(_sql(dialect)["paid"], (source, bet_id)))[0][0])


def settled_at(prefix: str, repair: Repair, source: str) -> Steps[int | None]:
    """Return when *repair* settled its bet; None if that is not committed, or somebody else has settled the bet."""
    call = repair.call
    assert call.bet_id is not None
    found = yield from bet_script(prefix, call.bet_id, source)
    # The time does not tell them apart: two may settle a bet in the same millisecond.
    left = (BetState.CLOSED, call.amount_cents) if isinstance(call, DepositCall) else (BetState.ROLLED_BACK, None)
    if found is None or (found.state, found.won_cents, found.settled_by) != (*left, repair.settled_by):
        return None
    return found.settled_at_millis


def pay_finding(payment: Payment, terms: Terms, dialect: SqlDialect) -> Steps[Paid | FindingError]:
    """
    Post what is owed for a finding, once, and resolve it; run ``after`` if the account gets money.

    What is owed is worked out anew: what the account should have got for the bet, less what it got by now. A claim that
    names the bet may have paid it, so each one must be among those that a person counts.

    Raises:
        FindingError: There is no such finding, it is resolved, or nothing is owed; its bet is not settled; a claim
            names the bet and is not counted, or does not name it and is; or the account is gone, has too little, or
            cannot hold the money.
    """
    wanted = yield from finding(payment.finding_id, dialect)
    found = yield from bet_script(dialect.prefix, wanted.subject, wanted.source)
    if wanted.source != terms.source:
        raise FindingError(
            f"The finding {wanted.id} is of the source {shown(wanted.source)}, not {shown(terms.source)}. Nothing was "
            "moved."
        )
    if found is None:
        raise _nothing_to_pay(wanted)
    check_owned(dialect.owns, found.player_id, FindingError)
    loaded, bet = yield from _locked(found, dialect)
    account = next((each for each in loaded.accounts if each.key == bet.account), None)
    # Again, because until the account was locked it may have been paid.
    wanted = yield from finding(payment.finding_id, dialect)
    if wanted.owed_cents is None and wanted.at_stake_cents != payment.due_cents:
        raise _nothing_to_pay(wanted)
    claims = yield from claims_of(wanted.source, bet.bet_id, dialect)
    by_hand_cents = yield from paid_cents(wanted.source, bet.bet_id, dialect)
    missing_cents = wanted.at_stake_cents - credited_cents(bet) - by_hand_cents
    owed_cents = owed_beside(missing_cents, sum(each.amount_cents for each in claims))
    account = _payable(wanted, bet, account, missing_cents)
    _check_counted(payment, bet, claims)
    call = _call_of_payment(wanted, bet, owed_cents)
    if owed_cents % dialect.step_cents:
        if call is not None:
            yield from keep_unfit(call, terms, dialect)
        amount = amount_from_cents(owed_cents)
        return FindingError(f"The amount {amount} that is owed for the finding {wanted.id} {_NOT_WHOLE}")
    _check_amount(wanted, account, owed_cents)
    moved = Account(account.key, account.balance_cents + owed_cents, max(loaded.clock_millis, account.at_millis + 1))
    changes = _changes_of_payment(wanted, bet, moved, owed_cents)
    yield from dialect.store(wanted.source, changes, was={account.key: account})
    resolved = yield from resolve_finding(wanted.id, payment.actor, payment.reason, dialect, paid_cents=owed_cents)
    outcome = Outcome(
        code=None,
        balance_cents=Cents(moved.balance_cents),
        at_millis=moved.at_millis,
        applied=True,
        delta_cents=owed_cents,
    )
    if terms.after is not None and call is not None:
        ask = AskOperator(AFTER, partial(terms.after, call, outcome))
        outcome = yield from run_after(ask, outcome, account.key, changes.calls, wanted.source, dialect)
    return Paid(resolved, outcome)


def paid_at(prefix: str, finding_id: int, source: str) -> Steps[int | None]:
    """Return when a finding was paid; None if that is not committed."""
    sql = sql_texts(__package__, "repairs.sql", prefix=prefix)["paid_at"]
    rows = yield Execute(sql, (source, str(finding_id)))
    return rows[0][0] if rows else None


def owed_beside(missing_cents: int, claimed_cents: int) -> int:
    """Return what is owed where an account lacks *missing_cents*, and claims that are counted may have filled it."""
    # What claims have paid beyond that is the player's own, and never taken back.
    return missing_cents if missing_cents <= 0 else max(0, missing_cents - claimed_cents)


def credited_cents(bet: BetRecord) -> int:
    """Return what a bet's account got for it, from a deposit, a rollback or a repair."""
    if bet.state is BetState.ROLLED_BACK:
        return bet.wager_cents
    return bet.won_cents or 0


def _locked(found: BetRecord, dialect: SqlDialect) -> Steps[tuple[Loaded, BetRecord]]:
    """Lock the account of a bet, and read the bet again: until then it may have been settled."""
    needs = Needs(found.source, key_parts=dialect.key_parts, bets={found.bet_id}, accounts={found.account})
    loaded = yield from dialect.load(needs)
    return loaded, next(iter(loaded.bets))


def _why_refused(bet: BetRecord, call: DepositCall | RollbackCall, outcome: Outcome) -> str:
    if bet.state is not BetState.OPEN:
        return f"The bet {shown(bet.bet_id)} is {bet.state.value}, and only an OPEN bet is settled. Nothing was moved."
    if bet.player_id != call.player_id:
        players = f"{shown(bet.player_id)}, not of {shown(call.player_id)}"
        return f"The bet {shown(bet.bet_id)} is of {players}. Nothing was moved."
    if outcome.anomaly == UNIT_DOES_NOT_FIT:
        cents = call.amount_cents if isinstance(call, DepositCall) else bet.wager_cents
        return f"The amount {amount_from_cents(cents)} {_NOT_WHOLE}"
    return f"The account {shown(bet.account)} cannot be credited ({outcome.code}). Nothing was moved."


def _nothing_to_pay(wanted: Finding) -> FindingError:
    return FindingError(
        f"Nothing can be paid for the finding {wanted.id}: it does not say what is owed to whom.",
        remedy=f"Let the provider send the call. If it says that it never will, and something is owed, {_BY_HAND}",
    )


def _payable(wanted: Finding, bet: BetRecord, account: Account | None, missing_cents: int) -> Account:
    """Return the account; raise FindingError unless it is there, the finding open, its bet settled, and money due."""
    if wanted.resolved_at_millis is not None:
        raise FindingError(f"The finding {wanted.id} was resolved by {wanted.resolved_by} already. Nothing was moved.")
    if bet.state not in _SETTLED:
        raise FindingError(
            f"The bet {shown(bet.bet_id)} is {bet.state.value}, so what is owed for it is not known. Nothing was "
            "moved: only for a bet that is CLOSED or ROLLED_BACK can something be paid."
        )
    if account is None:
        raise FindingError(f"There is no account {shown(bet.account)} any more. Nothing was moved.")
    if missing_cents == 0:
        raise FindingError(f"Nothing is owed for the finding {wanted.id} any more. Resolve it without paying.")
    return account


def _check_counted(payment: Payment, bet: BetRecord, claims: Sequence[Claim]) -> None:
    """Raise FindingError unless a person counts just the claims that name the bet."""
    if others := sorted(payment.counted.difference(each.tx_id for each in claims)):
        raise FindingError(
            f"No claim {', '.join(map(shown, others))} names the bet {shown(bet.bet_id)}. Nothing was moved."
        )
    left = [each for each in claims if each.tx_id not in payment.counted]
    if left:
        named = ", ".join(f"{shown(each.tx_id)} of {amount_from_cents(each.amount_cents)}" for each in left)
        raise FindingError(
            f"Claims name the bet {shown(bet.bet_id)}, and may have paid what is owed: {named}. Nothing was moved.",
            remedy="If a claim was paid for this bet, say so with --counting-claim TX_ID for each, in Python "
            "counting_claims. Then only the rest is paid. A claim that is separate money, such as a jackpot, is not "
            f"counted. Then {_BY_HAND}",
        )


def _check_amount(wanted: Finding, account: Account, owed_cents: int) -> None:
    """Raise FindingError if the account cannot take the payment."""
    holds = f"The account {shown(account.key)} holds {amount_from_cents(account.balance_cents)}, and the finding"
    # A balance below zero, as the operator's own table may have, is no reason not to pay.
    if owed_cents < 0 and account.balance_cents + owed_cents < 0:
        raise FindingError(f"{holds} {wanted.id} takes {amount_from_cents(-owed_cents)} back. Nothing was moved.")
    if account.balance_cents + owed_cents > MAX_BALANCE_CENTS:
        paid = f"{holds} {wanted.id} pays {amount_from_cents(owed_cents)}"
        raise FindingError(f"{paid}, more than it can hold. Nothing was moved.")


def _changes_of_payment(wanted: Finding, bet: BetRecord, moved: Account, owed_cents: int) -> Changes:
    """Return the call ``pay``, whose identity is the finding, and its posting."""
    key, balance_cents, at_millis = moved
    named = ("pay", str(wanted.id), bet.player_id, key, bet.bet_id, "PAY", owed_cents, None, balance_cents, at_millis)
    changes = Changes(calls=[CallRecord(*named, bet.instance_id, bet.game, bet.currency)], accounts={key: moved})
    if owed_cents:  # A claim that is counted may have paid all of it.
        changes.postings.append(posting(key, owed_cents, wanted.source, "pay", str(wanted.id), at_millis))
    return changes


def _call_of_payment(wanted: Finding, bet: BetRecord, owed_cents: int) -> DepositCall | None:
    if owed_cents <= 0:
        return None
    return DepositCall(
        player_id=bet.player_id,
        bet_id=bet.bet_id,
        amount_cents=owed_cents,
        tx_id=f"finding:{wanted.id}",
        round_id=bet.round_id,
        instance_id=bet.instance_id,
        game=bet.game,
    )


def claims_of(source: str, bet_id: str, dialect: SqlDialect) -> Steps[list[Claim]]:
    """Return the claims that name a bet by their ``bet_id``, in order of time."""
    return [Claim(*row) for row in (yield Execute(_sql(dialect)["claims"], (source, bet_id)))]


def _sql(dialect: SqlDialect) -> dict[str, str]:
    return sql_texts(__package__, "repairs.sql", prefix=dialect.prefix)
