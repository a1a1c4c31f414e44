"""A campaign from its plan to its end, on both databases, whatever the service answers and whoever is killed."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import httpx
import psycopg
import pytest

from game_operator import ConfigurationError
from game_operator.backoffice import Campaign, RunError, journal
from game_operator.backoffice.campaigns import GrantState
from game_operator.backoffice.campaigns.answers import IN_DOUBT
from game_operator.backoffice.campaigns.granting import MOST_ATTEMPTS
from game_operator.backoffice.journal import Journal
from game_operator.ledger import SqlLedger
from game_operator.ledger.engine.address import path_of
from game_operator.ledger.office import Office
from tests.support.grants import DAY_MILLIS, GrantingService, Plot, campaign, players, refusal
from tests.support.raw_sql import run as run_sql
from tests.support.seeds import random_of

pytestmark = pytest.mark.outside

FAST: dict[str, Any] = {"rate_per_second": 5_000.0, "concurrency": 1}
HOUR_MILLIS = 3_600_000


def planned(service: GrantingService, ledger: SqlLedger, number: int = 30, **options: Any) -> Campaign:
    """Return a campaign of so many players, planned."""
    made = campaign(service, ledger, **options)
    made.plan(players(number))
    return made


def states(made: Campaign) -> dict[str, int]:
    """Return how many grants are in each state."""
    return {state.value: tally.grants for state, tally in made.status().by_state.items()}


class _KilledError(BaseException):
    """As if the process had died: nothing of ours runs any more."""


@contextmanager
def killed_in(owner: type, name: str, after: int = 0) -> Iterator[list[Any]]:
    """Die in a method: at once, or after so many calls of it have succeeded. Yields what these returned."""
    method, returned = getattr(owner, name), list[Any]()

    def dies(*args: Any, **options: Any) -> Any:
        if len(returned) < after:
            returned.append(method(*args, **options))
        if len(returned) >= after:
            raise _KilledError
        return returned[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, dies)
        with pytest.raises(_KilledError):
            yield returned


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Make the calls in threads and return what they return."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return [each.result() for each in [pool.submit(call) for call in calls]]


def once(number: int, plot: "httpx.Response | str") -> Plot:
    """Return the plot that strikes one request."""
    return lambda asked, _: plot if asked == number else None


@pytest.mark.parametrize("concurrency", [1, 4])
def test_everybody_is_granted_once(service: GrantingService, books: SqlLedger, concurrency: int) -> None:
    made = planned(service, books)
    report = made.run(rate_per_second=5_000.0, concurrency=concurrency)
    assert (report.state, report.granted, report.left, report.findings) == ("finished", 30, 0, ())
    assert service.players() == sorted(players(30))
    assert len(service.asked) == 30
    assert [each["player_id"] for each in service.asked[:10]] == players(30)[:10]
    assert service.asked[0] == {
        "player_id": "p1",
        "instance_id": "i1",
        "count": 5,
        "wager_amount_cents": 100,
        "expire_duration_millis": DAY_MILLIS,
        "reference_id": "summer/p1",
    }
    assert (report.exposure_cents, report.by_state) == (15_000, {GrantState.GRANTED: (30, 15_000)})
    assert made.run(**FAST).granted == 30  # It is finished: nothing is sent again.
    assert made.resume(**FAST).granted == len(service.asked) == 30


@pytest.mark.parametrize("number", [1, 9, 10, 11, 60, 61])
def test_campaigns_of_all_sizes(service: GrantingService, memory: SqlLedger, number: int) -> None:
    """Around the canary's ten, and the chunks behind it."""
    made = campaign(service, memory)
    made.plan(players(number), check_players=False)
    assert made.run(**FAST).granted == number
    assert service.players() == sorted(players(number))


def test_results_say_what_became_of_each(service: GrantingService, books: SqlLedger) -> None:
    service.plot = lambda _, asked: refusal("PLAYER_ID_TOO_LONG") if asked["player_id"] == "p20" else None
    made = planned(service, books, 21)
    made.run(**FAST)
    results = {each.player_id: each for each in made.results()}
    assert len(results) == 21
    granted, refused = results["p1"], results["p20"]
    assert granted[:6] == ("p1", "i1", 5, 100, DAY_MILLIS, "summer/p1")
    assert (granted.state, granted.free_bet_id, granted.error_code, granted.attempts) == ("granted", "fb-1", None, 1)
    assert (refused.state, refused.free_bet_id, refused.error_code) == ("refused", None, "PLAYER_ID_TOO_LONG")
    assert refused.message == "no: PLAYER_ID_TOO_LONG"


@pytest.mark.parametrize(
    "plot",
    [
        pytest.param("lost", id="granted, and the answer lost"),
        pytest.param("hung", id="no answer in time, and not granted"),
        pytest.param("unsent", id="never sent"),
        pytest.param(httpx.Response(500, text="oops"), id="500"),
        pytest.param(httpx.Response(200, text="<html>"), id="a 200 in HTML"),
        pytest.param(httpx.Response(429, json={}, headers={"retry-after": "0"}), id="429"),
    ],
)
def test_what_is_unanswered_is_asked_for_again_by_the_same_reference_id(
    service: GrantingService, memory: SqlLedger, plot: "httpx.Response | str"
) -> None:
    """
    The first and the last of the canary and one behind it, and nobody is granted twice.

    Each attempt is written down: a retry inside the client would be an attempt that nobody knows of.
    """
    unstruck = {"p1", "p10", "p15"}

    def strike(_number: int, asked: Any) -> "httpx.Response | str | None":
        if asked["player_id"] not in unstruck:
            return None
        unstruck.remove(asked["player_id"])
        return plot

    service.plot = strike
    made = planned(service, memory, 20)
    report = made.run(**FAST)
    assert (report.state, report.granted, report.findings) == ("finished", 20, ())
    assert service.players() == sorted(players(20))
    assert [each["player_id"] for each in service.asked[:3]] == ["p1", "p1", "p2"], "the canary waits"
    asked = Counter(each["reference_id"] for each in service.asked)
    assert asked == {each.reference_id: each.attempts for each in made.results()}
    assert {name for name, times in asked.items() if times == 2} == {"summer/p1", "summer/p10", "summer/p15"}
    for reference_id in asked:
        first, *again = (each for each in service.asked if each["reference_id"] == reference_id)
        assert again in ([], [first])


#: Each may strike before the service has granted and after it, but for the last two: nothing was done then.
_FAULTS: tuple["httpx.Response | str", ...] = (
    "lost",
    "hung",
    *(httpx.Response(status, text="<html>") for status in (200, 500, 502)),
    httpx.Response(200, json={"success": False}),
    httpx.Response(429, json={}),
    "unsent",
)


def test_everybody_is_granted_once_by_a_service_that_fails_half_the_time(
    service: GrantingService, memory: SqlLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is repeated has the same reference id; a duplicate of our own is a grant, and nothing is a finding."""
    monkeypatch.setattr(journal, "_SLOWEST_MICROS", 2_000)
    random = random_of(11)

    def strike(_number: int, asked: Any) -> "httpx.Response | str | None":
        if random.random() < 0.5:
            return None
        fault = random.choice(_FAULTS)
        if fault not in _FAULTS[-2:] and random.random() < 0.5:
            service.granted.setdefault((asked["instance_id"], asked["reference_id"]), asked)
        return fault

    service.plot = strike
    made = planned(service, memory, 40)
    report = made.run(rate_per_second=2_000.0)
    while report.state == "paused":  # Twenty failures in a row may happen.
        report = made.resume(rate_per_second=2_000.0)
    assert (report.state, report.granted, report.findings) == ("finished", 40, ())
    assert service.players() == sorted(players(40))
    assert {each["reference_id"] for each in service.asked} == {f"summer/{player}" for player in players(40)}


@pytest.mark.parametrize("number", [1, 25])
def test_a_duplicate_without_doubt_counts_as_granted(service: GrantingService, books: SqlLedger, number: int) -> None:
    """In the canary and behind it: another copy of the database has sent it. A finding says so."""
    made = planned(service, books)
    service.granted["i1", f"summer/p{number}"] = {"player_id": f"p{number}"}
    report = made.run(**FAST)
    assert (report.state, report.granted, report.left) == ("finished", 30, 0)
    result = next(each for each in made.results() if each.player_id == f"p{number}")
    assert (result.state, result.error_code, result.attempts) == ("granted", "DUPLICATE_REFERENCE_ID", 1)
    (finding,) = report.findings
    assert (finding.kind, finding.subject, finding.player_id, finding.at_stake_cents) == (
        "grant_duplicate",
        f"summer/p{number}",
        f"p{number}",
        500,
    )
    assert report.by_state == {GrantState.GRANTED: (30, 15_000)}


def test_a_duplicate_after_a_crash_is_a_grant(service: GrantingService, books: SqlLedger, database_url: str) -> None:
    """Between the service's grant and our note of it: what was committed before says "sending"."""
    made = planned(service, books, 12)

    with killed_in(Journal, "save"):
        made.run(**FAST)
    assert (states(made), service.players()) == ({"planned": 11, "sending": 1}, ["p1"])
    assert made.status().count(*IN_DOUBT) == 1
    _end_leases(database_url)
    report = made.run(**FAST)
    assert (report.granted, report.findings, len(service.asked)) == (12, (), 13)
    assert next(each for each in made.results() if each.player_id == "p1").free_bet_id is None


def test_that_a_grant_is_sent_is_committed_before(service: GrantingService, books: SqlLedger) -> None:
    """At each request, and of that grant alone: what was answered before it is kept by then."""
    seen = list[tuple[str, dict[str, int]]]()
    made = planned(service, books, 14)

    def looks(_number: int, asked: Any) -> None:
        sending = [each.player_id for each in made.results() if each.state == "sending"]
        seen.append((asked["player_id"], dict.fromkeys(sending, 1)))

    service.plot = looks
    assert made.run(**FAST).granted == 14
    assert seen == [(player, {player: 1}) for player, _ in seen]
    assert len(seen) == 14


def test_no_transaction_is_open_while_the_service_is_asked(
    service: GrantingService, books: SqlLedger, database_url: str
) -> None:
    """A service that does not answer holds up no call of a wallet."""
    made = planned(service, books, 12)
    idle = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in tr%' AND datname = current_database()"

    def looks(_number: int, _asked: Any) -> None:
        if database_url.startswith("sqlite"):
            with closing(sqlite3.connect(path_of(database_url), timeout=0, isolation_level=None)) as connection:
                connection.execute("BEGIN IMMEDIATE")
        else:
            with psycopg.connect(database_url) as connection:
                assert connection.execute(idle).fetchone() == (0,)

    service.plot = looks
    assert made.run(**FAST).granted == 12


@pytest.mark.drawn(6)
@pytest.mark.parametrize("number", range(1, 22))
def test_whoever_dies_after_a_commit_has_granted_nobody_twice(
    service: GrantingService, books: SqlLedger, database_url: str, number: int
) -> None:
    """After each commit of a run of twelve grants, the last ones of which are begun with the answer before them."""
    made = planned(service, books, 12)
    with killed_in(Office, "write", after=number) as commits:
        made.run(**FAST)
    assert len(commits) == number
    _end_leases(database_url)
    report = made.run(**FAST)
    assert (report.state, report.granted, report.findings) == ("finished", 12, ())
    assert service.players() == sorted(players(12))


@pytest.mark.parametrize("concurrency", [1, 4])
def test_an_interrupted_plan_has_one_canary(service: GrantingService, books: SqlLedger, concurrency: int) -> None:
    """The players come in another order when it is planned again, and ten others are the first ones."""
    with killed_in(Journal, "add_page", after=1):
        planned(service, books, 40)
    made = campaign(service, books)
    made.plan(players(40)[::-1])
    refused = {f"p{number}" for number in (10, *range(31, 41))}
    service.plot = lambda _, asked: refusal("INVALID_COUNT") if asked["player_id"] in refused else None
    report = made.run(rate_per_second=5_000.0, concurrency=concurrency)
    assert (report.state, report.granted, len(service.asked)) == ("paused", 9, 10)


def _end_leases(url: str) -> None:
    """Let the leases of processes that have died be over, as they are a minute later."""
    run_sql(url, "UPDATE {p}chunks SET lease_until_millis = 0")


@pytest.mark.parametrize(
    ("plot", "why"),
    [
        pytest.param(refusal("INVALID_COUNT"), "INVALID_COUNT", id="a refusal"),
        pytest.param(httpx.Response(400, json={"error": "Invalid request"}), "Invalid request", id="a 400"),
        pytest.param(httpx.Response(401, json={"error": "Authentication failed"}), "Authentication failed", id="401"),
        pytest.param(refusal("INSTANCE_NOT_FOUND"), "INSTANCE_NOT_FOUND", id="no such instance"),
    ],
)
@pytest.mark.parametrize("number", [1, 10])
@pytest.mark.drawn(5)
def test_any_refusal_of_the_first_ten_stops(
    service: GrantingService, memory: SqlLedger, plot: httpx.Response, why: str, number: int
) -> None:
    service.plot = once(number, plot)
    made = planned(service, memory)
    report = made.run(rate_per_second=5_000.0, concurrency=4)
    assert (report.state, report.granted, len(service.asked)) == ("paused", number - 1, number)
    assert why in report.why
    with pytest.raises(RunError, match=r"is paused: .*Resume it"):
        made.run(**FAST)
    assert made.resume(**FAST).state == "finished"


@pytest.mark.drawn(3, database_url=("postgres",))
@pytest.mark.parametrize(
    ("plot", "state"),
    [
        pytest.param(refusal("INVALID_COUNT"), "finished", id="a refusal is the result of that grant"),
        pytest.param(refusal("INSTANCE_NOT_FOUND"), "paused", id="no such instance"),
        pytest.param(httpx.Response(401, json={"error": "no"}), "paused", id="401"),
    ],
)
def test_behind_the_first_ten_few_refusals_stop(
    service: GrantingService, books: SqlLedger, plot: httpx.Response, state: str
) -> None:
    service.plot = once(15, plot)
    made = planned(service, books)
    report = made.run(**FAST)
    assert report.state == state
    assert len(service.asked) == (30 if state == "finished" else 15)
    assert made.resume(**FAST).granted == (29 if state == "finished" else 30)
    assert len(service.asked) == (30 if state == "finished" else 31)


@pytest.mark.parametrize(
    ("plot", "settled"),
    [
        pytest.param(refusal("INVALID_COUNT"), 30, id="refusals"),
        pytest.param("hung", 10, id="silence"),
        pytest.param("unsent", 10, id="a service that is down"),
    ],
)
def test_twenty_failures_in_a_row_pause(
    service: GrantingService, memory: SqlLedger, plot: "httpx.Response | str", settled: int
) -> None:
    """And the next run begins to count anew."""
    service.plot = lambda number, _: plot if 10 < number <= 30 else None
    made = planned(service, memory, 40)
    report = made.run(**FAST)
    assert (report.state, len(service.asked)) == ("paused", 30)
    assert report.why.startswith("20 calls in a row have failed. The last one: ")
    assert report.total - report.left == settled
    assert made.resume(**FAST).left == 0


def test_a_grant_that_never_has_an_answer_holds_up_no_other(service: GrantingService, memory: SqlLedger) -> None:
    """After twenty attempts a person decides; resuming tries again."""
    hung = {"p15"}
    service.plot = lambda _, asked: "hung" if asked["player_id"] in hung else None
    made = planned(service, memory, 40)
    report = made.run(rate_per_second=5_000.0, concurrency=2)
    while report.why.startswith("20 calls in a row"):  # It is the last one left.
        report = made.resume(**FAST)
    assert (report.state, report.granted, report.count(*IN_DOUBT)) == ("paused", 39, 1)
    assert f"no definite answer in {MOST_ATTEMPTS} attempts" in report.why
    hung.clear()
    assert made.resume(**FAST).granted == 40
    assert service.players() == sorted(players(40))


def test_after_a_day_of_silence_a_person_confirms(
    service: GrantingService, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database may be a restored copy, whose original went on."""
    ahead_millis = [0]
    now_script = Journal.now_script

    def shifted(self: Journal, dialect: Any) -> Any:
        return (yield from now_script(self, dialect)) + ahead_millis[0]

    monkeypatch.setattr(Journal, "now_script", shifted)
    with SqlLedger(database_url) as ledger:
        made = campaign(service, ledger)
        made.plan(players(12), check_players=False)
        ahead_millis[0] = 24 * HOUR_MILLIS - 60_000
        service.plot = once(5, refusal("INVALID_COUNT"))
        assert made.run(**FAST).state == "paused"
        for hours in (25, -25):
            ahead_millis[0] += hours * HOUR_MILLIS
            for forbidden in (made.run, made.resume):
                with pytest.raises(RunError) as refused:
                    forbidden(**FAST)
            assert refused.value.setting == "confirm"
            # That somebody stops the copy is no sign that nothing happened to the original.
            assert made.stop("is it a copy?").why == "is it a copy?"
            with pytest.raises(RunError, match="restored copy"):
                made.resume(**FAST)
            ahead_millis[0] -= hours * HOUR_MILLIS
        assert len(service.asked) == 5
        ahead_millis[0] += 25 * HOUR_MILLIS
        assert made.resume(confirm=True, **FAST).state == "finished"


def test_stop_from_elsewhere_and_resume(service: GrantingService, books: SqlLedger) -> None:
    """Another process stops it: what is under way is finished, and nothing more is begun."""
    other = campaign(service, books)

    def plot(number: int, _: object) -> None:
        if number == 14:
            other.stop("the budget is spent")

    service.plot = plot
    made = planned(service, books)
    report = made.run(rate_per_second=2_000.0, concurrency=1)
    assert (report.state, report.why) == ("paused", "the budget is spent")
    # The turns of the next calls were taken already, and are not used.
    assert report.granted == len(service.asked) == 14
    with pytest.raises(RunError, match="the budget is spent"):
        made.run(**FAST)
    service.plot = lambda *_: None
    assert other.resume(**FAST).granted == 30
    assert other.stop().state == "finished"


def test_interrupt_finishes_what_is_under_way(service: GrantingService, books: SqlLedger) -> None:
    """Ctrl-C may come before the first call, too; it counts for one run."""
    made = planned(service, books)
    made.interrupt()
    assert (made.run(**FAST).granted, service.asked) == (0, [])

    def plot(number: int, _: object) -> None:
        if number == 17:
            made.interrupt()

    service.plot = plot
    report = made.run(**FAST)
    assert (report.state, report.granted, report.at_work, len(service.asked)) == ("running", 17, 0, 17)
    service.plot = lambda *_: None
    assert made.run(**FAST).granted == 30


@pytest.mark.parametrize("concurrency", [1, 3])
def test_what_a_call_raises_comes_out_and_nothing_is_lost(
    service: GrantingService, memory: SqlLedger, concurrency: int
) -> None:
    """Ctrl-C without a handler, and errors that nobody expects; the chunk is free at once."""

    def plot(number: int, _: object) -> None:
        if number == 17:
            raise KeyboardInterrupt

    service.plot = plot
    made = planned(service, memory)
    with pytest.raises(KeyboardInterrupt):
        made.run(rate_per_second=5_000.0, concurrency=concurrency)
    assert made.status().count(*IN_DOUBT) == 1
    service.plot = lambda *_: None
    report = made.run(**FAST)
    assert (report.granted, report.findings) == (30, ())
    assert service.players() == sorted(players(30))


def test_several_at_work_share_the_rate_and_the_grants(service: GrantingService, books: SqlLedger) -> None:
    """Each grant is sent by one of them; the canary by one alone."""
    planned(service, books, 40)
    reports = at_once(*[lambda: campaign(service, books).run(rate_per_second=5_000.0)] * 3)
    assert [report.granted for report in reports] == [40, 40, 40]
    assert (service.players(), len(service.asked)) == (sorted(players(40)), 40)
    assert [each["player_id"] for each in service.asked[:10]] == players(40)[:10]


def test_a_plan_that_was_interrupted_is_finished_by_the_same_plan(service: GrantingService, books: SqlLedger) -> None:
    """Until then nothing is sent; and all are there once, whoever added them."""
    made = campaign(service, books)
    with killed_in(Journal, "add_page", after=1):
        made.plan(players(40))
    assert made.status().state == "planning"
    for forbidden in (made.run, made.resume, made.stop):
        with pytest.raises(RunError, match="Plan it with the same players again"):
            forbidden()
    with pytest.raises(RunError, match="another plan"):
        made.plan(players(39))
    assert not made.plan(players(40)[::-1]).is_new
    assert made.run(**FAST).granted == 40
    assert service.players() == sorted(players(40))


def test_two_plan_the_same_at_once(service: GrantingService, books: SqlLedger) -> None:
    """In different orders: the plan is there once, and whole."""
    orders = (sorted(players(40)), players(40)[::-1], players(40))
    plans = at_once(*(partial(campaign(service, books).plan, ids) for ids in orders))
    assert len({plan.digest for plan in plans}) == 1
    assert [plan.is_new for plan in plans].count(True) == 1
    assert states(campaign(service, books)) == {"planned": 40}
    assert campaign(service, books).run(**FAST).granted == 40
    assert service.players() == sorted(players(40))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("rate_per_second", rate) for rate in (0, -1, 10_001, float("nan"), float("inf"), "20", True)),
        *(("concurrency", number) for number in (0, 65, 1.5, True)),
    ],
)
def test_rates_and_concurrencies_that_cannot_be(
    service: GrantingService, memory: SqlLedger, name: str, value: Any
) -> None:
    with pytest.raises(ConfigurationError, match=name):
        planned(service, memory, 1).run(**{name: value})


def test_a_campaign_that_nobody_planned(service: GrantingService, memory: SqlLedger) -> None:
    made = campaign(service, memory)
    for forbidden in (made.run, made.resume, made.stop, made.status, made.report, lambda: next(made.results())):
        with pytest.raises(RunError, match="Plan it first"):
            forbidden()


@pytest.mark.drawn(3, database_url=("postgres",))
@pytest.mark.parametrize("number", [5, 15])
@pytest.mark.parametrize("status", [200, 400, 401])
def test_hostile_texts_of_the_service_are_kept(
    service: GrantingService, books: SqlLedger, number: int, status: int
) -> None:
    """U+0000 and halves of surrogate pairs, which no database takes, in every text that is kept."""
    text = "\\u0000\\ud800\\n=1+1"
    bodies = {
        200: f'{{"success": true, "free_bet_id": "f{text}", "message": "{text}"}}',
        400: f'{{"success": false, "message": "{text}", "error_code": "CODE{text}"}}',
        401: f'{{"error": "{text}"}}',
    }
    service.plot = once(number, httpx.Response(status, content=bodies[status].encode()))
    made = planned(service, books, 20)
    report = made.run(**FAST)
    assert "\x00" not in report.why
    service.plot = lambda *_: None
    assert made.resume(**FAST).left == 0
    assert len(list(made.results())) == 20
