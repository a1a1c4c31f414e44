"""What ``game-operator serve`` can be asked for: whose calls, where, by how many processes, and in which currency."""

import re
import socket
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from game_operator.cli.database import PREFIX, DatabaseUrl, LedgerName, TablePrefix
from game_operator.cli.options import ProfileFile, ServiceOptions, Source
from game_operator.errors import ConfigurationError, SigningKeyError, shown
from game_operator.profile import Profile
from game_operator.protocol.http import is_loopback

if TYPE_CHECKING:
    from game_operator.backoffice import Catalogue
    from game_operator.ledger import SqlLedger
    from game_operator.models.webhooks import WebhookCall
    from game_operator.telemetry import Telemetry
    from game_operator.webhooks import Authenticator, WebhookReceiver

_BACKLOG: Final = 2048
#: How long the end waits for a look at the games that is under way.
_LOOK_SECONDS: Final = 5


@dataclass(frozen=True, kw_only=True)
class ServedOptions:
    """The wallet, and where its ledger is."""

    database: DatabaseUrl = None
    profile: ProfileFile = None
    source: Source = ""
    migrate: bool = True
    table_prefix: TablePrefix = PREFIX
    ledger_name: LedgerName = None
    access_log: bool = False
    telemetry: bool = False


@dataclass(frozen=True, kw_only=True)
class CallersOptions:
    """Whose calls are answered."""

    service_key: list[Path] | None = None
    allow_ip: list[str] | None = None
    trusted_proxy: list[str] | None = None
    instances: str | None = None
    accept_unsigned: Annotated[bool, typer.Option("--insecure-accept-unsigned")] = False

    def receiver(
        self,
        profile: Profile,
        host: str,
        catalogue: "Catalogue | None" = None,
        telemetry: "Telemetry | None" = None,
    ) -> "WebhookReceiver":
        """Return the receiver that answers these callers, for the instances of *catalogue* if there is one."""
        from game_operator.webhooks import AllOf, IpAllowList, WebhookReceiver

        if self.trusted_proxy and not self.allow_ip:
            raise ConfigurationError("--trusted-proxy says nothing without --allow-ip. Pass both, or neither.")
        if self.service_key and self.accept_unsigned:
            raise ConfigurationError(
                "--service-key and --insecure-accept-unsigned exclude each other. Pass the key alone."
            )
        if not self.service_key and not self.accept_unsigned:
            raise ConfigurationError(
                "No caller would be accepted: pass the service's public key as --service-key FILE. For tests on this "
                "machine, --insecure-accept-unsigned answers every caller."
            )
        authenticator = signed_by(self.service_key) if self.service_key else _unsigned(host)
        if self.allow_ip:
            allowed = IpAllowList(self.allow_ip, trusted_proxies=self.trusted_proxy or (), trust_chunked=True)
            authenticator = AllOf(allowed, authenticator)
        ids = None if self.instances is None else frozenset(part.strip() for part in self.instances.split(","))
        if ids is not None and "" in ids:
            raise ConfigurationError(
                f"--instances {shown(self.instances)} has an empty id. Write ids with a comma between."
            )
        return WebhookReceiver(
            authenticator=authenticator,
            profile=profile,
            instances=ids if catalogue is None else catalogue,
            telemetry=telemetry,
        )


@dataclass(frozen=True, kw_only=True)
class ListeningOptions:
    """Where it listens."""

    host: str = "127.0.0.1"
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000
    prefix: str = ""
    max_connections: Annotated[int | None, typer.Option(min=1)] = None
    request_timeout: Annotated[float, typer.Option(min=0.1)] = 10.0

    def listener(self) -> socket.socket:
        """Return a socket that listens."""
        if not re.fullmatch(r"[A-Za-z0-9._~!$&'()*+,;=:@/-]*", self.prefix):  # A server decodes %20: it never matches.
            raise ConfigurationError(f"--prefix {shown(self.prefix)} is not a path. Use letters, digits, / and -._~")
        try:
            family, *_, address = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            listener = socket.create_server((str(address[0]), self.port), family=family, backlog=_BACKLOG)
        except (OSError, UnicodeError) as failed:
            problem = getattr(failed, "strerror", None) or failed
            raise ConfigurationError(
                f"The wallet cannot listen on port {self.port} of {shown(self.host)}: {problem}. Stop what uses the "
                "port, or pass another --host or --port."
            ) from None
        # Inherited by its connections: else an answer could wait 40 ms for the caller to acknowledge the one before.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener

    @property
    def routes(self) -> list[str]:
        """The paths that are answered."""
        from game_operator.cli.health import PATHS
        from game_operator.protocol.webhook import BATCH_PATHS, OPERATIONS
        from game_operator.webhooks.gate import normal_prefix

        prefix = normal_prefix(self.prefix)
        return [*PATHS, *(prefix + path for path in (*OPERATIONS, *BATCH_PATHS))]

    def url(self, listener: socket.socket) -> str:
        """Return where the wallet answers."""
        host, port = listener.getsockname()[:2]
        place = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        return "/".join(filter(None, (place, self.prefix.strip("/"))))


@dataclass(frozen=True, kw_only=True)
class ProcessesOptions:
    """How many processes answer, and how they stop."""

    workers: Annotated[int | None, typer.Option(min=1)] = None
    drain_seconds: Annotated[float, typer.Option(min=0)] = 0.0

    def check(self, file: Path | None) -> None:
        """Raise ConfigurationError if so many workers cannot serve from *file*, that of SQLite, or on this system."""
        if self.workers is None:
            return
        if file is not None and self.workers > 1:
            raise ConfigurationError(
                f"--workers {self.workers} needs PostgreSQL. SQLite takes one writer at a time, so more workers would "
                "only wait for each other. Pass --workers 1, or a --database of PostgreSQL."
            )
        if sys.platform == "win32":
            raise ConfigurationError("--workers needs sockets that processes inherit, which Windows has not.")


@dataclass(frozen=True, kw_only=True)
class GamesOptions:
    """Where the currency of a bet comes from."""

    currency: str | None = None
    catalogue: bool = False

    def check(self, callers: CallersOptions) -> None:
        """Raise ConfigurationError if the options do not go together, or a setting of the service is missing."""
        if self.currency is not None and not re.fullmatch(r"[A-Za-z0-9]{1,16}", self.currency):
            raise ConfigurationError(
                f"--currency {shown(self.currency)} is not a code of 1 to 16 letters, such as EUR."
            )
        if self.catalogue and (self.currency is not None or callers.instances is not None):
            raise ConfigurationError(
                "--catalogue knows the instances and their currencies, so it excludes --instances and --currency."
            )
        if self.catalogue:
            ServiceOptions().client().close()

    @contextmanager
    def followed(self, ledger: "Callable[[], SqlLedger]") -> "Iterator[Catalogue | None]":
        """Yield the catalogue, kept in a ledger and refreshed in a thread; None if there is to be none."""
        if not self.catalogue:
            yield None
            return
        from game_operator.backoffice import Catalogue

        with ServiceOptions().client() as client, ledger() as store:
            catalogue, stop = Catalogue(client, store), threading.Event()
            # It may wait for the service, so that nobody waits for it.
            watching = threading.Thread(target=lambda: deque(catalogue.watch(stop=stop), maxlen=0), daemon=True)
            watching.start()
            try:
                yield catalogue
            finally:
                stop.set()
                watching.join(_LOOK_SECONDS)

    def currency_of(self, catalogue: "Catalogue | None") -> "Callable[[WebhookCall], str | None] | None":
        """Return what names the currency of a call."""
        if catalogue is not None:
            return catalogue.currency_of
        return None if self.currency is None else lambda _: self.currency


def signed_by(keys: list[Path]) -> "Authenticator":
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


def _unsigned(host: str) -> "Authenticator":
    from game_operator.webhooks import AcceptUnsigned

    if not is_loopback(host):
        raise ConfigurationError(
            f"--insecure-accept-unsigned would let everybody who reaches {shown(host)} move your players' money. "
            "Pass --service-key, or listen on 127.0.0.1."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # The command warns louder.
        return AcceptUnsigned()


def new_telemetry() -> "Telemetry":
    """Return the traces and metrics of this process; raise ConfigurationError if they have nowhere to go."""
    from opentelemetry import trace

    from game_operator.telemetry import Telemetry

    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        raise ConfigurationError(
            "--telemetry has nowhere to send traces and metrics, because this process has no OpenTelemetry SDK.",
            remedy="Run: pip install opentelemetry-distro opentelemetry-exporter-otlp, and start the wallet as "
            "`opentelemetry-instrument game-operator serve …`.",
        )
    return Telemetry()
