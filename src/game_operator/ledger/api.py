"""
What a ledger keeps and answers: records of bets and calls, accounts, outcomes, and the Protocol all ledgers meet.

All amounts are whole cents, all times Unix milliseconds.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

from game_operator.codes import BetState, WebhookErrorCode
from game_operator.errors import LedgerError
from game_operator.models.webhooks import BalanceCall, DepositCall, MovingCall, Reply, WebhookCall, WithdrawCall
from game_operator.money import Cents
from game_operator.profile import Profile

__all__ = [
    "DEFAULT_TERMS",
    "MAX_BALANCE_CENTS",
    "Account",
    "AccountOf",
    "BetRecord",
    "CallRecord",
    "Ledger",
    "MayBet",
    "Outcome",
    "Terms",
    "Within",
]

#: What a BIGINT holds. A credit beyond it moves nothing.
MAX_BALANCE_CENTS = 2**63 - 1


class Account(NamedTuple):
    """A balance as it stands while its row is locked, and when it last moved."""

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
        instance_id, game, round_id: As the withdraw told; the round also as deposit or rollback told (spec §6).
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


class CallRecord(NamedTuple):
    """
    A call that was answered for good: its identity, its content, and its answer.

    Attributes:
        operation: ``withdraw``, ``deposit``, ``rollback``; also ``adjust`` and ``open`` for money outside games.
        tx_id: Identity among the calls of that operation and source.
        player_id, bet_id, action, amount_cents: The content that makes two calls the same.
        account: The account it moved, or would have moved.
        code: None for SUCCESS, else the error code.
        balance_cents: The balance it was answered with, or None.
        at_millis: The time it was answered with.
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

    @property
    def held(self) -> bool:
        """Whether no such call came yet: a tombstone keeps its withdraw's identity from every other bet."""
        return not self.action


class _InTransaction:
    """
    Of an outcome in the caller's own transaction: whether that has failed since.

    It is no field, so outcomes are compared, pickled and shown without it, and cost nothing where there is none.
    """

    __slots__ = ("_has_failed",)
    _has_failed: Callable[[], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(_InTransaction):
    """
    What became of a call. Every outcome is to be committed, a refusal too: it stores a decline or a tombstone.

    Attributes:
        code: None for SUCCESS, else the error code.
        balance_cents: The balance to answer with; None where there is none to tell.
        at_millis: The time to answer with.
        applied: Whether this call moved money or closed a bet.
        replayed: Whether it is a known call again.
        anomaly: What a person should look at; "" for nothing.
    """

    code: str | None
    balance_cents: Cents | None
    at_millis: int
    applied: bool = False
    replayed: bool = False
    anomaly: str = ""

    @property
    def refused(self) -> bool:
        """Whether the answer is an ERROR."""
        return self.code is not None

    def reply(self) -> Reply:
        """
        Return the reply of spec §2.1.

        Raises:
            LedgerError: The call joined a transaction of yours, and the driver reports that the transaction has failed
                (psycopg, also under SQLAlchemy and Django). Ask before you commit: afterwards nobody can tell.
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


#: Asked about a withdraw that is about to debit: a code that refuses it, or None.
MayBet: TypeAlias = Callable[[WithdrawCall, Account], Any]
#: The account of a withdraw, claim or player-balance, when it is not the player's own id: a text, or as many texts as
#: the key of a TableAccounts has columns.
AccountOf: TypeAlias = Callable[[WithdrawCall | DepositCall | BalanceCall], str | tuple[str, ...]]
#: The operator's own statements, run with the connection in the transaction of a call.
Within: TypeAlias = Callable[[MovingCall, Outcome, Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """By what rules a ledger applies calls; a Wallet keeps one of these."""

    rules: Profile = field(default_factory=Profile)
    source: str = ""
    may_bet: MayBet | None = None
    account_of: AccountOf | None = None
    within: Within | None = None


DEFAULT_TERMS = Terms()


class Ledger(Protocol):
    """What every ledger does, whatever it keeps its rows in."""

    def apply(self, call: WebhookCall, *, terms: Terms = DEFAULT_TERMS) -> Outcome:
        """Apply *call* in one transaction and return what became of it."""

    def balance(self, player_id: str) -> Cents:
        """Return the balance of an account; raise AccountNotFoundError if there is none."""

    def bet(self, bet_id: str, *, source: str = "") -> BetRecord | None:
        """Return what is known of a bet, or None."""

    def bets(
        self, *, since_millis: int | None = None, until_millis: int | None = None, source: str = ""
    ) -> Iterable[BetRecord]:
        """Return the bets opened from *since_millis* up to but not at *until_millis*, oldest first."""


def without_balance(code: str | None) -> bool:
    """Return whether a reply with *code* never tells a balance (docs/decisions/0012)."""
    return code in _SILENT


_SILENT = frozenset(
    {WebhookErrorCode.PLAYER_NOT_FOUND, WebhookErrorCode.SYSTEM_ERROR, WebhookErrorCode.INVALID_SIGNATURE}
)
