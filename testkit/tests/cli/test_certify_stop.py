"""Ctrl-C and SIGTERM while `game-operator certify` runs: a report first."""

import signal

import pytest

from game_operator.cli.errors import STOP_SIGNALS, on_signals
from game_operator_testkit.cli.certify import Stop


def test_the_first_signal_only_asks(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever plays looks at it; it says what another signal does, and by which ids to find what was moved."""
    stop = Stop("certify-1")
    with on_signals(STOP_SIGNALS, stop.on_signal):
        assert not stop.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert stop.is_set()
    assert stop.number == signal.SIGTERM
    err = capsys.readouterr().err
    assert err.startswith("Stopping: money is put back and the report is printed first. ")
    assert err.endswith(
        "Ctrl-C once more leaves at once; then money may have moved, and bets be open: their ids begin "
        "with certify-1.\n"
    )
