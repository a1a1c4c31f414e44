"""currency_of: the currency of each call and bet is kept for totals, and is never a reason to refuse money."""

import enum
import logging
from collections.abc import Callable
from typing import Any

import pytest

from game_operator.models.webhooks import MovingCall
from game_operator.wallet import Wallet
from tests.support.calls import claim, deposit, rollback, withdraw
from tests.support.ledgers import funded
from tests.support.raw_sql import rows

KEPT = "SELECT operation, tx_id, instance_id, game, currency FROM {p}calls WHERE operation <> 'open' ORDER BY at_millis"


class Money(str, enum.Enum):  # noqa: UP042 - as operators have written them for years
    """A currency as a member of an enum."""

    EURO = "EUR"


def by_operation(call: MovingCall) -> str | None:
    """Answer something else for each operation."""
    return {"withdraw": "EUR", "deposit": "USD", "rollback": None}[call.operation]


def failing(_call: MovingCall) -> str:
    raise KeyError("no such instance")


def played(wallet: Any) -> None:
    """Play a bet that wins, one that is cancelled and one that was never there, and claim a jackpot."""
    at: dict[str, Any] = {"instance_id": "i1", "game": "aviator"}
    for call in (
        withdraw("b1", **at),
        deposit("b1", instance_id="i2", game="other"),
        withdraw("b2"),
        rollback("b2", tx_id="withdraw:bet:b2", **at),
        rollback("b3", tx_id=None),
        claim("c1", action="JACKPOT", **at),
    ):
        getattr(wallet, call.operation)(call)


@pytest.mark.parametrize("after", [None, lambda *_: None], ids=["express on PostgreSQL", "the long way"])
def test_kept_with_calls_and_bets(database_url: str, after: Any) -> None:
    """A call keeps what it reported and its currency; a bet keeps the currency of its withdraw."""
    with funded(database_url, 100) as ledger:
        played(Wallet(ledger, currency_of=by_operation, after=after))
        assert [(bet.bet_id, bet.currency, bet.state) for bet in ledger.bets()] == [
            ("b1", "EUR", "CLOSED"),
            ("b2", "EUR", "ROLLED_BACK"),
            ("b3", None, "TOMBSTONE"),
        ]
        assert ledger.verify().sound
    kept = rows(database_url, KEPT)
    # The rollback that came first holds the identity of its withdraw.
    assert sorted(row[1:] for row in kept if row[0] == "withdraw") == [
        ("withdraw:bet:b1", "i1", "aviator", "EUR"),
        ("withdraw:bet:b2", None, None, "EUR"),
        ("withdraw:bet:b3", None, None, None),
    ]
    assert [row for row in kept if row[0] != "withdraw"] == [
        ("deposit", "deposit:bet:b1", "i2", "other", "USD"),
        ("rollback", "withdraw:bet:b2", "i1", "aviator", None),
        ("rollback", "withdraw:bet:b3", None, None, None),
        ("deposit", "c1", "i1", "aviator", "USD"),
    ]


async def _later(_call: MovingCall) -> str:
    return "EUR"


#: What may be answered, the currency that is kept then, and what is logged.
ANSWERS: dict[str, tuple[Callable[[MovingCall], Any], str | None, str]] = {
    "a text": (lambda _: "EUR", "EUR", ""),
    "a member of an enum": (lambda _: Money.EURO, "EUR", ""),
    "16 characters": (lambda _: "E" * 16, "E" * 16, ""),
    "nothing": (lambda _: None, None, ""),
    "17 characters": (lambda _: "E" * 17, None, "not a currency"),
    "an empty text": (lambda _: "", None, "not a currency"),
    "U+0000": (lambda _: "E\0R", None, "not a currency"),
    "half of a pair": (lambda _: "\ud800", None, "not a currency"),
    "a number": (lambda _: 978, None, "not a currency"),
    "bytes": (lambda _: b"EUR", None, "not a currency"),
    "to be awaited": (_later, None, "not a currency"),
    "it raises": (failing, None, "currency_of raised"),
}


@pytest.mark.parametrize("after", [None, lambda *_: None], ids=["express on PostgreSQL", "the long way"])
def test_a_wrong_answer_refuses_nothing(url: str, after: Any, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and the currency is unknown; the money moves."""
    with funded(url, 100) as ledger, caplog.at_level(logging.ERROR, "game_operator.ledger"):
        for number, (answer, (currency_of, currency, logged)) in enumerate(ANSWERS.items(), 1):
            caplog.clear()
            wallet = Wallet(ledger, currency_of=currency_of, after=after)
            assert wallet.withdraw(withdraw(answer)).code is None
            assert wallet.deposit(deposit(answer)).code is None
            bet = ledger.bet(answer)
            assert bet is not None
            assert bet.currency == currency
            assert ledger.balance("p1") == 10_000 + number * (1_250 - 500)
            assert [row[4] for row in rows(url, KEPT) if row[1].endswith(f":{answer}")] == [currency] * 2
            assert bool(caplog.records) == bool(logged)
            assert all(logged in record.getMessage() for record in caplog.records)
