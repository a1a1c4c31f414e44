"""How hypothesis's machines of ledgers run, and where they keep a file."""

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


class InFile(RuleBasedStateMachine):
    """A machine whose ledger is in a file, which goes with it."""

    def fresh_url(self) -> str:
        """Return the URL of a file to be."""
        self._folder = tempfile.TemporaryDirectory()
        return f"sqlite:///{Path(self._folder.name) / 'wallet.db'}"

    def teardown(self) -> None:
        super().teardown()
        self._folder.cleanup()


def run_machine(machine: type[RuleBasedStateMachine], histories: int, steps: int) -> None:
    """Try so many histories of so many steps."""
    chosen = settings(max_examples=histories, stateful_step_count=steps, deadline=None, suppress_health_check=_SLOW)
    run_state_machine_as_test(machine, settings=chosen)
