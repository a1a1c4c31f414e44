"""Tests that break databases have what the tests of ledgers have."""

from tests.ledger.conftest import anyio_backend, crowd, quiet_ledger

__all__ = ["anyio_backend", "crowd", "quiet_ledger"]
