"""The daily work of an operator against the sandbox of a test: reconciliations and campaigns that wait for nothing."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from game_operator.backoffice import Campaign, Reconciler

if TYPE_CHECKING:
    from game_operator.client.sync import OperatorClient
    from game_operator.ledger import SqlLedger
    from game_operator.wallet import JoinedWallet, Wallet
    from game_operator_testkit.sandbox.in_process import InProcessSandbox

#: What makes a reconciliation wait, and what makes it leave bets out.
_AT_ONCE: Final = {
    "min_age": timedelta(0),
    "second_look": timedelta(0),
    "sample": 1.0,
    "rate_per_second": 10_000.0,
}
_DAY_MILLIS: Final = 86_400_000


class ReconcilerMaker:
    """
    Returns a reconciler of the test's sandbox and a wallet: ``reconciler_for(wallet)``.

    Bets of any age are looked up, all of them, and the two looks before a repair follow each other at once.

    Args:
        client: Asks the sandbox.
    """

    def __init__(self, client: "OperatorClient") -> None:
        self._client = client

    def __call__(self, wallet: "Wallet | JoinedWallet", **options: Any) -> "Reconciler":
        """
        Return a reconciler.

        Args:
            wallet: A Wallet or JoinedWallet over a SqlLedger, the one that the sandbox plays against.
            options: As for ``Reconciler``, in place of what the fixture sets.

        Raises:
            TypeError, ConfigurationError: As ``Reconciler`` does.
        """
        at_once: dict[str, Any] = _AT_ONCE | options  # Any: the options have several types.
        return Reconciler(self._client, wallet, **at_once)


class CampaignMaker:
    """
    Returns a campaign that grants at the test's sandbox: ``campaign_for(ledger, "summer")``.

    Args:
        sandbox: Has the game instance.
        client: Grants at it.
    """

    def __init__(self, sandbox: "InProcessSandbox", client: "OperatorClient") -> None:
        self._sandbox, self._client = sandbox, client

    def __call__(self, ledger: "SqlLedger", name: str, **options: Any) -> "Campaign":
        """
        Return a campaign: one free bet of 1.00 in the sandbox's instance for each player, valid for a day.

        Args:
            ledger: An open SqlLedger, which knows the players.
            name: The campaign.
            options: As for ``Campaign``, in place of what the fixture sets.

        Raises:
            TypeError, CampaignRefusedError: As ``Campaign`` does.
        """
        terms: dict[str, Any] = {  # Any: the options have several types.
            "instance_id": self._sandbox.instance_id,
            "count": 1,
            "wager_amount_cents": 100,
            "expire_duration_millis": _DAY_MILLIS,
        }
        return Campaign(self._client, ledger, name, **terms | options)
