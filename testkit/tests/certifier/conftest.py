"""What all tests of the certifier share."""

import logging

import pytest


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Refusals by the hundred would fill the captured log."""
    caplog.set_level(logging.CRITICAL, "game_operator")
