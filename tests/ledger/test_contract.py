"""Every ledger passes the one suite of ``tests/ledger_contract.py``."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ledger_contract import AtOnceContract, DatabaseContract, LedgerContract
from tests.support.ledgers import KINDS, AnyLedger, AsyncInDatabase, InDatabase, InMemory


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.replace(" ", "-"))
def ledger(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyLedger]:
    """One ledger of each kind for the whole suite: each test has a source and players of its own."""
    ledger = _opened(request, tmp_path_factory.mktemp("ledger"))
    yield ledger
    ledger.close()


def _opened(request: pytest.FixtureRequest, folder: Path) -> AnyLedger:
    if request.param == "memory":
        return InMemory()
    if request.param.endswith("sqlite"):
        url = f"sqlite:///{folder / 'wallet.db'}"
    else:
        url = request.getfixturevalue("postgres").create_database()
    return AsyncInDatabase(url) if request.param.startswith("async") else InDatabase(url)


@pytest.fixture(params=[1, pytest.param(10, marks=[pytest.mark.torture, pytest.mark.timeout(3_600)])])
def operations(request: pytest.FixtureRequest, ledger: AnyLedger) -> int:
    """How many random operations are tried: 2,000 where nothing waits for a disk or a server, and 10^5."""
    if request.param > 1:
        return 100_000
    return 2_000 if isinstance(ledger, InMemory) else 600


@pytest.mark.drawn(30, ledger=("async sqlite", "async postgres"))
class TestContract(LedgerContract):
    """The suite; behind asyncio are the same statements."""


class TestAtOnceContract(AtOnceContract):
    """What has a commit queue and a lock of its own behind asyncio."""


@pytest.mark.parametrize("ledger", [kind for kind in KINDS if kind != "memory"], indirect=True)
class TestDatabaseContract(DatabaseContract):
    """What a ledger in memory cannot promise."""
