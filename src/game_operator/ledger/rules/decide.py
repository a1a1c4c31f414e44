"""
What a call does, given what is known: the heart of the ledger, and pure.

The order of questions (docs/decisions/0014; spec §3 and §6 show none of this):

1. Is a rollback the withdraw's own bytes? INVALID_REQUEST.
2. Is its identity known with other content, or held by another bet's tombstone? DUPLICATE_TRANSACTION.
3. Is the player unknown? PLAYER_NOT_FOUND; a withdraw of an unseen bet is DECLINED, a rollback leaves a TOMBSTONE.
   A known repeat skips this question.
4. The table:

::

    withdraw
    bet                 the same              its tx_id, other content  other tx_id
    ------------------  --------------------  ------------------------  -----------------------
    unseen              debit: OPEN           debit: OPEN               debit: OPEN
    OPEN                SUCCESS               DUPLICATE_TRANSACTION !   DUPLICATE_TRANSACTION !
    SPENT               SUCCESS               DUPLICATE_TRANSACTION !   DUPLICATE_TRANSACTION !
    CLOSED              SUCCESS               DUPLICATE_TRANSACTION !   DUPLICATE_TRANSACTION !
    CLOSED, by us       SUCCESS               DUPLICATE_TRANSACTION !   DUPLICATE_TRANSACTION !
    ROLLED_BACK         BET_ROLLED_BACK       DUPLICATE_TRANSACTION !   BET_ROLLED_BACK
    ROLLED_BACK, by us  BET_ROLLED_BACK       DUPLICATE_TRANSACTION !   BET_ROLLED_BACK
    TOMBSTONE           BET_ROLLED_BACK       BET_ROLLED_BACK           BET_ROLLED_BACK
    DECLINED            INSUFFICIENT_BALANCE  DUPLICATE_TRANSACTION !   DUPLICATE_TRANSACTION !

    deposit
    bet                 the same, or the first  other tx_id and amount  other player
    ------------------  ----------------------  ----------------------  --------------------
    unseen              BET_NOT_FOUND !         BET_NOT_FOUND !         BET_NOT_FOUND !
    OPEN                credit: CLOSED          credit: CLOSED          BET_NOT_FOUND !
    SPENT               BET_ALREADY_CLOSED !    BET_ALREADY_CLOSED !    BET_ALREADY_CLOSED !
    CLOSED              SUCCESS                 BET_ALREADY_CLOSED !    BET_NOT_FOUND !
    CLOSED, by us       SUCCESS                 BET_ALREADY_CLOSED !$   BET_NOT_FOUND !
    ROLLED_BACK         BET_ROLLED_BACK !       BET_ROLLED_BACK !       BET_NOT_FOUND !
    ROLLED_BACK, by us  BET_ROLLED_BACK !$      BET_ROLLED_BACK !$      BET_NOT_FOUND !
    TOMBSTONE           BET_ROLLED_BACK !       BET_ROLLED_BACK !       BET_ROLLED_BACK !
    DECLINED            BET_NOT_FOUND !         BET_NOT_FOUND !         BET_NOT_FOUND !

    rollback
    bet                 its withdraw's tx_id         other tx_id                  other player
    ------------------  ---------------------------  ---------------------------  ---------------------------
    unseen              BET_NOT_FOUND*: TOMBSTONE !  BET_NOT_FOUND*: TOMBSTONE !  BET_NOT_FOUND*: TOMBSTONE !
    OPEN                refund: ROLLED_BACK          BET_NOT_FOUND !              BET_NOT_FOUND !
    SPENT               refund: ROLLED_BACK          BET_NOT_FOUND !              BET_NOT_FOUND !
    CLOSED              BET_ALREADY_CLOSED !         BET_NOT_FOUND !              BET_NOT_FOUND !
    CLOSED, by us       BET_ALREADY_CLOSED !$        BET_NOT_FOUND !              BET_NOT_FOUND !
    ROLLED_BACK         SUCCESS                      BET_NOT_FOUND !              DUPLICATE_TRANSACTION !
    ROLLED_BACK, by us  SUCCESS                      BET_NOT_FOUND !              BET_NOT_FOUND !
    TOMBSTONE           BET_NOT_FOUND* !             BET_NOT_FOUND* !             DUPLICATE_TRANSACTION !
    DECLINED            BET_NOT_FOUND* !             BET_NOT_FOUND* !             BET_NOT_FOUND* !

    What moves money is answered SUCCESS; a colon stands before the bet's new state. ! is kept as an anomaly.
    * is SUCCESS with unknown_rollback="success", and then no anomaly. "By us" is settled by a repair, and $ leaves a
    finding of what is owed.

5. Only a withdraw about to debit is asked: does its amount fit the unit of the balance (else INVALID_REQUEST), are bets
   stopped, may the player bet, and is there enough money? Whatever refuses it, it is DECLINED for good. A debited bet
   is OPEN; one that no deposit ever settles (a RAIN) is SPENT.

A claim (free bets, jackpots) reads and changes no bet: it is credited once per identity.
"""

from typing import Final, NamedTuple, assert_never

from game_operator.codes import BetState, WebhookErrorCode
from game_operator.ledger.api import MAX_BALANCE_CENTS, Account, BetRecord, CallRecord, without_balance
from game_operator.models.webhooks import DepositCall, MovingCall, RollbackCall, WebhookCall, WithdrawCall
from game_operator.profile import Profile

_INSUFFICIENT_BALANCE = WebhookErrorCode.INSUFFICIENT_BALANCE.value
_PLAYER_NOT_FOUND = WebhookErrorCode.PLAYER_NOT_FOUND.value
_BET_NOT_FOUND = WebhookErrorCode.BET_NOT_FOUND.value
_BET_ALREADY_CLOSED = WebhookErrorCode.BET_ALREADY_CLOSED.value
_BET_ROLLED_BACK = WebhookErrorCode.BET_ROLLED_BACK.value
_DUPLICATE_TRANSACTION = WebhookErrorCode.DUPLICATE_TRANSACTION.value
_INVALID_REQUEST = WebhookErrorCode.INVALID_REQUEST.value
_SYSTEM_ERROR = WebhookErrorCode.SYSTEM_ERROR.value

#: The kind of a credit that the operator's column cannot hold.
UNIT_DOES_NOT_FIT: Final = "unit_does_not_fit"

#: These took money from an account, and are bound to it.
_DEBITED = frozenset({BetState.OPEN, BetState.SPENT, BetState.CLOSED, BetState.ROLLED_BACK})


class Decision(NamedTuple):
    """
    What to answer and what to store.

    Attributes:
        code: None for SUCCESS, else the error code.
        balance_cents: The balance to answer with, after this call; None where the reply has none.
        at_millis: The time to answer with.
        delta_cents: What moves on the account: one posting, unless 0.
        applied: Whether the call moved money, or closed a bet, or was a claim: the account's time is to be stored.
        replayed: Whether it is a known call again.
        record: The call to store, or None.
        hold: The withdraw's identity that a tombstone keeps, to store, or None.
        bet: The bet to store, or None.
        anomaly: What a person should look at; "" for nothing.
        due_cents: Of a refused call about a bet that no call has settled: what the account should have got by it.
    """

    code: str | None
    balance_cents: int | None
    at_millis: int
    delta_cents: int = 0
    applied: bool = False
    replayed: bool = False
    record: CallRecord | None = None
    hold: CallRecord | None = None
    bet: BetRecord | None = None
    anomaly: str = ""
    due_cents: int | None = None


class _Known(NamedTuple):
    """All that a decision rests on beside the call."""

    record: CallRecord | None
    bet: BetRecord | None
    tx_owner: str | None
    account: Account | None
    account_key: str
    rules: Profile
    clock_millis: int
    step_cents: int = 1


def decide(
    call: WebhookCall,
    *,
    known: CallRecord | None,
    bet: BetRecord | None,
    tx_owner: str | None,
    account: Account | None,
    rules: Profile,
    account_key: str | None = None,
    refusal: str | None = None,
    clock_millis: int = 0,
    step_cents: int = 1,
) -> Decision:
    """
    Return what *call* does.

    Args:
        call: The call.
        known: The call stored under ``identity_of(call, bet)``, or None.
        bet: The bet it names, or None; a claim is given none.
        tx_owner: For a rollback, the bet whose withdraw has the tx_id that it names, or None.
        account: For a bet of this player, the account the bet debited; for a known claim of this player, the account
            it credited; else the account of the player named. None when there is none.
        rules: The profile.
        account_key: The key of that account, which is stored even when there is no such account.
        refusal: The code of a stop of bets, or what the operator answered when asked about this withdraw
            (``Book.asks_may_bet``); or None.
        clock_millis: The clock, read while the account's row is locked.
        step_cents: The least that balances can move by: 100 where they are whole units of the currency.
    """
    key = account_key or (account.key if account else call.player_id)
    seen = _Known(known, bet, tx_owner, account, key, rules, clock_millis, step_cents)
    if isinstance(call, WithdrawCall):
        return _withdraw(call, seen, refusal)
    if isinstance(call, DepositCall):
        return _claim(call, seen) if call.is_claim else _deposit(call, seen)
    if isinstance(call, RollbackCall):
        return _rollback(call, seen)
    return _balance(seen)


def settle(
    call: DepositCall | RollbackCall,
    *,
    bet: BetRecord,
    account: Account | None,
    settled_by: str,
    clock_millis: int,
    step_cents: int,
) -> Decision:
    """
    Return what it does to settle *bet* without a call of the provider; *call* is the one that should have come.

    It is stored as a call of the operation ``reconcile``, with the bet as its identity. The bet keeps no deposit's
    identity, so that the deposit that comes after it is taken for the one that this stands for.

    Args:
        call: A deposit of the bet, or a rollback.
        bet: The bet. One that is not OPEN is refused, and so is a call of another player.
        account: The account that the bet debited.
        settled_by: What is kept with the bet.
        clock_millis: The clock, read while the account's row is locked.
        step_cents: As for ``decide``.
    """
    seen = _Known(None, bet, None, account, bet.account, Profile(), clock_millis, step_cents)
    if bet.state is not BetState.OPEN or call.player_id != bet.player_id or account is None:
        return _refused(_BET_ALREADY_CLOSED if account else _PLAYER_NOT_FOUND, seen)
    if isinstance(call, DepositCall):
        settled, amount_cents = _closed(bet, call)._replace(deposit_tx_id=None), call.amount_cents
    else:
        settled, amount_cents = bet._replace(state=BetState.ROLLED_BACK), bet.wager_cents
    settled = settled._replace(settled_by=settled_by, round_id=call.round_id or bet.round_id)
    decision = _credited(call, seen, bet.bet_id, amount_cents, settled, "")
    if decision.record is None:
        return decision
    record = decision.record._replace(operation="reconcile", amount_cents=amount_cents)
    return decision._replace(record=record)


def identity_of(call: MovingCall, bet: BetRecord | None, rules: Profile) -> tuple[str, str]:
    """Return (operation, tx_id), what makes a call known again; a rollback without tx_id has its withdraw's."""
    if not isinstance(call, RollbackCall):
        return call.operation, call.tx_id
    if call.tx_id is not None:
        return "rollback", call.tx_id
    if bet is not None and bet.withdraw_tx_id is not None and rules.rollback_tx_id == "withdraw":
        return "rollback", bet.withdraw_tx_id
    return "rollback", f"withdraw:{call.action.lower()}:{call.bet_id}"


def _balance(seen: _Known) -> Decision:
    return _refused(_PLAYER_NOT_FOUND, seen) if seen.account is None else _unmoved(seen)


def _withdraw(call: WithdrawCall, seen: _Known, refusal: str | None) -> Decision:
    known, bet = seen.record, seen.bet
    is_same = known is None or (known.bet_id == call.bet_id if known.held else _has_content_of(call, known))
    if not is_same:
        return _refused(_DUPLICATE_TRANSACTION, seen, anomaly="conflicting_withdraw")
    replay = known is not None and not known.held
    if bet is None:
        return _damaged(seen) if known else _new_bet(call, seen, refusal)
    if seen.account is None and not replay:
        return _refused(_PLAYER_NOT_FOUND, seen)
    if bet.state in (BetState.ROLLED_BACK, BetState.TOMBSTONE):
        return _refused(_BET_ROLLED_BACK, seen, replayed=replay)
    if known is None or known.held:
        return _refused(_DUPLICATE_TRANSACTION, seen, anomaly="second_withdraw")
    return _repeated(seen, known)


def _has_content_of(call: WithdrawCall | DepositCall, known: CallRecord) -> bool:
    content = (call.player_id, call.bet_id, call.action, call.amount_cents)
    return content == (known.player_id, known.bet_id, known.action, known.amount_cents)


def _new_bet(call: WithdrawCall, seen: _Known, refusal: str | None) -> Decision:
    account = seen.account
    if account is None:
        return _declined(call, seen, _PLAYER_NOT_FOUND)
    if call.amount_cents % seen.step_cents:
        return _declined(call, seen, _INVALID_REQUEST)
    if refusal is not None:
        return _declined(call, seen, refusal)
    # A balance below zero refuses a bet of 0 as well.
    if account.balance_cents < call.amount_cents:
        return _declined(call, seen, _INSUFFICIENT_BALANCE)
    balance_cents = account.balance_cents - call.amount_cents
    at_millis = _moved_at(seen)
    state = BetState.SPENT if call.action in seen.rules.spent_actions else BetState.OPEN
    return Decision(
        None,
        balance_cents,
        at_millis,
        delta_cents=-call.amount_cents,
        applied=True,
        record=_record(call, call.tx_id, account.key, None, balance_cents, at_millis),
        bet=_bet(call, account.key, state, at_millis, call.tx_id),
    )


def _declined(call: WithdrawCall, seen: _Known, code: str) -> Decision:
    """Refuse for good: the same withdraw gets the same answer, even if the player has enough money by then."""
    balance_cents, at_millis = _balance_in_answer(seen, code), _read_at(seen)
    return Decision(
        code,
        balance_cents,
        at_millis,
        record=_record(call, call.tx_id, seen.account_key, code, balance_cents, at_millis),
        bet=_bet(call, seen.account_key, BetState.DECLINED, at_millis, call.tx_id),
    )


def _deposit(call: DepositCall, seen: _Known) -> Decision:
    known, bet = seen.record, seen.bet
    if known is not None and not _has_content_of(call, known):
        return _refused(_DUPLICATE_TRANSACTION, seen, anomaly="conflicting_deposit")
    if known is not None:
        return _repeated(seen, known)
    if bet is None:
        # Its withdraw may be on the way: nothing is stored, so that the deposit can still be credited.
        code = _PLAYER_NOT_FOUND if seen.account is None else _BET_NOT_FOUND
        if seen.rules.early_deposit_code == _SYSTEM_ERROR:
            code = _SYSTEM_ERROR
        return _refused(code, seen, anomaly="early_deposit")
    if seen.account is None:
        return _no_account(call, seen, bet)
    return _settled(call, seen, bet)


def _settled(call: DepositCall, seen: _Known, bet: BetRecord) -> Decision:
    match bet.state:
        case BetState.SPENT:
            return _refused(_BET_ALREADY_CLOSED, seen, anomaly="deposit_of_spent_bet")
        case BetState.TOMBSTONE:
            return _refused(_BET_ROLLED_BACK, seen, anomaly="deposit_after_rollback")
        case BetState.DECLINED:
            return _refused(_BET_NOT_FOUND, seen, anomaly="deposit_of_declined_bet")
        case _ if bet.player_id != call.player_id:
            return _refused(_BET_NOT_FOUND, seen, anomaly="deposit_by_other_player")
        case BetState.OPEN:
            return _credited(call, seen, call.tx_id, call.amount_cents, _closed(bet, call), _odd_win(call))
        case BetState.CLOSED if bet.deposit_tx_id is None and bet.won_cents == call.amount_cents:
            return _adopted(call, seen, bet)
        case BetState.CLOSED:
            return _too_late(_BET_ALREADY_CLOSED, seen, "second_deposit", call.amount_cents)
        case BetState.ROLLED_BACK:
            return _too_late(_BET_ROLLED_BACK, seen, "deposit_after_rollback", call.amount_cents)
    assert_never(bet.state)


def _too_late(code: str, seen: _Known, anomaly: str, due_cents: int) -> Decision:
    """Refuse a call about a bet that is settled; if no call has settled it, say what is due by this one."""
    assert seen.bet is not None
    is_ours = seen.bet.settled_by is not None and seen.bet.deposit_tx_id is None
    return _refused(code, seen, anomaly=anomaly)._replace(due_cents=due_cents if is_ours else None)


def _closed(bet: BetRecord, call: DepositCall) -> BetRecord:
    return bet._replace(
        state=BetState.CLOSED,
        won_cents=call.amount_cents,
        deposit_tx_id=call.tx_id,
        round_id=call.round_id or bet.round_id,
    )


def _odd_win(call: DepositCall) -> str:
    return "won_differs" if call.won_cents not in (None, call.amount_cents) else ""


def _adopted(call: DepositCall, seen: _Known, bet: BetRecord) -> Decision:
    """Take the first deposit after a reconciliation for the one that it stood in for."""
    assert seen.account is not None
    balance_cents, at_millis = seen.account.balance_cents, _read_at(seen)
    return Decision(
        None,
        balance_cents,
        at_millis,
        record=_record(call, call.tx_id, seen.account.key, None, balance_cents, at_millis),
        bet=_closed(bet, call),
        anomaly=_odd_win(call),
    )


def _claim(call: DepositCall, seen: _Known) -> Decision:
    known = seen.record
    if known is not None:
        same = (known.player_id, known.action, known.amount_cents) == (call.player_id, call.action, call.amount_cents)
        return _repeated(seen, known) if same else _refused(_DUPLICATE_TRANSACTION, seen, anomaly="conflicting_deposit")
    if seen.account is None:
        return _refused(_PLAYER_NOT_FOUND, seen, anomaly="claim_of_unknown_player")
    won = [bet.won_cents for bet in call.free_bets if bet.won_cents is not None]
    anomaly = "sum_differs" if len(won) == len(call.free_bets) > 0 and sum(won) != call.amount_cents else ""
    return _credited(call, seen, call.tx_id, call.amount_cents, None, anomaly)


def _rollback(call: RollbackCall, seen: _Known) -> Decision:
    known, bet = seen.record, seen.bet
    if bet is not None and _is_withdraws_body(call, bet) and not seen.rules.rollback_may_equal_withdraw:
        return _refused(_INVALID_REQUEST, seen, anomaly="withdraw_bytes_on_rollback")
    if known is not None and (known.player_id, known.bet_id) != (call.player_id, call.bet_id):
        return _refused(_DUPLICATE_TRANSACTION, seen, anomaly="conflicting_rollback")
    if bet is None:
        return _early_rollback(call, seen)
    if bet.state not in _DEBITED:
        return _nothing_to_roll_back(seen, "rollback_of_undebited_bet")
    if seen.account is None:
        return _no_account(call, seen, bet)
    has_its_tx_id = seen.rules.rollback_tx_id == "own" or call.tx_id in (None, bet.withdraw_tx_id)
    if call.player_id != bet.player_id or not has_its_tx_id:
        return _refused(_BET_NOT_FOUND, seen, anomaly="rollback_disagrees")
    if bet.state is BetState.CLOSED:
        return _too_late(_BET_ALREADY_CLOSED, seen, "rollback_after_deposit", bet.wager_cents)
    if bet.state is BetState.ROLLED_BACK:
        return _repeated(seen, known) if known else _unmoved(seen)._replace(replayed=True)
    anomaly = "amount_differs" if call.amount_cents not in (None, bet.wager_cents) else ""
    refunded = bet._replace(state=BetState.ROLLED_BACK, round_id=call.round_id or bet.round_id)
    tx_id = identity_of(call, bet, seen.rules)[1]
    return _credited(call, seen, tx_id, bet.wager_cents, refunded, anomaly)


def _is_withdraws_body(call: RollbackCall, bet: BetRecord) -> bool:
    # The signature covers the body and not the path: a losing bet's withdraw, posted to /rollback, would be a refund.
    return bet.withdraw_digest is not None and bool(call.body) and call.body_digest == bet.withdraw_digest


def _early_rollback(call: RollbackCall, seen: _Known) -> Decision:
    """Leave a tombstone, so that the withdraw, should it come, debits nothing."""
    names_withdraw = seen.rules.rollback_tx_id == "withdraw"
    if seen.record is not None or (names_withdraw and seen.tx_owner == call.bet_id):
        return _damaged(seen)
    decision = _nothing_to_roll_back(seen, "early_rollback")
    if names_withdraw and seen.tx_owner is not None:
        return decision._replace(anomaly="rollback_of_another_bets_withdraw")
    tx_id = identity_of(call, None, seen.rules)[1]
    record = _record(call, tx_id, seen.account_key, decision.code, decision.balance_cents, decision.at_millis)
    return decision._replace(
        record=record,
        hold=record._replace(operation="withdraw", action="") if names_withdraw else None,
        bet=_bet(call, seen.account_key, BetState.TOMBSTONE, decision.at_millis, tx_id if names_withdraw else None),
    )


def _nothing_to_roll_back(seen: _Known, anomaly: str) -> Decision:
    """Refuse, or answer SUCCESS as the profile says; an unknown player stays unknown."""
    known = seen.record
    if seen.account is None:
        return _refused(_PLAYER_NOT_FOUND, seen, anomaly=anomaly, replayed=known is not None)
    if known is not None and seen.rules.duplicate_reply == "verbatim":
        return _verbatim(known)._replace(anomaly=anomaly if known.code else "")
    if seen.rules.unknown_rollback == "success":
        return _unmoved(seen)._replace(replayed=known is not None)
    return _refused(_BET_NOT_FOUND, seen, anomaly=anomaly, replayed=known is not None)


def _credited(
    call: DepositCall | RollbackCall, seen: _Known, tx_id: str, amount_cents: int, bet: BetRecord | None, anomaly: str
) -> Decision:
    account = seen.account
    assert account is not None
    if amount_cents % seen.step_cents:
        return _refused(_SYSTEM_ERROR, seen, anomaly=UNIT_DOES_NOT_FIT)
    balance_cents = account.balance_cents + amount_cents
    if balance_cents > MAX_BALANCE_CENTS:
        return _refused(_SYSTEM_ERROR, seen, anomaly="balance_overflow")
    at_millis = _moved_at(seen)
    return Decision(
        None,
        balance_cents,
        at_millis,
        delta_cents=amount_cents,
        applied=True,
        record=_record(call, tx_id, account.key, None, balance_cents, at_millis),
        bet=bet._replace(settled_at_millis=at_millis) if bet else None,
        anomaly=anomaly,
    )


def _repeated(seen: _Known, known: CallRecord) -> Decision:
    """Answer a known call again: by today's balance and time, or word for word as the profile says."""
    if seen.account is None and known.code is None:
        return _damaged(seen)
    # INSUFFICIENT_BALANCE needs a balance. For an account that is gone, the first answer is repeated.
    is_gone = seen.account is None and known.code == _INSUFFICIENT_BALANCE
    if is_gone or seen.rules.duplicate_reply == "verbatim":
        return _verbatim(known)
    return Decision(known.code, _balance_in_answer(seen, known.code), _read_at(seen), replayed=True)


def _verbatim(known: CallRecord) -> Decision:
    # The balance of then with the time of then, and never one without the other.
    return Decision(known.code, known.balance_cents, known.at_millis, replayed=True)


def _no_account(call: DepositCall | RollbackCall, seen: _Known, bet: BetRecord) -> Decision:
    if bet.player_id == call.player_id and bet.state in _DEBITED:
        return _damaged(seen)
    return _refused(_PLAYER_NOT_FOUND, seen, anomaly="unknown_player")


def _damaged(seen: _Known) -> Decision:
    # A bet is ours but its account is gone, or a call is known and its bet is not. A person must look at it at once.
    return _refused(_SYSTEM_ERROR, seen, anomaly="damaged_books")


def _refused(code: str, seen: _Known, *, anomaly: str = "", replayed: bool = False) -> Decision:
    return Decision(code, _balance_in_answer(seen, code), _read_at(seen), replayed=replayed, anomaly=anomaly)


def _unmoved(seen: _Known) -> Decision:
    assert seen.account is not None
    return Decision(None, seen.account.balance_cents, _read_at(seen))


def _balance_in_answer(seen: _Known, code: str | None) -> int | None:
    return None if seen.account is None or without_balance(code) else seen.account.balance_cents


def _read_at(seen: _Known) -> int:
    return max(seen.clock_millis, seen.account.at_millis) if seen.account else seen.clock_millis


def _moved_at(seen: _Known) -> int:
    # Never the time of the balance before, so that a later timestamp never carries an older balance.
    assert seen.account is not None
    return max(seen.clock_millis, seen.account.at_millis + 1)


def _record(
    call: MovingCall, tx_id: str, account: str, code: str | None, balance_cents: int | None, at_millis: int
) -> CallRecord:
    amount_cents = 0 if isinstance(call, RollbackCall) else call.amount_cents
    return CallRecord(
        call.operation,
        tx_id,
        call.player_id,
        account,
        call.bet_id,
        call.action,
        amount_cents,
        code,
        balance_cents,
        at_millis,
        call.instance_id,
        call.game,
    )


def _bet(
    call: WithdrawCall | RollbackCall, account: str, state: BetState, at_millis: int, tx_id: str | None
) -> BetRecord:
    is_withdraw = isinstance(call, WithdrawCall)
    return BetRecord(
        call.bet_id,
        call.player_id,
        account,
        call.instance_id,
        call.game,
        call.round_id,
        call.amount_cents if isinstance(call, WithdrawCall) else 0,
        None,
        state,
        at_millis,
        None if is_withdraw else at_millis,
        call.action,
        tx_id,
        None,
        call.body_digest if is_withdraw and call.body and state is not BetState.DECLINED else None,
    )
