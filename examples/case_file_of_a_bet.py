"""
Make the case file of a bet: our rows and the provider's answer.

The wallet answered the deposit and lost it. The case file says where the two sides differ.
"""

import logging
import tempfile
from decimal import Decimal
from hashlib import sha256
from pathlib import Path

from game_operator import DepositCall, Reply
from game_operator.backoffice import case_file
from game_operator.ledger import SqlLedger
from game_operator.wallet import Wallet
from game_operator_testkit import InProcessSandbox


class Forgetful(Wallet):
    """A wallet that answers deposits, and loses them."""

    def deposit(self, call: DepositCall) -> Reply:
        """Take a deposit for applied that was not."""
        return Reply(balance_cents=self.ledger.balance(call.player_id))


logging.basicConfig(level=logging.CRITICAL)
file = Path(tempfile.mkdtemp(), "wallet.db")
with SqlLedger(f"sqlite:///{file}") as ledger, InProcessSandbox() as sandbox, sandbox.client() as client:
    ledger.open_account("ann", Decimal("100.00"))
    sandbox.wallet = Forgetful(ledger)
    (bet_id,) = sandbox.play_round(player_id="ann", wager_cents=500, won_cents=1250).bet_ids

    case = case_file(ledger, bet_id, client=client)
    for sentence in case.contents["summary"]:
        print(sentence)
    print("-", case.contents["comparison"]["text"])

    page = file.with_name("case.html")
    page.write_text(case.to_html(), encoding="utf-8")
    kept = sha256(page.read_bytes()).hexdigest()  # Keep it where others cannot change it, such as in the ticket.
    page.write_text(page.read_text(encoding="utf-8").replace("OPEN", "CLOSED"), encoding="utf-8")
    print("- changed:", sha256(page.read_bytes()).hexdigest() != kept)

# Prints:
# The ledger has the bet as OPEN.
# The provider answers CLOSED.
# The two sides differ: settle.
# - The provider has closed it; the win 12.50 is owed.
# - changed: True
