"""``game-operator storm``: many bets with faults against a wallet, and an audit of every one."""

import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from game_operator.cli.database import (
    DATABASE,
    PREFIX,
    BalancesOptions,
    DatabaseUrl,
    LedgerOptions,
    TablePrefix,
    address_of,
)
from game_operator.cli.errors import ExitCode
from game_operator.cli.files import check_writable, is_written
from game_operator.cli.options import ProfileFile, Source, read_profile
from game_operator.cli.output import remark, say
from game_operator.errors import ConfigurationError, LedgerError, TransportError, shown
from game_operator_testkit.cli import command
from game_operator_testkit.cli.certify_options import key_in
from game_operator_testkit.cli.progress import progress
from game_operator_testkit.provider.faults import API_FAULTS, LASTING_FAULTS, FaultPlan

if TYPE_CHECKING:
    from game_operator.ledger import TableAccounts
    from game_operator_testkit.sandbox.storm.players import Books
    from game_operator_testkit.sandbox.storm.report import StormReport
    from game_operator_testkit.sandbox.storm.storm import Storm
    from game_operator_testkit.sandbox.storm.trace import TraceHead

#: Faults that a storm does not have, and why.
_NOT_IN_STORMS: Final = dict.fromkeys(
    API_FAULTS, "occurs in calls of the Operator API, and a storm makes none"
) | dict.fromkeys(LASTING_FAULTS, "makes service and wallet differ, and a storm tests whether they agree")


@dataclass(frozen=True, kw_only=True)
class PlayersOptions:
    """Who plays, and who knows what the players hold at the end."""

    database: DatabaseUrl = None
    players_file: Path | None = None
    players: Annotated[int, typer.Option(min=1)] = 100
    table_prefix: TablePrefix = PREFIX
    source: Source = ""

    def ids(self) -> tuple[str, ...]:
        """Return the players of the file; without a file they are opened."""
        from game_operator_testkit.sandbox.storm.players import read_players

        return () if self.players_file is None else tuple(read_players(self.players_file))

    def books(self, accounts: "TableAccounts | None", of_wallet: "Books") -> "Books":
        """
        Return the ledger that audits, or *of_wallet* with --players-file alone.

        Raises:
            ConfigurationError: There is no such ledger, or there are no players.
        """
        if self.players_file is None or accounts is not None:
            return self._of_ledger(accounts)
        if self.database is not None:
            raise ConfigurationError("--database and --players-file exclude each other. Pass one of them.")
        return of_wallet

    def _of_ledger(self, accounts: "TableAccounts | None") -> "Books":
        from game_operator_testkit.sandbox.storm.players import LedgerBooks

        if accounts is not None and self.players_file is None:
            raise ConfigurationError(
                f"There are no players: a storm opens no accounts in {accounts.table}, which is yours. Pass "
                "--players-file FILE with ids of players who hold money there."
            )
        address = address_of(
            self.database,
            f"There are no players: pass the wallet's ledger as --database sqlite:///wallet.db (or set {DATABASE}), or "
            "--players-file FILE with ids of players who hold money.",
        )
        place = LedgerOptions(database=address, table_prefix=self.table_prefix)
        with place.opened(accounts=accounts, missing="Pass the ledger that the wallet serves from.") as ledger:
            known = ledger.sources()
        _warn_of_source(self.source, known)
        return LedgerBooks(address, table_prefix=self.table_prefix, source=self.source, accounts=accounts)


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """What is played."""

    bets: Annotated[int, typer.Option(min=1)] = 1_000
    faults: str = "all"
    retries: str = "three"
    seed: int | None = None
    currency: str = "EUR"
    instance: str | None = None

    def head(self, ids: tuple[str, ...], players: int) -> "TraceHead":
        """
        Return how the plan is made, for the players *ids*, or so many *players* who are opened.

        Raises:
            ConfigurationError: There are no such faults or retries, or the retries end.
        """
        from game_operator_testkit.sandbox.dealing.deliveries import retry_preset
        from game_operator_testkit.sandbox.storm.storm import openings
        from game_operator_testkit.sandbox.storm.trace import TraceHead

        plan, retries = FaultPlan.parse(self.faults), retry_preset(self.retries)
        if retries.then_millis is None:
            raise ConfigurationError(
                f"With --retries {retries.name}, nobody knows what is due at the end. Pass --retries cancel, so that "
                "withdraws are not repeated."
            )
        for fault in (*plan.rates, *plan.nth):
            if why := _NOT_IN_STORMS.get(fault):
                raise ConfigurationError(f"{fault} {why}. Switch it on in `game-operator sandbox`.")
        seed = secrets.randbelow(10**6) if self.seed is None else self.seed
        start_millis = time.time_ns() // 1_000_000
        return TraceHead(
            seed=seed,
            start_millis=start_millis,
            bets=self.bets,
            currency=self.currency,
            faults=str(plan),
            retries=retries.name,
            opening=dict.fromkeys(ids, 0) or openings(players, seed, start_millis),
            instance_id=self.instance,
        )


@command
def storm(
    *,
    url: str,
    service_private_key: Path,
    players: PlayersOptions,
    balances: BalancesOptions,
    plan: PlanOptions,
    concurrency: Annotated[int, typer.Option(min=1, max=100)] = 16,
    timeout: Annotated[float, typer.Option(min=0.001)] = 10.0,
    old_key: Path | None = None,
    profile: ProfileFile = None,
    trace: Path | None = None,
    html: Path | None = None,
    moves_money: bool = False,
) -> int:
    """
    Play many bets against a wallet, with all that can go wrong on the way, and audit every one.

    Exit code 1 if service and wallet differ anywhere, with each difference and a trace, or if a fault that was asked
    for occurred too seldom.
    """
    from game_operator_testkit.provider.caller import check_moves_money
    from game_operator_testkit.provider.keys import ServiceKeys
    from game_operator_testkit.sandbox.storm.players import PlayersBooks
    from game_operator_testkit.sandbox.storm.storm import Storm

    check_moves_money(url, "a storm", moves_money=moves_money, name="--url")
    if trace is not None:
        check_writable("--trace", trace, ".trace", may_be_device=True)
    if html is not None:
        check_writable("--html", html, ".html")
    keys = ServiceKeys(key_in("--service-private-key", service_private_key), old_key and key_in("--old-key", old_key))
    rules, accounts = read_profile(profile), balances.accounts()
    books = players.books(accounts, PlayersBooks(url, keys.current, profile=rules, timeout=timeout))
    head = plan.head(players.ids(), players.players)
    played = Storm(url, keys, books, head, concurrency=concurrency, profile=rules, timeout=timeout)
    place = trace or Path(f"storm-{head.seed}.trace")
    report = _run(played, head.bets, place)
    from game_operator_testkit.cli.storm_report import show_report

    written = _written(place, report.trace)
    is_complete = html is None or _is_page_written(html, report)
    show_report(report, written)
    if not report.passed:
        return ExitCode.SAID_NO
    return ExitCode.FINE if is_complete else ExitCode.UNWRITABLE


def _run(played: "Storm", bets: int, place: Path) -> "StormReport":
    """Play and audit; if it ends before that, the trace is left at *place*, unless nothing was sent."""
    try:
        with progress() as show:
            return played.run(
                lambda dealt, posts, seconds: show(
                    f"bets, {posts / seconds if seconds else 0.0:.0f} calls/s", min(bets, dealt), bets
                )
            )
    except KeyboardInterrupt:
        if written := _written(place, played.trace()):
            say(f"Money has moved, and bets are open. What was sent until now is in {written}.", error=True)
        raise
    except (TransportError, LedgerError) as gone:
        if not played.timeline.posts:
            raise
        from game_operator_testkit.cli.storm_report import broken_off

        raise broken_off(gone, played.timeline.posts, _written(place, played.trace())) from gone


def _is_page_written(path: Path, report: "StormReport") -> bool:
    from game_operator_testkit.sandbox.storm.as_html import html

    return is_written(path, html(report), "page")


def _warn_of_source(source: str, known: list[str]) -> None:
    """Say before the first call what it registers permanently, or that --source is wrong."""
    if not known:
        remark(
            "The ledger has no source yet, and this storm registers the wallet's source permanently. Use the source "
            "that goes live, or another database."
        )
    elif source not in known:
        remark(
            f"The ledger does not know the source {shown(source)}; it knows {', '.join(map(shown, known))}. Bets are "
            "audited under --source: pass the wallet's."
        )


def _written(path: Path, trace: tuple[str, ...]) -> Path | None:
    """Write the trace of a failing storm, and return where it is; None if there is none."""
    content = "".join(f"{line}\n" for line in trace)
    return path if trace and is_written(path, content, "trace") else None
