"""``game-operator serve``: the ready wallet behind a port, until it is stopped."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from game_operator.cli.commands.profile import read_profile
from game_operator.cli.database import (
    DATABASE,
    PREFIX,
    BalancesOptions,
    TablePrefix,
    TablesMissingError,
    address_of,
    check_folder,
    file_of,
    tables_missing,
)
from game_operator.cli.errors import ExitCode
from game_operator.cli.options import AsJson, with_option_groups
from game_operator.cli.output import say, write_document
from game_operator.errors import ConfigurationError, one_line, shown
from game_operator.protocol.http import is_loopback

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    from game_operator.cli.serving.server import Plan
    from game_operator.profile import Profile
    from game_operator.webhooks import Authenticator, WebhookReceiver

__all__ = ["serve"]

_NO_TABLES = "Run the statements, or let serve make them without --no-migrate."
_CALLS = "Whose calls are answered"
_WHERE = "Where it listens"


@with_option_groups
def serve(
    *,
    database: Annotated[
        str | None, typer.Option(metavar="URL", help=f"sqlite:///wallet.db or postgresql://…; else {DATABASE}.")
    ] = None,
    service_key: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="The service's public key; given more than once, any of them counts.",
            rich_help_panel=_CALLS,
        ),
    ] = None,
    allow_ip: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NETWORK",
            help="Besides, only callers from this address or network; more than once for more.",
            rich_help_panel=_CALLS,
        ),
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NETWORK",
            help="A proxy of yours, whose X-Forwarded-For names the caller for --allow-ip.",
            rich_help_panel=_CALLS,
        ),
    ] = None,
    instances: Annotated[
        str | None,
        typer.Option(
            metavar="ID,ID",
            help="Your game instances: bets and claims for another are refused. Advised.",
            rich_help_panel=_CALLS,
        ),
    ] = None,
    accept_unsigned: Annotated[
        bool,
        typer.Option(
            "--insecure-accept-unsigned",
            help="Without --service-key: answer anybody. On this machine alone.",
            rich_help_panel=_CALLS,
        ),
    ] = False,
    host: Annotated[
        str, typer.Option(help="An address of this machine; 0.0.0.0 for all.", rich_help_panel=_WHERE)
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.", rich_help_panel=_WHERE)] = 8000,
    prefix: Annotated[
        str, typer.Option(help="What stands before /withdraw and the others.", rich_help_panel=_WHERE)
    ] = "",
    max_connections: Annotated[
        int | None,
        typer.Option(
            min=1, help="At most so many at once; else the limit of open files less 64.", rich_help_panel=_WHERE
        ),
    ] = None,
    request_timeout: Annotated[
        float,
        typer.Option(min=0.1, help="Seconds a caller has to send a request.", rich_help_panel=_WHERE),
    ] = 10.0,
    profile: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What is assumed about the service, as TOML.")
    ] = None,
    source: Annotated[
        str, typer.Option(help="A name for service and environment; bets of different sources never meet.")
    ] = "",
    migrate: Annotated[
        bool, typer.Option("--migrate/--no-migrate", help="Make missing tables, or say which statements would.")
    ] = True,
    table_prefix: TablePrefix = PREFIX,
    balances: BalancesOptions,
    access_log: Annotated[bool, typer.Option("--access-log", help="Log a line for every call.")] = False,
    stop_with_stdin: Annotated[bool, typer.Option("--stop-with-stdin", hidden=True)] = False,
    as_json: AsJson = False,
) -> int:
    """
    Answer the service's webhooks from a ledger, until Ctrl-C or SIGTERM.

    Calls under way are answered before it stops. Why a call was refused is logged on stderr, and never told the
    caller. One process uses one core; start several on one database, PostgreSQL from several machines too.
    """
    rules = read_profile(profile)
    receiver = _receiver(rules, instances, _authenticator(service_key, allow_ip, trusted_proxy, accept_unsigned, host))
    _check_columns(balances.columns)
    accounts = balances.accounts()
    address = address_of(database)
    check_folder(address)
    from game_operator.cli.serving.server import Plan, serve_until_stopped

    plan = Plan(
        database=address,
        receiver=receiver,
        source=source,
        host=host,
        port=port,
        prefix=prefix,
        migrate=migrate,
        table_prefix=table_prefix,
        access_log=access_log,
        stop_with_stdin=stop_with_stdin,
        max_connections=max_connections,
        request_seconds=request_timeout,
        accounts=accounts,
    )
    if accept_unsigned:
        _warn()
    try:
        with tables_missing(table_prefix, _NO_TABLES):
            _check_file(plan)
            serve_until_stopped(plan, lambda url, told: _announce(url, told, as_json=as_json))
    except TablesMissingError as none:
        if not as_json:
            _tell_statements(none)
        raise
    if not as_json:
        say("The wallet has stopped.", error=True)
    return ExitCode.FINE


def _check_columns(names: tuple[str, ...]) -> None:
    """Raise ConfigurationError for a key of several columns: a call names a player, and a program says the rest."""
    if len(names) > 1:
        raise ConfigurationError(
            f"--accounts-key names {len(names)} columns, and serve cannot know the account of a call: it names a "
            "player alone. Serve such a table from a program, whose account_of returns the values of all columns "
            "(docs/own-transaction.md)."
        )


def _check_file(plan: "Plan") -> None:
    """Raise TablesMissingError for an SQLite file that is not there and not to be made: opening would make it."""
    file = file_of(plan.database)
    if plan.migrate or file is None or file.exists():
        return
    from game_operator.ledger.engine.schema import check_prefix, ddl

    statements = ddl("sqlite", check_prefix(plan.table_prefix))
    raise TablesMissingError(f"There is no file {shown(str(file))}. {_NO_TABLES}", statements)


def _tell_statements(error: TablesMissingError) -> None:
    for line in error.statements.splitlines():
        say(line)


def _authenticator(
    keys: list[Path] | None,
    networks: list[str] | None,
    proxies: list[str] | None,
    accept_unsigned: bool,
    host: str,
) -> "Authenticator":
    from game_operator.webhooks import AllOf, IpAllowList, RsaSignature

    if proxies and not networks:
        raise ConfigurationError("--trusted-proxy says nothing without --allow-ip. Pass both, or neither.")
    if keys and accept_unsigned:
        raise ConfigurationError("--service-key and --insecure-accept-unsigned exclude each other. Pass the key alone.")
    if not keys and not accept_unsigned:
        raise ConfigurationError(
            "Nobody could call: pass the service's public key as --service-key FILE. To try things out on this "
            "machine, --insecure-accept-unsigned answers anybody."
        )
    signature = RsaSignature(_service_keys(keys)) if keys else _unsigned(host)
    return (
        AllOf(IpAllowList(networks, trusted_proxies=proxies or (), trust_chunked=True), signature)
        if networks
        else signature
    )


def _service_keys(files: list[Path]) -> "list[RSAPublicKey]":
    from game_operator.cli.service_keys import service_keys

    return service_keys(files)


def _unsigned(host: str) -> "Authenticator":
    import warnings

    from game_operator.webhooks import AcceptUnsigned

    if not is_loopback(host):
        raise ConfigurationError(
            f"--insecure-accept-unsigned would let everybody who reaches {shown(host)} move your players' money. "
            "Pass --service-key, or listen on 127.0.0.1."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It is said louder below.
        return AcceptUnsigned()


def _receiver(profile: "Profile", instances: str | None, authenticator: "Authenticator") -> "WebhookReceiver":
    from game_operator.webhooks import WebhookReceiver

    ids = None if instances is None else frozenset(part.strip() for part in instances.split(","))
    if ids is not None and "" in ids:
        raise ConfigurationError(f"--instances {shown(instances)} has an empty id. Write ids with a comma between.")
    return WebhookReceiver(authenticator=authenticator, profile=profile, instances=ids)


def _announce(url: str, database: str, *, as_json: bool) -> None:
    if as_json:
        write_document({"url": url, "pid": os.getpid()})
        return
    say(f"The wallet answers at {url}, process {os.getpid()}, until Ctrl-C.")
    say(f"Its ledger is in {one_line(database)}.")


def _warn() -> None:
    for line in (
        "WARNING: calls are accepted WITHOUT A SIGNATURE.",
        "Whoever reaches this port can move your players' money. Never do this where there is any.",
    ):
        say(line, style="bold red", error=True)
