"""
The kit for developing and testing: it plays the provider, so that you need none on your desk and in your CI.

::

    Sandbox                                  the service over real HTTP on this machine
    certify, certify_in_process              a judge of your wallet, whatever it is written in
    InProcessSandbox, asgi_wallet, wsgi_wallet   the same service and your wallet without sockets
    control_room.ControlRoom                 the sandbox in a browser

Installing it brings the commands ``game-operator sandbox``, ``storm``, ``certify``, ``call`` and ``demo``, and pytest
gets the fixtures ``operator_sandbox``, ``signed_webhook`` and ``wallet_certifier``. It stands on ``game_operator``,
which goes into production and never imports it. Names are loaded when they are first used.
"""

from typing import TYPE_CHECKING

from game_operator._lazy import lazy_names

if TYPE_CHECKING:
    from game_operator_testkit.certifier.certifying import certify as certify
    from game_operator_testkit.certifier.certifying import certify_in_process as certify_in_process
    from game_operator_testkit.plugin.certifier import WalletCertifier as WalletCertifier
    from game_operator_testkit.plugin.signer import SignedWebhook as SignedWebhook
    from game_operator_testkit.plugin.signer import WebhookSigner as WebhookSigner
    from game_operator_testkit.provider.caller import WebhookCaller as WebhookCaller
    from game_operator_testkit.provider.delivery import Delivery as Delivery
    from game_operator_testkit.provider.delivery import DeliveryInDoubtError as DeliveryInDoubtError
    from game_operator_testkit.provider.in_process import asgi_wallet as asgi_wallet
    from game_operator_testkit.provider.in_process import wsgi_wallet as wsgi_wallet
    from game_operator_testkit.sandbox.in_process import InProcessSandbox as InProcessSandbox
    from game_operator_testkit.sandbox.server import Sandbox as Sandbox

if not TYPE_CHECKING:  # With a __getattr__, a type checker would accept every misspelt name.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".certifier.certifying": "certify certify_in_process",
            ".plugin.certifier": "WalletCertifier",
            ".plugin.signer": "SignedWebhook WebhookSigner",
            ".provider.caller": "WebhookCaller",
            ".provider.delivery": "Delivery DeliveryInDoubtError",
            ".provider.in_process": "asgi_wallet wsgi_wallet",
            ".sandbox.in_process": "InProcessSandbox",
            ".sandbox.server": "Sandbox",
        },
    )
