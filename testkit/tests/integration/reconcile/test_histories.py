"""Generated histories of bets, late settlements, lies and reconcilers that come and go: money is never wrong."""

from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testkit.tests.support.reconciling import REPAIR, WAGER, WALLETS, Desk, desk_of

pytestmark = pytest.mark.outside

BETS = st.tuples(st.just("bet"), st.sampled_from(["send", "lose", "hold"]), st.sampled_from([None, 0, 1, 1_250]))
STEPS = st.one_of(
    BETS,
    BETS,
    st.tuples(st.just("late"), st.booleans(), st.none()),
    st.tuples(st.just("lie"), st.integers(0, 30), st.sampled_from(["won", "open", "garbage", "player"])),
    st.tuples(st.just("fail"), st.sampled_from([429, 500, 404]), st.integers(1, 4)),
    st.tuples(st.just("slice"), st.sampled_from([0.0, 0.01, 0.05]), st.none()),
    st.tuples(st.just("repair"), st.none(), st.none()),
    st.tuples(st.just("stop"), st.none(), st.none()),
)


class History:
    """A desk, and what the provider's books say."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.due: dict[str, int] = {}
        self._lies = count(2_000)

    def bet(self, settlement: str, won: int | None) -> None:
        """Play a bet; None is one that is cancelled."""
        more: dict[str, Any] = {"cancel": True} if won is None else {"won_cents": won}
        bet = self.desk.play(settlement, **more)
        self.due[bet] = WAGER if won is None else won

    def late(self, lost: bool, _: None) -> None:
        """Let what was kept back come."""
        self.desk.sandbox.release_held(lost=lost)

    def lie(self, number: int, what: str) -> None:
        """Let the service lie once about a bet, as it never did before."""
        if self.due:
            lies: dict[str, Any] = {
                "won": {"won": next(self._lies)},
                "open": {"status": "OPEN"},
                "garbage": b"<html>",
                "player": {"player_id": "p2"},
            }
            self.desk.sandbox.lies.about_bet(list(self.due)[number % len(self.due)], lies[what], times=1)

    def fail(self, status: int, times: int) -> None:
        """Let the next calls fail."""
        self.desk.way.fail(status, times)

    def slice(self, seconds: float, _: None) -> None:
        """Work for a moment on whatever is under way."""
        self.desk.reconciler().run_some(seconds)

    def repair(self, *_: None) -> None:
        """Go on with what is under way if it repairs; else begin repairs."""
        reconciler = self.desk.reconciler()
        run = reconciler.status()
        if run is not None and run.is_under_way and not run.options["repair"]:
            reconciler.stop()
        reconciler.run(**REPAIR)

    def stop(self, *_: None) -> None:
        """Stop whatever is under way."""
        self.desk.reconciler().stop()

    def check(self) -> None:
        """Assert that nobody has more than the provider's books say; some have less until all is settled."""
        desk = self.desk
        for bet_id, due in self.due.items():
            bet = desk.ledger.bet(bet_id)
            assert bet is not None
            if bet.state.value != "OPEN":
                assert (bet.won_cents if bet.state.value == "CLOSED" else bet.wager_cents) == due
        desk.check()


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, min_size=3, max_size=14))
def test_any_history_ends_with_the_providers_books(steps: list[tuple[str, Any, Any]]) -> None:
    """No step moves money that is not due, and in the end all is settled, once, and nothing is found."""
    with TemporaryDirectory() as folder, desk_of(WALLETS[0], f"sqlite:///{Path(folder) / 'wallet.db'}") as desk:
        history = History(desk)
        for name, first, second in steps:
            getattr(history, name)(first, second)
            history.check()
        desk.sandbox.lies.clear()
        desk.way.instead.clear()
        history.repair()
        history.repair()
        assert desk.balance() == sum(due - WAGER for due in history.due.values())
        assert all(desk.state(bet) != "OPEN" for bet in history.due)
        assert desk.findings() == []
        desk.sandbox.release_held(lost=True)
        assert desk.balance() == sum(due - WAGER for due in history.due.values())
        assert desk.findings() == []
        desk.check()
