"""The certifier passes our own wallets: on each kind of ledger, under each profile, and in each framework."""

import os
import subprocess
import sys
from collections.abc import Container, Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from game_operator.backoffice.reconcile.judge import is_test_bet
from game_operator.codes import BetState
from game_operator.profile import Profile
from game_operator_testkit.certifier import Report, Supplies, scenarios
from testkit.tests.certifier.example_wallets import (
    ALONE,
    EXAMPLES,
    ON_POSTGRES,
    WITH_LIMITS,
    Opening,
    certified_example,
)
from testkit.tests.certifier.ours import certified_ours
from tests.support.ledgers import KINDS, AnyLedger, AsyncInDatabase, InDatabase, InMemory

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
#: What no caller of a wallet in process can supply.
_NEEDS_A_NETWORK = {"wire", "elsewhere"}
_ALL_AT_ONCE: dict[str, Any] = {
    "codes": "core",
    "unknown_rollback": "success",
    "rollback_tx_id": "own",
    "duplicate_reply": "verbatim",
    "early_deposit_code": "SYSTEM_ERROR",
    "unauthenticated_status": 401,
    "deposit_batch": True,
}
#: Hundreds of calls each, which no profile changes.
_LONG = ("D01", "D05", "D08", "D09", "G01", "G04")
#: What an example could be asked to supply, and is not.
_SUPPLIES = frozenset(each.name for each in fields(Supplies)) | {"batches"}


@pytest.fixture
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyLedger]:
    """An empty ledger of the kind that the test's parameter names."""
    opened: AnyLedger
    if request.param == "memory":
        opened = InMemory()
    else:
        is_file = request.param.endswith("sqlite")
        url = f"sqlite:///{tmp_path}/wallet.db" if is_file else request.getfixturevalue("postgres_url")
        opened = AsyncInDatabase(url) if request.param.startswith("async") else InDatabase(url)
    yield opened
    opened.close()


def _check(report: Report, without: frozenset[str] = frozenset()) -> None:
    """
    Nothing fails, not even by advice.

    Skipped is what needs a network, what needs one of *without*, and what the profile leaves no room for; nothing else.
    """
    assert {each.id: each.reason for each in (*report.failures, *report.advice)} == {}
    assert report.passed
    needs = {each.id: set(each.needs) for each in scenarios()}
    unsupplied = _NEEDS_A_NETWORK | without
    skipped = {each.id: each.reason for each in report.skipped if not needs[each.id] & unsupplied}
    assert {each: reason for each, reason in skipped.items() if "profile" not in reason} == {}
    assert [each.difference_cents for each in report.moved] == [0, 0]


def _nightly(names: Iterable[str], gate: Container[str]) -> list[Any]:
    return [pytest.param(each, marks=[] if each in gate else [pytest.mark.torture]) for each in names]


@pytest.mark.parametrize("ledger", _nightly(KINDS, {"sqlite"}), indirect=True)
def test_each_ledger_passes(ledger: AnyLedger) -> None:
    """With all supplied: blocked players, failures, restarts, a second wallet on the same database, pruning."""
    report = certified_ours(ledger, Profile(deposit_batch=True))
    _check(report)
    assert len(report.verdicts) == len(scenarios())
    if not isinstance(ledger, InMemory | AsyncInDatabase):
        # What no provider knows, a reconciliation knows by its id; what was rolled back needs no provider.
        left = [bet for bet in vars(ledger)["ledger"].bets() if bet.state is not BetState.ROLLED_BACK]
        assert len(left) > 300
        assert [bet.bet_id for bet in left if not is_test_bet(bet.bet_id)] == []


@pytest.mark.parametrize("ledger", ["async postgres"], indirect=True)
def test_a_ledger_on_a_server_passes(ledger: AnyLedger) -> None:
    """Repeats, races, also of two wallets, and failures; in full it is played above, in torture."""
    _check(certified_ours(ledger, Profile(deposit_batch=True), only=["B", "D02", "D04", "D06", "H"]))


@pytest.mark.parametrize("ledger", ["memory"], indirect=True)
def test_all_of_a_profile_at_once_passes(ledger: AnyLedger) -> None:
    """Nothing that a profile changes stands in the way of another change."""
    _check(certified_ours(ledger, Profile(**_ALL_AT_ONCE), skip=_LONG))


@pytest.mark.parametrize("name", _nightly(EXAMPLES, {"webhooks_fastapi", "table_accounts"}))
@pytest.mark.drawn(1)
def test_each_example_passes(name: str) -> None:
    """In each framework, over a table of the operator's own, and in the operator's own transaction."""
    report = certified_example(EXAMPLES[name])
    _check(report, _SUPPLIES)


@pytest.mark.parametrize("opening", [pytest.param(opening, id=name) for name, opening in ON_POSTGRES.items()])
@pytest.mark.artefact
def test_each_example_on_postgresql_passes(opening: Opening, postgres_url: str) -> None:
    """What needs a server."""
    _check(certified_example(opening, postgres_url), _SUPPLIES)


def test_a_wallet_with_limits_passes() -> None:
    """A limit of its own is no fault: what cannot be tried within it is skipped, and its code is advice at most."""
    report = certified_example(WITH_LIMITS)
    assert report.passed
    assert [each.id for each in report.advice if "LIMIT_EXCEEDED" not in each.reason] == []
    assert "LIMIT_EXCEEDED" in report.verdict("A06").reason


@pytest.mark.artefact
@pytest.mark.parametrize("name", _nightly(ALONE, {"own_transaction_django"}))
def test_each_example_with_django_passes(name: str) -> None:
    """In a process of its own."""
    command = [sys.executable, "-m", "testkit.tests.certifier.example_wallets", name]
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONPATH": "examples"}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=50, cwd=ROOT, env=environ, check=False)
    *found, told = ran.stdout.splitlines() or [ran.stderr]
    assert found == []
    assert ran.returncode == 0
    assert int(told.split()[0]) > 10
