"""What the tests of the sandbox share: a time, terms of grants, and sound calls."""

import json
from itertools import count
from typing import Any

import httpx

from game_operator_testkit.sandbox import Sandbox
from tests.support.signed_http import GRANT, ROUND, RawCall, SignedHttp

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


def sound_call(name: str, sandbox: Sandbox, http: SignedHttp) -> RawCall:
    """Return the call *name* such that it succeeds when signed (spec §4.2)."""
    match name:
        case "fetch-games":
            return http.games_call()
        case "fetch-bet":
            return http.bet_call(sandbox.bet_ids["OPEN"])
        case "fetch-round-bets":
            return _post(ROUND, {"instance_id": sandbox.instance_id, "round_id": sandbox.round_id})
        case _:
            return _post(GRANT, terms(sandbox.instance_id))


def outcome(response: httpx.Response) -> tuple[int, Any]:  # Any: a JSON body.
    """Return the status and the JSON body, which must call itself JSON."""
    assert response.headers["content-type"] == "application/json"
    return response.status_code, response.json()


def _post(path: str, body: object) -> RawCall:
    content = json.dumps(body).encode()
    return RawCall("POST", path, content, content)
