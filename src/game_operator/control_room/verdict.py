"""What became of a bet, told from what the wallet really answered and not from what was asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from game_operator.codes import WebhookErrorCode
from game_operator.control_room.exchanges import must_be_refused
from game_operator.control_room.hints import hint, why_no_reply
from game_operator.control_room.words import money, visible
from game_operator.errors import MalformedCallError, TransportError
from game_operator.protocol.operations import AnyBet
from game_operator.provider.delivery import NO_HELP
from game_operator.provider.faults import Fault
from game_operator.sandbox.service.exchange_log import Exchange

__all__ = ["Standing", "headline", "standing", "unreachable_wallet"]

_SUCCESS: Final = "SUCCESS"
#: To a deposit these leave open what becomes of it (docs/decisions/0013).
_TOO_EARLY: Final = frozenset({WebhookErrorCode.BET_NOT_FOUND, WebhookErrorCode.PLAYER_NOT_FOUND})
_PATHS: Final = ("/withdraw", "/deposit", "/rollback")
_NOT_KNOWN: Final = "What the wallet has is not known."
_NOT_IN_THE_LOG: Final = (
    "The live log has no call about it, so whether the wallet has confirmed that cannot be told here."
)
_REASONS: Final = {
    WebhookErrorCode.INSUFFICIENT_BALANCE: "{player} has less than the wager",
    WebhookErrorCode.PLAYER_NOT_FOUND: "it knows no player {player}",
    WebhookErrorCode.PLAYER_BLOCKED: "{player} may not play",
    WebhookErrorCode.LIMIT_EXCEEDED: "the wager is above a limit of {player}’s",
    WebhookErrorCode.BET_ROLLED_BACK: "the bet was cancelled before",
    WebhookErrorCode.INVALID_REQUEST: "it cannot make sense of the call",
}


@dataclass(frozen=True, slots=True)
class _Heard:
    """What was answered to one operation: the code that settled it, or None, and whether it was ever sent."""

    code: str | None
    sent: bool

    @property
    def succeeded(self) -> bool:
        return self.code == _SUCCESS


def headline(bet: AnyBet, exchanges: Sequence[Exchange], currency: str) -> str:
    """
    Return what became of *bet*, in a sentence or two.

    Args:
        bet: As the Operator API answers it.
        exchanges: All webhooks about it, in any order; without any, the service's own word counts.
        currency: Of its instance, or "".
    """
    genuine = _genuine(exchanges)
    if not genuine:
        return "The wallet took no wager, so there is no bet." if bet.status == "NOT_FOUND" else _ended(bet, currency)
    return _not_played(genuine) or _told(bet, genuine, currency)


@dataclass(frozen=True, slots=True)
class Standing:
    """
    Where a bet stands, on both sides.

    Attributes:
        service: What the service holds, in a sentence; "" if it knows no such bet.
        wallet: Whether the wallet has confirmed that, as far as its answers are known; "" if there is nothing to say.
        confirmed: The same: None if it is not known.
    """

    service: str
    wallet: str
    confirmed: bool | None


def standing(bet: AnyBet, exchanges: Sequence[Exchange], currency: str) -> Standing:
    """Return where *bet* stands; see ``headline``."""
    service = _held(bet, currency)
    genuine = _genuine(exchanges)
    if not genuine:
        return Standing(service, _NOT_IN_THE_LOG if service else "", None)
    told = headline(bet, exchanges, currency)
    if not service:
        return Standing("", told, None)
    if not _is_confirmed(bet, genuine):
        return Standing(service, f"The wallet has not confirmed that, as far as the live log shows. {told}", False)
    more = "" if told == _ended(bet, currency) else f" {told}"
    return Standing(service, f"The wallet has confirmed that.{more}", True)


def unreachable_wallet(url: str, error: TransportError) -> str:
    """Return what to say of the wallet at *url*, of which there is no answer but *error*."""
    if "connection refused" in str(error).lower():
        return f"Nobody answers at {urlsplit(url).netloc} (connection refused). Is the wallet running?"
    return f"The wallet cannot be reached. {error}"


def _genuine(exchanges: Sequence[Exchange]) -> list[Exchange]:
    return [each for each in exchanges if not must_be_refused(each)]


def _is_confirmed(bet: AnyBet, exchanges: Sequence[Exchange]) -> bool:
    withdraw, deposit, rollback = (_heard(exchanges, path) for path in _PATHS)
    match bet.status:
        case "OPEN":
            return withdraw.succeeded
        case "CLOSED":
            # Of an old bet the log may have lost the withdraw, and no deposit follows one that failed.
            return deposit.succeeded and (withdraw.succeeded or not withdraw.sent)
        case _:
            return rollback.succeeded or (rollback.code in _TOO_EARLY and not withdraw.succeeded)


def _held(bet: AnyBet, currency: str) -> str:
    match bet.status:
        case "CLOSED":
            return f"For the service, this bet is settled: {_ended(bet, currency)}"
        case "ROLLED_BACK":
            return f"For the service, {bet.player_id}’s bet of {_sum(bet.wager, currency)} is cancelled."
        case "OPEN":
            return f"For the service, {_ended(bet, currency)}"
        case _:
            return ""


def _not_played(exchanges: Sequence[Exchange]) -> str:
    """Return why no call was even looked at, or "" if one was."""
    answered = [each for each in exchanges if each.status is not None]
    codes = {_code(each) for each in answered}
    if codes == {WebhookErrorCode.INVALID_SIGNATURE}:
        calls = "the call" if len(answered) == 1 else f"all {len(answered)} calls"
        return (
            f"Not played. The wallet answered INVALID_SIGNATURE to {calls}: it does not know the service’s key. "
            "Give it the key under Keys."
        )
    # An error of the server's own may come after the money was moved.
    if codes == {None} and all(300 <= (each.status or 0) < 500 for each in answered):
        return f"Not played. {_no_reply(answered)}"
    return ""


def _no_reply(answered: Sequence[Exchange]) -> str:
    first = min(answered, key=lambda each: each.number)
    return (
        f"{visible((first.url or first.path).encode(errors='backslashreplace'))} answered HTTP {first.status}, and no "
        f"reply. {why_no_reply(first)}"
    )


def _told(bet: AnyBet, exchanges: Sequence[Exchange], currency: str) -> str:
    withdraw, deposit, rollback = (_heard(exchanges, path) for path in _PATHS)
    if withdraw.succeeded or (deposit.sent and not withdraw.sent):
        end = rollback if rollback.sent else deposit
        is_over = end.sent or bet.status in {"CLOSED", "ROLLED_BACK"}
        return _ended(bet, currency) if end.succeeded or not is_over else _taken(bet, end, exchanges, currency)
    if withdraw.code is not None:
        player = exchanges[0].player_id
        reason = _REASONS.get(WebhookErrorCode(withdraw.code)) if withdraw.code in set(WebhookErrorCode) else None
        why = f", {reason.format(player=player)}" if reason else ""
        more = next(hint(each) for each in exchanges if each.path == "/withdraw" and _code(each) == withdraw.code)
        return f"The wallet refused: {withdraw.code}{why}. No wager was taken. {more}".rstrip()
    before = f"The withdraw {'was not answered definitely' if withdraw.sent else 'is not in the live log'}"
    if rollback.succeeded:
        return f"Cancelled. {before}; its rollback was answered SUCCESS, so no wager is taken."
    if rollback.code in _TOO_EARLY:
        return f"Cancelled. {before}, and to its rollback the answer is {rollback.code}."
    if rollback.code is not None:
        return f"{before}, and its rollback was refused: {rollback.code}. {_NOT_KNOWN}"
    if not withdraw.sent:
        return f"{before}, and its rollback was not answered definitely. {_NOT_KNOWN}"
    return _gave_up(exchanges)


def _gave_up(exchanges: Sequence[Exchange]) -> str:
    why = _unread(exchanges, "/withdraw") or _unread(exchanges, "/rollback")
    return f"The service gave up: neither the withdraw nor its rollback was answered definitely. {_NOT_KNOWN}{why}"


def _unread(exchanges: Sequence[Exchange], path: str) -> str:
    """Return why an answer to *path* was no reply, as one more sentence; "" if none was so."""
    unread = [each for each in exchanges if each.path == path and each.status is not None and _code(each) is None]
    return f" {_no_reply(unread)}" if unread else ""


def _taken(bet: AnyBet, end: _Heard, exchanges: Sequence[Exchange], currency: str) -> str:
    """Return what is known of a bet that was placed, and whose end the wallet has not confirmed."""
    name = "rollback" if bet.status == "ROLLED_BACK" else "deposit"
    wager = "The wager" if bet.status == "NOT_FOUND" else f"{bet.player_id}’s wager of {_sum(bet.wager, currency)}"
    if not end.sent:
        return f"{wager} was taken, and no answer to its {name} is in the live log. {_NOT_KNOWN}"
    if end.code is None:
        why = _unread(exchanges, f"/{name}")
        return f"{wager} was taken, and the service gave up: the {name} was not answered definitely. {_NOT_KNOWN}{why}"
    return f"{wager} was taken, and the wallet refused the {name}: {end.code}."


def _ended(bet: AnyBet, currency: str) -> str:
    match bet.status:
        case "CLOSED" if bet.won:
            return f"{bet.player_id} wagered {money(bet.wager)} and won {_sum(bet.won, currency)}."
        case "CLOSED":
            return f"{bet.player_id} wagered {_sum(bet.wager, currency)} and lost."
        case "ROLLED_BACK":
            return f"{bet.player_id}’s wager of {_sum(bet.wager, currency)} was taken and given back."
        case "OPEN":
            return f"{bet.player_id}’s bet of {_sum(bet.wager, currency)} is still open."
        case _:
            return "The service does not know this bet any more."


def _sum(cents: int, currency: str) -> str:
    return f"{money(cents)} {currency}".rstrip()


def _heard(exchanges: Sequence[Exchange], path: str) -> _Heard:
    sent = [each for each in exchanges if each.path == path]
    unsettling = NO_HELP | _TOO_EARLY if path == "/deposit" else NO_HELP
    # What was lost on its way back, the service has not heard.
    codes = [_code(each) for each in sent if Fault.REPLY_LOST not in each.fault.split(", ")]
    definite = [code for code in codes if code is not None and code not in unsettling]
    return _Heard(_SUCCESS if _SUCCESS in definite else next(iter(definite), None), bool(sent))


def _code(exchange: Exchange) -> str | None:
    """Return the code of the reply, or None if there was none."""
    if exchange.status is None:
        return None
    try:
        return exchange.reply().code or _SUCCESS
    except MalformedCallError:
        return None
