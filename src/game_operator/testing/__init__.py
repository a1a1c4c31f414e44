"""
For the test suite of an operator: a pytest plugin, and what its fixtures are made of (extra ``pytest``).

The plugin is loaded by installation. Names are loaded when they are first used, so that a test run in which no test
asks for a fixture of ours pays for none.
"""

from typing import TYPE_CHECKING

from game_operator._lazy import lazy_names

if TYPE_CHECKING:
    from game_operator.provider.in_process import asgi_wallet, wsgi_wallet
    from game_operator.sandbox.in_process import InProcessSandbox
    from game_operator.testing.backoffice import CampaignMaker, ReconcilerMaker
    from game_operator.testing.certifier import WalletCertifier
    from game_operator.testing.signer import SignedWebhook, WebhookSigner

__all__ = [
    "CampaignMaker",
    "InProcessSandbox",
    "ReconcilerMaker",
    "SignedWebhook",
    "WalletCertifier",
    "WebhookSigner",
    "asgi_wallet",
    "wsgi_wallet",
]

if not TYPE_CHECKING:  # With a __getattr__, a type checker would accept every misspelt name.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "game_operator.provider.in_process": "asgi_wallet wsgi_wallet",
            "game_operator.sandbox.in_process": "InProcessSandbox",
            ".backoffice": "CampaignMaker ReconcilerMaker",
            ".certifier": "WalletCertifier",
            ".signer": "SignedWebhook WebhookSigner",
        },
        extra="pytest",
        needs={"pytest"},
    )
