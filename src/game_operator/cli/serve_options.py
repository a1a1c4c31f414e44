"""What ``game-operator serve`` can be asked for: whose calls, where, by how many processes, and for which games."""

import re
import socket
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from game_operator.cli.options import ProfileFile, ServiceOptions, Source, check_extra, comma_separated
from game_operator.errors import ConfigurationError, SigningKeyError, shown
from game_operator.protocol.http import is_loopback

if TYPE_CHECKING:
    from game_operator.ledger import SqlLedger
    from game_operator.models.webhooks import MovingCall
    from game_operator.telemetry import Telemetry
    from game_operator.webhooks import Authenticator
    from game_operator.webhooks.gate import Instances

    CurrencyOf: TypeAlias = Callable[[MovingCall], str | None]

#: Until uvicorn listens with as much: connections wait here while the ledger is opened.
_BACKLOG: Final = 2048


@dataclass(frozen=True, kw_only=True)
class ServedOptions:
    """The wallet, and what it reports."""

    profile: ProfileFile = None
    source: Source = ""
    migrate: bool = True
    access_log: bool = False
    telemetry: bool = False


@dataclass(frozen=True, kw_only=True)
class CallersOptions:
    """Whose calls are answered."""

    service_key: list[Path] | None = None
    allow_ip: list[str] | None = None
    trusted_proxy: list[str] | None = None
    accept_unsigned: Annotated[bool, typer.Option("--insecure-accept-unsigned")] = False

    def authenticator(self, host: str) -> "Authenticator":
        """Return what accepts these callers at *host*; raise ConfigurationError if it would accept nobody or all."""
        from game_operator.webhooks import AllOf, IpAllowList

        if self.service_key and self.accept_unsigned:
            raise ConfigurationError(
                "--service-key and --insecure-accept-unsigned exclude each other. Pass the key alone."
            )
        if not self.service_key and not self.accept_unsigned:
            raise ConfigurationError(
                "No caller would be accepted: pass the service's public key as --service-key FILE. For tests on this "
                "machine, --insecure-accept-unsigned answers every caller."
            )
        signed = signed_by(self.service_key) if self.service_key else _unsigned(host)
        if self.trusted_proxy and not self.allow_ip:
            raise ConfigurationError("--trusted-proxy says nothing without --allow-ip. Pass both, or neither.")
        if not self.allow_ip:
            return signed
        return AllOf(IpAllowList(self.allow_ip, trusted_proxies=self.trusted_proxy or (), trust_chunked=True), signed)


@dataclass(frozen=True, kw_only=True)
class ListeningOptions:
    """Where it listens, by how many processes, and how it stops."""

    host: str = "127.0.0.1"
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000
    prefix: str = ""
    max_connections: Annotated[int | None, typer.Option(min=1)] = None
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
        from game_operator.cli.health import PATHS
        from game_operator.protocol.webhook import BATCH_PATHS, OPERATIONS
        from game_operator.webhooks.gate import normal_prefix

        prefix = normal_prefix(self.prefix)
        return [*PATHS, *(prefix + path for path in (*OPERATIONS, *BATCH_PATHS))]

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
