"""
The reply to a webhook, as the service reads it (spec §2.1, §7.1).

The balance becomes whole cents, digit for digit: no amount passes through a float.
"""

from decimal import Decimal
from typing import Any, Final

from game_operator.errors import MalformedCallError, one_line, shown
from game_operator.models.webhooks import Reply
from game_operator.money import Cents, cents_from_amount
from game_operator.protocol.exact_json import read_json

#: The specification names no limit; all its codes are far shorter.
_LONGEST_CODE: Final = 256
_LONGEST_NUMBER: Final = 40


def read_reply(body: bytes) -> Reply:
    """
    Return the reply in *body*, as the service reads it (spec §2.1); members that are not of spec §2.1 are passed over.

    Raises:
        MalformedCallError: It is not of spec §2.1, or its balance does not fit 64 bits. If the balance is finer than a
            cent, the cause is a ``FinerThanACentError``.
    """
    return _read(read_json(body))


def read_batch_reply(body: bytes) -> dict[str, Reply]:
    """
    Return the replies in *body*, the answer to a batch, by tx_id (assumed, docs/decisions/0010).

    Raises:
        MalformedCallError: It is not an array of replies, each with a different tx_id.
    """
    items = read_json(body)
    if not isinstance(items, list):
        raise MalformedCallError(f"the answer to a batch must be a JSON array, not {shown(items)}")
    replies: dict[str, Reply] = {}
    for item in items:
        reply, tx_id = _read(item), item.get("tx_id")
        if not isinstance(tx_id, str) or tx_id in replies:
            raise MalformedCallError(f"an answer in a batch must have its own tx_id, not {shown(tx_id)}")
        replies[tx_id] = reply
    return replies


def _read(value: Any) -> Reply:  # Any: what the JSON parser made.
    if not isinstance(value, dict):
        raise MalformedCallError(f"a reply must be a JSON object, not {shown(value)}")
    kind, code, balance, timestamp = map(value.get, ("type", "code", "balance", "timestamp"))
    if kind not in ("SUCCESS", "ERROR"):
        raise MalformedCallError(f"a reply's type must be SUCCESS or ERROR, {_but(kind)}")
    is_error = kind == "ERROR"
    if is_error:
        _check_code(code)
    # Both are optional with an ERROR, and many programs write null for what they do not have.
    cents = None if is_error and balance is None else _balance_cents(balance)
    is_whole = type(timestamp) is Decimal and timestamp == timestamp.to_integral_value()
    if type(timestamp) is not int and not is_whole and not (is_error and timestamp is None):
        raise MalformedCallError(f"a timestamp must be whole Unix milliseconds, {_but(timestamp)}")
    millis = None if timestamp is None else int(timestamp)
    try:
        return Reply(code=code if is_error else None, balance_cents=cents, timestamp=millis)
    except ValueError as wrong:
        raise MalformedCallError(str(wrong)) from None


def _check_code(code: object) -> None:
    if not isinstance(code, str):
        raise MalformedCallError(f"an ERROR must have a code, which is a string, {_but(code)}")
    if not 1 <= len(code) <= _LONGEST_CODE:
        raise MalformedCallError(f"a code must have 1 to {_LONGEST_CODE} characters, not {len(code)}: {shown(code)}")
    try:
        code.encode()
    except UnicodeEncodeError:
        # Printing it, or putting it on a page, would fail there.
        raise MalformedCallError(f"a code must be UTF-8, without a lone surrogate, not {shown(code)}") from None


def _balance_cents(value: object) -> Cents:
    amount = Decimal(value) if type(value) is int else value
    if not isinstance(amount, Decimal):
        raise MalformedCallError(f"a balance must be a number in currency units, {_but(value)}")
    try:
        return cents_from_amount(amount)
    except ValueError as wrong:
        raise MalformedCallError(f"the balance cannot be read: {wrong}") from wrong


def _but(value: object) -> str:
    if value is None:
        return "but it is missing"
    # Of a number its digits, and not what Python calls it.
    return f"not {one_line(str(value), _LONGEST_NUMBER) if isinstance(value, Decimal) else shown(value)}"
