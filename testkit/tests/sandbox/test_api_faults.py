"""Faults of the Operator API, met by the real client over real HTTP (spec §4.2, §5)."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from game_operator import OperatorClient
from game_operator.errors import (
    AuthenticationError,
    FreeBetRejectedError,
    OperatorInactiveError,
    OutcomeUnknownError,
    RateLimitedError,
    ServiceError,
)
from game_operator_testkit.provider.faults import Fault
from game_operator_testkit.sandbox import Sandbox
from game_operator_testkit.sandbox.service.exchange_log import LiveLog
from testkit.tests.sandbox.support import terms

pytestmark = pytest.mark.outside

CALLS: dict[str, Callable[[OperatorClient, Sandbox], object]] = {
    "fetch-games": lambda client, _: client.fetch_games(),
    "fetch-bet": lambda client, sandbox: client.fetch_bet(sandbox.bet_ids["OPEN"]),
    "fetch-round-bets": lambda client, sandbox: client.fetch_round_bets(
        instance_id=sandbox.instance_id, round_id=sandbox.round_id
    ),
    "grant": lambda client, sandbox: client.grant_free_bet(**terms(sandbox.instance_id)),
}


@pytest.fixture(scope="module")
def one_sandbox(public_key: RSAPublicKey) -> Iterator[Sandbox]:
    """One for all tests: each switches on what it needs, and grants under references of its own."""
    with Sandbox(operator_public_key=public_key) as sandbox:
        yield sandbox


@pytest.fixture
def own_sandbox(one_sandbox: Sandbox) -> Sandbox:
    """The same with no fault switched on and an empty log."""
    one_sandbox.faults.clear()
    one_sandbox.service.live = LiveLog()
    return one_sandbox


def grants(sandbox: Sandbox) -> list[str]:
    return [each.request.reference_id for each in sandbox.world.grants()]


@pytest.fixture
def client(own_sandbox: Sandbox, private_key: RSAPrivateKey) -> Iterator[OperatorClient]:
    """A client that does not repeat: each of its calls is one request."""
    with closing(
        OperatorClient(own_sandbox.base_url, own_sandbox.operator_id, private_key, retries=0, trust_env=False)
    ) as client:
        yield client


def patient(client: OperatorClient) -> OperatorClient:
    return client.with_options(retries=3, deadline=20.0)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("fault", "raised"),
    [
        (Fault.API_500, ServiceError),
        (Fault.API_429, RateLimitedError),
        (Fault.API_INACTIVE, OperatorInactiveError),
    ],
    ids=["500", "429", "inactive"],
)
def test_each_call_meets_each_fault(
    own_sandbox: Sandbox, client: OperatorClient, name: str, fault: Fault, raised: type[Exception]
) -> None:
    """Switched on it strikes, switched off it does not; fetch-games has no 403, and answers 401 (spec §4.2)."""
    if fault is Fault.API_INACTIVE and name == "fetch-games":
        raised = AuthenticationError
    if fault is Fault.API_500 and name == "grant":
        raised = OutcomeUnknownError
    own_sandbox.faults.set(fault, 1.0)
    with pytest.raises(raised):
        CALLS[name](client, own_sandbox)
    own_sandbox.faults.set(fault, 0.0)
    assert CALLS[name](client, own_sandbox)
    struck, sound = own_sandbox.live.recent()[::-1]
    assert (struck.fault, sound.fault) == (fault, "")
    status = {Fault.API_500: 500, Fault.API_429: 429, Fault.API_INACTIVE: 401 if name == "fetch-games" else 403}[fault]
    assert (struck.status, sound.status) == (status, 200)
    assert struck.direction == "api"
    assert struck.signature == sound.signature


def test_the_client_is_asked_to_slow_down(own_sandbox: Sandbox, client: OperatorClient) -> None:
    """429 carries Retry-After, which the client tells and, being patient, keeps to."""
    own_sandbox.faults.set_nth("api-429", 1)
    with pytest.raises(RateLimitedError) as slow_down:
        client.fetch_games()
    assert slow_down.value.retry_after == 1.0
    own_sandbox.faults.set_nth("api-429", 1)
    assert patient(client).fetch_games()
    assert [exchange.status for exchange in own_sandbox.live.recent(2)] == [200, 429]


def test_a_grant_under_a_500_was_really_made(own_sandbox: Sandbox, client: OperatorClient) -> None:
    """The worst of its kind: whoever sends it again is told DUPLICATE_REFERENCE_ID."""
    grant: dict[str, Any] = terms(own_sandbox.instance_id)
    own_sandbox.faults.set_nth("api-500", 1)
    with pytest.raises(OutcomeUnknownError) as doubt:
        client.grant_free_bet(**grant)
    assert doubt.value.reference_id == grant["reference_id"]
    assert grants(own_sandbox).count(grant["reference_id"]) == 1
    with pytest.raises(FreeBetRejectedError) as rejected:
        client.grant_free_bet(**grant)
    assert rejected.value.error_code == "DUPLICATE_REFERENCE_ID"


@pytest.mark.parametrize("fault", [Fault.API_429, Fault.API_INACTIVE], ids=str)
def test_a_grant_under_another_fault_was_not_made(own_sandbox: Sandbox, client: OperatorClient, fault: Fault) -> None:
    """Whoever is asked to slow down, or is inactive, was not served."""
    grant: dict[str, Any] = terms(own_sandbox.instance_id)
    own_sandbox.faults.set_nth(fault, 1)
    with pytest.raises((RateLimitedError, OperatorInactiveError)):
        client.grant_free_bet(**grant)
    assert grant["reference_id"] not in grants(own_sandbox)
