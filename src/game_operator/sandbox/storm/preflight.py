"""
What is asked of a wallet before a storm, so that a wrong address, key or ledger is told at once.

Each check raises ConfigurationError, which says what to pass instead; TransportError if nobody can reach the wallet.
"""

from collections.abc import Mapping

from game_operator.codes import WebhookErrorCode
from game_operator.errors import ConfigurationError, shown
from game_operator.models.webhooks import BalanceCall
from game_operator.money import amount_from_cents
from game_operator.provider.caller import WebhookCaller

__all__ = ["check_players", "check_replay", "check_wallet"]


def check_wallet(caller: WebhookCaller, url: str, nobody: str) -> None:
    """Ask for the balance of *nobody*, before any account is opened."""
    told = caller.send(BalanceCall(player_id=nobody))
    if told.reply is None:
        raise ConfigurationError(
            f"{shown(url)} is no wallet: player-balance was answered with HTTP {told.status}, and no reply "
            f"({told.problem}). Pass the address that /withdraw and the others are below."
        )
    if told.code == WebhookErrorCode.INVALID_SIGNATURE:
        raise ConfigurationError(
            "The wallet takes our calls for forged. Give it the public half of the service's key, or pass the "
            "private half of the one it has."
        )
    if told.code == WebhookErrorCode.INVALID_REQUEST:
        # Some wallets say so of any path that they do not know.
        raise ConfigurationError(
            f"The wallet answers INVALID_REQUEST to a player-balance that is well-formed. Is {shown(url)} the address "
            "that /player-balance is below? Mind the prefix, such as /wallet."
        )


def check_replay(begins_with: Mapping[str, int], opening: Mapping[str, int]) -> None:
    """A trace is sent again to players with the balances that it began with, in cents."""
    for player_id, cents in opening.items():
        due = begins_with[player_id]
        if cents != due:
            raise ConfigurationError(
                f"The wallet has {amount_from_cents(cents)} for the player {shown(player_id)}, and the trace "
                f"begins with {amount_from_cents(due)}. Put the wallet back to where it was: these balances, and "
                "none of the trace's bets."
            )


def check_players(caller: WebhookCaller, opening: Mapping[str, int]) -> None:
    """The wallet tells of a player what the books have, in cents."""
    player_id, cents = next(iter(opening.items()))
    told = caller.send(BalanceCall(player_id=player_id)).reply
    if told is not None and told.code == WebhookErrorCode.SYSTEM_ERROR:
        raise ConfigurationError(
            f"The wallet answers SYSTEM_ERROR when it is asked for the balance of {shown(player_id)}. Look into "
            "its log; where codes are few, that is said of a wrong key too."
        )
    balance_cents = None if told is None or told.code is not None else told.balance_cents
    if balance_cents != cents:
        has = "no balance" if balance_cents is None else amount_from_cents(int(balance_cents))
        raise ConfigurationError(
            f"The wallet tells {has} of the player {shown(player_id)}, who has {amount_from_cents(cents)}. "
            "Pass the ledger that this wallet serves from."
        )
