"""What tests of the plugin share: a ledger with money in it, and an event loop."""

from decimal import Decimal

import pytest

from game_operator.ledger import MemoryLedger


@pytest.fixture
def anyio_backend() -> str:
    """Async handlers run under asyncio."""
    return "asyncio"


@pytest.fixture
def ledger() -> MemoryLedger:
    """A ledger in which p1 owns 100.00."""
    ledger = MemoryLedger()
    ledger.open_account("p1", Decimal("100.00"))
    return ledger
