"""The fixtures of all tests of commands."""

from tests.support.command_fixtures import _no_settings, database, key_file, keys, nobody, run

__all__ = ["_no_settings", "database", "key_file", "keys", "nobody", "run"]
