"""
The four webhook calls and their reply (spec §2.1, §4.1, §6).

The specification shows the reply and not the calls: their fields are the canonical ones of docs/decisions/0010,
whatever the body called them. Calls are plain frozen values: nothing here knows JSON, HTTP or a ledger.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import sha256
from typing import Any, ClassVar, Literal, TypeAlias

from game_operator.codes import WebhookErrorCode
from game_operator.errors import shown
from game_operator.money import Cents, amount_from_cents, cents_rounded_down

__all__ = [
    "BalanceCall",
    "DepositCall",
    "FreeBet",
    "MovingCall",
    "Reply",
    "RollbackCall",
    "WebhookCall",
    "WithdrawCall",
    "error",
    "success",
]

_CODE = re.compile(r"[A-Z0-9_]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeBet:
    """One free bet of a claim, as far as it could be read; amounts in cents."""

    id: str | None = None
    round_id: str | None = None
    wager_cents: int | None = None
    won_cents: int | None = None


class _Call:
    """What all calls share: the bytes they came in."""

    __slots__ = ()
    operation: ClassVar[str]
    body: bytes

    @property
    def body_digest(self) -> bytes:
        """The SHA-256 of the body as it came in, 32 bytes."""
        return sha256(self.body).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceCall(_Call):
    """
    The service asks for a player's balance (spec §4.1).

    Attributes:
        player_id: The player.
        raw: The parsed body, unknown fields included; numbers with a decimal point are Decimals.
        body: The body as it came in.
    """

    operation: ClassVar[Literal["player-balance"]] = "player-balance"
    player_id: str
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    body: bytes = field(default=b"", repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WithdrawCall(_Call):
    """
    A player places a bet: the wager is to be taken from the balance (spec §3, §4.1).

    Attributes:
        player_id: The player.
        bet_id: The bet, whatever its round.
        amount_cents: The wager.
        tx_id: Identity of the call among withdraws; derived from action and bet when the body has none.
        action: ``BET``, or another that the profile admits, such as ``RAIN``.
        round_id, instance_id, game: As told, or None.
        raw, body: As for BalanceCall.
    """

    operation: ClassVar[Literal["withdraw"]] = "withdraw"
    player_id: str
    bet_id: str
    amount_cents: int
    tx_id: str = ""
    action: str = "BET"
    round_id: str | None = None
    instance_id: str | None = None
    game: str | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    body: bytes = field(default=b"", repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.tx_id:
            object.__setattr__(self, "tx_id", f"withdraw:{self.action.lower()}:{self.bet_id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DepositCall(_Call):
    """
    A bet settles, or a claim is paid: the amount is to be credited; 0 is a loss (spec §3, §4.1).

    Attributes:
        player_id: The player.
        bet_id: The bet; None for a claim that names none.
        amount_cents: What is credited.
        tx_id: Identity of the call among deposits; derived from action and bet when the body has none.
        action: ``BET`` settles a bet; ``FREE_BET_CLAIM`` and ``JACKPOT`` are claims.
        is_claim: Whether the deposit is credited without touching any bet.
        wager_cents, won_cents: As told beside the amount, or None; they move nothing.
        free_bets: The free bets of a claim, as far as they could be read.
        jackpot_id: The pool that paid, or None.
        round_id, instance_id, game, raw, body: As for WithdrawCall.
    """

    operation: ClassVar[Literal["deposit"]] = "deposit"
    player_id: str
    bet_id: str | None = None
    amount_cents: int
    tx_id: str = ""
    action: str = "BET"
    is_claim: bool | None = None
    wager_cents: int | None = None
    won_cents: int | None = None
    free_bets: tuple[FreeBet, ...] = ()
    jackpot_id: str | None = None
    round_id: str | None = None
    instance_id: str | None = None
    game: str | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    body: bytes = field(default=b"", repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.is_claim is None:
            object.__setattr__(self, "is_claim", self.action != "BET")
        if self.bet_id is None and not (self.is_claim and self.tx_id):
            raise ValueError("a deposit needs a bet_id; only a claim with a tx_id can do without")
        if not self.tx_id:
            # Never from jackpot_id: a pool pays many times.
            object.__setattr__(self, "tx_id", f"deposit:{self.action.lower()}:{self.bet_id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackCall(_Call):
    """
    A bet is cancelled before it starts: its withdraw is to be reversed (spec §3, §4.1).

    Attributes:
        player_id: The player.
        bet_id: The bet.
        tx_id: Its *withdraw's* tx_id; None when the body has none, which agrees with any withdraw of the bet.
        action: As for WithdrawCall.
        amount_cents: As told, or None. What is refunded is the wager that was taken, whatever this says.
        round_id, instance_id, game, raw, body: As for WithdrawCall.
    """

    operation: ClassVar[Literal["rollback"]] = "rollback"
    player_id: str
    bet_id: str
    tx_id: str | None = None
    action: str = "BET"
    amount_cents: int | None = None
    round_id: str | None = None
    instance_id: str | None = None
    game: str | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    body: bytes = field(default=b"", repr=False, compare=False)


#: Any call, by its class.
WebhookCall: TypeAlias = WithdrawCall | DepositCall | RollbackCall | BalanceCall
#: A call that may move money.
MovingCall: TypeAlias = WithdrawCall | DepositCall | RollbackCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """
    What is answered to a webhook (spec §2.1); made by ``success`` and ``error``.

    Attributes:
        code: None for SUCCESS, else the error code.
        balance_cents: The player's balance; None where an ERROR carries none.
        timestamp: Unix milliseconds; None is filled in when the reply is closed.
    """

    code: str | None = None
    balance_cents: Cents | None = None
    timestamp: int | None = None

    @property
    def type(self) -> Literal["SUCCESS", "ERROR"]:
        """What the wire calls the outcome (spec §2.1)."""
        return "SUCCESS" if self.code is None else "ERROR"

    @property
    def balance(self) -> Decimal | None:
        """The balance in currency units, or None."""
        return None if self.balance_cents is None else amount_from_cents(self.balance_cents)


def success(*, balance: Decimal | None = None, balance_cents: int | None = None, timestamp: int | None = None) -> Reply:
    """
    Return a SUCCESS reply (spec §2.1) with the player's balance, in currency units or in cents.

    A balance finer than a cent is shown rounded down, never up. *timestamp* is Unix milliseconds, now by default.

    Raises:
        TypeError: Neither or both balances are given, or one of another type: an int is no amount, a float not exact.
        ValueError: The balance or the timestamp is no ordinary number.
    """
    if (balance is None) == (balance_cents is None):
        raise TypeError("a SUCCESS needs the balance, as balance= (Decimal) or as balance_cents= (int): exactly one")
    _check_timestamp(timestamp)
    return Reply(balance_cents=_cents(balance, balance_cents), timestamp=timestamp)


def error(
    code: str, *, balance: Decimal | None = None, balance_cents: int | None = None, timestamp: int | None = None
) -> Reply:
    """
    Return an ERROR reply (spec §2.1, §7.1) with *code*, and with the balance where it is known.

    Raises:
        TypeError: Both balances are given, or one of another type than Decimal and int.
        ValueError: The code is not made of A-Z, 0-9 and _, or INSUFFICIENT_BALANCE has no balance.
    """
    if not isinstance(code, str):
        raise TypeError(f"the code must be a str, not {type(code).__name__}")
    if not _CODE.fullmatch(code):
        raise ValueError(f"{shown(str(code))} is no error code: use 1 to 64 of A-Z, 0-9 and _")
    if balance is not None and balance_cents is not None:
        raise TypeError("give the balance as balance= (Decimal) or as balance_cents= (int), not as both")
    cents = _cents(balance, balance_cents)
    if code == WebhookErrorCode.INSUFFICIENT_BALANCE and cents is None:
        raise ValueError("INSUFFICIENT_BALANCE needs the balance: the service shows it to the player")
    _check_timestamp(timestamp)
    return Reply(code=str(code), balance_cents=cents, timestamp=timestamp)


def _cents(balance: Decimal | None, balance_cents: int | None) -> Cents | None:
    if balance is not None:
        return cents_rounded_down(balance)
    if balance_cents is not None and type(balance_cents) is not int:
        raise TypeError(f"balance_cents must be an int, not {type(balance_cents).__name__} {shown(balance_cents)}")
    return None if balance_cents is None else Cents(balance_cents)


def _check_timestamp(timestamp: int | None) -> None:
    if timestamp is None:
        return
    if type(timestamp) is not int:
        raise TypeError(f"timestamp must be an int of Unix milliseconds, not {type(timestamp).__name__}")
    if timestamp < 0:
        raise ValueError(f"timestamp must be Unix milliseconds, not {timestamp}")
