"""What became of a bet, by what the wallet really answered and not by what was asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from game_operator.codes import WebhookErrorCode
from game_operator.control_room.exchange_rows import hint, must_be_refused, why_no_reply
from game_operator.errors import MalformedCallError
from game_operator.protocol.operations import AnyBet
from game_operator.provider.delivery import UNSEEN, is_definite
from game_operator.provider.faults import Fault
from game_operator.provider.text import clean, money
from game_operator.sandbox.service.exchange_log import Exchange

_SUCCESS: Final = "SUCCESS"
_UNKNOWN: Final = "What the wallet has is not known."
_NOT_IN_THE_LOG: Final = (
    "The live log has no call about it, so whether the wallet has confirmed that cannot be told here."
)
_REASONS: Final[dict[str, str]] = {
    WebhookErrorCode.INSUFFICIENT_BALANCE: "{player} has less than the wager",
    WebhookErrorCode.PLAYER_NOT_FOUND: "it knows no player {player}",
    WebhookErrorCode.PLAYER_BLOCKED: "{player} may not play",
    WebhookErrorCode.LIMIT_EXCEEDED: "the wager is above a limit of {player}’s",
    WebhookErrorCode.BET_ROLLED_BACK: "the bet was cancelled before",
    WebhookErrorCode.INVALID_REQUEST: "it cannot make sense of the call",
}


@dataclass(frozen=True, slots=True)
class _Operation:
    """The calls of one operation, and the code that settled it, or None."""

    calls: Sequence[Exchange]
    code: str | None

    @property
    def succeeded(self) -> bool:
        return self.code == _SUCCESS

    @property
    def unread(self) -> str:
        """Why an answer was not a reply, as one more sentence; "" if all were."""
        unread = [each for each in self.calls if each.status is not None and _code(each) is None]
        return f" {_no_reply(unread)}" if unread else ""


class BetOutcome:
    """
    What became of a bet, and where it stands on both sides.

    Args:
        bet: As the Operator API answers it.
        exchanges: All webhooks about it, in any order; without any, the service's word counts.
        currency: Of its instance, or "".

    Attributes:
        headline: What became of it, in a sentence or two.
        service: What the service holds, in a sentence; "" if it knows no such bet.
        wallet: Whether the wallet has confirmed that, as far as its answers are known; "" if there is nothing to say.
        confirmed: The same: None if it is not known.
    """

    def __init__(self, bet: AnyBet, exchanges: Sequence[Exchange], currency: str) -> None:
        self._bet, self._currency = bet, currency
        self._calls = [each for each in exchanges if not must_be_refused(each)]
        self._withdraw, self._deposit, self._rollback = map(self._operation, ("/withdraw", "/deposit", "/rollback"))
        self.headline = self._headline()
        self.service = self._service()
        self.confirmed = self._is_confirmed() if self._calls and self.service else None
        self.wallet = self._wallet()

    def _operation(self, path: str) -> _Operation:
        calls = [each for each in self._calls if each.path == path]
        # The service did not receive what was lost on its way back.
        codes = [_code(each) for each in calls if Fault.REPLY_LOST not in each.fault.split(", ")]
        definite = [code for code in codes if code is not None and is_definite(path.strip("/"), code)]
        return _Operation(calls, _SUCCESS if _SUCCESS in definite else next(iter(definite), None))

    def _headline(self) -> str:
        if not self._calls:
            not_found = self._bet.status == "NOT_FOUND"
            return "The wallet took no wager, so there is no bet." if not_found else self._ended()
        return self._not_played() or self._by_answers()

    def _service(self) -> str:
        match self._bet.status:
            case "CLOSED":
                return f"For the service, this bet is settled: {self._ended()}"
            case "ROLLED_BACK":
                return f"For the service, {self._bet.player_id}’s bet of {self._sum(self._bet.wager)} is cancelled."
            case "OPEN":
                return f"For the service, {self._ended()}"
            case _:
                return ""

    def _wallet(self) -> str:
        if not self._calls:
            return _NOT_IN_THE_LOG if self.service else ""
        if not self.service:
            return self.headline
        if not self.confirmed:
            return f"The wallet has not confirmed that, as far as the live log shows. {self.headline}"
        more = "" if self.headline == self._ended() else f" {self.headline}"
        return f"The wallet has confirmed that.{more}"

    def _is_confirmed(self) -> bool:
        match self._bet.status:
            case "OPEN":
                return self._withdraw.succeeded
            case "CLOSED":
                # Of an old bet the log may have lost the withdraw, and no deposit follows one that failed.
                return self._deposit.succeeded and (self._withdraw.succeeded or not self._withdraw.calls)
            case _:
                return self._rollback.succeeded or (self._rollback.code in UNSEEN and not self._withdraw.succeeded)

    def _not_played(self) -> str:
        """Return why the wallet did not look at any call, or "" if it did."""
        answered = [each for each in self._calls if each.status is not None]
        codes = {_code(each) for each in answered}
        if codes == {WebhookErrorCode.INVALID_SIGNATURE}:
            calls = "the call" if len(answered) == 1 else f"all {len(answered)} calls"
            return (
                f"Not played. The wallet answered INVALID_SIGNATURE to {calls}: it does not know the service’s key. "
                "Give it the key under Keys."
            )
        # A server may move the money and then fail with an error above.
        if codes == {None} and all(300 <= (each.status or 0) < 500 for each in answered):
            return f"Not played. {_no_reply(answered)}"
        return ""

    def _by_answers(self) -> str:
        withdraw, deposit, rollback = self._withdraw, self._deposit, self._rollback
        if withdraw.succeeded or (deposit.calls and not withdraw.calls):
            end = rollback if rollback.calls else deposit
            is_over = end.calls or self._bet.status in {"CLOSED", "ROLLED_BACK"}
            return self._ended() if end.succeeded or not is_over else self._placed(end)
        if withdraw.code is not None:
            reason = _REASONS.get(withdraw.code, "").format(player=self._calls[0].player_id)
            more = next(hint(each) for each in withdraw.calls if _code(each) == withdraw.code)
            why = f", {reason}" if reason else ""
            return f"The wallet refused: {withdraw.code}{why}. No wager was taken. {more}".rstrip()
        before = f"The withdraw {'was not answered definitely' if withdraw.calls else 'is not in the live log'}"
        if rollback.succeeded:
            return f"Cancelled. {before}; its rollback was answered SUCCESS, so no wager is taken."
        if rollback.code in UNSEEN:
            return f"Cancelled. {before}, and to its rollback the answer is {rollback.code}."
        if rollback.code is not None:
            return f"{before}, and its rollback was refused: {rollback.code}. {_UNKNOWN}"
        if not withdraw.calls:
            return f"{before}, and its rollback was not answered definitely. {_UNKNOWN}"
        gave_up = "The service gave up: neither the withdraw nor its rollback was answered definitely."
        return f"{gave_up} {_UNKNOWN}{withdraw.unread or rollback.unread}"

    def _placed(self, end: _Operation) -> str:
        """Return what is known of a bet that was placed, and whose *end* the wallet has not confirmed."""
        bet, name = self._bet, "rollback" if self._bet.status == "ROLLED_BACK" else "deposit"
        wager = "The wager" if bet.status == "NOT_FOUND" else f"{bet.player_id}’s wager of {self._sum(bet.wager)}"
        if not end.calls:
            return f"{wager} was taken, and no answer to its {name} is in the live log. {_UNKNOWN}"
        if end.code is None:
            unread = (self._rollback if name == "rollback" else self._deposit).unread
            gave_up = f"the service gave up: the {name} was not answered definitely"
            return f"{wager} was taken, and {gave_up}. {_UNKNOWN}{unread}"
        return f"{wager} was taken, and the wallet refused the {name}: {end.code}."

    def _ended(self) -> str:
        bet = self._bet
        match bet.status:
            case "CLOSED" if bet.won:
                return f"{bet.player_id} wagered {money(bet.wager)} and won {self._sum(bet.won)}."
            case "CLOSED":
                return f"{bet.player_id} wagered {self._sum(bet.wager)} and lost."
            case "ROLLED_BACK":
                return f"{bet.player_id}’s wager of {self._sum(bet.wager)} was taken and given back."
            case "OPEN":
                return f"{bet.player_id}’s bet of {self._sum(bet.wager)} is still open."
            case _:
                return "The service does not know this bet any more."

    def _sum(self, cents: int) -> str:
        return f"{money(cents)} {self._currency}".rstrip()


def _no_reply(answered: Sequence[Exchange]) -> str:
    first = min(answered, key=lambda each: each.number)
    return f"{clean(first.url or first.path)} answered HTTP {first.status}, and no reply. {why_no_reply(first)}"


def _code(exchange: Exchange) -> str | None:
    """Return the code of the reply, or None if there was none."""
    if exchange.status is None:
        return None
    try:
        return exchange.reply().code or _SUCCESS
    except MalformedCallError:
        return None
