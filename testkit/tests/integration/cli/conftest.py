"""The fixtures of all tests of commands, beside a sandbox."""

import pytest

from game_operator.cli.keys import KeyFiles
from game_operator_testkit.provider.caller import WebhookCaller
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
from tests.support.servers import request_bytes

__all__ = ["_no_settings", "database", "key_file", "keys", "nobody", "run", "sandbox", "settings"]

BODY = b'{"player_id":"p1"}'


@pytest.fixture
def signed_head(keys: KeyFiles) -> dict[str, str]:
    """The signature of ``BODY``, as the service sends it."""
    with WebhookCaller("http://127.0.0.1:1", keys.private) as service:
        return {"Signature": service.signature(BODY).decode()}


@pytest.fixture
def balance_check(signed_head: dict[str, str]) -> bytes:
    """A signed balance check as it goes over the wire."""
    return request_bytes("/player-balance", BODY, signed_head)
