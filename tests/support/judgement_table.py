"""
The table of verdicts, as judge really answers: every state of a bet beside every answer of the provider.

``python -m tests.support.judgement_table`` writes it into the docstring of judge.py; a test holds both equal.
"""

import re
from collections.abc import Iterator
from typing import Any

from game_operator.backoffice.reconcile import judge as module
from game_operator.backoffice.reconcile.evidence import Evidence
from game_operator.backoffice.reconcile.judge import DAY_MILLIS, Judgement, Limits, Ours, Verdict, judge
from game_operator.codes import BetState
from game_operator.ledger.api import BetRecord
from game_operator.models import BetNotFound, ClosedBet, OpenBet, RolledBackBet
from game_operator.protocol.operations import AnyBet
from tests.support.decision_table import aligned
from tests.support.documents import ROOT

JUDGE = ROOT / "src" / "game_operator" / "backoffice" / "reconcile" / "judge.py"
NOW = 1_800_000_000_000
HOUR = 3_600_000
WAGER, WON, MAX_WIN = 500, 1_250, 100_000
STATES: tuple[BetState | None, ...] = (
    *(BetState.OPEN, BetState.SPENT, BetState.CLOSED, BetState.ROLLED_BACK, BetState.TOMBSTONE, BetState.DECLINED),
    None,
)
THERE = ("OPEN", "CLOSED", "ROLLED_BACK", "NOT_FOUND")
#: What else a cell may say, and which note says when.
_NOTES = {
    Verdict.NEARS_THE_END: "¹",
    Verdict.WAIT: "²",
    Verdict.CLAIMED: "²",
    Verdict.WIN_TOO_HIGH: "²",
    Verdict.LIMIT_UNKNOWN: "²",
    Verdict.TOO_OLD: "³",
    Verdict.AMOUNT_DIFFERS: "⁴",
}


def bet(state: BetState | None, age_millis: int = 3 * HOUR, **changes: Any) -> BetRecord | None:
    """Return our bet b1 in a state, or None."""
    if state is None:
        return None
    is_known = state is not BetState.TOMBSTONE
    values: dict[str, Any] = {
        "bet_id": "b1",
        "player_id": "p1",
        "account": "p1",
        "instance_id": "i1" if is_known else None,
        "game": "g1" if is_known else None,
        "round_id": "r1" if is_known else None,
        "wager_cents": WAGER if is_known else 0,
        "won_cents": WON if state is BetState.CLOSED else None,
        "state": state,
        "opened_at_millis": NOW - age_millis,
    }
    return BetRecord(**(values | changes))


def answer(status: str, **changes: Any) -> AnyBet:
    """Return the provider's answer about b1."""
    if status == "NOT_FOUND":
        return BetNotFound()
    values: dict[str, Any] = {
        "reference_id": "b1",
        "player_id": "p1",
        "round_id": "r1",
        "instance_id": "i1",
        "game": "g1",
        "wager": WAGER,
        "timestamp": NOW - 3 * HOUR,
    }
    values |= changes
    if status == "CLOSED":
        return ClosedBet(**({"won": WON} | values))
    return OpenBet(**values) if status == "OPEN" else RolledBackBet(**values)


def judged(ours: Ours, there: AnyBet | None, *, max_win: int | None = MAX_WIN, **evidence: Any) -> Judgement:
    """Judge, with a least age of two hours."""
    return judge(ours, Evidence("b1", there, b"{}", **evidence), Limits(NOW, 2 * HOUR, max_win))


def _others(state: BetState | None, there: str) -> Iterator[Verdict]:
    """Yield the verdicts of the same state and answer where something else is otherwise."""
    for age in (HOUR, 81 * DAY_MILLIS, 89 * DAY_MILLIS + 1):
        yield judged(Ours(bet(state, age)), answer(there)).verdict
    yield judged(Ours(bet(state), claim="claim"), answer(there)).verdict
    yield judged(Ours(bet(state)), answer(there), max_win=None).verdict
    if there == "CLOSED":
        yield from (judged(Ours(bet(state)), answer(there, won=cents)).verdict for cents in (0, 1, MAX_WIN + 1))
    if state is None:
        yield judged(Ours(None), answer(there, timestamp=NOW - HOUR)).verdict
    # One of these is what is due.
    for cents in (WAGER - WON, WON - WAGER, WAGER, WON):
        yield judged(Ours(bet(state), paid_cents=cents), answer(there)).verdict


def _cell(state: BetState | None, there: str) -> str:
    # A SPENT bet wins nothing.
    true = answer(there, won=0) if there == "CLOSED" and state is BetState.SPENT else answer(there)
    verdict = judged(Ours(bet(state)), true).verdict
    marks: set[str] = set()
    for other in _others(state, there):
        if other is Verdict.AGREES and verdict is not Verdict.AGREES:
            marks.add("⁵" if state is None else "⁶")
        elif other is not verdict:
            marks.add(_NOTES[other])
    return f"{verdict.replace('_', ' ')} {''.join(sorted(marks))}".strip()


def table() -> str:
    """Return the table as the docstring has it."""
    lines = [["ours", *(f"{there} there" for there in THERE)]]
    lines += [[state.value if state else "none", *(_cell(state, there) for there in THERE)] for state in STATES]
    return aligned(lines)


def written(text: str) -> str:
    """Return judge.py with the table in its docstring as generated."""
    between = re.compile(r"(\n::\n\n).*?(\n    ¹ )", re.DOTALL)
    assert between.search(text), "the docstring has lost its table"
    indented = "".join(f"    {line}\n" for line in table().splitlines())
    return between.sub(lambda found: found[1] + indented + found[2], text, count=1)


if __name__ == "__main__":
    assert module.__file__ == str(JUDGE), "another project's judge"
    JUDGE.write_text(written(JUDGE.read_text()))
