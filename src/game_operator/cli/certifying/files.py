"""The files in which a certification is left: JSON, JUnit and HTML."""

import json
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Final

from game_operator.certify.report.report import Report
from game_operator.cli.files import write_privately
from game_operator.cli.output import say
from game_operator.errors import ConfigurationError

__all__ = ["REPORTS", "check_extra", "write_reports"]


def _as_json(report: Report) -> str:
    from game_operator.certify.report.as_json import document

    return json.dumps(document(report), indent=2) + "\n"


def _as_junit(report: Report) -> str:
    from game_operator.certify.report.as_junit import junit

    return junit(report)


def _as_html(report: Report) -> str:
    from game_operator.certify.report.as_html import html

    return html(report)


#: By the option that asks for it.
REPORTS: Final[Mapping[str, Callable[[Report], str]]] = MappingProxyType(
    {"--json-file": _as_json, "--junit": _as_junit, "--html": _as_html}
)
_PACKAGES: Final = {"--junit": "junitparser", "--html": "jinja2"}


def check_extra(files: Mapping[str, Path]) -> None:
    """Raise ConfigurationError now, and not when all is played, if what writes a report is not installed."""
    for option in files:
        package = _PACKAGES.get(option)
        if package is not None and find_spec(package) is None:
            raise ConfigurationError(
                f"{option} needs the package {package}. Install the extra: pip install 'game-operator[certify]'"
            )


def write_reports(report: Report, files: Mapping[str, Path]) -> dict[str, Path]:
    """Write *report* to *files*, and return those that could be written; of others it is said why not."""
    return {option: path for option, path in files.items() if _is_written(path, REPORTS[option](report))}


def _is_written(path: Path, text: str) -> bool:
    try:
        write_privately(path, text)
    except (OSError, ValueError) as failed:
        problem = getattr(failed, "strerror", None) or failed
        say(f"The report could not be written to {path}: {problem}.", style="red", error=True)
        return False
    return True
