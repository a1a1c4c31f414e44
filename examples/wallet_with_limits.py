"""
Refuse bets by your own rules: a blocked player, and a limit for each bet.

`may_bet` is called after all other checks, while the account is locked. It is not called for deposits and rollbacks:
a blocked player is still paid and refunded. For legal limits and exclusion see docs/how-to/limits.md.
"""

from game_operator import DepositCall, Reply, WithdrawCall
from game_operator.ledger import Account, MemoryLedger
from game_operator.wallet import Wallet

BLOCKED: set[str] = set()
LIMITS_CENTS = {"ann": 1_000}


def may_bet(call: WithdrawCall, account: Account, _connection: object) -> str | None:
    """Return a code that refuses the bet, or None. The account has the balance before the bet."""
    if call.player_id in BLOCKED:
        return "PLAYER_BLOCKED"
    if call.amount_cents > LIMITS_CENTS.get(call.player_id, account.balance_cents):
        return "LIMIT_EXCEEDED"
    return None


def bet(bet_id: str, wager_cents: int) -> WithdrawCall:
    """Return Ann's bet."""
    return WithdrawCall(player_id="ann", bet_id=bet_id, amount_cents=wager_cents)


def tell(what: str, reply: Reply) -> None:
    """Print a reply."""
    print(f"{what}:", reply.code or "SUCCESS", reply.balance)


wallet = Wallet(MemoryLedger({"ann": 10_000}), may_bet=may_bet)
tell("10.00 is within the limit", wallet.withdraw(bet("b1", 1_000)))
tell("10.01 is not", wallet.withdraw(bet("b2", 1_001)))

LIMITS_CENTS["ann"] = 2_000
tell("a refused bet stays refused", wallet.withdraw(bet("b2", 1_001)))
tell("a new one is judged anew", wallet.withdraw(bet("b3", 1_001)))

BLOCKED.add("ann")
tell("blocked", wallet.withdraw(bet("b4", 1)))
tell("and still paid", wallet.deposit(DepositCall(player_id="ann", bet_id="b1", amount_cents=2_500)))
tell("the repeat of an accepted bet", wallet.withdraw(bet("b1", 1_000)))

# Prints:
# 10.00 is within the limit: SUCCESS 90.00
# 10.01 is not: LIMIT_EXCEEDED 90.00
# a refused bet stays refused: LIMIT_EXCEEDED 90.00
# a new one is judged anew: SUCCESS 79.99
# blocked: PLAYER_BLOCKED 79.99
# and still paid: SUCCESS 104.99
# the repeat of an accepted bet: SUCCESS 104.99
