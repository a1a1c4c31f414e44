"""
Checks the books: whether balances, postings, calls and bets agree.

The database works everything out from one snapshot, and each question goes over whole tables at once. What is wrong
comes back as findings, and is not raised: that books cannot be trusted is an answer.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from game_operator.codes import BetState
from game_operator.errors import shown
from game_operator.ledger.accounts.choice import is_marked
from game_operator.ledger.books.totals import day_text
from game_operator.ledger.engine.script import Execute, Rows, Script
from game_operator.ledger.engine.tables import POSTING_ACCOUNT, POSTING_DELTA, sql_texts, toml_texts
from game_operator.money import amount_from_cents

#: The statements sum amounts in two halves: SQLite stops at a sum beyond 63 bits, which two large balances reach.
_HALF = 1_000_000_000


class Finding(NamedTuple):
    """
    Something in the books that is wrong, or worth a look.

    Attributes:
        kind: What it is, such as ``balance_differs``; docs/ledger.md lists them.
        detail: The same for a person, with the amounts in currency units.
        account, source, bet_id, operation, tx_id: Where it is, as far as that applies.
    """

    kind: str
    detail: str
    account: str | None = None
    source: str | None = None
    bet_id: str | None = None
    operation: str | None = None
    tx_id: str | None = None


class BooksReport(NamedTuple):
    """
    What ``verify`` found, all from one moment.

    Attributes:
        findings: What is wrong; at most 1,000 of each question.
        notes: What is right and worth knowing: accounts below zero, and whether balances are elsewhere, not compared.
        accounts, calls, postings: How many there are.
        bets: How many there are by state.
        balances_cents: What all players of our own accounts hold.
        house_cents: What all postings together left with the house: minus what they brought to players.
        pruned_before_millis: Postings before this were folded, or None if none ever were.
    """

    findings: tuple[Finding, ...]
    notes: tuple[Finding, ...]
    accounts: int
    calls: int
    postings: int
    bets: dict[str, int]
    balances_cents: int
    house_cents: int
    pruned_before_millis: int | None

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


def books_report(prefix: str, most: int = 1_000) -> Script[BooksReport]:
    """Check the tables with *prefix*: ask every question, and keep at most *most* answers to each."""
    account, delta = POSTING_ACCOUNT.format(""), POSTING_DELTA.format("")
    questions = sql_texts(__package__, "verify.sql", prefix=prefix, account=account, delta=delta)

    def ask(name: str, *limits: int) -> Script[Rows]:
        rows: Rows = yield Execute(questions[name], limits)
        return rows

    pruned_before = (yield from ask("pruned_before"))[0][0]
    findings = [finding for row in (yield from ask("accounts", most)) for finding in _of_account(row)]
    for name in ("movements", "bets", "calls", "payments", "times"):
        rows = yield from ask(name, *((pruned_before or 0, most) if name == "movements" else (most,)))
        findings += (_finding(name, row) for row in rows)
    # What was folded into one posting is the sum of the calls whose postings are gone. As all other postings are as
    # their calls would have them, the sums of all calls and of all postings show it.
    if pruned_before is None:
        carried = [_finding("any_carried", row) for row in (yield from ask("any_carried", most))]
    else:
        carried = [_carried(row) for row in (yield from ask("carried", most))]
    # If other postings of an account are wrong, what was folded of it cannot be known.
    wrong = {finding.account for finding in findings if finding.operation is not None}
    findings += (finding for finding in carried if finding.account not in wrong)
    if not wrong:  # Else calls and postings differ, and so would totals.
        findings += (_totals(row) for row in (yield from ask("totals", most)))
    notes: list[Finding] = []
    if (yield from is_marked(prefix)):
        detail = "The balances are in the operator's own table, and are not compared with the postings."
        notes.append(Finding("balances_elsewhere", detail))
    for account, cents in (yield from ask("negative", most)):
        notes.append(Finding("negative_balance", f"The account {shown(account)} holds {_amount(cents)}.", account))
    ((accounts, *balances),) = yield from ask("total_accounts")
    ((calls,),) = yield from ask("total_calls")
    ((postings, *brought),) = yield from ask("total_postings")
    bets = {state: int(number) for state, number in (yield from ask("total_bets"))}
    return BooksReport(
        tuple(findings),
        tuple(notes),
        int(accounts),
        int(calls),
        int(postings),
        {state.value: bets[state.value] for state in BetState if state.value in bets},
        balances_cents=_whole(*balances),
        house_cents=-_whole(*brought),
        pruned_before_millis=pruned_before,
    )


def _whole(high: Any, low: Any) -> int:
    # PostgreSQL sums to a numeric, which arrives as a Decimal; sums of no rows are NULL.
    return int(high or 0) * _HALF + int(low or 0)


def _amount(cents: int) -> str:
    return str(amount_from_cents(cents))


def _finding(question: str, row: Sequence[Any]) -> Finding:
    """Return the finding in an answer to *question*, as verify.toml describes it."""
    texts = toml_texts(__package__, "verify.toml")[question]
    found: dict[str, Any] = dict(zip(texts["columns"], row, strict=True))
    words = {name: shown(found.get(name)) for name in ("account", "bet_id", "other")}
    words |= {name: _amount(int(value)) for name, value in found.items() if name.endswith("_cents")}
    words["call"] = f"{found.get('operation')} {shown(found.get('tx_id'))}"
    detail = texts[found["kind"]].format(**found | words)
    return Finding(found["kind"], detail, *(found.get(name) for name in Finding._fields[2:]))


def _of_account(row: Sequence[Any]) -> list[Finding]:
    account, known, owned, high, low, posted_at, moved_at = row
    if not known:
        return [Finding("no_account", f"Postings of {shown(account)}, of which there is no account.", account)]
    difference = _whole(high, low)
    found = []
    if owned and difference:
        detail = f"The balance of {shown(account)} is {_amount(abs(difference))} {_side(difference)} its postings."
        found.append(Finding("balance_differs", detail, account))
    if posted_at is not None and posted_at > moved_at:
        detail = f"The account {shown(account)} was moved at {posted_at}, and says {moved_at}."
        found.append(Finding("account_too_early", detail, account))
    return found


def _side(difference: int) -> str:
    return "above" if difference > 0 else "below"


def _carried(row: Sequence[Any]) -> Finding:
    account, high, low = row
    difference = _whole(high, low)
    detail = (
        f"What was folded for {shown(account)} is {_amount(abs(difference))} {_side(-difference)} the sum of the calls "
        "whose postings are gone."
    )
    return Finding("carried_differs", detail, account)


def _totals(row: Sequence[Any]) -> Finding:
    day, side, high, low = row
    difference = _whole(high, low)
    detail = (
        f"The totals of {day_text(int(day))}, which is closed, differ by {_amount(abs(difference))} from what calls "
        f"moved {side} players' accounts."
    )
    return Finding("totals_differ", detail)
