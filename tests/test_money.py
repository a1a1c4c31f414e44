"""Money is exact: cents inside, Decimal currency units at the edges (spec §2.1, §2.4, §2.7)."""

import decimal
import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given, strategies

from game_operator.money import amount_from_cents, cents_from_amount, cents_rounded_down, json_cents, json_number
from tests.support.wire import examples

ANY_CENTS = strategies.integers(-(10**40), 10**40)
ANY_AMOUNT = strategies.builds(
    lambda digits, exponent: Decimal(digits).scaleb(exponent, decimal.Context(prec=60)),
    strategies.integers(-(10**30), 10**30),
    strategies.integers(-30, 30),
)
_PLAIN_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")


@contextmanager
def hostile_context() -> Iterator[None]:
    """Two digits of precision, and every trap set: what an application may have done to the thread."""
    every_trap = [
        decimal.Clamped,
        decimal.FloatOperation,
        decimal.Inexact,
        decimal.Rounded,
        decimal.Subnormal,
        decimal.InvalidOperation,
    ]
    with decimal.localcontext(decimal.Context(prec=2, Emax=2, Emin=-2, traps=every_trap)):
        yield


@given(ANY_CENTS)
@example(0)
@example(-1)
@examples(150)
def test_units_are_a_hundredth_of_cents(cents: int) -> None:
    """The conversion is exact for every amount, and the same back; only what is below zero has a sign (spec §2.4)."""
    amount = amount_from_cents(cents)
    assert Fraction(amount) == Fraction(cents, 100)
    assert (amount.is_signed(), amount.as_tuple().exponent) == (cents < 0, -2)
    assert cents_from_amount(amount) == cents


@given(ANY_AMOUNT)
@examples(150)
def test_amounts_become_cents_or_are_refused(amount: Decimal) -> None:
    """An amount is so many whole cents, or finer than a cent and refused; nothing is rounded (spec §2.4, §2.7)."""
    exact = Fraction(amount) * 100
    if exact.denominator == 1:
        assert cents_from_amount(amount) == exact.numerator
    else:
        with pytest.raises(ValueError, match="finer than a cent"):
            cents_from_amount(amount)


@pytest.mark.parametrize(
    ("amount", "cents"),
    [
        pytest.param("1E+3", 100000, id="an exponent"),
        pytest.param("-0", 0, id="negative zero"),
        pytest.param("1E+64", 10**66, id="the largest exponent"),
    ],
)
def test_amounts_of_every_spelling(amount: str, cents: int) -> None:
    """The value counts, not how the Decimal is spelled (spec §2.7)."""
    assert cents_from_amount(Decimal(amount)) == cents


@pytest.mark.parametrize("amount", ["NaN", "sNaN", "Infinity", "-Infinity", "1E+65", "1E-65", "1E+999999999"])
def test_what_is_no_amount_is_refused(amount: str) -> None:
    """Neither infinities nor numbers that would fill the memory are money (spec §2.7)."""
    for convert in (cents_from_amount, cents_rounded_down, json_number):
        with pytest.raises(ValueError, match="is not an amount of money"):
            convert(Decimal(amount))


@pytest.mark.parametrize(
    "amount",
    [
        pytest.param(12.5, id="a float is not exact"),
        pytest.param(1250, id="an int might mean cents"),
        pytest.param(True, id="a bool"),
        pytest.param("12.50", id="text"),
    ],
)
def test_only_decimals_are_amounts(amount: object) -> None:
    """A float, an int or text at the edge is a mistake, and named as one (spec §2.7)."""
    for convert in (cents_from_amount, cents_rounded_down):
        with pytest.raises(TypeError, match=f"must be a Decimal in currency units, not {type(amount).__name__}"):
            convert(amount)  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize(
    ("amount", "cents"),
    [
        pytest.param("1.231", 123, id="down from just above"),
        pytest.param("1.2399999999999999999999999999999999", 123, id="down from more digits than a context has"),
        pytest.param("-0", 0, id="negative zero"),
        pytest.param("-0.001", -1, id="a debt is shown no smaller than it is"),
        pytest.param("1E+64", 10**66, id="the largest exponent"),
        pytest.param("1E-64", 0, id="the smallest exponent"),
        pytest.param("-1E-64", -1, id="the smallest debt"),
    ],
)
def test_finer_balances_are_shown_rounded_down(amount: str, cents: int) -> None:
    """A player never sees more than there is (docs/decisions/0012)."""
    assert cents_rounded_down(Decimal(amount)) == cents


@given(ANY_AMOUNT)
@examples(150)
def test_rounding_down_takes_less_than_a_cent(amount: Decimal) -> None:
    """What is shown is never above the balance, and less than a cent below it (docs/decisions/0012)."""
    cents = cents_rounded_down(amount)
    assert 0 <= Fraction(amount) * 100 - cents < 1


@pytest.mark.parametrize(
    ("cents", "text"),
    [
        pytest.param(0, "0.00", id="nothing"),
        pytest.param(10, "0.10", id="the trailing zero stays"),
        pytest.param(-5, "-0.05", id="a debt under a unit keeps its sign"),
        pytest.param(123456789012, "1234567890.12", id="scenario G03"),
    ],
)
def test_cents_are_written_with_two_decimals(cents: int, text: str) -> None:
    """A balance is a JSON number in currency units with exactly two decimals (spec §2.1; docs/decisions/0012)."""
    assert json_cents(cents) == text


@given(ANY_CENTS)
@examples(150)
def test_written_cents_are_json_numbers_of_the_same_value(cents: int) -> None:
    """However large and whichever its sign, the balance reads back exactly (spec §2.1)."""
    text = json_cents(cents)
    assert _PLAIN_JSON_NUMBER.fullmatch(text)
    assert Fraction(text) == Fraction(cents, 100)
    assert text[-3] == "."


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        pytest.param("12.50", "12.50", id="digit for digit"),
        pytest.param("1E+5", "100000", id="no exponent"),
        pytest.param("-0.05", "-0.05", id="negative"),
        pytest.param("1E+64", "1" + "0" * 64, id="the largest exponent"),
        pytest.param("1E-64", "0." + "0" * 63 + "1", id="the smallest exponent"),
        pytest.param("12345678901234567.89", "12345678901234567.89", id="more digits than a double holds"),
    ],
)
def test_amounts_are_written_digit_for_digit(amount: str, text: str) -> None:
    """A Decimal goes into JSON as the number it is (spec §2.7)."""
    assert json_number(Decimal(amount)) == text


@given(ANY_AMOUNT)
@examples(150)
def test_written_amounts_are_json_numbers_of_the_same_value(amount: Decimal) -> None:
    """What is written is JSON, without an exponent, and means the same (spec §2.7)."""
    text = json_number(amount)
    assert _PLAIN_JSON_NUMBER.fullmatch(text)
    assert Fraction(text) == Fraction(amount)


def test_no_conversion_asks_the_decimal_context() -> None:
    """An application that narrows or traps its decimal context gets the same cents and units (spec §2.4, §2.7)."""
    long = Decimal("12345678901234567.89")
    with hostile_context():
        assert str(amount_from_cents(1234567890123456789)) == "12345678901234567.89"
        assert cents_from_amount(long) == 1234567890123456789
        assert json_number(long) == "12345678901234567.89"
        assert cents_rounded_down(Decimal("-12345678901234567.891")) == -1234567890123456790
        assert json_cents(1234567890123456789) == "12345678901234567.89"
        with pytest.raises(ValueError, match="finer than a cent"):
            cents_from_amount(Decimal("0.001"))
