"""``game-operator ledger doctor``: what could lose or double money in a ledger's place."""

from typing import Annotated

import typer

from game_operator.cli.database import LedgerOptions, address_of, check_file
from game_operator.cli.errors import ExitCode
from game_operator.cli.output import answer, counted, say, waiting
from game_operator.cli.reports.doctor import show_check

#: The version of the document; a field that is added leaves it as it is.
_SCHEMA = 1


def doctor(
    *,
    full: bool = False,
    expected_sources: Annotated[list[str] | None, typer.Option("--expect-source")] = None,
    expected_prefixes: Annotated[list[str] | None, typer.Option("--expect-prefix")] = None,
    place: LedgerOptions,
) -> int:
    """
    Look for what could lose or double money here: settings, rights, disks, clocks, and what nobody has looked at.

    It only reads, while calls go on, and SELECT is enough: what this user may not see is said. The exit code is 1 with
    findings; advice leaves it 0.
    """
    from game_operator.ledger.doctor.examination import doctor_report

    address = address_of(place.database)
    check_file(address, "Check the path. (`game-operator ledger open` makes a new ledger.)")
    with waiting("Examining …"):
        try:
            report = doctor_report(
                address, place.table_prefix, sources=expected_sources, prefixes=expected_prefixes, full=full
            )
        except ValueError as wrong:
            raise typer.BadParameter(f"{wrong}.") from None
    checks = [check._asdict() for check in report.checks]
    answer({"schema": _SCHEMA, "ok": report.sound, "checks": checks})
    for check in report.checks:
        show_check(check.verdict, check.name, check.found, todo=check.todo, why=check.why)
    findings = counted(len(report.findings), "finding")
    recommendations = counted(sum(check.verdict == "advice" for check in report.checks), "recommendation")
    say(f"{counted(len(checks), 'check')}: {findings}, {recommendations}.")
    return ExitCode.FINE if report.sound else ExitCode.SAID_NO
