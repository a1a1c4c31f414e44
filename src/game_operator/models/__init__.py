"""
The wire models: frozen values with the field names of the specification (spec §2), and the calls of webhooks.

Names are loaded when they are first used: those of the Operator API need pydantic, and the calls of webhooks do not.
"""

from typing import TYPE_CHECKING

from game_operator._lazy import lazy_names

if TYPE_CHECKING:
    from game_operator.models.operator_api import AnyBet as AnyBet
    from game_operator.models.operator_api import AnyRound as AnyRound
    from game_operator.models.operator_api import BetConfig as BetConfig
    from game_operator.models.operator_api import BetNotFound as BetNotFound
    from game_operator.models.operator_api import ClosedBet as ClosedBet
    from game_operator.models.operator_api import GameInfo as GameInfo
    from game_operator.models.operator_api import GameInstance as GameInstance
    from game_operator.models.operator_api import GrantAccepted as GrantAccepted
    from game_operator.models.operator_api import GrantRequest as GrantRequest
    from game_operator.models.operator_api import OpenBet as OpenBet
    from game_operator.models.operator_api import RolledBackBet as RolledBackBet
    from game_operator.models.operator_api import RoundFound as RoundFound
    from game_operator.models.operator_api import RoundNotFound as RoundNotFound
    from game_operator.models.operator_api import refusal_of as refusal_of
    from game_operator.models.webhooks import BalanceCall as BalanceCall
    from game_operator.models.webhooks import DepositCall as DepositCall
    from game_operator.models.webhooks import FreeBet as FreeBet
    from game_operator.models.webhooks import MovingCall as MovingCall
    from game_operator.models.webhooks import Reply as Reply
    from game_operator.models.webhooks import RollbackCall as RollbackCall
    from game_operator.models.webhooks import WebhookCall as WebhookCall
    from game_operator.models.webhooks import WithdrawCall as WithdrawCall

if not TYPE_CHECKING:  # With a __getattr__, a type checker would accept every misspelt name.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".operator_api": (
                "AnyBet AnyRound BetConfig BetNotFound ClosedBet GameInfo GameInstance GrantAccepted GrantRequest "
                "OpenBet RolledBackBet RoundFound RoundNotFound refusal_of"
            ),
            ".webhooks": "BalanceCall DepositCall FreeBet MovingCall Reply RollbackCall WebhookCall WithdrawCall",
        },
    )
