"""
What went over the wire, as it happens: each webhook sent to the wallet, and each call of the Operator API received.

The newest are kept, with their bodies and signatures as they were: only the person at this machine sees them, and no
log has them.
"""

import secrets
from collections import deque
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Final, Literal

from game_operator.errors import MalformedCallError
from game_operator.models.webhooks import Reply
from game_operator.protocol.http import HeaderPairs
from game_operator.protocol.webhook_reply import read_reply

_KEPT: Final = 1_000
_KEPT_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """
    One request and what came back.

    Attributes:
        at_millis: When it began, by the machine's clock.
        direction: ``webhook`` went from the service to the wallet, ``api`` came from the operator.
        method, path: As on the wire; a webhook's path is below the wallet's url.
        request_headers, request_body: As on the wire, the signature included.
        signature: The verdict: what a webhook was signed with, or whether a call's signature was right.
        status: The HTTP status of the answer; None if there was none.
        response_headers, response_body: The answer.
        elapsed_ms: From the first byte out to the last one in.
        fault: The name of the fault that was laid over it, or "".
        note: Anything else: why there is no answer, or which delivery of a call this is.
        player_id, bet_id: What it was about, as far as known.
        url: Where it went to, for a webhook.
        defect: Why *response_body* is not the whole body in plain bytes; "" if it is.
        number: Counts up from 1; given by the log.
    """

    at_millis: int
    direction: Literal["webhook", "api"]
    method: str
    path: str
    request_headers: HeaderPairs = field(repr=False)
    request_body: bytes = field(repr=False)
    signature: str
    status: int | None
    response_headers: HeaderPairs = field(default=(), repr=False)
    response_body: bytes = field(default=b"", repr=False)
    elapsed_ms: float = 0.0
    fault: str = ""
    note: str = ""
    player_id: str = ""
    bet_id: str = ""
    url: str = ""
    defect: str = ""
    number: int = 0

    def reply(self) -> Reply:
        """
        Return what a wallet replied to a webhook.

        Raises:
            MalformedCallError: It is not a reply of spec §2.1; the message says why.
        """
        if self.defect:
            raise MalformedCallError(self.defect)
        return read_reply(self.response_body)

    @property
    def code(self) -> str | None:
        """What a wallet replied to a webhook: the error code, or ``SUCCESS``; None if there is no reply."""
        try:
            return None if self.status is None else self.reply().code or "SUCCESS"
        except MalformedCallError:
            return None


class LiveLog:
    """
    The newest exchanges, from any thread to any thread.

    Args:
        kept: How many, at most; the oldest go first.
        kept_bytes: How many bytes their bodies and headers may have together, because one answer of a wallet may be a
            MiB long. The newest stays however long it is.
    """

    def __init__(self, kept: int = _KEPT, kept_bytes: int = _KEPT_BYTES) -> None:
        self._lock = Lock()
        self._exchanges: deque[Exchange] = deque()
        self._kept = kept
        self._kept_bytes = kept_bytes
        self._bytes = 0
        self._count = 0
        #: Distinguishes this run from another, whose numbers are of other exchanges.
        self.run: Final = secrets.token_hex(8)

    @property
    def count(self) -> int:
        """How many were recorded, which is the number of the newest."""
        with self._lock:
            return self._count

    def record(self, exchange: Exchange) -> Exchange:
        """Keep *exchange*, and return it with its number."""
        with self._lock:
            self._count += 1
            numbered = replace(exchange, number=self._count)
            self._exchanges.append(numbered)
            self._bytes += _length(numbered)
            while len(self._exchanges) > self._kept or (self._bytes > self._kept_bytes and len(self._exchanges) > 1):
                self._bytes -= _length(self._exchanges.popleft())
        return numbered

    def recent(self, limit: int = 100) -> list[Exchange]:
        """Return up to *limit* exchanges, the newest first."""
        with self._lock:
            return [exchange for exchange, _ in zip(reversed(self._exchanges), range(limit), strict=False)]

    def exchange(self, number: int) -> Exchange | None:
        """Return the exchange with *number*, or None if the log does not have it, or no longer."""
        with self._lock:
            return next((exchange for exchange in self._exchanges if exchange.number == number), None)


def _length(exchange: Exchange) -> int:
    headers = sum(len(name) + len(value) for name, value in (*exchange.request_headers, *exchange.response_headers))
    return len(exchange.request_body) + len(exchange.response_body) + headers
