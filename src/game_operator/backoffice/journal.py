"""
The journal: runs, chunks and items beside the ledger, in the same database, and documents by name.

Each method is one transaction, unless its name ends in ``_script``: a script runs in a transaction with other work. Any
number of processes on any number of machines may share a run. A chunk is taken by a lease, and each commit of it passes
a fence, the number of the attempt: a process that was slower than its lease commits nothing.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

from game_operator.backoffice.journal_records import Chunk, Item, ItemResult, NewItem, Paced, Run, RunState
from game_operator.errors import LeaseLostError, LedgerError, RunError
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.engine.tables import JSON_ROWS, sql_texts
from game_operator.ledger.office import Office
from game_operator.ledger.rules.book import NewFinding
from game_operator.ledger.sql import SqlLedger
from game_operator.ledger.steps import ConflictError, Execute, Rows, Steps

T = TypeVar("T")

LEASE_MILLIS: Final = 60_000
#: So many calls that fail in a row pause a run.
MOST_FAILURES: Final = 20
_PAGE: Final = 1_000
#: One encoder for all items: ``json.dumps`` would make one for each.
_encode = json.JSONEncoder(default=str, separators=(",", ":")).encode
#: The longest time between two calls of a run that the service keeps refusing.
_SLOWEST_MICROS: Final = 60_000_000
#: However long a service asks to wait, a run goes on after a day.
_LONGEST_WAIT_MILLIS: Final = 86_400_000
#: A call that is farther off than this was set by a wrong clock.
_FARTHEST_MICROS: Final = 2 * 1_000 * _LONGEST_WAIT_MILLIS


class Journal:
    """
    Reads and writes the journal of *ledger*.

    Args:
        ledger: An open SqlLedger.
        clock_millis: The time in Unix milliseconds; by default the clock of the ledger, which in PostgreSQL is the
            server's.
        lease_millis: For how long a chunk is taken, from each commit of it on.
    """

    def __init__(
        self,
        ledger: SqlLedger,
        *,
        clock_millis: Callable[[], int] | None = None,
        lease_millis: int = LEASE_MILLIS,
    ) -> None:
        self.ledger: SqlLedger = ledger
        self._clock_millis = clock_millis
        self.lease_millis: int = lease_millis

    def now_script(self, dialect: SqlDialect) -> Steps[int]:
        """Return the time."""
        if self._clock_millis is not None:
            yield from ()
            return self._clock_millis()
        return (yield from dialect.now_millis())

    def now_millis(self) -> int:
        """Return the time."""
        return Office(self.ledger).read(self.now_script)

    # --- runs

    def begin(
        self,
        kind: str,
        *,
        source: str,
        service: str,
        parameters: Mapping[str, Any],
        interval_micros: int,
        name: str = "",
        digest: str = "",
        seed: int = 0,
        actor: str | None = None,
        reason: str | None = None,
        cursor: str = "{}",
    ) -> Run:
        """
        Begin a run whose items are still to be added, and return it.

        Raises:
            RunError: There is a run of that name, or one of the same service and source is under way.
        """

        def script(dialect: SqlDialect) -> Steps[Run]:
            sql, now = _sql(dialect), (yield from self.now_script(dialect))
            text = json.dumps(parameters, sort_keys=True, default=str)
            values = (kind, name, source, service, text, digest, seed, now, actor, reason, now, now, cursor)
            rows: Rows = yield Execute(sql["begin"], (*values, interval_micros))
            if rows:
                return (yield from _run(dialect, rows[0][0]))
            known = (
                yield from _first_run(dialect, "named_run", kind, name)
                if name
                else _under_way(dialect, kind, source, service)
            )
            if known is None:  # Another process took the same number for another run.
                raise ConflictError
            raise RunError(_taken(known))

        return Office(self.ledger).write(script)

    def run(self, run_id: int) -> Run:
        """Return a run; raise RunError if there is none."""
        return Office(self.ledger).read(lambda dialect: _run(dialect, run_id))

    def named(self, kind: str, name: str) -> Run | None:
        """Return the run with a name, or None."""
        return Office(self.ledger).read(lambda dialect: _first_run(dialect, "named_run", kind, name))

    def under_way(self, kind: str, source: str, service: str) -> Run | None:
        """Return the run without a name that is under way, or None."""
        return Office(self.ledger).read(lambda dialect: _under_way(dialect, kind, source, service))

    def runs(self, kind: str, *, before: int = 2**62, most: int = 100) -> list[Run]:
        """Return at most *most* runs of a kind, the latest first, of those with a lower number than *before*."""
        return [Run(*row) for row in self._rows("runs", kind, before, most)]

    def set_state(self, run_id: int, state: RunState, why: str = "") -> bool:
        """Change the state of a run that is under way; return whether it was."""

        def script(dialect: SqlDialect) -> Steps[bool]:
            now = yield from self.now_script(dialect)
            ended = None if state in ("planning", "running", "paused") else now
            return bool((yield Execute(_sql(dialect)["set_state"], (state, why, now, ended, state, run_id))))

        return Office(self.ledger).write(script)

    # --- items and chunks

    def add_page(
        self,
        run: Run,
        items: Sequence[NewItem],
        *,
        cursor: str,
        ready: bool = False,
        chunk_size: int = 25,
        ready_at_millis: int = 0,
    ) -> Run:
        """
        Add a page of items in chunks, and the cursor from which the next page is read; return the run as it is then.

        With *ready* it was the last page, and the run is running. Its chunks can be taken from *ready_at_millis* on. A
        page that another process has added meanwhile is left out: the cursor says so.
        """

        def script(dialect: SqlDialect) -> Steps[Run]:
            sql, now = _sql(dialect), (yield from self.now_script(dialect))
            state = "running" if ready else "planning"
            moved = yield Execute(sql["set_cursor"], (cursor, state, now, run.id, run.cursor, run.state))
            if moved:
                yield from add_items_script(
                    dialect, run.id, items, chunk_size=chunk_size, ready_at_millis=ready_at_millis
                )
            return (yield from _run(dialect, run.id))

        return Office(self.ledger).write(script)

    def claim(self, run_id: int, worker: str) -> Chunk | None:
        """Take a chunk whose time has come and that nobody works on, for a lease; None if there is none now."""

        def script(dialect: SqlDialect) -> Steps[Chunk | None]:
            sql, now = _sql(dialect), (yield from self.now_script(dialect))
            run = yield from _run(dialect, run_id)
            if run.state != "running":
                return None
            rows: Rows = yield Execute(sql["claim"], (now + self.lease_millis, worker, run_id, run_id, now, now))
            if not rows:
                return None
            number, attempt = rows[0]
            items = yield Execute(sql["items_of_chunk"], (run_id, number))
            return Chunk(run_id, number, attempt, tuple(map(_item, items)))

        return Office(self.ledger).write(script)

    def waiting(self, run_id: int) -> tuple[int, int] | None:
        """Return when the next chunk can be taken, and how many are not done; None once all are."""
        ((ready_millis, left),) = self._rows("waiting", run_id)
        return (int(ready_millis), int(left)) if left else None

    def begin_item(self, chunk: Chunk, key: str, state: str) -> bool:
        """
        Commit that an item is about to be sent, in *state*, one attempt more; raise LeaseLostError as ``save``.

        Return False, and commit nothing, if the run is not running any more.
        """

        def script(dialect: SqlDialect) -> Steps[bool]:
            yield from self.fence_script(dialect, chunk)
            return (yield from self.begin_item_script(dialect, chunk, key, state))

        return Office(self.ledger).write(script)

    def begin_item_script(self, dialect: SqlDialect, chunk: Chunk, key: str, state: str) -> Steps[bool]:
        """Do the same in a transaction that has passed the fence."""
        if (yield from _run(dialect, chunk.run_id)).state != "running":
            return False
        now = yield from self.now_script(dialect)
        yield Execute(_sql(dialect)["begin_item"], (state, now, chunk.run_id, key))
        return True

    def save(
        self,
        chunk: Chunk,
        results: Sequence[ItemResult],
        *,
        findings: Sequence[NewFinding] = (),
        paced: Paced | None = None,
        done: bool = False,
        again_millis: int | None = None,
        beside: Callable[[SqlDialect], Steps[None]] | None = None,
    ) -> None:
        """
        Commit what became of items of a chunk, and renew its lease.

        Args:
            chunk: The chunk.
            results: What became of items.
            findings: What a person should look into.
            paced: How the calls went; enough failures in a row pause the run.
            done: Whether the chunk is done.
            again_millis: Give the chunk back, to be taken from this time on.
            beside: What else to do in the same transaction.

        Raises:
            LeaseLostError: Another process has the chunk now, or the run ended; nothing was committed.
        """

        def script(dialect: SqlDialect) -> Steps[None]:
            yield from self.fence_script(dialect, chunk, done=done)
            yield from self.results_script(dialect, chunk.run_id, results, findings)
            if paced is not None:
                yield from self._pace_script(dialect, chunk.run_id, paced)
            if beside is not None:
                yield from beside(dialect)
            if again_millis is not None:
                identity = (chunk.run_id, chunk.number, chunk.attempt)
                yield Execute(_sql(dialect)["release"], (again_millis, *identity))

        Office(self.ledger).write(script)

    @contextmanager
    def giving_back(self, chunk: Chunk) -> Iterator[None]:
        """Give *chunk* back if the block raises: the next worker need not wait for the lease to end."""
        try:
            yield
        except LeaseLostError:
            raise
        except BaseException:  # Ctrl-C, too: the chunk is given back, and the error goes on.
            with suppress(LedgerError):
                self.save(chunk, (), again_millis=0)
            raise

    def fence_script(self, dialect: SqlDialect, chunk: Chunk, *, done: bool = False) -> Steps[None]:
        """Renew the lease of *chunk*, or end it; raise LeaseLostError if another process has it."""
        now = yield from self.now_script(dialect)
        state = "done" if done else "leased"
        identity = (chunk.run_id, chunk.number, chunk.attempt)
        if not (yield Execute(_sql(dialect)["renew"], (now + self.lease_millis, state, *identity))):
            raise LeaseLostError(
                f"Another process has taken over chunk {chunk.number} of run {chunk.run_id}. Nothing was committed."
            )

    def results_script(
        self, dialect: SqlDialect, run_id: int, results: Sequence[ItemResult], findings: Sequence[NewFinding] = ()
    ) -> Steps[None]:
        """Store what became of items, and findings."""
        now = yield from self.now_script(dialect)
        rows = [(each.state, _encode(each.data), *each[3:], now, run_id, each.key) for each in results]
        if rows:
            yield Execute(_sql(dialect)["save"], rows, many=True)
        if findings:
            source = (yield from _run(dialect, run_id)).source
            yield from dialect.store_findings(source, findings, run_id=run_id, now_millis=now)

    def count_moved_script(
        self, dialect: SqlDialect, run_id: int, cents: int, *, most: int, most_cents: int
    ) -> Steps[bool]:
        """Count an item that moves *cents*; return False if it would be more than the brakes let through."""
        return bool((yield Execute(_sql(dialect)["count_moved"], (cents, run_id, most, cents, most_cents))))

    def moved_before(self, run: Run, since_millis: int, states: Sequence[str]) -> list[tuple[int, int]]:
        """
        Return time and cents of each item in *states* since a time, of earlier runs of the same actor about the same.

        It is about the same service and source, of which one run at a time is under way: these have ended for good.
        """
        who = (run.kind, run.source, run.service, run.actor, run.id)

        def script(dialect: SqlDialect) -> Steps[list[tuple[int, int]]]:
            # Not one statement: a planner without statistics would read the items of all runs.
            moved: list[tuple[int, int]] = []
            for (run_id,) in (yield Execute(_sql(dialect)["runs_that_moved"], (*who, since_millis))):
                for state in states:
                    rows = yield Execute(_sql(dialect)["moved_items"], (run_id, state, since_millis))
                    moved += [(int(at), int(cents)) for at, cents in rows]
            return moved

        return Office(self.ledger).read(script)

    def turns(
        self, run_id: int, count: int, *, within_seconds: float | None = None, soon_seconds: float | None = None
    ) -> list[float]:
        """
        Return for how many seconds from now to wait before each of the next calls; [] if the run is not running.

        They are taken from a row that all processes of the run share. With *within_seconds* they are as many as fit
        into such a time at the rate of now, and at least one. With *soon_seconds* they are [] if the first is further
        away than that.
        """

        def script(dialect: SqlDialect) -> Steps[list[float]]:
            return (yield from self.turns_script(dialect, run_id, count, within_seconds, soon_seconds))

        return Office(self.ledger).write(script)

    def turns_script(
        self,
        dialect: SqlDialect,
        run_id: int,
        count: int,
        within_seconds: float | None = None,
        soon_seconds: float | None = None,
    ) -> Steps[list[float]]:
        """Take turns, as ``turns`` does."""
        run, now = (yield from _run(dialect, run_id)), (yield from self.now_script(dialect))
        micros = now * 1_000
        if soon_seconds is not None and (
            micros + soon_seconds * 1_000_000 < run.next_call_micros <= micros + _FARTHEST_MICROS
        ):
            return []
        if within_seconds is not None:
            fitting = round(within_seconds * 1_000_000) // max(1, run.interval_micros)
            count = max(1, min(count, fitting))
        parameters = (now, micros, micros + _FARTHEST_MICROS, micros, count, run_id)
        rows: Rows = yield Execute(_sql(dialect)["take_turns"], parameters)
        if not rows:
            return []
        end, interval = rows[0]
        return [max(0, (end - (count - number) * interval) // 1_000 - now) / 1_000 for number in range(count)]

    def _pace_script(self, dialect: SqlDialect, run_id: int, paced: Paced) -> Steps[None]:
        """Slow down after refusals, and speed up again after answers; pause a run whose calls keep failing."""
        now = yield from self.now_script(dialect)
        run = yield from _run(dialect, run_id)
        fastest = int(run.options.get("interval_micros", run.interval_micros))
        interval = run.interval_micros
        if paced.refused:
            interval = min(max(2 * interval, 1_000), _SLOWEST_MICROS)
        elif paced.answered and not paced.failed:
            interval = max(fastest, interval * 9 // 10)
        earliest = (now + min(paced.wait_millis, _LONGEST_WAIT_MILLIS)) * 1_000
        parameters = (now, paced.answered, paced.failed, interval, earliest, earliest, run_id)
        failures = (yield Execute(_sql(dialect)["pace"], parameters))[0][0]
        if failures >= MOST_FAILURES and run.state == "running":
            why = f"{failures} calls in a row have failed"
            yield Execute(_sql(dialect)["set_state"], ("paused", why, now, None, "paused", run_id))

    # --- reading

    def item_script(self, dialect: SqlDialect, run_id: int, key: str) -> Steps[Item | None]:
        """Return an item of a run, or None."""
        rows = yield Execute(_sql(dialect)["item"], (run_id, key))
        return _item(rows[0]) if rows else None

    def items(self, run_id: int, *, state: str | None = None) -> Iterator[Item]:
        """Yield the items of a run by their keys; with *state* those in it."""
        name, more = ("page_of_items", ()) if state is None else ("page_of_items_in_state", (state,))
        after = ""
        while True:
            page = [_item(row) for row in self._rows(name, run_id, after, *more, _PAGE)]
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1].key

    def counts(self, run_id: int) -> dict[str, tuple[int, int]]:
        """Return how many items of a run are in each state, and the money at stake."""
        rows = self._rows("counts", run_id)
        return {state: (int(number), int(cents or 0)) for state, number, cents in rows}

    # --- documents

    def document(self, name: str) -> bytes | None:
        """Return the document called *name*, or None if it is not there."""
        rows = self._rows("document", name)
        return bytes(rows[0][0]) if rows else None

    def keep_document(self, name: str, body: bytes, *, before: bytes | None) -> bool:
        """
        Store *body* as the document called *name*, in the place of *before*, or of nothing if that is None.

        Return False, and store nothing, if the document is another one by now: read it again. So programs that share a
        database lose nothing of each other's, and nothing is locked while one of them thinks.
        """

        def script(dialect: SqlDialect) -> Steps[bool]:
            sql, now = _sql(dialect), (yield from self.now_script(dialect))
            if before is None:
                return bool((yield Execute(sql["insert_document"], (name, body, now))))
            return bool((yield Execute(sql["update_document"], (body, now, name, before))))

        return Office(self.ledger).write(script)

    def _rows(self, name: str, *parameters: object) -> Rows:
        """Return the rows of a statement."""

        def script(dialect: SqlDialect) -> Steps[Rows]:
            return (yield Execute(_sql(dialect)[name], parameters))  # type: ignore[no-any-return]  # Rows.

        return Office(self.ledger).read(script)


def add_items_script(
    dialect: SqlDialect, run_id: int, items: Sequence[NewItem], *, chunk_size: int, ready_at_millis: int
) -> Steps[int]:
    """Add items in chunks; those whose keys the run has are left out. Return how many were added."""
    sql = _sql(dialect)
    first = (yield Execute(sql["last_chunk"], (run_id,)))[0][0] + 1
    chunks = [(run_id, first + number, ready_at_millis) for number in range(-(-len(items) // chunk_size))]
    if not chunks:
        return 0
    if (yield Execute(sql["add_chunks"], chunks, many=True)) != len(chunks):
        raise ConflictError
    rows = [
        [each.key, first + place // chunk_size, place % chunk_size, _encode(each.data), each.at_stake_cents]
        for place, each in enumerate(items)
    ]
    return len((yield Execute(sql["add_items"], (run_id, json.dumps(rows)))))


def move_items_script(dialect: SqlDialect, run_id: int, keys: Sequence[str], *, ready_at_millis: int) -> Steps[None]:
    """Put items that are there already into a further chunk."""
    sql = _sql(dialect)
    number = (yield Execute(sql["last_chunk"], (run_id,)))[0][0] + 1
    if not (yield Execute(sql["add_chunk"], (run_id, number, ready_at_millis))):
        raise ConflictError
    yield Execute(sql["move_items"], (number, run_id, json.dumps([[key] for key in keys])))


def _sql(dialect: SqlDialect) -> dict[str, str]:
    is_sqlite = dialect.kind == "sqlite"
    return sql_texts(
        __package__,
        "journal.sql",
        prefix=dialect.prefix,
        rows="(SELECT value AS item FROM json_each(?)) AS given" if is_sqlite else JSON_ROWS,
        skip_locked="" if is_sqlite else "FOR UPDATE SKIP LOCKED",
        run_columns=", ".join(Run._fields),
        item_columns=", ".join(Item._fields),
    )


def _first_run(dialect: SqlDialect, name: str, *parameters: object) -> Steps[Run | None]:
    rows = yield Execute(_sql(dialect)[name], parameters)
    return Run(*rows[0]) if rows else None


def _under_way(dialect: SqlDialect, kind: str, source: str, service: str) -> Steps[Run | None]:
    return (yield from _first_run(dialect, "run_under_way", kind, source, service))


def _run(dialect: SqlDialect, run_id: int) -> Steps[Run]:
    found = yield from _first_run(dialect, "run", run_id)
    if found is None:
        raise RunError(f"There is no run {run_id}.")
    return found


def _taken(known: Run) -> str:
    if known.name:
        return f"There is a {known.kind} named {known.name!r} already: run {known.id}, {known.state}."
    return f"Run {known.id} of {known.service} is under way already ({known.state}). Resume it, or stop it first."


def _item(row: Sequence[Any]) -> Item:
    item = Item(*row)
    evidence = None if item.evidence is None else bytes(item.evidence)
    return item._replace(evidence=evidence, digest=None if item.digest is None else bytes(item.digest))
