"""``game-operator doctor``: what is wrong with the set-up, and what to do about each finding."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from game_operator.cli.errors import ExitCode
from game_operator.cli.options import ServiceOptions
from game_operator.cli.output import answer, waiting
from game_operator.cli.reports.doctor import show_check

if TYPE_CHECKING:
    from game_operator.cli.setup_checks import Check


@dataclass(frozen=True, kw_only=True)
class _DoctorsServiceOptions(ServiceOptions):
    """The same, with less time for a call."""

    deadline: float = 10.0


_SETTINGS: Final = (
    "GAME_OPERATOR_BASE_URL", "GAME_OPERATOR_ID", "GAME_OPERATOR_PRIVATE_KEY", "GAME_OPERATOR_PRIVATE_KEY_FILE"
)  # fmt: skip


def doctor(*, public_key: Path | None = None, url: str | None = None, service: _DoctorsServiceOptions) -> int:
    """
    Check settings, key pair, reachability, clock and a signed call, and say what to do about each finding.

    What rests on an assumption, because the specification is silent, is marked as assumed. With --url, also ask the
    server of a deployed wallet for an upgrade, which must not harm the next call; without any setting, ask that alone.
    """
    from game_operator.cli.setup_checks import examination
    from game_operator.cli.wallet_checks import upgrade
    from game_operator.client.settings import base_url_of, checked_seconds

    checked_seconds("deadline", service.deadline)
    environ = service.environment(service.base_url)
    examined = examination(environ, public_key, service.deadline)
    if url is not None:
        if public_key is None and not any(map(environ.get, _SETTINGS)):
            examined = iter(())
        wallet = base_url_of(url, allow_insecure_http=True, name="--url", example="https://casino.example/wallet")
        examined = chain(examined, (upgrade(each, service.deadline) for each in [wallet]))
    return _report(examined)


def _report(examined: "Iterator[Check]") -> ExitCode:
    checks: list[Check] = []
    while True:
        with waiting("Examining …"):
            check = next(examined, None)
        if check is None:
            break
        checks.append(check)
        show_check(check.outcome, check.name, check.found, todo=check.todo, assumed=check.assumed)
    codes = {"unreachable": ExitCode.UNREACHABLE, "problem": ExitCode.SAID_NO}
    verdict = max((codes.get(check.outcome, ExitCode.FINE) for check in checks), default=ExitCode.FINE)
    answer({"ok": verdict is ExitCode.FINE, "checks": [asdict(check) for check in checks]})
    return verdict
