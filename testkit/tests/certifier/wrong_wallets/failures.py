"""Wallets that are right as long as nothing fails."""

from collections.abc import Iterator
from contextlib import contextmanager

from wallet_by_hand import Call, Known, PlainWallet, Reply

from testkit.tests.certifier.wrong_wallets.registry import wrong


@wrong("answers every failure with a final refusal", must="H02", may="B07")
class RefusesWhatFails(PlainWallet):
    def _refuse(self, code: str) -> tuple[int, str]:
        return super()._refuse("INVALID_REQUEST" if code == "SYSTEM_ERROR" else code)


@wrong("accepts calls during an outage, for later, and forgets them", must="H02", may="B07")
class PromisesDuringAnOutage(PlainWallet):
    def _refuse(self, code: str) -> tuple[int, str]:
        if code != "SYSTEM_ERROR" or not self.broken:  # A body that is too long is no outage.
            return super()._refuse(code)
        reply = Reply("SUCCESS", 0, self.clock_millis())
        return self._status(reply), self._render(reply)


@wrong("keeps what an outage left half done", must="H02", may="B07")
class KeepsWhatIsHalfDone(PlainWallet):
    """Each statement is a transaction of its own, and the outage comes after the first."""

    is_half_way = False

    def _answer(self, path: str, headers: list[tuple[str, str]], body: bytes) -> tuple[int, str]:
        self.is_half_way, self.broken = self.broken, False
        try:
            return super()._answer(path, headers, body)
        finally:
            self.is_half_way, self.broken = False, self.is_half_way

    def _remember(self, call: Call) -> None:
        if self.is_half_way:
            raise ConnectionError("the database is down")
        super()._remember(call)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            yield


@wrong("recognises only the last call of each player", must="H05", may="B01 B02 B03 B08 B11 B16 E07 G04 H06")
class KnowsTheLastCallOnly(PlainWallet):
    def _remember(self, call: Call) -> None:
        super()._remember(call)
        self._last()[call.player_id] = self._identity(call)

    def _find_call(self, operation: str, tx_id: str | None) -> Known | None:
        known = super()._find_call(operation, tx_id)
        is_last = (operation, tx_id) in self._last().values()
        return known if is_last or known is None or known.held_for is not None else None

    def _last(self) -> dict[str, tuple[str, str | None]]:
        calls: dict[str, tuple[str, str | None]] = self.__dict__.setdefault("_last_calls", {})
        return calls
