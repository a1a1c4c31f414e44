"""How often a call is repeated and how long it waits (not in the specification; docs/decisions/0004)."""

import dataclasses
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies

from game_operator.errors import ConfigurationError, shown
from game_operator.protocol.exchange import RetryPolicy
from tests.support.wire import examples


def test_the_defaults() -> None:
    """Two repeats, waits from 0.2 to 5 seconds, and a Retry-After of up to a minute (docs/decisions/0004)."""
    assert dataclasses.asdict(RetryPolicy()) == {
        "max_retries": 2,
        "base_delay_seconds": 0.2,
        "max_delay_seconds": 5.0,
        "max_retry_after_seconds": 60.0,
    }


@given(
    strategies.integers(1, 10**6),
    strategies.floats(0, 1),
    strategies.floats(0, 1e6),
    strategies.floats(0, 1e6),
)
@examples(100)
def test_no_wait_is_longer_than_its_bound(attempts: int, jitter: float, base: float, longest: float) -> None:
    """Whatever the numbers, a wait is finite, not negative, and within the bound."""
    policy = RetryPolicy(base_delay_seconds=base, max_delay_seconds=longest)
    assert 0 <= policy.delay_seconds(attempts, jitter) <= longest


def test_a_call_is_repeated_never_or_more_often() -> None:
    """No repeat is the least, and True is not a number of repeats."""
    for repeats in (True, 3.0, "3", None):
        with pytest.raises(TypeError, match=f"max_retries must be an int, not {type(repeats).__name__}"):
            RetryPolicy(max_retries=repeats)  # type: ignore[arg-type]  # that is the point
    assert RetryPolicy(max_retries=0).max_retries == 0
    with pytest.raises(ConfigurationError, match=r"^max_retries is -1\. .*0 for a single attempt"):
        RetryPolicy(max_retries=-1)


WAITS = ["base_delay_seconds", "max_delay_seconds", "max_retry_after_seconds"]


@pytest.mark.parametrize("seconds", [-0.001, 1_000_000.001, 10**5000, math.inf, -math.inf, math.nan], ids=shown)
@pytest.mark.parametrize("name", WAITS)
def test_waits_are_neither_endless_nor_negative(name: str, seconds: float) -> None:
    """From none to a million seconds is allowed; what lies outside or is undefined is named."""
    for allowed in (0, 0.0, 1_000_000):
        fits: dict[str, Any] = {name: allowed}
        assert getattr(RetryPolicy(**fits), name) == allowed
    wrong: dict[str, Any] = {name: seconds}
    with pytest.raises(ConfigurationError, match=rf"^The {name} is .*, but must be from 0 seconds to a million"):
        RetryPolicy(**wrong)


@pytest.mark.parametrize("seconds", ["1", None, True, Decimal(1)])
@pytest.mark.parametrize("name", WAITS)
def test_waits_are_numbers(name: str, seconds: object) -> None:
    """Text and True are no seconds."""
    wrong: dict[str, Any] = {name: seconds}
    with pytest.raises(TypeError, match=rf"^{name} must be a number of seconds, not {type(seconds).__name__}"):
        RetryPolicy(**wrong)
