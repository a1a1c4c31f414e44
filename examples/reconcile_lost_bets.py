"""
Lose a settlement, find it, repair it, and let the lost call arrive after all.

A dry run moves no money. A repair needs brakes, a name and a reason. The late call moves nothing.
"""

from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

from game_operator.backoffice import Reconciler
from game_operator.ledger import SqlLedger
from game_operator.wallet import Wallet
from game_operator_testkit import InProcessSandbox

AT_ONCE = timedelta(0)  # in production: 2 hours until a bet is looked up, and 60 seconds between the two looks

with TemporaryDirectory() as folder, SqlLedger(f"sqlite:///{Path(folder, 'wallet.db')}") as ledger:
    ledger.open_account("ann", Decimal("100.00"))
    wallet = Wallet(ledger)
    with InProcessSandbox() as provider, provider.client() as client:
        provider.wallet = wallet
        provider.play_round(player_id="ann", wager_cents=500, won_cents=1250, settlement="lose")
        provider.play_round(player_id="ann", wager_cents=300, cancel=True, settlement="lose")
        print("lost calls:", ledger.balance("ann"), [bet.state.value for bet in ledger.bets()])

        reconciler = Reconciler(client, wallet, min_age=AT_ONCE, second_look=AT_ONCE)
        report = reconciler.run()
        print("dry run:", {str(name): tally.bets for name, tally in report.verdicts.items()}, ledger.balance("ann"))

        report = reconciler.run(repair=True, max_bets=10, max_total_cents=5_000, actor="ann.lee", reason="incident 42")
        print("repair:", report.repaired.bets, "bets,", report.repaired.total_cents, "cents,", ledger.balance("ann"))

        late = provider.release_held(lost=True)
        print("late calls:", [each.path for each in late], ledger.balance("ann"), list(reconciler.findings()))
        print("once more:", reconciler.run().is_fine, ledger.verify().findings)

# Prints:
# lost calls: 9200 ['OPEN', 'OPEN']
# dry run: {'refund': 1, 'settle': 1} 9200
# repair: 2 bets, 1550 cents, 10750
# late calls: ['/deposit', '/rollback'] 10750 []
# once more: True ()
