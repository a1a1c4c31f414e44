"""Balances in whole units and in thousandths: the provider's amounts are hundredths in every currency."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from game_operator.errors import FindingError, RepairRefusedError
from game_operator.ledger import AsyncSqlLedger, SqlLedger, TableAccounts
from game_operator.models.webhooks import MovingCall
from game_operator.wallet import AsyncWallet, Wallet
from tests.support.calls import claim, deposit, rollback, withdraw
from tests.support.joined_wallets import WALLETS, WalletKind
from tests.support.raw_sql import with_players
from tests.support.repairs import findings, lost, pay, repair, won

Run = Callable[..., list[Any]]

YEN = TableAccounts(table="players", key="id", balance="balance", unit="whole")
FILS = TableAccounts(table="players", key="id", balance="balance", unit="thousandths")


@pytest.fixture
def run(url: str) -> Run:
    """Run a statement in the operator's database, where p1 has 1,000 in a column of integers."""
    return with_players(url)


#: Calls one after another: the code, the balance in cents if the account was read, and the column.
_DAY: list[tuple[str, MovingCall, str | None, int]] = [
    ("a bet", withdraw("b1", amount_cents=10_000), None, 900),
    ("of a part of a unit", withdraw("b2", amount_cents=10_050), "INVALID_REQUEST", 900),
    ("again, for good", withdraw("b2", amount_cents=10_050), "INVALID_REQUEST", 900),
    ("the same identity, with an amount that fits", withdraw("b2", amount_cents=10_000), "DUPLICATE_TRANSACTION", 900),
    ("nothing to roll back", rollback("b2", tx_id=None), "BET_NOT_FOUND", 900),
    ("more than there is, and no whole unit", withdraw("b3", amount_cents=10**8 + 1), "INVALID_REQUEST", 900),
    ("more than there is", withdraw("b4", amount_cents=10**8), "INSUFFICIENT_BALANCE", 900),
    ("a win of a part of a unit", deposit("b1", amount_cents=50_001), "SYSTEM_ERROR", 900),
    ("a win", deposit("b1", amount_cents=50_000), None, 1_400),
    ("a loss", withdraw("b5", amount_cents=100), None, 1_399),
    ("fits", deposit("b5", amount_cents=0), None, 1_399),
    ("a claim of a part of a unit", claim("c1", amount_cents=99), "SYSTEM_ERROR", 1_399),
    ("a claim", claim("c2", amount_cents=300), None, 1_402),
    ("a refund", withdraw("b6", amount_cents=200), None, 1_400),
    ("fits, whatever amount it has", rollback("b6", tx_id=None, amount_cents=150), None, 1_402),
]


@pytest.mark.parametrize("kind", WALLETS, ids=str)
@pytest.mark.drawn(6)
def test_an_amount_that_does_not_fit_moves_nothing(
    kind: WalletKind, tmp_path: Any, request: pytest.FixtureRequest
) -> None:
    """Assumptions §E: over every transaction; a withdraw is declined, and a credit is kept with its body."""
    sqlite = f"sqlite:///{tmp_path / 'wallet.db'}"
    url = sqlite if kind.database == "sqlite" else request.getfixturevalue("postgres_url")
    run = with_players(url)
    with kind.open(url, accounts=YEN) as opened:
        wallet = opened.wallet()
        for what, call, code, column in _DAY:
            reply = opened.call(wallet, call)
            balance = None if code == "SYSTEM_ERROR" else column * 100
            assert (what, reply.code, reply.balance_cents) == (what, code, balance)
            assert (what, run("SELECT balance FROM players")) == (what, [(column,)])
    _check_kept(url)


def test_the_ledgers_own_transactions_refuse_it_too(url: str, run: Run, caplog: pytest.LogCaptureFixture) -> None:
    """The same day, call by call; what does not fit is an error in the log, for a person must look."""
    with SqlLedger(url, accounts=YEN) as ledger, caplog.at_level(logging.ERROR, "game_operator.ledger"):
        wallet = Wallet(ledger, may_bet=lambda call, *_: "PLAYER_BLOCKED" if call.amount_cents % 100 else None)
        for what, call, code, column in _DAY:
            reply = getattr(wallet, call.operation)(call)
            assert (what, reply.code) == (what, code)
            assert (what, run("SELECT balance FROM players")) == (what, [(column,)])
    assert ["unit_does_not_fit" in each.getMessage() for each in caplog.records] == [True] * 2
    _check_kept(url)


async def test_calls_that_share_a_commit_are_judged_one_by_one(url: str, run: Run) -> None:
    """One that does not fit takes none of the others with it."""
    async with AsyncSqlLedger(url, accounts=YEN) as ledger:
        wallet = AsyncWallet(ledger)
        calls = [withdraw(f"b{cents}", amount_cents=cents) for cents in range(50, 1050, 50)]
        replies = await asyncio.gather(*map(wallet.withdraw, calls))
        assert [reply.code for reply in replies] == ["INVALID_REQUEST", None] * 10
        wins = await asyncio.gather(*(wallet.deposit(claim(f"c{n}", amount_cents=n)) for n in range(50, 250, 50)))
        assert [reply.code for reply in wins] == ["SYSTEM_ERROR", None] * 2
    assert run("SELECT balance FROM players") == [(1_000 - 55 + 3,)]


def _check_kept(url: str) -> None:
    """Check what is left of the day: sound books, declined bets, and the two credits with their bodies."""
    with SqlLedger(url, accounts=YEN) as ledger:
        assert ledger.verify().findings == ()
        declined = [bet.bet_id for bet in ledger.bets() if bet.state == "DECLINED"]
        assert declined == ["b2", "b3", "b4"]
        kept = list(ledger.anomalies(kind="unit_does_not_fit"))
        assert [(each.code, each.bet_id, bool(each.body)) for each in kept] == [
            ("SYSTEM_ERROR", "b1", True),
            ("SYSTEM_ERROR", None, True),
        ]


def test_what_did_not_fit_is_applied_once_it_does(url: str, run: Run) -> None:
    """``ledger retry`` asks again: the same unit refuses again, and one that holds the amount pays it."""
    with SqlLedger(url, accounts=YEN) as ledger:
        ledger.apply(withdraw("b1", amount_cents=100))
        ledger.apply(deposit("b1", amount_cents=150))
        (kept,) = ledger.anomalies()
        assert ledger.retry(kept.id).code == "SYSTEM_ERROR"
        assert [each.seen for each in ledger.anomalies()] == [2]
    run("UPDATE players SET balance = balance * 1000")
    with SqlLedger(url, accounts=FILS) as ledger:
        assert ledger.retry(kept.id).balance_cents == 99_900 + 150
        assert list(ledger.anomalies()) == []
        assert ledger.apply(withdraw("b2", amount_cents=1)).balance_cents == 100_049
    with SqlLedger(url, accounts=YEN) as ledger:  # What was debited in another unit may not fit.
        assert (ledger.apply(rollback("b2", tx_id=None)).code, ledger.bet("b2").state) == ("SYSTEM_ERROR", "OPEN")  # type: ignore[union-attr]
    assert run("SELECT balance FROM players") == [(1_000_490,)]


def test_a_repair_and_a_payment_that_do_not_fit(url: str, run: Run) -> None:
    """A clear error and an anomaly each, and nothing moved: the bet stays OPEN, the finding to be resolved."""
    with SqlLedger(url, accounts=YEN) as ledger:
        for bet_id in ("b1", "b2"):
            ledger.apply(withdraw(bet_id, amount_cents=100))
        with pytest.raises(RepairRefusedError, match=r'The amount 3\.01 does not fit unit="whole" of'):
            repair(ledger, won(301))
        assert repair(ledger, won(300)).balance_cents == 100_100
        assert repair(ledger, lost("b2")).balance_cents == 100_200
        ledger.apply(deposit("b1", amount_cents=450))
        ledger.apply(deposit("b1", amount_cents=500, tx_id="more"))
        unfit, fits = findings(ledger)
        with pytest.raises(FindingError, match=r"The amount 1\.50 that is owed for the finding 1 does not fit"):
            pay(ledger, unfit.id)
        assert pay(ledger, fits.id)[1].balance_cents == 100_400
        kept = [(each.bet_id, each.tx_id) for each in ledger.anomalies() if each.kind == "unit_does_not_fit"]
        assert kept == [("b1", "reconcile:b1"), ("b1", "finding:1")]
        assert ledger.verify().findings == ()
    assert run("SELECT balance FROM players") == [(1_004,)]
