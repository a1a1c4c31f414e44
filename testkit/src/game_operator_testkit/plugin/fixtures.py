"""
The pytest plugin: a sandbox in process, webhooks signed by its service, and a certifier of wallets.

Loaded at the start of every test run where the package is installed, so nothing is imported here but pytest: a fixture
imports what it needs.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from game_operator.profile import Profile
    from game_operator_testkit.plugin.certifier import WalletCertifier
    from game_operator_testkit.plugin.signer import WebhookSigner
    from game_operator_testkit.provider.keys import ThrowAwayKeys
    from game_operator_testkit.sandbox.in_process import InProcessSandbox

__all__ = [
    "game_operator_keys",
    "operator_profile",
    "operator_sandbox",
    "signed_webhook",
    "wallet_certifier",
]


@pytest.fixture(scope="session")
def operator_profile() -> "Profile":
    """What is assumed, for the fixtures below. Override it for other names of fields or another signature header."""
    from game_operator.profile import Profile

    return Profile()


@pytest.fixture(scope="session")
def game_operator_keys() -> "ThrowAwayKeys":
    """The keys of this test run: made when first used, shared by all tests, never stored."""
    from game_operator_testkit.provider.keys import ThrowAwayKeys

    return ThrowAwayKeys()


@pytest.fixture
def operator_sandbox(game_operator_keys: "ThrowAwayKeys", operator_profile: "Profile") -> "Iterator[InProcessSandbox]":
    """The service, played in process: games, bets, grants, and rounds against your wallet. Each test has its own."""
    from game_operator_testkit.sandbox.in_process import InProcessSandbox

    with InProcessSandbox(keys=game_operator_keys, profile=operator_profile) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def signed_webhook(game_operator_keys: "ThrowAwayKeys", operator_profile: "Profile") -> "WebhookSigner":
    """Signs a webhook as the service would: ``signed_webhook("withdraw", player_id=…, bet_id=…, amount_cents=…)``."""
    from game_operator_testkit.plugin.signer import WebhookSigner

    return WebhookSigner(game_operator_keys, operator_profile)


@pytest.fixture
def wallet_certifier(game_operator_keys: "ThrowAwayKeys", operator_profile: "Profile") -> "WalletCertifier":
    """Certifies a wallet: ``wallet_certifier(wallet, player_id="p1", other_player_id="p2")``."""
    from game_operator_testkit.plugin.certifier import WalletCertifier

    return WalletCertifier(game_operator_keys, operator_profile)
