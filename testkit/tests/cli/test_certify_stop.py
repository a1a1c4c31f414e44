"""Ctrl-C and SIGTERM while `game-operator certify` runs: a report first, and at once if they come again."""

import asyncio
import signal

import pytest

from game_operator_testkit.cli.certify import Stop


def test_the_first_signal_only_asks(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever plays looks at it; afterwards the signals are whose they were."""
    stop = Stop("certify-1")
    before = signal.getsignal(signal.SIGTERM)
    with stop.listening():
        assert not stop.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert stop.is_set()
    assert stop.number == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before
    assert (
        capsys.readouterr().err
        == "Stopping: money is put back and the report is printed first. Ctrl-C once more leaves at once.\n"
    )


def test_another_signal_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    """It names the ids by which what was moved can be found."""

    def two_signals() -> None:
        with Stop("certify-1").listening():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        two_signals()
    assert "their ids begin with certify-1." in capsys.readouterr().err


def test_another_signal_in_the_middle_of_a_call_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    """The call is cancelled, not torn: whoever waits in the event loop hears of it, and it can be closed."""
    ends: list[str] = []

    async def calling() -> None:
        asyncio.get_running_loop().call_later(0.01, signal.raise_signal, signal.SIGINT)
        asyncio.get_running_loop().call_later(0.02, signal.raise_signal, signal.SIGINT)
        try:
            await asyncio.sleep(30)
        finally:
            ends.append("cancelled")

    with pytest.raises(KeyboardInterrupt), Stop("certify-1").listening(), asyncio.Runner() as runner:
        runner.run(calling())
    assert ends == ["cancelled"]
    assert "their ids begin with certify-1." in capsys.readouterr().err
