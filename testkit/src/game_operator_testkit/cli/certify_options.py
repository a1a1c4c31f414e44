"""The options of ``game-operator certify`` in groups, and what they stand for: keys, headers, hooks, report files."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from game_operator.cli.files import check_writable, is_written
from game_operator.cli.options import ProfileFile, comma_separated
from game_operator.errors import ConfigurationError, SigningKeyError, shown, without_frames
from game_operator.profile import Profile
from game_operator.signers.environment import environment_passphrase

if TYPE_CHECKING:
    from game_operator.signers.keys import LocalSigner
    from game_operator_testkit.certifier.engine.supplies import Supplies
    from game_operator_testkit.certifier.report.comparison import Baseline, Comparison
    from game_operator_testkit.certifier.report.report import Report

_LARGEST_KEY: Final = 65_536
_HEADER: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:[ \t]*([ -~\t\x80-\xff]*)")
#: A run sets these by itself, or its scenarios do.
_OWN: Final = frozenset({"connection", "content-encoding", "content-length", "content-type", "transfer-encoding"})

#: How the files of reports end.
_ENDINGS: Final = {"--json-file": ".json", "--junit": ".xml", "--html": ".html"}
#: Groups or ids of scenarios.
_Scenarios = Annotated[list[str] | None, typer.Option(callback=comma_separated)]


@dataclass(frozen=True, kw_only=True)
class RouteOptions:
    """How a wallet is reached."""

    header: list[str] | None = None
    allow_insecure_http: bool = False
    moves_money: bool = False

    def headers(self, profile: Profile) -> list[tuple[str, str]]:
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


@dataclass(frozen=True, kw_only=True)
class WalletOptions:
    """The wallet's key and its players."""

    service_private_key: Path
    player: str
    other_player: str
    instance: str | None = None
    game: str | None = None


@dataclass(frozen=True, kw_only=True)
class ScenarioOptions:
    """What is played."""

    only: _Scenarios = None
    skip: _Scenarios = None
    profile: ProfileFile = None
    timeout: Annotated[float, typer.Option(min=0.01)] = 5.0
    deadline: Annotated[float, typer.Option(min=1)] = 600.0


@dataclass(frozen=True, kw_only=True)
class SupplyOptions:
    """What some scenarios need beside two players and a key."""

    hook: list[str] | None = None
    second_url: str | None = None
    old_key: Path | None = None
    retired_key: Path | None = None
    foreign_instance: str | None = None
    elsewhere: str | None = None
    random_operations: Annotated[int | None, typer.Option(min=0)] = None

    def supplies(self) -> "Supplies":
        """
        Return what the scenarios are supplied with.

        Raises:
            ConfigurationError: A hook cannot work, or a key cannot be read.
        """
        from game_operator_testkit.certifier.engine.supplies import Supplies
        from game_operator_testkit.cli.hooks import hooks_of

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

    json_file: Path | None = None
    junit: Path | None = None
    html: Path | None = None
    baseline: Path | None = None

    @property
    def files(self) -> dict[str, Path]:
        """Where reports are written, by the option that asks for each."""
        files = {"--json-file": self.json_file, "--junit": self.junit, "--html": self.html}
        return {option: path for option, path in files.items() if path is not None}

    def check_files(self, *sources: Path | None) -> None:
        """Raise ConfigurationError if a report cannot be written, or would overwrite one of *sources* or another."""
        taken = {source.resolve() for source in (*sources, self.baseline) if source is not None}
        for option, path in self.files.items():
            if path.resolve() in taken:
                raise ConfigurationError(f"{option} {shown(str(path))} would overwrite another file of this run.")
            taken.add(path.resolve())
            check_writable(option, path, _ENDINGS[option])

    def read_baseline(self) -> "Baseline | None":
        """Return the report that this run is compared with, if there is one."""
        from game_operator_testkit.certifier.report.comparison import read_baseline

        return None if self.baseline is None else read_baseline(self.baseline)

    def write(self, report: "Report", comparison: "Comparison | None") -> dict[str, Path]:
        """Write *report*, and return the files that could be written; of others it is said why not."""
        from game_operator_testkit.certifier.report.as_html import html
        from game_operator_testkit.certifier.report.as_json import written
        from game_operator_testkit.certifier.report.as_junit import junit

        texts: dict[str, Callable[[], str]] = {
            "--json-file": lambda: written(report, comparison),
            "--junit": lambda: junit(report),
            "--html": lambda: html(report, comparison),
        }
        return {option: path for option, path in self.files.items() if is_written(path, texts[option](), "report")}


@without_frames
def key_in(option: str, file: Path) -> "LocalSigner":
    """Return the service's private key in *file*; an encrypted one is opened by the environment's passphrase."""
    from game_operator_testkit.provider.keys import loaded

    try:
        return loaded(file, passphrase=environment_passphrase() if _is_encrypted(file) else None)
    except SigningKeyError as wrong:
        raise SigningKeyError(f"{option}: {wrong.what}", remedy=wrong.remedy) from None


def _is_encrypted(file: Path) -> bool:
    """Return whether the PEM in *file* is encrypted; False for what is not a file or unreadable."""
    try:
        if not file.is_file():  # A pipe can be read once.
            return False
        with file.open("rb") as opened:
            return b"ENCRYPTED" in opened.read(_LARGEST_KEY)
    except (OSError, ValueError):
        return False  # Loading the key will say what is wrong with the file.
