"""Wallets whose mistake is easily taken for another one: each must be called by its own name."""

from collections import Counter
from dataclasses import replace
from hashlib import sha256
from typing import Any

from wallet_by_hand import SUCCESS, Bet, Call, Case, Known, PlainWallet, Reply

from testkit.tests.certifier.wrong_wallets.registry import BAD_GATEWAY, Answered, Counting, is_alone, wrong


@wrong("answers each thirteenth call with HTTP 502, as a proxy does, once it is carried out", must="G01", may="*")
class HidesAnAnswerNowAndThen(Counting):
    def handle(self, *request: Any) -> Answered:
        answer = super().handle(*request)
        return BAD_GATEWAY if self.is_unlucky(13) else answer


@wrong("debits a claim in place of crediting it", must="A10", may="*")
class DebitsClaims(PlainWallet):
    def _move(self, case: Case, player_id: str, cents: int) -> None:
        super()._move(case, player_id, -cents if case.call.is_claim else cents)


@wrong("rounds wagers to a quarter of a unit before it debits them", must="G02", may="*")
class RoundsWagersToQuarters(PlainWallet):
    def _move(self, case: Case, player_id: str, cents: int) -> None:
        super()._move(case, player_id, round(cents / 25) * 25 if case.call.operation == "withdraw" else cents)


@wrong("knows calls by a short checksum of their tx_ids", must="G04", may="*", operations=200)
class KnowsCallsByAChecksum(PlainWallet):
    def _find_call(self, operation: str, tx_id: str | None) -> Known | None:
        known = super()._find_call(operation, tx_id)
        sums: dict[tuple[str, int], Known] = self.__dict__.setdefault("_sums", {})
        return known or sums.get((operation, _checksum(tx_id)))

    def _remember(self, call: Call) -> None:
        super()._remember(call)
        sums: dict[tuple[str, int], Known] = self.__dict__.setdefault("_sums", {})
        sums.setdefault((call.operation, _checksum(call.tx_id)), Known(self._content(call), None))


def _checksum(tx_id: str | None) -> int:
    return int(sha256(str(tx_id).encode()).hexdigest(), 16) % 700


@wrong("fails in a rush, and keeps the failure as the answer to its call", must="D01", may="*")
class KeepsFailuresOfARush(Counting):
    """Of three calls that do not come alone, two fail."""

    def _carry_out(self, call: Call) -> Reply:
        failed: Counter[tuple[str, str | None]] = self.__dict__.setdefault("_failed", Counter())
        identity = self._identity(call)
        if call.operation == "withdraw" and not is_alone() and not self.is_unlucky(3):
            failed[identity] += 1
        if failed[identity]:
            raise TimeoutError("no slot is free")
        return super()._carry_out(call)


@wrong("credits one win in twelve twice", must="G04", may="*", operations=200)
class CreditsTwiceNowAndThen(Counting):
    def _settle(self, case: Case, bet: Bet) -> None:
        if case.call.cents and self.is_unlucky(12):
            case = replace(case, call=replace(case.call, cents=2 * case.call.cents))
        super()._settle(case, bet)


_HOUR_MILLIS = 3_600_000
_MOST_CENTS = 2**31 - 1


@wrong("debits every sixth withdraw among others once more", must="D01", may="*")
class DebitsSomeMoreAmongOthers(Counting):
    def _debit(self, case: Case) -> None:
        super()._debit(case)
        if not is_alone() and self.is_unlucky(6):
            update = "UPDATE accounts SET cents = cents - ? WHERE player_id = ?"
            self._database.execute(update, (case.call.cents, case.call.player_id))


@wrong("dates refusals five hours back, as a local time", must="A06", may="*")
class DatesRefusalsInLocalTime(PlainWallet):
    def _reply(self, case: Case, outcome: str) -> Reply:
        reply = super()._reply(case, outcome)
        is_dated = outcome != SUCCESS and reply.at_millis is not None
        return replace(reply, at_millis=(reply.at_millis or 0) - 5 * _HOUR_MILLIS) if is_dated else reply


@wrong("takes a wager that it has refused with the player's next movement", must="B06", may="*")
class TakesRefusedWagersLater(PlainWallet):
    _left_over: tuple[str, int] | None = None

    def _carry_out(self, call: Call) -> Reply:
        left_over = self._left_over
        if left_over is not None and call.operation != "player-balance":
            self._left_over = None
            update = "UPDATE accounts SET cents = cents - ? WHERE player_id = ?"
            with self._lock:
                self._database.execute(update, (left_over[1], left_over[0]))
        return super()._carry_out(call)

    def _place(self, case: Case) -> str:
        code = super()._place(case)
        if code == "INSUFFICIENT_BALANCE":
            self._left_over = case.call.player_id, case.call.cents
        return code


@wrong("answers SUCCESS to a credit of more than 32 bits of cents, and rolls it back", must="G03")
class LosesLargeCredits(PlainWallet):
    def _reply(self, case: Case, outcome: str) -> Reply:
        reply = super()._reply(case, outcome)
        if outcome == SUCCESS and case.call.operation == "deposit" and case.call.cents > _MOST_CENTS:
            self._database.execute("ROLLBACK")
            self._database.execute("BEGIN IMMEDIATE")
        return reply


@wrong("finds no player whose account another call has locked", must="D05", may="*")
class SkipsLockedPlayers(Counting):
    def _carry_out(self, call: Call) -> Reply:
        is_missed = not is_alone() and self.is_unlucky(5)
        return Reply("PLAYER_NOT_FOUND") if is_missed else super()._carry_out(call)


@wrong("refuses some signatures among others, as by one verifier for all threads", must="D05", may="*")
class SharesItsVerifier(Counting):
    def _is_authentic(self, headers: list[tuple[str, str]], body: bytes) -> bool:
        return super()._is_authentic(headers, body) and (is_alone() or not self.is_unlucky(5))


@wrong(
    "answers SUCCESS to a rollback of a bet that is settled, and moves nothing",
    must="C03",
    may="A03 A11 B11 C09 D04 G04",
)
class SaysThatItRefunds(PlainWallet):
    def _rollback(self, case: Case) -> str:
        outcome = super()._rollback(case)
        return "SUCCESS" if outcome == "BET_ALREADY_CLOSED" else outcome
