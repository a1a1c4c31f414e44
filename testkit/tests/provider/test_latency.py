"""Percentiles of how long answers took."""

from collections.abc import Sequence

import pytest

from game_operator_testkit.provider.latency import percentile


@pytest.mark.parametrize(
    ("latencies", "percent", "value"),
    [
        pytest.param([], 50, 0.0, id="none"),
        pytest.param([7.0], 99, 7.0, id="one, at the top"),
        pytest.param([1.0, 2.0], 50, 1.0, id="the lower of two"),
        pytest.param([1.0, 2.0], 51, 2.0, id="and just above"),
        pytest.param([1.0, 2.0, 3.0], 0, 1.0, id="the least"),
        pytest.param([1.0, 2.0, 3.0], 100, 3.0, id="the most"),
        pytest.param([float(k) for k in range(1, 101)], 99, 99.0, id="of a hundred, nearly all"),
    ],
)
def test_percentiles_are_values_that_occurred(latencies: Sequence[float], percent: float, value: float) -> None:
    """By nearest rank: as many as that do not exceed it."""
    assert percentile(latencies, percent) == value
