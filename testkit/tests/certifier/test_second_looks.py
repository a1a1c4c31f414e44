"""What a second look at a finding may not say: each wallet here was once blamed for something else than its mistake."""

from dataclasses import replace
from decimal import Decimal
from itertools import count
from typing import Any

import pytest
from wallet_by_hand import Bet, Call, Case, PlainWallet

from game_operator.ledger import MemoryLedger
from game_operator.models.webhooks import Reply, WithdrawCall
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver
from game_operator_testkit.certifier import Outcome, Weight
from game_operator_testkit.certifier.report.verdicts import KnownCause
from testkit.tests.certifier.harness import OTHER, PLAYER, certified, certified_by, found, only, service_key
from testkit.tests.certifier.test_sound_wallets import LimitsWagers
from testkit.tests.certifier.wrong_wallets.races import AsksForFundsBeforeTheLock

_NUMBERS = count()


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


class DebitsBehindItsReply(Wallet):
    """Debits a repeated withdraw again, where no reply shows it; with an empty account, it fails."""

    def withdraw(self, call: WithdrawCall) -> Reply:
        outcome = self.ledger.apply(call)
        if outcome.code is None and not outcome.applied:
            assert isinstance(self.ledger, MemoryLedger)
            amount = Decimal(-call.amount_cents) / 100
            self.ledger.adjust(call.player_id, amount, reference=f"again-{next(_NUMBERS)}")
        return outcome.reply()


def test_money_that_moves_behind_a_reply_is_no_chance() -> None:
    """Each repeat moves it, though most replies look as if the call were known."""
    receiver = WebhookReceiver(authenticator=RsaSignature(service_key().public_key()))
    wallet = DebitsBehindItsReply(MemoryLedger({PLAYER: 20_000, OTHER: 20_000}))
    scenarios = ["A01", "A02", "A03", "A04", "B01"]
    report = certified_by(lambda *call: receiver.handle(call[0], call[1], call[2], wallet), only=scenarios)
    (cause,) = report.causes
    assert (cause.ids, "were known when they came again" in cause.verdict.reason) == (("B01",), False)
    assert "unique constraint" in cause.fix


class WantsLargeWagers(LimitsWagers):
    """Accepts no wager below 60.00, which players with 1000.00 cannot pay twenty times."""

    least, most = 6_000, 10**15


class WantsLargeWagersInItsWords(WantsLargeWagers):
    """With a code of its own."""

    word = "STAKE_TOO_LOW"


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
