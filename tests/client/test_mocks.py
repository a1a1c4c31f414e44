"""
Mocks and instruments of httpx see every call of the default client, so no unit test makes a real grant by mistake.

Each mock answers in the place of a service that would make the grant, and that has to stay unasked.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

import pook
import pytest
import respx
import vcr
from pytest_httpx import HTTPXMock, httpx_mock
from vcr.errors import CannotOverwriteExistingCassetteException

from tests.support.flavours import Perform, make_grant
from tests.support.hostile_server import HostileServer, answer, response_bytes
from tests.support.wire import granted, wire

__all__ = ["httpx_mock"]


pytestmark = [pytest.mark.outside, pytest.mark.parametrize("flavour", ["sync", "asyncio"])]

_MOCKED: Final = granted(free_bet_id="mocked")


@pytest.fixture
def service() -> Iterator[HostileServer]:
    """A service that grants whatever it is asked for."""
    with HostileServer(answer(response_bytes(200, wire(granted(free_bet_id="real"))))) as server:
        yield server


@contextmanager
def _respx(base_url: str) -> Iterator[None]:
    with respx.mock(base_url=base_url) as mock:
        mock.post("/api/v0.2/free-bet/grant").respond(200, json=_MOCKED)
        yield


@contextmanager
def _pook(base_url: str) -> Iterator[None]:
    with pook.use():
        pook.post(f"{base_url}/api/v0.2/free-bet/grant", reply=200, response_json=_MOCKED)
        yield


@pytest.mark.parametrize("mock", [_respx, _pook])
def test_a_mock_answers(
    mock: Callable[[str], AbstractContextManager[None]], perform: Perform, service: HostileServer
) -> None:
    """With respx and pook (spec §4.2)."""
    with mock(service.base_url):
        assert perform(make_grant, service.base_url).free_bet_id == "mocked"
    assert service.requests == []


def test_pytest_httpx_answers(perform: Perform, service: HostileServer, httpx_mock: HTTPXMock) -> None:
    """Its fixture stands in for every transport of httpx (spec §4.2)."""
    httpx_mock.add_response(url=f"{service.base_url}/api/v0.2/free-bet/grant", json=_MOCKED)
    assert perform(make_grant, service.base_url).free_bet_id == "mocked"
    assert service.requests == []


def test_vcrpy_lets_nothing_out(perform: Perform, service: HostileServer, tmp_path: Path) -> None:
    """It promises so with record_mode="none"; what it has recorded it plays (spec §4.2)."""
    with vcr.use_cassette(str(tmp_path / "empty.yaml"), record_mode="none"):
        with pytest.raises(CannotOverwriteExistingCassetteException):
            perform(make_grant, service.base_url)
        assert service.requests == []
    for _ in range(2):
        with vcr.use_cassette(str(tmp_path / "grant.yaml"), match_on=["method", "path"]):
            assert perform(make_grant, service.base_url).free_bet_id == "real"
        assert len(service.requests) == 1
