"""What the tests of the sandbox share: a time, terms of grants, and exchanges."""

from itertools import count
from typing import Any

import httpx

from game_operator_testkit.sandbox.service.exchange_log import Exchange

#: 2026-03-01T00:00:00Z.
NOW_MILLIS = 1_772_323_200_000
DAY_MILLIS = 86_400_000

_references = count(1)


def fresh_reference() -> str:
    """Return a reference id that no other test uses."""
    return f"reference-{next(_references)}"


def terms(instance_id: str, /, **changes: object) -> dict[str, Any]:  # Any: passed on as keyword arguments.
    """Return a grant that breaks no limit, under a fresh reference id, with *changes*."""
    return {
        "player_id": "player-1",
        "instance_id": instance_id,
        "count": 5,
        "wager_amount_cents": 100,
        "expire_duration_millis": DAY_MILLIS,
        "reference_id": fresh_reference(),
    } | changes


def exchange(**changes: object) -> Exchange:
    """Return a withdraw that the wallet answered with SUCCESS, with *changes*."""
    usual = {
        "at_millis": 1_763_722_800_120,
        "direction": "webhook",
        "method": "POST",
        "path": "/withdraw",
        "request_headers": ((b"Signature", b"abc"),),
        "request_body": b'{"player_id":"p1"}',
        "signature": "valid",
        "status": 200,
        "response_body": b'{"type":"SUCCESS","balance":1.00,"timestamp":1}',
    }
    return Exchange(**(usual | changes))  # type: ignore[arg-type]  # a table of keywords


def outcome(response: httpx.Response) -> tuple[int, Any]:  # Any: a JSON body.
    """Return the status and the JSON body, which must call itself JSON."""
    assert response.headers["content-type"] == "application/json"
    return response.status_code, response.json()
