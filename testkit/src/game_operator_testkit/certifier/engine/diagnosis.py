"""What a refusal says of the wallet as a whole, beside its code: found by other calls like the one that was refused."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from game_operator.codes import WebhookErrorCode as Code
from game_operator.models.webhooks import LONGEST_ID, BalanceCall, MovingCall, WebhookCall
from game_operator.profile import Profile
from game_operator.protocol.webhook_reply import fold_code
from game_operator_testkit.certifier.engine.balances import Balances, units
from game_operator_testkit.certifier.report.verdicts import BALANCE_PATH, KnownCause
from game_operator_testkit.provider.delivery import Carried
from game_operator_testkit.provider.requests import Seal

WITHDRAW: Final = "/withdraw"
DEPOSIT: Final = "/deposit"
ROLLBACK: Final = "/rollback"
_MOVING: Final = (WITHDRAW, DEPOSIT, ROLLBACK)
#: What it means if one call is always refused so, and others like it are not.
_IN_ITSELF: Final[Mapping[str, KnownCause]] = {
    Code.DUPLICATE_TRANSACTION: KnownCause.COLLIDES,
    Code.INVALID_SIGNATURE: KnownCause.SOME_SIGNATURES,
    Code.SYSTEM_ERROR: KnownCause.STORED_FAILURE,
}
#: And if it is refused so beside other calls, and not alone.
_AMONG: Final[Mapping[str, KnownCause]] = {
    Code.DUPLICATE_TRANSACTION: KnownCause.AS_KNOWN,
    Code.INVALID_SIGNATURE: KnownCause.AS_BADLY_SIGNED,
    Code.PLAYER_NOT_FOUND: KnownCause.MISSED,
}
#: What a profile may say of a deposit before its withdraw; and the codes that the core has not.
_EARLY: Final = (Code.BET_NOT_FOUND, Code.SYSTEM_ERROR)
_EXTENDED: Final = frozenset(code.value for code in Code if fold_code(code, Profile(codes="core")) != code)
#: Characters that some wallets do not expect in an id.
_ODD: Final = re.compile(r"[^A-Za-z0-9_:.-]")
#: What ``fresh`` makes of the prefix.
_PLAIN: Final = re.compile(r"-[a-z]+-[0-9]+")


class Diagnosis(Balances):
    """Calls whose refusals are explained."""

    def cause_of_refusal(self, heard: Carried) -> str:
        """Return what a refusal of what must be accepted says of the wallet as a whole; "" for nothing."""
        if heard.code == Code.INVALID_REQUEST:
            path, cents = heard.request.path, self.moved_if_carried_out(heard)
            was_read = path == BALANCE_PATH or (cents and path in self.observed.accepted)
            if heard.request.body in self._at_once and was_read:
                other = self.same_content(heard)
                return KnownCause.MIXED_UP if other is None or other.succeeded else ""
            if path == WITHDRAW and (cause := self._cause_in_ids(self.bet_id_of(heard))):
                return cause
            if path == WITHDRAW in self.observed.accepted and -self.unit_cents < cents < 0:
                is_placed = self._is_placed(self.fresh("bet"), f"a withdraw of {units(-cents)} with plain ids", -cents)
                return "" if is_placed else KnownCause.AMOUNT
            # Where one such call was understood, it is this one that is not.
            return KnownCause.UNREADABLE if path in _MOVING and path not in self.observed.accepted else ""
        if heard.code == Code.PLAYER_NOT_FOUND and (missed := self.cause_among_others(heard)):
            return missed
        if heard.code == Code.PLAYER_NOT_FOUND and (self.player.due_cents == 0 or self.observed.zero_is_nobody):
            self.observed.zero_is_nobody = True
            return KnownCause.ZERO_IS_NOBODY
        if heard.code == Code.DUPLICATE_TRANSACTION:
            usual = KnownCause.TX_ID_ALONE if heard.request.path == ROLLBACK else ""
            return self.cause_in_itself(heard) or self.cause_among_others(heard) or usual
        if heard.code == Code.BET_NOT_FOUND and heard.request.body in self._at_once and self._is_lost(heard):
            return KnownCause.NOT_KEPT
        if heard.code in (Code.BET_ALREADY_CLOSED, Code.BET_ROLLED_BACK) and self.ended_with_another(heard):
            return KnownCause.ENDED_WITH_ANOTHER if self._ends_others(heard) else ""
        if heard.code == Code.INSUFFICIENT_BALANCE and self._is_all(heard):
            return KnownCause.NOT_ALL if WITHDRAW in self.observed.accepted else ""
        if heard.code == Code.INSUFFICIENT_BALANCE and heard.request.path == WITHDRAW:
            is_covered = (heard.balance_cents or 0) >= -self.moved_if_carried_out(heard) > 0
            return KnownCause.NO_FUNDS if is_covered and WITHDRAW in self.observed.accepted else ""
        if heard.code == Code.INVALID_SIGNATURE:
            return self.cause_among_others(heard) or self.cause_in_itself(heard) or self._cause_in_body(heard)
        if heard.code != Code.SYSTEM_ERROR:
            return KnownCause.NO_BET if heard.request.path == WITHDRAW not in self.observed.accepted else ""
        player = self._player_of(heard)
        # What is due is not known while other calls are under way.
        is_alone = heard.request.body not in self._at_once and not self.observed.is_behind
        if is_alone and self.balance_of(player) != player.due_cents:
            return KnownCause.HALF_DONE
        return self.cause_in_itself(heard) or KnownCause.FAILS

    def cause_in_itself(self, heard: Carried) -> str:
        """Return what it means if this call alone is refused so, each time, and others like it are not."""
        call, cause = self._calls.get(heard.request.body), _IN_ITSELF.get(heard.code or "", "")
        tx_id, bet_id = getattr(call, "tx_id", None), self.bet_id_of(heard)
        player_id = getattr(call, "player_id", "")
        alike = [each for each in self._movements() if getattr(each, "tx_id", None) == tx_id]
        is_borrowed = any((each.bet_id, each.player_id) != (bet_id, player_id) for each in alike)
        if not cause or is_borrowed or self._first_codes.get(heard.request.body) != heard.code:
            return ""
        if heard.request.body in self._at_once:
            heard = self.send(replace(heard.request, title="the same call alone"))
        other = self.same_content(heard) if heard.code in _IN_ITSELF else None
        return cause if other is not None and other.reply is not None and other.code != heard.code else ""

    def cause_among_others(self, heard: Carried) -> str:
        """Return what it means if a call at once with others is refused so, and not when it is sent alone."""
        cause = _AMONG.get(heard.code or "", "")
        if not cause or heard.request.body not in self._at_once:
            return ""
        again = replace(heard.request, title="the same call alone")
        if cause == KnownCause.MISSED:  # The refusal may be stored as the answer to its call.
            again = self.balance_request("a balance check, to see whether the player is found", self._player_of(heard))
        answer = self.send(again)
        return cause if answer.reply is not None and answer.code != heard.code else ""

    def _cause_in_body(self, heard: Carried) -> str:
        """Return what it means if a genuine call alone is refused as wrongly signed; "" if not each time."""
        if not heard.request.body.isascii():
            return KnownCause.OTHER_BYTES
        is_odd = heard.request.path in self.observed.accepted and heard.request.seal == Seal()
        again = self.send(replace(heard.request, title="the same call alone")) if is_odd else heard
        return KnownCause.REWRITTEN if is_odd and again.code == heard.code else ""

    def _movements(self) -> Iterator[MovingCall]:
        """Yield the calls of this scenario that move money."""
        return (call for call in self._calls.values() if not isinstance(call, BalanceCall))

    def _since(self, heard: Carried) -> str:
        """Return which call came before one that fails although others like it were carried out; "" otherwise."""
        before = self.observed.refused_since.get(self._player_of(self._calls.get(heard.request.body, heard.request)).id)
        if heard.code != Code.SYSTEM_ERROR or heard.request.path not in self.observed.accepted or before is None:
            return ""
        if _ODD.search(self.bet_id_of(heard)):
            return ""
        last, scenario = before
        if last.code in (None, Code.SYSTEM_ERROR):
            return ""
        where = "" if scenario == self.prefix else f" in {scenario.rpartition('-')[2]}"
        return f"; the call before this began was {last.request.title}{where}, which returned {last.code}"

    def _other_profile(self, heard: Carried, code: str) -> str:
        """Return the field of the profile that another value would make *heard* right by; "" if no field does."""
        if heard.code is None or heard.request.path == BALANCE_PATH:
            return ""
        if heard.request.path.startswith(DEPOSIT) and code == self.profile.early_deposit_code in _EARLY:
            return KnownCause.EARLY_CODE if heard.code in _EARLY else ""
        if self.profile.codes == "core":
            return KnownCause.CORE_CODES if fold_code(heard.code, self.profile) == fold_code(code, self.profile) else ""
        fits = heard.code == fold_code(code, replace(self.profile, codes="core"))
        return KnownCause.CORE_CODES if fits and not self.observed.codes & _EXTENDED else ""

    def answer_to_repeat(self, body: bytes) -> tuple[Carried, Carried] | None:
        """Send the call of *body* again, and another like it; return their replies, or None if there are none."""
        call = self._calls.get(body)
        if call is None:
            return None
        again = self.send(self.request(call, "the same call again, to see how it is answered"))
        other = again if again.request.path == BALANCE_PATH else self.same_content(again)
        return None if again.reply is None or other is None or other.reply is None else (again, other)

    def same_content(self, heard: Carried) -> Carried | None:
        """Send what *heard* answers with other ids; None if a scenario chose its ids."""
        call, body = self._calls.get(heard.request.body), heard.request.body
        bet_id = self.bet_id_of(heard)
        # Ids that a scenario chose may be what the wallet fails by.
        is_plain = _PLAIN.fullmatch(bet_id.removeprefix(self.prefix)) and getattr(call, "tx_id", "").endswith(bet_id)
        if call is None or not is_plain:
            return None
        fresh = self.bet(self._player_of(call))
        if self.kind_of(heard) in (DEPOSIT, ROLLBACK):
            self.send(self.request(fresh.withdraw(), "a withdraw"))
        other = replace(heard.request, title="the same content with other ids")
        return self.send(replace(other, body=body.replace(bet_id.encode(), fresh.bet_id.encode())))

    def _cause_in_ids(self, bet_id: str) -> str:
        """Return whether a withdraw is refused for the characters of its *bet_id*, or its length; "" for neither."""
        odd = "".join(dict.fromkeys(_ODD.findall(bet_id)))
        if not odd or not self._is_placed(self.fresh("bet"), "a withdraw with plain ids"):
            return ""
        if not self._is_placed(f"{self.fresh('bet')}-{odd}", "a withdraw with such characters in its id"):
            return KnownCause.ODD_IDS
        length = len(bet_id.encode())
        if length > LONGEST_ID:
            return KnownCause.NARROW  # Its characters are fewer; some count bytes.
        is_long = not self._is_placed(self.fresh("bet").ljust(length, "x"), "a withdraw whose id is as long")
        return KnownCause.NARROW if is_long else ""

    def _ends_others(self, heard: Carried) -> bool:
        """Return whether a bet is refused its end, as in *heard*, right after two others of its player have ended."""
        bets = [self.bet(self._player_of(heard)) for _ in range(3)]
        calls: list[WebhookCall] = [*(bet.withdraw() for bet in bets), bets[0].deposit(0), bets[1].rollback()]
        is_refund = heard.request.path == ROLLBACK
        calls.append(bets[2].rollback() if is_refund else bets[2].deposit(bets[2].wager_cents))
        return [self.send(self.request(call, "to see whether bets end alone")).code for call in calls][-1] == heard.code

    def _is_lost(self, heard: Carried) -> bool:
        """Return whether the bet of *heard* was accepted, and is not found alone either; another like it is."""
        if self.bet_id_of(heard) not in self._open:
            return False
        again, other = self.send(replace(heard.request, title="the same call alone")), self.same_content(heard)
        return again.code == heard.code and other is not None and other.succeeded

    def _is_placed(self, bet_id: str, title: str, wager_cents: int | None = None) -> bool:
        """Return whether a bet of this id is accepted; it is rolled back."""
        bet = self.bet(wager_cents=wager_cents, bet_id=bet_id)
        heard = self.send(self.request(bet.withdraw(), title))
        if heard.succeeded:
            self.send(self.request(bet.rollback(), "its rollback"))
        return heard.succeeded

    def _is_all(self, heard: Carried) -> bool:
        """Return whether a withdraw's amount is exactly the balance that its answer shows."""
        cents = self.moved_if_carried_out(heard)
        return heard.balance_cents == -cents != 0 and heard.request.body not in self._at_once
