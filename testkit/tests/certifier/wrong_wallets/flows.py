"""Wallets that are wrong in what they do all day: group A."""

import json
from dataclasses import dataclass, replace

from wallet_by_hand import SUCCESS, Bet, Call, Case, InvalidRequestError, PlainWallet

from testkit.tests.certifier.wrong_wallets.registry import wrong


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


@wrong(
    "answers a batch in the order in which its deposits happened to end, under tx_ids in that of the request",
    must="A11",
)
class BatchAnswersMixedUp(PlainWallet):
    def _answer_batch(self, document: object) -> str:
        answers = json.loads(super()._answer_batch(document), parse_float=str)
        tx_ids = [answer.pop("tx_id") for answer in answers]
        # Those that moved nothing were the quickest.
        answers.sort(key=lambda answer: "code" not in answer)
        told = [{"tx_id": tx_id, **answer} for tx_id, answer in zip(tx_ids, answers, strict=True)]
        return json.dumps(told).replace('"balance": "', '"balance": ').replace('", "timestamp"', ', "timestamp"')
