"""
The operator's side of a game provider integration: calls, webhooks and money that is never lost or doubled.

Names are loaded when they are first used, so ``import game_operator`` costs next to nothing and a process pays only
for what it touches.
"""

from typing import TYPE_CHECKING

from game_operator._lazy import lazy_names
from game_operator._version import __version__

if TYPE_CHECKING:
    from game_operator.client.async_ import AsyncOperatorClient
    from game_operator.client.base import Exchange
    from game_operator.client.sync import OperatorClient
    from game_operator.codes import BetState, GameStatus, Genre, GrantErrorCode, WebhookErrorCode
    from game_operator.errors import (
        AccountExistsError,
        AccountNotFoundError,
        AdjustmentRefusedError,
        ApiError,
        AuthenticationError,
        BadRequestError,
        ConfigurationError,
        DeliveryInDoubtError,
        FreeBetRejectedError,
        GameOperatorError,
        LedgerError,
        LedgerUnavailableError,
        MalformedCallError,
        NoAnswerError,
        OperatorInactiveError,
        OutcomeUnknownError,
        RateLimitedError,
        RequestNotSentError,
        RetryRefusedError,
        SchemaError,
        ServiceError,
        SessionTokenError,
        SigningKeyError,
        TransactionRequiredError,
        TransportError,
        UnexpectedResponseError,
        UnknownSourceError,
        WebhookError,
        WebhookSignatureError,
    )
    from game_operator.models import (
        BalanceCall,
        BetConfig,
        BetNotFound,
        ClosedBet,
        DepositCall,
        FreeBet,
        GameInfo,
        GameInstance,
        GrantAccepted,
        OpenBet,
        Reply,
        RollbackCall,
        RolledBackBet,
        RoundFound,
        RoundNotFound,
        WebhookCall,
        WithdrawCall,
    )
    from game_operator.money import Cents
    from game_operator.profile import Profile
    from game_operator.protocol.exchange import RetryPolicy
    from game_operator.signers.keys import AsyncSigner, Signer
    from game_operator.tokens import SessionClaims, SessionTokenBuilder, launch_url
    from game_operator.transport.settings import ReadLimits

__all__ = [
    "AccountExistsError",
    "AccountNotFoundError",
    "AdjustmentRefusedError",
    "ApiError",
    "AsyncOperatorClient",
    "AsyncSigner",
    "AuthenticationError",
    "BadRequestError",
    "BalanceCall",
    "BetConfig",
    "BetNotFound",
    "BetState",
    "Cents",
    "ClosedBet",
    "ConfigurationError",
    "DeliveryInDoubtError",
    "DepositCall",
    "Exchange",
    "FreeBet",
    "FreeBetRejectedError",
    "GameInfo",
    "GameInstance",
    "GameOperatorError",
    "GameStatus",
    "Genre",
    "GrantAccepted",
    "GrantErrorCode",
    "LedgerError",
    "LedgerUnavailableError",
    "MalformedCallError",
    "NoAnswerError",
    "OpenBet",
    "OperatorClient",
    "OperatorInactiveError",
    "OutcomeUnknownError",
    "Profile",
    "RateLimitedError",
    "ReadLimits",
    "Reply",
    "RequestNotSentError",
    "RetryPolicy",
    "RetryRefusedError",
    "RollbackCall",
    "RolledBackBet",
    "RoundFound",
    "RoundNotFound",
    "SchemaError",
    "ServiceError",
    "SessionClaims",
    "SessionTokenBuilder",
    "SessionTokenError",
    "Signer",
    "SigningKeyError",
    "TransactionRequiredError",
    "TransportError",
    "UnexpectedResponseError",
    "UnknownSourceError",
    "WebhookCall",
    "WebhookError",
    "WebhookErrorCode",
    "WebhookSignatureError",
    "WithdrawCall",
    "__version__",
    "launch_url",
]

if not TYPE_CHECKING:  # With a __getattr__, a type checker would accept every misspelt name.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".client.async_": "AsyncOperatorClient",
            ".client.base": "Exchange",
            ".client.sync": "OperatorClient",
            ".codes": "BetState GameStatus Genre GrantErrorCode WebhookErrorCode",
            ".errors": " ".join(name for name in __all__ if name.endswith("Error")),
            ".models": (
                "BalanceCall BetConfig BetNotFound ClosedBet DepositCall FreeBet GameInfo GameInstance GrantAccepted "
                "OpenBet Reply RollbackCall RolledBackBet RoundFound RoundNotFound WebhookCall WithdrawCall"
            ),
            ".money": "Cents",
            ".profile": "Profile",
            ".protocol.exchange": "RetryPolicy",
            ".signers.keys": "AsyncSigner Signer",
            ".tokens": "SessionClaims SessionTokenBuilder launch_url",
            ".transport.settings": "ReadLimits",
        },
    )
