"""The calls of webhooks and their reply as values: what can be built, and what cannot (spec §2.1, §3, §4.1)."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from decimal import Decimal
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given

from game_operator import (
    BalanceCall,
    Cents,
    DepositCall,
    Reply,
    RollbackCall,
    WithdrawCall,
)
from game_operator.models.webhooks import MAX_AMOUNT_CENTS, error, problem_of_id, success
from game_operator.webhooks import WebhookCall, WebhookErrorCode
from tests.support.wire import TEXT, examples

#: Arguments of a good call of each kind.
WITHDRAW: dict[str, Any] = {"player_id": "p1", "bet_id": "b1", "amount_cents": 5000}
DEPOSIT: dict[str, Any] = {"player_id": "p1", "bet_id": "b1", "amount_cents": 15000}
ROLLBACK: dict[str, Any] = {"player_id": "p1", "bet_id": "b1"}
BALANCE: dict[str, Any] = {"player_id": "p1"}

KINDS: list[tuple[type[WebhookCall], dict[str, Any]]] = [
    (WithdrawCall, WITHDRAW),
    (DepositCall, DEPOSIT),
    (RollbackCall, ROLLBACK),
    (BalanceCall, BALANCE),
]
every_kind = pytest.mark.parametrize(("kind", "arguments"), KINDS, ids=["withdraw", "deposit", "rollback", "balance"])


def test_operations() -> None:
    """Each call says which of the four webhooks it is (spec §4.1)."""
    operations = [kind(**arguments).operation for kind, arguments in KINDS]
    assert operations == ["withdraw", "deposit", "rollback", "player-balance"]


@pytest.mark.parametrize(("kind", "arguments"), KINDS[:2], ids=["withdraw", "deposit"])
@pytest.mark.parametrize(
    ("cents", "kind_of_error"),
    [
        pytest.param(-1, ValueError, id="negative"),
        pytest.param(MAX_AMOUNT_CENTS + 1, ValueError, id="above the largest"),
        pytest.param(500.0, TypeError, id="a float"),
        pytest.param("500", TypeError, id="text"),
        pytest.param(True, TypeError, id="a bool"),
        pytest.param(None, TypeError, id="nothing"),
    ],
)
def test_amounts_that_cannot_be(
    kind: type[WebhookCall], arguments: dict[str, Any], cents: object, kind_of_error: type[Exception]
) -> None:
    """A withdraw of -500 would be a gift: no call can carry what is not an amount, however it is made (spec §4.1)."""
    with pytest.raises(kind_of_error, match=r"^amount_cents must be"):
        kind(**arguments | {"amount_cents": cents})


@pytest.mark.parametrize("cents", [0, 1, MAX_AMOUNT_CENTS])
def test_amounts_at_their_limits(cents: int) -> None:
    """0 is a loss in a deposit (spec §4.1); whether it is a bet in a withdraw is the profile's to say."""
    for kind, arguments in KINDS[:2]:
        call: Any = kind(**arguments | {"amount_cents": cents})
        assert call.amount_cents == cents


@pytest.mark.parametrize(
    ("arguments", "is_claim"),
    [
        pytest.param({}, False, id="BET settles a bet"),
        pytest.param({"action": "JACKPOT"}, True, id="any other is a claim"),
        pytest.param({"action": "WIN", "is_claim": False}, False, id="a parser may know better"),
        pytest.param({"action": "JACKPOT", "is_claim": True, "bet_id": None, "tx_id": "t1"}, True, id="without a bet"),
    ],
)
def test_claims(arguments: dict[str, Any], is_claim: bool) -> None:
    """A claim is credited without touching any bet, so it may name none (docs/decisions/0010)."""
    assert DepositCall(**DEPOSIT | arguments).is_claim is is_claim


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param({"bet_id": None, "tx_id": "t1"}, "a deposit needs a bet_id", id="a tx_id settles no bet"),
        pytest.param(
            {"bet_id": None, "action": "JACKPOT"}, "a deposit needs a bet_id", id="a claim without any identity"
        ),
        pytest.param({"is_claim": True}, "it is not a claim", id="a BET that would pay without a bet"),
    ],
)
def test_deposits_that_cannot_be(arguments: dict[str, Any], problem: str) -> None:
    """A deposit settles a bet that it names, or is a claim that can be known again (docs/decisions/0010)."""
    with pytest.raises(ValueError, match=problem):
        DepositCall(**DEPOSIT | arguments)


@every_kind
def test_calls_are_values(kind: type[WebhookCall], arguments: dict[str, Any]) -> None:
    """Frozen, hashable, equal to their copies; the raw body is evidence and not part of what they are."""
    call = kind(**arguments, raw={"a": [1]}, body=b"{}")
    twins = [pickle.loads(pickle.dumps(call)), copy.copy(call), copy.deepcopy(call)]
    for twin in (*twins, kind(**arguments)):
        assert (twin, hash(twin), repr(twin)) == (call, hash(call), repr(call))
    assert all((twin.raw, twin.body) == ({"a": [1]}, b"{}") for twin in twins)
    with pytest.raises(dataclasses.FrozenInstanceError):
        call.player_id = "p2"  # type: ignore[misc]  # that is the point
    assert call != kind(**arguments | {"player_id": "p2"})


def test_the_digest_of_a_body() -> None:
    """It is of the bytes as they came, for a ledger to know a withdraw posted to /rollback (docs/decisions/0011)."""
    body = b'{"player_id":"p1"}'
    assert BalanceCall(**BALANCE, body=body).body_digest == sha256(body).digest()
    assert BalanceCall(**BALANCE).body_digest == sha256(b"").digest()


@given(TEXT)
@examples(150)
def test_any_text_is_an_id_or_is_told_why_not(text: str) -> None:
    """No text makes the check fail (docs/decisions/0010)."""
    problem = problem_of_id(text, 20)
    assert bool(problem) == (not text.strip() or len(text) > 20 or "\0" in text)


def test_amounts_are_units_of_the_currency() -> None:
    """Beside each field of cents that a call may have stands its exact Decimal, or None where none was reported."""
    assert str(WithdrawCall(**WITHDRAW | {"amount_cents": 1_250}).amount) == "12.50"
    settled = DepositCall(**DEPOSIT | {"amount_cents": 10**15, "wager_cents": 1, "won_cents": 0})
    assert list(map(str, (settled.amount, settled.wager_amount, settled.won_amount))) == [
        "10000000000000.00",
        "0.01",
        "0.00",
    ]
    bare = DepositCall(**DEPOSIT)
    assert (bare.wager_amount, bare.won_amount) == (None, None)
    cancelled = RollbackCall(**ROLLBACK | {"amount_cents": 5})
    assert (cancelled.amount, RollbackCall(**ROLLBACK).amount) == (Decimal("0.05"), None)


def test_success() -> None:
    """The balance in cents or in currency units; the time is filled in when the reply is closed (spec §2.1)."""
    reply = success(balance_cents=1250)
    assert reply == success(balance=Decimal("12.5")) == Reply(balance_cents=Cents(1250))
    assert (reply.type, reply.code, reply.balance, reply.timestamp) == ("SUCCESS", None, Decimal("12.50"), None)
    assert success(balance_cents=0, timestamp=5).timestamp == 5


def test_error() -> None:
    """A code, and the balance where it is known (spec §2.1, §7.1)."""
    reply = error(WebhookErrorCode.INSUFFICIENT_BALANCE, balance=Decimal("-0.001"), timestamp=7)
    assert (reply.type, reply.code, reply.balance_cents, reply.timestamp) == ("ERROR", "INSUFFICIENT_BALANCE", -1, 7)
    assert type(reply.code) is str
    plain = error("MY_OWN_CODE_7")
    assert (plain.code, plain.balance_cents, plain.timestamp) == ("MY_OWN_CODE_7", None, None)
    assert plain.balance is None
    assert error("PLAYER_BLOCKED", balance_cents=5).balance == Decimal("0.05")


@pytest.mark.parametrize("balance", ["0", "0.00", "-0.009", "12.509"])
def test_balances_are_rounded_down_where_they_are_finer(balance: str) -> None:
    """The player never sees more than there is (docs/decisions/0012)."""
    shown = success(balance=Decimal(balance)).balance
    assert shown is not None
    assert 0 <= Decimal(balance) - shown < Decimal("0.01")


Make = Callable[[], Reply]
# Any: a type checker would refuse what is refused here at run time.
success_of: Any = success
error_of: Any = error
reply_of: Any = Reply


@pytest.mark.parametrize(
    ("make", "kind", "problem"),
    [
        pytest.param(lambda: success_of(), TypeError, "exactly one", id="no balance"),
        pytest.param(lambda: success_of(balance=Decimal(1), balance_cents=100), TypeError, "exactly one", id="both"),
        pytest.param(lambda: success_of(balance=12.5), TypeError, "not float", id="a float is not exact"),
        pytest.param(lambda: success_of(balance_cents=12.0), TypeError, "not float 12.0", id="float cents"),
        pytest.param(lambda: success_of(balance_cents=True), TypeError, "not bool", id="a bool"),
        pytest.param(lambda: success_of(balance=Decimal("NaN")), ValueError, "not an amount", id="NaN"),
        pytest.param(lambda: success_of(balance_cents=2**63), ValueError, "balance_cents must be from", id="65 bits"),
        pytest.param(lambda: success_of(balance_cents=-(2**63)), ValueError, "balance_cents must be", id="in debt"),
        pytest.param(lambda: success_of(balance_cents=1, timestamp=-1), ValueError, "timestamp", id="before 1970"),
        pytest.param(
            lambda: success_of(balance_cents=1, timestamp=253402300800000), ValueError, "timestamp", id="10000"
        ),
        pytest.param(lambda: success_of(balance_cents=1, timestamp=1.5), TypeError, "timestamp", id="a float time"),
        pytest.param(
            lambda: error_of("INSUFFICIENT_BALANCE"), ValueError, "needs the balance", id="no funds, no balance"
        ),
        pytest.param(lambda: error_of("X", balance=Decimal(1), balance_cents=1), TypeError, "not as both", id="two"),
        pytest.param(lambda: error_of("X", balance_cents=1.0), TypeError, "not float", id="an error's float cents"),
        pytest.param(lambda: error_of("X", timestamp=-1), ValueError, "timestamp", id="an error's time"),
        pytest.param(lambda: error_of(""), ValueError, "is not an error code", id="no code"),
        pytest.param(lambda: error_of("X" * 65), ValueError, "is not an error code", id="a code too long"),
        pytest.param(lambda: error_of("lower"), ValueError, "is not an error code", id="lower case"),
        pytest.param(lambda: error_of("A\n"), ValueError, "is not an error code", id="a line's end"),
        pytest.param(lambda: error_of(None), TypeError, "must be a str, not NoneType", id="None"),
        pytest.param(lambda: reply_of(), ValueError, "needs the balance", id="by hand: a SUCCESS without one"),
        pytest.param(lambda: reply_of(code=5), TypeError, "must be a str", id="by hand: a code that is no text"),
        pytest.param(lambda: reply_of(balance_cents=1.5), TypeError, "not float", id="by hand: a float"),
    ],
)
def test_replies_that_cannot_be(make: Make, kind: type[Exception], problem: str) -> None:
    """What spec §2.1 requires cannot be left out, and no float becomes a balance (spec §2.1, §7.1)."""
    with pytest.raises(kind, match=problem):
        make()


@pytest.mark.parametrize("cents", [2**63 - 1, -(2**63) + 1])
def test_the_largest_balances(cents: int) -> None:
    """64 bits, in credit and in debt; times end with the year 9999 (docs/decisions/0012)."""
    assert success(balance_cents=cents, timestamp=253402300799999).balance_cents == cents
    assert success(balance_cents=cents, timestamp=0).timestamp == 0


def test_the_longest_code() -> None:
    """64 letters (docs/decisions/0013)."""
    assert error("X" * 64).code == "X" * 64
