"""Wallets that are wrong in whom they believe: group E."""

import json
import re
from hashlib import sha256

from wallet_by_hand import Call, Case, PlainWallet

from testkit.tests.certifier.harness import retired_key
from testkit.tests.certifier.wrong_wallets.registry import BAD_GATEWAY, Answered, Headers, Sent, wrong

#: Where a wallet that asks differently by path finds it.
_PATH = ":path"


@wrong("verifies a signature if there is one, and accepts calls without one", must="E01", may="E04")
class BelievesTheUnsigned(PlainWallet):
    def _is_authentic(self, headers: Headers, body: bytes) -> bool:
        return not self._signature(headers) or super()._is_authentic(headers, body)


@wrong("verifies signatures on every path but /rollback, which was added later", must="E01", may="E02 E12")
class AsksNobodyAtRollback(PlainWallet):
    def _answer(self, path: str, headers: Headers, body: bytes) -> tuple[int, str]:
        return super()._answer(path, [*headers, (_PATH, path)], body)

    def _is_authentic(self, headers: Headers, body: bytes) -> bool:
        return (_PATH, "/rollback") in headers or super()._is_authentic(headers, body)


@wrong("lets a library verify, and ignores its result", must="E02", may="E03 E04 E06")
class IgnoresWhatVerifySays(PlainWallet):
    def _verifies(self, *call: object) -> bool:
        return True


@wrong("verifies each signature once, and then accepts it with any body", must="E02")
class BelievesKnownSignatures(PlainWallet):
    _known: frozenset[str | None] = frozenset()

    def _is_authentic(self, headers: Headers, body: bytes) -> bool:
        header = self._signature(headers)
        if header not in self._known and super()._is_authentic(headers, body):
            self._known |= {header}
        return header in self._known


@wrong("parses the body, writes it again and verifies that", must="E03", may="B15")
class WritesAnewBeforeVerifying(PlainWallet):
    def _is_authentic(self, headers: Headers, body: bytes) -> bool:
        try:
            body = json.dumps(json.loads(body), separators=(",", ":"), ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            """It is verified as it is."""
        return super()._is_authentic(headers, body)


@wrong("verifies the body without the white space around it", must="E03")
class TrimsBeforeVerifying(PlainWallet):
    def _is_authentic(self, headers: Headers, body: bytes) -> bool:
        return super()._is_authentic(headers, body.strip())


@wrong("answers HTTP 500 to a signature that is not Base64", must="E04")
class FallsOverGarbage(PlainWallet):
    def handle(self, method: str, path: str, headers: Sent, body: bytes) -> Answered:
        kept = list(headers)
        try:
            self._decode_signature(self._signature(kept) or "")
        except ValueError:
            return 500, {"Content-Type": "text/html"}, b"<h1>Internal Server Error</h1>"
        return super().handle(method, path, kept, body)


@wrong("looks for the header by its name in small letters", must="E05")
class MindsTheCaseOfHeaders(PlainWallet):
    def _signature(self, headers: Headers) -> str | None:
        return dict(headers).get(self.signature_header)


@wrong("refuses the right signatures of some bets, as if a byte were lost", must="G04")
class RefusesSomeSignatures(PlainWallet):
    def _is_authentic(self, headers: Headers, body: bytes) -> bool:
        # Which they are is chance in a real wallet: one in 256 begins with a zero byte.
        return super()._is_authentic(headers, body) and not re.search(rb'-G04-bet-[0-9]*[02468]"', body)


@wrong("accepts a retired key forever", must="E06")
class AcceptsRetiredKeys(PlainWallet):
    def _is_authentic(self, headers: Headers, body: bytes) -> bool:
        if super()._is_authentic(headers, body):
            return True
        try:
            signature = self._decode_signature(self._signature(headers) or "")
        except ValueError:
            return False
        return self._verifies(retired_key().public_key(), signature, body)


@wrong("accepts the newest key alone, while the service still signs with the old one", must="E06")
class TrustsOneKey(PlainWallet):
    def _is_authentic(self, headers: Headers, body: bytes) -> bool:
        self.public_keys[1:] = []
        return super()._is_authentic(headers, body)


@wrong("keeps the identities of calls in a cache, for a day", must="E07", may="B11 H06")
class ForgetsAfterADay(PlainWallet):
    def days_passed(self, days: int) -> None:
        with self._transaction():
            self._database.execute("DELETE FROM calls")
            self._database.execute("DELETE FROM postings")


@wrong("reads every body by its path, without a check of its form", must="E09")
class ReadsAnyBodyAnywhere(PlainWallet):
    def _check_shape(self, operation: str, document: dict[str, object]) -> None:
        """The path says what it is."""


@wrong("accepts a withdraw's own body, posted to /rollback, as its rollback", must="E09")
class KeepsNoDigest(PlainWallet):
    def _is_its_withdraw(self, case: Case) -> bool:
        return False


@wrong("keeps the digest of the withdraw that came last, and so of a rollback that was posted astray", must="E09")
class KeepsDigestsOfRepeats(PlainWallet):
    def _withdraw(self, case: Case) -> str:
        if case.is_repeat:
            values = case.call.digest, self._bet_key(case.call)
            self._database.execute("UPDATE bets SET digest = ? WHERE bet_id = ?", values)
        return super()._withdraw(case)


@wrong("needs so much memory for a long body that its worker is killed, and the next calls get no answer", must="E11")
class FallsOverLongBodies(PlainWallet):
    _away = 0

    def handle(self, method: str, path: str, headers: Sent, body: bytes) -> Answered:
        self._away = 3 if len(body) > 2_000_000 else max(0, self._away - 1)
        if self._away:
            return BAD_GATEWAY
        return super().handle(method, path, headers, body)


@wrong(
    "refuses a signature that does not verify with INVALID_REQUEST, which is final",
    must="E12",
    may="E02",
)
class RefusesTheUnauthenticForGood(PlainWallet):
    def _refuse(self, code: str) -> tuple[int, str]:
        return super()._refuse("INVALID_REQUEST" if code == "INVALID_SIGNATURE" else code)


@wrong("remembers calls that were not authentic, and refuses the authentic ones as known", must="E12", may="E02")
class RemembersTheUnauthentic(PlainWallet):
    _seen: frozenset[str] = frozenset()

    def _is_authentic(self, headers: Headers, body: bytes) -> bool:
        authentic = super()._is_authentic(headers, body)
        if not authentic:
            self._seen |= {sha256(body).hexdigest()}
        return authentic

    def _ask_identity(self, case: Case) -> str | None:
        moves = case.call.operation != "player-balance"
        return "DUPLICATE_TRANSACTION" if moves and case.call.digest in self._seen else super()._ask_identity(case)


@wrong("does not check the game instance", must="E13")
class MindsNoInstance(PlainWallet):
    def _is_foreign(self, call: Call) -> bool:
        return False


@wrong("compares the game instance of withdraws, and not of claims", must="E13")
class ComparesInstancesOfBetsAlone(PlainWallet):
    def _is_foreign(self, call: Call) -> bool:
        return not call.is_claim and super()._is_foreign(call)
