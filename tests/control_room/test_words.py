"""How values are written on the pages."""

from decimal import Decimal

import pytest

from game_operator.control_room.page_context import amount, clock_time
from game_operator.provider.text import day_and_time, duration, iso_time, money


@pytest.mark.parametrize(
    ("cents", "text"),
    [(0, "0.00"), (5, "0.05"), (-5, "-0.05"), (123_450, "1,234.50"), (10**17 + 1, "1,000,000,000,000,000.01")],
)
def test_cents_are_written_as_currency_units(cents: int, text: str) -> None:
    """Exactly, however many there are (spec §2.4)."""
    assert money(cents) == text


@pytest.mark.parametrize(
    ("units", "text"),
    [
        ("0.1", "0.10"),
        ("100", "100.00"),
        ("0.025", "0.025"),
        ("1E+3", "1,000.00"),
        ("1234567890123456.78", "1,234,567,890,123,456.78"),
    ],
)
def test_amounts_keep_their_digits(units: str, text: str) -> None:
    """Two decimals, and more where there are more (spec §2.7)."""
    assert amount(Decimal(units)) == text


def test_times_are_utc() -> None:
    """Each of the three ways shows the same moment."""
    at_millis = 1_763_722_800_007
    assert iso_time(at_millis) == "2025-11-21T11:00:00.007Z"
    assert clock_time(at_millis) == "11:00:00.007"
    assert day_and_time(at_millis) == "2025-11-21 11:00:00"


@pytest.mark.parametrize(
    ("elapsed_ms", "text"),
    [
        (0.0, "0.00 ms"),
        (9.994, "9.99 ms"),
        (10.0, "10.0 ms"),
        (999.94, "999.9 ms"),
        (1000.0, "1.00 s"),
        (61_234.0, "61.23 s"),
    ],
)
def test_latencies_have_three_digits(elapsed_ms: float, text: str) -> None:
    """In the unit in which they are read best."""
    assert duration(elapsed_ms) == text
