"""What an error code lets the service conclude about the call (assumed, docs/decisions/0013)."""

from enum import Enum, auto
from typing import Final

from game_operator.codes import WebhookErrorCode

__all__ = ["Finality", "finality"]


class Finality(Enum):
    """What becomes of a refused call."""

    #: It moved nothing and, unchanged, never will: it is not sent again.
    FINAL = auto()
    #: It moved nothing yet: it is sent again.
    REPEAT = auto()
    #: Nobody can say: it is sent again.
    UNKNOWN = auto()
    #: The code is none of the assumed ones.
    STRANGE = auto()


_NOT_YET: Final = frozenset({WebhookErrorCode.BET_NOT_FOUND.value, WebhookErrorCode.PLAYER_NOT_FOUND.value})
_KNOWN: Final = frozenset(code.value for code in WebhookErrorCode)


def finality(operation: str, code: str, *, early_code: str = WebhookErrorCode.BET_NOT_FOUND) -> Finality:
    """
    Return what *code* says about a call of *operation*.

    *early_code* is the profile's ``early_deposit_code``: a service with another one gives up a deposit that is told
    that there is no bet.
    """
    if code == WebhookErrorCode.SYSTEM_ERROR:
        return Finality.UNKNOWN
    is_early = operation == "deposit" and code in _NOT_YET and early_code == WebhookErrorCode.BET_NOT_FOUND
    if code == WebhookErrorCode.INVALID_SIGNATURE or is_early:
        return Finality.REPEAT
    # An operator's own codes refuse withdraws alone, and for good.
    return Finality.FINAL if code in _KNOWN or operation == "withdraw" else Finality.STRANGE
