"""Wallets that say something else than they do, or pay something else than they are told."""

import json
import time
from dataclasses import replace

from wallet_by_hand import Account, Call, Case, InvalidRequestError, Number, PlainWallet, Reply

from testkit.tests.certifier.wrong_wallets.registry import Counting, wrong


@wrong("writes the text of an exception into its answers", must="F01", may="*")
class TellsExceptions(PlainWallet):
    def _render(self, reply: Reply) -> str:
        text = super()._render(reply)
        if reply.outcome != "INVALID_REQUEST":
            return text
        message = "SyntaxError: Unexpected token } in JSON at position 12"
        return f'{text[:-1]},"message":{json.dumps(message)}}}'


@wrong("leaves a balance of 0 out of its answers, as one that is not known", must="A06", may="*")
class NothingIsUnknown(PlainWallet):
    def _render(self, reply: Reply) -> str:
        return super()._render(reply if reply.cents else replace(reply, cents=None, at_millis=None))


@wrong("answers player-balance from a replica that is behind", must="A02", may="*")
class ReadsFromAReplica(PlainWallet):
    """Answers player-balance from a copy of the accounts."""

    seconds = 0.02

    def _told_cents(self, case: Case, account: Account) -> int:
        copies: dict[str, list[tuple[float, int]]] = self.__dict__.setdefault("_copies", {})
        known = copies.setdefault(account.player_id, [(float("-inf"), account.cents)])
        if known[-1][1] != account.cents:
            known.append((time.monotonic(), account.cents))
        if case.call.operation != "player-balance":
            return account.cents
        return [cents for at, cents in known if time.monotonic() - at >= self.seconds][-1]


@wrong("returns balances in whole units", must="A02", may="*")
class RoundsToUnits(PlainWallet):
    def _render_balance(self, cents: int) -> str:
        return f"{round(cents / 100)}"


@wrong("writes a balance as the float that it computes", must="G01", may="*")
class RendersFloats(PlainWallet):
    def _render_balance(self, cents: int) -> str:
        return repr(cents * 0.01)


@wrong("pays the wager in place of the amount", must="A02", may="*")
class PaysTheWager(PlainWallet):
    def _read_amount(self, operation: str, action: str, document: dict[str, object]) -> int:
        cents = super()._read_amount(operation, action, document)
        wager = self._first(document, "action.wager") if operation == "deposit" else ...
        return int(wager) if isinstance(wager, Number) and cents else cents


@wrong("keeps replies under player and amount, and answers the next such bet with them", must="B03", may="*")
class RepliesByPlayerAndAmount(PlainWallet):
    def _carry_out(self, call: Call) -> Reply:
        if call.operation != "withdraw":
            return super()._carry_out(call)
        kept: dict[tuple[str, int], Reply] = self.__dict__.setdefault("_kept_replies", {})
        key = call.player_id, call.cents
        if key not in kept:
            kept[key] = super()._carry_out(call)
            time.sleep(0.02)  # A timestamp of the same moment could be that of the next call.
        return kept[key]


@wrong("keeps the record of a call whose transaction it rolled back", must="G04", may="*", operations=400)
class KeepsTheRecordOfAFailure(Counting):
    def _carry_out(self, call: Call) -> Reply:
        if call.operation == "deposit" and not call.is_claim:
            with self._lock:
                case = self._case(call)
                is_new = case.bet is not None and case.bet.state == "OPEN" and case.known is None and call.cents
                if is_new and self.is_unlucky(23):
                    self._remember(case.call)
                    raise ConnectionError("the database is busy")
        return super()._carry_out(call)


@wrong("refuses members that it does not know", must="B15")
class RefusesNewMembers(PlainWallet):
    def _check_shape(self, operation: str, document: dict[str, object]) -> None:
        super()._check_shape(operation, document)
        if "added_later" in document:
            raise InvalidRequestError("an unknown member")


@wrong("has a schema that does not have the game", must="A02", may="*")
class RefusesTheGame(PlainWallet):
    def _check_shape(self, operation: str, document: dict[str, object]) -> None:
        super()._check_shape(operation, document)
        if "game" in document:
            raise InvalidRequestError("an unknown member")


@wrong("takes the cents of a call for currency units", must="A02", may="*")
class ReadsCentsAsUnits(PlainWallet):
    def _read_amount(self, operation: str, action: str, document: dict[str, object]) -> int:
        return 100 * super()._read_amount(operation, action, document)


@wrong("divides the cents of a call by 100", must="A02", may="*")
class ReadsHundredths(PlainWallet):
    def _read_amount(self, operation: str, action: str, document: dict[str, object]) -> int:
        return super()._read_amount(operation, action, document) // 100
