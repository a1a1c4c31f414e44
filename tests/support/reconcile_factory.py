"""What worker processes of a reconciliation make once: a client and a wallet, by what the environment names."""

import os
from pathlib import Path

from game_operator import OperatorClient
from game_operator.ledger import SqlLedger
from game_operator.wallet import Wallet

__all__ = ["DATABASE", "make"]

DATABASE = "TESTS_RECONCILE_DATABASE"


def make() -> tuple[OperatorClient, Wallet]:
    """Return a client and a wallet; each process that calls it leaves its number in a folder, if one is named."""
    folder = os.environ.get("TESTS_RECONCILE_PROCESSES")
    if folder:
        (Path(folder) / str(os.getpid())).touch()
    return OperatorClient.from_env(), Wallet(SqlLedger(os.environ[DATABASE]))
