"""``game-operator serve``: the ready wallet behind a port, until it is stopped."""

import logging
import os
import platform
import re
import socket
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from game_operator.cli.database import PREFIX, BalancesOptions, DatabaseUrl, TablePrefix, address_of, check_file
from game_operator.cli.errors import ExitCode
from game_operator.cli.options import ProfileFile, check_extra, read_profile
from game_operator.cli.output import answer, remark, say
from game_operator.errors import AccountNotFoundError, ConfigurationError, SchemaError, SigningKeyError, one_line, shown
from game_operator.profile import Profile
from game_operator.protocol.http import is_loopback

if TYPE_CHECKING:
    from game_operator.cli.http_connections import WalletServer
    from game_operator.ledger import AsyncSqlLedger
    from game_operator.webhooks import Authenticator, WebhookReceiver

_BACKLOG: Final = 2048
#: What a call may take beyond its budget before a stop no longer waits for it.
_LAST_WORDS_SECONDS: Final = 5
#: Where uvloop exists; elsewhere the loop of the standard library does.
_HAS_UVLOOP: Final = sys.platform != "win32" and platform.python_implementation() != "PyPy"


@dataclass(frozen=True, kw_only=True)
class CallersOptions:
    """Whose calls are answered."""

    service_key: list[Path] | None = None
    allow_ip: list[str] | None = None
    trusted_proxy: list[str] | None = None
    instances: str | None = None
    accept_unsigned: Annotated[bool, typer.Option("--insecure-accept-unsigned")] = False

    def receiver(self, profile: Profile, host: str) -> "WebhookReceiver":
        """Return the receiver that answers these callers."""
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
        return WebhookReceiver(authenticator=authenticator, profile=profile, instances=ids)


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

    def url(self, listener: socket.socket) -> str:
        """Return where the wallet answers."""
        host, port = listener.getsockname()[:2]
        place = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        return "/".join(filter(None, (place, self.prefix.strip("/"))))


def serve(
    *,
    database: DatabaseUrl = None,
    callers: CallersOptions,
    listening: ListeningOptions,
    profile: ProfileFile = None,
    source: str = "",
    migrate: bool = True,
    table_prefix: TablePrefix = PREFIX,
    balances: BalancesOptions,
    access_log: bool = False,
) -> int:
    """
    Answer the service's webhooks from a ledger, until Ctrl-C or SIGTERM.

    Calls under way are answered before it stops. The reason of a refusal is logged on stderr, and never sent to
    the caller. One process uses one core; start several on one database, PostgreSQL from several machines too.
    """
    receiver = callers.receiver(read_profile(profile), listening.host)
    if len(balances.columns) > 1:
        raise ConfigurationError(
            f"--accounts-key names {len(balances.columns)} columns, and serve cannot know the account of a call: it "
            "names a player alone. Serve such a table from a program, whose account_of returns the values of all "
            "columns (docs/own-transaction.md)."
        )
    accounts = balances.accounts()
    address = address_of(database)
    file = check_file(address)
    check_extra("game-operator serve", "serve", ("uvicorn", "httptools", *(["uvloop"] if _HAS_UVLOOP else [])))
    import asyncio

    from game_operator.cli.http_connections import Connections, WalletServer, most_connections
    from game_operator.ledger import AsyncSqlLedger
    from game_operator.ledger.engine.address import shown_address
    from game_operator.ledger.engine.tables import check_prefix, ddl
    from game_operator.wallet import AsyncWallet
    from game_operator.webhooks import asgi_app

    def announce() -> None:
        url = listening.url(listener)
        answer(
            {"url": url, "pid": os.getpid()},
            f"The wallet answers at {url}, process {os.getpid()}, until Ctrl-C.",
            f"Its ledger is in {one_line(shown_address(address))}.",
        )

    if callers.accept_unsigned:
        say("WARNING: calls are accepted WITHOUT A SIGNATURE.", style="bold red", error=True)
        warning = "Anybody who reaches this port can move your players' money. Use it for test money only."
        say(warning, style="bold red", error=True)
    try:
        if not migrate and file is not None and not file.exists():  # Opening would make it.
            what = f"There is no file {shown(str(file))}. Is --database right?"
            raise SchemaError(what, statements=ddl("sqlite", check_prefix(table_prefix)))
        connections = Connections(most_connections(listening.max_connections), listening.request_timeout)
        with _logging(access_log), listening.listener() as listener:
            ledger = AsyncSqlLedger(address, accounts=accounts, migrate=migrate, table_prefix=table_prefix)
            wallet = AsyncWallet(ledger, profile=receiver.profile, source=source)
            application = asgi_app(receiver, wallet, prefix=listening.prefix)
            server = WalletServer(
                application,
                connections,
                announce,
                loop="uvloop" if _HAS_UVLOOP else "asyncio",
                access_log=access_log,
                backlog=_BACKLOG,
                timeout_graceful_shutdown=int(receiver.budget_seconds) + _LAST_WORDS_SECONDS,
            )
            with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
                runner.run(_serve(server, ledger, listener))
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


async def _serve(server: "WalletServer", ledger: "AsyncSqlLedger", listener: socket.socket) -> None:
    async with ledger:
        # Balances in the operator's own table are an error now, which is better than one for every call.
        with suppress(AccountNotFoundError):
            await ledger.balance("-")
        await server.serve([listener])


@contextmanager
def _logging(access_log: bool) -> Iterator[None]:
    """Let warnings and errors, replies that refuse a call, and the access log if it is wanted, go to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root, access = logging.getLogger(), logging.getLogger("uvicorn.access")
    refusals = logging.getLogger("game_operator.webhooks.refusals")
    level = refusals.level
    root.addHandler(handler)
    refusals.setLevel(logging.INFO)
    if access_log:
        access.setLevel(logging.INFO)
    try:
        yield
    finally:
        refusals.setLevel(level)
        root.removeHandler(handler)
