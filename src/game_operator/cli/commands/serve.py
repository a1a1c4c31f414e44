"""``game-operator serve``: the ready wallet behind a port, until it is stopped."""

import logging
import os
import platform
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from game_operator.cli.database import (
    PREFIX,
    BalancesOptions,
    DatabaseUrl,
    LedgerName,
    TablePrefix,
    address_of,
    check_file,
)
from game_operator.cli.errors import ExitCode
from game_operator.cli.options import ProfileFile, Source, check_extra, read_profile
from game_operator.cli.output import answer, remark, say
from game_operator.cli.serve_options import BACKLOG, CallersOptions, GamesOptions, ListeningOptions, ProcessesOptions
from game_operator.errors import (
    AccountNotFoundError,
    ConfigurationError,
    LedgerUnavailableError,
    SchemaError,
    one_line,
    shown,
)
from game_operator.profile import Profile

if TYPE_CHECKING:
    from game_operator.cli.health import Health
    from game_operator.cli.http_connections import WalletServer
    from game_operator.cli.worker_processes import WorkerLink
    from game_operator.ledger import AsyncSqlLedger
    from game_operator.telemetry import Telemetry

#: What a call may take beyond its budget before a stop no longer waits for it.
_LAST_WORDS_SECONDS: Final = 5
#: Where uvloop exists; elsewhere the loop of the standard library does.
_HAS_UVLOOP: Final = sys.platform != "win32" and platform.python_implementation() != "PyPy"
_LOG = logging.getLogger("game_operator.serve")


@dataclass(frozen=True, kw_only=True)
class _WalletService:
    """A wallet as it is asked for; every process of it has the same."""

    address: str
    callers: CallersOptions
    listening: ListeningOptions
    processes: ProcessesOptions
    games: GamesOptions
    profile: Profile
    source: str
    access_log: bool
    telemetry: bool
    budget_seconds: float
    #: Options of the ledger.
    of_ledger: Mapping[str, Any]

    def announce(self, listener: socket.socket) -> None:
        """Say where it answers."""
        from game_operator.ledger.engine.address import shown_address

        url = self.listening.url(listener)
        answer(
            {"url": url, "pid": os.getpid()},
            f"The wallet answers at {url}, process {os.getpid()}, until Ctrl-C.",
            f"Its ledger is in {one_line(shown_address(self.address))}.",
        )

    @property
    def routes(self) -> list[str]:
        """The paths that it answers."""
        from game_operator.cli.health import PATHS
        from game_operator.protocol.webhook import BATCH_PATHS, OPERATIONS
        from game_operator.webhooks.gate import normal_prefix

        prefix = normal_prefix(self.listening.prefix)
        return [*PATHS, *(prefix + path for path in (*OPERATIONS, *BATCH_PATHS))]

    @property
    def stop_seconds(self) -> int:
        """The time that calls under way have when it stops."""
        return int(self.budget_seconds) + _LAST_WORDS_SECONDS

    def answer_calls(self, listener: socket.socket, link: "WorkerLink | None") -> None:
        """Answer calls until a signal, or the supervisor behind *link*, says to stop."""
        import asyncio

        from game_operator.cli.health import Health
        from game_operator.cli.http_connections import Connections, WalletServer, most_connections
        from game_operator.ledger import AsyncSqlLedger, SqlLedger
        from game_operator.wallet import AsyncWallet
        from game_operator.webhooks import asgi_app

        connections = Connections(most_connections(self.listening.max_connections), self.listening.request_timeout)
        with self.games.followed(lambda: SqlLedger(self.address, **self.of_ledger)) as catalogue:
            telemetry = _telemetry() if self.telemetry else None
            receiver = self.callers.receiver(self.profile, self.listening.host, catalogue, telemetry)
            ledger = AsyncSqlLedger(self.address, **self.of_ledger, telemetry=telemetry)
            currency_of = self.games.currency_of(catalogue)
            wallet = AsyncWallet(ledger, profile=self.profile, source=self.source, currency_of=currency_of)
            health = Health(ledger.ping)
            application = health.beside(asgi_app(receiver, wallet, prefix=self.listening.prefix))
            server = WalletServer(
                application if telemetry is None else telemetry.measured(application, self.routes),
                connections,
                link.report_ready if link else partial(self.announce, listener),
                health.drain,
                drain_seconds=0.0 if link else self.processes.drain_seconds,
                loop="uvloop" if _HAS_UVLOOP else "asyncio",
                access_log=self.access_log,
                backlog=BACKLOG,
                timeout_graceful_shutdown=self.stop_seconds,
            )
            if link is not None:
                link.follow(health.drain, server.stop, stop_seconds=self.stop_seconds + _LAST_WORDS_SECONDS)
            may_lack = link is not None and link.may_lack_database
            with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
                runner.run(_serve(server, ledger, health, listener, may_lack_database=may_lack))

    def supervise(self, listener: socket.socket, workers: int) -> None:
        """Keep *workers* that answer calls, until a signal says to stop."""
        import asyncio

        from game_operator.cli.worker_processes import Supervisor
        from game_operator.ledger import AsyncSqlLedger

        supervisor = Supervisor(
            workers,
            listener,
            partial(self.announce, listener),
            drain_seconds=self.processes.drain_seconds,
            stop_seconds=self.stop_seconds + _LAST_WORDS_SECONDS,
        )
        # A request for a restart that comes too early must not end the command.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        # What would end each worker ends the command here, with its message and exit code.
        asyncio.run(_tried(AsyncSqlLedger(self.address, **self.of_ledger)))
        asyncio.run(supervisor.run())


def serve(
    *,
    database: DatabaseUrl = None,
    callers: CallersOptions,
    listening: ListeningOptions,
    processes: ProcessesOptions,
    games: GamesOptions,
    profile: ProfileFile = None,
    source: Source = "",
    migrate: bool = True,
    table_prefix: TablePrefix = PREFIX,
    ledger_name: LedgerName = None,
    balances: BalancesOptions,
    access_log: bool = False,
    telemetry: bool = False,
) -> int:
    """
    Answer the service's webhooks from a ledger, until Ctrl-C or SIGTERM.

    Calls under way are answered before it stops. The reason of a refusal is logged on stderr, and never sent to
    the caller. One process uses one core: --workers starts several, and SIGHUP replaces them one after another.
    GET /healthz and /readyz say whether it lives and how its database is.
    """
    link = _inherited_link()
    receiver = callers.receiver(read_profile(profile), listening.host)
    games.check(callers)
    if len(balances.columns) > 1:
        raise ConfigurationError(
            f"--accounts-key names {len(balances.columns)} columns, and serve cannot know the account of a call: it "
            "names a player alone. Serve such a table from a program, whose account_of returns the values of all "
            "columns (docs/how-to/own-transaction.md)."
        )
    accounts = balances.accounts()
    address = address_of(database)
    file = check_file(address)
    processes.check(file)
    check_extra("game-operator serve", "serve", ("uvicorn", "httptools", *(["uvloop"] if _HAS_UVLOOP else [])))
    if telemetry:
        check_extra("game-operator serve --telemetry", "otel", ("opentelemetry",))
        _telemetry()
    from game_operator.cli.http_connections import most_connections
    from game_operator.ledger.engine.tables import check_prefix, ddl

    wallet = _WalletService(
        address=address,
        callers=callers,
        listening=listening,
        processes=processes,
        games=games,
        profile=receiver.profile,
        source=source,
        access_log=access_log,
        telemetry=telemetry,
        budget_seconds=receiver.budget_seconds,
        of_ledger={"accounts": accounts, "migrate": migrate, "table_prefix": table_prefix, "name": ledger_name},
    )
    if link is not None:
        with _logging(access_log, worker=True):
            wallet.answer_calls(link.listener, link)
        return ExitCode.FINE
    if callers.accept_unsigned:
        say("WARNING: calls are accepted WITHOUT A SIGNATURE.", style="bold red", error=True)
        warning = "Anybody who reaches this port can move your players' money. Use it for test money only."
        say(warning, style="bold red", error=True)
    try:
        if not migrate and file is not None and not file.exists():  # Opening would make it.
            what = f"There is no file {shown(str(file))}. Is --database right?"
            raise SchemaError(what, statements=ddl("sqlite", check_prefix(table_prefix)))
        most_connections(listening.max_connections)
        with _logging(access_log), listening.listener() as listener:
            if processes.workers is None:
                wallet.answer_calls(listener, None)
            else:
                wallet.supervise(listener, processes.workers)
    except SchemaError as missing:
        if not missing.statements:
            raise
        for line in missing.statements.splitlines():
            say(line)
        what = f"{missing.what} Is --table-prefix right?" if missing.version == 0 else missing.what
        remedy = "Run the statements, or let serve make them without --no-migrate."
        raise SchemaError(what, remedy=remedy, statements=missing.statements) from None
    remark("The wallet has stopped.")
    return ExitCode.FINE


def _telemetry() -> "Telemetry":
    from opentelemetry import trace

    from game_operator.telemetry import Telemetry

    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        raise ConfigurationError(
            "--telemetry has nowhere to send traces and metrics, because this process has no OpenTelemetry SDK.",
            remedy="Run: pip install opentelemetry-distro opentelemetry-exporter-otlp, and start the wallet as "
            "`opentelemetry-instrument game-operator serve …`.",
        )
    return Telemetry()


def _inherited_link() -> "WorkerLink | None":
    if sys.platform == "win32":
        return None
    from game_operator.cli.worker_processes import WorkerLink

    return WorkerLink.inherited()


async def _serve(
    server: "WalletServer",
    ledger: "AsyncSqlLedger",
    health: "Health",
    listener: socket.socket,
    *,
    may_lack_database: bool,
) -> None:
    try:
        try:
            await _open(ledger)
            health.opened = True
        except LedgerUnavailableError as away:
            if not may_lack_database:
                raise
            health.opened = True  # It takes the place of one that was ready, and the database's trouble takes none out.
            extra = {"event": "serve.database_away"}
            _LOG.warning("Calls are answered SYSTEM_ERROR for now: %s", away.what, extra=extra)
        await server.serve([listener])
    finally:
        await ledger.close()


async def _tried(ledger: "AsyncSqlLedger") -> None:
    try:
        await _open(ledger)
    finally:
        await ledger.close()


async def _open(ledger: "AsyncSqlLedger") -> None:
    await ledger.__aenter__()
    # Balances in the operator's own table are an error now, which is better than one for every call.
    with suppress(AccountNotFoundError):
        await ledger.balance("-")


@contextmanager
def _logging(access_log: bool, *, worker: bool = False) -> Iterator[None]:
    """Let warnings and errors, replies that refuse a call, and the access log if it is wanted, go to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        logging.Formatter(f"%(asctime)s %(levelname)s {'[%(process)d] ' if worker else ''}%(name)s: %(message)s")
    )
    root, access = logging.getLogger(), logging.getLogger("uvicorn.access")
    refusals = logging.getLogger("game_operator.webhooks.refusals")
    opening = logging.getLogger("game_operator.ledger.opening")
    levels = [(each, each.level) for each in (refusals, _LOG, opening)]
    root.addHandler(handler)
    for each in (refusals, _LOG):
        each.setLevel(logging.INFO)
    if worker:  # The supervisor has opened the same ledger, and said what it saw.
        opening.setLevel(logging.ERROR)
    if access_log:
        access.setLevel(logging.INFO)
    try:
        yield
    finally:
        for each, level in levels:
            each.setLevel(level)
        root.removeHandler(handler)
