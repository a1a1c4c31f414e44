"""Wallets that change ids on their way, or make keys of them that are too wide or too narrow."""

import re
from dataclasses import replace
from secrets import token_hex

from wallet_by_hand import SUCCESS, Account, Bet, Call, Case, PlainWallet

from testkit.tests.certifier.wrong_wallets.registry import wrong


@wrong("compares ids as numbers", must="F12")
class IdsComparedAsNumbers(PlainWallet):
    """Changes ids before it looks for them."""

    def changed(self, value: str) -> str:
        if not re.fullmatch(r"[0-9]+(\.[0-9]+)?([eE][0-9]+)?", value):
            return value
        return str(float(value))

    def _case(self, call: Call) -> Case:
        bet_id, tx_id = (value and self.changed(value) for value in (call.bet_id, call.tx_id))
        return super()._case(replace(call, bet_id=bet_id, tx_id=tx_id))


@wrong("keeps bets in an object whose built-in members have names, too", must="F13")
class BetsInAnObject(PlainWallet):
    def _find_bet(self, bet_id: str) -> Bet | None:
        if bet_id in ("constructor", "__proto__", "toString", "hasOwnProperty"):
            raise TypeError("it is a function")
        return super()._find_bet(bet_id)


@wrong("looks for players by a pattern", must="A07")
class PlayersByPattern(PlainWallet):
    def _find_account(self, player_id: str) -> Account | None:
        row = self._database.execute("SELECT * FROM accounts WHERE player_id LIKE ?", (player_id,)).fetchone()
        return Account(*row) if row else None


@wrong("reads ids out of the body's text, and so not their escapes", must="B15", may="F07 F08")
class ReadsIdsFromTheText(PlainWallet):
    def _parse(self, body: bytes) -> object:
        document = super()._parse(body)
        for name in ("action_id", "tx_id"):
            found = re.search(rb'"%b":"([^"]*)"' % name.encode(), body)
            if isinstance(document, dict) and isinstance(document.get(name), str) and found:
                document[name] = found[1].decode()
        return document


@wrong("keeps ids of at most 64 characters, and fails where they are longer", must="F07")
class NarrowColumns(PlainWallet):
    def _keep_bet(self, case: Case, state: str) -> None:
        if len(self._bet_key(case.call)) > 64:
            raise ValueError("value too long for type character varying(64)")
        super()._keep_bet(case, state)


@wrong("makes a random tx_id where a call has none", must="B05", may="B16")
class RandomTxIds(PlainWallet):
    def _derived_tx_id(self, call: Call, bet: Bet | None) -> str:
        if call.operation == "rollback":
            return super()._derived_tx_id(call, bet)
        return token_hex()


@wrong("makes one key of the ids of bet and call, joined to a text", must="B17", may="B13 C02 C11")
class JoinsIds(PlainWallet):
    def _identity(self, call: Call) -> tuple[str, str | None]:
        return call.operation, f"{call.bet_id}{call.tx_id}" if call.operation == "withdraw" else call.tx_id

    def _entomb(self, case: Case) -> None:
        call = case.call
        self._remember(call)
        self._insert(
            "calls", "withdraw", self._identity(replace(call, operation="withdraw"))[1], "", self._bet_key(call)
        )
        self._insert("bets", self._bet_key(call), call.player_id, call.tx_id, 0, "TOMBSTONE", None, None)


@wrong("knows a claim's tx_id again only if it is of the same type", must="B04")
class ClaimsKnownByType(PlainWallet):
    def _identity(self, call: Call) -> tuple[str, str | None]:
        return (f"deposit {call.action}", call.tx_id) if call.is_claim else super()._identity(call)


@wrong("has one key for all that credits, so that a deposit must not carry its withdraw's tx_id", must="B05")
class CreditsShareTheKeyOfDebits(PlainWallet):
    def _ask_identity(self, case: Case) -> str | None:
        is_deposit = case.call.operation == "deposit" and not case.call.is_claim
        if is_deposit and case.bet is not None and case.bet.tx_id == case.call.tx_id:
            return "DUPLICATE_TRANSACTION"
        return super()._ask_identity(case)


@wrong("takes the same bet of another player for another bet", must="B12")
class BetsKeyedByPlayer(PlainWallet):
    def _withdraw(self, case: Case) -> str:
        bet, call = case.bet, case.call
        if bet is not None and bet.player_id != call.player_id and not case.is_repeat and bet.state == "OPEN":
            self._move(case, call.player_id, -call.cents)
            self._remember(call)
            return SUCCESS
        return super()._withdraw(case)
