"""The fixtures of the tests of the back office."""

from tests.support.backoffice_fixtures import database_url, ledger, service, sqlite_url

__all__ = ["database_url", "ledger", "service", "sqlite_url"]
