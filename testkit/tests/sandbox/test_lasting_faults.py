"""Faults after which service and wallet differ until they are reconciled: what is not sent, and what is sent late."""

import asyncio
from hashlib import sha256

import pytest

from game_operator.errors import TransportError
from game_operator_testkit.provider.delivery import Answer, Post
from game_operator_testkit.provider.faults import API_FAULTS, LASTING_FAULTS, Fault, FaultPlan
from game_operator_testkit.sandbox.dealing.carrying import play
from game_operator_testkit.sandbox.dealing.dealer import Dealer
from game_operator_testkit.sandbox.dealing.dealt import DealtBet, ServiceState
from game_operator_testkit.sandbox.dealing.plan import BetEnd
from testkit.tests.sandbox.dealing import InProcess, bet, deal, disagreements, faults, problems, round_of

WAGER, WON = 500, 1_250
LOST, HELD = LASTING_FAULTS


def dealt_bet(dealer: Dealer) -> DealtBet:
    (dealt,) = dealer.dealt
    assert isinstance(dealt, DealtBet)
    return dealt


def release(dealer: Dealer, courier: InProcess, *, lost: bool) -> None:
    dealer.release(lost=lost)
    asyncio.run(play(dealer, courier.post))


# --- one bet ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [LOST, HELD])
@pytest.mark.parametrize("early", [Fault.EARLY_DEPOSIT, Fault.EARLY_ROLLBACK])
def test_what_is_kept_back_overtakes_nothing(fault: Fault, early: Fault) -> None:
    """A settlement that is not sent cannot arrive before its withdraw."""
    end = BetEnd.CLOSED if early is Fault.EARLY_DEPOSIT else BetEnd.ROLLED_BACK
    courier = InProcess()
    dealer = deal(courier, round_of(bet(end=end)), plan=faults(fault, early))
    assert dealer.faults.struck == {fault: 1}
    assert courier.posts[0][0].path == "/withdraw"


def test_a_refused_bet_is_not_struck() -> None:
    """There is nothing to settle."""
    courier = InProcess(opening={"p1": WAGER - 1})
    dealer = deal(courier, round_of(bet()), plan=faults(LOST))
    assert dealt_bet(dealer).state is ServiceState.REFUSED
    assert (dealer.unsent, dealer.faults.struck) == ([], {})


class _Gone(InProcess):
    """A wallet that cannot be reached while ``gone``."""

    gone = False

    async def post(self, post: Post) -> Answer:
        if self.gone:
            raise TransportError("The wallet has gone", attempts=1, elapsed_seconds=0.0)
        return await super().post(post)


def test_what_could_not_be_sent_late_may_be_sent_again() -> None:
    """A wallet that is down at that moment loses nothing."""
    courier = _Gone()
    dealer = deal(courier, round_of(bet(1), bet(2), bet(3)), plan=faults(HELD))
    courier.gone = True
    with pytest.raises(TransportError):
        release(dealer, courier, lost=False)
    dealer.abandon()
    courier.gone = False
    release(dealer, courier, lost=False)
    assert not problems(dealer) + disagreements(dealer, courier)
    assert len(courier.posts) == 6


def test_a_late_call_that_the_wallet_refuses_is_no_mistake() -> None:
    """The operator may have settled the bet: only the books show what is wrong then."""
    courier = InProcess()
    dealer = deal(courier, round_of(bet()), plan=faults(HELD))
    # The operator believes that it is cancelled.
    assert courier.ledger.apply(bet().rollback()).applied
    release(dealer, courier, lost=False)
    assert (dealer.unsent, dealt_bet(dealer).unsent) == ([], None)
    assert not problems(dealer)
    assert disagreements(dealer, courier)


def test_old_seeds_play_the_same() -> None:
    """The new faults are drawn for after the old ones: what struck before strikes still."""
    old = [fault for fault in Fault if fault not in LASTING_FAULTS]
    assert list(Fault)[: len(old)] == old
    draws = [f"7:{number}" for number in range(1, 1_000)]
    plan, more = FaultPlan(dict.fromkeys(old, 0.1)), FaultPlan(dict.fromkeys(Fault, 0.1))
    struck = [list(map(str, plan.struck(draw, Fault))) for draw in draws]
    assert sha256(repr(struck).encode()).hexdigest()[:16] == "455f2d06edab1e93"
    assert [list(map(str, more.struck(draw, old))) for draw in draws] == struck
    assert not set(LASTING_FAULTS) & set(API_FAULTS)
