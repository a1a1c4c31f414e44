"""
Processes that make the grants of a campaign, killed at random moments and started again, two at a time on PostgreSQL.

Whatever was under way when one died is in doubt, and asked for again. In the end each player was granted once at the
service, and nobody was left out.
"""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator import OperatorClient
from game_operator.backoffice import Campaign
from game_operator.backoffice.campaigns import GrantState
from game_operator.backoffice.journal import Journal
from game_operator.ledger import SqlLedger
from game_operator_testkit.sandbox import Sandbox
from tests.support.crowds import worker_context
from tests.support.leftovers import assert_idle
from tests.support.postgres import PostgresServer
from tests.support.seeds import random_of

pytestmark = pytest.mark.outside

Figures = Callable[[str, object], None]
LEASE_MILLIS = 1_500


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh database of each kind, on the disk."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'wallet.db'}"
    server: PostgresServer = request.getfixturevalue("durable")
    return server.create_database()


def _resume(url: str, base_url: str, operator_id: str, key: Path) -> None:
    """Work at the campaign, in a process."""
    with OperatorClient(base_url, operator_id, key) as client, SqlLedger(url) as ledger:
        campaign = Campaign(client, ledger, "killed")
        # Nobody waits a minute for the lease of a process that was killed.
        campaign._journal = Journal(ledger, lease_millis=LEASE_MILLIS)
        campaign.resume(rate_per_second=1_000.0, concurrency=2)


def _killed(url: str, key: RSAPrivateKey, pem: bytes, folder: Path, *, kills: int, seed: int) -> str:
    """Kill processes *kills* times, let the campaign end, assert that each was granted once; return figures."""
    players = [f"p{number}" for number in range(60 * kills)]
    key_file = folder / "operator.pem"
    key_file.touch(0o600)
    key_file.write_bytes(pem)
    with (
        Sandbox(operator_public_key=key.public_key()) as sandbox,
        OperatorClient(sandbox.base_url, sandbox.operator_id, key_file) as client,
        SqlLedger(url) as ledger,
    ):
        terms: dict[str, Any] = {"count": 5, "wager_amount_cents": 100, "expire_duration_millis": 86_400_000}
        campaign = Campaign(client, ledger, "killed", instance_id=sandbox.instance_id, **terms)
        campaign.plan(players, check_players=False)
        arguments = (url, sandbox.base_url, sandbox.operator_id, key_file)
        workers = 2 if url.startswith("postgres") else 1
        done, in_doubt = _kill_at_random(arguments, workers, sandbox, campaign, kills, seed)
        report = campaign.report()
    assert (report.state, report.granted, report.left, report.findings) == ("finished", len(players), 0, ())
    assert Counter(grant.request.player_id for grant in sandbox.world.grants()) == Counter(players)
    assert done == kills, f"the campaign ended after {done} kills"
    assert in_doubt, "no call was under way when a process was killed"
    assert_idle(url)
    return f"{url.partition(':')[0]}, {kills} kills, {len(players)} grants, {in_doubt} seen in doubt after kills"


def _kill_at_random(
    arguments: tuple[Any, ...], workers: int, sandbox: Sandbox, campaign: Campaign, kills: int, seed: int
) -> tuple[int, int]:
    """Kill one of *workers* processes at a time, and start another; return how often, and the grants in doubt."""
    random, done, in_doubt = random_of(seed), 0, 0
    processes = [_started(arguments) for _ in range(workers)]
    while done < kills and campaign.status().state != "finished":
        # A kill while a process starts would try nothing: there is work between two of them.
        granted, deadline = len(sandbox.world.grants()), time.monotonic() + 60
        while len(sandbox.world.grants()) <= granted and campaign.status().state != "finished":
            assert time.monotonic() < deadline, f"nobody grants any more: {campaign.status()}"
            time.sleep(0.005)
        time.sleep(random.uniform(0.0, 0.15))
        victim = processes.pop(random.randrange(workers))
        victim.kill()
        victim.join()
        done += 1
        in_doubt += campaign.status().count(GrantState.SENDING)
        processes.append(_started(arguments))
    for process in processes:
        process.join(100)
    assert [process.exitcode for process in processes] == [0] * workers
    return done, in_doubt


def _started(arguments: tuple[Any, ...]) -> Any:
    process = worker_context().Process(target=_resume, args=arguments, daemon=True)
    process.start()
    return process


@pytest.mark.timeout(300)
@pytest.mark.drawn(1)
def test_each_is_granted_once(url: str, private_key: RSAPrivateKey, private_pem: bytes, tmp_path: Path) -> None:
    """Three kills."""
    _killed(url, private_key, private_pem, tmp_path, kills=3, seed=1)


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_each_is_granted_once_through_50_kills(
    url: str, private_key: RSAPrivateKey, private_pem: bytes, tmp_path: Path, record_property: Figures
) -> None:
    """Fifty kills."""
    record_property("figures", _killed(url, private_key, private_pem, tmp_path, kills=50, seed=2))
