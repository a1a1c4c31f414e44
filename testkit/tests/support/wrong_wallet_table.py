"""
The table of docs/maintainers/wrong-wallets.md, made from the register.

``python -m testkit.tests.support.wrong_wallet_table`` writes it into the page.
"""

import importlib
import sys
from pathlib import Path
from typing import Final

# Some are made from the wallet written by hand, which is one of the examples.
sys.path.append(str(Path(__file__).parents[3] / "examples"))

from testkit.tests.certifier.wrong_wallets.registry import WRONG_WALLETS

__all__ = ["PAGE", "WRONG_WALLETS", "is_row", "rows"]

PAGE: Final = Path(__file__).parents[3] / "docs" / "maintainers" / "wrong-wallets.md"
_MODULES: Final = (
    "basics",
    "flows",
    "repeats",
    "order",
    "money",
    "callers",
    "hostile",
    "races",
    "failures",
    "ids",
    "forgetting",
    "answers",
    "overlooked",
    "unlucky",
    "misread",
    "blamed",
    "subtle",
    "subtler",
)

for _module in _MODULES:
    importlib.import_module(f"testkit.tests.certifier.wrong_wallets.{_module}")


def rows() -> list[str]:
    """Return a line for each wallet, in the order of the scenarios that must fail."""
    return [
        f"| {each.name} | {each.what} | {each.must} | "
        f"{'any' if each.may_anything else ', '.join(sorted(each.may)) or '–'} |"
        for each in sorted(WRONG_WALLETS.values(), key=lambda wrong: (wrong.must, wrong.name))
    ]


def is_row(line: str) -> bool:
    """Return whether *line* of the page is about a wallet."""
    return line.startswith("| ") and not line.startswith("| Wallet ")


if __name__ == "__main__":
    kept = [line for line in PAGE.read_text().splitlines() if not is_row(line)]
    PAGE.write_text("\n".join([*kept, *rows(), ""]))
