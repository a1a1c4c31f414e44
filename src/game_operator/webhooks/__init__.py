"""
Answering the service's four webhooks (spec §2.1, §4.1): authenticate, read, hand to a handler, reply.

A process that serves webhooks loads no HTTP client, no database driver and no web framework through this package.
"""

from game_operator.codes import WebhookErrorCode as WebhookErrorCode
from game_operator.errors import InstancesUnavailableError as InstancesUnavailableError
from game_operator.models.webhooks import BalanceCall as BalanceCall
from game_operator.models.webhooks import DepositCall as DepositCall
from game_operator.models.webhooks import FreeBet as FreeBet
from game_operator.models.webhooks import MovingCall as MovingCall
from game_operator.models.webhooks import Reply as Reply
from game_operator.models.webhooks import RollbackCall as RollbackCall
from game_operator.models.webhooks import WebhookCall as WebhookCall
from game_operator.models.webhooks import WithdrawCall as WithdrawCall
from game_operator.models.webhooks import error as error
from game_operator.models.webhooks import success as success
from game_operator.protocol.http import HttpReply as HttpReply
from game_operator.webhooks.adapters import asgi_app as asgi_app
from game_operator.webhooks.adapters import wsgi_app as wsgi_app
from game_operator.webhooks.authenticators import AcceptUnsigned as AcceptUnsigned
from game_operator.webhooks.authenticators import AllOf as AllOf
from game_operator.webhooks.authenticators import Authenticator as Authenticator
from game_operator.webhooks.authenticators import HmacSignature as HmacSignature
from game_operator.webhooks.authenticators import IpAllowList as IpAllowList
from game_operator.webhooks.authenticators import RsaSignature as RsaSignature
from game_operator.webhooks.authenticators import WebhookRequest as WebhookRequest
from game_operator.webhooks.gate import DepositBatch as DepositBatch
from game_operator.webhooks.gate import Refusal as Refusal
from game_operator.webhooks.handlers import AsyncWebhookHandler as AsyncWebhookHandler
from game_operator.webhooks.handlers import KeepsAnomalies as KeepsAnomalies
from game_operator.webhooks.handlers import WebhookHandler as WebhookHandler
from game_operator.webhooks.receiver import HandledCall as HandledCall
from game_operator.webhooks.receiver import WebhookReceiver as WebhookReceiver
