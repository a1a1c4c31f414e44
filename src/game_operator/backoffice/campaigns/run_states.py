"""
The steps of a campaign's run in the journal, beside those that all runs have.

A campaign that is planned is paused until somebody runs it. All chunks but the first are held back until the first one,
the canary, is granted.
"""

import json
from typing import Final

from game_operator.backoffice.journal.journal import MOST_FAILURES, Journal
from game_operator.backoffice.journal.records import Run
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.engine.tables import sql_texts
from game_operator.ledger.office import Office
from game_operator.ledger.staff.findings import Finding
from game_operator.ledger.steps import Execute, Steps

#: Why a campaign is paused that was never run.
PLANNED: Final = "planned"
#: Chunks are held back to these times: until the canary is granted; and until somebody resumes.
BEHIND_CANARY: Final = 2**62
PARKED: Final = 2**61


def sql_of(dialect: SqlDialect) -> dict[str, str]:
    """Return the statements of campaign.sql."""
    return sql_texts(
        __package__,
        "campaign.sql",
        prefix=dialect.prefix,
        finding_columns=", ".join(Finding._fields),
    )


def set_planned(journal: Journal, run: Run, grants: int) -> bool:
    """Say that all *grants* of a run are there; return False if it is not so, or was said before."""

    def script(dialect: SqlDialect) -> Steps[bool]:
        now = yield from journal.now_script(dialect)
        return bool((yield Execute(sql_of(dialect)["planned"], (PLANNED, now, run.id, run.id, grants))))

    return Office(journal.ledger).write(script)


def go_on(journal: Journal, run: Run, interval_micros: int, *, again: bool) -> bool:
    """
    Let a run go on at a rate; return False if it has ended meanwhile.

    With *again*, what was given up is tried again.
    """

    def script(dialect: SqlDialect) -> Steps[bool]:
        sql, now = sql_of(dialect), (yield from journal.now_script(dialect))
        parameters = json.dumps(run.options | {"interval_micros": interval_micros}, sort_keys=True)
        if not (yield Execute(sql["go_on"], (now, interval_micros, parameters, run.id))):
            return False
        if again:
            yield Execute(sql["let_go"], (run.id, PARKED))
        return True

    return Office(journal.ledger).write(script)


def stop(journal: Journal, run_id: int, why: str) -> None:
    """Pause a run that is running, or say another reason for its pause."""

    def script(dialect: SqlDialect) -> Steps[None]:
        yield Execute(sql_of(dialect)["stop"], (why, run_id))

    Office(journal.ledger).write(script)


def pause_script(journal: Journal, dialect: SqlDialect, run_id: int, why: str) -> Steps[None]:
    """Pause a run that is running."""
    now = yield from journal.now_script(dialect)
    yield Execute(sql_of(dialect)["pause"], (why, now, run_id))


def explain_script(dialect: SqlDialect, run_id: int, last: str) -> Steps[None]:
    """Say why the last call failed, if it has just paused the run."""
    yield Execute(sql_of(dialect)["explain"], (last, run_id, MOST_FAILURES))


def open_gate_script(dialect: SqlDialect, run_id: int) -> Steps[None]:
    """Let all chunks be taken that waited for the canary."""
    yield Execute(sql_of(dialect)["let_go"], (run_id, BEHIND_CANARY))
