"""The pure parts of a session token (spec §1, §5 mention it; all of it is assumed: docs/decisions/0005)."""

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies

from game_operator.errors import SessionTokenError
from game_operator.protocol.session_token import (
    ALGORITHM,
    LONGEST_LIFETIME_SECONDS,
    RESERVED_CLAIMS,
    SessionClaims,
    assembled,
    payload_of,
    read_claims,
    signing_input,
)
from tests.support.wire import JSON_VALUES, JsonObject, examples

NOW = 1_800_000_000
CLAIMS = SessionClaims(
    operator_id="acme",
    player_id="player-1",
    instance_id="instance-1",
    issued_at=datetime.fromtimestamp(NOW, UTC),
    expires_at=datetime.fromtimestamp(NOW + 900, UTC),
    token_id="token-1",
)


def _read(payload: bytes, now: float = NOW) -> SessionClaims:
    return read_claims(payload, operator_id="acme", instance_id="instance-1", now_seconds=now)


def _payload(**changes: Any) -> bytes:
    claims: JsonObject = json.loads(payload_of(CLAIMS, {}))
    claims |= changes
    return json.dumps({name: value for name, value in claims.items() if value != "absent"}).encode()


def test_the_payload() -> None:
    """Operator, player, instance, times in seconds and id, in this order, and no data when none is given (spec §5)."""
    assert payload_of(CLAIMS, {}) == (
        b'{"iss":"acme","sub":"player-1","aud":"instance-1","iat":1800000000,"exp":1800000900,"jti":"token-1"}'
    )


def test_claims_of_one_s_own() -> None:
    """More claims follow ours, and come back (spec §5)."""
    payload = payload_of(CLAIMS, {"locale": "de", "limits": [1, Decimal("0.10")]})
    assert payload.endswith(b'"jti":"token-1","locale":"de","limits":[1,0.10]}')
    assert _read(payload).extra == {"locale": "de", "limits": [1, Decimal("0.10")]}


@pytest.mark.parametrize(
    ("key_id", "header"),
    [(None, b'{"typ":"JWT","alg":"RS256"}'), ("k1", b'{"typ":"JWT","alg":"RS256","kid":"k1"}')],
)
def test_what_is_signed(key_id: str | None, header: bytes) -> None:
    """The header names RS256, and a kid only if there is one; both parts are URL-safe and unpadded (spec §5)."""
    signed = signing_input(b'{"a":"\xc3\xbf\xc3\xbe?>"}', key_id)
    first, second = signed.split(b".")
    assert base64.urlsafe_b64decode(first + b"==") == header
    assert base64.urlsafe_b64decode(second + b"==") == b'{"a":"\xc3\xbf\xc3\xbe?>"}'
    assert b"=" not in signed
    assert assembled(signed, b"\xff\xfe") == signed.decode() + ".__4"
    assert ALGORITHM == "RS256"


MISTYPED: list[tuple[str, object]] = [
    ("iss", None),
    ("sub", 5),
    ("jti", True),
    ("iat", "1800000000"),
    ("iat", True),
    ("exp", 1_800_000_900.5),
    ("nbf", None),
    ("data", []),
    ("data", None),
]


@pytest.mark.parametrize(
    ("changes", "now", "problem"),
    [
        pytest.param({"iss": "other"}, NOW, "operator 'other' issued it", id="another operator"),
        pytest.param({"aud": "instance-2"}, NOW, "it opens instance 'instance-2'", id="another instance"),
        pytest.param({"aud": ["instance-1"]}, NOW, "its claim aud", id="several instances"),
        pytest.param({}, NOW + 900, "it has expired", id="expired to the second"),
        pytest.param({}, NOW - 0.001, "it is not valid yet", id="a millisecond early"),
        pytest.param({"nbf": NOW + 1}, NOW, "it is not valid yet", id="not before"),
        pytest.param({"exp": NOW + 10_801}, NOW, "longer than 3 hours", id="a second over three hours"),
        *(
            pytest.param({name: "absent"}, NOW, f"no claim {name}", id=f"no {name}")
            for name in ("iss", "sub", "aud", "iat", "exp", "jti")
        ),
        *(
            pytest.param({name: value}, NOW, f"its claim {name} is not", id=f"{value!r} for {name}")
            for name, value in MISTYPED
        ),
        pytest.param({"data": {"balance": None}}, NOW, "its balance is not an amount", id="null for a balance"),
        pytest.param({"data": {"balance": True}}, NOW, "its balance is not an amount", id="true for a balance"),
        pytest.param({"data": {"name": 5}}, NOW, "its claim name", id="a number for a name"),
        pytest.param({"data": {"timestamp": 1.5}}, NOW, "its claim timestamp", id="half a millisecond"),
    ],
)
def test_what_does_not_fit_is_refused(changes: JsonObject, now: float, problem: str) -> None:
    """A token of somebody else, out of time or with a hole in it is refused, and the refusal says why (spec §5)."""
    with pytest.raises(SessionTokenError, match=f"^The session token is refused: .*{problem}"):
        _read(_payload(**changes), now)


@pytest.mark.parametrize(
    ("changes", "now"),
    [
        pytest.param({}, NOW, id="the first moment"),
        pytest.param({}, NOW + 899.999, id="the last moment"),
        pytest.param({"nbf": NOW}, NOW, id="not before now"),
        pytest.param({"exp": NOW + LONGEST_LIFETIME_SECONDS}, NOW, id="three hours"),
        pytest.param({"data": {}}, NOW, id="empty data"),
    ],
)
def test_what_fits_is_read(changes: JsonObject, now: float) -> None:
    """Each bound from its other side (spec §5)."""
    assert timedelta(hours=3).total_seconds() == LONGEST_LIFETIME_SECONDS
    found = _read(_payload(**changes), now)
    assert (found.player_id, found.issued_at) == ("player-1", CLAIMS.issued_at)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff",
        b'{"iat":NaN}',
        b'{"iat":Infinity}',
        b'{"x":1e99999999999999999999}',
        b'{"x":' + b"9" * 5000 + b"}",
        b"[" * 10**5,
    ],
)
def test_what_is_no_exact_object_is_refused(payload: bytes) -> None:
    """A payload is one JSON object with exact numbers (spec §5)."""
    with pytest.raises(SessionTokenError, match="its payload is not a JSON object with exact numbers"):
        _read(payload)


@given(
    strategies.binary(max_size=40)
    | strategies.dictionaries(strategies.sampled_from(sorted(RESERVED_CLAIMS)), JSON_VALUES).map(
        lambda changes: _payload(**changes)
    )
)
@examples(150)
def test_any_payload_is_read_or_refused(payload: bytes) -> None:
    """Nothing but SessionTokenError comes out of a payload (spec §5)."""
    try:
        found = _read(payload)
    except SessionTokenError as refused:
        text = str(refused)
        assert text.isprintable()  # an error is one of the two good ends
        return
    assert found.operator_id == "acme"


@given(strategies.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20, places=5))
@examples(60)
def test_any_balance_survives(balance: Decimal) -> None:
    """A balance passes through no float (spec §5)."""
    found = _read(payload_of(replace(CLAIMS, balance=balance), {}))
    assert found.balance == balance
