"""
For the test suite of an operator: a pytest plugin, and what its fixtures are made of (extra ``pytest``).

The plugin is loaded by installation. Names are loaded when they are first used, so that a test run in which no test
asks for a fixture of ours pays for none.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from game_operator.provider.carriers.in_process import asgi_wallet, wsgi_wallet
    from game_operator.provider.signed import SignedWebhook
    from game_operator.sandbox.in_process import InProcessSandbox
    from game_operator.testing.certifier import WalletCertifier
    from game_operator.testing.signer import WebhookSigner

__all__ = ["InProcessSandbox", "SignedWebhook", "WalletCertifier", "WebhookSigner", "asgi_wallet", "wsgi_wallet"]

_HOMES = {
    "InProcessSandbox": "game_operator.sandbox.in_process",
    "SignedWebhook": "game_operator.provider.signed",
    "WalletCertifier": "game_operator.testing.certifier",
    "WebhookSigner": "game_operator.testing.signer",
    "asgi_wallet": "game_operator.provider.carriers.in_process",
    "wsgi_wallet": "game_operator.provider.carriers.in_process",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as missing:
        if missing.name != "pytest":
            raise
        raise ImportError(
            f"game_operator.testing.{name} needs pytest. Install the extra: pip install 'game-operator[pytest]'",
            name="pytest",
        ) from missing
