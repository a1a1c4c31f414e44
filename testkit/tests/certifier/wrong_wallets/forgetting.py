"""Wallets that forget: after some seconds, or once enough other calls have come."""

from random import Random
from typing import Any

from wallet_by_hand import SUCCESS, Bet, Call, Case, Known, PlainWallet

from testkit.tests.certifier.wrong_wallets.registry import Answered, wrong


class _Forgets(PlainWallet):
    """Forgets what is *older* than so many calls; for a quick caller that is some seconds."""

    older = 150
    _calls = 0

    def handle(self, *request: Any) -> Answered:
        self._calls += 1
        return super().handle(*request)

    def _seen(self) -> dict[str, int]:
        seen: dict[str, int] = self.__dict__.setdefault("_first_seen", {})
        return seen

    def is_old(self, name: str | None) -> bool:
        """Whether it was looked for first so many calls ago."""
        return self._calls - self._seen().setdefault(str(name), self._calls) > self.older


@wrong("forgets the claims that it paid after some seconds", must="H06", may="G04", operations=400)
class ForgetsClaims(_Forgets):
    def _find_call(self, operation: str, tx_id: str | None) -> Known | None:
        is_old, known = self.is_old(tx_id), super()._find_call(operation, tx_id)
        if known is None or '"JACKPOT"' not in known.content or not is_old:
            return known
        for table in ("calls", "postings"):
            self._database.execute(f"DELETE FROM {table} WHERE (operation, tx_id) = (?, ?)", (operation, tx_id))
        self._seen().pop(str(tx_id))
        return None


class _ForgetsBets(_Forgets):
    states: tuple[str, ...] = ()

    def _find_bet(self, bet_id: str) -> Bet | None:
        is_old, bet = self.is_old(bet_id), super()._find_bet(bet_id)
        if bet is None or bet.state not in self.states or not is_old:
            return bet
        self._database.execute("DELETE FROM bets WHERE bet_id = ?", (bet_id,))
        self._database.execute("DELETE FROM calls WHERE tx_id = ?", (bet.tx_id,))
        self._database.execute("DELETE FROM postings WHERE tx_id = ?", (bet.tx_id,))
        return None


@wrong("keeps a tombstone for some seconds", must="H06", operations=400)
class ForgetsTombstones(_ForgetsBets):
    states = ("TOMBSTONE",)


@wrong("keeps an open bet for some seconds", must="H06", operations=400, may="G04")
class ForgetsOpenBets(_ForgetsBets):
    states = ("OPEN",)


@wrong("keeps a tombstone of the bet, and none of its withdraw's tx_id", must="C02", may="C11")
class TombstonesHoldNoTxId(PlainWallet):
    def _entomb(self, case: Case) -> None:
        call = case.call
        self._remember(call)
        self._insert("bets", self._bet_key(call), call.player_id, call.tx_id, 0, "TOMBSTONE", None, None)


@wrong("answers SUCCESS to a withdraw that is repeated after its rollback", must="C15", may="B12 C09 G04 H06")
class RepeatsAfterTheRollback(PlainWallet):
    def _withdraw(self, case: Case) -> str:
        if case.bet is not None and case.bet.state == "ROLLED_BACK" and case.is_repeat:
            return SUCCESS
        return super()._withdraw(case)


@wrong("does not keep the record of one movement in 25, drawn by chance", must="G04", may="*", operations=400)
class LosesRecordsByChance(PlainWallet):
    def _remember(self, call: Call) -> None:
        chance: Random = self.__dict__.setdefault("_chance", Random(25))
        if chance.random() > 1 / 25:
            super()._remember(call)
