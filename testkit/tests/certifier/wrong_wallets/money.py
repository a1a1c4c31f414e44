"""Wallets that lose cents, or digits, or calls that are long ago."""

import struct
from dataclasses import replace

from wallet_by_hand import Call, Case, PlainWallet

from testkit.tests.certifier.wrong_wallets.registry import wrong


@wrong("adds and subtracts units in floats, and drops fractions of a cent", must="G01", may="D01 G02 G03 G04 G05")
class CountsInFloats(PlainWallet):
    def _move(self, case: Case, player_id: str, cents: int) -> None:
        account = self._find_account(player_id)
        held = account.cents if account is not None else 0
        units = held / 100 + cents / 100
        super()._move(case, player_id, int(units * 100) - held)


@wrong("turns amounts into units and back by floats: 1.15 becomes 1.14", must="G02", may="G03 G04 G05")
class CutsAmounts(PlainWallet):
    def _read_amount(self, operation: str, action: str, document: dict[str, object]) -> int:
        units = super()._read_amount(operation, action, document) / 100
        return int(units * 100)


@wrong("returns balances through a float of 32 bits", must="G03")
class TellsSevenDigits(PlainWallet):
    def _render_balance(self, cents: int) -> str:
        (units,) = struct.unpack("f", struct.pack("f", cents / 100))
        return f"{units:.2f}"


@wrong("keeps cents in 32 bits", must="G03")
class KeepsThirtyTwoBits(PlainWallet):
    def _move(self, case: Case, player_id: str, cents: int) -> None:
        account = self._find_account(player_id)
        # Raises struct.error, as a database does: integer out of range.
        struct.pack("i", (account.cents if account is not None else 0) + cents)
        super()._move(case, player_id, cents)


@wrong("books what is above 32 bits as the most that 32 bits hold", must="G03")
class ClampsAmounts(PlainWallet):
    def _read_amount(self, operation: str, action: str, document: dict[str, object]) -> int:
        return min(super()._read_amount(operation, action, document), 2**31 - 1)


@wrong("keeps the low 32 bits of a deposit, and compares a repeat with them", must="G03")
class RemembersThirtyTwoBits(PlainWallet):
    def _remember(self, call: Call) -> None:
        super()._remember(replace(call, cents=call.cents % 2**31) if call.operation == "deposit" else call)


@wrong("recognises a call only if it is one of the last fifty", must="G04", may="H06", operations=200)
class CachesFiftyCalls(PlainWallet):
    def _remember(self, call: Call) -> None:
        super()._remember(call)
        last = "SELECT rowid FROM calls ORDER BY rowid DESC LIMIT 50"
        self._database.execute(f"DELETE FROM calls WHERE rowid NOT IN ({last})")

    def _post(self, call: Call, player_id: str, cents: int, at_millis: int) -> None:
        """Write a line of the history, which has no unique key."""
        self._database.execute("DELETE FROM postings WHERE (operation, tx_id) = (?, ?)", self._identity(call))
        super()._post(call, player_id, cents, at_millis)


@wrong("books movements in units by floats, beside the balances that it returns", must="G05")
class BooksInFloats(PlainWallet):
    def open_account(self, player_id: str, cents: int) -> None:
        super().open_account(player_id, cents)
        self._booked()[player_id] = cents

    def balance_cents(self, player_id: str) -> int:
        return self._booked()[player_id]

    def _move(self, case: Case, player_id: str, cents: int) -> None:
        super()._move(case, player_id, cents)
        units = cents / 100
        self._booked()[player_id] += int(units * 100)

    def _booked(self) -> dict[str, int]:
        booked: dict[str, int] = self.__dict__.setdefault("booked", {})
        return booked
