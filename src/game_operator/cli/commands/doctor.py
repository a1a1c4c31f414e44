"""``game-operator doctor``: what is wrong with the set-up, and what to do about each finding."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from game_operator.cli.database import PREFIX, BalancesOptions, TablePrefix, address_of
from game_operator.cli.errors import ExitCode
from game_operator.cli.options import ServiceOptions
from game_operator.cli.output import answer, waiting
from game_operator.cli.reports.doctor import show_check
from game_operator.errors import ConfigurationError

if TYPE_CHECKING:
    from game_operator.cli.setup_checks import Check


@dataclass(frozen=True, kw_only=True)
class _DoctorsServiceOptions(ServiceOptions):
    """The same, with less time for a call."""

    deadline: float = 10.0


def doctor(
    *,
    public_key: Path | None = None,
    service: _DoctorsServiceOptions,
    upgrade: bool = False,
    database: str | None = None,
    table_prefix: TablePrefix = PREFIX,
    balances: BalancesOptions,
) -> int:
    """
    Check settings, key pair, reachability, clock and a signed call, and say what to do about each finding.

    What rests on an assumption, because the specification is silent, is marked as assumed. With --upgrade: what this
    version would refuse in an installation that runs, to be read before the first new process is started.
    """
    if upgrade:
        from game_operator.cli.setup_checks import Check
        from game_operator.ledger.doctor.upgrade import upgrade_examination

        found = upgrade_examination(address_of(database), table_prefix, balances.accounts())
        checks: Iterator[Check] = (Check(*each) for each in found)
    elif database is not None or table_prefix != PREFIX or balances.are_given:
        raise ConfigurationError("--database, --table-prefix and --accounts-… are for doctor --upgrade.")
    else:
        from game_operator.cli.setup_checks import examination
        from game_operator.transport.settings import checked_seconds

        checked_seconds("deadline", service.deadline)
        checks = examination(service.environment(service.base_url), public_key, service.deadline)
    return _report(checks)


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
