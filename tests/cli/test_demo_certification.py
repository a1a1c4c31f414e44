"""The demo's last part can fail: a wallet that certification finds wrong is the demo's own failure."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.cli.commands.demo_parts import Show, play_certification
from game_operator.cli.keys import KeyFiles
from game_operator.wallet import Wallet
from tests.cli.certified import GivesBackWhatItNeverTook, Make, served


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        pytest.param(Wallet, "", id="the ready wallet"),
        pytest.param(GivesBackWhatItNeverTook, "the wallet fails C01, a rollback of ", id="a wrong one"),
    ],
)
def test_the_demo_holds_its_wallet_to_the_certifier(
    make: Make, problem: str, tmp_path: Path, private_key: RSAPrivateKey, private_pem: bytes
) -> None:
    """Groups A, B and C, each counted; the heaviest failure is told with its reason."""
    key = tmp_path / "service.pem"
    key.write_bytes(private_pem)
    keys = KeyFiles(key, key, private_key.public_key())
    show = Show(silent=True)
    with served(tmp_path, private_key, make) as app:
        assert show.play(play_certification, keys, {"url": app.url, "pid": 1}, app.database) == (not problem)
    players, certified = show.steps
    assert players["problem"] == ""
    assert certified["problem"].startswith(problem)
    lines = certified["lines"]
    assert [line.partition(": ")[0] for line in lines[:3]] == ["A flows", "B repeats", "C order and state"]
    assert any("PASSED" in line for line in lines) == (not problem)
