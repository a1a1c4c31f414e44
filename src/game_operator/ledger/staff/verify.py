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
from game_operator.ledger.engine.script import Execute, Rows, Script
from game_operator.ledger.engine.tables import POSTING_ACCOUNT, POSTING_DELTA
from game_operator.money import amount_from_cents

#: Amounts are summed in two halves: SQLite stops at a sum beyond 63 bits, which two large balances reach.
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

    def ask(name: str, *limits: int) -> Script[Rows]:
        rows: Rows = yield Execute(_QUESTIONS[name].replace("{prefix}", prefix), limits)
        return rows

    pruned_before = (yield from ask("pruned_before"))[0][0]
    findings: list[Finding] = []
    for name, findings_of in _FINDINGS_OF.items():
        rows = yield from ask(name, *((pruned_before or 0, most) if name == "movements" else (most,)))
        findings += (finding for row in rows for finding in findings_of(row))
    # What was folded into one posting is the sum of the calls whose postings are gone. As all other postings are as
    # their calls would have them, the sums of all calls and of all postings show it.
    name, carried_of = ("any_carried", _carried_unasked) if pruned_before is None else ("carried", _carried)
    carried = map(carried_of, (yield from ask(name, most)))
    # If other postings of an account are wrong, what was folded of it cannot be known.
    wrong = {finding.account for finding in findings if finding.operation is not None}
    findings += (finding for finding in carried if finding.account not in wrong)
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


def _of_movement(row: Sequence[Any]) -> list[Finding]:
    source, operation, tx_id, called, posted, expected, actual, first, last = row
    where = {"account": first, "source": source, "operation": operation, "tx_id": tx_id}
    name = f"{operation} {shown(tx_id)}"
    if not called:
        return [Finding("posting_without_call", f"A posting of {name}, and no such call.", **where)]
    if posted > 1:
        return [Finding("posted_twice", f"The {name} has {posted} postings.", **where)]
    if first != last:
        return [Finding("wrong_account", f"The {name} belongs to {shown(first)} and {shown(last)}.", **where)]
    if not posted:
        detail = f"The {name} should have moved {_amount(int(expected))}, and has no posting."
        return [Finding("call_without_posting", detail, **where)]
    detail = f"The {name} should have moved {_amount(int(expected))}, and moved {_amount(int(actual))}."
    return [Finding("wrong_posting", detail, **where)]


def _of_bet(row: Sequence[Any]) -> list[Finding]:
    source, bet_id, account, state, fault = row
    return [Finding(fault, f"The bet {shown(bet_id)} is {state}: {_BET_FAULTS[fault]}.", account, source, bet_id)]


def _of_call(row: Sequence[Any]) -> list[Finding]:
    source, operation, tx_id, bet_id, account, state, fault = row
    detail = _CALL_FAULTS[fault].format(call=f"{operation} {shown(tx_id)}", bet=shown(bet_id), state=state)
    return [Finding(fault, detail, account, source, bet_id, operation, tx_id)]


def _of_times(row: Sequence[Any]) -> list[Finding]:
    account, number, at_millis, before = row
    detail = f"The posting {number} of {shown(account)} is of {at_millis}, and the one before it of {before}."
    return [Finding("time_goes_back", detail, account)]


def _carried(row: Sequence[Any]) -> Finding:
    account, high, low = row
    difference = _whole(high, low)
    detail = (
        f"What was folded for {shown(account)} is {_amount(abs(difference))} {_side(-difference)} the sum of the calls "
        "whose postings are gone."
    )
    return Finding("carried_differs", detail, account)


def _carried_unasked(row: Sequence[Any]) -> Finding:
    return Finding("carried_unasked", "Postings were folded, and prune never ran.", row[0])


_BET_FAULTS = {
    "withdraw_missing": "its withdraw is not there",
    "withdraw_differs": "its withdraw names another player, account, bet, action or amount",
    "withdraw_was_refused": "its withdraw was refused",
    "withdraw_was_applied": "its withdraw was applied",
    "tombstone_not_held": "no call keeps its withdraw's identity, so that a late withdraw could debit",
    "resolution_missing": "no deposit, rollback or reconciliation has settled it",
    "resolution_differs": "its deposit names another player, account, bet or amount, or was refused",
    "settled_while_open": "it has been settled",
    "settled_twice": "it has been settled more than once",
}

_CALL_FAULTS = {
    "bet_missing": "The {call} names the bet {bet}, which is not there.",
    "second_withdraw": "The {call} is not the withdraw that the bet {bet} knows.",
    "second_deposit": "The {call} was applied, and is not the deposit that the bet {bet} ({state}) knows.",
    "rollback_of_other_state": "The {call} was kept, and the bet {bet} is {state}.",
}

_FINDINGS_OF = {
    "accounts": _of_account,
    "movements": _of_movement,
    "bets": _of_bet,
    "calls": _of_call,
    "times": _of_times,
}

_ACCOUNT, _DELTA = POSTING_ACCOUNT.format(""), POSTING_DELTA.format("")


def _high(cents: str) -> str:
    return f"({cents}) / {_HALF}"


def _low(cents: str) -> str:
    return f"({cents}) - ({cents}) / {_HALF} * {_HALF}"


_IN_HALVES = f"COUNT(*), SUM({_high('{0}')}), SUM({_low('{0}')})"

#: What each call moves by its own account. A reconciliation that settled a bet is a call of the operation reconcile,
#: and the deposit that comes after it moves nothing (docs/decisions/0015).
_MOVEMENTS = f"""
    SELECT c.source, c.operation, c.tx_id, c.account, c.at_millis, 1 AS called, 0 AS posted, 0 AS actual, CASE
        WHEN c.code IS NOT NULL OR c.action = '' THEN 0
        WHEN c.operation = 'withdraw' THEN -c.amount_cents
        WHEN c.operation = 'rollback' THEN CASE WHEN b.state = 'ROLLED_BACK' THEN b.wager_cents ELSE 0 END
        WHEN r.bet_id IS NOT NULL THEN 0
        ELSE c.amount_cents END AS expected
    FROM {{prefix}}calls AS c
    LEFT JOIN {{prefix}}bets AS b ON c.operation = 'rollback' AND b.source = c.source AND b.bet_id = c.bet_id
    LEFT JOIN (SELECT DISTINCT source, bet_id FROM {{prefix}}calls WHERE operation = 'reconcile') AS r
        ON c.operation = 'deposit' AND c.action = 'BET' AND r.source = c.source AND r.bet_id = c.bet_id
    UNION ALL
    SELECT source, operation, tx_id, {_ACCOUNT}, at_millis, 0, 1, {_DELTA}, 0
    FROM {{prefix}}postings WHERE operation <> 'carry'
"""  # noqa: S608 - our own texts

_GROUPED = f"""
    SELECT source, operation, tx_id, SUM(called) AS called, SUM(posted) AS posted, SUM(expected) AS expected,
        SUM(actual) AS actual, MIN(account) AS first, MAX(account) AS last, MAX(at_millis) AS at_millis
    FROM ({_MOVEMENTS}) AS movement GROUP BY tx_id, operation, source
"""  # noqa: S608

_RESOLUTIONS = """
    SELECT source, bet_id, SUM(CASE WHEN operation = 'rollback' THEN 1 ELSE 0 END) AS rollbacks,
        SUM(CASE WHEN operation = 'rollback' AND code IS NULL THEN 1 ELSE 0 END) AS refunds,
        SUM(CASE WHEN operation = 'reconcile' AND code IS NULL THEN 1 ELSE 0 END) AS reconciled
    FROM {prefix}calls WHERE operation IN ('rollback', 'reconcile') AND bet_id IS NOT NULL GROUP BY source, bet_id
"""

_BET_FAULT = """CASE
    WHEN b.state = 'TOMBSTONE' THEN CASE
        WHEN b.withdraw_tx_id IS NOT NULL AND (w.tx_id IS NULL OR w.action <> '' OR w.bet_id <> b.bet_id)
            THEN 'tombstone_not_held'
        WHEN COALESCE(r.rollbacks, 0) = 0 THEN 'resolution_missing' END
    WHEN w.tx_id IS NULL OR w.bet_id IS NULL OR w.action = '' THEN 'withdraw_missing'
    WHEN w.bet_id <> b.bet_id OR w.player_id <> b.player_id OR w.account <> b.account OR w.action <> b.action
        OR w.amount_cents <> b.wager_cents THEN 'withdraw_differs'
    WHEN b.state = 'DECLINED' THEN CASE WHEN w.code IS NULL THEN 'withdraw_was_applied' END
    WHEN w.code IS NOT NULL THEN 'withdraw_was_refused'
    WHEN b.state IN ('OPEN', 'SPENT') THEN CASE
        WHEN b.deposit_tx_id IS NOT NULL OR b.won_cents IS NOT NULL OR b.settled_at_millis IS NOT NULL
            OR r.refunds + r.reconciled > 0 THEN 'settled_while_open' END
    WHEN b.state = 'ROLLED_BACK' THEN CASE
        WHEN b.settled_at_millis IS NULL OR COALESCE(r.refunds + r.reconciled, 0) = 0 THEN 'resolution_missing'
        WHEN r.refunds + r.reconciled > 1 OR b.deposit_tx_id IS NOT NULL OR b.won_cents IS NOT NULL
            THEN 'settled_twice' END
    WHEN b.won_cents IS NULL OR b.settled_at_millis IS NULL
        OR (d.tx_id IS NULL AND (b.deposit_tx_id IS NOT NULL OR COALESCE(r.reconciled, 0) = 0))
        THEN 'resolution_missing'
    WHEN d.code IS NOT NULL OR d.bet_id <> b.bet_id OR d.player_id <> b.player_id OR d.account <> b.account
        OR d.amount_cents <> b.won_cents THEN 'resolution_differs'
    WHEN r.refunds > 0 OR r.reconciled > 1 THEN 'settled_twice'
END"""

#: A claim names a bet and does not touch it. Whether a deposit of an action of the operator's own is a claim, only its
#: bet can tell.
_CALL_FAULT = """CASE
    WHEN c.operation = 'deposit' AND c.action <> 'BET' AND (b.deposit_tx_id IS NULL OR b.deposit_tx_id <> c.tx_id)
        THEN NULL
    WHEN b.bet_id IS NULL THEN 'bet_missing'
    WHEN c.operation = 'withdraw' AND (b.withdraw_tx_id IS NULL OR b.withdraw_tx_id <> c.tx_id) THEN 'second_withdraw'
    WHEN c.operation = 'deposit' AND c.code IS NULL AND (b.deposit_tx_id IS NULL OR b.deposit_tx_id <> c.tx_id)
        THEN 'second_deposit'
    WHEN c.operation = 'rollback' AND b.state NOT IN ('ROLLED_BACK', 'TOMBSTONE') THEN 'rollback_of_other_state'
END"""

_QUESTIONS = {
    "pruned_before": "SELECT MAX(value) FROM {prefix}meta WHERE name = 'pruned_before'",
    "accounts": f"""
        SELECT account, SUM(known), SUM(owned), SUM(high), SUM(low), MAX(posted_at), MAX(moved_at) FROM (
            SELECT account, 1 AS known, 1 AS owned, {_high("balance_cents")} AS high, {_low("balance_cents")} AS low,
                CAST(NULL AS bigint) AS posted_at, at_millis AS moved_at FROM {{prefix}}accounts
            UNION ALL SELECT account, 1, 0, 0, 0, NULL, at_millis FROM {{prefix}}clocks
            UNION ALL SELECT {_ACCOUNT}, 0, 0, {_high(f"-({_DELTA})")}, {_low(f"-({_DELTA})")},
                CASE WHEN corrected.last_id >= id THEN NULL ELSE at_millis END, NULL
            FROM {{prefix}}postings LEFT JOIN (
                SELECT account AS name, MAX(last_posting_id) AS last_id FROM {{prefix}}corrections GROUP BY account
            ) AS corrected ON corrected.name = {_ACCOUNT}
        ) AS side GROUP BY account
        HAVING SUM(known) = 0 OR (SUM(owned) > 0 AND SUM(high) * {_HALF} + SUM(low) <> 0)
            OR MAX(posted_at) > MAX(moved_at)
        LIMIT ?""",  # noqa: S608
    "movements": f"""
        SELECT source, operation, tx_id, called, posted, expected, actual, first, last FROM ({_GROUPED}) AS identity
        WHERE called = 0 OR posted > 1 OR first <> last
            OR (expected <> actual AND NOT (posted = 0 AND at_millis < ?))
        LIMIT ?""",  # noqa: S608
    "bets": f"""
        SELECT source, bet_id, account, state, fault FROM (
            SELECT b.source, b.bet_id, b.account, b.state, {_BET_FAULT} AS fault
            FROM {{prefix}}bets AS b
            LEFT JOIN {{prefix}}calls AS w
                ON w.source = b.source AND w.operation = 'withdraw' AND w.tx_id = b.withdraw_tx_id
            LEFT JOIN {{prefix}}calls AS d
                ON d.source = b.source AND d.operation = 'deposit' AND d.tx_id = b.deposit_tx_id
            LEFT JOIN ({_RESOLUTIONS}) AS r ON r.source = b.source AND r.bet_id = b.bet_id
        ) AS judged WHERE fault IS NOT NULL LIMIT ?""",  # noqa: S608
    "calls": f"""
        SELECT source, operation, tx_id, bet_id, account, state, fault FROM (
            SELECT c.source, c.operation, c.tx_id, c.bet_id, c.account, b.state, {_CALL_FAULT} AS fault
            FROM {{prefix}}calls AS c LEFT JOIN {{prefix}}bets AS b ON b.source = c.source AND b.bet_id = c.bet_id
            WHERE c.operation IN ('withdraw', 'deposit', 'rollback', 'reconcile')
        ) AS judged WHERE fault IS NOT NULL LIMIT ?""",  # noqa: S608
    "times": f"""
        SELECT account, id, at_millis, before FROM (
            SELECT {_ACCOUNT} AS account, id, at_millis,
                LAG(at_millis) OVER (PARTITION BY {_ACCOUNT} ORDER BY id) AS before,
                LAG(id) OVER (PARTITION BY {_ACCOUNT} ORDER BY id) AS before_id
            FROM {{prefix}}postings
        ) AS ordered WHERE before >= at_millis AND NOT EXISTS (
            SELECT 1 FROM {{prefix}}corrections AS kept WHERE kept.account = ordered.account
                AND kept.last_posting_id >= before_id AND kept.last_posting_id < id
        ) LIMIT ?""",  # noqa: S608
    "any_carried": "SELECT tx_id FROM {prefix}postings WHERE operation = 'carry' LIMIT ?",
    "carried": f"""
        SELECT account, SUM(high), SUM(low) FROM (
            SELECT account, {_high("expected - actual")} AS high, {_low("expected - actual")} AS low
            FROM ({_MOVEMENTS}) AS movement
            UNION ALL
            SELECT {_ACCOUNT}, {_high(f"-({_DELTA})")}, {_low(f"-({_DELTA})")}
            FROM {{prefix}}postings WHERE operation = 'carry'
        ) AS side GROUP BY account HAVING SUM(high) * {_HALF} + SUM(low) <> 0 LIMIT ?""",  # noqa: S608
    "negative": "SELECT account, balance_cents FROM {prefix}accounts WHERE balance_cents < 0 ORDER BY account LIMIT ?",
    "total_accounts": f"SELECT {_IN_HALVES.format('balance_cents')} FROM {{prefix}}accounts",  # noqa: S608
    "total_calls": "SELECT COUNT(*) FROM {prefix}calls",
    "total_postings": f"SELECT {_IN_HALVES.format(_DELTA)} FROM {{prefix}}postings",  # noqa: S608
    "total_bets": "SELECT state, COUNT(*) FROM {prefix}bets GROUP BY state",
}
