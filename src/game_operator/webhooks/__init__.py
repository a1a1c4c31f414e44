"""
Answering the service's four webhooks (spec §2.1, §4.1): authenticate, read, hand to a handler, reply.

A process that serves webhooks loads no HTTP client, no database driver and no web framework through this package.
"""

from game_operator.models.webhooks import (
    BalanceCall,
    DepositCall,
    FreeBet,
    MovingCall,
    Reply,
    RollbackCall,
    WebhookCall,
    WithdrawCall,
    error,
    success,
)
from game_operator.webhooks.asgi import asgi_app
from game_operator.webhooks.authenticators import (
    AcceptUnsigned,
    AllOf,
    Authenticator,
    HmacSignature,
    IpAllowList,
    RsaSignature,
    WebhookRequest,
)
from game_operator.webhooks.gate import DepositBatch, HttpReply, Refusal
from game_operator.webhooks.handlers import AsyncWebhookHandler, KeepsAnomalies, WebhookHandler
from game_operator.webhooks.receiver import HandledCall, WebhookReceiver
from game_operator.webhooks.wsgi import wsgi_app

__all__ = [
    "AcceptUnsigned",
    "AllOf",
    "AsyncWebhookHandler",
    "Authenticator",
    "BalanceCall",
    "DepositBatch",
    "DepositCall",
    "FreeBet",
    "HandledCall",
    "HmacSignature",
    "HttpReply",
    "IpAllowList",
    "KeepsAnomalies",
    "MovingCall",
    "Refusal",
    "Reply",
    "RollbackCall",
    "RsaSignature",
    "WebhookCall",
    "WebhookHandler",
    "WebhookReceiver",
    "WebhookRequest",
    "WithdrawCall",
    "asgi_app",
    "error",
    "success",
    "wsgi_app",
]
