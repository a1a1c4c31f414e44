"""How values are written on the pages."""

from decimal import Decimal

import pytest

from game_operator.text import day_and_time, duration, iso_time, money
from game_operator_testkit.control_room.amounts import money_in, units_in
from game_operator_testkit.control_room.page_context import clock_time


@pytest.mark.parametrize(
    ("cents", "text"),
    [(0, "0.00"), (5, "0.05"), (-5, "-0.05"), (123_450, "1,234.50"), (10**17 + 1, "1,000,000,000,000,000.01")],
)
def test_cents_are_written_as_currency_units(cents: int, text: str) -> None:
    """Exactly, however many there are (spec §2.4)."""
    assert money(cents) == text


@pytest.mark.parametrize(
    ("units", "currency", "text"),
    [
        ("0.1", "EUR", "0.10"),
        ("100", "EUR", "100.00"),
        ("0.025", "EUR", "0.025"),
        ("1E+3", "", "1,000.00"),
        ("1234567890123456.78", "VND", "1,234,567,890,123,456.78"),
        ("2500", "VND", "2,500"),
        ("0.5", "JPY", "0.50"),
        ("0.25", "KWD", "0.250"),
        ("3000.125", "KWD", "3,000.125"),
        ("0.0001", "BTC", "0.0001"),
    ],
)
def test_amounts_keep_their_digits(units: str, currency: str, text: str) -> None:
    """As many decimals as the currency has, and more where digits would be lost (spec §2.7)."""
    assert units_in(Decimal(units), currency) == text


@pytest.mark.parametrize(
    ("cents", "currency", "text"),
    [
        (1250, "EUR", "12.50 EUR"),
        (50_000, "JPY", "500 JPY"),
        (50_001, "JPY", "500.01 JPY"),
        (25, "KWD", "0.250 KWD"),
        (5, "", "0.05"),
    ],
)
def test_a_cent_is_a_hundredth_in_every_currency(cents: int, currency: str, text: str) -> None:
    """Spec §2.4 knows no other cents."""
    assert money_in(cents, currency) == text


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
