"""What came of an exchange, as the pages show it: what the wallet really answered, what that means, and what to do."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from game_operator import text
from game_operator.codes import WebhookErrorCode
from game_operator.errors import RequestNotSentError, TransportError
from game_operator_testkit.provider.faults import FAULTS_TO_REFUSE, Fault
from game_operator_testkit.sandbox.service.exchange_log import Exchange

if TYPE_CHECKING:
    from game_operator_testkit.sandbox.server import Sandbox

#: Signatures that a correct wallet refuses.
_WRONGLY_SIGNED: Final = frozenset({"forged", "old key", "other bytes"})
#: What got lost on the way, by the fault that did it.
_LOSSES: Final = {Fault.REQUEST_LOST: "request lost", Fault.REPLY_LOST: "reply lost"}
#: HTTP statuses of a server that has nothing at this address.
_NOT_THERE: Final = frozenset({404, 405})
#: A wallet of one casino rightly refuses the sandbox's made-up games.
_OTHER_INSTANCES: Final = (
    "A receiver that was given instances= refuses all game instances but its own: leave that out in a wallet under "
    "test, or give it the sandbox’s ids."
)

_UNKNOWN_KEY: Final = (
    "The wallet does not know the key that signed this call. Compare the key that it has with the one under Keys; "
    "after a switch, register the new one there."
)

_SUCCESS: Final = "SUCCESS"
#: What the codes of a wallet mean, in a sentence.
_MEANINGS: Final[dict[str, str]] = {
    WebhookErrorCode.INSUFFICIENT_BALANCE: "The player has less than the wager, so no money moved.",
    WebhookErrorCode.PLAYER_NOT_FOUND: "The wallet does not know this player, so no money moved.",
    WebhookErrorCode.BET_NOT_FOUND: "The wallet has not seen this bet, so no money moved.",
    WebhookErrorCode.BET_ALREADY_CLOSED: "For the wallet the bet is settled, so this call moved nothing more.",
    WebhookErrorCode.BET_ROLLED_BACK: "For the wallet the bet is cancelled, so no money moved.",
    WebhookErrorCode.DUPLICATE_TRANSACTION: "The wallet has had another call with this tx_id, so no money moved.",
    WebhookErrorCode.PLAYER_BLOCKED: "The player may not play, so no money moved.",
    WebhookErrorCode.LIMIT_EXCEEDED: "The wager is above a limit of the player, so no money moved.",
    WebhookErrorCode.INVALID_REQUEST: "The wallet cannot use this call, so no money moved.",
    WebhookErrorCode.INVALID_SIGNATURE: "The wallet does not accept the signature of this call, so no money moved.",
    WebhookErrorCode.SYSTEM_ERROR: "The wallet failed. It may have moved the money or not, and the call is sent again.",
}
_MOVED: Final = {"withdraw": "took {0}", "deposit": "paid {0}", "rollback": "gave {0} back"}


@dataclass(frozen=True, slots=True)
class ExchangeRow:
    """
    A line of the list.

    Attributes:
        exchange: What is shown.
        answer: The code of a webhook's reply, the status of another answer, or that there was none. ``accepted`` is a
            SUCCESS to what had to be refused.
        tone: How it is coloured: ``good``, ``bad``, ``warn`` (refused by the rules, which is an answer too).
        loss: What was lost, so that the service received no answer: ``request lost``, ``reply lost`` (the wallet
            answered) or ``no answer``; "" if it received one.
    """

    exchange: Exchange
    answer: str
    tone: str
    loss: str = ""

    @property
    def took(self) -> str:
        """How long it took; – for what was never sent."""
        return "–" if self.loss == "request lost" else text.duration(self.exchange.elapsed_ms)

    @property
    def is_refused_key(self) -> bool:
        """Whether the wallet refused a right signature, because it does not know the service's key."""
        is_ours = self.exchange.direction == "webhook" and self.exchange.signature == "valid"
        return is_ours and self.exchange.code == WebhookErrorCode.INVALID_SIGNATURE


def row(exchange: Exchange) -> ExchangeRow:
    """Return *exchange* as a line of the list."""
    answer, tone = str(exchange.status), "good"
    if exchange.status is None:
        answer, tone = "no answer", "bad"
    elif exchange.status >= 400:
        tone = "bad"
    elif exchange.direction == "webhook":
        code = exchange.code
        if code is None:
            answer, tone = f"{exchange.status}, unreadable", "bad"
        elif code == _SUCCESS:
            answer, tone = ("accepted", "bad") if must_be_refused(exchange) else (_SUCCESS, "good")
        else:
            answer, tone = code, "bad" if code == WebhookErrorCode.SYSTEM_ERROR else "warn"
    return ExchangeRow(exchange, answer, tone, _loss(exchange))


def _loss(exchange: Exchange) -> str:
    by_fault = (loss for fault, loss in _LOSSES.items() if fault in exchange.faults)
    return next(by_fault, "no answer" if exchange.status is None else "")


def folded(exchanges: Iterable[Exchange]) -> list[tuple[ExchangeRow, int]]:
    """Return *exchanges* as rows, of equal ones in a row only the first, each with their number."""
    alike = groupby(map(row, exchanges), lambda row: (row.exchange.path, row.answer, row.exchange.fault))
    groups = [list(group) for _, group in alike]
    return [(group[0], len(group)) for group in groups]


def must_be_refused(exchange: Exchange) -> bool:
    """Return whether *exchange* was sent beside a call, and no correct wallet accepts it."""
    return exchange.signature in _WRONGLY_SIGNED or not FAULTS_TO_REFUSE.isdisjoint(exchange.faults)


def meaning(answered: ExchangeRow) -> str:
    """Return what a wallet's answer means, in a sentence; "" if it has no reply, or an unusual code."""
    exchange = answered.exchange
    if exchange.code == WebhookErrorCode.INVALID_SIGNATURE and exchange.signature != "valid":
        return "The wallet refuses the wrong signature of this call, as it must, so no money moved."
    if exchange.code != _SUCCESS:
        return _MEANINGS.get(exchange.code or "", "")
    if answered.answer != exchange.code:
        return "The wallet accepted a call that it must refuse: it may have moved money for anybody."
    moved = _MOVED.get(exchange.operation, "") if exchange.amount_cents is not None else ""
    if not moved or exchange.balance_cents is None:
        return ""
    done = moved.format(text.money(exchange.amount_cents or 0))
    balance = f"that the player now has {text.money(exchange.balance_cents)}"
    return f"By this answer the wallet {done}, now or at an earlier delivery. It says {balance}."


def hint(exchange: Exchange) -> str:
    """Return why *exchange*'s answer may be so, and what to do, in a sentence or two; "" if it speaks for itself."""
    if exchange.direction != "webhook" or exchange.status is None:
        return ""
    if exchange.code == WebhookErrorCode.INVALID_SIGNATURE and exchange.signature == "valid":
        return _UNKNOWN_KEY
    is_refused = exchange.code == WebhookErrorCode.INVALID_REQUEST
    # Our receiver replies to calls at unknown addresses, too.
    if exchange.code is None or (is_refused and exchange.status in _NOT_THERE):
        return why_no_reply(exchange)
    return _OTHER_INSTANCES if is_refused else ""


def why_no_reply(exchange: Exchange) -> str:
    """Return why an answer comes from no webhook, or is not a reply, and what to do (spec §2.1)."""
    status = exchange.status or 0
    if status in _NOT_THERE:
        return (
            f"The wallet’s address must be the one that {exchange.path} is below; is a prefix such as /wallet missing?"
        )
    if status >= 500:
        return "Your wallet failed: look into its log."
    if 300 <= status < 400:
        return "The service follows no redirect: give it the address that the wallet itself answers at."
    return f"The body cannot be read as a reply: {exchange.problem}." if exchange.problem else ""


def unreachable_wallet(sandbox: "Sandbox", error: TransportError) -> str:
    """Return what to say of the wallet, which gave no answer but *error*."""
    place = urlsplit(sandbox.wallet_url or "").netloc
    if error.timed_out:
        return f"The wallet at {place} gave no answer within {error.elapsed_seconds:.0f} s. Look into its log."
    if isinstance(error, RequestNotSentError):
        return f"Nobody answers at {place}, so the call was not sent ({error.reason}). Is the wallet running?"
    return f"The wallet cannot be reached. {error}"
