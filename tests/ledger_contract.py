"""
What every ledger does, whatever it keeps its rows in: one suite that all of them pass.

The tests are named after the scenarios of docs/maintainers/scenarios.md. Each test has its own
source, and so its own bets and calls, and its own players. At its end its books must add up.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import count, pairwise, permutations
from random import Random
from typing import Any

import pytest

from game_operator.codes import BetState
from game_operator.errors import AccountExistsError, AccountNotFoundError, AdjustmentRefusedError, LedgerError
from game_operator.ledger import BetRecord, Outcome, Terms
from game_operator.ledger.api import Account
from game_operator.ledger.rules.book import Book
from game_operator.models.webhooks import FreeBet, WebhookCall, WithdrawCall
from game_operator.money import amount_from_cents
from game_operator.profile import Profile
from tests.support.calls import ask_balance, claim, deposit, rollback, some_of_each_end, withdraw
from tests.support.ledgers import AnyLedger
from tests.support.seeds import random_of
from tests.support.times import is_now

__all__ = ["AtOnceContract", "DatabaseContract", "LedgerContract", "World"]

_numbers = count(1)

OPENING_CENTS = 10_000


class World:
    """A ledger with a source and players that no other test has; p1 and p2 have 100.00 each."""

    def __init__(self, ledger: AnyLedger) -> None:
        number = next(_numbers)
        self.ledger = ledger
        self.source = f"source-{number}"
        self.p1, self.p2, self.p3 = (f"{name}-{number}" for name in ("p1", "p2", "p3"))
        self.opened: dict[str, int] = {}
        self.ledger.add_source(self.source)
        self.terms = Terms(source=self.source)
        self.open(self.p1, OPENING_CENTS)
        self.open(self.p2, OPENING_CENTS)

    def open(self, player_id: str, cents: int) -> None:
        """Open an account, which is to be audited at the end."""
        self.ledger.open_account(player_id, amount_from_cents(cents))
        self.opened[player_id] = cents

    def with_rules(self, **rules: Any) -> Terms:
        """Return the terms of this source under another profile."""
        return replace(self.terms, rules=Profile(**rules))

    def apply(self, call: WebhookCall, terms: Terms | None = None) -> Outcome:
        """Apply a call."""
        return self.ledger.apply(call, terms or self.terms)

    def at_once(self, calls: Sequence[WebhookCall]) -> list[Outcome | LedgerError]:
        """Apply calls at the same time; outcomes in their order."""
        return self.ledger.at_once([(call, self.terms) for call in calls])

    def withdraw(self, bet_id: str = "b1", cents: int = 500, **more: Any) -> Outcome:
        """Apply a withdraw of p1, unless another player is named."""
        return self.apply(withdraw(bet_id, more.pop("player_id", self.p1), cents, **more))

    def deposit(self, bet_id: str = "b1", cents: int = 1250, **more: Any) -> Outcome:
        """Apply the deposit of a bet of p1."""
        return self.apply(deposit(bet_id, more.pop("player_id", self.p1), cents, **more))

    def rollback(self, bet_id: str = "b1", **more: Any) -> Outcome:
        """Apply the rollback of a bet of p1, with its withdraw's derived tx_id."""
        tx_id = more.pop("tx_id", f"withdraw:bet:{bet_id}")
        return self.apply(rollback(bet_id, more.pop("player_id", self.p1), tx_id, **more))

    def claim(self, tx_id: str = "c1", cents: int = 300, **more: Any) -> Outcome:
        """Apply a claim of p1."""
        return self.apply(claim(tx_id, more.pop("player_id", self.p1), cents, **more))

    def balance(self, player_id: str | None = None) -> int:
        """Return the balance that player-balance tells, which is the ledger's own."""
        outcome = self.apply(ask_balance(player_id or self.p1))
        assert outcome.balance_cents == self.ledger.balance(player_id or self.p1)
        assert outcome.balance_cents is not None
        return outcome.balance_cents

    def state(self, bet_id: str = "b1") -> BetState | None:
        """Return the state of a bet, or None."""
        bet = self.ledger.bet(bet_id, source=self.source)
        return bet.state if bet else None

    def anomalies(self) -> list[str]:
        """Return the kinds of what was kept to look at."""
        return self.ledger.anomalies(self.source)

    def check(self) -> None:
        """Hold that each balance is the sum of its postings, and none below zero."""
        for player_id in self.opened:
            balance = self.ledger.balance(player_id)
            assert balance == self.ledger.moved_cents(player_id)
            assert balance >= 0

    def expect(self, outcome: Outcome, code: str | None, cents: int) -> None:
        """Hold the answer, and p1's balance after it."""
        assert outcome.code == code
        assert self.balance() == cents
        if code not in ("PLAYER_NOT_FOUND", "SYSTEM_ERROR"):
            assert outcome.balance_cents == cents


def codes(results: Sequence[Outcome | LedgerError]) -> list[str | None]:
    """Return the codes of *results*; a LedgerError fails the test."""
    for result in results:
        if isinstance(result, LedgerError):
            raise result
    return [result.code for result in results if isinstance(result, Outcome)]


def _bets_beside(world: World) -> list[BetRecord]:
    """Open bets of 0 in another source, which no call of the world's own source may settle; return them."""
    source = f"{world.source}-beside"
    world.ledger.add_source(source)
    work = [(withdraw(bet_id, world.p1, 0), replace(world.terms, source=source)) for bet_id in ("b1", "b2", "b9")]
    assert [world.ledger.apply(*each).code for each in work] == [None] * 3
    return world.ledger.bets(source=source)


class _Worlds:
    """Gives each test a world; a class that inherits from this gives the fixture ``ledger``."""

    @pytest.fixture
    def world(self, ledger: AnyLedger) -> Iterator[World]:
        """A world whose books are audited after the test; in another source its players have bets of the same ids."""
        world = World(ledger)
        beside = _bets_beside(world)
        yield world
        world.check()
        assert world.ledger.bets(source=f"{world.source}-beside") == beside


class DatabaseContract(_Worlds):
    """The scenarios of what outlives a process, and is shared by several."""

    def test_b08_repeated_after_a_restart(self, world: World) -> None:
        """What was committed is known after a restart."""
        world.withdraw()
        world.ledger.reopen()
        again = world.withdraw()
        world.expect(again, None, 9_500)
        assert again.replayed
        world.expect(world.deposit(), None, 10_750)

    def test_d06_two_ledgers_on_one_database(self, world: World) -> None:
        """What one has answered the other knows."""
        other = world.ledger.another()
        try:
            world.withdraw()
            assert other.apply(withdraw("b1", world.p1), world.terms).replayed
            assert other.apply(deposit("b1", world.p1), world.terms).balance_cents == 10_750
            world.expect(world.deposit(), None, 10_750)
        finally:
            other.close()


class AtOnceContract(_Worlds):
    """The scenarios of calls at once, which wait for a commit together, and of the operator's own code in a call."""

    def test_a09_blocked_player(self, world: World) -> None:
        """A blocked player cannot bet, and is still credited and refunded."""
        world.withdraw("b1")
        world.withdraw("b2")
        blocked = replace(world.terms, may_bet=lambda *_: "PLAYER_BLOCKED")
        world.expect(world.apply(withdraw("b3", world.p1), blocked), "PLAYER_BLOCKED", 9_000)
        world.expect(world.apply(deposit("b1", world.p1), blocked), None, 10_250)
        world.expect(world.apply(rollback("b2", world.p1, None), blocked), None, 10_750)

    def test_a11_deposits_together(self, world: World) -> None:
        """Three deposits at once, one of an unseen bet: two credits."""
        world.withdraw("b1")
        world.withdraw("b2")
        calls = [deposit(bet_id, world.p1) for bet_id in ("b1", "b9", "b2")]
        assert codes(world.at_once(calls)) == [None, "BET_NOT_FOUND", None]
        assert world.balance() == 11_500

    def test_b07_our_own_failure_is_not_remembered(self, world: World) -> None:
        """What the operator's own code raises undoes the call; its repeat is processed afresh."""

        def fails(*_args: object) -> None:
            raise RuntimeError("the operator's own statement")

        for terms in (replace(world.terms, after=fails), replace(world.terms, may_bet=fails)):
            with pytest.raises(RuntimeError, match="own statement"):
                world.apply(withdraw("b1", world.p1), terms)
            assert (world.balance(), world.state()) == (10_000, None)
        world.expect(world.withdraw(), None, 9_500)

    def test_b14_repeated_when_blocked_or_broke(self, world: World) -> None:
        """What was granted stays granted."""
        world.withdraw("b1")
        world.withdraw("b2", 9_500)
        blocked = replace(world.terms, may_bet=lambda *_: "PLAYER_BLOCKED")
        world.expect(world.apply(withdraw("b1", world.p1), blocked), None, 0)

    def test_c13_declined_as_blocked(self, world: World) -> None:
        """Unblocked, the same withdraw is refused alike; and nobody is asked again."""
        asked: list[str] = []

        def may_bet(call: WithdrawCall, account: Account, _connection: Any) -> str | None:
            asked.append(f"{call.bet_id} {account.key} {account.balance_cents}")
            return "LIMIT_EXCEEDED" if call.bet_id == "b1" else None

        asking = replace(world.terms, may_bet=may_bet)
        for _ in range(2):
            world.expect(world.apply(withdraw("b1", world.p1), asking), "LIMIT_EXCEEDED", 10_000)
        world.expect(world.withdraw("b1"), "LIMIT_EXCEEDED", 10_000)
        world.expect(world.apply(withdraw("b2", world.p1), asking), None, 9_500)
        world.expect(world.apply(withdraw("b2", world.p1), asking), None, 9_500)
        assert asked == [f"b1 {world.p1} 10000", f"b2 {world.p1} 10000"]

    def test_what_is_no_code_refuses_nothing(self, world: World) -> None:
        """may_bet must answer a code or None: junk fails that call, and nothing is stored."""
        junk: list[Any] = ["blocked", "", "SYSTEM_ERROR", "INVALID_SIGNATURE", 7, False, "A" * 65]
        answers = iter(junk)
        answering = replace(world.terms, may_bet=lambda *_: next(answers))
        for number in range(1, len(junk) + 1):
            with pytest.raises(LedgerError, match="may_bet"):
                world.apply(withdraw(f"b{number}", world.p1), answering)
            assert world.state(f"b{number}") is None
            world.expect(world.withdraw(f"b{number}"), None, 10_000 - number * 500)

    def test_d01_distinct_withdraws(self, world: World) -> None:
        """Money for 33 of 50 pays 33, and never 34."""
        answers = codes(world.at_once([withdraw(f"b{n}", world.p1, 300) for n in range(50)]))
        assert (answers.count(None), answers.count("INSUFFICIENT_BALANCE")) == (33, 17)
        assert world.balance() == 100

    def test_d02_identical_calls(self, world: World) -> None:
        """Twenty times the same at once: one debit, one credit, SUCCESS to all."""
        for call in (withdraw("b1", world.p1), deposit("b1", world.p1)):
            results = world.at_once([call] * 20)
            assert codes(results) == [None] * 20
            assert [isinstance(each, Outcome) and each.applied for each in results].count(True) == 1
        assert world.balance() == 10_750

    def test_d05_many_players(self, world: World) -> None:
        """Mixed traffic of many players at once: no deadlock, and no update is lost."""
        players = [f"p-{world.source}-{n}" for n in range(40)]
        for player_id in players:
            world.open(player_id, 1_000)
        for calls in (
            [withdraw(f"b-{player_id}", player_id) for player_id in players],
            [deposit(f"b-{player_id}", player_id) for player_id in players[:20]]
            + [rollback(f"b-{player_id}", player_id, None) for player_id in players[20:]],
        ):
            assert codes(world.at_once(calls * 2)) == [None] * 80
        assert [world.balance(player_id) for player_id in players] == [1_750] * 20 + [1_000] * 20

    def test_d07_a_later_time_has_no_older_balance(self, world: World) -> None:
        """With a balance that only grows, whoever sorts the answers by time sees it only grow."""
        calls: list[WebhookCall] = []
        for n in range(40):
            calls += [claim(f"c{n}", world.p1, 10), ask_balance(world.p1)]
        results = world.at_once(calls)
        assert codes(results) == [None] * 80
        told = [(each.at_millis, each.balance_cents or 0) for each in results if isinstance(each, Outcome)]
        latest: dict[int, list[int]] = {}
        for at_millis, balance_cents in told:
            latest.setdefault(at_millis, []).append(balance_cents)
        times = sorted(latest)
        for earlier, later in pairwise(times):
            assert max(latest[earlier]) <= min(latest[later])
        moved = [each.at_millis for each in results if isinstance(each, Outcome) and each.applied]
        assert len(set(moved)) == len(moved) == 40

    def test_d08_a_withdraw_and_its_rollback_unseen(self, world: World) -> None:
        """Two hundred times: never a debit beside a tombstone."""
        calls: list[WebhookCall] = []
        for n in range(200):
            pair: list[WebhookCall] = [withdraw(f"b{n}", world.p1, 1), rollback(f"b{n}", world.p1, None)]
            calls += pair if n % 2 else pair[::-1]
        codes(world.at_once(calls))
        assert world.balance() == 10_000
        states = [bet.state for bet in world.ledger.bets(source=world.source)]
        assert len(states) == 200
        assert set(states) <= {BetState.ROLLED_BACK, BetState.TOMBSTONE}

    def test_g01_cents(self, world: World) -> None:
        """0.01 taken a hundred times from 1.00 leaves exactly 0.00."""
        world.open(world.p3, 100)
        answers = codes(world.at_once([withdraw(f"b{n}", world.p3, 1) for n in range(101)]))
        assert (answers.count(None), world.ledger.balance(world.p3)) == (100, 0)

    def test_after_sees_the_outcome(self, world: World) -> None:
        """The operator's own statements run once for each moving call, refusals too, and never for a balance."""
        seen: list[tuple[str, str | None, bool]] = []

        def after(call: Any, outcome: Outcome, connection: Any) -> None:
            seen.append((call.operation, outcome.code, outcome.replayed))

        terms = replace(world.terms, after=after)
        for call in (
            withdraw("b1", world.p1),
            withdraw("b1", world.p1),
            deposit("b9", world.p1),
            ask_balance(world.p1),
        ):
            world.apply(call, terms)
        assert seen == [("withdraw", None, False), ("withdraw", None, True), ("deposit", "BET_NOT_FOUND", False)]


class LedgerContract(_Worlds):
    """The scenarios that every ledger survives."""

    # --- A: flows -----------------------------------------------------------------------------------------------------

    def test_a01_balance_check(self, world: World) -> None:
        """The answer to player-balance is the current balance and the time, in whole milliseconds (spec §2.1, §4.1)."""
        since = time.time()
        before, outcome = world.apply(ask_balance(world.p1)), world.apply(ask_balance(world.p1))
        assert (outcome.code, outcome.balance_cents) == (None, OPENING_CENTS)
        assert outcome.at_millis >= before.at_millis
        moved = world.withdraw()
        declined = world.withdraw("b2", cents=OPENING_CENTS)
        assert (moved.code, declined.code) == (None, "INSUFFICIENT_BALANCE")
        assert [is_now(each.at_millis, since) for each in (before, outcome, moved, declined)] == [True] * 4

    def test_what_a_call_moved_is_in_its_outcome(self, world: World) -> None:
        """Below zero for a debit, and 0 for what is repeated, refused or only asked; by every way to the tables."""
        first = some_of_each_end("x", world.p1)
        for call in (*first, *first, withdraw("x-dear", world.p1, 10**9), ask_balance(world.p1)):
            before = world.ledger.balance(world.p1)
            delta_cents = world.apply(call).delta_cents
            assert delta_cents == world.ledger.balance(world.p1) - before

    def test_a02_win(self, world: World) -> None:
        """A withdraw deducts the wager, a deposit credits the winnings (spec §3, §4.1)."""
        world.expect(world.withdraw(), None, 9_500)
        assert world.state() is BetState.OPEN
        world.expect(world.deposit(), None, 10_750)
        assert world.state() is BetState.CLOSED

    def test_a03_loss(self, world: World) -> None:
        """A deposit of 0 is a loss, and closes the bet (spec §3, §4.1)."""
        world.withdraw()
        world.expect(world.deposit(cents=0), None, 9_500)
        assert world.state() is BetState.CLOSED

    def test_a04_rollback(self, world: World) -> None:
        """A rollback reverses the withdraw (spec §3, §4.1)."""
        world.withdraw()
        world.expect(world.rollback(), None, 10_000)
        assert world.state() is BetState.ROLLED_BACK

    def test_a05_two_bets_of_a_round(self, world: World) -> None:
        """Each bet settles alone."""
        for bet_id in ("b1", "b2"):
            world.withdraw(bet_id, round_id="r1")
        world.expect(world.deposit("b1"), None, 10_250)
        world.expect(world.rollback("b2"), None, 10_750)
        assert (world.state("b1"), world.state("b2")) == (BetState.CLOSED, BetState.ROLLED_BACK)

    @pytest.mark.parametrize(
        ("cents", "code", "left"),
        [(10_000, None, 0), (10_001, "INSUFFICIENT_BALANCE", 10_000), (10**15, "INSUFFICIENT_BALANCE", 10_000)],
    )
    def test_a06_funds(self, world: World, cents: int, code: str | None, left: int) -> None:
        """All there is may be bet, and not a cent more."""
        world.expect(world.withdraw(cents=cents), code, left)

    def test_a07_unknown_player(self, world: World) -> None:
        """Nobody's calls open no account; a tombstone and a decline are stored all the same."""
        for outcome in (
            world.withdraw("b1", player_id=world.p3),
            world.deposit("b2", player_id=world.p3),
            world.rollback("b3", player_id=world.p3),
            world.claim(player_id=world.p3),
            world.apply(ask_balance(world.p3)),
        ):
            assert (outcome.code, outcome.balance_cents) == ("PLAYER_NOT_FOUND", None)
        with pytest.raises(AccountNotFoundError):
            world.ledger.balance(world.p3)
        assert [world.state(bet_id) for bet_id in ("b1", "b2", "b3")] == [BetState.DECLINED, None, BetState.TOMBSTONE]

    def test_a08_two_players(self, world: World) -> None:
        """Interleaved traffic does not cross."""
        world.withdraw("b1")
        world.withdraw("b2", 700, player_id=world.p2)
        world.deposit("b1")
        world.rollback("b2", player_id=world.p2)
        assert (world.balance(), world.balance(world.p2)) == (10_750, 10_000)

    @pytest.mark.parametrize("action", ["FREE_BET_CLAIM", "JACKPOT"])
    def test_a10_claims(self, world: World, action: str) -> None:
        """A claim is credited once, without any withdraw."""
        free_bets = tuple(FreeBet(id=f"f{n}", round_id=f"r{n}", wager_cents=100, won_cents=100) for n in range(3))
        world.expect(world.claim(action=action, free_bets=free_bets), None, 10_300)
        world.expect(world.claim(action=action, free_bets=free_bets), None, 10_300)
        assert world.anomalies() == []

    # --- B: repeats ---------------------------------------------------------------------------------------------------

    def test_b01_same_withdraw(self, world: World) -> None:
        """One debit."""
        world.withdraw()
        again = world.withdraw()
        world.expect(again, None, 9_500)
        assert (again.replayed, again.applied) == (True, False)

    def test_b02_same_deposit_and_rollback(self, world: World) -> None:
        """One credit and one refund, however often."""
        world.withdraw("b1")
        world.withdraw("b2")
        for _ in range(5):
            world.expect(world.deposit("b1"), None, 10_250)
        for _ in range(5):
            world.expect(world.rollback("b2"), None, 10_750)

    @pytest.mark.parametrize("duplicate_reply", ["current", "verbatim"])
    def test_b03_the_balance_of_a_repeat(self, world: World, duplicate_reply: str) -> None:
        """Today's balance and time, or those of then; never the old balance with a new time."""
        first = world.withdraw("b1")
        world.withdraw("b2", 700)
        now = world.balance()
        again = world.apply(withdraw("b1", world.p1), world.with_rules(duplicate_reply=duplicate_reply))
        if duplicate_reply == "current":
            assert (again.balance_cents, now) == (8_800, 8_800)
            assert again.at_millis > first.at_millis
        else:
            assert (again.balance_cents, again.at_millis) == (first.balance_cents, first.at_millis)

    def test_b04_same_tx_id_other_content(self, world: World) -> None:
        """DUPLICATE_TRANSACTION, and somebody looks."""
        world.withdraw(tx_id="t")
        for other in ({"cents": 501}, {"player_id": world.p2}, {"action": "RAIN"}, {"bet_id": "b2"}):
            assert world.withdraw(**{"tx_id": "t"} | other).code == "DUPLICATE_TRANSACTION"
        assert (world.balance(), world.balance(world.p2)) == (9_500, 10_000)
        assert "conflicting_withdraw" in world.anomalies()

    def test_b05_a_rollback_carries_its_withdraws_tx_id(self, world: World) -> None:
        """The key is operation and tx_id: the refund happens."""
        world.withdraw(tx_id="t")
        world.expect(world.rollback(tx_id="t"), None, 10_000)

    def test_b06_declined_for_funds(self, world: World) -> None:
        """A decline is final for that withdraw, whatever is paid in later; the answer tells today's balance."""
        world.expect(world.withdraw(cents=10_001), "INSUFFICIENT_BALANCE", 10_000)
        world.ledger.adjust(world.p1, Decimal(50), reference=world.source)
        world.expect(world.withdraw(cents=10_001), "INSUFFICIENT_BALANCE", 15_000)
        world.expect(world.withdraw(cents=10_001, tx_id="t"), "DUPLICATE_TRANSACTION", 15_000)

    def test_b09_ids_as_they_are(self, world: World) -> None:
        """Ids that differ in case, blanks or marks are different, and come back exactly."""
        world.withdraw("b1")
        for other in ("B1", "b1 ", " b1", "b1\n", "b\u00b9", "'; DROP TABLE bets; --", "<b1>", "b1%", "🂡"):
            world.expect(world.withdraw(other, round_id=other, game=other, instance_id=other), None, 9_000)
            bet = world.ledger.bet(other, source=world.source)
            assert bet is not None
            assert (bet.bet_id, bet.round_id, bet.game, bet.instance_id) == (other,) * 4
            world.expect(world.rollback(other), None, 9_500)
            assert world.state("b1") is BetState.OPEN

    def test_b09_ids_are_not_normalised(self, world: World) -> None:
        """Composed and decomposed are two bets and two players."""
        for bet_id in ("\u00e9", "e\u0301", "\ufb01", "fi", "\u212b", "\u00c5"):
            player_id = f"{bet_id}-{world.source}"
            world.open(player_id, 1_000)
            assert world.withdraw(bet_id, player_id=player_id).applied
            assert world.ledger.balance(player_id) == 500

    def test_b09_the_longest_ids(self, world: World) -> None:
        """256 and 320 code points of four bytes each are stored and found."""
        bet_id, tx_id = "🂡" * 256, "🂡" * 320
        world.withdraw(bet_id, tx_id=tx_id)
        assert world.withdraw(bet_id, tx_id=tx_id).replayed
        assert world.rollback(bet_id, tx_id=tx_id).applied

    def test_b10_a_second_deposit(self, world: World) -> None:
        """One bet has one resolution."""
        world.withdraw()
        world.deposit()
        world.expect(world.deposit(tx_id="t"), "BET_ALREADY_CLOSED", 10_750)
        assert world.anomalies() == ["second_deposit"]

    def test_b12_a_second_withdraw(self, world: World) -> None:
        """One bet has one withdraw."""
        world.withdraw()
        world.expect(world.withdraw(tx_id="t"), "DUPLICATE_TRANSACTION", 9_500)
        assert world.anomalies() == ["second_withdraw"]

    def test_b13_same_tx_id_other_bet(self, world: World) -> None:
        """The second bet is not debited, and its rollback refunds neither."""
        world.withdraw("b1", tx_id="t")
        world.expect(world.withdraw("b2", tx_id="t"), "DUPLICATE_TRANSACTION", 9_500)
        world.expect(world.rollback("b2", tx_id="t"), "BET_NOT_FOUND", 9_500)
        assert (world.state("b1"), world.state("b2")) == (BetState.OPEN, None)
        world.expect(world.rollback("b1", tx_id="t"), None, 10_000)

    def test_b15_same_deposit_other_bytes(self, world: World) -> None:
        """Only content counts: one credit, whatever is told beside it."""
        world.withdraw()
        world.apply(deposit("b1", world.p1, body=b'{"a": 1}'))
        world.expect(
            world.deposit(body=b'{"b": 2}', round_id="r", game="g", won_cents=1, wager_cents=2, jackpot_id="j"),
            None,
            10_750,
        )

    def test_b16_jackpot_on_an_open_bet(self, world: World) -> None:
        """A claim does not touch the bet whose id it names; the bet's own deposit is credited."""
        world.withdraw()
        world.expect(world.claim("", bet_id="b1", action="JACKPOT"), None, 9_800)
        assert world.state() is BetState.OPEN
        world.expect(world.deposit(), None, 11_050)
        world.expect(world.claim("", bet_id="b1", action="JACKPOT"), None, 11_050)

    # --- C: order -----------------------------------------------------------------------------------------------------

    def test_c01_c02_a_rollback_before_its_withdraw(self, world: World) -> None:
        """The late withdraw debits nothing, and another rollback refunds nothing."""
        world.expect(world.rollback(), "BET_NOT_FOUND", 10_000)
        assert world.state() is BetState.TOMBSTONE
        world.expect(world.withdraw(), "BET_ROLLED_BACK", 10_000)
        world.expect(world.rollback(), "BET_NOT_FOUND", 10_000)
        world.expect(world.deposit(), "BET_ROLLED_BACK", 10_000)
        assert world.state() is BetState.TOMBSTONE

    def test_c01_a_lenient_profile(self, world: World) -> None:
        """SUCCESS to an early rollback, and still no debit and no refund."""
        lenient = world.with_rules(unknown_rollback="success")
        for _ in range(2):
            world.expect(world.apply(rollback("b1", world.p1), lenient), None, 10_000)
        world.expect(world.apply(withdraw("b1", world.p1), lenient), "BET_ROLLED_BACK", 10_000)
        assert world.anomalies() == []

    def test_c02_a_kept_tx_id(self, world: World) -> None:
        """A tombstone keeps its withdraw's tx_id from every other bet."""
        world.rollback("b1", tx_id="t")
        world.expect(world.withdraw("b2", tx_id="t"), "DUPLICATE_TRANSACTION", 10_000)
        world.expect(world.withdraw("b1", tx_id="u", player_id=world.p2), "BET_ROLLED_BACK", 10_000)
        assert world.state("b2") is None

    def test_c03_a_rollback_after_its_deposit(self, world: World) -> None:
        """The deposit stands."""
        world.withdraw()
        world.deposit()
        world.expect(world.rollback(), "BET_ALREADY_CLOSED", 10_750)
        assert world.anomalies() == ["rollback_after_deposit"]

    def test_c04_a_deposit_after_its_rollback(self, world: World) -> None:
        """The refund stands."""
        world.withdraw()
        world.rollback()
        world.expect(world.deposit(), "BET_ROLLED_BACK", 10_000)
        world.expect(world.withdraw(), "BET_ROLLED_BACK", 10_000)
        assert world.anomalies() == ["deposit_after_rollback"]

    def test_c05_a_deposit_before_its_withdraw(self, world: World) -> None:
        """It is refused and not remembered: once the withdraw has come, it is credited."""
        world.expect(world.deposit(), "BET_NOT_FOUND", 10_000)
        assert world.state() is None
        world.withdraw()
        world.expect(world.deposit(), None, 10_750)
        assert world.anomalies() == ["early_deposit"]

    def test_c06_a_rollback_of_a_declined_withdraw(self, world: World) -> None:
        """Nothing was taken, so nothing is refunded."""
        world.withdraw(cents=10_001)
        world.expect(world.rollback(), "BET_NOT_FOUND", 10_000)
        world.expect(world.deposit(), "BET_NOT_FOUND", 10_000)
        assert world.state() is BetState.DECLINED

    def test_c07_a_rollback_of_another_amount(self, world: World) -> None:
        """What was taken is refunded."""
        world.withdraw()
        world.expect(world.rollback(amount_cents=99_999), None, 10_000)
        assert world.anomalies() == ["amount_differs"]

    def test_c08_a_rollback_of_another_players_bet(self, world: World) -> None:
        """The bet stays OPEN, and neither is refunded."""
        world.withdraw()
        assert world.rollback(player_id=world.p2).code == "BET_NOT_FOUND"
        assert (world.balance(), world.balance(world.p2), world.state()) == (9_500, 10_000, BetState.OPEN)
        world.expect(world.rollback(), None, 10_000)

    @pytest.mark.parametrize("order", list(permutations("WDR")), ids="".join)
    def test_c09_every_order_duplicated(self, world: World, order: tuple[str, ...]) -> None:
        """At most one debit and one resolution, in whatever order; repeats move nothing more (spec §3)."""
        apply: dict[str, Callable[[], Outcome]] = {"W": world.withdraw, "D": world.deposit, "R": world.rollback}
        for operation in order:
            for _ in range(2):
                apply[operation]()
        # A deposit before its withdraw is repeated by the service until it is taken, or final.
        final = apply["D"]()
        balance, state = world.balance(), world.state()
        rolled_back = order.index("R") < order.index("D") or order.index("R") < order.index("W") or final.refused
        assert (balance, state) == (
            (10_000, BetState.ROLLED_BACK if order.index("W") < order.index("R") else BetState.TOMBSTONE)
            if rolled_back
            else (10_750, BetState.CLOSED)
        )
        for operation in order * 2:
            apply[operation]()
        assert (world.balance(), world.state()) == (balance, state)

    def test_c10_a_deposit_by_another_player(self, world: World) -> None:
        """The bet stays OPEN, and the right deposit is credited."""
        world.withdraw()
        assert world.deposit(player_id=world.p2).code == "BET_NOT_FOUND"
        assert (world.balance(world.p2), world.state()) == (10_000, BetState.OPEN)
        world.expect(world.deposit(), None, 10_750)

    def test_c11_a_rollback_with_another_tx_id(self, world: World) -> None:
        """It refunds nothing; the right one, or one without, does."""
        world.withdraw()
        world.expect(world.rollback(tx_id="t"), "BET_NOT_FOUND", 9_500)
        world.expect(world.rollback(), None, 10_000)
        world.withdraw("b2", tx_id="u")
        world.expect(world.rollback("b2", tx_id=None), None, 10_000)
        world.expect(world.rollback("b2", tx_id="u"), None, 10_000)

    def test_c12_a_rain(self, world: World) -> None:
        """No deposit settles it; a rollback refunds it."""
        world.withdraw(action="RAIN")
        assert world.state() is BetState.SPENT
        world.expect(world.deposit(), "BET_ALREADY_CLOSED", 9_500)
        world.expect(world.rollback(tx_id=None), None, 10_000)
        assert world.state() is BetState.ROLLED_BACK

    def test_c14_a_tombstone_of_an_unknown_player(self, world: World) -> None:
        """Once the account is opened, the late withdraw debits nothing."""
        assert world.rollback(player_id=world.p3).code == "PLAYER_NOT_FOUND"
        world.open(world.p3, 1_000)
        late = world.withdraw(player_id=world.p3)
        assert (late.code, late.balance_cents) == ("BET_ROLLED_BACK", 1_000)
        assert world.rollback(player_id=world.p3).code == "BET_NOT_FOUND"

    def test_c14_a_decline_of_an_unknown_player(self, world: World) -> None:
        """Once the account is opened, the same withdraw is refused alike."""
        assert world.withdraw(player_id=world.p3).code == "PLAYER_NOT_FOUND"
        world.open(world.p3, 1_000)
        again = world.withdraw(player_id=world.p3)
        assert (again.code, again.balance_cents, again.replayed) == ("PLAYER_NOT_FOUND", None, True)
        assert world.withdraw("b2", player_id=world.p3).applied

    # --- E: captured bodies -------------------------------------------------------------------------------------------

    def test_e07_replayed_later(self, world: World) -> None:
        """Genuine bodies, captured and sent again, move nothing a second time; nor after a restart."""
        jackpot = claim("", world.p1, bet_id="b1", action="JACKPOT")
        calls: list[WebhookCall] = [withdraw("b1", world.p1), deposit("b1", world.p1), jackpot]
        for call in calls:
            world.apply(call)
        for _ in range(2):
            for call in calls:
                world.expect(world.apply(call), None, 11_050)
            world.ledger.reopen()

    @pytest.mark.parametrize("action", ["BET", "RAIN"])
    def test_e09_the_withdraws_bytes_elsewhere(self, world: World, action: str) -> None:
        """A lost bet's or a RAIN's withdraw is no rollback; the honest rollback still refunds (docs/decisions/0011)."""
        body = b'{"a": "withdraw"}'
        world.withdraw(body=body, action=action)
        tx_id = f"withdraw:{action.lower()}:b1"
        world.expect(world.rollback(body=body, tx_id=tx_id), "INVALID_REQUEST", 9_500)
        world.expect(world.rollback(body=body, tx_id=None), "INVALID_REQUEST", 9_500)
        assert world.anomalies() == ["withdraw_bytes_on_rollback"]
        honest = b'{"a": "rollback"}'
        world.expect(world.withdraw(body=honest, action=action), None, 9_500)
        world.expect(world.rollback(body=honest, tx_id=tx_id), None, 10_000)
        world.expect(world.withdraw(body=honest, action=action), "BET_ROLLED_BACK", 10_000)

    # --- G: money -----------------------------------------------------------------------------------------------------

    def test_g02_exact_amounts(self, world: World) -> None:
        """Decimal amounts become cents exactly (spec §2.4)."""
        for amount, cents in (("19.99", 1999), ("1.15", 115), ("4.35", 435), ("92233720368547758.07", 2**63 - 1)):
            player_id = f"{amount}-{world.source}"
            world.ledger.open_account(player_id, Decimal(amount))
            world.opened[player_id] = cents
            assert world.ledger.balance(player_id) == cents
            assert world.apply(ask_balance(player_id)).reply().balance == Decimal(amount)

    def test_g02_beyond_64_bits(self, world: World) -> None:
        """A credit that does not fit moves nothing, is not remembered, and is kept to look at."""
        world.open(world.p3, 2**63 - 1)
        world.withdraw(player_id=world.p3)
        assert world.deposit(player_id=world.p3).code == "SYSTEM_ERROR"
        assert world.claim(player_id=world.p3, cents=501).code == "SYSTEM_ERROR"
        assert (world.state(), world.ledger.balance(world.p3)) == (BetState.OPEN, 2**63 - 1 - 500)
        assert world.anomalies() == ["balance_overflow"] * 2
        assert world.rollback(player_id=world.p3).balance_cents == 2**63 - 1

    @pytest.mark.parametrize("seed", range(2))
    @pytest.mark.slow
    def test_g04_random_operations(self, world: World, seed: int, operations: int) -> None:
        """After any history all answers, bets and balances are those of a book in memory, and the books add up."""
        _same_as_a_book(world, random_of(seed), operations // 2)

    # --- accounts, sources, records -----------------------------------------------------------------------------------

    def test_accounts_are_opened_once(self, world: World) -> None:
        """An account is opened by hand, and not twice."""
        with pytest.raises(AccountExistsError, match="open already"):
            world.ledger.open_account(world.p1, Decimal(5))
        assert world.ledger.balance(world.p1) == 10_000
        with pytest.raises(AccountNotFoundError, match="no account"):
            world.ledger.balance(world.p3)
        wrong: list[Any] = [5, 5.0, "5"]  # Any: of a wrong type.
        for opening in wrong:
            with pytest.raises(TypeError):
                world.ledger.open_account(world.p3, opening)
        for odd in (Decimal("-0.01"), Decimal("0.001"), Decimal("92233720368547758.08"), Decimal("NaN")):
            with pytest.raises(ValueError, match=r"."):
                world.ledger.open_account(world.p3, odd)

    def test_adjustments(self, world: World) -> None:
        """Money from outside games moves once for each reference, and never below zero."""
        reference = f"cash-{world.source}"
        for _ in range(2):
            assert world.ledger.adjust(world.p1, Decimal("-20.00"), reference=reference) == 8_000
        with pytest.raises(AdjustmentRefusedError, match="belongs to"):
            world.ledger.adjust(world.p1, Decimal("-20.01"), reference=reference)
        with pytest.raises(AdjustmentRefusedError, match="belongs to"):
            world.ledger.adjust(world.p2, Decimal("-20.00"), reference=reference)
        with pytest.raises(AdjustmentRefusedError, match="below zero"):
            world.ledger.adjust(world.p1, Decimal("-80.01"), reference=reference + "2")
        assert world.ledger.adjust(world.p1, Decimal("-80.00"), reference=reference + "2") == 0
        with pytest.raises(AdjustmentRefusedError, match="cannot hold"):
            world.ledger.adjust(world.p2, Decimal("92233720368547758.07"), reference=reference + "3")
        with pytest.raises(AccountNotFoundError):
            world.ledger.adjust(world.p3, Decimal(1), reference=reference + "4")
        assert world.ledger.balance(world.p2) == 10_000

    def test_sources_never_meet(self, world: World) -> None:
        """The same ids of another source are another bet and another call."""
        elsewhere = replace(world.terms, source=world.source + "-test")
        world.ledger.add_source(elsewhere.source)
        world.withdraw()
        world.ledger.add_source(elsewhere.source)
        other = world.apply(withdraw("b1", world.p1), elsewhere)
        assert (other.applied, other.balance_cents) == (True, 9_000)
        assert world.apply(rollback("b1", world.p1), elsewhere).balance_cents == 9_500
        assert world.state() is BetState.OPEN
        there = world.ledger.bet("b1", source=elsewhere.source)
        assert there is not None
        assert (there.state, there.source) == (BetState.ROLLED_BACK, elsewhere.source)

    def test_a_deposit_for_another_players_bet(self, world: World) -> None:
        """The bet of one player stands on the account that is another's own name: it is still the first one's bet."""
        mapped = replace(world.terms, account_of=lambda call: world.p2)
        assert world.apply(withdraw("b1", world.p1), mapped).balance_cents == 9_500
        refused = world.deposit(player_id=world.p2)
        assert (refused.code, refused.applied, world.state()) == ("BET_NOT_FOUND", False, BetState.OPEN)
        assert world.anomalies() == ["deposit_by_other_player"]
        assert (world.balance(world.p1), world.balance(world.p2)) == (10_000, 9_500)
        assert world.deposit().balance_cents == 10_750

    def test_a_bet_keeps_its_account(self, world: World) -> None:
        """``account_of`` maps withdraw, claim and player-balance; winnings and refund go where the wager was taken."""
        wallet = f"wallet-{world.source}"
        world.open(wallet, 1_000)
        mapped = replace(world.terms, account_of=lambda call: wallet)
        assert world.apply(withdraw("b1", world.p1), mapped).balance_cents == 500
        assert world.apply(withdraw("b2", world.p1), mapped).balance_cents == 0
        assert world.apply(ask_balance(world.p1), mapped).balance_cents == 0
        # Also when nobody maps any more.
        assert world.deposit("b1").balance_cents == 1_250
        assert world.apply(rollback("b2", world.p1, None), mapped).balance_cents == 1_750
        assert world.apply(claim("c1", world.p1), mapped).balance_cents == 2_050
        assert world.claim("c1").balance_cents == 2_050
        assert world.withdraw("b1").balance_cents == 2_050
        assert (world.ledger.balance(wallet), world.ledger.balance(world.p1)) == (2_050, 10_000)

    def test_nobody_is_told_anothers_balance(self, world: World) -> None:
        """A refusal tells the balance of whom the call names."""
        world.claim("c1")
        world.withdraw()
        for call in (
            claim("c1", world.p2),
            withdraw("b1", world.p2),
            deposit("b1", world.p2),
            rollback("b1", world.p2),
        ):
            assert world.apply(call).balance_cents == 10_000
        assert world.balance() == 9_800

    def test_the_record_of_a_bet(self, world: World) -> None:
        """What was told is kept, field for field; the round is that of the deposit (spec §6)."""
        placed = withdraw("b1", world.p1, instance_id="i1", game="aviator", round_id="r0", tx_id="t", body=b"{}")
        opened = world.apply(placed)
        closed = world.deposit(tx_id="d", round_id="r1")
        assert world.ledger.bet("b1", source=world.source) == BetRecord(
            "b1",
            world.p1,
            world.p1,
            "i1",
            "aviator",
            "r1",
            500,
            1250,
            BetState.CLOSED,
            opened.at_millis,
            closed.at_millis,
            "BET",
            "t",
            "d",
            placed.body_digest,
            world.source,
        )

    def test_a_bet_without_a_round(self, world: World) -> None:
        """Nothing told is None, and a rollback's round is kept as well as a deposit's (spec §6)."""
        world.withdraw("b1")
        world.withdraw("b2", round_id="r0")
        for bet_id, kept in (("b1", None), ("b2", "r0")):
            world.deposit(bet_id)
            bet = world.ledger.bet(bet_id, source=world.source)
            assert bet is not None
            assert (bet.round_id, bet.instance_id, bet.game) == (kept, None, None)
        world.withdraw("b3")
        world.rollback("b3", round_id="r3")
        bet = world.ledger.bet("b3", source=world.source)
        assert bet is not None
        assert bet.round_id == "r3"


def _same_as_a_book(world: World, random: Random, steps: int) -> None:
    """Apply *steps* random calls of a small hostile world to this ledger and to a book, which is never stored."""
    twin, players = Book(world.source), (world.p1, world.p2)
    twin.accounts = {player: Account(player, OPENING_CENTS) for player in players}
    profiles = [
        Profile(),
        Profile(unknown_rollback="success"),
        Profile(rollback_tx_id="own"),
        Profile(early_deposit_code="SYSTEM_ERROR"),
    ]
    terms = [replace(world.terms, rules=rules) for rules in profiles]
    for step in range(steps):
        call = random_call(random, (world.p1, world.p2, world.p3), bets=max(4, step // 8))
        # Mostly one profile: a service does not change its ways with every call.
        under = random.choice(terms) if random.random() < 0.05 else terms[0]
        told, expected = world.apply(call, under), twin.apply(call, under, clock_millis=step)
        assert _said(told) == _said(expected), f"step {step}: {call}"
    assert [world.ledger.balance(each) for each in players] == [twin.accounts[each].balance_cents for each in players]
    mine, its = (
        {bet.bet_id: _lasting(bet) for bet in bets}
        for bets in (world.ledger.bets(source=world.source), twin.bets.values())
    )
    assert mine == its
    assert set(world.anomalies()) == {each.kind for each in twin.changes.anomalies}


def _said(outcome: Outcome) -> tuple[object, ...]:
    return (outcome.code, outcome.balance_cents, outcome.applied, outcome.replayed, outcome.anomaly)


def _lasting(bet: BetRecord) -> BetRecord:
    settled = None if bet.settled_at_millis is None else 0
    return bet._replace(opened_at_millis=0, settled_at_millis=settled)


def random_call(random: Random, players: Sequence[str], *, bets: int) -> WebhookCall:
    """Return a call about one of *bets* bets: mostly honest, sometimes of another player, amount or tx_id."""
    bet_id = f"b{random.randrange(bets)}"
    player_id = players[int(bet_id[1:]) % 2] if random.random() < 0.93 else random.choice(players)
    tx_id = f"t{random.randrange(bets)}" if random.random() < 0.07 else f"withdraw:bet:{bet_id}"
    told = {"round_id": random.choice([None, "r1", "r2"]), "game": random.choice([None, "g"])}
    # By the bet, so that repeats agree.
    wager = 37 * (1 + int(bet_id[1:]) % 11) if random.random() < 0.97 else random.choice([1, 10**9])
    match random.choices("WDRCP", (4, 4, 2, 1, 0.5))[0]:
        case "W":
            body = b"%d" % random.randrange(3)
            return withdraw(bet_id, player_id, wager, tx_id=tx_id, body=body, instance_id="i", **told)
        case "D":
            won = wager * random.choice([0, 0, 1, 2]) if random.random() < 0.3 else wager
            beside = random.choice([None, None, won, won + 1])
            return deposit(bet_id, player_id, won, tx_id=f"d{tx_id}", won_cents=beside, **told)
        case "R":
            body = b"%d" % random.randrange(2, 12)
            carried = random.choice([tx_id, None])
            amount = random.choice([None, wager, 1])
            return rollback(bet_id, player_id, carried, amount_cents=amount, body=body, **told)
        case "C":
            tx_id = f"c{random.randrange(bets)}"
            return claim(tx_id, player_id, random.choice([0, 55]), bet_id=random.choice([None, bet_id]))
    return ask_balance(player_id)
