"""The wrong wallets of ``test_wrong_wallets`` that are wrong under load, to strangers, by odd bodies and in time."""

from pathlib import Path

import pytest

from tests.certify.harness import hold_caught
from tests.certify.wrong_wallets.registry import WrongWallet
from tests.support.wrong_wallet_table import WRONG_WALLETS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("wrong", [each for each in WRONG_WALLETS.values() if each.must[0] not in "ABCG"], ids=str)
def test_a_wrong_wallet_fails(wrong: WrongWallet, tmp_path: Path) -> None:
    """It fails where its mistake must show, perhaps where it may, and nowhere else."""
    hold_caught(wrong, tmp_path)
