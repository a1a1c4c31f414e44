"""
The four webhook calls and their reply (spec §2.1, §4.1, §6).

The specification shows the reply and not the calls: their fields are the canonical ones of docs/decisions/0010,
under any name in the body. Calls are plain frozen values: nothing here knows JSON, HTTP or a ledger. What moves
money is checked however a call is made, from a body, by a parser of the operator's or by hand: wrong types are a
TypeError, ids and amounts that cannot be are a ValueError.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import sha256
from typing import Any, ClassVar, Final, Literal, TypeAlias

from game_operator.codes import WebhookErrorCode
from game_operator.errors import shown
from game_operator.money import Cents, amount_from_cents, cents_rounded_down

#: Ten trillion currency units, the most that a call may move.
MAX_AMOUNT_CENTS: Final = 10**15
#: How many code points player_id and bet_id may have; a derived tx_id has a prefix beside them.
LONGEST_ID: Final = 256
LONGEST_TX_ID: Final = 320

_CODE: Final = re.compile(r"[A-Z0-9_]{1,64}", re.ASCII)
#: What a database keeps in 64 bits.
_MOST_BALANCE_CENTS: Final = 2**63 - 1
#: The end of the year 9999.
_LAST_MILLIS: Final = 253_402_300_799_999


def problem_of_id(value: str, longest: int) -> str:
    """Return what is wrong with *value* as an id, or "". Ids are compared bytewise, and never trimmed or folded."""
    if not value or value.isspace():
        return "must not be blank"
    if len(value) > longest:
        return f"must have at most {longest} characters, and has {len(value)}"
    if "\0" in value:
        return "must not hold U+0000"
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return "must not hold a lone surrogate"
    return ""


def _check_id(name: str, value: object, longest: int = LONGEST_ID) -> None:
    # The common case in one look, because each call has four ids. What fails it is looked at more closely.
    if type(value) is str and value.isascii() and len(value) <= longest and "\0" not in value and value.strip():
        return
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__} {shown(value)}")
    problem = problem_of_id(value, longest)
    if problem:
        raise ValueError(f"{name} {problem}, it is {shown(value)}")


def _check_int(name: str, value: object, *, least: int, most: int) -> None:
    # A bool is an int to isinstance, and a float would be written with its noise.
    if type(value) is not int:
        raise TypeError(f"{name} must be an int, not {type(value).__name__} {shown(value)}")
    if not least <= value <= most:
        raise ValueError(f"{name} must be from {least} to {most}, not {shown(value)}")


def _amount(cents: int | None) -> Decimal | None:
    return None if cents is None else amount_from_cents(cents)


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeBet:
    """
    One free bet of a claim, as far as it could be read; None for what is missing (assumed, docs/decisions/0010).

    Attributes:
        id: The id of the free bet.
        round_id: The round that it was played in.
        wager_cents: The stake in cents.
        won_cents: What it won, in cents.
    """

    id: str | None = None
    round_id: str | None = None
    wager_cents: int | None = None
    won_cents: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """What all calls share: who plays, and the body that the call came in."""

    operation: ClassVar[str]
    player_id: str
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    body: bytes = field(default=b"", repr=False, compare=False)

    @property
    def body_digest(self) -> bytes:
        """The SHA-256 of the body as it came in, 32 bytes."""
        return sha256(self.body).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class _BetCall(_Call):
    """What calls that move money share."""

    action: str = "BET"
    round_id: str | None = None
    instance_id: str | None = None
    game: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceCall(_Call):
    """
    The service asks for a player's balance (spec §4.1).

    Attributes:
        player_id: The player.
        raw: The parsed body, unknown fields included; numbers with a decimal point are Decimals.
        body: The body as it came in.
        operation: ``player-balance``, the same for all.
    """

    operation: ClassVar[Literal["player-balance"]] = "player-balance"

    def __post_init__(self) -> None:
        _check_id("player_id", self.player_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class WithdrawCall(_BetCall):
    """
    A player places a bet: the wager is to be taken from the balance (spec §3, §4.1).

    Attributes:
        player_id: The player.
        bet_id: The bet, unique over all rounds.
        amount_cents: The wager.
        tx_id: Identity of the call among withdraws; derived from action and bet when the body has none.
        action: ``BET``, or another that the profile admits, such as ``RAIN``.
        round_id, instance_id, game: As reported, or None.
        raw, body: As for BalanceCall.
        operation: ``withdraw``, the same for all.
    """

    operation: ClassVar[Literal["withdraw"]] = "withdraw"
    bet_id: str
    amount_cents: int
    tx_id: str = ""

    def __post_init__(self) -> None:
        _check_id("player_id", self.player_id)
        _check_id("bet_id", self.bet_id)
        _check_id("action", self.action)
        _check_int("amount_cents", self.amount_cents, least=0, most=MAX_AMOUNT_CENTS)
        if self.tx_id == "":
            object.__setattr__(self, "tx_id", f"withdraw:{self.action.lower()}:{self.bet_id}")
        _check_id("tx_id", self.tx_id, LONGEST_TX_ID)

    @property
    def amount(self) -> Decimal:
        """The wager in currency units, with two decimals."""
        return amount_from_cents(self.amount_cents)


@dataclass(frozen=True, slots=True, kw_only=True)
class DepositCall(_BetCall):
    """
    A bet settles, or a claim is paid: the amount is to be credited; 0 is a loss (spec §3, §4.1).

    Attributes:
        player_id: The player.
        bet_id: The bet; None for a claim that names none.
        amount_cents: What is credited.
        tx_id: Identity of the call among deposits; derived from action and bet when the body has none.
        action: ``BET`` settles a bet; ``FREE_BET_CLAIM`` and ``JACKPOT`` are claims.
        is_claim: Whether the deposit is credited without touching any bet: every action but ``BET``, if not said.
        wager_cents, won_cents: As reported beside the amount, or None; they move nothing.
        free_bets: The free bets of a claim, as far as they could be read.
        jackpot_id: The pool that paid, or None.
        round_id, instance_id, game, raw, body: As for WithdrawCall.
        operation: ``deposit``, the same for all.
    """

    operation: ClassVar[Literal["deposit"]] = "deposit"
    bet_id: str | None = None
    amount_cents: int
    tx_id: str = ""
    is_claim: bool | None = None
    wager_cents: int | None = None
    won_cents: int | None = None
    free_bets: tuple[FreeBet, ...] = ()
    jackpot_id: str | None = None

    def __post_init__(self) -> None:
        _check_id("player_id", self.player_id)
        _check_id("action", self.action)
        _check_int("amount_cents", self.amount_cents, least=0, most=MAX_AMOUNT_CENTS)
        if self.is_claim is None:
            object.__setattr__(self, "is_claim", self.action != "BET")
        if self.is_claim and self.action == "BET":
            raise ValueError("a deposit with the action BET settles its bet: it is not a claim")
        if self.bet_id is not None:
            _check_id("bet_id", self.bet_id)
        elif not (self.is_claim and self.tx_id):
            raise ValueError("a deposit needs a bet_id; only a claim with a tx_id can do without")
        if self.tx_id == "":
            # Never from jackpot_id: a pool pays many times.
            object.__setattr__(self, "tx_id", f"deposit:{self.action.lower()}:{self.bet_id}")
        _check_id("tx_id", self.tx_id, LONGEST_TX_ID)

    @property
    def amount(self) -> Decimal:
        """What is credited in currency units, with two decimals."""
        return amount_from_cents(self.amount_cents)

    @property
    def wager_amount(self) -> Decimal | None:
        """The reported wager in currency units, or None."""
        return _amount(self.wager_cents)

    @property
    def won_amount(self) -> Decimal | None:
        """The reported win in currency units, or None."""
        return _amount(self.won_cents)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackCall(_BetCall):
    """
    A bet is cancelled before it starts: its withdraw is to be reversed (spec §3, §4.1).

    Attributes:
        player_id: The player.
        bet_id: The bet.
        tx_id: Its *withdraw's* tx_id; None when the body has none, which agrees with any withdraw of the bet.
        action: As for WithdrawCall.
        amount_cents: As reported, or None. What is refunded is always the wager that was taken.
        round_id, instance_id, game, raw, body: As for WithdrawCall.
        operation: ``rollback``, the same for all.
    """

    operation: ClassVar[Literal["rollback"]] = "rollback"
    bet_id: str
    tx_id: str | None = None
    amount_cents: int | None = None

    def __post_init__(self) -> None:
        _check_id("player_id", self.player_id)
        _check_id("bet_id", self.bet_id)
        _check_id("action", self.action)
        if self.tx_id is not None:
            _check_id("tx_id", self.tx_id, LONGEST_TX_ID)

    @property
    def amount(self) -> Decimal | None:
        """The reported amount in currency units, or None."""
        return _amount(self.amount_cents)


WebhookCall: TypeAlias = WithdrawCall | DepositCall | RollbackCall | BalanceCall
"""Any call of the service (spec §4.1)."""
MovingCall: TypeAlias = WithdrawCall | DepositCall | RollbackCall
"""A call that may move money (spec §4.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """
    What is answered to a webhook (spec §2.1). Make it with ``success`` and ``error``, which know more rules.

    Attributes:
        code: None for SUCCESS, else the error code.
        balance_cents: The player's balance; None where an ERROR carries none.
        timestamp: Unix milliseconds; None is filled in when the reply is closed.

    Raises:
        TypeError: A value has another type.
        ValueError: A SUCCESS has no balance, the balance does not fit 64 bits, or the time ends after the year 9999.
    """

    code: str | None = None
    balance_cents: Cents | None = None
    timestamp: int | None = None

    def __post_init__(self) -> None:
        if self.code is None:
            if self.balance_cents is None:
                raise ValueError("a SUCCESS needs the balance (spec §2.1); build it with success()")
        elif not isinstance(self.code, str):
            raise TypeError(f"the code must be a str, not {type(self.code).__name__} {shown(self.code)}")
        cents, timestamp = self.balance_cents, self.timestamp
        if cents is not None:
            _check_int("balance_cents", cents, least=-_MOST_BALANCE_CENTS, most=_MOST_BALANCE_CENTS)
        if timestamp is not None:
            _check_int("timestamp, in Unix milliseconds,", timestamp, least=0, most=_LAST_MILLIS)

    @property
    def type(self) -> Literal["SUCCESS", "ERROR"]:
        """What the wire calls the outcome (spec §2.1)."""
        return "SUCCESS" if self.code is None else "ERROR"

    @property
    def balance(self) -> Decimal | None:
        """The balance in currency units, as on the wire (spec §2.1), or None."""
        return _amount(self.balance_cents)


def success(*, balance: Decimal | None = None, balance_cents: int | None = None, timestamp: int | None = None) -> Reply:
    """
    Return a SUCCESS reply (spec §2.1) with the player's balance, in currency units or in cents.

    Args:
        balance: The player's balance in currency units. What is finer than a cent is rounded down, never up.
        balance_cents: The same in cents; exactly one of the two is given.
        timestamp: Unix milliseconds; now by default.

    Raises:
        TypeError: Neither or both balances are given, or one of another type; a float is not exact.
        ValueError: The balance is not finite or does not fit 64 bits of cents, or the time is invalid.
    """
    if (balance is None) == (balance_cents is None):
        raise TypeError("a SUCCESS needs the balance, as balance= (Decimal) or as balance_cents= (int): exactly one")
    return Reply(balance_cents=_cents(balance, balance_cents), timestamp=timestamp)


def error(
    code: str, *, balance: Decimal | None = None, balance_cents: int | None = None, timestamp: int | None = None
) -> Reply:
    """
    Return an ERROR reply (spec §2.1, §7.1) with *code*, and with the balance where it is known.

    Args:
        code: A ``WebhookErrorCode``, or for a withdraw a code of yours, of A-Z, 0-9 and _.
        balance: The player's balance in currency units; or None.
        balance_cents: The same in cents; at most one of the two is given.
        timestamp: Unix milliseconds; now by default.

    Raises:
        TypeError: Both balances are given, or something has another type than it must have.
        ValueError: The code is not made of A-Z, 0-9 and _, INSUFFICIENT_BALANCE has no balance, or a value is out of
            bounds, as for ``success``.
    """
    if not isinstance(code, str):
        raise TypeError(f"the code must be a str, not {type(code).__name__} {shown(code)}")
    if not _CODE.fullmatch(code):
        raise ValueError(f"{shown(code)} is not an error code: use 1 to 64 of A-Z, 0-9 and _")
    if balance is not None and balance_cents is not None:
        raise TypeError("give the balance as balance= (Decimal) or as balance_cents= (int), not as both")
    cents = _cents(balance, balance_cents)
    if code == WebhookErrorCode.INSUFFICIENT_BALANCE and cents is None:
        raise ValueError("INSUFFICIENT_BALANCE needs the balance: the service shows it to the player")
    return Reply(code=str(code), balance_cents=cents, timestamp=timestamp)


def _cents(balance: Decimal | None, balance_cents: int | None) -> Cents | None:
    if balance is not None:
        return cents_rounded_down(balance)
    # Its type is checked by Reply.
    return None if balance_cents is None else Cents(balance_cents)
