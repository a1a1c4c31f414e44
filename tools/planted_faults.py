"""
Plant faults in a copy of the package, one at a time, and see whether the tests notice (docs/maintainers/mutation.md).

    python tools/planted_faults.py [MODULE …]

Modules are express, plain_calls, verify, whole_books, prune, slices, maintain, dialects, tables, sqlite and
operations; all without a name.

Most of what these modules do stands in SQL, in conditions that a tool for mutations of Python cannot change. Each fault
names the text that it replaces, which must stand in the module exactly once: when the code moves on, so must the fault.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
_PACKAGE = Path("src") / "game_operator"


class Module(NamedTuple):
    """A module with its SQL, the tests that must notice, and the faults: what is replaced, by what."""

    file: str
    tests: Sequence[str]
    faults: Sequence[tuple[str, str]]


_CONTRACT = "tests/ledger/test_contract.py"
#: Without the long random histories: what they alone would find is not pinned by anything.
_SHORT = "not async and not g04 and not c09"

_SQLITE_TESTS = (
    "-k",
    f"sqlite and {_SHORT}",
    _CONTRACT,
    "tests/reliability/test_sqlite_trouble.py",
    "tests/reliability/test_sqlite_forks.py",
    "tests/reliability/test_sqlite_neighbours.py",
    "tests/ledger/test_schema.py",
    "tests/ledger/test_lending.py",
    "tests/ledger/test_within.py",
    "tests/ledger/test_prune.py",
)

MODULES = {
    "express": Module(
        "ledger/postgres/express.py",
        ("-k", f"postgres and {_SHORT} or test_express", "tests/ledger/test_express.py", _CONTRACT),
        (
            ("bet.bet_id = able.bet_id AND bet.source = able.source\n", "bet.bet_id = able.bet_id\n"),
            ("known.operation = item.operation AND known.source = $2", "known.operation = item.operation"),
            ("WHERE known.tx_id = item.tx_id AND known.operation = item.operation", "WHERE known.tx_id = item.tx_id"),
            ("seen.bet_id = able.bet_id AND seen.source = $2", "seen.bet_id = able.bet_id"),
            ("known.operation = 'withdraw' AND known.source = $2", "known.operation = 'withdraw'"),
            ("seen.bet_id = $6 AND seen.source = $2", "seen.bet_id = $6"),
            ("AND bet.state = able.state AND", "AND"),
            ("AND bet.player_id = able.account AND", "AND"),
            ("AND bet.account = able.account\n", "\n"),
            ("OVER (PARTITION BY account) >= 0 AS can_pay", "OVER (PARTITION BY account) >= -1 AS can_pay"),
            ("kept.balance_cents >= CAST(CAST($7 AS text) AS bigint)", "kept.balance_cents >= {cents} - 1"),
            ("sum(least(delta_cents, 0))", "sum(delta_cents)"),
            ("ORDER BY account FOR UPDATE\n", "ORDER BY account\n"),
            ("WHERE account = $3 AND {may_write} FOR UPDATE", "WHERE account = $3 AND {may_write}"),
            ("greatest(clock, at_millis + 1) + row_number()", "greatest(clock, at_millis) + row_number()"),
            ("greatest({clock}, kept.at_millis + 1)", "greatest({clock}, kept.at_millis)"),
            ("max(at_millis) AS at_millis", "min(at_millis) AS at_millis"),
            ("coalesce(able.round_id, bet.round_id)", "able.round_id"),
            ("won_cents = able.amount_cents", "won_cents = bet.amount_cents"),
            ("deposit_tx_id = able.tx_id", "deposit_tx_id = able.bet_id"),
            ("call.action in terms.rules.spent_actions else BetState.OPEN", "False else BetState.OPEN"),
            ("if call.body else None", "if call.body and state is BetState.OPEN else None"),
            ("or row[5] in bets or", "or"),
            (" or (row[1], row[3]) in identities:", ":"),
            ("terms.may_bet is not None or ", ""),
            ("terms.account_of is not None or ", ""),
            (" or terms.within is not None", ""),
            ("not call.is_claim and ", ""),
            (" and call.won_cents in (None, call.amount_cents)", ""),
            ("if isinstance(call, WithdrawCall) and call.amount_cents:", "if isinstance(call, WithdrawCall):"),
        ),
    ),
    "plain_calls": Module(
        "ledger/plain_calls.py",
        ("tests/ledger/test_plain_calls.py",),
        (
            ("terms.may_bet is not None or ", ""),
            ("terms.account_of is not None or ", ""),
            (" or terms.within is not None", ""),
            ("is WithdrawCall and call.amount_cents:", "is WithdrawCall:"),
            ("not call.is_claim and ", ""),
            (" and call.won_cents in (None, call.amount_cents)", ""),
            ("WHERE source = ? AND bet_id", "WHERE ? <> '-' AND bet_id"),
            ("if call.player_id not in self._accounts:", "if False:"),
            ("bet_id in self._bets or ", ""),
            ("self._accounts[player_id][0] < cents:", "self._accounts[player_id][0] <= cents:"),
            ("self._accounts[player_id][0] < cents:", "self._accounts[player_id][0] < cents - 1:"),
            ("        self._bets[bet_id] = _TAKEN\n        state", "        state"),
            ("call.action in terms.rules.spent_actions else", "False else"),
            ("if call.body else None", "if True else None"),
            ("if state != _OPEN or", "if"),
            ("owners != [player_id, player_id]", "owners[0] != player_id"),
            ("owners != [player_id, player_id]", "owners[1] != player_id"),
            ("+ cents > MAX_BALANCE_CENTS", "+ cents > MAX_BALANCE_CENTS + 1"),
            ("+ cents > MAX_BALANCE_CENTS", "+ cents >= MAX_BALANCE_CENTS"),
            ("        self._bets[bet_id] = _TAKEN\n        outcome", "        outcome"),
            ("call.round_id or round_id", "call.round_id"),
            ("max(self._clock_millis, before_millis + 1)", "max(self._clock_millis, before_millis)"),
            ("max(self._clock_millis, before_millis + 1)", "before_millis + 1"),
            ("self._was.setdefault(account, before_cents)", "self._was[account] = before_cents"),
            ("        if delta_cents:\n", "        if True:\n"),
            ("if delta_cents < 0 else", "if delta_cents > 0 else"),
            (
                "scripts = iter((partial(self._plain_first, items),))",
                "scripts = iter([partial(self._plain_first, items)] * 99)",
            ),
            ("digest, self._source, currency, None)", "digest, self._source, None, None)"),
            ("call.game, currency, None))", "call.game, None, None))"),
        ),
    ),
    "verify": Module(
        "ledger/books/verify.py",
        (
            *("-k", "not postgres"),
            *("tests/ledger/test_verify.py", "tests/ledger/test_maintain.py", "tests/ledger/test_prune.py"),
            *("tests/ledger/test_totals.py", "tests/ledger/test_clock_errors.py", "tests/ledger/test_whole_books.py"),
        ),
        (
            ("(w.tx_id IS NULL OR w.action <> '' OR w.bet_id <> b.bet_id)", "(w.tx_id IS NULL)"),
            ("WHEN COALESCE(r.rollbacks, 0) = 0 THEN 'resolution_missing' END", "END"),
            ("w.tx_id IS NULL OR w.bet_id IS NULL OR w.action = ''", "w.tx_id IS NULL"),
            (" OR w.player_id <> b.player_id", ""),
            (" OR w.account <> b.account", ""),
            (" OR w.action <> b.action\n", "\n"),
            ("\n        OR w.amount_cents <> b.wager_cents", ""),
            ("WHEN b.state = 'DECLINED' THEN CASE WHEN w.code IS NULL THEN 'withdraw_was_applied' END\n", ""),
            ("    WHEN w.code IS NOT NULL THEN 'withdraw_was_refused'\n", ""),
            ("OR r.refunds + r.reconciled > 0 THEN 'settled_while_open'", "THEN 'settled_while_open'"),
            ("WHEN r.refunds + r.reconciled > 1 OR b.deposit_tx_id", "WHEN b.deposit_tx_id"),
            (" > 1 OR b.deposit_tx_id IS NOT NULL OR b.won_cents IS NOT NULL", " > 1"),
            ("WHEN r.refunds > 0 OR r.reconciled > 1 THEN", "WHEN r.reconciled > 1 THEN"),
            ("WHEN d.code IS NOT NULL OR d.bet_id", "WHEN d.bet_id"),
            (" OR d.player_id <> b.player_id", ""),
            (" OR d.account <> b.account", ""),
            ("\n        OR d.amount_cents <> b.won_cents", ""),
            ("WHEN b.bet_id IS NULL THEN 'bet_missing'\n", ""),
            (
                "AND (b.withdraw_tx_id IS NULL OR b.withdraw_tx_id <> c.tx_id) THEN 'second_withdraw'",
                "AND 1 = 0 THEN ''",
            ),
            ("c.code IS NULL AND (b.deposit_tx_id IS NULL OR b", "c.code IS NULL AND (b"),
            ("NOT IN ('ROLLED_BACK', 'TOMBSTONE')", "NOT IN ('ROLLED_BACK', 'TOMBSTONE', 'CLOSED')"),
            ("WHEN c.code IS NOT NULL OR c.action = '' THEN 0", "WHEN c.action = '' THEN 0"),
            ("c.amount_cents > 0 AND {is_reconciled} THEN 0", "1 = 0 THEN 0"),
            ("WHEN c.tx_id IS NULL THEN 'posting_without_call'\n        ", ""),
            ("WHEN (p.at_millis <> c.at_millis OR {account_of_p} <> c.account)", "WHEN ({account_of_p} <> c.account)"),
            ("WHEN (p.at_millis <> c.at_millis OR {account_of_p} <> c.account)", "WHEN (p.at_millis <> c.at_millis)"),
            ("        WHEN {account_of_p} <> c.account THEN 'wrong_account'\n", ""),
            ("AND q.id <> p.id AND q.source = p.source", "AND 1 = 0 AND q.source = p.source"),
            ("WHEN {delta_of_p} <> {expected} THEN 'wrong_posting'", "WHEN {delta_of_p} = -{expected} THEN ''"),
            ("AS c WHERE expected <> 0 AND {is_not_posted}", "AS c WHERE expected = 0 AND {is_not_posted}"),
            (" AND NOT EXISTS ({moved_elsewhere})", ""),
            ("WHERE name = 'pruned_before'), c.at_millis)", "WHERE name = ''), c.at_millis)"),
            ("account = moved.account)\nGROUP BY", "account = '')\nGROUP BY"),
            ("account = moved.account) LIMIT", "account = '') LIMIT"),
            ("CASE WHEN before >= posted_at", "CASE WHEN before > posted_at"),
            ("CASE WHEN corrected_id >= id THEN NULL ELSE posted_at END", "posted_at"),
            ("kept.last_posting_id >= before_id AND kept.last_posting_id < id", "kept.last_posting_id < id"),
            ("kept.last_posting_id >= before_id AND kept", "kept.last_posting_id > before_id AND kept"),
            ("news.id > COALESCE(s.last_id, 0)", "news.id >= COALESCE(s.last_id, 0)"),
            ("corrected_id IS NOT NULL THEN 0 ELSE", "corrected_id IS NOT NULL THEN s.at_millis ELSE"),
            (
                "FROM held JOIN {prefix}carried AS k ON k.account = held.account",
                "FROM held JOIN {prefix}carried AS k ON 1 = 0",
            ),
            ("if posted_at is not None and posted_at > moved_at:", "if False:"),
            ("if owned and difference:", "if difference:"),
            ("if owned and difference:", "if owned and difference > 0:"),
            ("sums[-1][0] if len(sums) == most else None", "None"),
            ("            position = last\n", "            return\n"),
            ("            if not count:\n", "            if count < _POSTINGS:\n"),
            ("        if at_millis is not None:\n", "        if False:\n"),
            ("        yield from self.touched(read, since)\n", ""),
            ("        for each in damaged:\n            yield from self.slice(read, each)\n", ""),
            ("end, none_folded=day in whole)", "end)"),
            ("            yield from self.times(read, day * DAY_MILLIS, end", "            dict(a=end"),
            (
                "{prefix}bets AS b\nWHERE b.source IN (SELECT name FROM {prefix}sources)",
                "{prefix}sources AS s CROSS JOIN {prefix}bets AS b\nWHERE b.source = s.name",
            ),
            ("AND c.code IS NULL AND c.bet_id IS NOT NULL\n", "AND c.bet_id IS NOT NULL\n"),
            ("IN ('withdraw', 'deposit') AND c.action = 'BET' AND c.code", "IN ('withdraw', 'deposit') AND c.code"),
            ("NOT ({is_ordinary})", "1 = 0"),
            ("b.action = 'BET' AND b.settled_by IS NULL", "b.settled_by IS NULL"),
            (" AND b.settled_by IS NULL AND", " AND"),
            (" AND b.withdraw_tx_id IS NOT NULL AND (\n", " AND (\n"),
            (" AND b.won_cents IS NULL AND b.settled_at_millis IS NULL\n", " AND b.settled_at_millis IS NULL\n"),
            (" AND b.won_cents IS NULL AND b.settled_at_millis IS NULL\n", " AND b.won_cents IS NULL\n"),
            ("b.state = 'OPEN' AND b.deposit_tx_id IS NULL AND", "b.state = 'OPEN' AND"),
            ("        AND b.settled_at_millis IS NOT NULL AND b.settled", "        AND b.settled"),
            ("b.state = 'CLOSED' AND b.deposit_tx_id IS NOT NULL AND", "b.state = 'CLOSED' AND"),
            ("        AND operation IN ('rollback', 'reconcile') AND {is_of_bet}\n) = 0", ") >= 0"),
            ("action = 'BET' AND state NOT IN ('TOMBSTONE', 'DECLINED')\n", "action = 'BET'\n"),
            ("action = 'BET' AND state NOT IN", "state NOT IN"),
            ("corrections AS k WHERE k.account = page.account", "corrections AS k WHERE 1 = 0"),
            ("        if any(row[-1] for row in sums):\n", "        if False:\n"),
        ),
    ),
    "whole_books": Module(
        "ledger/books/whole_books.py",
        (
            *("-k", "not postgres"),
            *("tests/ledger/test_verify.py", "tests/ledger/test_whole_books.py", "tests/ledger/test_prune.py"),
            *("tests/ledger/test_totals.py", "tests/ledger/test_clock_errors.py"),
        ),
        (
            ("everything = full or marks.checkpoint_millis is None", "everything = full"),
            ("everything = full or marks.checkpoint_millis is None", "everything = True"),
            ("{tx_id}\\0{account}\\0{bet_id}\\0{player_id}\\0{cents}", "{tx_id}"),
            (
                "            if expected:\n                moved[hour]",
                "            if False:\n                moved[hour]",
            ),
            ("\\0{at_millis}\\0{expected}", ""),
            ('                f"withdraw\\0{source}', '                f"w\\0{source}'),
            ("settled_at is not None and settled_at < until:", "settled_at is not None:"),
            ("            if deposit is not None and", "            if False and"),
            ("(taken_from, -cents)", "(taken_from, cents)"),
            ("return {hour for hour, total in self._of_bets.items() if total}", "return set()"),
            ("if self._by_calls[hour] != self._by_postings[hour]}", "if False}"),
            ("if hour >= last_folded or hour in self._by_postings}", "if hour in self._by_postings}"),
            ("if hour >= last_folded or hour in self._by_postings}", "if hour >= last_folded}"),
            ("if newest is None else newest + 1", "if True else newest + 1"),
            ("max(self._folded_before, -FAR if", "max(-FAR, -FAR if"),
            ("                self._found.sealed_otherwise(each, detail)\n", ""),
            ("            if len(slices) < _SLICES:\n", "            if True:\n"),
            ("            position = bounds[1]\n", "            return\n"),
            ("        self._found.strangers(strangers)\n        if not rows:", "        if not rows:"),
            ("self._found.postings += len(rows)", "pass"),
            ("is_new = max(times) >= self._until", "is_new = True"),
            ("        if min(times) < self._settled_before:\n", "        if False:\n"),
            ("if row[1] < self._settled_before)", ")"),
            ("        if is_settled:\n", "        if False:\n"),
            ("        folded.add((account, whole(*halves)) for account, *halves in not_posted)\n", ""),
            ("-FAR if newest is None else newest - _HOUR_MILLIS)", "FAR)"),
            ("            self._found.faults(question, rows)\n", "            pass\n"),
            ("            if row[9]:\n", "            if False:\n"),
            ("            if page.is_new or not of_postings", "            if not of_postings"),
            ("yield from again.postings_within(self._read, page.bounds, 0)", "()"),
            ("yield from again.times(self._read, start, min(start + _HOUR_MILLIS, self._until))", "()"),
            ("        self._found.also(again)\n", ""),
            ("            yield from self._found.times(self._read, self._until, FAR)\n", ""),
            ("            yield from self._found.all_accounts(self._read, sealed=None)\n", ""),
            ("        yield from self._found.unpaid(self._read, -FAR)\n", ""),
            (".folds != self._marks.folds:", ".folds < 0:"),
            ('            self._found.forget("carried")\n', ""),
            ("elif difference and account not in wrong:", "elif difference:"),
            ("        for account, cents in folded.left():\n", "        for account, cents in ():\n"),
            ("rows[-1][0] if len(rows) == _CARRIED else None", "None"),
            ("if any(finding.operation is not None for finding in self._found.findings):", "if self._found.findings:"),
            ("if since_day <= day < before_day and", "if since_day <= day <= before_day and"),
            ("                if not difference:\n", "                if difference:\n"),
        ),
    ),
    "prune": Module(
        "ledger/books/prune.py",
        ("-k", "not postgres", "tests/ledger/test_prune.py"),
        (
            (
                "at_millis >= ? AND at_millis < ?\n    AND EXISTS (",
                "at_millis >= ? AND at_millis <= ?\n    AND EXISTS (",
            ),
            ("            AND (b.state IS NULL OR b.state <> 'OPEN')\n", ""),
            ("(b.state IS NULL OR b.state <> 'OPEN')", "b.state <> 'OPEN'"),
            ("c.tx_id = {prefix}postings.tx_id", "1 = 1"),
            ("last, latest = max((last, latest), (number, at_millis))", "last, latest = number, at_millis"),
            ("total + cents", "cents"),
            ('            yield Execute(self._sql["unlock"], [(0,)], many=True)\n', ""),
            ("if not found or found[0][0] or known", "if not found or known"),
            ("or known.last_id > (yield from last_close(self._prefix)).position:", "or False:"),
            ("min(start + DAY_MILLIS, self._before)", "start + DAY_MILLIS"),
            ("min(start + DAY_MILLIS, self._before)", "self._before"),
            (
                '                yield Execute(self._sql["leave"], [(*left, *known[:2])], many=True)\n',
                "                pass\n",
            ),
            ('                yield Execute(self._sql["forget"], [known[:2]], many=True)\n', "                pass\n"),
            ('            yield Execute(self._sql["count_fold"], ())\n', ""),
            (
                '("lower_position", "lower_mark", "lower_checkpoints", "lower_carried")',
                '("lower_mark", "lower_checkpoints", "lower_carried")',
            ),
            (
                '("lower_position", "lower_mark", "lower_checkpoints", "lower_carried")',
                '("lower_position", "lower_checkpoints", "lower_carried")',
            ),
            (
                '("lower_position", "lower_mark", "lower_checkpoints", "lower_carried")',
                '("lower_position", "lower_mark", "lower_carried")',
            ),
            (', "lower_carried")', ")"),
            ("if highest < position:", "if False:"),
            ("if not slices or slices[0].day >= self.before_day:", "if not slices:"),
            ("AND last_id > 0 AND day <= ?", "AND last_id > 0 AND day < ?"),
            ("until if rows else None", "None"),
            ("max(since + 1, rows[0][0]) if rows", "rows[0][0] + 1 if rows"),
            (
                "SET body = NULL WHERE body IS NOT NULL AND at_millis >= ? AND at_millis < ?",
                "SET body = NULL WHERE ? < ?",
            ),
            ("b.state = 'OPEN'\n    ))", "b.state = 'X'\n    ))"),
            ("resolved_at_millis IS NOT NULL AND last", "last"),
            ("last_at_millis < ?", "last_at_millis <> ?"),
            ("rows[-1][0] if len(rows) == _BATCH else None", "None"),
            ("if millis < LEAST_AGE", "if millis <= LEAST_AGE"),
            ("isinstance(older_than, bool) or ", ""),
            ("self._before = now_millis - age", "self._before = now_millis"),
        ),
    ),
    "slices": Module(
        "ledger/books/slices.py",
        ("-k", "not postgres", "tests/ledger/test_maintain.py", "tests/ledger/test_prune.py"),
        (
            ("{slice} AND findings > 0 ORDER", "{slice} ORDER"),
            ("{slice} AND findings > 0 ORDER", "{slice} AND findings > 1 ORDER"),
            ("ORDER BY read_at_millis LIMIT", "ORDER BY read_at_millis DESC LIMIT"),
            ("at_millis >= ? AND at_millis < ? ORDER BY id", "at_millis >= ? AND at_millis <= ? ORDER BY id"),
            ("WHERE id > ? AND id <= ? ORDER BY", "WHERE id > ? AND id < ? ORDER BY"),
            ("AND value = ? RETURNING value", "AND value <= ? + 9 RETURNING value"),
            (" WHERE kept.value < excluded.value", ""),
            ("DO UPDATE SET cents = kept.cents + excluded.cents", "DO UPDATE SET cents = excluded.cents"),
            ("WHERE day = ? AND findings <> 0", "WHERE day = ? OR findings <> 0"),
            ("WHERE day = ? AND last_id = ?\n", "WHERE day = ? OR last_id <> ?\n"),
            ("sorted(rows, key=_day_of)", "rows"),
            ("[list(row) for row in rows]", "[row[:5] for row in rows]"),
            ("sum(map(delta_of, rows))", "sum(row[4] for row in rows)"),
            ("if row[2] is None else", "if row[2] is not None else"),
            ("sums[account].cents if account in sums else 0", "0"),
            ("cents + delta_of(row), row[0], row[1]", "cents + delta_of(row), row[0] - 1, row[1]"),
            ("marked.get(each.day, 0)", "0"),
            ('        yield Execute(sql["set_marked"], [(mark, day)], many=True)\n', ""),
            ("[(day,) for day in sorted(sound)]", "[]"),
            ("[(day, _EMPTY, mark, now_millis, now_millis, day)]", "[]"),
            ("    if now == found:", "    if now.postings == found.postings:"),
            ("    if now.postings != found.postings:", "    if True:"),
            ("    if not slices:  #", "    if False:  #"),
        ),
    ),
    "maintain": Module(
        "ledger/books/maintain.py",
        ("-k", "not postgres", "tests/ledger/test_maintain.py", "tests/ledger/test_books_over_time.py"),
        (
            ("_REREAD_MILLIS = 25 * DAY_MILLIS", "_REREAD_MILLIS = 35 * DAY_MILLIS"),
            ("self.finished = self.finished and time.monotonic() < self._until", "self.finished = True"),
            ("self.finished = self.finished and time.monotonic() < self._until", "self.finished = False"),
            ("None if marks.checkpoint_millis is None else marks.position", "marks.position"),
            (
                'partial(mark, self._prefix, "verified_millis", now_millis)',
                'partial(mark, self._prefix, "verified", 1)',
            ),
            (
                "            yield from verification.slice(self._read, each)\n        yield from verification.damaged",
                "            pass\n        yield from verification.damaged",
            ),
            ("        yield from verification.damaged_days(self._read, slices, _FAR)\n", ""),
            ("        yield from verification.window(read, window)\n", ""),
            ("        if not (yield write(partial(seal,", "        if (yield write(partial(seal,"),
            ("done = min(start, now_millis)", "done = start"),
            ("done = min(start, now_millis)", "done = now_millis"),
            ("            yield from verification.touched(self._read, since)\n", "            pass\n"),
            ("doubtful - found if self._progress.finished else set()", "set()"),
            (
                "doubtful - found if self._progress.finished else set()",
                "doubtful if self._progress.finished else set()",
            ),
            ("        if found or sound:\n", "        if sound:\n"),
            ("if last_millis is None:", "if last_millis is not None:"),
            ("min(1.0, max(0, now_millis - last_millis) / _REREAD_MILLIS)", "1.0"),
            ("min(1.0, max(0, now_millis - last_millis) / _REREAD_MILLIS)", "0.0"),
            ("yield self._write(partial(note_read, self._dialect, slices))", "yield self._read(self._live_count)"),
            (
                "self._progress.verification.slice(self._read, each)\n            yield self",
                "()\n            yield self",
            ),
            ("start = start if first < start < now_millis else -_FAR", "start = -_FAR"),
            ("start = start if first < start < now_millis else -_FAR", "start = max(start, first)"),
            ("verification.compared - known <= known * share", "verification.compared <= known"),
            ("page, account, sealed=None)", "page, account, sealed=0)"),
            ("        yield from self._progress.verification.order_of(self._read, self._position.out_of_order)\n", ""),
            ("        if accounts != self._position.out_of_order:\n", "        if accounts:\n"),
            ("        yield from self._move(self._position._replace(millis=millis, page=page, account=account))\n", ""),
            ("account=account))\n        yield from self._note(set())\n", "account=account))\n"),
        ),
    ),
    "dialects": Module(
        "ledger/engine/dialects.py",
        (*_SQLITE_TESTS, "tests/ledger/test_upgrade.py"),
        (
            ("calls WHERE source = ? AND operation = ?", "calls WHERE ? <> '-' AND operation = ?"),
            ("bets WHERE source = ? AND bet_id\n", "bets WHERE ? <> '-' AND bet_id\n"),
            ("\nWHERE source = ? AND bet_id = ? AND (\n", "\nWHERE ? <> '-' AND bet_id = ? AND (\n"),
            (
                "ON CONFLICT (source, kind, operation, digest) DO UPDATE SET seen = kept.seen + 1, code",
                "ON CONFLICT (source, kind, operation, digest) DO UPDATE SET code",
            ),
            (
                "            yield from check_writer(self.prefix)\n            raise ConflictError\n",
                "            pass\n",
            ),
        ),
    ),
    "tables": Module(
        "ledger/engine/tables.py",
        _SQLITE_TESTS,
        (
            ("    if version == VERSION:\n        return\n", ""),
            ("    if not migrate:\n", "    if False:\n"),
        ),
    ),
    "sqlite": Module(
        "ledger/sqlite.py",
        _SQLITE_TESTS,
        (
            ('"PRAGMA synchronous = FULL"', '"PRAGMA synchronous = OFF"'),
            ('"PRAGMA journal_mode = WAL"', '"PRAGMA journal_mode = DELETE"'),
            ('connection.execute("BEGIN IMMEDIATE")\n        except', 'connection.execute("BEGIN")\n        except'),
            ("no transaction open.\n                self._roll_back(connection)\n", "no transaction open.\n"),
            (
                "        if self._closed:\n            raise LedgerUnavailableError(",
                "        if False:\n            raise LedgerUnavailableError(",
            ),
            ("and self._file_now() != self._file:", "and False:"),
            ("if not wait and _is_busy(failed):", "if False:"),
            ("connection.row_factory, connection.text_factory = None, str", "pass"),
            ("        connection.execute(SAVE)\n", ""),
            ("if failed is theirs:", "if False:"),
            (
                "connection, self._connection = self._connection, None\n        rests",
                "connection = self._connection\n        rests",
            ),
            ("if create or in_memory else", "if True else"),
            ("_NEVER_CLOSED.append(connection)", "connection.close()"),
        ),
    ),
    "operations": Module(
        "protocol/operations.py",
        (
            "-k",
            "not test_any and not exactly_what",
            "tests/protocol/test_operations.py",
            "tests/protocol/test_failures.py",
        ),
        (
            ("if response.status == 400 else None", "if response.status != 200 else None"),
            ("if response.status == 400 else None", "if response.status >= 400 else None"),
            ("if response.status == 400 else None", "if response.status in (400, 422) else None"),
            (
                "if response.status != 200:\n        raise error_of",
                "if response.status >= 300:\n        raise error_of",
            ),
            ("    if not problem:\n", "    if True:\n"),
            ('operator_id.encode() + b":" + bet_id.encode()', 'operator_id.encode() + b":" + path.encode()'),
            ('quote(bet_id, safe="")', "quote(bet_id)"),
            ('{"", ".", ".."}', '{"", "."}'),
            ("if len(segment) > _LONGEST_SEGMENT:", "if len(segment) >= _LONGEST_SEGMENT:"),
            ("if len(segment) > _LONGEST_SEGMENT:", "if len(bet_id) > _LONGEST_SEGMENT:"),
            ("    if round_id is None and round_no is None:\n", "    if not round_id and not round_no:\n"),
            ("if abs(round_no) > MAX_WHOLE:", "if False:"),
            ("if abs(round_no) > MAX_WHOLE:", "if round_no > MAX_WHOLE:"),
            ("not isinstance(value, int) or isinstance(value, bool)", "not isinstance(value, int)"),
            ("if value is not None}", "if value}"),
            ("    if refusal is not None:\n        raise", "    if False:\n        raise"),
            ("body, parse, body, grant)", "body, parse, body)"),
            ('fetch-round-bets", body, parse, body)', 'fetch-round-bets", body, parse, b"{}")'),
            ("extra + credentials", "credentials"),
            ("    _check_text(player_id=grant", "    dict(player_id=grant"),
            ("            value.encode()\n", "            str(value)\n"),
        ),
    ),
}


def main(names: Sequence[str]) -> int:
    """Plant the faults of the modules *names*, and return how many no test noticed."""
    left = 0
    for name in names or MODULES:
        module, began = MODULES[name], time.monotonic()
        survivors = [number for number in range(len(module.faults)) if not _is_noticed(module, number)]
        left += len(survivors)
        noticed = len(module.faults) - len(survivors)
        _say(f"{name}: {noticed} of {len(module.faults)} noticed in {time.monotonic() - began:.0f} s")
        for number in survivors:
            _say(f"  not noticed: {module.faults[number]}")
    return left


def files_of(file: Path) -> list[Path]:
    """Return a module's file, and that of its SQL if it has one."""
    return [each for each in (file, file.with_suffix(".sql")) if each.exists()]


def _is_noticed(module: Module, number: int) -> bool:
    """Return whether the tests of *module* fail with its fault *number*."""
    before, after = module.faults[number]
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "game_operator"
        shutil.copytree(ROOT / _PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
        holding = [file for file in files_of(package / module.file) for _ in range(file.read_text().count(before))]
        if len(holding) != 1:
            raise SystemExit(f"{module.file} holds {len(holding)} times, and not once: {before!r}")
        holding[0].write_text(holding[0].read_text().replace(before, after))
        return not _passes(folder, module.tests)


def _passes(folder: str, tests: Sequence[str]) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONPATH": folder}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode not in (0, 1):
        # Nothing was collected, or the copy cannot be imported: that is no test that has noticed.
        _say(done.stdout[-2_000:] + done.stderr[-2_000:])
    return done.returncode == 0


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
