"""``game-operator serve``: the ready wallet behind a port, until it is stopped."""

import logging
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.resource_tracker import ensure_running
from multiprocessing.sharedctypes import RawValue
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from game_operator.cli.database import LedgerOptions, address_of, check_file
from game_operator.cli.errors import ExitCode, StoppedError
from game_operator.cli.options import ProfileFile, ServiceOptions, Source, check_extra, comma_separated, read_profile
from game_operator.cli.output import answer, remark
from game_operator.errors import (
    AccountNotFoundError,
    ConfigurationError,
    LedgerUnavailableError,
    SigningKeyError,
    one_line,
    shown,
)

if TYPE_CHECKING:
    from game_operator.ledger import SqlLedger
    from game_operator.models.webhooks import MovingCall
    from game_operator.telemetry import Telemetry
    from game_operator.webhooks import Authenticator
    from game_operator.webhooks.adapters import AsgiApp, Receive, Scope, Send
    from game_operator.webhooks.gate import Instances

    CurrencyOf: TypeAlias = Callable[[MovingCall], str | None]


#: So that /readyz answers within a second, whatever the network does.
_LOOK_SECONDS: Final = 0.8
_LOG = logging.getLogger("game_operator.serve")
#: Until uvicorn listens with as much: connections wait here while the ledger is opened.
_BACKLOG: Final = 2048


@dataclass(frozen=True, kw_only=True)
class ServedOptions:
    """The wallet, whose calls it answers, and what it reports."""

    service_key: list[Path]
    profile: ProfileFile = None
    source: Source = ""
    migrate: bool = True
    telemetry: bool = False


@dataclass(frozen=True, kw_only=True)
class ListeningOptions:
    """Where it listens, by how many processes, and how it stops."""

    host: str = "127.0.0.1"
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000
    prefix: str = ""
    workers: Annotated[int | None, typer.Option(min=1)] = None
    drain_seconds: Annotated[float, typer.Option(min=0, max=3600)] = 0.0

    def check(self, file: Path | None) -> None:
        """Raise ConfigurationError for a path that never matches, or workers that would share *file*, SQLite's."""
        if not re.fullmatch(r"[A-Za-z0-9._~!$&'()*+,;=:@/-]*", self.prefix):  # A server decodes %20: it never matches.
            raise ConfigurationError(f"--prefix {shown(self.prefix)} is not a path. Use letters, digits, / and -._~")
        if file is not None and self.workers and self.workers > 1:
            raise ConfigurationError(
                f"--workers {self.workers} needs PostgreSQL. SQLite takes one writer at a time, so more workers would "
                "only wait for each other. Pass --workers 1, or a --database of PostgreSQL."
            )

    def listener(self) -> socket.socket:
        """Return a socket that listens."""
        try:
            family, *_, address = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            return socket.create_server((str(address[0]), self.port), family=family, backlog=_BACKLOG)
        except (OSError, UnicodeError) as failed:
            problem = getattr(failed, "strerror", None) or failed
            raise ConfigurationError(
                f"The wallet cannot listen on port {self.port} of {shown(self.host)}: {problem}. Stop what uses the "
                "port, or pass another --host or --port."
            ) from None

    @property
    def routes(self) -> list[str]:
        """The paths that are answered."""
        from game_operator.cli.serving import PROBES
        from game_operator.protocol.webhook import BATCH_PATHS, OPERATIONS
        from game_operator.webhooks.gate import normal_prefix

        prefix = normal_prefix(self.prefix)
        return [*PROBES, *(prefix + path for path in (*OPERATIONS, *BATCH_PATHS))]

    def url(self, listener: socket.socket) -> str:
        """Return where the wallet answers."""
        from game_operator.webhooks.gate import normal_prefix

        host, port = listener.getsockname()[:2]
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return f"http://{place}{normal_prefix(self.prefix)}"


@dataclass(frozen=True, kw_only=True)
class GamesOptions:
    """Which games are played, and where the currency of a bet comes from."""

    instances: Annotated[list[str] | None, typer.Option(callback=comma_separated)] = None
    currency: str | None = None
    catalogue: bool = False

    def check(self) -> None:
        """Raise ConfigurationError if the options do not go together, or a setting of the service is missing."""
        if self.currency is not None and not re.fullmatch(r"[A-Za-z0-9]{1,16}", self.currency):
            raise ConfigurationError(
                f"--currency {shown(self.currency)} is not a code of 1 to 16 letters, such as EUR."
            )
        if self.catalogue and (self.currency is not None or self.instances):
            raise ConfigurationError(
                "--catalogue knows the instances and their currencies, so it excludes --instances and --currency."
            )
        if self.catalogue:
            ServiceOptions().client().close()

    @contextmanager
    def known(self, ledger: "Callable[[], SqlLedger]") -> "Iterator[tuple[Instances | None, CurrencyOf | None]]":
        """
        Yield the instances, and what names the currency of a call; None for what is not known.

        A catalogue is kept in the *ledger*, and refreshed in a thread.
        """
        if not self.catalogue:
            currency = self.currency
            yield frozenset(self.instances or ()) or None, (lambda _: currency) if currency else None
            return
        from game_operator.backoffice import Catalogue

        with ServiceOptions().client() as client, ledger() as store:
            catalogue = Catalogue(client, store)
            with catalogue.following():
                yield catalogue, catalogue.currency_of


def _signed_by(keys: list[Path]) -> "Authenticator":
    """Return what takes the signatures of *keys*, the service's public keys; raise ConfigurationError for others."""
    from game_operator.protocol.signing import MIN_KEY_BITS
    from game_operator.webhooks import RsaSignature

    try:
        return RsaSignature(keys)
    except SigningKeyError as wrong:
        remedy = f"Ask the provider for its public RSA key (PEM, {MIN_KEY_BITS} bits or more)."
        if wrong.setting == "public_key":
            remedy = f"{wrong.remedy} {remedy}"
        raise ConfigurationError(f"--service-key: {wrong.what}", remedy=remedy) from None


def _new_telemetry() -> "Telemetry":
    """Return the traces and metrics of this process; raise ConfigurationError if they have nowhere to go."""
    check_extra("game-operator serve --telemetry", "otel", ("opentelemetry",))
    from opentelemetry import trace

    from game_operator.telemetry import Telemetry

    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        raise ConfigurationError(
            "--telemetry has nowhere to send traces and metrics, because this process has no OpenTelemetry SDK.",
            remedy="Run: pip install opentelemetry-distro opentelemetry-exporter-otlp, and start the wallet as "
            "`opentelemetry-instrument game-operator serve …`.",
        )
    return Telemetry()


@dataclass(frozen=True)
class _Service:
    """A wallet as it is asked for. Each process makes its application of it, from the files as they are then."""

    place: LedgerOptions
    served: ServedOptions
    listening: ListeningOptions
    games: GamesOptions
    url: str
    #: A flag that all processes see: whether a worker that is told to stop is replaced.
    is_replaced: Any

    @property
    def of_ledger(self) -> dict[str, Any]:  # Any: options of different types.
        """What opens the ledger."""
        place = self.place
        settings = {"migrate": self.served.migrate, "table_prefix": place.table_prefix, "name": place.ledger_name}
        return {"url": address_of(place.database), "accounts": place.accounts(), **settings}

    def announce(self) -> None:
        """Say where it answers."""
        from game_operator.ledger.engine.address import shown_address

        answer(
            {"url": self.url, "pid": os.getpid()},
            f"The wallet answers at {self.url}, process {os.getpid()}, until Ctrl-C.",
            f"Its ledger is in {one_line(shown_address(address_of(self.place.database)))}.",
        )

    def __call__(self) -> "AsgiApp":
        """Return the application of this process, which its lifespan makes."""
        answered: AsgiApp

        async def live(receive: "Receive", send: "Send") -> None:
            nonlocal answered
            await receive()
            async with self._opened() as answered:
                await send({"type": "lifespan.startup.complete"})
                if self.listening.workers is None:
                    self.announce()
                await receive()
            await send({"type": "lifespan.shutdown.complete"})

        def application(scope: "Scope", receive: "Receive", send: "Send") -> Awaitable[None]:
            return live(receive, send) if scope["type"] == "lifespan" else answered(scope, receive, send)

        return application

    @asynccontextmanager
    async def _opened(self) -> "AsyncIterator[AsgiApp]":
        """Yield what answers; if the database is missing, and nothing else, it answers SYSTEM_ERROR for now."""
        from game_operator.cli.serving import (
            Connections,
            Health,
            ServeProtocol,
            logging_to_stderr,
            most_connections,
            or_end,
            stop_gently,
        )
        from game_operator.ledger import AsyncSqlLedger, SqlLedger
        from game_operator.wallet import AsyncWallet
        from game_operator.webhooks import WebhookReceiver, asgi_app

        async with AsyncExitStack() as life:
            if self.listening.workers is not None:
                life.enter_context(logging_to_stderr())
            life.enter_context(or_end())
            ServeProtocol.open_connections = Connections(most_connections())
            telemetry = _new_telemetry() if self.served.telemetry else None
            profile = read_profile(self.served.profile)
            instances, currency_of = life.enter_context(self.games.known(lambda: SqlLedger(**self.of_ledger)))
            receiver = WebhookReceiver(
                authenticator=_signed_by(self.served.service_key),
                profile=profile,
                instances=instances,
                telemetry=telemetry,
            )
            ledger = AsyncSqlLedger(**self.of_ledger, telemetry=telemetry)
            life.push_async_callback(ledger.close)
            wallet = AsyncWallet(ledger, profile=profile, source=self.served.source, currency_of=currency_of)
            health = Health(partial(ledger.ping, timeout_seconds=_LOOK_SECONDS))
            stop_gently(health.drain, self.listening.drain_seconds, self.is_replaced)
            application = health.beside(asgi_app(receiver, wallet, prefix=self.listening.prefix))
            is_successor = self.is_replaced.value
            try:
                await ledger.__aenter__()
            except LedgerUnavailableError as away:
                if is_successor:  # Those that have the database go on.
                    raise
                extra = {"event": "serve.database_away"}
                _LOG.warning("Calls are answered SYSTEM_ERROR for now: %s", away.what, extra=extra)
            yield telemetry.measured(application, self.listening.routes) if telemetry else application

    def run(self, listener: socket.socket) -> None:
        """
        Answer calls, in this process or in workers, until a signal says to stop.

        Raises:
            StoppedError: The first worker ended before it took calls.
        """
        import uvicorn

        from game_operator.cli.serving import ANSWER_SECONDS, START_SECONDS, ServeProtocol, Supervisor

        config = uvicorn.Config(
            self,
            factory=True,
            workers=self.listening.workers,
            http=ServeProtocol,
            interface="asgi3",
            loop="uvloop",
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=75,  # The service's connections should live: a new one costs more than a call.
            timeout_graceful_shutdown=ANSWER_SECONDS,
            timeout_worker_healthcheck=START_SECONDS,
        )
        if self.listening.workers is None:
            uvicorn.Server(config).run([listener])
            return
        supervisor = Supervisor(config, listener, self.announce, self.listening.drain_seconds, self.is_replaced)
        supervisor.run()
        if supervisor.has_failed:
            what = "The first worker ended before it took calls. What it wrote says why."
            raise StoppedError(ExitCode.UNREACHABLE, what, name="WorkersEnded")


def serve(
    *,
    served: ServedOptions,
    listening: ListeningOptions,
    games: GamesOptions,
    place: LedgerOptions,
) -> int:
    """
    Answer the service's webhooks from a ledger, until Ctrl-C or SIGTERM.

    Calls under way are answered before it stops. The reason of a refusal is logged on stderr, and never sent to
    the caller. One process uses one core: --workers starts several, and SIGHUP replaces them one after another.
    GET /healthz and /readyz say whether it lives and how its database is.
    """
    if sys.platform == "win32":
        raise ConfigurationError("game-operator serve needs Unix. Serve from a program of yours under uvicorn.")
    _signed_by(served.service_key)
    read_profile(served.profile)
    games.check()
    if len(place.columns) > 1:
        raise ConfigurationError(
            f"--accounts-key names {len(place.columns)} columns, and serve cannot know the account of a call: it "
            "names a player alone. Serve such a table from a program, whose account_of returns the values of all "
            "columns (docs/how-to/own-tables.md)."
        )
    # Without --no-migrate the file is made.
    missing = "" if served.migrate else "Is --database right? (`game-operator ledger open` makes a new ledger.)"
    listening.check(check_file(address_of(place.database), missing))
    check_extra("game-operator serve", "serve", ("uvicorn", "httptools", "uvloop"))
    if served.telemetry:
        _new_telemetry()
    from game_operator.cli.serving import logging_to_stderr
    from game_operator.ledger import SqlLedger

    with logging_to_stderr(), listening.listener() as listener:
        options = (place, served, listening, games)
        service = _Service(*options, url=listening.url(listener), is_replaced=RawValue("b", False))
        if listening.workers is not None:
            # A request for a restart that comes too early must not end the command, nor Python's process that
            # tidies up after it, if it is sent to all processes of a service.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            ensure_running()
        # What would end each process ends the command here, with its message and exit code; balances in the
        # operator's own table too, which would be an error for every call.
        with SqlLedger(**service.of_ledger) as ledger, suppress(AccountNotFoundError):
            ledger.balance("-")
        service.run(listener)
    remark("The wallet has stopped.")
    return ExitCode.FINE
