"""The page docs/maintainers/wrong-wallets.md, from the register; git does not keep it."""

import importlib
import sys
from pathlib import Path
from typing import Final

# Some are made from the wallet written by hand, which is one of the examples.
sys.path.append(str(Path(__file__).parents[3] / "examples"))

from testkit.tests.certifier import wrong_wallets
from testkit.tests.certifier.wrong_wallets.registry import WRONG_WALLETS

__all__ = ["WRONG_WALLETS", "page"]

_HEAD: Final = """\
# Wallets with one mistake each

For maintainers of the certifier. Read first: [certify your wallet](../how-to/certify.md).

A check that no wallet can fail is useless, and a check that fails a correct wallet is worse. So `make test` runs the
certifier on both:

- **Correct wallets pass**, without any advice: the ready wallet on SQLite, on PostgreSQL and in memory, sync and
  async, under several profiles; one of the examples; and [a wallet by hand](../../examples/wallet_by_hand.py), which
  shares no code with this package. `make test-artefacts` and `make torture` certify the other examples, and the
  [translations](../tutorials/another-language.md) of the wallet by hand into other languages.
- **Wrong wallets fail.** Each wallet below is the one by hand with one typical mistake. It must fail the scenario in
  the third column, and may fail those in the last one, where the same mistake shows. It fails nothing else.
- **Every scenario can fail.** For each one that is more than advice, some wallet below must fail it. The exceptions
  are E10 and F10, about addresses and unusual HTTP requests: they are tried against right and wrong servers.

All are certified in process, with all options that a scenario may need. See [the
scenarios](../reference/scenarios.md) and [what fails a wallet](../decisions/0018-what-fails-a-wallet.md). The code is
in `testkit/tests/certifier/wrong_wallets/`.

| Wallet | What it does wrong | Must fail | May fail |
|---|---|---|---|
"""
for _module in sorted(Path(wrong_wallets.__path__[0]).glob("*.py")):
    importlib.import_module(f"{wrong_wallets.__name__}.{_module.stem}")


def page() -> str:
    """Return the page, with a line for each wallet in the order of the scenarios that must fail."""
    return _HEAD + "".join(
        f"| {each.name} | {each.what} | {each.must} | "
        f"{'any' if each.may_anything else ', '.join(sorted(each.may)) or '–'} |\n"
        for each in sorted(WRONG_WALLETS.values(), key=lambda wrong: (wrong.must, wrong.name))
    )
