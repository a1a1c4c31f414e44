"""Wallets that are wrong in what every wallet does all day."""

from wallet_by_hand import Call, Case, PlainWallet

from testkit.tests.certifier.wrong_wallets.registry import wrong


@wrong("returns the time in seconds", must="A01")
class TellsSeconds(PlainWallet):
    """The specification has milliseconds (spec §2.1)."""

    def _time_of_read(self, now: int, last_millis: int) -> int:
        return max(now, last_millis) // 1_000


@wrong("pays at most twice the wager, a limit of another game", must="A02", may="B06 C09 D04 G02 G03 G04 G05 H06")
class CapsWins(PlainWallet):
    """What a game pays is the game's; a wallet credits the amount."""

    def _move(self, case: Case, player_id: str, cents: int) -> None:
        call = case.call
        if call.operation == "deposit" and not call.is_claim and case.bet is not None:
            cents = min(cents, 2 * int(case.bet.cents or 0))
        super()._move(case, player_id, cents)


@wrong(
    "requires more money than the wager: > instead of >=",
    must="A06",
    may="B03 G01 G03 D10",
    first="exactly the balance",
)
class KeepsTheLastCent(PlainWallet):
    """Nobody can bet all they have."""

    def _has_funds(self, case: Case) -> bool:
        return case.account is not None and case.account.cents > int(case.call.cents or 0)


@wrong("opens an account for an unknown player", must="A07")
class OpensAccounts(PlainWallet):
    """Any id becomes a player, with nothing in its account."""

    def _case(self, call: Call) -> Case:
        if self._find_account(call.player_id) is None:
            self._insert("accounts", call.player_id, 0, 0, 0)
        return super()._case(call)
