"""
A page of the books in memory: what a batch of calls needs to know, and what is to be written back.

Calls are applied to it one after another, so that two calls of one batch see each other just as two transactions
would. It is pure: a ledger loads the rows, applies, and stores ``changes``.
"""

import inspect
import logging
from contextvars import Context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from game_operator.codes import BetState, WebhookErrorCode
from game_operator.errors import LedgerError, shown
from game_operator.ledger.api import Account, BetRecord, CallRecord, Outcome, Terms, account_of_parts
from game_operator.ledger.rules.decide import Decision, decide, identity_of, settle
from game_operator.models.webhooks import (
    BalanceCall,
    DepositCall,
    MovingCall,
    RollbackCall,
    WebhookCall,
    WithdrawCall,
    problem_of_id,
)
from game_operator.money import Cents, amount_from_cents
from game_operator.profile import Profile
from game_operator.protocol.webhook import encode_call

if TYPE_CHECKING:
    from game_operator.telemetry.webhooks import WaitingCall

_LOG = logging.getLogger("game_operator.ledger")

#: The kind of a deposit or rollback whose source the ledger does not know.
UNKNOWN_SOURCE: Final = "unknown_source"
#: The kind of a deposit or rollback of a player that the ledger does not own.
FOREIGN_PLAYER: Final = "foreign_player"
_LONGEST_CURRENCY: Final = 16


class Item(NamedTuple):
    """A call and the rules it is applied by."""

    call: WebhookCall
    terms: Terms
    #: Of the task that asks, for the operator's own statements; None to run them in any.
    context: Context | None = None
    #: What telemetry knows of the call; None without telemetry.
    waiting: "WaitingCall | None" = None


def asks_operator(call: WebhookCall, terms: Terms) -> bool:
    """Return whether the operator's own code may run in the transaction of *call*; no other call shares it then."""
    if isinstance(call, WithdrawCall) and terms.may_bet is not None:
        return True
    return terms.after is not None and not isinstance(call, BalanceCall)


class Posting(NamedTuple):
    """One movement (docs/decisions/0015): from one account to another; None is the house."""

    from_account: str | None
    to_account: str | None
    amount_cents: int
    source: str
    operation: str
    tx_id: str
    at_millis: int


class Anomaly(NamedTuple):
    """Something that a person should look at, with the body it came in."""

    kind: str
    code: str | None
    operation: str
    tx_id: str | None
    bet_id: str | None
    player_id: str | None
    body: bytes
    at_millis: int


class NewFinding(NamedTuple):
    """
    Something that a person should look into.

    Attributes:
        kind: What it is, such as ``amount_differs``.
        subject: The bet id or the reference id.
        detail: The same for a person.
        tx_id: Tells several findings of a kind about one subject apart, or "".
        player_id, account: Whose money it is, as far as that is known.
        at_stake_cents: The money at stake; where something is owed, all that the account should have got for the bet.
        owed_cents: What of it is owed, below zero if the account has too much; None if paying is no remedy.
        evidence: The bytes that it rests on.
    """

    kind: str
    subject: str
    detail: str
    tx_id: str = ""
    player_id: str | None = None
    account: str | None = None
    at_stake_cents: int = 0
    owed_cents: int | None = None
    evidence: bytes | None = None


def posting(account: str, delta_cents: int, source: str, operation: str, tx_id: str, at_millis: int) -> Posting:
    """Return the movement of *delta_cents* onto *account*, or off it when negative."""
    from_account, to_account = (account, None) if delta_cents < 0 else (None, account)
    return Posting(from_account, to_account, abs(delta_cents), source, operation, tx_id, at_millis)


@dataclass(slots=True)
class Needs:
    """The keys of the rows that a batch may touch, all in one source; an account's key has *key_parts* parts."""

    source: str
    key_parts: int = field(default=1, kw_only=True)
    bets: set[str] = field(default_factory=set)
    calls: set[tuple[str, str]] = field(default_factory=set)
    accounts: set[str] = field(default_factory=set)

    def add(self, call: WebhookCall, terms: Terms) -> None:
        """Add what *call* may touch; what ``account_of`` raises passes through."""
        self.accounts.add(named_account(call, terms, self.key_parts))
        if isinstance(call, BalanceCall):
            return
        if not _is_claim(call):
            assert call.bet_id is not None
            self.bets.add(call.bet_id)
        operation, tx_id = identity_of(call, None, terms.rules)
        self.calls.add((operation, tx_id))
        if isinstance(call, RollbackCall):
            self.calls.add(("withdraw", tx_id))


def named_account(call: WebhookCall, terms: Terms, key_parts: int = 1) -> str:
    """Return the account of the player that *call* names. Deposits of bets and rollbacks are bound by their bet."""
    if isinstance(call, RollbackCall) or (isinstance(call, DepositCall) and not call.is_claim):
        # With more key parts a player alone has no account. The id may look like the JSON array of another account's
        # key, but an array of one is never an account.
        looks_like_key = key_parts > 1 and call.player_id.startswith("[")
        return account_of_parts([call.player_id]) if looks_like_key else call.player_id
    if terms.account_of is not None:
        key: object = terms.account_of(call)
        parts: tuple[object, ...] = key if isinstance(key, tuple) and key_parts > 1 else (key,)
        texts = [part for part in parts if isinstance(part, str) and not problem_of_id(part, 256)]
        # Taken for an unknown player, it would refuse the bet for good.
        if not len(texts) == len(parts) == key_parts:
            wanted = "a text" if key_parts == 1 else f"a tuple of {key_parts} texts"
            raise LedgerError(f"account_of answered {shown(key)}; it must answer the key of an account, {wanted}")
        return texts[0] if key_parts == 1 else account_of_parts(texts)
    if key_parts > 1:
        raise LedgerError(
            f"The key of an account has {key_parts} columns, and the call names a player alone: pass account_of=, "
            f"which answers a tuple of {key_parts} texts. Nothing was stored."
        )
    return call.player_id


@dataclass(slots=True)
class Changes:
    """What a batch has to write."""

    calls: list[CallRecord] = field(default_factory=list)
    new_bets: dict[str, BetRecord] = field(default_factory=dict)
    changed_bets: dict[str, BetRecord] = field(default_factory=dict)
    accounts: dict[str, Account] = field(default_factory=dict)
    new_accounts: dict[str, Account] = field(default_factory=dict)
    postings: list[Posting] = field(default_factory=list)
    anomalies: list[Anomaly] = field(default_factory=list)
    claims: dict[str, bytes] = field(default_factory=dict)
    findings: list[NewFinding] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.calls or self.new_bets or self.changed_bets or self.anomalies)


class Book:
    """The rows of one source, what has become of them, and the code of a stop of bets."""

    __slots__ = ("accounts", "bets", "calls", "changes", "key_parts", "source", "step_cents", "stop_code")

    def __init__(self, source: str = "", *, key_parts: int = 1, step_cents: int = 1) -> None:
        self.source: str = source
        self.key_parts: int = key_parts
        self.step_cents: int = step_cents
        self.accounts: dict[str, Account] = {}
        self.bets: dict[str, BetRecord] = {}
        self.calls: dict[tuple[str, str], CallRecord] = {}
        self.changes: Changes = Changes()
        self.stop_code: str | None = None

    def account_key(self, call: WebhookCall, terms: Terms) -> str:
        """Return the key of the account that a decision about *call* rests on, as ``decide`` asks for it."""
        if isinstance(call, DepositCall) and call.is_claim:
            known = self.calls.get(("deposit", call.tx_id))
            # Not by another player's: no player sees the balance of another.
            is_own = known is not None and known.player_id == call.player_id
            return known.account if known is not None and is_own else named_account(call, terms, self.key_parts)
        bet = None if isinstance(call, BalanceCall) else self.bets.get(call.bet_id or "")
        # A tombstone was left by a rollback, of which no account is known for sure.
        if bet is not None and bet.player_id == call.player_id and bet.state is not BetState.TOMBSTONE:
            return bet.account
        return named_account(call, terms, self.key_parts)

    def asks_may_bet(self, call: WebhookCall, terms: Terms) -> Account | None:
        """Return the account of a withdraw that is about to debit, if the operator is to be asked about it first."""
        if terms.may_bet is None or self.stop_code is not None or not isinstance(call, WithdrawCall):
            return None
        if call.bet_id in self.bets or ("withdraw", call.tx_id) in self.calls or call.amount_cents % self.step_cents:
            return None
        return self.accounts.get(self.account_key(call, terms))

    def identities_named_by_bet(self, call: WebhookCall, terms: Terms) -> set[tuple[str, str]]:
        """Return the calls to know for a rollback without tx_id, once its bet names its withdraw."""
        if not isinstance(call, RollbackCall) or call.tx_id is not None:
            return set()
        tx_id = identity_of(call, self.bets.get(call.bet_id), terms.rules)[1]
        return {("rollback", tx_id), ("withdraw", tx_id)}

    def apply(self, call: WebhookCall, terms: Terms, *, clock_millis: int, refusal: str | None = None) -> Outcome:
        """Apply *call* to this page, note what is to be written, and return the outcome."""
        decision = self._decide(call, terms, clock_millis, refusal)
        if not isinstance(call, BalanceCall):
            self._note(call, terms, decision)
        return _outcome(decision)

    def settle(self, call: DepositCall | RollbackCall, terms: Terms, *, settled_by: str, clock_millis: int) -> Outcome:
        """Settle the bet of *call*, which never came, note what is to be written, and return the outcome."""
        bet = self.bets[call.bet_id or ""]
        account = self.accounts.get(bet.account)
        decision = settle(
            call,
            bet=bet,
            account=account,
            settled_by=settled_by,
            clock_millis=clock_millis,
            step_cents=self.step_cents,
        )
        if decision.applied:
            self._note(call, terms, decision)
        return _outcome(decision)

    def note_unknown_source(self, call: WebhookCall, terms: Terms, clock_millis: int) -> None:
        """Note a deposit or rollback that was refused because the ledger does not know its source."""
        if isinstance(call, DepositCall | RollbackCall):
            operation, tx_id = identity_of(call, None, terms.rules)
            named = (operation, tx_id, call.bet_id, call.player_id)
            code = WebhookErrorCode.SYSTEM_ERROR.value
            self.changes.anomalies.append(Anomaly(UNKNOWN_SOURCE, code, *named, body_of(call), clock_millis))

    def _decide(self, call: WebhookCall, terms: Terms, clock_millis: int, refusal: str | None) -> Decision:
        key = self.account_key(call, terms)
        known: CallRecord | None = None
        bet: BetRecord | None = None
        tx_owner: str | None = None
        if not isinstance(call, BalanceCall):
            bet = None if _is_claim(call) else self.bets.get(call.bet_id or "")
            identity = identity_of(call, bet, terms.rules)
            known = self.calls.get(identity)
            if isinstance(call, RollbackCall):
                owner = self.calls.get(("withdraw", identity[1]))
                tx_owner = owner.bet_id if owner else None
        return decide(
            call,
            known=known,
            bet=bet,
            tx_owner=tx_owner,
            account=self.accounts.get(key),
            account_key=key,
            rules=terms.rules,
            refusal=self.stop_code or refusal,
            clock_millis=clock_millis,
            step_cents=self.step_cents,
        )

    def _note(self, call: MovingCall, terms: Terms, decision: Decision) -> None:
        # First, because it may fail: nothing of a call that fails may be noted.
        body = body_of(call) if decision.anomaly or _is_claim(call) else b""
        currency = None if decision.record is None else currency_named(call, terms)
        if decision.record is not None:
            record = decision.record if currency is None else decision.record._replace(currency=currency)
            self._note_record(call, decision, record, body)
        if decision.bet is not None:
            self._note_bet(call, decision.bet, currency)
        if decision.replayed and not _is_claim(call):
            _log_differences(call, self.bets.get(call.bet_id or ""))
        if decision.anomaly:
            self._note_anomaly(call, terms.rules, decision, body)
        if decision.due_cents is not None:
            self._note_late_call(call, terms.rules, decision.due_cents, body)

    def _note_bet(self, call: MovingCall, bet: BetRecord, currency: str | None) -> None:
        is_known = bet.bet_id in self.bets
        is_new = not is_known or bet.bet_id in self.changes.new_bets
        if self.source:
            bet = bet._replace(source=self.source)
        if currency is not None and not is_known and isinstance(call, WithdrawCall):
            bet = bet._replace(currency=currency)
        (self.changes.new_bets if is_new else self.changes.changed_bets)[bet.bet_id] = bet
        self.bets[bet.bet_id] = bet

    def _note_record(self, call: MovingCall, decision: Decision, record: CallRecord, body: bytes) -> None:
        changes = self.changes
        for each in (record, decision.hold):
            if each is not None:
                self.calls[each.operation, each.tx_id] = each
                changes.calls.append(each)
        if _is_claim(call):
            changes.claims[record.tx_id] = body
        if decision.applied:
            assert decision.balance_cents is not None
            account = Account(record.account, decision.balance_cents, decision.at_millis)
            self.accounts[account.key] = changes.accounts[account.key] = account
        if decision.delta_cents:
            moved = (record.operation, record.tx_id, record.at_millis)
            changes.postings.append(posting(record.account, decision.delta_cents, self.source, *moved))

    def _note_late_call(self, call: MovingCall, rules: Profile, due_cents: int, body: bytes) -> None:
        """Note what is owed by a call that came after its bet was settled without it, and says something else."""
        bet = self.bets[call.bet_id or ""]
        credited_cents = bet.won_cents if bet.state is BetState.CLOSED else bet.wager_cents
        owed_cents = due_cents - (credited_cents or 0)
        tx_id = identity_of(call, bet, rules)[1]
        detail = (
            f"The {call.operation} {shown(tx_id)} of the bet {shown(bet.bet_id)} came after the bet was settled as "
            f"{bet.state.value} without it. By the call the account gets {amount_from_cents(due_cents)}."
        )
        finding = NewFinding(
            f"late_{call.operation}",
            bet.bet_id,
            detail,
            tx_id,
            bet.player_id,
            bet.account,
            at_stake_cents=due_cents,
            owed_cents=owed_cents,
            evidence=body,
        )
        self.changes.findings.append(finding)

    def _note_anomaly(self, call: MovingCall, rules: Profile, decision: Decision, body: bytes) -> None:
        operation, tx_id = identity_of(call, self.bets.get(call.bet_id or ""), rules)
        anomaly = Anomaly(
            decision.anomaly, decision.code, operation, tx_id, call.bet_id, call.player_id, body, decision.at_millis
        )
        self.changes.anomalies.append(anomaly)
        # What is answered SYSTEM_ERROR here does not go away without a person.
        level = logging.ERROR if decision.code == WebhookErrorCode.SYSTEM_ERROR else logging.INFO
        answer, bet_id = decision.code or "SUCCESS", shown(call.bet_id)
        text = "%s: a %s of bet %s was answered %s; it is kept to look at"
        extra = {"event": "ledger.anomaly", "anomaly": anomaly.kind, "operation": operation, "code": anomaly.code}
        _LOG.log(level, text, anomaly.kind, operation, bet_id, answer, extra=extra)


def currency_named(call: MovingCall, terms: Terms) -> str | None:
    """Return the currency that the operator's ``currency_of`` names; totals are never a reason to refuse money."""
    if terms.currency_of is None:
        return None
    try:
        currency: object = terms.currency_of(call)
    except Exception:
        unknown = {"event": "ledger.currency_unknown", "operation": call.operation}
        _LOG.exception("currency_of raised: the currency of a %s is unknown", call.operation, extra=unknown)
        return None
    if currency is None:
        return None
    if not isinstance(currency, str) or problem_of_id(currency, _LONGEST_CURRENCY):
        if inspect.iscoroutine(currency):
            currency.close()
        unknown = {"event": "ledger.currency_unknown", "operation": call.operation}
        _LOG.error("currency_of answered %s, which is not a currency: it is unknown", shown(currency), extra=unknown)
        return None
    return str.__str__(currency)  # A driver could write the member of an enum by its name.


def _outcome(decision: Decision) -> Outcome:
    balance_cents = None if decision.balance_cents is None else Cents(decision.balance_cents)
    return Outcome(
        code=decision.code,
        balance_cents=balance_cents,
        at_millis=decision.at_millis,
        applied=decision.applied,
        replayed=decision.replayed,
        anomaly=decision.anomaly,
        delta_cents=decision.delta_cents,
    )


def _is_claim(call: WebhookCall) -> bool:
    return isinstance(call, DepositCall) and bool(call.is_claim)


def body_of(call: MovingCall) -> bytes:
    """Return the body that is kept of *call*: as it came in, or as we would write it."""
    return call.body or encode_call(call)


def _log_differences(call: MovingCall, bet: BetRecord | None) -> None:
    """Log what differs in a repeat beside its content: round, game, instance, and further amounts."""
    if bet is None or bet.state is BetState.TOMBSTONE:
        return
    pairs: list[tuple[str, object, object]] = [
        (name, getattr(call, name), getattr(bet, name)) for name in ("round_id", "game", "instance_id")
    ]
    if isinstance(call, DepositCall):
        pairs += [("wager", call.wager_cents, bet.wager_cents), ("won", call.won_cents, bet.won_cents)]
    elif isinstance(call, RollbackCall):
        pairs.append(("amount", call.amount_cents, bet.wager_cents))
    for name, given, kept in pairs:
        if given is not None and kept is not None and given != kept:
            what = f"a repeated {call.operation} of bet {shown(bet.bet_id)}"
            extra = {"event": "ledger.repeat_differs", "operation": call.operation}
            values = (what, name, shown(given), shown(kept))
            _LOG.warning("%s has %s %s, not %s: it changes nothing", *values, extra=extra)
