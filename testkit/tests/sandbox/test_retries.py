"""The presets: when a call that was not answered definitely is sent again, to the millisecond."""

from itertools import accumulate, takewhile

import pytest

from game_operator import ConfigurationError
from game_operator_testkit.sandbox.dealing.deliveries import DEFAULT_RETRIES, RETRY_PRESETS, retry_preset

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        pytest.param("none", {1: None, 2: None}, id="none"),
        pytest.param(
            "three", {1: SECOND, 2: 2 * SECOND, 3: 4 * SECOND, 4: 10 * MINUTE, 5: 10 * MINUTE, 999: 10 * MINUTE},
            id="three",
        ),
        pytest.param("ten", {1: SECOND, 2: SECOND, 10: SECOND, 11: MINUTE, 12: MINUTE, 999: MINUTE}, id="ten"),
        pytest.param(
            "exponential",
            {1: SECOND, 2: 2 * SECOND, 16: 32_768 * SECOND, 17: 65_536 * SECOND, 18: 24 * HOUR, 999: 24 * HOUR},
            id="exponential",
        ),
    ],
)  # fmt: skip
def test_waits(name: str, waits: dict[int, int | None]) -> None:
    """Each wait is the preset's, on both sides of where it changes (assumed, docs/decisions/0017)."""
    preset = retry_preset(name)
    assert {attempts: preset.wait_millis(attempts) for attempts in waits} == waits


def test_no_wait_is_longer_than_a_day_or_shorter_than_the_one_before() -> None:
    """A service loses patience, never gains it."""
    for preset in RETRY_PRESETS.values():
        waits = list(takewhile(lambda wait: wait is not None, map(preset.wait_millis, range(1, 100))))
        assert waits == sorted(wait for wait in waits if wait is not None)
        assert max((wait for wait in waits if wait is not None), default=0) <= 24 * HOUR


def test_exponential_reaches_a_day_within_two() -> None:
    """Doubled from a second, the waits together are 36 hours when the first whole day is waited."""
    waits = RETRY_PRESETS["exponential"].waits_millis
    assert list(accumulate(waits))[-1] == (2**17 - 1) * SECOND
    assert len(waits) == 17


def test_names() -> None:
    """Each preset is found by its name, and an unknown name is told those there are."""
    assert {name: retry_preset(name).name for name in RETRY_PRESETS} == {name: name for name in RETRY_PRESETS}
    assert DEFAULT_RETRIES in RETRY_PRESETS
    with pytest.raises(
        ConfigurationError, match=r"retries 'four' are unknown\. Pass one of none, three, ten, exponential, cancel"
    ):
        retry_preset("four")
