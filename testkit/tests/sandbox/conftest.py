"""A sandbox for all tests that leave its world alone, the clients that ask it, and a clock that stands still."""

from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from game_operator import OperatorClient
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.sandbox.support import NOW_MILLIS
from tests.support.signed_http import SignedHttp
from tests.support.times import StoppedClock


@pytest.fixture(scope="package")
def sandbox(public_key: RSAPublicKey) -> Iterator[Sandbox]:
    """A sandbox that all tests share: they grant under reference ids of their own and change nothing else."""
    with Sandbox(operator_public_key=public_key) as sandbox:
        yield sandbox


@pytest.fixture(scope="package")
def http(sandbox: Sandbox, private_key: RSAPrivateKey) -> Iterator[SignedHttp]:
    """The registered operator, sending whatever a test says."""
    with SignedHttp(sandbox.base_url, sandbox.operator_id, private_key) as http:
        yield http


@pytest.fixture(scope="package")
def client(sandbox: Sandbox, private_key: RSAPrivateKey) -> Iterator[OperatorClient]:
    """The registered operator's client."""
    with OperatorClient(sandbox.base_url, sandbox.operator_id, private_key, trust_env=False) as client:
        yield client


@pytest.fixture
def clock() -> StoppedClock:
    """A service's clock that moves when a test says so."""
    return StoppedClock(NOW_MILLIS)


@pytest.fixture
def own_sandbox(public_key: RSAPublicKey, clock: StoppedClock) -> Iterator[Sandbox]:
    """A sandbox for one test alone, whose world and clock it may change."""
    with Sandbox(operator_public_key=public_key, clock=clock) as sandbox:
        yield sandbox


@pytest.fixture
def own_http(own_sandbox: Sandbox, private_key: RSAPrivateKey) -> Iterator[SignedHttp]:
    """The operator of ``own_sandbox``."""
    with SignedHttp(own_sandbox.base_url, own_sandbox.operator_id, private_key) as http:
        yield http
