"""The journal: each item once, each chunk in one pair of hands, and nothing of who was too slow."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from game_operator.backoffice.journal import MOST_FAILURES, Journal, move_items_script
from game_operator.backoffice.journal_records import Chunk, Item, ItemResult, NewItem, Paced, Run
from game_operator.errors import LeaseLostError, RunError
from game_operator.ledger import SqlLedger
from game_operator.ledger.office import Office
from game_operator.ledger.rules.book import NewFinding

pytestmark = [pytest.mark.outside, pytest.mark.drawn(8)]

MICROS = 1_000


class Clock:
    """A clock that a test sets."""

    millis = 1_800_000_000_000

    def __call__(self) -> int:
        return self.millis


@pytest.fixture
def clock() -> Clock:
    """The time."""
    return Clock()


@pytest.fixture
def journal(ledger: SqlLedger, clock: Clock) -> Journal:
    """A journal whose time a test sets."""
    return Journal(ledger, clock_millis=clock)


def begun(journal: Journal, *keys: str, name: str = "", chunk_size: int = 2) -> Run:
    """Begin a run with these items."""
    run = journal.begin(
        "campaign" if name else "reconcile",
        name=name,
        source="",
        service="https://service|acme",
        parameters={"interval_micros": MICROS},
        interval_micros=MICROS,
    )
    items = [NewItem(key, {"of": key}, 100) for key in keys]
    return journal.add_page(run, items, cursor="", ready=True, chunk_size=chunk_size)


def claimed(journal: Journal, run: Run, worker: str = "one") -> Chunk:
    """Return the chunk that a worker gets."""
    chunk = journal.claim(run.id, worker)
    assert chunk is not None
    return chunk


def item_of(journal: Journal, run: Run, key: str) -> Item:
    """Return an item of a run."""
    item = Office(journal.ledger).read(lambda dialect: journal.item_script(dialect, run.id, key))
    assert item is not None
    return item


def turns(journal: Journal, clock: Clock, run: Run, count: int) -> list[int]:
    """Return when the next calls may be made, in milliseconds."""
    return [clock.millis + round(1_000 * seconds) for seconds in journal.turns(run.id, count)]


def test_a_run_from_its_beginning_to_its_end(journal: Journal, clock: Clock) -> None:
    """Its items are taken in chunks, in order, and what became of them is there."""
    run = begun(journal, "a", "b", "c")
    assert (run.state, run.cursor, run.options) == ("running", "", {"interval_micros": MICROS})
    assert journal.under_way("reconcile", "", "https://service|acme") == run
    first = claimed(journal, run)
    items = [(item.key, item.values, item.at_stake_cents, item.state) for item in first.items]
    assert items == [("a", {"of": "a"}, 100, ""), ("b", {"of": "b"}, 100, "")]
    second = claimed(journal, run, "two")
    assert [item.key for item in second.items] == ["c"]
    assert journal.claim(run.id, "three") is None
    assert journal.waiting(run.id) == (clock.millis + 60_000, 2)
    clock.millis += 5
    finding = NewFinding("amount_differs", "b", "The amount differs.", at_stake_cents=7)
    results = [
        ItemResult("a", "agrees", {"won": 3}, evidence=b"{}", digest=b"d"),
        ItemResult("b", "amount_differs", {}, at_stake_cents=7),
    ]
    journal.save(first, results, findings=[finding], done=True)
    journal.save(second, [ItemResult("c", "agrees", {})], done=True)
    assert journal.waiting(run.id) is None
    assert journal.counts(run.id) == {"agrees": (2, 0), "amount_differs": (1, 7)}
    kept = item_of(journal, run, "a")
    assert (kept.evidence, kept.digest, kept.values, kept.at_millis) == (b"{}", b"d", {"won": 3}, clock.millis)
    assert Office(journal.ledger).read(lambda dialect: journal.item_script(dialect, run.id, "z")) is None
    assert [item.key for item in journal.items(run.id, state="agrees")] == ["a", "c"]
    assert journal.set_state(run.id, "finished")
    assert not journal.set_state(run.id, "running"), "what has ended stays so"
    assert journal.under_way("reconcile", "", "https://service|acme") is None
    assert journal.run(run.id).ended_at_millis == clock.millis


def test_an_item_is_added_once(journal: Journal) -> None:
    """A bet that is found in two ways is one item; a page that another process has added is left out."""
    run = journal.begin("reconcile", source="", service="s", parameters={}, interval_micros=MICROS, cursor='{"at": 0}')
    after = journal.add_page(run, [NewItem("a", {})], cursor='{"at": 1}')
    assert after.cursor == '{"at": 1}'
    late = journal.add_page(run, [NewItem("b", {})], cursor='{"at": 1}')
    assert late == after, "the run had moved on, and the page with it"
    done = journal.add_page(after, [NewItem("a", {}), NewItem("c", {})], cursor="", ready=True)
    assert done.state == "running"
    assert [item.key for item in journal.items(run.id)] == ["a", "c"]


def test_one_run_at_a_time_and_a_name_for_good(journal: Journal) -> None:
    """Of a reconciliation one is under way; a campaign's name is taken even after its end."""
    run = begun(journal, "a")
    with pytest.raises(RunError, match=f"Run {run.id} of https://service.acme is under way already"):
        begun(journal, "b")
    journal.set_state(run.id, "stopped", "by hand")
    second = begun(journal, "b")
    assert [each.id for each in journal.runs("reconcile")] == [second.id, run.id]
    campaign = begun(journal, "a", name="summer")
    journal.set_state(campaign.id, "finished")
    with pytest.raises(RunError, match="There is a campaign named 'summer' already"):
        begun(journal, "a", name="summer")
    assert journal.named("campaign", "summer") == journal.run(campaign.id)
    with pytest.raises(RunError, match="There is no run 99"):
        journal.run(99)


def test_a_lease_that_ran_out_is_taken_over(journal: Journal, clock: Clock) -> None:
    """At its end and not before; and who was too slow commits nothing, finding and all."""
    run = begun(journal, "a", "b")
    slow = claimed(Journal(journal.ledger, clock_millis=clock, lease_millis=1_000), run, "slow")
    clock.millis += 999
    assert journal.claim(run.id, "quick") is None
    clock.millis += 1
    quick = claimed(journal, run, "quick")
    assert (quick.number, quick.attempt) == (slow.number, slow.attempt + 1)
    finding = NewFinding("amount_differs", "a", "No.")
    with pytest.raises(LeaseLostError, match="Another process has taken over chunk 1"):
        journal.save(slow, [ItemResult("a", "agrees", {})], findings=[finding], done=True)
    with pytest.raises(LeaseLostError):
        journal.begin_item(slow, "a", "sending")
    assert journal.counts(run.id) == {"": (2, 200)}
    journal.begin_item(quick, "a", "sending")
    item = item_of(journal, run, "a")
    assert (item.state, item.attempts) == ("sending", 1)
    journal.save(quick, [], done=True)
    with pytest.raises(LeaseLostError):
        journal.save(quick, [])


def test_nothing_is_begun_in_a_run_that_is_not_running(journal: Journal) -> None:
    """What is under way is still committed."""
    run = begun(journal, "a", "b")
    chunk = claimed(journal, run)
    assert journal.begin_item(chunk, "a", "sending")
    journal.set_state(run.id, "paused")
    assert not journal.begin_item(chunk, "b", "sending")
    journal.save(chunk, [ItemResult("a", "granted", {})])
    assert journal.counts(run.id) == {"": (1, 100), "granted": (1, 0)}


def test_a_slow_process_that_nobody_replaced_may_commit(journal: Journal, clock: Clock) -> None:
    """Its lease ran out, and nobody else has begun: nothing of its work is lost."""
    run = begun(journal, "a")
    chunk = claimed(Journal(journal.ledger, clock_millis=clock, lease_millis=1), run)
    clock.millis += 10_000
    journal.save(chunk, [ItemResult("a", "agrees", {})], done=True)
    assert journal.counts(run.id) == {"agrees": (1, 0)}


def test_a_chunk_that_is_given_back_waits(journal: Journal, clock: Clock) -> None:
    """It can be taken again from the time on that was named."""
    run = begun(journal, "a")
    chunk = claimed(journal, run)
    journal.save(chunk, [], again_millis=clock.millis + 60_000)
    assert journal.waiting(run.id) == (clock.millis + 60_000, 1)
    clock.millis += 59_999
    assert journal.claim(run.id, "two") is None
    clock.millis += 1
    assert journal.claim(run.id, "two") is not None


def test_items_move_to_a_further_chunk(journal: Journal, clock: Clock) -> None:
    """So some items of several chunks are looked at again, later."""
    run = begun(journal, "a", "b", "c")
    for _ in range(2):
        chunk = claimed(journal, run)
        journal.save(chunk, [], done=True)
    ready = clock.millis + 1
    Office(journal.ledger).write(lambda dialect: move_items_script(dialect, run.id, ["c", "a"], ready_at_millis=ready))
    assert journal.claim(run.id, "one") is None
    clock.millis += 1
    again = claimed(journal, run)
    assert sorted(item.key for item in again.items) == ["a", "c"]


def test_turns_are_shared(journal: Journal, clock: Clock) -> None:
    """However many ask: the next calls are an interval apart, and a break is not made up for."""
    run = begun(journal, "a")
    assert turns(journal, clock, run, 3) == [clock.millis, clock.millis + 1, clock.millis + 2]
    assert turns(journal, clock, run, 2) == [clock.millis + 3, clock.millis + 4]
    clock.millis += 1_000
    assert turns(journal, clock, run, 1) == [clock.millis]


def test_the_rate_follows_the_service(journal: Journal, clock: Clock) -> None:
    """Slower after a refusal, from the time on that it names; quicker again, never quicker than asked."""
    run = begun(journal, "a")
    chunk = claimed(journal, run)
    journal.save(chunk, [], paced=Paced(refused=True, failed=1, wait_millis=7_000))
    assert journal.run(run.id).interval_micros == 2 * MICROS
    assert turns(journal, clock, run, 2) == [clock.millis + 7_000, clock.millis + 7_002]
    for _ in range(30):
        journal.save(chunk, [], paced=Paced(answered=5))
    assert journal.run(run.id).interval_micros == MICROS


@pytest.mark.parametrize(("last", "state"), [(MOST_FAILURES - 1, "running"), (MOST_FAILURES, "paused")])
def test_failures_in_a_row_pause_a_run(journal: Journal, last: int, state: str) -> None:
    """Twenty, over all processes; an answer in between begins to count anew."""
    run = begun(journal, "a")
    chunk = claimed(journal, run)
    journal.save(chunk, [], paced=Paced(failed=MOST_FAILURES - 1))
    journal.save(chunk, [], paced=Paced(answered=1))
    for _ in range(last):
        assert journal.run(run.id).state == "running"
        journal.save(chunk, [], paced=Paced(failed=1))
    assert journal.run(run.id).state == state


def test_brakes_count_over_all_processes(journal: Journal) -> None:
    """What would be more than either brake is not let through, and is not counted."""
    run = begun(journal, "a")

    def moves(cents: int, most: int, most_cents: int) -> bool:
        return Office(journal.ledger).write(
            lambda dialect: journal.count_moved_script(dialect, run.id, cents, most=most, most_cents=most_cents),
        )

    assert moves(60, 2, 100)
    assert not moves(41, 2, 100)
    assert moves(40, 2, 100)
    assert not moves(0, 2, 100)
    assert (journal.run(run.id).moved_count, journal.run(run.id).moved_cents) == (2, 100)


def test_many_threads_share_a_run(ledger: SqlLedger) -> None:
    """Every item is in exactly one chunk at a time, whoever asks."""
    journal = Journal(ledger)
    run = begun(journal, *(f"{number:03}" for number in range(100)), chunk_size=5)

    def work(worker: int) -> list[str]:
        mine = []
        while (chunk := journal.claim(run.id, str(worker))) is not None:
            journal.save(chunk, [ItemResult(item.key, "agrees", {}) for item in chunk.items], done=True)
            mine += [item.key for item in chunk.items]
        return mine

    with ThreadPoolExecutor(4) as pool:
        done = [key for keys in pool.map(work, range(4)) for key in keys]
    assert sorted(done) == [f"{number:03}" for number in range(100)]
    assert journal.counts(run.id) == {"agrees": (100, 0)}


def test_a_service_that_asks_for_centuries(journal: Journal, clock: Clock) -> None:
    """After a day the run goes on; a shorter wait is obeyed to its end."""
    run = begun(journal, "a")
    chunk = claimed(journal, run)
    journal.save(chunk, [], paced=Paced(failed=1, refused=True, wait_millis=7_200_000))
    assert turns(journal, clock, run, 1) == [clock.millis + 7_200_000]
    journal.save(chunk, [], paced=Paced(failed=1, refused=True, wait_millis=10**18))
    assert turns(journal, clock, run, 1) == [clock.millis + 86_400_000]


@pytest.mark.parametrize(("days", "is_ahead"), [(2, True), (3, False)])
def test_a_clock_that_was_ahead(journal: Journal, clock: Clock, days: int, is_ahead: bool) -> None:
    """What it left is not waited for, where no service can have asked for that."""
    run = begun(journal, "a")
    clock.millis += days * 86_400_000
    ahead = turns(journal, clock, run, 1)[0] + 1
    clock.millis -= days * 86_400_000 - 1  # The second turn of two days ahead is two days away to the millisecond.
    assert journal.turns(run.id, 1, soon_seconds=60) == ([] if is_ahead else [0])
    assert turns(journal, clock, run, 1) == [ahead if is_ahead else clock.millis + 1]
