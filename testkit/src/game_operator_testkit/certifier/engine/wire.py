"""What the bytes of an answer show beside what they say: an exception's text, and why there is no reply in them."""

import re
from decimal import Decimal
from typing import Final

from game_operator.errors import MalformedCallError, shown
from game_operator.money import FinerThanACentError
from game_operator_testkit.certifier.report.verdicts import TURNING_AWAY, KnownCause
from game_operator_testkit.provider.delivery import Carried
from game_operator_testkit.provider.replies import read_reply

#: What only the text of an exception has, in any of the languages that wallets are written in. A sentence for people
#: does not match.
_EXCEPTION: Final = re.compile(
    b"|".join(
        (
            rb"Traceback \(most recent",
            rb"\b[A-Z][A-Za-z]{0,80}(?:Exception|Error): ",
            rb"\b(?:[A-Za-z]{1,40}\.){1,8}[A-Z]\w{0,80}(?:Exception|Error)\b",
            # Databases.
            rb"SQLSTATE|SQLITE_[A-Z]+|\bORA-\d{5}|\bER_[A-Z_]{4,}",
            rb"(?:UNIQUE|NOT NULL|CHECK|FOREIGN KEY) constraint failed",
            rb"duplicate key value violates|Duplicate entry '|violates \S+ constraint|syntax error at or near",
            rb"no such (?:table|column):|database is locked|deadlock detected|relation \S+ does not exist",
            # Places in a program.
            rb"\bat \S+ \(?(?:file:|node:|/)[^\s\"]*:\d+:\d+",
            rb"[\w/\\.-]{1,200}\.(?:js|mjs|cjs|ts|py|php|go|java|rb|cs|kt):\d+",
            # What JavaScript, Go, PHP and Python say.
            rb"Unexpected (?:token|end of JSON)\b|in JSON at position|\bis not (?:a function|iterable)\b",
            rb"Cannot read propert|to a BigInt\b|goroutine \d+ \[|nil pointer dereference|\bpanic: ",
            rb"json: cannot unmarshal|strconv\.\w+: |Call to (?:undefined|a member)|Uncaught [A-Z]\w+",
            rb"Undefined (?:array key|index|variable|property)|invalid literal for|object has no attribute",
            rb"ECONNREFUSED|could not connect to|Connection refused",
        )
    )
)
#: How much of an answer is looked through, and how much around the place is shown.
_LOOKED_THROUGH: Final = 4_096
_SHOWN: Final = 80
_BALANCE: Final = re.compile(rb'"balance"\s*:\s*(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?)')
_NULL_BALANCE: Final = re.compile(rb'"balance"\s*:\s*null')
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
#: A balance that is written with an exponent.
_EXPONENT: Final = re.compile(rb'"balance"\s*:\s*-?[0-9.]+[eE]')
#: A float of a balance is nearer to its cent than this; a true fraction of a cent is not.
_NEAR: Final = Decimal("0.001")


def exception_in(heard: Carried) -> str:
    """Return the text of an exception that stands in a reply; "" if there is none."""
    text = heard.body[:_LOOKED_THROUGH]
    found = _EXCEPTION.search(text)
    if found is None or found[0] in heard.request.body:
        return ""
    # From the beginning of the string that it stands in.
    start = max(text.rfind(b'"', 0, found.start()) + 1, found.start() - _SHOWN)
    return text[start : start + _SHOWN].partition(b'"')[0].decode(errors="backslashreplace")


def why_no_reply(heard: Carried) -> tuple[KnownCause, str]:
    """Return why an answer is not a reply of spec §2.1: the cause, and what it says beside its status."""
    status, headers = heard.status, heard.answer.headers if heard.answer else {}
    if status in TURNING_AWAY:
        return KnownCause.TURNED_AWAY, heard.problem
    if status >= 500:
        return KnownCause.CRASH, heard.problem
    if 300 <= status < 400:
        where = headers.get("location", "")[:200]
        return KnownCause.REDIRECT, f"it redirects to {where or 'nowhere'}, and the service follows no redirect"
    coding = headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("identity", ""):
        return KnownCause.COMPRESSED, f"it is compressed ({coding[:40]})"
    if _is_finer_than_a_cent(heard.body):
        return (KnownCause.FLOAT if _is_float(heard.body) else KnownCause.FRACTIONS), heard.problem
    told = heard.problem
    if heard.body.startswith(_BYTE_ORDER_MARK):
        return KnownCause.NO_REPLY, "it begins with a byte order mark (U+FEFF), which is not JSON"
    if _NULL_BALANCE.search(heard.body):
        return KnownCause.NO_REPLY, "its balance is null, and a SUCCESS must have one"
    if heard.body.lstrip().startswith(b"{") and not heard.body.rstrip().endswith(b"}"):
        return KnownCause.CUT_SHORT, f"it ends after {len(heard.body)} bytes, and its JSON does not: {told}"
    if not heard.body.lstrip().startswith((b"{", b"[")):
        # A page, or nothing: another part of the application may answer at this address.
        told += ". Check the address: /withdraw and the others must be below it, perhaps after a prefix such as /wallet"
    return KnownCause.NO_REPLY, told


def odd_shape(heard: Carried) -> str:
    """Return what is unusual about the way in which a reply is written, though it can be read; "" for nothing."""
    if heard.answer is None or heard.reply is None:
        return ""
    if _EXPONENT.search(heard.body):
        return "the balance is written with an exponent, which not every reader of money takes"
    kind = heard.answer.headers.get("content-type", "application/json" if not heard.url else "")
    media_type = kind.partition(";")[0].strip().lower()
    if media_type == "application/json" or media_type.endswith("+json"):
        return ""
    return (
        f"the answer's Content-Type is {shown(kind)} instead of application/json" if kind else "it has no Content-Type"
    )


def _is_finer_than_a_cent(body: bytes) -> bool:
    try:
        read_reply(body)
    except MalformedCallError as malformed:
        return isinstance(malformed.__cause__, FinerThanACentError)
    return False


def _is_float(body: bytes) -> bool:
    found = _BALANCE.search(body)
    if found is None:
        return False
    cents = Decimal(found[1].decode()) * 100
    return abs(cents - cents.to_integral_value()) < _NEAR
