"""
Long histories made by hypothesis: calls, deposits of funds, accounts opened late and restarts, against the tiny model.

The specification leaves open what repeats and late calls do (spec §3, §6); docs/decisions/0014 has what we chose.
"""

from abc import abstractmethod

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from game_operator.errors import FindingError, RepairRefusedError
from game_operator.ledger import SqlLedger, Terms
from game_operator.ledger.api import Outcome
from game_operator.models.webhooks import MovingCall
from game_operator.money import amount_from_cents
from tests.support.calls import ask_balance, claim, deposit, rollback, withdraw
from tests.support.ledgers import AnyLedger, InDatabase, InMemory
from tests.support.machines import InFile, run_machine
from tests.support.repairs import findings, lost, pay, repair, won
from tests.support.retention import drop, keep_one
from tests.support.wallet_model import WalletModel, is_final

pytestmark = pytest.mark.slow

BETS = st.sampled_from(["b1", "b2", "b3"])
PLAYERS = st.sampled_from(["p1", "p1", "p1", "p2", "late"])
#: Mostly what the service would send, sometimes another bet's.
TX_IDS = st.sampled_from([None, None, None, "withdraw:bet:b1", "withdraw:bet:b2", "other"])
WAGERS = st.sampled_from([100, 100, 100, 250, 5_000])
WINS = st.sampled_from([0, 250, 250, 1])


class _Machine(RuleBasedStateMachine):
    """A ledger and the model of it, told the same."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = self.made()
        self.model, self.terms = WalletModel({}), Terms()
        self.granted: set[MovingCall] = set()
        self.refused: set[MovingCall] = set()
        self.paid_in = 0
        for player_id in ("p1", "p2"):
            self._open(player_id, 1_000)

    @abstractmethod
    def made(self) -> AnyLedger:
        """Return a fresh ledger."""

    def teardown(self) -> None:
        self.ledger.close()

    def _open(self, player_id: str, cents: int) -> None:
        self.ledger.open_account(player_id, amount_from_cents(cents))
        self.model.money[player_id] = cents

    def _apply(self, call: MovingCall) -> None:
        before = dict(self.model.money)
        outcome = self.ledger.apply(call, self.terms)
        assert outcome.code == self.model.answer(call)
        self._check_answer(call, outcome)
        moved = self.model.money != before
        assert not moved or outcome.applied
        if call in self.granted:
            assert not outcome.applied
            assert outcome.code in (None, "BET_ROLLED_BACK")
        if call in self.refused:
            assert not outcome.applied
            assert outcome.refused
        if outcome.code is None:
            self.granted.add(call)
        elif is_final(call, outcome.code) and outcome.anomaly != "rollback_of_another_bets_withdraw":
            # That one leaves an anomaly and no tombstone, because another bet's withdraw has taken its tx_id.
            self.refused.add(call)

    def _check_answer(self, call: MovingCall, outcome: Outcome) -> None:
        if outcome.code == "PLAYER_NOT_FOUND":
            assert outcome.balance_cents is None
        else:
            assert outcome.balance_cents == self.model.money.get(call.player_id)

    @rule(bet_id=BETS, player_id=PLAYERS, cents=WAGERS, tx_id=TX_IDS, action=st.sampled_from(["BET", "BET", "RAIN"]))
    def withdraw(self, bet_id: str, player_id: str, cents: int, tx_id: str | None, action: str) -> None:
        """A player places a bet."""
        self._apply(withdraw(bet_id, player_id, cents, tx_id=tx_id or "", action=action))

    @rule(bet_id=BETS, player_id=PLAYERS, cents=WINS, tx_id=TX_IDS)
    def deposit(self, bet_id: str, player_id: str, cents: int, tx_id: str | None) -> None:
        """A bet settles."""
        self._apply(deposit(bet_id, player_id, cents, tx_id=tx_id or ""))

    @rule(bet_id=BETS, player_id=PLAYERS, tx_id=TX_IDS, carries=st.booleans())
    def rollback(self, bet_id: str, player_id: str, tx_id: str | None, carries: bool) -> None:
        """A bet is cancelled."""
        derived = f"withdraw:bet:{bet_id}" if carries else None
        self._apply(rollback(bet_id, player_id, tx_id or derived))

    @rule(player_id=PLAYERS, cents=WINS, bet_id=st.none() | BETS, tx_id=st.sampled_from(["c1", "c2", "deposit:bet:b1"]))
    def claim(self, player_id: str, cents: int, bet_id: str | None, tx_id: str) -> None:
        """Free bets are paid."""
        self._apply(claim(tx_id, player_id, cents, bet_id))

    @rule()
    def open_late(self) -> None:
        """The account of an unknown player is opened, once."""
        if "late" not in self.model.money:
            self._open("late", 1_000)

    @rule(player_id=st.sampled_from(["p1", "p2"]))
    def pay_in(self, player_id: str) -> None:
        """Money comes from outside games."""
        self.paid_in += 1
        self.ledger.adjust(player_id, amount_from_cents(400), reference=f"payment-{self.paid_in}")
        self.model.money[player_id] += 400

    @rule()
    def restart(self) -> None:
        """The program ends and begins again; a ledger in memory lives on."""
        self.ledger.reopen()

    @invariant()
    def books_add_up(self) -> None:
        """Each balance is the sum of its postings, is told, and is not below zero."""
        for player_id, cents in self.model.money.items():
            assert self.ledger.balance(player_id) == self.ledger.moved_cents(player_id) == cents >= 0
            assert self.ledger.apply(ask_balance(player_id), self.terms).balance_cents == cents

    @invariant()
    def bets_stand_where_they_should(self) -> None:
        """The states are the model's."""
        states = {bet_id: bet["state"] for bet_id, bet in self.model.bets.items()}
        assert {bet.bet_id: bet.state.value for bet in self.ledger.bets()} == states


class _MemoryMachine(_Machine):
    def made(self) -> AnyLedger:
        return InMemory()


class _SqliteMachine(InFile, _Machine):
    def made(self) -> AnyLedger:
        return InDatabase(self.fresh_url())


class _RepairMachine(_SqliteMachine):
    """The calls that do not come are made up for, and then some of them come after all."""

    @property
    def sql(self) -> SqlLedger:
        """The ledger itself: repairs are the back office's."""
        assert isinstance(self.ledger, InDatabase)
        assert isinstance(self.ledger.ledger, SqlLedger)
        return self.ledger.ledger

    @rule(bet_id=BETS, player_id=PLAYERS, cents=WINS | st.none())
    def repair(self, bet_id: str, player_id: str, cents: int | None) -> None:
        """A bet is settled without a call: by a win, a loss or a refund."""
        call = lost(bet_id, player_id) if cents is None else won(cents, bet_id, player_id)
        if self.model.repair(call):
            assert repair(self.sql, call).balance_cents == self.model.money[player_id]
        else:
            with pytest.raises(RepairRefusedError):
                repair(self.sql, call)

    @initialize(ends=st.tuples(*[WINS | st.none()] * 3))
    def lose_three(self, ends: tuple[int | None, ...]) -> None:
        """Every history has calls that can come late."""
        for which, cents in enumerate(ends):
            self.lose_a_call(which, cents)

    @rule(which=st.integers(0, 9), cents=WINS | st.none())
    def lose_a_call(self, which: int, cents: int | None) -> None:
        """A bet stays OPEN, and is repaired."""
        bet_id = f"lost {which}"
        self._apply(withdraw(bet_id, "p1", 10))
        self.repair(bet_id, "p1", cents)

    @rule(which=st.integers(0, 99), cents=WINS | st.none(), tx_id=st.sampled_from(["", "x", "y"]))
    def come_late(self, which: int, cents: int | None, tx_id: str) -> None:
        """The call about a repaired bet comes after all, or another one."""
        settled = sorted(bet_id for bet_id, bet in self.model.bets.items() if "by us" in bet)
        if settled:
            bet_id = settled[which % len(settled)]
            player_id = self.model.bets[bet_id]["player"]
            late = deposit(bet_id, player_id, cents or 0, tx_id=f"{bet_id} {tx_id}" if tx_id else "")
            self._apply(late if cents is not None else rollback(bet_id, player_id, None))

    @rule(which=st.integers(0, 99))
    def pay(self, which: int) -> None:
        """Somebody pays what is owed by a late call."""
        known = findings(self.sql)
        if not known:
            return
        found = known[which % len(known)]
        cents = self.model.pay((found.subject, found.kind, found.tx_id))
        if cents is None:
            with pytest.raises(FindingError):
                pay(self.sql, found.id)
        else:
            assert pay(self.sql, found.id)[0].paid_cents == cents

    @rule()
    def drop(self) -> None:
        """A quarter of a year later all details go."""
        keep_one(self.sql)
        drop(self.sql)

    @invariant()
    def late_calls_are_known(self) -> None:
        """What each late call says is due is kept once, with what was paid for it."""
        kept = {
            (found.subject, found.kind, found.tx_id): [found.at_stake_cents, found.paid_cents]
            for found in findings(self.sql)
        }
        assert kept == self.model.late

    def teardown(self) -> None:
        try:
            assert self.sql.verify().findings == ()
        finally:
            super().teardown()


_MACHINES: dict[type[_Machine], tuple[int, int]] = {
    _MemoryMachine: (30, 40),
    _SqliteMachine: (5, 30),
    _RepairMachine: (8, 40),
}


@pytest.mark.parametrize("machine", _MACHINES)
@pytest.mark.drawn(2)
def test_long_histories(machine: type[_Machine]) -> None:
    """Whatever the history, the answers, the money and the states are those of the model."""
    run_machine(machine, *_MACHINES[machine])


@pytest.mark.torture
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("machine", _MACHINES)
def test_very_long_histories(machine: type[_Machine]) -> None:
    """More of them, and longer."""
    run_machine(machine, 3_000 if machine is _MemoryMachine else 300, 80)
