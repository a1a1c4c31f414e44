"""
The pytest plugin: a sandbox in process, webhooks signed by its service, a certifier of wallets, and reconciliations and
campaigns against the sandbox.

Loaded at the start of every test run where the package is installed, so nothing is imported here but pytest: a fixture
imports what it needs.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from game_operator.profile import Profile
    from game_operator_testkit.plugin.backoffice import CampaignMaker, ReconcilerMaker
    from game_operator_testkit.plugin.certifier import WalletCertifier
    from game_operator_testkit.plugin.signer import WebhookSigner
    from game_operator_testkit.provider.keys import ThrowAwayKeys
    from game_operator_testkit.sandbox.in_process import InProcessSandbox

__all__ = [
    "campaign_for",
    "game_operator_keys",
    "operator_profile",
    "operator_sandbox",
    "reconciler_for",
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


@pytest.fixture
def reconciler_for(operator_sandbox: "InProcessSandbox") -> "Iterator[ReconcilerMaker]":
    """Reconciles your wallet with the sandbox, without waiting: ``reconciler_for(wallet).run()``."""
    from game_operator_testkit.plugin.backoffice import ReconcilerMaker

    with operator_sandbox.client() as client:
        yield ReconcilerMaker(client)


@pytest.fixture
def campaign_for(operator_sandbox: "InProcessSandbox") -> "Iterator[CampaignMaker]":
    """Grants free bets at the sandbox, to players of your ledger: ``campaign_for(ledger, "summer").plan(["p1"])``."""
    from game_operator_testkit.plugin.backoffice import CampaignMaker

    with operator_sandbox.client() as client:
        yield CampaignMaker(operator_sandbox, client)


@pytest.fixture(scope="session")
def signed_webhook(game_operator_keys: "ThrowAwayKeys", operator_profile: "Profile") -> "WebhookSigner":
    """Signs a webhook as the service would: ``signed_webhook("withdraw", player_id=…, bet_id=…, amount_cents=…)``."""
    from game_operator_testkit.plugin.signer import WebhookSigner

    return WebhookSigner(game_operator_keys, operator_profile)


@pytest.fixture
def wallet_certifier(
    request: pytest.FixtureRequest, game_operator_keys: "ThrowAwayKeys", operator_profile: "Profile"
) -> "WalletCertifier":
    """
    Certifies a wallet, each scenario a subtest: ``wallet_certifier(wallet, player_id="p1", other_player_id="p2")``.

    pytest before 9 has no subtests, unless the plugin pytest-subtests is there: then the test fails as a whole.
    """
    from game_operator_testkit.plugin.certifier import WalletCertifier

    try:
        subtests = request.getfixturevalue("subtests")
    except pytest.FixtureLookupError:
        subtests = None
    # What this handler keeps, pytest prints below the whole test, without the scenario that it belongs to.
    logs = getattr(request.config.pluginmanager.get_plugin("logging-plugin"), "report_handler", None)
    return WalletCertifier(game_operator_keys, operator_profile, subtests, logs)
