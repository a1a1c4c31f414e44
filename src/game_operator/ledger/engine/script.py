"""The names of steps, until all use them."""

from game_operator.ledger.engine.batch import (
    Result,
    apply_item,
    apply_items,
    completed,
    may_refuse,
    run_after,
)
from game_operator.ledger.engine.dialects import Loaded
from game_operator.ledger.engine.dialects import SqlDialect as Dialect
from game_operator.ledger.steps import (
    AFTER,
    MAY_BET,
    RELEASE,
    SAVE,
    AskOperator,
    ConflictError,
    Execute,
    Kind,
    Rows,
    Step,
    Together,
    UnwritableError,
)
from game_operator.ledger.steps import Steps as Script
from game_operator.ledger.steps import Steps as Work
from game_operator.ledger.steps import run as at_once
from game_operator.ledger.steps import run as drive
from game_operator.ledger.steps import run_async as awaited

__all__ = [
    "AFTER",
    "MAY_BET",
    "RELEASE",
    "SAVE",
    "AskOperator",
    "ConflictError",
    "Dialect",
    "Execute",
    "Kind",
    "Loaded",
    "Result",
    "Rows",
    "Script",
    "Step",
    "Together",
    "UnwritableError",
    "Work",
    "apply_item",
    "apply_items",
    "at_once",
    "awaited",
    "completed",
    "drive",
    "may_refuse",
    "run_after",
]
