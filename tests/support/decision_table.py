"""
The table of repeats and order, as decide really answers: every state of a bet, every call, the same and otherwise.

``python -m tests.support.decision_table`` writes it into docs/decisions/0014-repeats-and-order.md and into the
docstring of decide.py; a test holds both equal to what is generated.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from game_operator.codes import BetState
from game_operator.ledger.api import Account, BetRecord, Outcome, Terms
from game_operator.ledger.rules.book import Book
from game_operator.models.webhooks import DepositCall, MovingCall, RollbackCall, WithdrawCall
from game_operator.profile import Profile
from tests.support.calls import deposit, rollback, withdraw
from tests.support.documents import ROOT

NOTE = ROOT / "docs" / "decisions" / "0014-repeats-and-order.md"
DECIDE = ROOT / "src" / "game_operator" / "ledger" / "rules" / "decide.py"

OPENING_CENTS = 10_000
#: More than the player has.
TOO_MUCH_CENTS = 20_000


class State(NamedTuple):
    """A bet b1 that is where the calls have brought it."""

    name: str
    calls: tuple[MovingCall, ...] = ()
    #: What its withdraw was, or would be.
    first: WithdrawCall = withdraw()
    #: What a repair has settled it by.
    repair: DepositCall | RollbackCall | None = None


_RAIN = withdraw(action="RAIN", tx_id="withdraw:bet:b1")
_DECLINED = withdraw(amount_cents=TOO_MUCH_CENTS)
STATES = (
    State("unseen"),
    State("OPEN", (withdraw(),)),
    State("SPENT", (_RAIN,), _RAIN),
    State("CLOSED", (withdraw(), deposit())),
    State("CLOSED, by us", (withdraw(),), repair=deposit()),
    State("ROLLED_BACK", (withdraw(), rollback())),
    State("ROLLED_BACK, by us", (withdraw(),), repair=rollback()),
    State("TOMBSTONE", (rollback(),)),
    State("DECLINED", (_DECLINED,), _DECLINED),
)

_Variant = Callable[[State], MovingCall]


def _withdraw(state: State, **changed: Any) -> MovingCall:
    call = state.first
    told = {name: getattr(call, name) for name in ("player_id", "bet_id", "amount_cents", "tx_id", "action")}
    return withdraw(**(told | changed))


#: For each operation its variants, by what is said of them.
VARIANTS: Mapping[str, Mapping[str, _Variant]] = {
    "withdraw": {
        "the same": _withdraw,
        "its tx_id, other content": lambda state: _withdraw(state, amount_cents=state.first.amount_cents + 1),
        "other tx_id": lambda state: _withdraw(state, tx_id="other"),
        "unknown player": lambda state: _withdraw(state, player_id="nobody", tx_id="other"),
    },
    "deposit": {
        "the same, or the first": lambda state: deposit(),
        "other tx_id and amount": lambda state: deposit(tx_id="other", amount_cents=1),
        "other player": lambda state: deposit(player_id="p2", tx_id="other"),
        "unknown player": lambda state: deposit(player_id="nobody", tx_id="other"),
    },
    "rollback": {
        "its withdraw's tx_id": lambda state: rollback(),
        "other tx_id": lambda state: rollback(tx_id="other"),
        "other player": lambda state: rollback(player_id="p2", tx_id=None),
        "unknown player": lambda state: rollback(player_id="nobody", tx_id="other"),
    },
}


class Effect(NamedTuple):
    """
    What a call did: its answer, what moved, the bet's state before and after, what was kept, and what is owed.

    Whether this very call moved something, and whether it is a known one, it tells as well.
    """

    code: str | None
    delta_cents: int
    before: BetState | None
    after: BetState | None
    anomaly: str
    owed_cents: int | None = None
    applied: bool = False
    replayed: bool = False


def book_in(state: State, rules: Profile | None = None) -> Book:
    """Return a book of the players p1 and p2, in which the bet b1 is in *state*."""
    book = Book()
    book.accounts = {key: Account(key, OPENING_CENTS) for key in ("p1", "p2")}
    for call in state.calls:
        book.apply(call, Terms(rules=rules or Profile()), clock_millis=1_000)
    if state.repair is not None:
        book.settle(state.repair, Terms(), settled_by="reconcile", clock_millis=1_000)
    return book


def effect_of(book: Book, call: MovingCall, rules: Profile | None = None) -> Effect:
    """Apply *call* to *book* and return what it did."""
    before, money, findings = _state_of(book.bets), _money_in(book), len(book.changes.findings)
    outcome: Outcome = book.apply(call, Terms(rules=rules or Profile()), clock_millis=2_000)
    owed_cents = next((found.owed_cents for found in book.changes.findings[findings:]), None)
    delta_cents, after = _money_in(book) - money, _state_of(book.bets)
    did = (outcome.applied, outcome.replayed)
    return Effect(outcome.code, delta_cents, before, after, outcome.anomaly, owed_cents, *did)


def _state_of(bets: Mapping[str, BetRecord]) -> BetState | None:
    return bets["b1"].state if "b1" in bets else None


def _money_in(book: Book) -> int:
    return sum(account.balance_cents for account in book.accounts.values())


def cells(operation: str) -> list[list[str]]:
    """Return the table of *operation*: a line of headings, and one for each state of the bet."""
    variants = VARIANTS[operation]
    lines = [["bet", *variants]]
    lines += [[state.name, *(_cell(state, variant(state)) for variant in variants.values())] for state in STATES]
    return lines


def _cell(state: State, call: MovingCall) -> str:
    effect = effect_of(book_in(state), call)
    lenient = Profile(unknown_rollback="success")
    other = effect_of(book_in(state, lenient), call, lenient)
    assert other.code == effect.code or not other.anomaly, "the legend says otherwise"
    movement = {-1: "debit", 0: "", 1: "refund" if call.operation == "rollback" else "credit"}
    moved = movement[(effect.delta_cents > 0) - (effect.delta_cents < 0)]
    answer = (effect.code or moved or "SUCCESS") + ("*" if other.code != effect.code else "")
    became = f": {effect.after}" if effect.after is not None and effect.after != effect.before else ""
    assert effect.owed_cents is None or effect.anomaly, "the legend says otherwise"
    return f"{answer}{became}{' !' if effect.anomaly else ''}{'$' if effect.owed_cents is not None else ''}"


_LEGEND = """\
What moves money is answered SUCCESS; a colon stands before the bet's new state. ! is kept as an anomaly.
* is SUCCESS with unknown_rollback="success", and then no anomaly. "By us" is settled by a repair, and $ leaves a
finding of what is owed."""


def _ascii() -> str:
    """Return the tables for the docstring, whose lines are short: without the unknown player."""
    parts = []
    for operation in VARIANTS:
        lines = [line[:-1] for line in cells(operation)]
        parts.append(f"{operation}\n{aligned(lines)}")
    return "\n\n".join([*parts, _LEGEND])


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Return a table in text, whose first line has the headings."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = ["-" * width for width in widths]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in (lines[0], rule, *lines[1:]))


def _markdown() -> str:
    """Return the tables for the note: without the unknown player, and states with the same answers in one row."""
    parts = []
    for operation in VARIANTS:
        head, *lines = (line[:-1] for line in cells(operation))
        states: dict[tuple[str, ...], list[str]] = {}
        for state, *answers in lines:
            states.setdefault(tuple(answers), []).append(state)
        rows = (["; ".join(names), *answers] for answers, names in states.items())
        parts.append("\n".join(map(_row, ([operation, *head[1:]], ["---"] * len(head), *rows))))
    return "\n\n".join([*parts, _LEGEND.replace("*", "\\*")])


def _row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(text.replace('*', chr(92) + '*') for text in texts)} |"


def written_note(text: str) -> str:
    """Return the note with its tables as generated."""
    between = re.compile(r"(<!-- table -->\n).*?(<!-- end of table -->)", re.DOTALL)
    assert between.search(text), "the note has lost its markers"
    return between.sub(lambda found: f"{found[1]}\n{_markdown()}\n\n{found[2]}", text)


def written_decide(text: str) -> str:
    """Return decide.py with the tables in its docstring as generated."""
    between = re.compile(r"(4\. The table:\n\n::\n\n).*?(\n5\. )", re.DOTALL)
    assert between.search(text), "the docstring has lost its table"
    indented = "".join(f"    {line}".rstrip() + "\n" for line in _ascii().splitlines())
    return between.sub(lambda found: found[1] + indented + found[2], text)


def _write(file: Path, written: Callable[[str], str]) -> None:
    file.write_text(written(file.read_text()))


if __name__ == "__main__":
    _write(DECIDE, written_decide)
    _write(NOTE, written_note)
