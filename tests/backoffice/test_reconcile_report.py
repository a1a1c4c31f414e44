"""The report of a reconciliation: hostile text stays data, and each amount has its unit."""

import csv
import io
import json
from typing import Any

import pytest

from game_operator.backoffice import Verdict
from game_operator.backoffice.exports import csv_lines
from game_operator.backoffice.journal import Journal
from game_operator.backoffice.journal_records import ItemResult, NewItem, Run
from game_operator.backoffice.reconcile.report import KIND, UNSEEN, advices, latest_run, report_in, report_of, stop_run
from game_operator.errors import RunError
from game_operator.ledger import SqlLedger
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.office import Office
from game_operator.ledger.rules.book import NewFinding
from game_operator.ledger.staff.findings import resolve_finding
from game_operator.ledger.steps import Steps
from tests.support.backoffice_fixtures import Page

HOSTILE = '=1+1</td><script>alert("x")</script><img src=x onerror=alert(1)>{{ 7*7 }}\u202e\x00\x1b[31m'
DAY = 86_400_000
NOW = 1_800_000_000_000
OPTIONS: dict[str, Any] = {
    "repair": True,
    "max_bets": 5,
    "max_total_cents": 2_000_000,
    "min_age_millis": 7_200_000,
    "second_look_millis": 60_000,
    "sample": 0.001,
    "interval_micros": 50_000,
}
#: What findings are called that a late call leaves.
LATE = {"late_deposit", "late_rollback"}


@pytest.fixture
def journal(own: SqlLedger) -> Journal:
    """A journal in which the time stands."""
    return Journal(own, clock_millis=lambda: NOW)


def begun(journal: Journal, *results: ItemResult, service: str = "https://service|acme", **changes: Any) -> Run:
    """Begin a run whose bets have these results."""
    options = OPTIONS | changes.pop("options", {})
    run = journal.begin(
        **{"kind": KIND, "source": "", "service": service, "actor": "ann", "reason": "lost"} | changes,
        parameters=options,
        interval_micros=options["interval_micros"],
    )
    run = journal.add_page(run, [NewItem(each.key, {}) for each in results], cursor="", ready=True, chunk_size=1_000)
    if results:
        chunk = journal.claim(run.id, "test")
        assert chunk is not None
        journal.save(chunk, results, done=True)
    return journal.run(run.id)


def judged(key: str, verdict: Verdict, cents: int = 1_234_567, **data: Any) -> ItemResult:
    """Return what became of a bet."""
    known = {"detail": "why", "player_id": "p1", "opened_at_millis": NOW - DAY, "here": "OPEN", "there": "CLOSED"}
    return ItemResult(key, str(verdict), known | data, cents, b'{"status": "CLOSED"}', b"digest")


def found(journal: Journal, run: Run | None, *findings: NewFinding, at_millis: int = NOW) -> None:
    """Keep findings that a run, or none, has seen."""

    def script(dialect: SqlDialect) -> Steps[None]:
        run_id = None if run is None else run.id
        yield from dialect.store_findings("", findings, run_id=run_id, now_millis=at_millis)

    Office(journal.ledger).write(script)


def test_hostile_text_is_data_in_every_format(journal: Journal) -> None:
    """In every field that others write: ids, players, details, evidence, the service, the actor and the reason."""
    key = HOSTILE.replace("\x00", "")  # No bet id has it.
    settled = judged(key, Verdict.SETTLED, player_id=HOSTILE, detail=HOSTILE)
    left = judged(f"{key} 2", Verdict.SETTLE, player_id=HOSTILE, detail=HOSTILE)
    odd = ItemResult("odd", HOSTILE, {"detail": HOSTILE}, 1)
    run = begun(journal, settled, left, odd, service=HOSTILE, actor=HOSTILE, reason=HOSTILE)
    whose: dict[str, Any] = {"player_id": HOSTILE, "account": HOSTILE, "at_stake_cents": 5, "owed_cents": -7}
    found(journal, run, NewFinding(HOSTILE, key, HOSTILE, evidence=HOSTILE.encode(), **whose))
    journal.set_state(run.id, "stopped", HOSTILE)
    report = report_of(journal, journal.run(run.id))

    plain = Page(report_of(journal, begun(journal, service="another")).to_html())
    page = Page(report.to_html())
    assert page.elements <= {*plain.elements, "td", "div", "table", "tr", "th"}
    assert not {"script", "img", "a", "iframe", "link", "form"} & page.elements
    assert page.attributes <= {"lang", "charset", "http-equiv", "content", "name", "class", "colspan"}
    shown = HOSTILE.replace("\u202e\x00\x1b", r"\u202e\x00\x1b")
    assert page.text.count('=1+1</td><script>alert("x")</script>') >= 9
    assert shown in page.text
    assert not {"\x00", "\x1b", "\u202e"} & set(report.to_html())

    text = "".join(csv_lines(list(row.values()) for row in report.rows()))
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert all(not cell.startswith(("=", "+", "@", "\t", "\r")) for row in rows for cell in row)
    written = key.replace("\u202e\x1b", r"\u202e\x1b")
    assert {row[0] for row in rows} == {f"'{written}", f"'{written} 2", "odd"}
    assert all(cell.isprintable() for row in rows for cell in row)
    assert json.loads(report.to_json())["actor"] == HOSTILE


def test_a_page_loads_nothing_and_runs_nothing(journal: Journal) -> None:
    """Its policy admits its own style alone, by the hash."""
    text = report_of(journal, begun(journal, judged("b1", Verdict.SETTLED))).to_html()
    assert "default-src &#39;none&#39;" in text or "default-src 'none'" in text
    assert "script-src" not in text
    assert "http" not in text.replace("http-equiv", "").replace("https://service|acme", "")


@pytest.mark.parametrize("millis", [-(2**62), 253_402_300_800_000, 2**62])
def test_a_wrong_clock_spoils_no_page(journal: Journal, millis: int) -> None:
    """A time that no calendar has is shown as the number it is."""
    run = begun(journal, judged("b1", Verdict.SETTLED, opened_at_millis=millis))
    assert f"{millis} ms" in Page(report_of(journal, run).to_html()).text


def test_json_and_rows_have_whole_cents(journal: Journal) -> None:
    """Integers, and the rows have what is known of each bet."""
    run = begun(journal, judged("b1", Verdict.SETTLED), judged("b2", Verdict.AMOUNT_DIFFERS, 300, owed_cents=-100))
    report = report_of(journal, run)
    document = json.loads(report.to_json())
    assert document["verdicts"] == {
        "amount_differs": {"bets": 1, "total_cents": 300},
        "settled": {"bets": 1, "total_cents": 1_234_567},
    }
    assert document["repaired"] == {"bets": 1, "total_cents": 1_234_567}
    assert document["unseen"] == UNSEEN
    rows = {row["bet_id"]: row for row in report.rows()}
    columns = ("verdict", "at_stake_cents", "owed_cents")
    assert [rows["b2"][name] for name in columns] == ["amount_differs", 300, -100]


def test_findings_of_a_run_are_found_behind_many_others(journal: Journal) -> None:
    """Others are counted, resolved ones are not, and at most 1,000 are listed."""
    many = [NewFinding("late_deposit", f"b{number}", "late", f"t{number}") for number in range(1_001)]
    found(journal, None, *many)
    run = begun(journal, judged("b1", Verdict.AGREES, 0))
    found(journal, run, NewFinding("too_old", "mine", "old"))
    report = report_of(journal, run)
    assert ([each.subject for each in report.findings], report.other_findings) == (["mine"], 1_001)
    assert not report.is_fine
    Office(journal.ledger).write(lambda dialect: resolve_finding(report.findings[0].id, "ann", "seen", dialect))
    assert report_of(journal, run).findings == ()
    found(journal, run, *(NewFinding("too_old", f"b{number}", "old") for number in range(1_001)))
    assert (len(report_of(journal, run).findings), report_of(journal, run).other_findings) == (1_000, 1_001)


@pytest.mark.parametrize(
    ("results", "is_fine"),
    [
        pytest.param([Verdict.AGREES, Verdict.WAIT, Verdict.SETTLED, Verdict.REFUNDED], True, id="in order"),
        pytest.param([Verdict.AGREES, Verdict.SETTLE], False, id="a bet to settle"),
        pytest.param([Verdict.REFUND], False, id="a bet to refund"),
    ],
)
def test_whether_something_waits(journal: Journal, results: list[Verdict], is_fine: bool) -> None:
    """A bet that can be settled waits for a person, as a finding does."""
    run = begun(journal, *(judged(f"b{number}", verdict) for number, verdict in enumerate(results)))
    report = report_of(journal, run)
    assert (report.is_fine, report.is_whole) == (is_fine, False)
    journal.set_state(run.id, "finished")
    assert report_of(journal, journal.run(run.id)).is_whole


def test_which_run_is_reported(journal: Journal) -> None:
    """The latest of the source, or the one with a number; nothing else."""
    with pytest.raises(RunError, match="`game-operator reconcile run`"):
        report_in(journal.ledger)
    first = begun(journal, judged("b1", Verdict.AGREES))
    journal.set_state(first.id, "finished")
    second = begun(journal, service="another")
    other = begun(journal, source="other")
    campaign = begun(journal, kind="campaign", name="summer")
    assert report_in(journal.ledger).run.id == second.id
    assert report_in(journal.ledger, first.id).run.id == first.id
    assert report_in(journal.ledger, source="other").run.id == other.id
    assert latest_run(journal.ledger, "third") is None
    with pytest.raises(RunError, match="is a campaign, not a reconciliation"):
        report_in(journal.ledger, campaign.id)
    with pytest.raises(RunError):
        report_in(journal.ledger, 99)


def test_which_run_is_stopped(journal: Journal) -> None:
    """Of several the one that is named; one that has ended, or of another kind or source, is refused."""
    first, second = begun(journal), begun(journal, service="another")
    begun(journal, kind="campaign", name="summer")
    with pytest.raises(RunError, match=r"2 runs are under way: 2 \(another\), 1 "):
        stop_run(journal.ledger)
    assert stop_run(journal.ledger, first.id).state == "stopped"
    for number in (first.id, 3, 99):
        with pytest.raises(RunError, match=f"No reconciliation with the number {number} is under way"):
            stop_run(journal.ledger, number)
    with pytest.raises(RunError, match="No reconciliation is under way"):
        stop_run(journal.ledger, source="other")
    assert stop_run(journal.ledger).id == second.id


def test_there_is_advice_for_every_verdict() -> None:
    """And for the findings of late calls, and for nothing else."""
    assert set(advices()) == {*map(str, Verdict), *LATE}
    assert all(each.means.endswith(".") and each.todo.endswith(".") for each in advices().values())
    quiet = {name for name, each in advices().items() if each.todo.startswith("Nothing.")}
    assert quiet == {"agrees", "wait", "settled", "refunded", "test_bet"}
