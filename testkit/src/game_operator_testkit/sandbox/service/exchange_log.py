"""
What went over the wire, as it happens: each webhook sent to the wallet, and each call of the Operator API received.

The newest are kept, with their bodies and signatures as they were: only the person at this machine sees them. No log
has them, and no file unless somebody asks for one.
"""

import logging
import secrets
import sqlite3
from collections import deque
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from threading import Lock
from typing import Final, Literal

from game_operator.models.webhooks import Reply
from game_operator.protocol.http import HeaderPairs, HttpReply
from game_operator.protocol.operations import API_PREFIX
from game_operator_testkit.provider.delivery import reply_in
from game_operator_testkit.sandbox.service.exchange_file import ExchangeFile

_LOG: Final = logging.getLogger("game_operator_testkit.sandbox")

_KEPT: Final = 1_000
_KEPT_BYTES: Final = 64 * 1024 * 1024
#: What asks for a balance has the same bytes each time, and each of them is a call.
_BALANCE_PATH: Final = "/player-balance"


@dataclass(frozen=True, kw_only=True)
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
        fault: The names of the faults that were laid over it, with ", " between them; "" if there was none.
        note: Anything else: why there is no answer, or which delivery of a call this is.
        player_id, bet_id, round_id, tx_id: What it was about, as far as known.
        amount_cents: What a webhook takes, pays or gives back, as far as known.
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
    round_id: str = ""
    tx_id: str = ""
    amount_cents: int | None = None

    @property
    def faults(self) -> frozenset[str]:
        """The names of the faults that were laid over it."""
        return frozenset(self.fault.split(", ")) - {""}

    @property
    def code(self) -> str | None:
        """What a wallet replied to a webhook: the error code, or ``SUCCESS``; None if there is no reply."""
        reply, _ = self._read
        return None if reply is None else reply.code or "SUCCESS"

    @property
    def balance_cents(self) -> int | None:
        """The balance in a wallet's reply to a webhook; None if there is none."""
        reply, _ = self._read
        return None if reply is None else reply.balance_cents

    @property
    def problem(self) -> str:
        """Why a wallet's answer to a webhook is not a reply of spec §2.1; "" if it is one."""
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[Reply | None, str]:
        """The reply, read once: a body may be a MiB long, and a list has a thousand."""
        if self.status is None or self.direction == "api":
            return None, ""
        return reply_in(HttpReply(self.status, {}, self.response_body, self.defect))

    @cached_property
    def call_key(self) -> tuple[str, str, bytes] | None:
        """The same for all deliveries of one call; None for what is not delivered twice."""
        if self.direction == "api" or self.path == _BALANCE_PATH:
            return None
        # A copy that somebody else has signed is not the call.
        return self.path, self.signature, self.request_body

    @property
    def operation(self) -> str:
        """What was asked: ``withdraw``, or ``fetch-bet`` of the Operator API."""
        path = self.path.partition("?")[0]
        return (
            path.removeprefix(f"{API_PREFIX}/").lstrip("/").partition("/")[0] if self.direction == "api" else path[1:]
        )


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
        self.run: str = secrets.token_hex(8)
        self._file: ExchangeFile | None = None

    @property
    def count(self) -> int:
        """How many were recorded, which is the number of the newest."""
        with self._lock:
            return self._count

    @property
    def newest_webhook(self) -> Exchange | None:
        """The newest call to the wallet, or None if the log has none."""
        with self._lock:
            return next((each for each in reversed(self._exchanges) if each.direction == "webhook"), None)

    def keep_in(self, path: Path) -> None:
        """
        Begin with the exchanges that earlier runs have left in the file at *path*, and write new ones there too.

        Raises:
            ConfigurationError: The file cannot be used.
        """
        self._file = ExchangeFile(path)
        if not self.count:
            self.run = self._file.run
            for each in self._file.exchanges():
                self._count = each["number"] - 1
                self._keep(Exchange(**each))

    def close_file(self) -> None:
        """Write no more to the file."""
        with self._lock:
            file, self._file = self._file, None
        if file is not None:
            file.close()

    def record(self, exchange: Exchange) -> Exchange:
        """Keep *exchange*, and return it with its number."""
        with self._lock:
            numbered = self._keep(exchange)
            if self._file is not None:
                self._write(self._file, numbered)
        # Its body is read now, and not when a page lists a thousand.
        numbered._read  # noqa: B018
        return numbered

    def _keep(self, exchange: Exchange) -> Exchange:
        self._count += 1
        numbered = replace(exchange, number=self._count)
        self._exchanges.append(numbered)
        self._bytes += _length(numbered)
        while len(self._exchanges) > self._kept or (self._bytes > self._kept_bytes and len(self._exchanges) > 1):
            self._bytes -= _length(self._exchanges.popleft())
        return numbered

    def _write(self, file: ExchangeFile, exchange: Exchange) -> None:
        try:
            values = {each.name: getattr(exchange, each.name) for each in fields(exchange)}
            file.write(values, oldest=self._count - len(self._exchanges) + 1)
        except sqlite3.Error:
            # The sandbox goes on without the file: a full disk is no reason to fail a call.
            self._file = None
            file.close()
            _LOG.exception("Calls are no longer recorded", extra={"event": "sandbox.recording_failed"})

    def recent(self, limit: int = 100) -> list[Exchange]:
        """Return up to *limit* exchanges, the newest first."""
        with self._lock:
            return [exchange for exchange, _ in zip(reversed(self._exchanges), range(limit), strict=False)]

    def since(self, number: int) -> list[Exchange]:
        """Return the exchanges after *number*, the newest first."""
        with self._lock:
            return list(takewhile(lambda exchange: exchange.number > number, reversed(self._exchanges)))

    def exchange(self, number: int) -> Exchange | None:
        """Return the exchange with *number*, or None if the log does not have it, or no longer."""
        with self._lock:
            # The numbers have no gaps.
            place = number - self._count + len(self._exchanges) - 1
            return self._exchanges[place] if 0 <= place < len(self._exchanges) else None

    def deliveries(self, exchange: Exchange) -> tuple[int, ...]:
        """Return the numbers of all deliveries of *exchange*'s call that are in the log, the oldest first."""
        with self._lock:
            same = (each for each in self._exchanges if each.call_key == exchange.call_key)
            return tuple(each.number for each in same) if exchange.call_key else ()


def _length(exchange: Exchange) -> int:
    headers = sum(len(name) + len(value) for name, value in (*exchange.request_headers, *exchange.response_headers))
    return len(exchange.request_body) + len(exchange.response_body) + headers
