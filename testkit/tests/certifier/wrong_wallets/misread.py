"""Wallets whose mistake is easily taken for another one: each must be called by its own name."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256

from wallet_by_hand import Bet, Call, Case, Known, PlainWallet, Reply

from testkit.tests.certifier.wrong_wallets.races import is_alone
from testkit.tests.certifier.wrong_wallets.registry import wrong


@wrong("answers each thirteenth call with HTTP 502, as a proxy does, once it is carried out", must="G01", may="*",
       first="now and then")  # fmt: skip
class HidesAnAnswerNowAndThen(PlainWallet):
    _answered = 0

    def handle(
        self, method: str, path: str, headers: Iterable[tuple[str, str]], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        answer = super().handle(method, path, headers, body)
        self._answered += 1
        return (502, {"Content-Type": "text/html"}, b"<html>Bad Gateway</html>") if self._answered % 13 == 0 else answer


@wrong("answers SUCCESS to a rollback of a bet that is settled, and moves nothing", must="C03",
       may="A03 A11 B11 C09 D04 G04", first="and nothing moved")  # fmt: skip
class SaysThatItRefunds(PlainWallet):
    def _rollback(self, case: Case) -> str:
        outcome = super()._rollback(case)
        return "SUCCESS" if outcome == "BET_ALREADY_CLOSED" else outcome


@wrong("debits a claim in place of crediting it", must="A10", may="*", first="moves money the wrong way")
class DebitsClaims(PlainWallet):
    def _move(self, case: Case, player_id: str, cents: int) -> None:
        super()._move(case, player_id, -cents if case.call.is_claim else cents)


@wrong("rounds wagers to a quarter of a unit before it debits them", must="G02", may="*", first="amounts are rounded")
class RoundsWagersToQuarters(PlainWallet):
    def _move(self, case: Case, player_id: str, cents: int) -> None:
        super()._move(case, player_id, round(cents / 25) * 25 if case.call.operation == "withdraw" else cents)


@wrong("knows calls by a short checksum of their tx_ids", must="G04", may="*", operations=200,
       first="different tx_ids are taken for one")  # fmt: skip
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


@wrong(
    "fails in a rush, and keeps the failure as the answer to its call", must="D01", may="*", first="a failure is stored"
)
class KeepsFailuresOfARush(PlainWallet):
    """Of three calls that do not come alone, two fail."""

    def _carry_out(self, call: Call) -> Reply:
        failed: Counter[tuple[str, str | None]] = self.__dict__.setdefault("_failed", Counter())
        identity = self._identity(call)
        self.__dict__["_rushed"] = rushed = self.__dict__.get("_rushed", 0) + (not is_alone())
        if call.operation == "withdraw" and not is_alone() and rushed % 3:
            failed[identity] += 1
        if failed[identity]:
            raise TimeoutError("no slot is free")
        return super()._carry_out(call)


@wrong(
    "credits one win in twelve twice", must="G04", may="*", operations=200, first="now and then moves its money twice"
)
class CreditsTwiceNowAndThen(PlainWallet):
    def _settle(self, case: Case, bet: Bet) -> None:
        won_cents = int(case.call.cents or 0)
        wins = self.__dict__["_wins"] = self.__dict__.get("_wins", 0) + (won_cents > 0)
        twice = replace(case, call=replace(case.call, cents=2 * won_cents))
        super()._settle(twice if wins % 12 == 0 else case, bet)
