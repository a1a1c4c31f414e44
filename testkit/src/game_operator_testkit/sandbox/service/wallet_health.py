"""
How the wallet is: its last answer, since when there is none, and its last error.

Each webhook is looked at once, when it is over, so that every page can show this without reading the live log. What a
fault keeps from being answered says nothing of the wallet.
"""

from dataclasses import dataclass, replace
from threading import Lock
from typing import Final

from game_operator.codes import WebhookErrorCode
from game_operator_testkit.provider.faults import Fault
from game_operator_testkit.sandbox.service.exchange_log import Exchange

#: With these the service goes on without an answer, on purpose.
_UNANSWERED_ON_PURPOSE: Final = frozenset({Fault.REQUEST_LOST, Fault.TIMEOUT, Fault.RESET})
#: Refusals that no rule of the game explains.
_NOT_BY_THE_RULES: Final = frozenset({WebhookErrorCode.SYSTEM_ERROR, WebhookErrorCode.INVALID_SIGNATURE})
_SUCCESS: Final = "SUCCESS"


@dataclass(frozen=True, slots=True)
class WalletAnswer:
    """
    An answer of the wallet, or that there was none.

    Attributes:
        at_millis: When it came, by the machine's clock.
        code: The error code or ``SUCCESS``; None if there was no reply of spec §2.1.
        status: The HTTP status; None if there was no answer.
        elapsed_ms: How long it took.
        path: The webhook, such as ``/withdraw``; "" if it could not even be sent.
        number: Its number in the live log; 0 if it is not there.
        is_wrongly_accepted: Whether the wallet accepted what no correct wallet accepts.
    """

    at_millis: int
    code: str | None = None
    status: int | None = None
    elapsed_ms: float = 0.0
    path: str = ""
    number: int = 0
    is_wrongly_accepted: bool = False


@dataclass(frozen=True, slots=True)
class WalletHealth:
    """
    What is known of the wallet.

    Attributes:
        last: Its last answer to a genuine call; None if there was none yet.
        silent_since_millis: When the first call went unanswered since then; None if it answers, or was never asked.
        last_error: The last answer that no rule of the game explains, or the last missing one, lost by a fault or not.
    """

    last: WalletAnswer | None = None
    silent_since_millis: int | None = None
    last_error: WalletAnswer | None = None


class HealthWatch:
    """Watches the wallet's answers, from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._health = WalletHealth()

    @property
    def now(self) -> WalletHealth:
        """What is known now."""
        return self._health

    def saw(self, exchange: Exchange, *, is_genuine: bool) -> WalletAnswer | None:
        """Take notice of a webhook that is over, and return its answer; None if it says nothing of the wallet."""
        ended_millis = exchange.at_millis + round(exchange.elapsed_ms)
        lost = WalletAnswer(ended_millis, path=exchange.path, number=exchange.number)
        answer = replace(
            lost,
            code=exchange.code,
            status=exchange.status,
            elapsed_ms=exchange.elapsed_ms,
            is_wrongly_accepted=exchange.code == _SUCCESS and not is_genuine,
        )
        not_awaited = exchange.status is None and not _UNANSWERED_ON_PURPOSE.isdisjoint(exchange.faults)
        with self._lock:
            if is_genuine and not not_awaited:
                self._health = _with_answer(self._health, answer)
            if is_genuine and (not_awaited or Fault.REPLY_LOST in exchange.faults):
                # The money may be wrong because of it.
                self._health = replace(self._health, last_error=lost)
            elif (is_genuine and _is_error(answer)) or answer.is_wrongly_accepted:
                self._health = replace(self._health, last_error=answer)
        return None if not_awaited else answer

    def unreachable(self, at_millis: int) -> None:
        """Take notice that nobody could be reached."""
        answer = WalletAnswer(at_millis)
        with self._lock:
            self._health = replace(_with_answer(self._health, answer), last_error=answer)


def _with_answer(health: WalletHealth, answer: WalletAnswer) -> WalletHealth:
    if answer.status is None:
        return replace(health, silent_since_millis=health.silent_since_millis or answer.at_millis)
    return replace(health, last=answer, silent_since_millis=None)


def _is_error(answer: WalletAnswer) -> bool:
    return answer.code is None or (answer.status or 0) >= 400 or answer.code in _NOT_BY_THE_RULES
