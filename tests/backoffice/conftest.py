"""The fixtures of the tests of the back office."""

from tests.support.backoffice_fixtures import ledger, own, service

__all__ = ["ledger", "own", "service"]
