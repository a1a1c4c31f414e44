"""``--wallet module:make``: the operator's own wallet, so that repairs and payments run the operator's own code."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from game_operator.cli.database import PREFIX, LedgerOptions
from game_operator.cli.options import ProfileFile, ServiceOptions, Source, read_profile
from game_operator.cli.output import remark
from game_operator.errors import ConfigurationError, GameOperatorError, one_line, shown

if TYPE_CHECKING:
    from game_operator.client.sync import OperatorClient
    from game_operator.ledger import SqlLedger
    from game_operator.wallet import JoinedWallet, Wallet

_EXAMPLE = "Write it as MODULE:FUNCTION, such as casino.wallet:make."


@dataclass(frozen=True, kw_only=True)
class SettlingOptions:
    """Which wallet settles bets and pays findings."""

    wallet: Annotated[str | None, typer.Option(metavar="MODULE:FUNCTION")] = None
    source: Source = ""
    profile: ProfileFile = None

    @contextmanager
    def opened(
        self, place: LedgerOptions, *, moves_money: bool
    ) -> "Iterator[tuple[Wallet | JoinedWallet, OperatorClient | None]]":
        """
        Yield the wallet that ``--wallet`` names, with the client that it may bring; or a plain one over the ledger.

        Raises:
            ConfigurationError: The function cannot be called, or the balances are elsewhere.
        """
        if self.wallet is not None:
            self._check_alone(place)
            with _made(self.wallet) as opened:
                yield opened
            return
        from game_operator.ledger.office import Office
        from game_operator.wallet import Wallet

        accounts = place.accounts()
        with place.opened() as ledger:
            check_source(ledger, self.source)
            if accounts is None and Office(ledger).are_balances_elsewhere():
                raise ConfigurationError(
                    "The balances of this ledger are in your own table. Pass your wallet as --wallet MODULE:FUNCTION, "
                    "or the table as --accounts-table, --accounts-key and --accounts-balance."
                )
            if accounts is not None and moves_money:
                remark(
                    "This settles by a plain wallet. If yours has `after`, or `transaction`, your own "
                    "rows are not written: pass it as --wallet MODULE:FUNCTION.",
                    style="yellow",
                )
            yield Wallet(ledger, source=self.source, profile=read_profile(self.profile)), None

    @contextmanager
    def asked(
        self, place: LedgerOptions, service: ServiceOptions, *, moves_money: bool
    ) -> "Iterator[tuple[OperatorClient, Wallet | JoinedWallet]]":
        """Yield a client and the wallet; the client is the factory's, if it makes one."""
        with self.opened(place, moves_money=moves_money) as (wallet, client):
            if client is not None:
                yield client, wallet
                return
            with service.client() as made:
                yield made, wallet

    def _check_alone(self, place: LedgerOptions) -> None:
        """Raise ConfigurationError for options that say what the operator's own wallet says already."""
        given = {
            "--database": place.database is not None,
            "--table-prefix": place.table_prefix != PREFIX,
            "--source": self.source != "",
            "--profile": self.profile is not None,
        }
        if named := [name for name, is_given in given.items() if is_given]:
            raise ConfigurationError(
                f"--wallet brings its own ledger, source and profile. Leave out {', '.join(named)}."
            )


def check_source(ledger: "SqlLedger", source: str) -> None:
    """Raise ConfigurationError for a source that the ledger does not know: nothing would be found."""
    known = ledger.sources()
    if known and source not in known:
        raise ConfigurationError(
            f"The ledger does not know the source {shown(source)}; it knows {', '.join(map(shown, known))}. Pass one "
            "of these as --source."
        )


@contextmanager
def _made(name: str) -> "Iterator[tuple[Wallet | JoinedWallet, OperatorClient | None]]":
    """Call the function that *name* stands for, and close what it has made afterwards."""
    made = _called(name)
    client, wallet = made if isinstance(made, tuple) and len(made) == 2 else (None, made)
    _check_made(name, client, wallet)
    try:
        yield wallet, client
    finally:
        wallet.ledger.close()
        if client is not None:
            client.close()


# Any: what an operator's function returns.
def _called(name: str) -> Any:
    module, _, function = name.partition(":")
    if not module or not function:
        raise ConfigurationError(f"--wallet {shown(name)} names no function. {_EXAMPLE}")
    here = str(Path.cwd())
    if here not in sys.path:  # As `python -m` has it; an installed command has not.
        sys.path.insert(0, here)
    try:
        make = getattr(import_module(module), function)
        return make()
    except GameOperatorError:
        raise
    except Exception as failed:  # The operator's own code may raise anything.
        raise ConfigurationError(
            f"--wallet {shown(name)} failed: {one_line(f'{type(failed).__name__}: {failed}', 300)}. It must be a "
            f"function that needs no arguments. {_EXAMPLE}"
        ) from failed


def _check_made(name: str, client: object, wallet: object) -> None:
    from game_operator.client.sync import OperatorClient
    from game_operator.ledger import SqlLedger
    from game_operator.wallet import JoinedWallet, Wallet

    is_wallet = isinstance(wallet, Wallet | JoinedWallet) and isinstance(wallet.ledger, SqlLedger)
    if not is_wallet or not isinstance(client, OperatorClient | None):
        raise ConfigurationError(
            f"--wallet {shown(name)} returned {shown(wallet if client is None else (client, wallet))}. It must return "
            "a Wallet or a JoinedWallet over a SqlLedger, or an OperatorClient and such a wallet."
        )
