"""What an answer of the wallet may mean, and what to do about it."""

from typing import Final

from game_operator.codes import WebhookErrorCode
from game_operator.errors import MalformedCallError
from game_operator.sandbox.service.exchange_log import Exchange

__all__ = ["hint", "why_no_reply"]

#: HTTP statuses of a server that has nothing at this address.
_NOT_THERE: Final = frozenset({404, 405})
#: A wallet of one casino rightly refuses the sandbox's made-up games.
_OTHER_INSTANCES: Final = (
    "A receiver that was given instances= refuses all game instances but its own: leave that out in a wallet under "
    "test, or give it the sandbox’s ids."
)


def hint(exchange: Exchange) -> str:
    """Return what is to say of *exchange*'s answer, in a sentence or two; "" if it speaks for itself."""
    if exchange.direction != "webhook" or exchange.status is None:
        return ""
    try:
        code = exchange.reply().code
    except MalformedCallError:
        return why_no_reply(exchange)
    if code != WebhookErrorCode.INVALID_REQUEST:
        return ""
    # Our own receiver replies to what is called at no address of its, too.
    return _by_status(exchange.status, exchange.path, "") if exchange.status in _NOT_THERE else _OTHER_INSTANCES


def why_no_reply(exchange: Exchange) -> str:
    """Return what is wrong with an answer that is no reply, and what to do; "" if it is one (spec §2.1)."""
    try:
        exchange.reply()
    except MalformedCallError as malformed:
        return _by_status(exchange.status or 0, exchange.path, str(malformed))
    return ""


def _by_status(status: int, path: str, reason: str) -> str:
    if status in _NOT_THERE:
        return f"The wallet’s address must be the one that {path} is below; is a prefix such as /wallet missing?"
    if status >= 500:
        return "Your wallet failed: look into its log."
    if 300 <= status < 400:
        return "The service follows no redirect: give it the address that the wallet itself answers at."
    return f"The body cannot be read as a reply: {reason}."
