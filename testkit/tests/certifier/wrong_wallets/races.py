"""
Wallets that are right as long as one call comes at a time.

Each looks at something before it takes the lock, and goes by it afterwards. Between the two it lingers until a rival
has come, but not for long; and not at all when the certifier makes calls one by one, which it does in the main thread.
"""

import threading
import time
from collections import Counter
from dataclasses import replace
from itertools import count
from typing import Any

from wallet_by_hand import Bet, Call, Case, PlainWallet, Reply

from testkit.tests.certifier.wrong_wallets.registry import is_alone, wrong


class Rivals:
    """Lets a call wait until something else has happened to what it is about."""

    def __init__(self, patience_seconds: float) -> None:
        self._patience_seconds = patience_seconds
        self._news = threading.Condition()
        self._happened: Counter[str] = Counter()

    def tell(self, about: str) -> int:
        """Say that something happened, and return how much did."""
        with self._news:
            self._happened[about] += 1
            self._news.notify_all()
            return self._happened[about]

    def await_one(self, about: str) -> None:
        """Say that one is here, and wait for another."""
        known = self.tell(about)
        if not is_alone():
            with self._news:
                self._news.wait_for(lambda: self._happened[about] > known, self._patience_seconds)


class _LooksEarly(PlainWallet):
    """Looks before it takes the lock: ``early`` is what it saw."""

    looks_at: tuple[str, ...] = ("withdraw",)
    patience_seconds = 0.025
    _seen = threading.local()

    def __init__(self, *arguments: Any, **settings: Any) -> None:  # Any: as for PlainWallet
        super().__init__(*arguments, **settings)
        self._rivals = Rivals(self.patience_seconds)

    def contested(self, call: Call) -> str:
        """What rivals have in common."""
        return str(call.bet_id)

    def _carry_out(self, call: Call) -> Reply:
        if call.operation in self.looks_at:
            with self._lock:
                self._seen.case = self._case(call)
            self._rivals.await_one(self.contested(call))
        try:
            return super()._carry_out(call)
        finally:
            self._rivals.tell(self.contested(call))

    def early(self, case: Case) -> Case:
        seen: Case = self._seen.case if case.call.operation in self.looks_at else case
        return seen


class _LooksAtMoneyEarly(_LooksEarly):
    """Its rivals are all calls of the player, which are many: it waits for a moment."""

    patience_seconds = 0.002

    def contested(self, call: Call) -> str:
        """Nobody is told, so that the moment passes."""
        return f"{call.player_id} {call.operation} {call.bet_id}"


class _OverwritesRows(PlainWallet):
    """No row is in another's way, as without unique keys."""

    def _insert(self, table: str, *values: object) -> None:
        marks = ", ".join("?" * len(values))
        self._database.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", values)


@wrong("checks the funds before it takes the lock", must="D01", may="D10")
class AsksForFundsBeforeTheLock(_LooksAtMoneyEarly):
    def _has_funds(self, case: Case) -> bool:
        return super()._has_funds(self.early(case))


class _LocksForAStatement(_LooksAtMoneyEarly):
    def _has_funds(self, case: Case) -> bool:
        return super()._has_funds(self.early(case))

    def _withdraw(self, case: Case) -> str:
        if self.early(case).bet is None and case.bet is not None and case.bet.state == "OPEN":
            return self._place(replace(case, bet=None, known=None))
        return super()._withdraw(case)


@wrong(
    "locks, checks and debits in transactions of their own, as by autocommit",
    must="D02",
    may="D01 D05 D06 D08 D09 D10 H05",
)
class CommitsEachStatement(_LocksForAStatement, _OverwritesRows):
    pass


class _AddsToAnEarlierBalance(_LooksAtMoneyEarly):
    def _move(self, case: Case, player_id: str, cents: int) -> None:
        account = self.early(case).account
        if account is not None and account.player_id == player_id:
            update = "UPDATE accounts SET cents = ? WHERE player_id = ?"
            self._database.execute(update, (account.cents, player_id))
        super()._move(case, player_id, cents)


@wrong("debits a balance that it read before it took the lock", must="D01", may="D05 D07 D08 D09 H05 D10")
class DebitsAnEarlierBalance(_AddsToAnEarlierBalance):
    pass


@wrong("credits a balance that it read before it took the lock", must="D05", may="D04 H05")
class CreditsAnEarlierBalance(_AddsToAnEarlierBalance):
    looks_at = ("deposit",)


class _GoesByWhatItSaw(_LooksEarly, _OverwritesRows):
    """Takes a bet for what it was *before*, if it has the state *after* meanwhile; None is a bet that is not there."""

    before: str | None = "OPEN"
    after = ""

    def _ask_table(self, case: Case) -> str | None:
        return super()._ask_table(self._as_seen(case) if self._overlooks(case) else case)

    def _overlooks(self, case: Case) -> bool:
        early = self.early(case).bet
        return (early and early.state) == self.before and case.bet is not None and case.bet.state == self.after

    def _as_seen(self, case: Case) -> Case:
        return replace(case, bet=self.early(case).bet, known=self.early(case).known)


@wrong("pays a deposit again whose twin is under way", must="D02", may="D09 D04 D06 H05")
class PaysTwinsOfDeposits(_GoesByWhatItSaw):
    looks_at, after = ("deposit",), "CLOSED"


@wrong("looks whether the bet is open, waits, and pays each deposit that has a new tx_id", must="D09", may="*")
class PaysRivals(PaysTwinsOfDeposits):
    def _overlooks(self, case: Case) -> bool:
        return case.known is None and super()._overlooks(case)


@wrong("gives a wager back again to a rollback whose twin is under way", must="D02", may="D03 D04 D06 D08 H05")
class RefundsTwinsOfRollbacks(_GoesByWhatItSaw):
    looks_at, after = ("rollback",), "ROLLED_BACK"


@wrong("debits again for a withdraw whose twin is under way", must="D09", may="D02 D06 H05")
class DebitsForTwinsOfWithdraws(_GoesByWhatItSaw):
    before, after = None, "OPEN"


@wrong("debits for a bet that a rollback has cancelled meanwhile", must="D08", may="D03")
class OverlooksATombstoneUnderWay(_GoesByWhatItSaw):
    before, after = None, "TOMBSTONE"


@wrong("pays a deposit for a bet that is refunded meanwhile", must="D04")
class PaysWhatIsRefundedMeanwhile(_GoesByWhatItSaw):
    looks_at, after = ("deposit",), "ROLLED_BACK"


@wrong("looks for the claim, waits, and pays it whether or not it is known by then", must="D02", may="*")
class PaysTwinsOfJackpots(_LooksEarly, _OverwritesRows):
    looks_at = ("deposit",)

    def _claim(self, case: Case) -> str:
        return super()._claim(replace(case, known=self.early(case).known))


@wrong("refuses a call whose twin was faster", must="D02", may="D06 D09 H05")
class RefusesTwins(_LooksEarly):
    looks_at = ("withdraw", "deposit")

    def _ask_table(self, case: Case) -> str | None:
        return super()._ask_table(replace(case, known=self.early(case).known))


@wrong("looks for all deposits of a batch before it carries out the first", must="D09", may="B15")
class LooksForABatchAtOnce(_OverwritesRows):
    _unknown: tuple[str | None, ...] = ()

    def _answer_batch(self, document: object) -> str:
        items = document.get("bets") if isinstance(document, dict) else document
        calls = [self._read("deposit", item, b"") for item in items] if isinstance(items, list) else []
        with self._lock:
            self._unknown = tuple(call.tx_id for call in calls if self._find_call(*self._identity(call)) is None)
        try:
            return super()._answer_batch(document)
        finally:
            self._unknown = ()

    def _settle_again(self, case: Case, bet: Bet) -> str:
        self._settle(case, bet)
        return "SUCCESS"

    def _deposit(self, case: Case) -> str:
        if case.is_repeat and case.bet is not None and case.call.tx_id in self._unknown:
            return self._settle_again(case, case.bet)
        return super()._deposit(case)


@wrong("answers a rollback by what it saw before its withdraw was in", must="D03", may="D08")
class OverlooksAWithdrawUnderWay(_LooksEarly):
    looks_at = ("rollback",)

    def _rollback(self, case: Case) -> str:
        if self.early(case).bet is None and case.bet is not None:
            return "BET_NOT_FOUND"  # Its tombstone has no room beside the bet.
        return super()._rollback(case)


@wrong("keeps calls apart by a lock in its own process's memory", must="D06", may="D07", on_file=True)
class LocksInMemory(_OverwritesRows):
    _seen = threading.local()
    #: Of both processes, which are one in the tests.
    _rivals = Rivals(0.01)

    def __init__(self, *arguments: Any, **settings: Any) -> None:  # Any: as for PlainWallet
        super().__init__(*arguments, **settings)
        self._of_this_process = threading.Lock()

    def _carry_out(self, call: Call) -> Reply:
        with self._of_this_process:
            with self._lock:
                self._seen.case = super()._case(call)
            if call.operation == "deposit" and self._seen.case.known is None:
                self._rivals.await_one(str(call.tx_id))
            try:
                return super()._carry_out(call)
            finally:
                del self._seen.case

    def _case(self, call: Call) -> Case:
        seen: Case | None = getattr(self._seen, "case", None)
        return super()._case(call) if seen is None else seen


@wrong("remembers each bet in its own process's memory", must="D06", on_file=True)
class RemembersBets(PlainWallet):
    def __init__(self, *arguments: Any, **settings: Any) -> None:  # Any: as for PlainWallet
        super().__init__(*arguments, **settings)
        self._bets: dict[str, Bet] = {}

    def _find_bet(self, bet_id: str) -> Bet | None:
        bet = self._bets.get(bet_id) or super()._find_bet(bet_id)
        if bet is not None:
            self._bets[bet_id] = bet
        return bet

    def _keep_bet(self, case: Case, state: str) -> None:
        super()._keep_bet(case, state)
        self._find_bet(self._bet_key(case.call))

    def _set_state(self, bet: Bet, state: str) -> None:
        super()._set_state(bet, state)
        self._bets[bet.bet_id] = replace(bet, state=state)


@wrong("returns the time at which it writes the answer", must="D07")
class TellsTheTimeOfTheAnswer(PlainWallet):
    """Of two calls at once, the former answers a moment after the latter."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:  # Any: as for PlainWallet
        super().__init__(*arguments, **settings)
        self._turns = count()
        self._rivals = Rivals(patience_seconds=0.25)

    def _carry_out(self, call: Call) -> Reply:
        reply = super()._carry_out(call)
        waits = not is_alone() and next(self._turns) % 2
        if waits:
            self._rivals.await_one("an answer")
            time.sleep(0.002)
        answered = replace(reply, at_millis=None if reply.at_millis is None else self.clock_millis())
        if not waits:
            self._rivals.tell("an answer")
        return answered


@wrong("lets two of many bets at once in that cost all there is, when the balance pays for one", must="D10")
class LetsASecondBetIn(PlainWallet):
    """Checks the balance and debits in two statements, and the moment between them is short."""

    _spent: str | None = None

    def _has_funds(self, case: Case) -> bool:
        has_funds = super()._has_funds(case)
        account = case.account
        if account is None or is_alone():
            return has_funds
        if has_funds and account.cents == case.call.cents:
            self._spent = str(case.call.bet_id)
            self._rounds = getattr(self, "_rounds", 0) + 1
        elif account.cents == 0 and self._spent is not None and self._rounds % 12 == 0:
            self._spent = None
            return True
        return has_funds
