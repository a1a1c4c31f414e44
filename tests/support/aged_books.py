"""
Books of a hundred days with much for ``ledger maintain`` to do, copies of them, and what must be true of each copy.

What has left the tables is held against them: it is in the files of the archive.
"""

import csv
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from itertools import takewhile
from pathlib import Path
from random import Random
from threading import Event
from typing import Any, NamedTuple

from game_operator.ledger import SqlLedger
from game_operator.models.webhooks import WebhookCall
from tests.support.books import Posting, problems, read_books
from tests.support.calendar import Calendar
from tests.support.postgres import PostgresServer
from tests.support.raw_sql import DEFAULT_PREFIX, path_in, rows
from tests.support.traffic import Log, Story, Traffic, answer_of, deliver, shares

#: Half of the traffic is the hot player's.
PLAYERS = ["hot", "hot", "hot", "p1", "p2", "p3"]
#: When maintain ran once, and then when was played. The last is today.
_FIRST, *_DAYS = (-97, -96, -95, -93, -92, -60, -3, 0)
_STORIES = 12
#: How long a caller waits between two calls: so many must be repeated in the end.
_PAUSE_SECONDS = 0.05
_POSTINGS = "SELECT id, from_account, to_account, amount_cents, source, operation, tx_id, at_millis FROM {p}postings"


class Played(NamedTuple):
    """What was sent to a ledger, and answered."""

    stories: list[Story]
    log: Log


class AgedBooks:
    """
    Books in which days are to be made, archived and dropped, and postings to be sealed and read.

    Args:
        url: An empty database.
        seed: Of the traffic.
        server: The server, for PostgreSQL.
    """

    def __init__(self, url: str, seed: int, server: PostgresServer | None = None) -> None:
        self.url, self._server = url, server
        self.played = Played([], [])
        self._copies = 0
        with Calendar(url, _FIRST) as calendar, calendar.ledger() as ledger:
            for player_id in dict.fromkeys(PLAYERS):
                ledger.open_account(player_id, Decimal(10_000_000))
            assert ledger.maintain().finished
            for before, day in zip((_FIRST, *_DAYS), _DAYS, strict=False):
                calendar.move(day - before)
                traffic = Traffic(seed + day, PLAYERS, _STORIES, name=f"aged {day}")
                deliver(ledger.apply, [*traffic.arrivals(), *traffic.in_order()], self.played.log)
                self.played.stories.extend(traffic.stories)
        self._postings = _postings(url)

    def copied(self) -> str:
        """Return the URL of a copy."""
        if self._server is not None:
            return self._server.create_database(template=self.url)
        self._copies += 1
        path = path_in(self.url)
        return f"sqlite:///{shutil.copy(path, f'{path}-{self._copies}')}"

    def forget(self, url: str) -> None:
        """Remove a copy."""
        if self._server is not None:
            self._server.drop_database(url)

    def check(self, url: str, since: Played, archive: Path, random: Random) -> int:
        """
        Assert that nothing is lost or doubled in a copy that was maintained to its end.

        Args:
            url: The copy.
            since: What was played with it.
            archive: The folder that got what left it.
            random: Which old calls are repeated.

        Returns:
            How many postings have left it.
        """
        with SqlLedger(url) as ledger:
            self._repeat(ledger, random)
            news, full = ledger.verify(), ledger.verify(full=True)
        assert (news.findings, full.findings, full.notes) == ((), (), ())
        assert (news.balances_cents, news.house_cents) == (full.balances_cents, full.house_cents)
        stay = _postings(url)
        left = {number: row for number, row in self._postings.items() if number not in stay}
        found = {row[0]: row[1:] for row in archived(archive)}
        assert len(found) == len(set(archived(archive)))
        # A run that was killed may have archived a day that is still there.
        assert {number: row for number, row in found.items() if number in left} == left
        assert {number: row for number, row in stay.items() if number in found}.items() <= found.items()
        assert left | {number: row for number, row in stay.items() if number in self._postings} == self._postings
        assert dict(rows(url, "SELECT account, cents FROM {p}carried")) == _sums(left)
        postings = [Posting(*row[:3], *row[4:]) for _, row in sorted((stay | left).items())]
        books = read_books(url)._replace(postings=postings)
        wrong = problems(books, self.played.stories + since.stories, self.played.log + since.log)
        assert wrong == [], wrong
        return len(left)

    def _repeat(self, ledger: SqlLedger, random: Random) -> None:
        """Assert that calls are answered again as they were."""
        last = {answer.call: answer.code for answer in self.played.log if hasattr(answer.call, "bet_id")}
        for call in random.sample(sorted(last, key=str), 20):
            outcome = ledger.apply(call)
            assert (answer_of(call, outcome, 0.0).code, outcome.applied) == (last[call], False)


def _postings(url: str) -> dict[int, tuple[Any, ...]]:
    return {row[0]: row[1:] for row in rows(url, _POSTINGS)}


def archived(folder: Path) -> list[tuple[Any, ...]]:
    """Return the postings of all files, by id; a row is in two of them if a run was killed that had dropped a part."""
    found = []
    for path in folder.glob("*.csv"):  # A run that was killed leaves a .part.
        assert path.name.startswith(f"{DEFAULT_PREFIX}postings-"), path
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                texts = (row["source"], row["operation"], row["tx_id"])
                accounts = (row["from_account"] or None, row["to_account"] or None)
                found.append((int(row["id"]), *accounts, int(row["amount_cents"]), *texts, int(row["at_millis"])))
    return sorted(found)


def _sums(postings: dict[int, tuple[Any, ...]]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for from_account, to_account, cents, *_ in postings.values():
        sums[to_account or from_account] += cents if to_account else -cents
    return dict(sums)


@contextmanager
def played_beside(url: str, seed: int) -> Iterator[Played]:
    """Send calls in two threads during the block, each until it is answered; then all of the bets that were begun."""
    traffic, stop = Traffic(seed, PLAYERS, 400, name=f"beside {seed}"), Event()
    played = Played([], [])

    def send(calls: Sequence[WebhookCall]) -> None:
        deliver(ledger.apply, takewhile(lambda _: not stop.wait(_PAUSE_SECONDS), calls), played.log)

    with SqlLedger(url, migrate=False, patience_seconds=2.0) as ledger:
        with ThreadPoolExecutor(2) as pool:
            running = [pool.submit(send, share) for share in shares(traffic.arrivals(), 2)]
            try:
                yield played
            finally:
                stop.set()
            for each in running:
                each.result()
        begun = {getattr(answer.call, "bet_id", None) for answer in played.log}
        played.stories.extend(story for story in traffic.stories if story.bet_id in begun)
        deliver(ledger.apply, [call for story in played.stories for call in story.calls], played.log)
