"""Sum up a day for accounting, close it, and see that what comes later stands apart."""

import tempfile
from decimal import Decimal
from pathlib import Path

from game_operator import DepositCall, WithdrawCall
from game_operator.backoffice import totals_csv
from game_operator.ledger import SqlLedger
from game_operator.wallet import Wallet

DAY = 86_400_000
now = 1_795_348_800_000  # 2026-11-22 12:00 UTC: a clock of this example's own

with tempfile.TemporaryDirectory() as folder:
    with SqlLedger(f"sqlite:///{folder}/wallet.db", clock_millis=lambda: now) as ledger:
        ledger.open_account("ann", Decimal("100.00"))
        wallet = Wallet(ledger, currency_of=lambda _: "EUR")
        wallet.withdraw(WithdrawCall(player_id="ann", bet_id="b1", amount_cents=500, game="aviator"))
        wallet.deposit(DepositCall(player_id="ann", bet_id="b1", amount_cents=300))

        now += DAY
        closed = ledger.close_totals()
        print(f"Days before {closed.closed_before} are closed, with {closed.postings} postings.")

    # A process whose clock is behind by a day.
    with SqlLedger(f"sqlite:///{folder}/wallet.db", clock_millis=lambda: now - DAY) as ledger:
        ledger.open_account("ben", Decimal("1.00"))
        report = ledger.totals(by=("day", "currency"))
        for row in report.rows:
            kind = "late openings" if row.late else "openings"
            revenue_cents = row.gross_gaming_revenue_cents
            print(f"{row.day} {row.currency}: revenue {revenue_cents}, {kind} {row.openings_cents}")
        Path(folder, "totals.csv").write_text("".join(totals_csv(report)), encoding="utf-8", newline="")

# Prints:
# Days before 2026-11-23 are closed, with 3 postings.
# 2026-11-22 EUR: revenue 200, openings 0
# 2026-11-22 unknown: revenue 0, openings 10000
# 2026-11-22 unknown: revenue 0, late openings 100
