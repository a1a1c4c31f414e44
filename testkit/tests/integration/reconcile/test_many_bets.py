"""Many bets with lost settlements: one reconciliation leaves no difference, and late calls move nothing."""

from collections import Counter
from random import Random

import pytest

from game_operator.models import BetNotFound, ClosedBet, OpenBet
from testkit.tests.support.reconciling import REPAIR, Desk

pytestmark = pytest.mark.outside


def played(desk: Desk, bets: int) -> set[str]:
    """
    Play so many bets of four players, several of them in a round, and return those whose settlement was lost.

    Every tenth is cancelled, every fiftieth is left open, and in every tenth round others play.
    """
    sandbox, random, unsent = desk.sandbox, Random(7), set[str]()
    round_id = None
    for number in range(bets):
        is_open = number % 50 == 49
        bet = sandbox.play_round(
            player_id=f"p{random.randrange(1, 5)}",
            wager_cents=random.randrange(10, 500),
            cancel=number % 10 == 5,
            round_id=round_id,
            settlement="lose" if is_open or random.random() < 0.08 else "send",
        )
        found = sandbox.world.bet(bet.bet_ids[0], now_millis=sandbox.service.clock())
        assert not isinstance(found, BetNotFound)
        if is_open:
            sandbox.world.add_bet(OpenBet.model_validate(found.model_dump(exclude={"status", "won"})))
        else:
            unsent |= set(bet.unsent)
        if number % 10 == 0:
            of_stranger = {"reference_id": f"stranger-{number}", "player_id": "stranger"}
            sandbox.world.add_bet(found.model_copy(update=of_stranger))
        round_id = bet.round_id if random.random() < 0.5 else None
    return unsent


def differences(desk: Desk) -> set[str]:
    """Return the bets and the players that service and wallet do not agree on."""
    found, due = set[str](), Counter[str]()
    for bet in desk.sandbox.world.bets(limit=100_000):
        kept = desk.ledger.bet(bet.reference_id)
        if kept is None:
            # The sandbox's own: nobody has played them here.
            continue
        won = bet.won if isinstance(bet, ClosedBet) else None
        due[bet.player_id] += 0 if bet.status == "ROLLED_BACK" else (won or 0) - bet.wager
        if (kept.state.value, kept.won_cents) != (bet.status, won):
            found.add(bet.reference_id)
    return found | {player_id for player_id, cents in due.items() if desk.balance(player_id) != cents}


def reconciled(desk: Desk, bets: int) -> None:
    """Lose settlements, reconcile twice, and let the lost calls arrive."""
    unsent = played(desk, bets)
    assert len(unsent) > bets / 50
    assert unsent < differences(desk)
    report = desk.reconciler().run(**REPAIR)
    repaired = {row["bet_id"] for row in report.rows() if row["verdict"] in ("settled", "refunded")}
    assert (report.run.state, repaired, report.open.bets) == ("finished", unsent, 0)
    assert differences(desk) == set()
    assert report.findings == ()
    assert "claim" in report.to_json(), "lost claims cannot be looked up, and the report says so"

    again = desk.reconciler().run(**REPAIR)
    assert set(again.verdicts) == {"agrees", "wait"}, "some bets are OPEN on both sides"
    assert sum(tally.bets for tally in again.verdicts.values()) >= 0.9 * bets
    assert (again.repaired.bets, again.findings) == (0, ())

    late = desk.sandbox.release_held(lost=True)
    assert len(late) == len(unsent) + bets // 50
    assert len([each for each in differences(desk) if each.startswith("bet-")]) == bets // 50, "no longer OPEN here"
    assert desk.findings() == []
    desk.check()


@pytest.mark.timeout(180)
@pytest.mark.drawn(1)
def test_lost_settlements(any_desk: Desk) -> None:
    """Many bets, each with the provider's word in the end."""
    reconciled(any_desk, 150)


@pytest.mark.torture
@pytest.mark.timeout(1_800)
def test_very_many_lost_settlements(any_desk: Desk) -> None:
    """Ten thousand bets."""
    reconciled(any_desk, 10_000)
