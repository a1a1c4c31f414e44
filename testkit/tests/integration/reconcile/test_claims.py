"""What a claim that names a bet may have paid is paid by hand only as a person decides (decisions 40 and 41)."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import Event
from typing import Any

import psycopg
import pytest

from game_operator.errors import FindingError
from game_operator.ledger import SqlLedger
from game_operator.models import BetNotFound
from game_operator.models.webhooks import DepositCall
from game_operator.wallet import JoinedWallet
from testkit.tests.support.reconciling import REPAIR, WAGER, WALLETS, WON, Desk, desk_of, verdicts
from tests.support.crowds import PATIENCE_SECONDS
from tests.support.raw_sql import rows, run

pytestmark = pytest.mark.outside

ANN: dict[str, Any] = {"actor": "ann", "reason": "seen", "pay": True}


def claim(desk: Desk, bet: str | None, cents: int, tx_id: str = "c1", action: str = "JACKPOT") -> None:
    """Let a claim come."""
    call = DepositCall(player_id="p1", bet_id=bet, amount_cents=cents, tx_id=tx_id, action=action, is_claim=True)
    assert desk.wallet.deposit(call).code is None


def differ(desk: Desk) -> str:
    """Play a bet whose deposit says 0 although it has won, look at it, and return the bet."""
    bet = desk.play("lose")
    desk.deposit(bet, 0)
    assert verdicts(desk.reconciler().run())[bet] == "amount_differs"
    return bet


def number_of(desk: Desk, bet: str, kind: str = "amount_differs") -> int:
    """Return the open finding of a kind about a bet."""
    return next(each.id for each in desk.findings() if (each.subject, each.kind) == (bet, kind))


@pytest.mark.drawn(5)
def test_each_claim_is_counted_by_a_person(any_desk: Desk) -> None:
    """Unnamed it refuses, as does a newer one; what is left is posted once, and the next look agrees."""
    desk, bet = any_desk, differ(any_desk)
    number, reconciler = number_of(desk, bet), desk.reconciler()
    claim(desk, bet, 700)
    before, own = desk.balance(), desk.own_rows()
    with pytest.raises(FindingError, match=r"'c1' of 7\.00\. Nothing was moved\..*--counting-claim TX_ID"):
        reconciler.resolve(number, **ANN)
    claim(desk, bet, 300, "c2")
    with pytest.raises(FindingError, match=r": 'c2' of 3\.00\."):
        reconciler.resolve(number, **ANN, counting_claims=["c1"])
    with pytest.raises(FindingError, match="No claim 'c3', 'deposit:bet:x' names the bet"):
        reconciler.resolve(number, **ANN, counting_claims=["c1", "c2", "deposit:bet:x", "c3"])
    assert desk.balance() == before + 300
    assert reconciler.resolve(number, **ANN, counting_claims=["c2", "c1"]).paid_cents == WON - 1_000
    assert desk.balance() == before + 300 + WON - 1_000
    assert desk.own_rows()["deposit", bet] == own["deposit", bet] + 2, "the newer claim, and the payment"
    assert verdicts(reconciler.run()) == {bet: "agrees"}
    assert desk.findings() == []
    desk.check()


@pytest.mark.parametrize("looks", [True, False], ids=["a run between", "no run between"])
@pytest.mark.parametrize(
    ("claims", "paid"),
    [([0], WON), ([1], WON - 1), ([WON - 1], 1), ([WON], 0), ([WON + 1], 0), ([WON, 700], 0), ([400, 400], 450)],
    ids=str,
)
@pytest.mark.drawn(3)
def test_what_claims_leave(desk: Desk, claims: list[int], paid: int, *, looks: bool) -> None:
    """Also of a finding that a run has seen beside them; nothing left resolves it, and no claim is taken back."""
    bet = differ(desk)
    for number, cents in enumerate(claims):
        claim(desk, bet, cents, f"c{number}")
    if looks:
        desk.reconciler().run()
        assert desk.findings()[0].owed_cents is None
    done = desk.reconciler().resolve(
        number_of(desk, bet), **ANN, counting_claims=[f"c{number}" for number in range(len(claims))]
    )
    assert (done.paid_cents, done.resolved_by) == (paid, "ann")
    assert desk.balance() == sum(claims) + paid - WAGER
    assert verdicts(desk.reconciler().run()) == {bet: "agrees"}
    desk.check()


def paid_by_hand(desk: Desk, bet: str) -> None:
    """Let a deposit of 0 come, and pay the win."""
    desk.deposit(bet, 0)
    desk.reconciler().run()
    desk.reconciler().resolve(number_of(desk, bet), **ANN)


def counted(desk: Desk, bet: str) -> None:
    """Let a claim pay all of the win, and count it."""
    desk.deposit(bet, 0)
    claim(desk, bet, WON, "first")
    desk.reconciler().run()
    desk.reconciler().resolve(number_of(desk, bet), **ANN, counting_claims=["first"])


def repaired(desk: Desk, _bet: str) -> None:
    """Settle the bet without its call."""
    desk.reconciler().run(**REPAIR)


def refunded(desk: Desk, bet: str) -> None:
    """Give the wager back by hand, because the provider does not know the bet."""
    desk.sandbox.lies.about_bet(bet, BetNotFound())
    desk.reconciler().refund(bet, actor="ann", reason="never played")


@pytest.mark.parametrize("way", [paid_by_hand, counted, repaired, refunded], ids=lambda way: way.__name__)
def test_a_claim_that_comes_later_is_reported(desk: Desk, way: Callable[[Desk, str], None]) -> None:
    """Whoever paid, once for each claim; and after a person saw it no more."""
    bet = desk.play("lose")
    way(desk, bet)
    reconciler = desk.reconciler()
    for tx_id in ("jackpot-1", "jackpot-2"):
        assert verdicts(reconciler.run()) == {bet: "agrees" if tx_id == "jackpot-1" else "claimed"}
        assert desk.findings() == []
        claim(desk, bet, WON, tx_id)
        for _ in range(2):
            assert verdicts(reconciler.run()) == {bet: "claimed"}
        (found,) = desk.findings()
        assert (found.kind, found.tx_id, found.seen, found.owed_cents) == ("claimed", tx_id, 2, None)
        reconciler.resolve(found.id, actor="ann", reason="the jackpot is beside the win")
    desk.check()


@pytest.mark.drawn(5)
def test_what_a_late_call_left_is_judged_again(any_desk: Desk) -> None:
    """By each look: nothing is owed for sure beside a claim, and what was paid meanwhile is not owed."""
    desk, bet = any_desk, any_desk.play("lose")
    reconciler = desk.reconciler()
    reconciler.run(**REPAIR)
    desk.deposit(bet, WON + 750, tx_id="late")
    number = number_of(desk, bet, "late_deposit")

    def owed() -> int | None:
        reconciler.run()
        return next(each for each in desk.findings() if each.id == number).owed_cents

    assert owed() == 750
    claim(desk, bet, 500)
    assert owed() is None
    assert verdicts(reconciler.run()) == {bet: "claimed"}
    before = desk.balance()
    with pytest.raises(FindingError, match=r"'c1' of 5\.00"):
        reconciler.resolve(number, **ANN)
    assert reconciler.resolve(number, **ANN, counting_claims=["c1"]).paid_cents == 250
    assert desk.balance() == before + 250
    desk.deposit(bet, WON + 800, tx_id="later")
    number = number_of(desk, bet, "late_deposit")
    assert owed() == 50
    desk.check()


# --- at the same moment ----------------------------------------------------------------------------------------------


class Held:
    """A wallet over another connection, whose transaction waits before its commit until a test lets it go."""

    def __init__(self, url: str, ledger: SqlLedger) -> None:
        self.is_done, self.may_commit = Event(), Event()
        self.wallet = JoinedWallet(ledger, partial(self._transaction, url))

    @contextmanager
    def _transaction(self, url: str) -> Iterator[psycopg.Connection]:
        with psycopg.connect(url) as connection:
            yield connection
            self.is_done.set()
            assert self.may_commit.wait(PATIENCE_SECONDS)


@pytest.mark.parametrize("claim_is_first", [True, False], ids=["the claim", "the payment"])
def test_a_claim_and_a_payment_at_once(postgres_url: str, *, claim_is_first: bool) -> None:
    """The payment sees the claim that it waits for; a claim that waits for the payment is reported by the next run."""
    call = DepositCall(player_id="p1", bet_id="b", amount_cents=700, tx_id="c1", action="JACKPOT", is_claim=True)
    with desk_of(WALLETS[1], postgres_url) as desk, SqlLedger(postgres_url) as other, ThreadPoolExecutor(2) as threads:
        bet, held = differ(desk), Held(postgres_url, other)
        slow, quick = (held.wallet, desk.wallet) if claim_is_first else (desk.wallet, held.wallet)
        claiming = partial(slow.deposit, replace(call, bet_id=bet))
        paying = partial(desk.reconciler(wallet=quick).resolve, number_of(desk, bet), **ANN)
        first: Future[Any] = threads.submit(claiming if claim_is_first else paying)
        assert held.is_done.wait(PATIENCE_SECONDS)
        second: Future[Any] = threads.submit(paying if claim_is_first else claiming)
        while not (rows(postgres_url, "SELECT 1 FROM pg_locks WHERE NOT granted") or second.done()):
            time.sleep(0.01)
        held.may_commit.set()
        if claim_is_first:
            with pytest.raises(FindingError, match=r"'c1' of 7\.00"):
                second.result()
        else:
            assert (second.result().code, first.result().paid_cents) == (None, WON)
            assert verdicts(desk.reconciler().run()) == {bet: "claimed"}
        assert desk.balance() == 700 - WAGER + (0 if claim_is_first else WON)
        desk.check()


def test_a_claim_that_came_in_the_same_millisecond(desk: Desk) -> None:
    """The account's own clock tells what a payment has counted, not that of the database."""
    bet = differ(desk)
    run(desk.url, "UPDATE {p}accounts SET at_millis = at_millis + 3600000")
    claim(desk, bet, 700)
    desk.reconciler().resolve(number_of(desk, bet), **ANN, counting_claims=["c1"])
    assert verdicts(desk.reconciler().run()) == {bet: "agrees"}
    claim(desk, bet, 1, "c2")
    assert verdicts(desk.reconciler().run()) == {bet: "claimed"}
