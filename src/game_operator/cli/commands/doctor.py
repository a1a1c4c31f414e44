"""``game-operator doctor`` and ``game-operator ledger doctor``: what is wrong, and what to do about each finding."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from game_operator.cli.database import LedgerOptions, address_of, check_file
from game_operator.cli.errors import ExitCode
from game_operator.cli.options import ServiceOptions, checked_values
from game_operator.cli.output import answer, counted, explained_at, say, show_check, waiting

if TYPE_CHECKING:
    from game_operator.cli.setup_checks import Check
    from game_operator.ledger.doctor.examined import DoctorCheck


@dataclass(frozen=True, kw_only=True)
class _DoctorsServiceOptions(ServiceOptions):
    """The same, with less time for a call."""

    deadline: float = 10.0


#: The version of the ledger doctor's document; a field that is added leaves it as it is.
_SCHEMA: Final = 1
_EXIT_CODES: Final = {"unreachable": ExitCode.UNREACHABLE, "problem": ExitCode.SAID_NO}


def doctor(*, public_key: Path | None = None, url: str | None = None, service: _DoctorsServiceOptions) -> int:
    """
    Check settings, key pair, a signed call and the clock, and say what to do about each finding.

    What rests on an assumption, because the specification is silent, is marked as assumed. With --url, do nothing but
    ask the server of a deployed wallet for an upgrade, which must not harm the next call.
    """
    from game_operator.cli.setup_checks import examination, upgrade
    from game_operator.client.settings import base_url_of
    from game_operator.protocol.exchange import checked_seconds

    checked_seconds("deadline", service.deadline)
    if url is None:
        examined = examination(service.environment(service.base_url), public_key, service.deadline)
    else:
        wallet = base_url_of(url, allow_insecure_http=True, name="--url", example="https://casino.example/wallet")
        examined = (upgrade(each, service.deadline) for each in [wallet])
    checks = list(_shown(examined))
    verdict = max((_EXIT_CODES.get(check.outcome, ExitCode.FINE) for check in checks), default=ExitCode.FINE)
    answer({"ok": verdict is ExitCode.FINE, "checks": [asdict(check) for check in checks]})
    return verdict


def _shown(examined: "Iterator[Check]") -> "Iterator[Check]":
    """Yield the checks; each is shown as soon as it is done."""
    while True:
        with waiting("Examining …"):
            check = next(examined, None)
        if check is None:
            return
        show_check(check.outcome, check.name, check.found, to_do=check.todo, assumed=check.assumed)
        yield check


def ledger_doctor(*, place: LedgerOptions) -> int:
    """
    Look for what could lose or double money here: settings, rights, disks, clocks, and what nobody has looked at.

    It only reads, while calls go on, and SELECT is enough: what this user may not see is said. The exit code is 1 with
    findings; advice leaves it 0.
    """
    from game_operator.ledger.doctor.examination import doctor_report

    address = address_of(place.database)
    check_file(address, "Check the path. (`game-operator ledger open` makes a new ledger.)")
    with waiting("Examining …"), checked_values():
        report = doctor_report(address, place.table_prefix)
    for check in report.checks:
        page = _explained(check)
        see = f"the documentation, {page}" if page else ""
        show_check(check.verdict, check.name, check.found, why=check.why, to_do=check.todo, see=see)
    recommendations = counted(sum(check.verdict == "advice" for check in report.checks), "recommendation")
    say(f"{counted(len(report.checks), 'check')}: {counted(len(report.findings), 'finding')}, {recommendations}.")
    checks = [check._asdict() | {"see": _explained(check)} for check in report.checks]
    answer({"schema": _SCHEMA, "ok": report.sound, "checks": checks})
    return ExitCode.FINE if report.sound else ExitCode.SAID_NO


def _explained(check: "DoctorCheck") -> str:
    return explained_at("doctor", check.name) if check.verdict in ("finding", "advice") else ""
