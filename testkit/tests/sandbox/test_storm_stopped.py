"""A storm that somebody stops: what was dealt ends, is audited, and can be replayed; and books in an open ledger."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from game_operator.errors import ConfigurationError
from game_operator.ledger import SqlLedger
from game_operator.wallet import Wallet
from game_operator_testkit.provider.keys import ServiceKeys
from game_operator_testkit.sandbox.storm.players import OpenLedgerBooks
from game_operator_testkit.sandbox.storm.report import StormReport
from game_operator_testkit.sandbox.storm.storm import Storm
from game_operator_testkit.sandbox.storm.trace import read_trace
from testkit.tests.sandbox.dealing import InProcess
from testkit.tests.sandbox.storming import MemoryBooks, head_of, storm, wallet_in_process
from testkit.tests.sandbox.wrong_wallets import PaysRepeatsTwice, RightWallet

pytestmark = pytest.mark.slow


def stopped_after(
    bets: int, handler: type[RightWallet] = RightWallet, *, faults: str = "all", concurrency: int = 4
) -> tuple[Storm, StormReport, InProcess]:
    """Return a storm of 200 bets that is stopped when so many are dealt, its report, and the courier."""
    head = head_of(faults=faults)
    courier = wallet_in_process(head, handler)
    played = Storm(
        "http://127.0.0.1:1",
        cast("ServiceKeys", courier.keys),
        MemoryBooks(courier, "ledger"),
        head,
        concurrency=concurrency,
        courier=courier.post,
    )
    return played, played.run(lambda dealt, *_: played.stop() if dealt >= bets else None), courier


def test_what_was_dealt_ends_and_is_audited() -> None:
    """No new round; every bet that was dealt is in a final state or left OPEN by the plan, and the books agree."""
    _, report, courier = stopped_after(50)
    assert (report.was_stopped, report.passed, report.differences) == (True, True, ())
    assert 50 <= report.bets < 120
    assert sum(report.states.values()) == report.bets + report.claims
    assert "PLACING" not in report.states
    assert len(list(courier.ledger.bets())) <= report.bets


def test_a_storm_that_was_stopped_before_it_began_plays_a_round() -> None:
    """There is something to audit, and a head whose number of bets can be read again."""
    _, report, _ = stopped_after(0, concurrency=1)
    assert report.was_stopped
    assert 1 <= report.bets == report.head.bets


def test_a_stop_that_comes_too_late_changes_nothing() -> None:
    """All 200 bets were dealt: nobody would believe that it was stopped."""
    _, report, _ = stopped_after(200)
    assert (report.was_stopped, report.bets, report.head.bets) == (False, 200, 200)


def test_a_trace_of_a_stopped_storm_is_replayed_to_its_end(tmp_path: Path) -> None:
    """And no further: the replay deals the same bets, and finds the same."""
    _, first, courier = stopped_after(40, PaysRepeatsTwice, concurrency=1)
    assert first.was_stopped
    assert not first.passed
    file = tmp_path / "stopped.trace"
    file.write_text("\n".join(first.trace) + "\n")
    head, orders = read_trace(file)
    replayed, again = storm(PaysRepeatsTwice, trace=(head, orders))
    assert (replayed.bets, replayed.was_stopped) == (first.bets, False)
    assert [str(one) for one in replayed.differences] == [str(one) for one in first.differences]
    assert len(again.posts) == len(courier.posts)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqlLedger]:
    with SqlLedger(f"sqlite:///{tmp_path / 'wallet.db'}") as ledger:
        yield ledger


def test_books_in_a_ledger_that_is_open(ledger: SqlLedger) -> None:
    """Fresh players are opened in it, their bets are read from it, and it stays open; a player who is there refuses."""
    head = head_of(bets=30, players=5)
    wallet = Wallet(ledger, source="games")
    ledger.add_source("games")
    courier = InProcess(opening=head.opening, handler=lambda _memory: wallet)
    keys, books = cast("ServiceKeys", courier.keys), OpenLedgerBooks(ledger, source="games")
    report = Storm("http://127.0.0.1:1", keys, books, head, courier=courier.post, concurrency=1).run()
    assert (report.passed, report.bets, report.none_kept) == (True, 30, False)
    assert len(list(ledger.bets(source="games"))) >= report.accepted
    with pytest.raises(ConfigurationError, match=r"The ledger has a player .storm-.* already"):
        books.open(head.opening)
