"""
The operator's side of a game provider integration: calls, webhooks and money that is never lost or doubled.

Begin with these names. ``help(game_operator.OperatorClient)`` shows one with its arguments, units and errors.

You call the provider (spec §4.2, §5)::

    OperatorClient, AsyncOperatorClient       games, bets, rounds and free bets
    SessionTokenBuilder, launch_url           open a game for a player (assumed)

The provider calls you (spec §4.1)::

    webhooks.WebhookReceiver                  checks who calls, reads the call, writes the reply
    webhooks.asgi_app, webhooks.wsgi_app      its four paths in your application
    wallet.Wallet, wallet.JoinedWallet        ready wallets, in their own transactions or in yours
    ledger.SqlLedger, ledger.AsyncSqlLedger   the money, in SQLite or PostgreSQL
    Profile                                   what the specification leaves open

The daily work::

    backoffice.Reconciler, backoffice.Campaign, backoffice.Catalogue

You have no provider on your desk: the distribution ``game-operator-testkit`` plays it, and judges your wallet.

Every error is a ``GameOperatorError`` and says what to do next. Names are loaded when they are first used: a process
pays only for what it touches.
"""

from typing import TYPE_CHECKING

from game_operator._lazy import lazy_names

if TYPE_CHECKING:
    from game_operator._version import __version__ as __version__
    from game_operator.client.async_ import AsyncOperatorClient as AsyncOperatorClient
    from game_operator.client.base import Exchange as Exchange
    from game_operator.client.settings import ReadLimits as ReadLimits
    from game_operator.client.sync import OperatorClient as OperatorClient
    from game_operator.codes import GameStatus as GameStatus
    from game_operator.codes import Genre as Genre
    from game_operator.codes import GrantErrorCode as GrantErrorCode
    from game_operator.errors import AccountExistsError as AccountExistsError
    from game_operator.errors import AccountNotFoundError as AccountNotFoundError
    from game_operator.errors import ApiError as ApiError
    from game_operator.errors import AuthenticationError as AuthenticationError
    from game_operator.errors import BadRequestError as BadRequestError
    from game_operator.errors import ConfigurationError as ConfigurationError
    from game_operator.errors import FreeBetRejectedError as FreeBetRejectedError
    from game_operator.errors import GameOperatorError as GameOperatorError
    from game_operator.errors import LedgerError as LedgerError
    from game_operator.errors import MalformedCallError as MalformedCallError
    from game_operator.errors import NoAnswerError as NoAnswerError
    from game_operator.errors import OperatorInactiveError as OperatorInactiveError
    from game_operator.errors import OutcomeUnknownError as OutcomeUnknownError
    from game_operator.errors import RateLimitedError as RateLimitedError
    from game_operator.errors import RequestNotSentError as RequestNotSentError
    from game_operator.errors import SchemaError as SchemaError
    from game_operator.errors import ServiceError as ServiceError
    from game_operator.errors import SessionTokenError as SessionTokenError
    from game_operator.errors import SigningKeyError as SigningKeyError
    from game_operator.errors import TransactionRequiredError as TransactionRequiredError
    from game_operator.errors import TransportError as TransportError
    from game_operator.errors import UnexpectedResponseError as UnexpectedResponseError
    from game_operator.errors import WebhookError as WebhookError
    from game_operator.errors import WebhookSignatureError as WebhookSignatureError
    from game_operator.models import BalanceCall as BalanceCall
    from game_operator.models import BetConfig as BetConfig
    from game_operator.models import BetNotFound as BetNotFound
    from game_operator.models import ClosedBet as ClosedBet
    from game_operator.models import DepositCall as DepositCall
    from game_operator.models import GameInfo as GameInfo
    from game_operator.models import GameInstance as GameInstance
    from game_operator.models import GrantAccepted as GrantAccepted
    from game_operator.models import MovingCall as MovingCall
    from game_operator.models import OpenBet as OpenBet
    from game_operator.models import Reply as Reply
    from game_operator.models import RollbackCall as RollbackCall
    from game_operator.models import RolledBackBet as RolledBackBet
    from game_operator.models import RoundFound as RoundFound
    from game_operator.models import RoundNotFound as RoundNotFound
    from game_operator.models import WithdrawCall as WithdrawCall
    from game_operator.money import Cents as Cents
    from game_operator.profile import Profile as Profile
    from game_operator.protocol.exchange import RetryPolicy as RetryPolicy
    from game_operator.signers.keys import AsyncSigner as AsyncSigner
    from game_operator.signers.keys import Signer as Signer
    from game_operator.tokens import SessionClaims as SessionClaims
    from game_operator.tokens import SessionTokenBuilder as SessionTokenBuilder
    from game_operator.tokens import launch_url as launch_url

if not TYPE_CHECKING:  # With a __getattr__, a type checker would accept every misspelt name.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "._version": "__version__",
            ".client.async_": "AsyncOperatorClient",
            ".client.base": "Exchange",
            ".client.sync": "OperatorClient",
            ".codes": "GameStatus Genre GrantErrorCode",
            ".errors": (
                "AccountExistsError AccountNotFoundError ApiError AuthenticationError BadRequestError "
                "ConfigurationError FreeBetRejectedError GameOperatorError LedgerError MalformedCallError "
                "NoAnswerError OperatorInactiveError OutcomeUnknownError RateLimitedError RequestNotSentError "
                "SchemaError ServiceError SessionTokenError SigningKeyError TransactionRequiredError TransportError "
                "UnexpectedResponseError WebhookError WebhookSignatureError"
            ),
            ".models": (
                "BalanceCall BetConfig BetNotFound ClosedBet DepositCall GameInfo GameInstance GrantAccepted "
                "MovingCall OpenBet Reply RollbackCall RolledBackBet RoundFound RoundNotFound WithdrawCall"
            ),
            ".money": "Cents",
            ".profile": "Profile",
            ".protocol.exchange": "RetryPolicy",
            ".signers.keys": "AsyncSigner Signer",
            ".tokens": "SessionClaims SessionTokenBuilder launch_url",
            ".client.settings": "ReadLimits",
        },
    )
