"""Wallets that stumble over order and state: calls that come late, early, or for somebody else's bet."""

from dataclasses import replace

from wallet_by_hand import SUCCESS, Bet, Call, Case, InvalidRequestError, Number, PlainWallet

from testkit.tests.certifier.wrong_wallets.registry import wrong


class ReadsTheAmountOfRollbacks(PlainWallet):
    """Not wrong by itself: a rollback's amount is there to be taken for what is due."""

    def _read(self, operation: str, document: object, body: bytes) -> Call:
        call = super()._read(operation, document, body)
        amount = document.get("amount") if isinstance(document, dict) and operation == "rollback" else None
        return replace(call, cents=int(amount)) if isinstance(amount, Number) and amount.isdigit() else call


@wrong(
    "refunds bets that it never saw, by the amount in the rollback",
    must="C01",
    may="B11 B13 C02 C09 C11 C12 D03 D08 H06",
)
class RefundsTheUnseen(ReadsTheAmountOfRollbacks):
    def _rollback(self, case: Case) -> str:
        if case.bet is not None:
            return super()._rollback(case)
        self._entomb(case)
        self._move(case, case.call.player_id, case.call.cents)
        return SUCCESS


@wrong("keeps no tombstone of a rollback that comes first", must="C02", may="B11 C09 C12 C14 D03 D08 H06")
class ForgetsEarlyRollbacks(PlainWallet):
    def _entomb(self, case: Case) -> None:
        """The bet is not there, so there is nothing to do."""


@wrong("refunds a bet that has been settled", must="C03", may="A11 A03 C09 D04 D06 G04 B11")
class RefundsTheSettled(PlainWallet):
    def _rollback(self, case: Case) -> str:
        bet = case.bet
        if bet is None or bet.state != "CLOSED" or case.is_repeat or not self._agrees(case.call, bet):
            return super()._rollback(case)
        self._refund(case, bet)
        return SUCCESS


@wrong("pays a bet that has been refunded", must="C04", may="C09 D04 D06 G04")
class PaysTheRefunded(PlainWallet):
    def _deposit(self, case: Case) -> str:
        bet = case.bet
        if bet is None or bet.state != "ROLLED_BACK" or case.is_repeat or not self._names_its_player(case.call, bet):
            return super()._deposit(case)
        self._settle(case, bet)
        return SUCCESS


@wrong("remembers the tx_id of each deposit whose bet it did not find", must="C05", may="*")
class RemembersRefusedDeposits(PlainWallet):
    def _deposit(self, case: Case) -> str:
        outcome = super()._deposit(case)
        if outcome == "BET_NOT_FOUND" and case.known is None:
            self._remember(case.call)
        return outcome


@wrong("pays deposits of bets that it never saw", must="C05", may="A11 C09")
class PaysTheUnseen(PlainWallet):
    def _deposit(self, case: Case) -> str:
        return self._claim(case) if case.bet is None else super()._deposit(case)


@wrong("refunds a withdraw that it refused for funds", must="C06")
class RefundsTheDeclined(PlainWallet):
    def _rollback(self, case: Case) -> str:
        bet = case.bet
        if bet is None or bet.state != "DECLINED" or not self._agrees(case.call, bet):
            return super()._rollback(case)
        self._refund(case, bet)
        return SUCCESS


@wrong("refunds the amount in the rollback, not the amount that was taken", must="C07", may="F11")
class RefundsTheRequestedAmount(ReadsTheAmountOfRollbacks):
    def _refund_cents(self, call: Call, bet: Bet) -> int:
        return call.cents


@wrong("lets any player cancel a bet, which is refunded to its own", must="C08")
class LetsAnybodyCancel(PlainWallet):
    def _names_its_player(self, call: Call, bet: Bet) -> bool:
        return call.operation == "rollback" or super()._names_its_player(call, bet)


@wrong("takes a repeated withdraw for a new bet once the first was refunded", must="C15", may="C09 G04 B12 H06")
class PlacesTheRefundedAgain(PlainWallet):
    def _withdraw(self, case: Case) -> str:
        bet, call = case.bet, case.call
        if bet is None or bet.state != "ROLLED_BACK":
            return super()._withdraw(case)
        # The rollback "undid" the first one, so that nothing of it stands in the way.
        self._database.execute("DELETE FROM postings WHERE tx_id = ?", (call.tx_id,))
        self._move(case, call.player_id, -call.cents)
        self._set_state(bet, "OPEN")
        return SUCCESS


@wrong("keeps no tombstone of a bet whose deposit came before the rollback", must="C09")
class EarlyDepositsKeepTombstonesAway(PlainWallet):
    def _deposit(self, case: Case) -> str:
        if case.bet is None:
            self.__dict__.setdefault("_early", set()).add(case.call.bet_id)
        return super()._deposit(case)

    def _entomb(self, case: Case) -> None:
        if case.call.bet_id not in self.__dict__.get("_early", ()):
            super()._entomb(case)


@wrong("pays a win to the player whom the deposit names", must="C10")
class PaysWhoeverIsNamed(PlainWallet):
    def _names_its_player(self, call: Call, bet: Bet) -> bool:
        return call.operation == "deposit" or super()._names_its_player(call, bet)

    def _credited(self, call: Call, bet: Bet) -> str:
        return call.player_id


@wrong("refunds a bet for a rollback that names any withdraw", must="C11")
class RefundsForAnyWithdraw(PlainWallet):
    def _agrees(self, call: Call, bet: Bet) -> bool:
        return self._names_its_player(call, bet)


@wrong("settles wagers that cannot win", must="C12")
class SettlesTheSpent(PlainWallet):
    def _keep_bet(self, case: Case, state: str) -> None:
        super()._keep_bet(case, "OPEN")


@wrong("knows no action but BET", must="C12", may="E09")
class KnowsBetsAlone(PlainWallet):
    def _read_action(self, operation: str, document: dict[str, object]) -> str:
        action = super()._read_action(operation, document)
        if action == "RAIN":
            raise InvalidRequestError("an unknown action")
        return action


@wrong("debits a withdraw that it refused while the player was blocked", must="C13")
class ForgetsRefusalsToTheBlocked(PlainWallet):
    def _decline(self, case: Case, code: str) -> None:
        if code != "PLAYER_BLOCKED":
            super()._decline(case, code)


@wrong("checks the player before it stores a tombstone", must="C14")
class KeepsNoTombstoneOfStrangers(PlainWallet):
    def _entomb(self, case: Case) -> None:
        if case.account is not None:
            super()._entomb(case)
