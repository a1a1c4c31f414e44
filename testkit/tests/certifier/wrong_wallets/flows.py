"""Wallets that are wrong in what they do all day: group A."""

import json
from dataclasses import dataclass, replace

from wallet_by_hand import SUCCESS, Account, Bet, Call, Case, InvalidRequestError, PlainWallet

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


@wrong("requires more money than the wager: > instead of >=", must="A06", may="B03 G01 G03 D10")
class KeepsTheLastCent(PlainWallet):
    """Nobody can bet all they have."""

    def _has_funds(self, case: Case) -> bool:
        return case.account is not None and case.account.cents > int(case.call.cents or 0)


@wrong("keeps the money of all players in one account, as in a variable of the module", must="A02", may="*")
class OneBalanceForAll(PlainWallet):
    def _find_account(self, player_id: str) -> Account | None:
        return super()._find_account("player-1" if player_id == "player-2" else player_id)

    def _move(self, case: Case, player_id: str, cents: int) -> None:
        super()._move(case, "player-1" if player_id == "player-2" else player_id, cents)


@wrong("opens an account for an unknown player", must="A07")
class OpensAccounts(PlainWallet):
    """Any id becomes a player, with nothing in its account."""

    def _case(self, call: Call) -> Case:
        if self._find_account(call.player_id) is None:
            self._insert("accounts", call.player_id, 0, 0, 0)
        return super()._case(call)


@wrong("answers a deposit of 0 and does not close the bet: there is nothing to credit", must="A03", may="G04 B11")
class LossIgnored(PlainWallet):
    def _deposit(self, case: Case) -> str:
        return super()._deposit(case) if case.call.cents else SUCCESS


@wrong("refuses a deposit of 0: an amount must be positive", must="A03", may="A08 A11 D05 G03 G04 B11")
class LossRefused(PlainWallet):
    def _read_amount(self, operation: str, action: str, document: dict[str, object]) -> int:
        cents = super()._read_amount(operation, action, document)
        if not cents:
            raise InvalidRequestError("an amount of nothing")
        return cents


@wrong(
    "marks a bet as rolled back and gives nothing back",
    must="A04",
    may="*",
)
class NothingRefunded(PlainWallet):
    def _refund_cents(self, call: Call, bet: Bet) -> int:
        return 0


@dataclass(frozen=True)
class _CallOfRound(Call):
    round_id: str = ""


@wrong("treats the second deposit of a round as a repeat of the first", must="A05", may="B04 B13 B15")
class OneDepositPerRound(PlainWallet):
    def _read(self, operation: str, document: object, body: bytes) -> Call:
        call = super()._read(operation, document, body)
        round_id = self._first(document, "round_id", "action.round_id") if isinstance(document, dict) else ...
        return _CallOfRound(**vars(call), round_id=round_id) if isinstance(round_id, str) else call

    def _identity(self, call: Call) -> tuple[str, str | None]:
        if isinstance(call, _CallOfRound) and call.operation == "deposit" and not call.is_claim:
            return call.operation, call.round_id
        return super()._identity(call)


@wrong(
    "pays the player of the last bet, whom it keeps in a variable between requests", must="A08", may="A11 D05 G04 H06"
)
class PaysWhoBetLast(PlainWallet):
    _player_id = ""

    def _place(self, case: Case) -> str:
        self._player_id = case.call.player_id
        return super()._place(case)

    def _credited(self, call: Call, bet: Bet) -> str:
        return self._player_id


@wrong("refuses every call of a blocked player, credits and refunds too", must="A09")
class BlockedAreNotPaid(PlainWallet):
    def _deposit(self, case: Case) -> str:
        return super()._deposit(case) if self._may_bet(case) else "PLAYER_BLOCKED"

    def _rollback(self, case: Case) -> str:
        return super()._rollback(case) if self._may_bet(case) else "PLAYER_BLOCKED"


@wrong(
    "looks for the bet of every deposit, but free bets and jackpots have none",
    must="A10",
    may="A09 B04 B11 D02 E07 F11 G03 G04 H06",
)
class ClaimsNeedABet(PlainWallet):
    def _claim(self, case: Case) -> str:
        return "BET_NOT_FOUND" if self._find_bet(self._bet_key(case.call)) is None else super()._claim(case)


@wrong("credits a claim's amount, and also the win of each of its free bets", must="A10", may="F11")
class FreeBetsPaidTwice(PlainWallet):
    def _read(self, operation: str, document: object, body: bytes) -> Call:
        call = super()._read(operation, document, body)
        bets = self._first(document, "action.bets") if isinstance(document, dict) else ...
        won = sum(int(bet["won"]) for bet in bets) if isinstance(bets, list) else 0
        return replace(call, cents=call.cents + won)


@wrong("pays one jackpot of each pool, its jackpot_id being the key", must="A10")
class OneJackpotPerPool(PlainWallet):
    def _read(self, operation: str, document: object, body: bytes) -> Call:
        call = super()._read(operation, document, body)
        pool = self._first(document, "action.jackpot_id") if isinstance(document, dict) else ...
        return replace(call, tx_id=pool) if isinstance(pool, str) else call


@wrong("refuses what comes in a batch after a deposit that it refused", must="A11")
class FirstRefusalEndsTheBatch(PlainWallet):
    _refused: str | None = None

    def _answer_batch(self, document: object) -> str:
        self._refused = None
        return super()._answer_batch(document)

    def _answer_item(self, item: object) -> str | None:
        if self._refused is not None and isinstance(item, dict):
            return f'{{"tx_id":{json.dumps(item.get("tx_id"))},{self._refused}'
        answer = super()._answer_item(item)
        if answer is not None and '"ERROR"' in answer:
            self._refused = answer.partition(",")[2]
        return answer
