"""What became of a bet, by all its calls in the live log, and not by what was asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from game_operator.codes import WebhookErrorCode
from game_operator.profile import Profile
from game_operator.protocol.operations import AnyBet
from game_operator_testkit.control_room.outcomes import hint, must_be_refused, row
from game_operator_testkit.provider.delivery import UNSEEN, is_definite
from game_operator_testkit.provider.faults import Fault
from game_operator_testkit.sandbox.dealing.balances import ReportedBalance
from game_operator_testkit.sandbox.service.exchange_log import Exchange

_SUCCESS: Final = "SUCCESS"
#: The operation that ends a bet, by the state that the service holds.
_ENDS: Final = {"CLOSED": "deposit", "ROLLED_BACK": "rollback"}


@dataclass(frozen=True, slots=True)
class _Operation:
    """The calls of one operation, and the code that settled it, or None."""

    calls: Sequence[Exchange]
    code: str | None

    @property
    def succeeded(self) -> bool:
        return self.code == _SUCCESS

    @property
    def is_unclear(self) -> bool:
        """Whether it may have moved money or not."""
        return not self.calls or (self.code is None and any(map(_may_have_moved, self.calls)))

    @property
    def said(self) -> str:
        """What became of it, as the end of a sentence."""
        if not self.calls:
            return "is not in the live log"
        if self.code is not None:
            return "was answered SUCCESS" if self.succeeded else f"was refused: {self.code}"
        if all(Fault.REQUEST_LOST in each.faults for each in self.calls):
            return "was lost on its way, and the wallet never received it"
        if any(Fault.REPLY_LOST in each.faults and each.code == _SUCCESS for each in self.calls):
            return "was answered SUCCESS, and that answer was lost on its way back"
        tries = f" in {len(self.calls)} tries" if len(self.calls) > 1 else ""
        return f"had no definite answer{tries}: {row(self.calls[-1]).answer}"

    @property
    def deciding(self) -> Exchange:
        """The call whose answer is to be explained."""
        return next((each for each in self.calls if each.code == self.code), self.calls[0])


class BetOutcome:
    """
    What became of a bet at the wallet.

    Args:
        bet: As the Operator API answers it.
        exchanges: All webhooks about it, the oldest first.
        profile: What the service assumes.
        wrong: The first balance in an answer about it that shows a mistake of the wallet; None if none does.
    """

    def __init__(
        self,
        bet: AnyBet,
        exchanges: Sequence[Exchange],
        profile: Profile,
        wrong: ReportedBalance | None = None,
    ) -> None:
        self.bet: AnyBet = bet
        self.exchanges: Sequence[Exchange] = exchanges
        self.wrong: ReportedBalance | None = wrong
        self._profile = profile
        self._calls = [each for each in exchanges if not must_be_refused(each)]
        self._withdraw, self._deposit, self._rollback = map(self._operation, ("withdraw", "deposit", "rollback"))

    def _operation(self, name: str) -> _Operation:
        calls = [each for each in self._calls if each.operation == name]
        # The service did not receive what was lost on its way back.
        codes = [each.code for each in calls if Fault.REPLY_LOST not in each.faults]
        early_code = self._profile.early_deposit_code
        definite = [code for code in codes if code and is_definite(name, code, early_code=early_code)]
        return _Operation(calls, _SUCCESS if _SUCCESS in definite else next(iter(definite), None))

    @property
    def balance_cents(self) -> int | None:
        """What the wallet had after its last answer that says so; None if none does."""
        balances = (each.balance_cents for each in reversed(self._calls) if each.code == _SUCCESS)
        return next((cents for cents in balances if cents is not None), None)

    @property
    def confirmed(self) -> bool | None:
        """Whether the wallet's answers agree with what the service holds; None if one of the two is not known."""
        if not self._calls or self.bet.status == "NOT_FOUND":
            return None
        if self.wrong is not None:
            return False
        match self.bet.status:
            case "OPEN":
                return self._withdraw.succeeded
            case "CLOSED":
                # Of an old bet the log may have lost the withdraw, and no deposit follows one that failed.
                return self._deposit.succeeded and (self._withdraw.succeeded or not self._withdraw.calls)
            case _:
                return self._rollback.succeeded or (self._rollback.code in UNSEEN and not self._withdraw.succeeded)

    @property
    def answers(self) -> str:
        """What became of each operation, whether money moved, and what to do; "" without any call in the log."""
        if not self._calls:
            return ""
        named = {"withdraw": self._withdraw, "deposit": self._deposit, "rollback": self._rollback}
        due = {"withdraw", _ENDS.get(self.bet.status, "")}
        shown = {name: each for name, each in named.items() if each.calls or name in due}
        said = [f"The {name} {each.said}." for name, each in shown.items()]
        if not any(map(_may_have_moved, self._calls)):
            said.append("No money moved.")
        elif any(each.is_unclear for each in shown.values()):
            said.append("What the wallet has is not known.")
        failed = (each.deciding for each in shown.values() if each.calls and not each.succeeded)
        hints = (hint(each) for each in failed)
        return " ".join([*said, next(filter(None, hints), "")]).rstrip()


def _may_have_moved(exchange: Exchange) -> bool:
    """Return whether *exchange* may have moved money: a server may move it and then fail with an error."""
    if Fault.REQUEST_LOST in exchange.faults:
        return False
    if exchange.code is None:
        return exchange.status is None or not 300 <= exchange.status < 500
    return exchange.code in {_SUCCESS, WebhookErrorCode.SYSTEM_ERROR}
