"""What a second look at a finding may not say: each wallet here was once blamed for something else than its mistake."""

from dataclasses import replace
from typing import Any

import pytest
from wallet_by_hand import SUCCESS, Account, Bet, Call, Case, PlainWallet, Reply

from game_operator_testkit.certifier import Outcome, Weight
from game_operator_testkit.certifier.report.verdicts import KnownCause
from testkit.tests.certifier.findings import found, only
from testkit.tests.certifier.harness import certified
from testkit.tests.certifier.wrong_wallets.races import AsksForFundsBeforeTheLock


class RepeatsOldBalancesWithoutRollbacks(PlainWallet):
    """Answers repeats with the balance of before, and no rollback at all."""

    def _rollback(self, case: Case) -> str:
        raise RuntimeError

    def _told_cents(self, case: Case, account: Account) -> int:
        return account.cents + (case.call.cents if case.is_repeat else 0)


def test_what_the_certifier_could_not_give_back_is_not_missing() -> None:
    """The small withdraw that tells two balances apart is not refunded by a wallet that fails at rollbacks."""
    reasons = found(certified(RepeatsOldBalancesWithoutRollbacks, only=["A01", "B01", "B04", "B13", "B15"]))
    assert "returned a balance of" in reasons["B01"]
    assert [each for each in reasons.values() if "too little" in each] == []


class RefundsEachTime(AsksForFundsBeforeTheLock):
    """Checks funds before the lock, and refunds a bet again at each repeat of its rollback."""

    def _rollback(self, case: Case) -> str:
        bet = case.bet
        if bet is not None and bet.state == "ROLLED_BACK" and self._agrees(case.call, bet):
            update = "UPDATE accounts SET cents = cents + ? WHERE player_id = ?"
            self._database.execute(update, (bet.cents, bet.player_id))
        return super()._rollback(case)


class PaysJackpotsEachTime(AsksForFundsBeforeTheLock):
    """Checks funds before the lock, and keeps no record of jackpots."""

    def _claim(self, case: Case) -> str:
        for table in ("postings", "calls"):
            query = f"DELETE FROM {table} WHERE operation = 'deposit' AND tx_id = ?"
            self._database.execute(query, (case.call.tx_id,))
        return super()._claim(replace(case, known=None))


@pytest.mark.parametrize(("kind", "cause"), [(RefundsEachTime, KnownCause.REFUNDED_TWICE), (PaysJackpotsEachTime, "")])
def test_what_a_lone_repeat_moves_needs_no_race(kind: type[PlainWallet], cause: str) -> None:
    """A wallet that is wrong in a race, too, is not said to do this for want of a transaction."""
    report = certified(kind, only=["A10", "B02", "B16", "D01", "D02"])
    assert found(report).keys() >= {"D01", "D02"}
    assert report.verdict("D02").notes[0].cause == cause


class GivesWagersBackBesideTheCalls(PlainWallet):
    """Answers repeats word for word. An agent gives a wager back right after each fifth bet."""

    _number = 0

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._answered: dict[tuple[str, str, str | None], Reply] = {}

    def _carry_out(self, call: Call) -> Reply:
        key = call.operation, self._content(call), call.tx_id
        if call.operation == "player-balance":
            return super()._carry_out(call)
        if key in self._answered:
            return self._answered[key]
        reply = super()._carry_out(call)
        if reply.outcome != SUCCESS:
            return reply
        self._answered[key] = reply
        self._number += call.operation == "withdraw"
        if call.operation == "withdraw" and self._number % 5 == 0:
            update = "UPDATE accounts SET cents = cents + ? WHERE player_id = ?"
            with self._lock:
                self._database.execute(update, (call.cents, call.player_id))
        return reply


def test_an_answer_word_for_word_is_no_movement() -> None:
    """A first answer has the balance before the money came back, and says nothing of what was stored."""
    report = certified(GivesWagersBackBesideTheCalls, only=["A", "B"])
    causes = {note.cause for verdict in report.failures for note in verdict.notes}
    assert causes
    assert causes.isdisjoint({KnownCause.NOT_COMMITTED, KnownCause.NOT_STORED})


class ForgetsBetsThatAnotherNames(PlainWallet):
    """Refunds and forgets an open bet when a deposit of another player names it."""

    def _deposit(self, case: Case) -> str:
        bet = case.bet
        if bet is None or bet.state != "OPEN" or self._names_its_player(case.call, bet):
            return super()._deposit(case)
        update = "UPDATE accounts SET cents = cents + ? WHERE player_id = ?"
        self._database.execute(update, (bet.cents, bet.player_id))
        self._database.execute("DELETE FROM bets WHERE bet_id = ?", (bet.bet_id,))
        for table in ("calls", "postings"):
            query = f"DELETE FROM {table} WHERE operation = 'withdraw' AND tx_id = ?"
            self._database.execute(query, (bet.tx_id,))
        return "BET_NOT_FOUND"


def test_what_a_refused_call_takes_back_was_stored() -> None:
    """It takes back another bet, too, so that it is no matter of chance whether a withdraw is committed."""
    verdict = only(certified(ForgetsBetsThatAnotherNames, only=["C10"]))
    assert verdict.notes[0].cause == ""
    assert "after a deposit to another player, player-1 has" in verdict.reason


class WantsLargeWagers(PlainWallet):
    """Accepts no wager below 60.00, which players with 1000.00 cannot pay twenty times."""

    code = "LIMIT_EXCEEDED"

    def _refusal(self, case: Case) -> str | None:
        return self.code if case.call.cents < 6_000 else super()._refusal(case)


class WantsLargeWagersInItsWords(WantsLargeWagers):
    """With a code of its own."""

    code = "STAKE_TOO_LOW"


@pytest.mark.parametrize("kind", [WantsLargeWagers, WantsLargeWagersInItsWords])
def test_a_high_minimum_is_a_limit(kind: type[PlainWallet]) -> None:
    """Nothing can be tried, and nothing is wrong."""
    report = certified(kind, only=["A02", "B01", "D01", "D05", "G01", "H05"])
    assert found(report) == {}
    assert {each.id for each in report.skipped} == {"A02", "B01", "D01", "D05", "G01", "H05"}


class TellsWholeSeconds(PlainWallet):
    """Has a clock that shows no milliseconds."""

    def _time_of_movement(self, now: int, last_millis: int) -> int:
        return max(now // 1_000 * 1_000, last_millis)

    def _time_of_read(self, now: int, last_millis: int) -> int:
        return self._time_of_movement(now, last_millis)


class ForgetsCancelledBets(TellsWholeSeconds):
    """Debits a withdraw anew once its bet is cancelled."""

    def _refund(self, case: Case, bet: Bet) -> None:
        super()._refund(case, bet)
        self._database.execute("DELETE FROM bets WHERE bet_id = ?", (bet.bet_id,))
        for table in ("calls", "postings"):
            self._database.execute(f"DELETE FROM {table} WHERE tx_id = ?", (bet.tx_id,))


def test_an_equal_answer_to_a_debit_is_no_repeat() -> None:
    """The withdraw of a cancelled bet has its first answer, and takes its wager again."""
    verdict = only(certified(ForgetsCancelledBets, only=["C15"]))
    assert "returned SUCCESS instead of BET_ROLLED_BACK; the balance moved by -5.00" in verdict.reason
    assert KnownCause.VERBATIM not in {note.cause for note in verdict.notes}


class FindsInheritedNames(PlainWallet):
    """Looks a bet up among those cancelled, as in an object of JavaScript, which has members of its own."""

    def _withdraw(self, case: Case) -> str:
        inherited = ("constructor", "__proto__", "toString", "hasOwnProperty")
        return "BET_ROLLED_BACK" if case.call.bet_id in inherited else super()._withdraw(case)


def test_a_name_that_no_run_has_placed_is_not_cancelled() -> None:
    """A name before it was new to the wallet, and a run tries names in one order."""
    verdict = only(certified(FindsInheritedNames, only=["F13"]))
    assert "refused with BET_ROLLED_BACK, and no run has placed it" in verdict.reason


class StopsItsClock(PlainWallet):
    """Has the time of its start; movements are a millisecond apart."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._began_millis = self.clock_millis()

    def _time_of_movement(self, now: int, last_millis: int) -> int:
        return max(self._began_millis, last_millis + 1)

    def _time_of_read(self, now: int, last_millis: int) -> int:
        return max(self._began_millis, last_millis)


@pytest.mark.parametrize(("kind", "advised"), [(StopsItsClock, True), (TellsWholeSeconds, False)])
def test_a_clock_that_stands_still(kind: type[PlainWallet], advised: bool) -> None:
    """Its times are right for a while, and in order; whole seconds stand still as well, and are what they say."""
    report = certified(kind, only=["H04"])
    assert report.passed
    assert ["it has the same timestamp" in each.reason for each in report.advice] == [True] * advised


class _TrustsGames(PlainWallet):
    """Takes a withdraw's game for text."""

    is_odd = False

    def _read(self, operation: str, document: object, body: bytes) -> Call:
        self.is_odd = isinstance(document, dict) and not isinstance(document.get("game", ""), str)
        return super()._read(operation, document, body)


class DebitsOddGamesTwice(_TrustsGames):
    """Fails after the debit where the game is no text, and debits again."""

    def _debit(self, case: Case) -> None:
        super()._debit(case)
        if self.is_odd:
            update = "UPDATE accounts SET cents = cents - ? WHERE player_id = ?"
            self._database.execute(update, (case.call.cents, case.call.player_id))


class FailsAtOddGames(_TrustsGames):
    """Answers SYSTEM_ERROR where the game is no text."""

    def _debit(self, case: Case) -> None:
        if self.is_odd:
            raise TypeError
        super()._debit(case)


@pytest.mark.parametrize(
    ("kind", "weight", "told"),
    [
        pytest.param(DebitsOddGamesTwice, Weight.MONEY_LOST, "whose game is {}, player-1 has", id="debited twice"),
        pytest.param(FailsAtOddGames, Weight.ADVICE, "whose game is {}: refused with SYSTEM_ERROR", id="refused"),
    ],
)
def test_a_game_that_is_no_text(kind: type[PlainWallet], weight: Weight, told: str) -> None:
    """It may be refused, or taken for any game."""
    verdict = only(certified(kind, only=["F11"]))
    assert (verdict.weight, verdict.outcome) == (weight, Outcome.FAILED)
    assert told in verdict.reason
