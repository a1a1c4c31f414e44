"""``certify --clean-up``: the anomalies that a run leaves in the wallet's ledger are resolved, and no others."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from game_operator.cli.database import check_file, opened
from game_operator.cli.errors import told
from game_operator.cli.output import say
from game_operator.errors import ConfigurationError, LedgerError

if TYPE_CHECKING:
    from game_operator.ledger import AnomalyRecord, SqlLedger

__all__ = ["LeftAnomalies"]

_ADVICE = "Pass the ledger that the wallet serves from as --clean-up."


class LeftAnomalies:
    """
    Resolves what a run leaves.

    Attributes:
        failed: Whether the ledger could not be reached afterwards.

    Raises:
        ConfigurationError: There is no such ledger: better now than after the run.
    """

    def __init__(self, address: str, prefix: str) -> None:
        check_file(address, _ADVICE)
        self._address, self._prefix = address, prefix
        self.failed = False
        with self._opened():
            pass

    def resolved(self, run_id: str, *, as_json: bool) -> dict[str, object]:
        """Resolve what the run *run_id* left; return for programs, or say, how much that was."""
        try:
            count = self._resolve(run_id)
        except (LedgerError, ConfigurationError) as problem:
            self.failed = True
            text = f"The anomalies of this run could not be resolved. {told(problem)}"
            if not as_json:
                say(text, style="red", error=True)
            return {"clean_up": {"resolved": 0, "problem": text}}
        if not as_json:
            say(f"Anomalies that this run left in the ledger: {count}, now resolved.")
        return {"clean_up": {"resolved": count, "problem": ""}}

    def _resolve(self, run_id: str) -> int:
        from game_operator.ledger.staff.admin import resolve_anomalies

        with self._opened() as ledger:
            left = [record.id for record in ledger.anomalies() if _is_of(run_id, record)]
            resolve_anomalies(ledger, left)
        return len(left)

    def _opened(self) -> "AbstractContextManager[SqlLedger]":
        return opened(self._address, self._prefix, _ADVICE)


def _is_of(run_id: str, record: "AnomalyRecord") -> bool:
    """Return whether *record* names an id of the run; a call that could not be read names it in its body alone."""
    named = (record.bet_id or "", record.tx_id or "")
    return any(run_id in name for name in named) or run_id.encode() in record.body
