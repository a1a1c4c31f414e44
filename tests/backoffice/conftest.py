"""The fixtures of the tests of the back office."""

from tests.support.backoffice_fixtures import ledger, service

__all__ = ["ledger", "service"]
