"""The options of ``game-operator certify`` in groups, and what they stand for: keys, headers, hooks, report files."""

import json
import os
import re
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from game_operator.cli.database import PREFIX
from game_operator.cli.options import PASSPHRASE, ProfileFile, comma_separated, is_encrypted
from game_operator.cli.output import is_written
from game_operator.errors import ConfigurationError, SigningKeyError, shown, without_frames

if TYPE_CHECKING:
    import ssl

    from game_operator.certify.engine.supplies import Supplies
    from game_operator.certify.report.report import Report
    from game_operator.profile import Profile
    from game_operator.signers.keys import LocalSigner

_who = partial(typer.Option, rich_help_panel="Key and players")
_route = partial(typer.Option, rich_help_panel="How the wallet is reached")
_what = partial(typer.Option, rich_help_panel="What is played")
_more = partial(typer.Option, rich_help_panel="What more scenarios need")
_reports = partial(typer.Option, rich_help_panel="Reports")

_HEADER: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:[ \t]*([ -~\t\x80-\xff]*)")
#: A run sets these by itself, or its scenarios do.
_OWN: Final = frozenset({"connection", "content-encoding", "content-length", "content-type", "transfer-encoding"})

ServiceKeyFile = Annotated[
    Path,
    typer.Option("--service-key", metavar="FILE", help="The service's private key, whose public half the wallet has."),
]
MovesMoney = Annotated[
    bool, _route("--moves-money", help="Needed for a wallet on another machine: its players' money moves.")
]


@dataclass(frozen=True, kw_only=True)
class RouteOptions:
    """How a wallet is reached."""

    header: Annotated[
        list[str] | None, _route(metavar="'NAME: VALUE'", help="One more header for each request; may be repeated.")
    ] = None
    ca: Annotated[Path | None, _route(metavar="FILE", help="Over https: the authority to trust, and no other.")] = None
    allow_insecure_http: Annotated[bool, _route("--allow-insecure-http", help="Plain http to another machine.")] = False
    moves_money: MovesMoney = False

    def headers(self, profile: "Profile") -> list[tuple[str, str]]:
        """Return the headers; no error shows a value, which may be a secret."""
        found = []
        for place, each in enumerate(self.header or (), start=1):
            parts = _HEADER.fullmatch(each.rstrip(" \t"))
            if parts is None:
                raise ConfigurationError(
                    f"--header takes 'Name: value' on one line, and number {place} is invalid. It is not shown here, "
                    "because it may be a secret."
                )
            name, value = parts.groups()
            if name.lower() in _OWN | {profile.signature_header.lower()}:
                raise ConfigurationError(f"A run sets the header {name} by itself. Leave --header {name} out.")
            found.append((name, value))
        return found

    def ssl_context(self) -> "ssl.SSLContext | None":
        """Return what trusts the certificates in --ca and no others; None, as for any client, without."""
        if self.ca is None:
            return None
        import ssl

        try:
            return ssl.create_default_context(cafile=self.ca)
        except ssl.SSLError:
            problem = "holds no certificate in PEM"
        except (OSError, ValueError) as failed:
            problem = f"cannot be read: {getattr(failed, 'strerror', None) or failed}"
        raise ConfigurationError(f"--ca {shown(str(self.ca))} {problem}. Pass the authority's certificate.")


@dataclass(frozen=True, kw_only=True)
class WalletOptions:
    """The wallet's key and its players."""

    service_key: Annotated[
        Path | None, _who(metavar="FILE", help="The service's private key, whose public half the wallet has.")
    ] = None
    player: Annotated[
        str | None, _who(metavar="ID", help="A test player with 10.00 or more, used by no other test.")
    ] = None
    other_player: Annotated[str | None, _who(metavar="ID", help="Another one.")] = None
    instance: Annotated[
        str | None, _who(metavar="ID", help="The instance that is played, if the wallet knows its own.")
    ] = None

    def check(self, url: str | None) -> tuple[str, Path, str, str]:
        """Return address, key and players, which only a plan does without."""
        named = {"URL": url, "--service-key": self.service_key}
        named |= {"--player": self.player, "--other-player": self.other_player}
        if url is None or self.service_key is None or self.player is None or self.other_player is None:
            missing = ", ".join(name for name, value in named.items() if value is None)
            raise ConfigurationError(
                f"There is no {missing}. Pass the wallet's address, the service's private key and two players who "
                "have money; or --plan, which sends nothing."
            )
        if self.player == self.other_player:
            raise ConfigurationError("--player and --other-player are the same. Pass two players, each with money.")
        return url, self.service_key, self.player, self.other_player


@dataclass(frozen=True, kw_only=True)
class ScenarioOptions:
    """What is played."""

    only: Annotated[
        list[str] | None,
        _what(metavar="A,B05", callback=comma_separated, help="Groups or ids to play, and no others."),
    ] = None
    skip: Annotated[
        list[str] | None, _what(metavar="A,B05", callback=comma_separated, help="Groups or ids to leave out.")
    ] = None
    profile: ProfileFile = None
    timeout: Annotated[float, _what(min=0.01, help="Seconds for one request.")] = 5.0
    deadline: Annotated[float, _what(min=1, help="Seconds for the whole run; what is left by then failed.")] = 600.0
    plan: Annotated[bool, _what("--plan", help="List what would be played, and send nothing.")] = False


@dataclass(frozen=True, kw_only=True)
class SupplyOptions:
    """What some scenarios need beside two players and a key."""

    hook: Annotated[
        list[str] | None,
        _more(
            metavar="NAME=COMMAND",
            help="A command that does something to the wallet: block, unblock, open_account, fail, recover, restart, "
            "distrust, trust, later, stored_cents; {player}, {cents}, {amount} and {days} stand for its arguments.",
        ),
    ] = None
    second_url: Annotated[
        str | None, _more(metavar="URL", help="Another process of the wallet, on the same database.")
    ] = None
    old_key: Annotated[Path | None, _more(metavar="FILE", help="A private key that the wallet still accepts.")] = None
    retired_key: Annotated[Path | None, _more(metavar="FILE", help="One that it no longer accepts.")] = None
    foreign_instance: Annotated[str | None, _more(metavar="ID", help="An instance of another operator's.")] = None
    elsewhere: Annotated[
        str | None,
        _more(
            metavar="ADDRESS",
            help="An address of this machine that the wallet must not answer, such as 127.0.0.2.",
        ),
    ] = None
    random_operations: Annotated[
        int | None, _more(min=1, metavar="N", help="How many random operations are tried.")
    ] = None

    def supplies(self) -> "Supplies":
        """
        Return what the scenarios are supplied with.

        Raises:
            ConfigurationError: A hook cannot work, or a key cannot be read.
        """
        from game_operator.certify.engine.supplies import Supplies
        from game_operator.cli.hooks import hooks_of

        return Supplies(
            **hooks_of(self.hook or ()),
            second_url=self.second_url,
            old_key=None if self.old_key is None else key_in("--old-key", self.old_key),
            retired_key=None if self.retired_key is None else key_in("--retired-key", self.retired_key),
            foreign_instance_id=self.foreign_instance,
            elsewhere=self.elsewhere,
            random_operations=self.random_operations,
        )


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """What is done when all is played."""

    clean_up: Annotated[
        str | None,
        _reports(
            metavar="LEDGER_URL",
            help="The wallet's ledger, if it is one of ours: the anomalies that this run leaves there are resolved.",
        ),
    ] = None
    table_prefix: Annotated[
        str, _reports(metavar="TEXT", help="With --clean-up: how the names of its tables begin.")
    ] = PREFIX
    json_file: Annotated[Path | None, _reports(metavar="FILE", help="Write the report as JSON.")] = None
    junit: Annotated[Path | None, _reports(metavar="FILE", help="Write it as JUnit XML, for CI systems.")] = None
    html: Annotated[Path | None, _reports(metavar="FILE", help="Write it as one page of HTML.")] = None
    with_signatures: Annotated[
        bool,
        _reports(
            "--with-signatures",
            help="Keep signatures in the reports. A reader can send such calls to wallets that trust the key.",
        ),
    ] = False

    @property
    def files(self) -> dict[str, Path]:
        """Where reports are written, by the option that asks for each."""
        files = {"--json-file": self.json_file, "--junit": self.junit, "--html": self.html}
        return {option: path for option, path in files.items() if path is not None}

    def check_files(self, *sources: Path | None) -> None:
        """Raise ConfigurationError if a report cannot be written, or would take the place of one of *sources*."""
        taken = {source.absolute() for source in sources if source is not None}
        for option, path in self.files.items():
            if path.absolute() in taken:
                raise ConfigurationError(f"{option} {shown(str(path))} would overwrite another file of this run.")
            taken.add(path.absolute())
            if not path.parent.is_dir():
                raise ConfigurationError(f"{option}: there is no folder {shown(str(path.parent))}. Make it first.")
            # As root, a device could be replaced. Not Path.exists(), which raises for a name that is too long.
            if os.path.lexists(path) and not os.path.isfile(path):  # noqa: PTH113
                raise ConfigurationError(
                    f"{option} {shown(str(path))} is not a file. Pass a file that may be overwritten."
                )
            if option == "--html" and find_spec("jinja2") is None:
                raise ConfigurationError(
                    "--html needs the package jinja2. Install the extra: pip install 'game-operator[certify]'"
                )

    def write(self, report: "Report") -> dict[str, Path]:
        """Write *report*, and return the files that could be written; of others it is said why not."""
        written = {}
        for option, path in self.files.items():
            if option == "--junit":
                from game_operator.certify.report.as_junit import junit

                text = junit(report)
            elif option == "--html":
                from game_operator.certify.report.as_html import html

                text = html(report)
            else:
                from game_operator.certify.report.as_json import document

                text = json.dumps(document(report), indent=2) + "\n"
            if is_written(path, text, "report"):
                written[option] = path
        return written


@without_frames
def key_in(option: str, file: Path) -> "LocalSigner":
    """Return the service's private key in *file*; an encrypted one is opened by the environment's passphrase."""
    from game_operator.provider.keys import loaded

    try:
        return loaded(file, passphrase=os.environ.get(PASSPHRASE) if is_encrypted(file) else None)
    except SigningKeyError as wrong:
        raise SigningKeyError(f"{option}: {wrong.what}", remedy=wrong.remedy) from None
