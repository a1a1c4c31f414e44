"""What a process that reconciles makes: a client and a wallet, by what the environment names."""

import os

from game_operator import OperatorClient
from game_operator.ledger import SqlLedger
from game_operator.wallet import Wallet

__all__ = ["DATABASE", "make"]

DATABASE = "TESTS_RECONCILE_DATABASE"


def make() -> tuple[OperatorClient, Wallet]:
    """Return a client and a wallet."""
    return OperatorClient.from_env(), Wallet(SqlLedger(os.environ[DATABASE]))
