"""The fixtures of all tests of commands, beside a sandbox."""

from testkit.tests.support.command_fixtures import (
    _no_settings,
    database,
    key_file,
    keys,
    nobody,
    run,
    sandbox,
    settings,
)

__all__ = ["_no_settings", "database", "key_file", "keys", "nobody", "run", "sandbox", "settings"]
