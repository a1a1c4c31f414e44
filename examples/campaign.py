"""Grant free bets to a list of players, each of them once, though the campaign is interrupted and run again."""

import tempfile
from decimal import Decimal
from pathlib import Path

from game_operator import Exchange
from game_operator.backoffice import Campaign, CampaignRefusedError
from game_operator.ledger import SqlLedger
from game_operator_testkit import Sandbox

database = f"sqlite:///{Path(tempfile.mkdtemp()) / 'wallet.db'}"


def interrupt(_: Exchange) -> None:
    """Interrupt the campaign at its thirteenth grant, once."""
    if len(sandbox.world.grants()) == 13:
        campaign.interrupt()


with Sandbox() as sandbox, sandbox.client(on_exchange=interrupt) as client, SqlLedger(database) as ledger:
    players = [f"player-{number}" for number in range(1, 21)]
    for player in players:
        ledger.open_account(player, Decimal("10.00"))

    def summer() -> Campaign:
        """Return the campaign, as any process names it."""
        return Campaign(
            client,
            ledger,
            "summer-26",
            instance_id=sandbox.instance_id,
            count=5,
            wager_amount_cents=100,
            expire_duration_millis=86_400_000,
        )

    try:
        summer().plan([*players, "player-1", "plyer-2"])
    except CampaignRefusedError as refused:
        for line, text in refused.problems:
            print(f"row {line}: {text}")

    plan = summer().plan(players, max_exposure_cents=10_000)
    print(f"{plan.grants} grants, exposure {plan.exposure_cents} cents of {plan.currency}")
    campaign = summer()
    # At the command line, Ctrl-C does the same. The grant that is under way is finished.
    campaign.run(concurrency=1)
    print(f"interrupted after {summer().status().granted}")
    report = summer().run(rate_per_second=500)
    print(f"{report.state}: {report.granted} granted, {len(sandbox.world.grants())} at the service")

# Prints:
# row 21: The player and the instance are those of line 1: a player gets one grant on each.
# row 22: The ledger knows no player 'plyer-2'.
# 20 grants, exposure 10000 cents of EUR
# interrupted after 13
# finished: 20 granted, 20 at the service
