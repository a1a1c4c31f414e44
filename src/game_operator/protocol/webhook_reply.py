"""
The reply to a webhook on the wire (spec §2.1, §7.1).

The balance is written from whole cents, digit for digit: no amount passes through a float.
"""

from collections.abc import Sequence
from typing import Final

from game_operator.models.webhooks import Reply
from game_operator.money import json_cents
from game_operator.profile import Profile
from game_operator.protocol.exact_json import encode_json

#: What each code becomes for a service that knows five of them and SYSTEM_ERROR (docs/decisions/0013). What is not
#: here becomes INVALID_REQUEST: an operator's own codes too, which refuse withdraws alone.
_FOLDED: Final = {
    "INSUFFICIENT_BALANCE": "INSUFFICIENT_BALANCE",
    "PLAYER_NOT_FOUND": "PLAYER_NOT_FOUND",
    "BET_NOT_FOUND": "BET_NOT_FOUND",
    "BET_ALREADY_CLOSED": "BET_ALREADY_CLOSED",
    "BET_ROLLED_BACK": "BET_ALREADY_CLOSED",
    # Both ask for the call again, and INVALID_REQUEST would not.
    "INVALID_SIGNATURE": "SYSTEM_ERROR",
    "SYSTEM_ERROR": "SYSTEM_ERROR",
}


def fold_code(code: str, profile: Profile) -> str:
    """Return what *code* is called on the wire: itself, or one of the core codes (assumed, docs/decisions/0013)."""
    if profile.codes == "extended":
        return code
    return _FOLDED.get(code, "INVALID_REQUEST")


def encode_reply(reply: Reply, *, now_millis: int) -> bytes:
    """Return the body of spec §2.1; *now_millis* is its time where *reply* has none."""
    timestamp = now_millis if reply.timestamp is None else reply.timestamp
    balance = b"" if reply.balance_cents is None else b'"balance":%b,' % json_cents(reply.balance_cents).encode()
    if reply.code is None:
        return b'{"type":"SUCCESS",%b"timestamp":%d}' % (balance, timestamp)
    try:
        code = encode_json(reply.code)
    except UnicodeEncodeError:  # A Reply made by hand can hold anything, and a reply must be JSON.
        code = encode_json(reply.code.encode(errors="replace").decode())
    return b'{"type":"ERROR","code":%b,%b"timestamp":%d}' % (code, balance, timestamp)


def encode_batch_reply(items: Sequence[tuple[str | None, Reply]], *, now_millis: int) -> bytes:
    """Return the answer to a batch: (tx_id, reply) in order, as an array (assumed, docs/decisions/0010)."""
    answers = [
        b'{"tx_id":' + encode_json(tx_id) + b"," + encode_reply(reply, now_millis=now_millis)[1:]
        for tx_id, reply in items
    ]
    return b"[" + b",".join(answers) + b"]"
