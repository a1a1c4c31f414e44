"""Wallets that are wrong in what they make of odd bodies: group F."""

import json
import re
import unicodedata

from wallet_by_hand import Bet, Call, InvalidRequestError, Number, PlainWallet

from testkit.tests.certifier.wrong_wallets.registry import Answered, Sent, wrong


@wrong("drops the bytes of a body that are not UTF-8", must="F01")
class DropsWhatIsNoUtf8(PlainWallet):
    def _parse(self, body: bytes) -> object:
        return super()._parse(body.decode(errors="ignore").encode())


@wrong("lets its framework answer invalid JSON with HTTP 400", must="F01")
class AnswersNoJsonWith400(PlainWallet):
    def handle(self, method: str, path: str, headers: Sent, body: bytes) -> Answered:
        try:
            json.loads(body)
        except ValueError:
            return 400, {"Content-Type": "application/json"}, b'{"detail":"There was an error parsing the body"}'
        except RecursionError:
            """Its parser is another one."""
        return super().handle(method, path, headers, body)


@wrong("reads a missing amount as 0, as a struct's zero value", must="F02")
class MissingAmountsAreZero(PlainWallet):
    def _read_amount(self, operation: str, action: str, document: dict[str, object]) -> int:
        if self._first(document, "amount", "wager", "won", "action.won") in (..., None):
            document = document | {"amount": Number("0")}
        return super()._read_amount(operation, action, document)


@wrong("reads a missing id as the empty string, and accepts that as an id", must="F02")
class MissingIdsAreEmpty(PlainWallet):
    def _read_id(self, value: object, longest: int) -> str:
        return super()._read_id(value, longest) if value else ""

    def _optional_id(self, document: dict[str, object], longest: int, *names: str) -> str | None:
        return super()._optional_id(document, longest, *names) or ("" if "bet_id" in names else None)


@wrong("reads true as 1", must="F03")
class TakesTrueForOne(PlainWallet):
    def _read_amount(self, operation: str, action: str, document: dict[str, object]) -> int:
        if document.get("amount") is True:
            document = document | {"amount": Number("1")}
        return super()._read_amount(operation, action, document)


@wrong("drops the decimals of an amount", must="F03")
class CutsFractions(PlainWallet):
    def _read_amount(self, operation: str, action: str, document: dict[str, object]) -> int:
        amount = document.get("amount")
        if isinstance(amount, Number):
            document = document | {"amount": Number(amount.partition(".")[0])}
        return super()._read_amount(operation, action, document)


@wrong("takes and tells fractions of a cent, once it is sent some", must="F03", may="*")
class KeepsFractions(PlainWallet):
    is_spoilt = False

    def _read_amount(self, operation: str, action: str, document: dict[str, object]) -> int:
        try:
            return super()._read_amount(operation, action, document)
        except InvalidRequestError:
            self.is_spoilt = self.is_spoilt or document.get("amount") == "5.5"
            raise

    def _render_balance(self, cents: int) -> str:
        return super()._render_balance(cents) + ("5" if self.is_spoilt else "")


@wrong("does not check the sign of an amount", must="F04")
class MindsNoSign(PlainWallet):
    def _read_amount(self, operation: str, action: str, document: dict[str, object]) -> int:
        amount = document.get("amount")
        if isinstance(amount, Number) and re.fullmatch("-[1-9][0-9]*", amount):
            return int(amount)
        return super()._read_amount(operation, action, document)


@wrong("keeps amounts in 32 bits, so that a large wager is below 0", must="F05", may="G04")
class WrapsAmounts(PlainWallet):
    def _read_amount(self, operation: str, action: str, document: dict[str, object]) -> int:
        return (super()._read_amount(operation, action, document) + 2**31) % 2**32 - 2**31


@wrong("accepts ids of letters, digits and a few marks alone", must="B09", may="B17 F07 F08 F10")
class AcceptsPlainIds(PlainWallet):
    def _read_id(self, value: object, longest: int) -> str:
        if re.fullmatch("[A-Za-z0-9:._-]+", str(value)) is None:
            raise InvalidRequestError("an id has other characters")
        return super()._read_id(value, longest)


@wrong("normalises ids: a composed and a decomposed letter are one", must="F07")
class NormalisesIds(PlainWallet):
    def _read_id(self, value: object, longest: int) -> str:
        return unicodedata.normalize("NFC", super()._read_id(value, longest))


@wrong("keeps ids in a collation for which all emoji are the same", must="F07")
class KnowsNoEmoji(PlainWallet):
    def _read_id(self, value: object, longest: int) -> str:
        return re.sub("[\U00010000-\U0010ffff]", "?", super()._read_id(value, longest))


@wrong("cuts ids to the 255 characters of their column", must="F07")
class CutsIds(PlainWallet):
    def _bet_key(self, call: Call) -> str:
        return super()._bet_key(call)[:255]


@wrong("writes ids into the text of its SQL", must="F08")
class PutsIdsIntoSql(PlainWallet):
    def _find_bet(self, bet_id: str) -> Bet | None:
        row = self._database.execute(f"SELECT * FROM bets WHERE bet_id = '{bet_id}'").fetchone()
        return Bet(*row) if row else None


@wrong("refuses a rollback whose amount it cannot read, and does not need", must="F11")
class NeedsTheAmountOfRollbacks(PlainWallet):
    def _check_shape(self, operation: str, document: dict[str, object]) -> None:
        super()._check_shape(operation, document)
        if operation == "rollback" and not isinstance(document.get("amount", Number("0")), Number):
            raise InvalidRequestError("no amount in cents")


@wrong("refuses a deposit whose wager is not a number", must="F11")
class NeedsAReadableWager(PlainWallet):
    def _check_shape(self, operation: str, document: dict[str, object]) -> None:
        super()._check_shape(operation, document)
        if operation == "deposit" and isinstance(self._first(document, "action.wager"), dict):
            raise InvalidRequestError("no wager in cents")


@wrong("takes the names of members in any case, as Go's encoding/json does", must="F11")
class FoldsNames(PlainWallet):
    def _parse(self, body: bytes) -> object:
        document = super()._parse(body)
        return {name.lower(): value for name, value in document.items()} if isinstance(document, dict) else document


@wrong("refuses a deposit that has won and no action", must="F11")
class KnowsNoDepositWithoutAction(PlainWallet):
    def _check_shape(self, operation: str, document: dict[str, object]) -> None:
        super()._check_shape(operation, document)
        if operation == "deposit" and "action" not in document:
            raise InvalidRequestError("this is no deposit")
