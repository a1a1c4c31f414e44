"""Wallets whose mistake shows only where nobody looks: in a claim, a rain, a refusal, a letter beyond ASCII."""

import re
import threading
import time
from dataclasses import replace
from sqlite3 import IntegrityError
from typing import ClassVar

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from wallet_by_hand import Account, Bet, Call, Case, InvalidRequestError, PlainWallet, Reply

from testkit.tests.certifier.wrong_wallets.registry import Headers, is_alone, wrong


@wrong("pays what a jackpot says it won in place of its amount", must="F11")
class PaysWhatAJackpotWon(PlainWallet):
    def _read_amount(self, operation: str, action: str, document: dict[str, object]) -> int:
        names = ("action.won",) if action == "JACKPOT" and self._first(document, "action.won") is not ... else ()
        if not names:
            return super()._read_amount(operation, action, document)
        return int(str(self._first(document, *names)))


@wrong("refuses a rollback whose round_id is null", must="F11")
class NeedsARound(PlainWallet):
    def _check_shape(self, operation: str, document: dict[str, object]) -> None:
        super()._check_shape(operation, document)
        if document.get("round_id", "") is None:
            raise InvalidRequestError("round_id is a string")


@wrong("refuses the deposit of a declined bet with the code undefined", must="C06", may="B06 C09 G04")
class HasNoCodeForTheDeclined(PlainWallet):
    def _deposit(self, case: Case) -> str:
        outcome = super()._deposit(case)
        is_declined = case.bet is not None and case.bet.state == "DECLINED"
        return "undefined" if is_declined and outcome == "BET_NOT_FOUND" else outcome


@wrong("does not keep that a rain was cancelled before it came", must="C12")
class BuriesNoRain(PlainWallet):
    def _entomb(self, case: Case) -> None:
        if case.call.action != "RAIN":
            super()._entomb(case)


@wrong("gives a withdraw's tx_id to the unseen bet of a rollback that names it", must="C11", may="B04")
class TakesTheTxIdAway(PlainWallet):
    def _entomb(self, case: Case) -> None:
        super()._entomb(case)
        sql = "UPDATE calls SET content = '', held_for = ? WHERE operation = 'withdraw' AND tx_id = ?"
        self._database.execute(sql, (case.call.bet_id, case.call.tx_id))
        if self._find_call("rollback", case.call.tx_id) is None:
            self._remember(case.call)


@wrong("leaves the last balance in its refusals of wrong signatures", must="E03", may="E01 E02 E04 E06 F01")
class SharesOneAnswer(PlainWallet):
    _last_cents: int | None = None

    def _render(self, reply: Reply) -> str:
        if reply.outcome == "INVALID_SIGNATURE":
            return super()._render(Reply(reply.outcome, self._last_cents, reply.at_millis))
        self._last_cents = self._last_cents if reply.cents is None else reply.cents - 1
        return super()._render(reply)


@wrong("debits a wager above its limit, and answers LIMIT_EXCEEDED", must="A02", may="*")
class DebitsBeyondTheLimit(PlainWallet):
    code, most_cents = "LIMIT_EXCEEDED", 100

    def _place(self, case: Case) -> str:
        outcome = super()._place(case)
        return self.code if outcome == "SUCCESS" and case.call.cents > self.most_cents else outcome


@wrong("writes 0.09 as 0.9", must="G01", may="*")
class WritesCentsWithoutZero(PlainWallet):
    def _render_balance(self, cents: int) -> str:
        return f"{cents // 100}.{cents % 100}"


@wrong("verifies the signature over a body that it decoded as Latin-1", must="F07", may="F10")
class DecodesAsLatin1(PlainWallet):
    def _verifies(self, key: RSAPublicKey, signature: bytes, body: bytes) -> bool:
        return super()._verifies(key, signature, body.decode("latin-1").encode())


@wrong("answers SYSTEM_ERROR to a jackpot that it has paid", must="A10", may="*")
class FailsAfterAJackpot(PlainWallet):
    def _render(self, reply: Reply) -> str:
        if self.__dict__.pop("_was_jackpot", False):
            raise TypeError("Do not know how to serialize a BigInt")
        return super()._render(reply)

    def _carry_out(self, call: Call) -> Reply:
        reply = super()._carry_out(call)
        self.__dict__["_was_jackpot"] = call.action == "JACKPOT" and reply.outcome == "SUCCESS"
        return reply


@wrong("debits where the condition of its UPDATE holds, and never asks whether it did", must="A06", may="*")
class DebitsInVain(PlainWallet):
    def _has_funds(self, case: Case) -> bool:
        return True

    def _move(self, case: Case, player_id: str, cents: int) -> None:
        account = self._find_account(player_id)
        super()._move(case, player_id, 0 if account is not None and account.cents + cents < 0 else cents)


@wrong("strips what looks like an HTML tag from the ids of bets", must="F08")
class StripsTags(PlainWallet):
    def _optional_id(self, document: dict[str, object], longest: int, *names: str) -> str | None:
        found = super()._optional_id(document, longest, *names)
        return None if found is None else re.sub("<[^>]*>", "", found)


@wrong("keeps the answer to a call in a variable that all calls share, while it writes its log", must="D01", may="*")
class SharesTheAnswerOfEachCall(PlainWallet):
    _last: tuple[int, str] = (0, "")

    def _answer(self, path: str, headers: Headers, body: bytes) -> tuple[int, str]:
        self._last = super()._answer(path, headers, body)
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.002)
        return self._last


@wrong("refuses every call, once it has refused a body that it cannot read", must="F01", may="*")
class IsStuckAfterABadBody(PlainWallet):
    _is_stuck = False

    def _read(self, operation: str, document: object, body: bytes) -> Call:
        if self._is_stuck:
            raise InvalidRequestError("the queue was rejected")
        try:
            return super()._read(operation, document, body)
        except InvalidRequestError:
            self._is_stuck = True
            raise


@wrong("gives a refund some time after it has answered the rollback", must="A04", may="*")
class RefundsLater(PlainWallet):
    seconds = 0.02

    def _move_what_is_due(self) -> None:
        later: list[tuple[float, str, int]] = self.__dict__.setdefault("_later", [])
        with self._transaction():
            while later and later[0][0] < time.monotonic():
                _, player_id, cents = later.pop(0)
                self._database.execute("UPDATE accounts SET cents = cents + ? WHERE player_id = ?", (cents, player_id))

    def _answer(self, path: str, headers: Headers, body: bytes) -> tuple[int, str]:
        self._move_what_is_due()
        return super()._answer(path, headers, body)

    def balance_cents(self, player_id: str) -> int:
        self._move_what_is_due()
        return super().balance_cents(player_id)

    def _refund(self, case: Case, bet: Bet) -> None:
        self._remember(case.call)
        self._set_state(bet, "ROLLED_BACK")
        self.__dict__["_later"].append((time.monotonic() + self.seconds, bet.player_id, bet.cents))


@wrong(
    "keeps the operation of a call in a variable that all calls share, while it reads the body",
    must="D05",
    may="D03 D04 D07 D08 D09 D01 D02 H05 A08 C09 G03",
)
class SharesTheOperation(PlainWallet):
    _path = ""

    def _answer(self, path: str, headers: Headers, body: bytes) -> tuple[int, str]:
        self._path = path
        time.sleep(0.001)
        return super()._answer(self._path, headers, body)


@wrong("takes the bytes of a rain's withdraw for its rollback", must="E09")
class RefundsByTheBytesOfARain(PlainWallet):
    def _insert(self, table: str, *values: object) -> None:
        super()._insert(table, *((*values[:-1], "") if table == "bets" and "SPENT" in values else values))


@wrong("returns local time, an hour ahead of UTC", must="H04")
class TellsLocalTime(PlainWallet):
    def _render(self, reply: Reply) -> str:
        at_millis = None if reply.at_millis is None else reply.at_millis + 3_600_000
        return super()._render(replace(reply, at_millis=at_millis))


@wrong(
    "deletes a bet once it is settled",
    must="B01",
    may="B02 B05 B08 B10 B11 B12 B15 C04 C09 D02 D04 D06 D09 E07 G03 G04 H05 H06",
)
class DeletesSettledBets(PlainWallet):
    def _settle(self, case: Case, bet: Bet) -> None:
        super()._settle(case, bet)
        self._database.execute("DELETE FROM bets WHERE bet_id = ?", (bet.bet_id,))


@wrong("shows the balance of a bet's owner to another player", must="B04", may="B12 C10 C08")
class ShowsTheOwnersBalance(PlainWallet):
    def _reply(self, case: Case, outcome: str) -> Reply:
        reply = super()._reply(case, outcome)
        owner = None if case.bet is None else self._find_account(case.bet.player_id)
        return reply if owner is None or reply.cents is None else replace(reply, cents=owner.cents)


@wrong("takes a balance of 0 for no account", must="A06", may="*")
class ZeroIsNobody(PlainWallet):
    def _case(self, call: Call) -> Case:
        case = super()._case(call)
        return case if case.account is not None and case.account.cents else replace(case, account=None)


@wrong("refuses a call while another of its player is under way", must="D01", may="D02 D03 D05 D07 D08 D09 H05 D04 D06")
class RefusesWhileBusy(PlainWallet):
    """Lingers over each call, so that there are others."""

    code = "DUPLICATE_TRANSACTION"
    _busy: ClassVar[set[str]] = set()

    def _carry_out(self, call: Call) -> Reply:
        if call.player_id in self._busy:
            return Reply(self.code)
        self._busy.add(call.player_id)
        try:
            if not is_alone():
                time.sleep(0.002)
            return super()._carry_out(call)
        finally:
            self._busy.discard(call.player_id)


@wrong("limits a player to one call at a time", must="D03", may="D02 D04 D05 D06 D07 D08 D09 H05")
class LimitsWhileBusy(RefusesWhileBusy):
    code = "LIMIT_EXCEEDED"


@wrong("answers SUCCESS to a claim of an unknown player, and credits nobody", must="A07")
class CreditsNobody(PlainWallet):
    def _ask_player(self, case: Case) -> str | None:
        outcome = super()._ask_player(case)
        return "SUCCESS" if outcome is not None and case.call.is_claim else outcome

    def _reply(self, case: Case, outcome: str) -> Reply:
        reply = super()._reply(case, outcome)
        return reply if case.account is not None or outcome != "SUCCESS" else Reply(outcome, 0, case.now)


@wrong("fails where a claim is sent again, by a unique key", must="A10", may="B16 D02 E07 G04 H06 B11")
class ClaimsAgainViolateAKey(PlainWallet):
    def _claim(self, case: Case) -> str:
        if case.is_repeat:
            raise IntegrityError("UNIQUE constraint failed")
        return super()._claim(case)


@wrong("knows a claim by its bet and its type, and not by its tx_id", must="B16", may="B04")
class ClaimsKnownByTheirBet(PlainWallet):
    def _identity(self, call: Call) -> tuple[str, str | None]:
        return ("deposit", f"{call.action}:{call.bet_id}") if call.is_claim and call.bet_id else super()._identity(call)


@wrong("takes bodies of 8 KiB at most", must="A10", may="F09 F10")
class TakesEightKibibytes(PlainWallet):
    def longest_body(self, path: str) -> int:
        return 8_192


@wrong(
    "forgets that a bet was cancelled when it has refused its late withdraw", must="C02", may="C09 C11 C15 D03 H06 G04"
)
class RefusesALateWithdrawOnce(PlainWallet):
    def _withdraw(self, case: Case) -> str:
        outcome = super()._withdraw(case)
        if case.bet is not None and case.bet.state == "TOMBSTONE":
            self._database.execute("DELETE FROM bets WHERE bet_id = ?", (case.bet.bet_id,))
            self._database.execute("DELETE FROM calls WHERE tx_id = ?", (case.bet.tx_id,))
        return outcome


@wrong("ends all open bets of a player with the one that is settled or cancelled", must="A05", may="*")
class EndsAllBetsOfThePlayer(PlainWallet):
    def _set_state(self, bet: Bet, state: str) -> None:
        update = "UPDATE bets SET state = ? WHERE player_id = ? AND state IN ('OPEN', 'SPENT')"
        self._database.execute(update, (state, bet.player_id))


@wrong("keeps the lock of a player whose withdraw it refused for want of money", must="H06", may="*")
class LeavesALockBehind(PlainWallet):
    _locked: ClassVar[set[tuple[int, str]]] = set()

    def _carry_out(self, call: Call) -> Reply:
        if (id(self), call.player_id) in self._locked:
            raise TimeoutError("the player is locked")
        reply = super()._carry_out(call)
        if reply.outcome == "INSUFFICIENT_BALANCE":
            self._locked.add((id(self), call.player_id))
        return reply


@wrong("keeps balances in memory, each of two processes its own", must="A02", may="*")
class KeepsTwoMemories(PlainWallet):
    """Calls come to its processes by turns."""

    _asked = 0

    def _carry_out(self, call: Call) -> Reply:
        self._asked += 1
        return super()._carry_out(call)

    def _find_account(self, player_id: str) -> Account | None:
        account = super()._find_account(player_id)
        memory: dict[tuple[int, str], int] = self.__dict__.setdefault("_memory", {})
        if account is None:
            return None
        return replace(account, cents=memory.setdefault((self._asked % 2, player_id), account.cents))

    def _move(self, case: Case, player_id: str, cents: int) -> None:
        super()._move(case, player_id, cents)
        memory: dict[tuple[int, str], int] = self.__dict__["_memory"]
        memory[self._asked % 2, player_id] += cents


@wrong("answers balance checks without a signature", must="E01", may="E04 E12")
class ChecksNeedNoSignature(PlainWallet):
    def _answer(self, path: str, headers: Headers, body: bytes) -> tuple[int, str]:
        if path != "/player-balance":
            return super()._answer(path, headers, body)
        return 200, self._render(self._carry_out(self._read("player-balance", self._parse(body), body)))
