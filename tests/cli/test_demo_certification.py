"""The demo's last part can fail: a wallet that certification finds wrong is the demo's own failure."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.cli.commands.demo import shown_steps
from game_operator.cli.commands.demo_tour import DemoWallet, certification_steps
from game_operator.ledger import SqlLedger
from game_operator.wallet import Wallet
from tests.cli.certified import GivesBackWhatItNeverTook, Make, served

pytestmark = pytest.mark.outside


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        pytest.param(Wallet, "", id="the ready wallet"),
        pytest.param(GivesBackWhatItNeverTook, "the wallet fails C01, a rollback of ", id="a wrong one"),
    ],
)
@pytest.mark.drawn(1)
def test_the_demo_holds_its_wallet_to_the_certifier(
    make: Make, problem: str, tmp_path: Path, private_key: RSAPrivateKey
) -> None:
    """Groups A, B and C, each counted; the heaviest failure is told with its reason."""
    with served(tmp_path, private_key, make) as app, SqlLedger(app.database) as ledger:
        wallet = DemoWallet(app.url, app.database, ledger, private_key)
        (certified,) = shown_steps(certification_steps(wallet))
    assert certified["problem"].startswith(problem)
    assert bool(certified["problem"]) == bool(problem)
    lines = certified["lines"]
    assert [line.partition(": ")[0] for line in lines[2:5]] == ["A flows", "B repeats", "C order and state"]
    assert any("PASSED" in line for line in lines) == (not problem)
