"""
What came of exchanges and bets, as the pages show it: what the wallet really answered, and what to do about it.

A row shows one exchange. The outcome of a bet follows from all its calls in the live log, and not from what was asked.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final
from urllib.parse import urlsplit

from game_operator import text
from game_operator.codes import WebhookErrorCode
from game_operator.errors import MalformedCallError, RequestNotSentError, TransportError
from game_operator.profile import Profile
from game_operator.protocol.http import HeaderPairs
from game_operator.protocol.operations import AnyBet
from game_operator.protocol.webhook import OPERATIONS, read_call
from game_operator.text import visible
from game_operator_testkit.control_room.results import money_in
from game_operator_testkit.provider.delivery import UNSEEN, is_definite
from game_operator_testkit.provider.faults import FAULTS_TO_REFUSE, Fault
from game_operator_testkit.sandbox.dealing.balances import ReportedBalance
from game_operator_testkit.sandbox.service.exchange_log import Exchange
from game_operator_testkit.sandbox.service.key_history import KeyHistory, KeyPeriod

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

_SUCCESS: Final = "SUCCESS"
_UNKNOWN: Final = "What the wallet has is not known."
_NOT_IN_THE_LOG: Final = (
    "The live log has no call about it, so whether the wallet has confirmed that cannot be said here."
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

    @property
    def remark(self) -> str:
        """The note without what a list shows of the call anyway: its loss."""
        return "; ".join(part for part in self.exchange.note.split("; ") if part != self.loss)


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


def unknown_key(keys: KeyHistory, at_millis: int) -> str:
    """Return why the wallet answered INVALID_SIGNATURE to a right signature at *at_millis*, and what to do."""
    period = keys.at(at_millis)
    if period.is_doubtful and keys.is_now(period):
        return (
            f"the service signs with the key that it switched to at {_minute(period)} UTC, and the wallet has not "
            "accepted that key yet. Register it at the wallet: it is under Keys."
        )
    if period.is_doubtful:
        return (
            f"it was signed with the key that the service had switched to at {_minute(period)} UTC, and the wallet "
            "had not accepted that key. The service signs with another key now."
        )
    if period.accepted:
        return "it has accepted the service’s key before. Compare the key that it has now with the one under Keys."
    return "it does not know the service’s key. Give it the key under Keys."


def without_our_key(mistakes: Sequence[str], calls: Iterable[Exchange], keys: KeyHistory) -> list[str]:
    """Return *mistakes* of the wallet without those for which the service's key is the reason, as *calls* show."""
    refused = [each for each in calls if row(each).is_refused_key]
    if not refused or not all(keys.at(each.at_millis).is_doubtful for each in refused):
        return list(mistakes)
    return [each for each in mistakes if not each.endswith(f": {WebhookErrorCode.INVALID_SIGNATURE}")]


def _minute(period: KeyPeriod) -> str:
    return text.iso_time(period.began_millis or 0)[11:16]


def hint(exchange: Exchange, keys: KeyHistory, profile: Profile | None = None) -> str:
    """
    Return what *exchange*'s answer may mean, in a sentence or two; "" if it speaks for itself.

    *keys* are those that the service signed with; *profile* reads its calls, None if the service made this one itself.
    """
    if exchange.direction != "webhook" or exchange.status is None:
        return ""
    if exchange.code == WebhookErrorCode.INVALID_SIGNATURE and exchange.signature == "valid":
        why = unknown_key(keys, exchange.at_millis)
        return f"{why[0].upper()}{why[1:]}"
    is_refused = exchange.code == WebhookErrorCode.INVALID_REQUEST
    # Our receiver replies to calls at unknown addresses, too.
    if exchange.code is None or (is_refused and exchange.status in _NOT_THERE):
        return why_no_reply(exchange)
    return (_why_unusable(exchange, profile) or _OTHER_INSTANCES) if is_refused else ""


def _why_unusable(exchange: Exchange, profile: Profile | None) -> str:
    """Return why the body that was sent is not a call; "" if it is one, or nobody here can read it."""
    operation = OPERATIONS.get(exchange.path)
    # A parser of the user's may have effects.
    if operation is None or profile is None or profile.parse is not None:
        return ""
    try:
        read_call(operation, exchange.request_body, profile)
    except MalformedCallError as malformed:
        return f"The body that was sent cannot be read as a {operation}: {malformed}."
    return ""


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
    try:
        exchange.reply()
    except MalformedCallError as malformed:
        return f"The body cannot be read as a reply: {malformed}."
    return ""


def unreachable_wallet(url: str, error: TransportError) -> str:
    """Return what to say of the wallet at *url*, which gave no answer but *error*."""
    place = urlsplit(url).netloc
    if error.timed_out:
        return f"The wallet at {place} gave no answer within {error.elapsed_seconds:.0f} s. Look into its log."
    if isinstance(error, RequestNotSentError):
        return f"Nobody answers at {place}, so the call was not sent. Is the wallet running? ({error.reason})"
    return f"The wallet cannot be reached. {error}"


def raw_message(first: str, headers: HeaderPairs, body: bytes, *, longest: int) -> str:
    """
    Return a message with its *first* line as it went over the wire, as text in which nothing hides.

    Of a long body the first *longest* bytes, and as much of all headers together.
    """
    lines = [text.clean(first[:longest])]
    room = longest
    for name, value in headers:
        lines.append(visible((name + b": " + value)[:room]))
        room = max(0, room - len(name) - len(value) - 2)
    return "\n".join([*lines, "", text.body(body, longest=longest)])


@dataclass(frozen=True, slots=True)
class _Operation:
    """The calls of one operation, and the code that settled it, or None."""

    calls: Sequence[Exchange]
    code: str | None

    @property
    def succeeded(self) -> bool:
        return self.code == _SUCCESS

    @property
    def how_it_ended(self) -> str:
        """What became of it without a definite answer, as the end of a sentence."""
        if self.calls and all(Fault.REQUEST_LOST in each.faults for each in self.calls):
            return "was lost on its way, and the wallet never received it"
        lost = (each for each in self.calls if Fault.REPLY_LOST in each.faults)
        if any(each.code == _SUCCESS for each in lost):
            return "was answered SUCCESS, and that answer was lost on its way back"
        return "was not answered definitely"

    @property
    def is_known(self) -> bool:
        """Whether a lost delivery says what the wallet has of it."""
        return self.how_it_ended != "was not answered definitely"

    @property
    def unread(self) -> str:
        """Why an answer was not a reply, as one more sentence; "" if all were."""
        unread = [each for each in self.calls if each.status is not None and each.code is None]
        return f" {_no_reply(unread)}" if unread else ""


class BetOutcome:
    """
    What became of a bet, and where it stands on both sides.

    Args:
        bet: As the Operator API answers it.
        exchanges: All webhooks about it, in any order; without any, the service's word counts.
        currency: Of its instance, or "".
        early_code: The profile's ``early_deposit_code``.
        keys: What the service signed with; None if it never switched.
        wrong: The first balance in an answer about it that shows a mistake of the wallet; None if none does.
    """

    def __init__(
        self,
        bet: AnyBet,
        exchanges: Sequence[Exchange],
        currency: str,
        early_code: str = WebhookErrorCode.BET_NOT_FOUND,
        keys: KeyHistory | None = None,
        wrong: ReportedBalance | None = None,
    ) -> None:
        self.bet: AnyBet = bet
        self.exchanges: Sequence[Exchange] = exchanges
        self.wrong: ReportedBalance | None = wrong
        self._keys = keys or KeyHistory()
        self._currency, self._early_code = currency, early_code
        self._calls = [each for each in exchanges if not must_be_refused(each)]
        self._withdraw, self._deposit, self._rollback = map(self._operation, ("/withdraw", "/deposit", "/rollback"))

    def _operation(self, path: str) -> _Operation:
        calls = [each for each in self._calls if each.path == path]
        # The service did not receive what was lost on its way back.
        codes = [each.code for each in calls if Fault.REPLY_LOST not in each.faults]
        definite = [code for code in codes if code and is_definite(path[1:], code, early_code=self._early_code)]
        return _Operation(calls, _SUCCESS if _SUCCESS in definite else next(iter(definite), None))

    @property
    def headline(self) -> str:
        """What became of it, in a sentence or two."""
        if not self._calls:
            not_found = self.bet.status == "NOT_FOUND"
            return "The wallet took no wager, so there is no bet." if not_found else self._ended()
        answered = [each for each in self._calls if each.status is not None]
        codes = {each.code for each in answered}
        if codes == {WebhookErrorCode.INVALID_SIGNATURE}:
            calls = "the call" if len(answered) == 1 else f"all {len(answered)} calls"
            why = unknown_key(self._keys, min(each.at_millis for each in answered))
            return f"Not played. The wallet answered INVALID_SIGNATURE to {calls}: {why}"
        # A server may move the money and then fail with an error above.
        if codes == {None} and all(300 <= (each.status or 0) < 500 for each in answered):
            return f"Not played. {_no_reply(answered)}"
        return self._by_answers()

    @property
    def player_id(self) -> str:
        """Whose bet it is; "" if that is not known."""
        return next((each.player_id for each in self.exchanges), getattr(self.bet, "player_id", ""))

    @property
    def balance(self) -> str:
        """What the wallet had after its last answer that says so; "" if none does."""
        replies = (each.reply() for each in reversed(self._calls) if each.code == _SUCCESS)
        balance_cents = next((reply.balance_cents for reply in replies if reply.balance_cents is not None), None)
        return "" if balance_cents is None else self._sum(balance_cents)

    @property
    def service(self) -> str:
        """What the service holds, in a sentence; "" if it knows no such bet."""
        match self.bet.status:
            case "CLOSED":
                return f"For the service, this bet is settled: {self._ended()}"
            case "ROLLED_BACK":
                return f"For the service, {self.bet.player_id}’s bet of {self._sum(self.bet.wager)} is cancelled."
            case "OPEN":
                return f"For the service, {self._ended()}"
            case _:
                return ""

    @property
    def wallet(self) -> str:
        """Whether the wallet has confirmed that, as far as its answers are known; "" if there is nothing to say."""
        if not self._calls:
            return _NOT_IN_THE_LOG if self.service else ""
        if not self.service:
            return self.headline
        if self.wrong is not None:
            return f"{self._mistake(self.wrong)} {self.headline}"
        if not self.confirmed:
            return f"The wallet has not confirmed that, as far as the live log shows. {self.headline}"
        more = "" if self.headline == self._ended() else f" {self.headline}"
        return f"The wallet has confirmed that.{more}"

    @property
    def confirmed(self) -> bool | None:
        """The same; None if it is not known."""
        if not self._calls or not self.service:
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

    def _mistake(self, wrong: ReportedBalance) -> str:
        returned, due = self._sum(wrong.reported_cents), self._sum(wrong.expected_cents or 0)
        return f"A balance of this bet is wrong: the wallet returned {returned}, and it should be {due}."

    def _by_answers(self) -> str:
        withdraw, deposit, rollback = self._withdraw, self._deposit, self._rollback
        if withdraw.succeeded or (deposit.calls and not withdraw.calls):
            end = rollback if rollback.calls else deposit
            is_over = end.calls or self.bet.status in {"CLOSED", "ROLLED_BACK"}
            return self._ended() if end.succeeded or not is_over else self._placed(end)
        if withdraw.code is not None:
            reason = _REASONS.get(withdraw.code, "").format(player=self._calls[0].player_id)
            more = next(hint(each, self._keys) for each in withdraw.calls if each.code == withdraw.code)
            why = f", {reason}" if reason else ""
            return f"The wallet refused: {withdraw.code}{why}. No wager was taken. {more}".rstrip()
        before = f"The withdraw {withdraw.how_it_ended if withdraw.calls else 'is not in the live log'}"
        if rollback.succeeded:
            return f"Cancelled. {before}; its rollback was answered SUCCESS, so no wager is taken."
        if rollback.code in UNSEEN:
            return f"Cancelled. {before}, and to its rollback the answer is {rollback.code}."
        if rollback.code is not None:
            return f"{before}, and its rollback was refused: {rollback.code}. {_UNKNOWN}"
        if not withdraw.calls:
            return f"{before}, and its rollback {rollback.how_it_ended}.{'' if rollback.is_known else f' {_UNKNOWN}'}"
        if withdraw.is_known and rollback.is_known:
            return f"The service gave up. {before}; its rollback {rollback.how_it_ended}."
        gave_up = "The service gave up: neither the withdraw nor its rollback was answered definitely."
        return f"{gave_up} {_UNKNOWN}{withdraw.unread or rollback.unread}"

    def _placed(self, end: _Operation) -> str:
        """Return what is known of a bet that was placed, and whose *end* the wallet has not confirmed."""
        bet, name = self.bet, "rollback" if self.bet.status == "ROLLED_BACK" else "deposit"
        wager = "The wager" if bet.status == "NOT_FOUND" else f"{bet.player_id}’s wager of {self._sum(bet.wager)}"
        if not end.calls:
            return f"{wager} was taken, and no answer to its {name} is in the live log. {_UNKNOWN}"
        if end.code is None:
            unknown = "" if end.is_known else f" {_UNKNOWN}{end.unread}"
            return f"{wager} was taken, and the service gave up: the {name} {end.how_it_ended}.{unknown}"
        return f"{wager} was taken, and the wallet refused the {name}: {end.code}."

    def _ended(self) -> str:
        bet = self.bet
        match bet.status:
            case "CLOSED" if bet.won:
                return f"{bet.player_id} wagered {self._sum(bet.wager)} and won {self._sum(bet.won)}."
            case "CLOSED":
                return f"{bet.player_id} wagered {self._sum(bet.wager)} and lost."
            case "ROLLED_BACK":
                return f"{bet.player_id}’s wager of {self._sum(bet.wager)} was taken and given back."
            case "OPEN":
                return f"{bet.player_id}’s bet of {self._sum(bet.wager)} is still open."
            case _:
                return "The service does not know this bet any more."

    def _sum(self, cents: int) -> str:
        return money_in(cents, self._currency)


def _no_reply(answered: Sequence[Exchange]) -> str:
    first = min(answered, key=lambda each: each.number)
    return f"{text.clean(first.url or first.path)} answered HTTP {first.status}, and no reply. {why_no_reply(first)}"
