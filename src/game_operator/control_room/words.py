"""How values are written on the pages: money, times, and bytes that may be anything (from the protocol)."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from game_operator.money import amount_from_cents
from game_operator.protocol.printable import visible

__all__ = ["amount", "clock_time", "day_and_time", "iso_time", "latency", "money", "visible"]

_DECIMALS: Final = 2


def money(cents: int) -> str:
    """Return *cents* as currency units: 123450 is ``1,234.50``."""
    return amount(amount_from_cents(cents))


def amount(units: Decimal) -> str:
    """Return currency units with two decimals, and with more where there are more: ``0.10``, ``0.025``."""
    exponent = units.as_tuple().exponent
    decimals = max(_DECIMALS, -exponent if isinstance(exponent, int) else 0)
    return f"{units:,.{decimals}f}"


def clock_time(at_millis: int) -> str:
    """Return the time of the day in UTC, to the millisecond: ``14:03:59.120``."""
    return iso_time(at_millis)[11:23]


def day_and_time(at_millis: int) -> str:
    """Return date and time in UTC, to the second: ``2026-11-21 14:03:59``."""
    return iso_time(at_millis)[:19].replace("T", " ")


def iso_time(at_millis: int) -> str:
    """Return the time as a machine reads it: ``2026-11-21T14:03:59.120+00:00``."""
    seconds, millis = divmod(at_millis, 1000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=millis * 1000).isoformat(timespec="milliseconds")


def latency(elapsed_ms: float) -> str:
    """Return a duration so that three digits are seen: ``0.84 ms``, ``12.3 ms``, ``1.50 s``."""
    if elapsed_ms >= 1000:
        return f"{elapsed_ms / 1000:.2f} s"
    return f"{elapsed_ms:.2f} ms" if elapsed_ms < 10 else f"{elapsed_ms:.1f} ms"
