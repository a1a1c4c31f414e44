"""The demo's last part can fail: a wallet that certification finds wrong is the demo's own failure."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.ledger import SqlLedger
from game_operator_testkit.cli.demo import shown_steps
from game_operator_testkit.cli.demo_tour import DemoWallet, certification_steps
from tests.support.served_wallets import GivesBackWhatItNeverTook, served

pytestmark = [pytest.mark.artefact, pytest.mark.outside]


def test_the_demo_holds_its_wallet_to_the_certifier(tmp_path: Path, private_key: RSAPrivateKey) -> None:
    """
    The heaviest failure is told with its reason.

    That the ready wallet passes is told by the whole story of test_demo.
    """
    with served(tmp_path, private_key, GivesBackWhatItNeverTook) as app, SqlLedger(app.database) as ledger:
        wallet = DemoWallet(app.url, app.database, ledger, private_key)
        (certified,) = shown_steps(certification_steps(wallet))
    assert certified["problem"].startswith("the wallet fails C01, a rollback of ")
    lines = certified["lines"]
    assert not any("PASSED" in line for line in lines)
