"""How a reconciliation looks: for people as tables, for programs as JSON with amounts in whole cents."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from game_operator.cli.output import answer, counted, say, show_details, show_rows, when
from game_operator.money import amount_from_cents

if TYPE_CHECKING:
    from game_operator.backoffice import ReconcileReport
    from game_operator.backoffice.journal.records import Run
    from game_operator.ledger.staff.findings import Finding

_HEADINGS: Final = ("ID", "Kind", "Bet", "Player", "At stake", "Owed", "Seen", "First seen (UTC)", "What")
_KINDS: Final = ("Kind", "Findings", "At stake", "First ids", "What to do")
_NUMBERS: Final = frozenset({"ID", "At stake", "Owed", "Seen", "Bets", "Findings"})
_HOW_TO_GO_ON: Final = "`game-operator reconcile run --seconds 60` goes on with it, and `reconcile stop` ends it."


def show_report(report: "ReconcileReport") -> None:
    """Show what a run has found."""
    answer(report.document())
    run = report.run
    about = f"Run {run.id} is {run.state}" + (f": {run.why}" if run.why else "")
    say(f"{about}. It {'repairs' if run.options.get('repair') else 'is dry: it moves no money'}.")
    rows = [
        (name.replace("_", " ") or "not judged yet", tally.bets, amount_from_cents(tally.total_cents))
        for name, tally in report.verdicts.items()
    ]
    if rows:
        show_rows("Verdicts", ("Verdict", "Bets", "At stake"), rows, numbers=_NUMBERS)
    else:
        say("No bet is due: OPEN bets are looked up when they are older than --min-age.")
    show_kinds(report.findings)
    if report.other_findings:
        others = counted(report.other_findings, "more open finding")
        say(f"From late calls and earlier runs: {others}. `game-operator reconcile findings` lists all.")
    if report.repaired.bets:
        say(f"Settled: {_sum(*report.repaired)}.", style="green")
    if report.open.bets:
        _show_open(report)
    if report.is_fine and report.is_whole:
        say("Nothing waits for a person.", style="green")
    say("Lost claims of free bets and jackpots cannot be looked up, so they are not among these.")


def _sum(bets: int, cents: int) -> str:
    return f"{counted(bets, 'bet')}, {amount_from_cents(cents)} in all"


def _show_open(report: "ReconcileReport") -> None:
    say(f"Can be settled: {_sum(*report.open)}.", style="yellow")
    before, run = report.settled_before, report.run
    if report.brakes_left is not None:
        bets, cents = report.brakes_left
        say(f"The brakes let through {counted(bets, 'more bet')} and {amount_from_cents(cents)} more.")
    if before.bets:
        say(f"{run.actor} has settled before, in the last 20 hours: {_sum(*before)}. The brakes count it too.")
    if not run.is_under_way:
        bets, cents = (
            report.open.bets + run.moved_count + before.bets,
            report.open.total_cents + run.moved_cents + before.total_cents,
        )
        most = f"--max-bets {bets} --max-total {amount_from_cents(cents)}"
        say(f"To settle them: game-operator reconcile run --repair {most} --actor NAME --reason TEXT")
        say("Pass the same --min-age, --wallet and --accounts-… as in this run.")
    if report.brakes_left is None:
        say("The brakes count what the same person has settled in the last 20 hours, too.")


def show_kinds(found: "Sequence[Finding]") -> None:
    """Show findings by their kinds, with the first ids, and what to do about each kind."""
    from game_operator.backoffice.reconcile.advice import advices
    from game_operator.backoffice.reconcile.report import by_kind

    rows = []
    for each in by_kind(found):
        ids = ", ".join(map(str, each.first_ids)) + (", …" if each.findings > len(each.first_ids) else "")
        todo = advices()[each.kind].todo if each.kind in advices() else ""
        rows.append((each.kind.replace("_", " "), each.findings, amount_from_cents(each.at_stake_cents), ids, todo))
    if rows:
        show_rows("Findings by kind; amounts in currency units", _KINDS, rows, numbers=_NUMBERS)


def show_findings(found: "Sequence[Finding]") -> None:
    """Show findings one by one."""
    if found:
        show_rows("Findings; amounts in currency units", _HEADINGS, map(_row, found), numbers=_NUMBERS)


def _row(found: "Finding") -> tuple[object, ...]:
    detail = found.detail
    if found.resolved_at_millis is not None:
        paid = "" if found.paid_cents is None else f" Paid: {amount_from_cents(found.paid_cents)}."
        detail += f"{paid} Resolved by {found.resolved_by}: {found.resolution}"
    owed = "–" if found.owed_cents is None else amount_from_cents(found.owed_cents)
    player = "–" if found.player_id is None else found.player_id
    stake, first = amount_from_cents(found.at_stake_cents), when(found.first_at_millis)
    return (found.id, found.kind.replace("_", " "), found.subject, player, stake, owed, found.seen, first, detail)


def show_status(report: "ReconcileReport", parts: tuple[int, int]) -> None:
    """Show where the latest run stands."""
    run = report.run
    answer(report.document() | {"parts_done": parts[0], "parts": parts[1]})
    ended = [("ended (UTC)", when(run.ended_at_millis))] if run.ended_at_millis is not None else []
    who = [("who", run.actor), ("why", run.reason)] if run.actor is not None else []
    facts: list[tuple[str, object]] = [
        ("run", run.id),
        ("state", run.state + (f": {run.why}" if run.why else "")),
        ("kind", "repairs" if run.options.get("repair") else "dry"),
        ("service", run.service),
        ("source", run.source or "–"),
        *who,
        ("began (UTC)", when(run.began_at_millis)),
        ("last sign of life (UTC)", when(run.touched_at_millis)),
        *ended,
        ("parts done", f"{parts[0]} of {parts[1]}, each of up to 25 bets"),
        ("verdicts", ", ".join(_verdicts(report)) or "no bet was due"),
        (
            "open findings",
            f"{len(report.findings)} of this run, {report.other_findings} of late calls and earlier runs",
        ),
    ]
    show_details(facts)
    if run.is_under_way:
        say(how_to_go_on(run))


def _verdicts(report: "ReconcileReport") -> Iterator[str]:
    for name, tally in report.verdicts.items():
        yield f"{name.replace('_', ' ') or 'not judged yet'} {tally.bets}"


def how_to_go_on(run: "Run") -> str:
    """Return the sentence that says how a run goes on."""
    if not run.options.get("repair"):
        return _HOW_TO_GO_ON
    return f"{_HOW_TO_GO_ON} It repairs for a day from its beginning, by the brakes that it began with."
