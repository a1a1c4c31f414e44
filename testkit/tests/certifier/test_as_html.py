"""The report as a page: what it says first, what it leaves out, and that nothing sent becomes a part of it."""

import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

import pytest

from game_operator_testkit.certifier.report.as_html import html
from game_operator_testkit.certifier.report.report import Cause, Moved, Report
from game_operator_testkit.certifier.report.verdicts import Note, Verdict, Weight
from testkit.tests.certifier.reports import (
    broken,
    doubled,
    failing_report,
    hidden,
    hostile_report,
    out_of_time,
    passed,
    passing_report,
    report,
    skipped,
    undone,
)
from testkit.tests.control_room.support import Html


class Page(Html):
    """A page as a browser reads it, with a space before each cell."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        super().handle_starttag(tag, attrs)
        self.text += " " if tag in {"td", "th"} else ""

    def part(self, start: str, end: str) -> str:
        """Return the text between two pieces of it, the first of which must be there."""
        assert start in self.text, start
        return self.text.partition(start)[2].partition(end)[0]


def lone(verdict: Verdict) -> Page:
    """Return the page about one scenario that failed."""
    return Page(html(report(verdict, causes=(Cause(verdict),))))


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        pytest.param([], "Passed: no money was lost or doubled, and the contract was kept.", id="passed"),
        pytest.param([Weight.ADVICE], "Passed: no money was lost or doubled, and the contract was kept.", id="advice"),
        pytest.param([Weight.MONEY_DOUBLED], "Failed: this wallet doubles money.", id="doubled"),
        pytest.param(
            [Weight.MONEY_DOUBLED, Weight.MONEY_LOST, Weight.CONTRACT_BROKEN],
            "Failed: this wallet loses money, and doubles money.",
            id="both",
        ),
        pytest.param(
            [Weight.CONTRACT_BROKEN, Weight.ADVICE],
            "Failed: this wallet breaks the contract with the service.",
            id="broken",
        ),
    ],
)
def test_the_first_sentence(weights: Sequence[Weight], sentence: str) -> None:
    """Passed or failed, and whether money is at risk."""
    wrong = [replace(doubled(), id=f"B{number:02}", weight=weight) for number, weight in enumerate(weights)]
    page = Page(html(report(passed("A01"), *wrong, causes=tuple(map(Cause, wrong)))))
    assert page.part("certification of a wallet ", ".") + "." == sentence


def test_the_first_sentence_is_of_the_causes() -> None:
    """What a cause explains is not told as another kind of loss, for nobody would find it below."""
    lost, explained = replace(doubled(), weight=Weight.MONEY_LOST), replace(doubled(), id="B02")
    page = Page(html(report(lost, explained, causes=(Cause(lost, (explained,)),))))
    assert "Failed: this wallet loses money. 1 mistake" in page.text


@pytest.mark.parametrize(
    ("made", "sentences"),
    [
        pytest.param(
            hidden(1),
            "Failed: 1 scenario could not be judged, and nobody knows what became of the money. "
            "1 mistake: 1 not judged. Fix the first one first",
            id="one",
        ),
        pytest.param(
            hidden(6, Cause(doubled())),
            "Failed: this wallet doubles money. 2 mistakes: 1 not judged, 1 money doubled. Fix the first one first",
            id="and money at risk",
        ),
    ],
)
def test_what_could_not_be_judged_is_no_all_clear(made: Report, sentences: str) -> None:
    """Where no answer can be read, nobody says that no money went wrong."""
    page = Page(html(made))
    assert sentences in page.text
    assert "This run cannot say whether the money is right. The service cannot read the answer" in page.text
    assert "No money was lost or doubled in this run" not in page.text


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [
        pytest.param(["B01"], "was used up before 1 scenario could be judged.", id="one"),
        pytest.param(["B01", "B02"], "was used up before 2 scenarios could be judged.", id="two"),
    ],
)
def test_the_runs_own_limit_is_no_mistake(ids: Sequence[str], sentence: str) -> None:
    """It says nothing of the wallet, so nothing is to be fixed first; beside a mistake it is one cause of two."""
    page = Page(html(out_of_time(*ids)))
    assert f"Failed: the run's own time limit (deadline) {sentence}" in page.text
    assert "Why not all was judged" in page.text
    assert "Give the run more time (deadline)" in page.text
    for words in ("nobody knows what became", "Fix the first one", "What to fix, in this order"):
        assert words not in page.text
    late = out_of_time(*ids)
    both = replace(late, verdicts=(*late.verdicts, broken()), causes=(*late.causes, Cause(broken())))
    assert "Failed: this wallet breaks the contract with the service. 2 mistakes: " in Page(html(both)).text


def test_what_was_supplied_and_failed_is_no_pass() -> None:
    """It stands first, on red, with the reason; beside what failed, too."""
    page = Page(html(report(passed("A01"), undone("A09"), undone("B14"))))
    first = page.part("certification of a wallet", "In figures")
    assert "Not finished: what was supplied did not work, and 2 scenarios could not be tried." in first
    assert "so A09, B14 could not be tried: the hook block ended with exit code 7: 'ann is unknown here'" in first
    assert page.all("section")[0]["class"] == "verdict bad"
    both = Page(html(report(doubled(), undone(), causes=(Cause(doubled()),))))
    assert "the hook block ended with exit code 7" in both.part("certification of a wallet", "What to fix")
    assert Page(html(report(passed("A01"), skipped()))).all("section")[0]["class"] == "verdict good"


def test_a_run_that_tried_nothing_has_not_passed() -> None:
    """A filter may have left nothing over."""
    assert "Nothing was tried." in Page(html(report(skipped()))).text


def test_what_to_change_comes_first() -> None:
    """Each mistake in the report's order: cost, what happened, who loses, what to change, and where it was seen."""
    page = Page(html(failing_report()))
    assert page.text.index("What to fix, in this order") < page.text.index("In figures")
    causes = page.part("What to fix, in this order", "In figures")
    told = [causes.index(f"{cause.verdict.id}: {cause.verdict.reason}") for cause in failing_report().causes[:3]]
    assert told == sorted(told)
    first = causes[: told[1]]
    for part in ("money doubled", doubled().reason, doubled().means, doubled().fix, "Seen in B01, B02"):
        assert part in first
    assert first.index("What it means") < first.index("How to fix it")
    assert "3 mistakes: 1 money doubled, 1 money lost, 1 contract broken. Fix the first one first" in page.text


def test_a_failure_begins_with_its_cause() -> None:
    """Where it is a consequence, too, and then it says so; one without a cause is its own."""
    text = Page(html(failing_report())).part("All scenarios", "Made by")
    assert "B02: " not in text
    assert "The same mistake as B01: The same deposit of 12.50 was sent five times and paid five times." in text
    assert f"The same mistake as B01: {doubled().reason}" not in text
    assert f"E11: {broken().reason}" in lone(broken()).part("All scenarios", "Made by")
    assert f"E11: {broken().reason}" in Page(html(report(broken()))).part("All scenarios", "Made by")


def test_advice_stands_apart() -> None:
    """It is never among what to change, and a wallet that has nothing else to change is not told to change anything."""
    causes = Page(html(failing_report())).part("What to fix, in this order", "In figures")
    assert "F06" not in causes
    page = Page(html(passing_report()))
    assert "What to fix, in this order" not in page.text
    assert "Fix" not in page.part("certification of a wallet", "In figures")
    assert "F06 A withdraw with two amounts was answered SUCCESS 95.00." in page.part(
        "Advice 1 thing could be", "All scenarios"
    )


def test_the_exchange_that_decided_is_marked_and_open() -> None:
    """And no other one."""
    page = lone(doubled())
    exchanges = [
        attributes for tag, attributes in page.elements if "exchange" in (attributes.get("class") or "").split()
    ]
    assert [("open" in each, "decided" in (each["class"] or "")) for each in exchanges] == [
        (False, False),
        (False, False),
        (True, True),
        (False, False),
    ]
    assert "3 the same withdraw again this one decided SUCCESS 90.00" in page.text
    undecided = lone(replace(doubled(), notes=(replace(doubled().notes[0], exchange=None),)))
    assert "this one decided" not in undecided.text


def test_all_that_is_wrong_is_told() -> None:
    """Every note, and beside the exchange that shows it."""
    notes = (*doubled().notes, Note("The time went backwards.", Weight.CONTRACT_BROKEN, exchange=3))
    page = lone(replace(doubled(), notes=notes))
    assert "Also (contract broken): The time went backwards." in page.text
    assert page.part("4 the balance after", "Made by").count("The time went backwards.") == 1


def test_hostile_bytes_are_data() -> None:
    """Wherever a stranger's words may stand: nothing of them is an element, a template or a character that hides."""
    source = html(hostile_report())
    page = Page(source)
    assert [tag for tag, _ in page.elements if tag in {"script", "iframe", "img", "object", "link", "form"}] == []
    assert "<script>window.ran = 1</script>" in page.text
    assert "{{ 7 * 7 }} {% raw %}" in page.text
    assert r"\x00\x1b[31m\u202e\ud800\ufffe" in page.text
    assert {letter for letter in source if letter != "\n" and not letter.isprintable()} == set()
    source.encode()


def test_nothing_but_its_own_style_is_admitted() -> None:
    """Named by its hash; whatever else got into the page would be refused by the browser."""
    source = html(failing_report())
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', source)
    assert policy is not None
    allowed = policy[1].replace("&#39;", "'")
    assert allowed.startswith("default-src 'none'; ")
    (part,) = re.findall("<style>(.*?)</style>", source, re.DOTALL)
    assert f"style-src 'sha256-{b64encode(sha256(part.encode()).digest()).decode()}';" in allowed
    assert "unsafe" not in allowed
    assert source.index("Content-Security-Policy") < source.index("<style>")


def test_the_page_needs_nothing_else() -> None:
    """No source, no style sheet, no link that leads out of it; and each that it has leads somewhere."""
    page = Page(html(failing_report()))
    assert page.values("src") == page.values("style") == page.values("onclick") == []
    links = page.values("href")
    assert len(links) > 10
    assert {link[1:] for link in links} <= set(page.values("id"))
    assert len(set(page.values("id"))) == len(page.values("id"))


@pytest.mark.parametrize(
    ("moved", "words"),
    [
        pytest.param((Moved("p1", 100, 100),), "p1 has 1.00, as before.", id="nothing"),
        pytest.param((Moved("p1", 10_000, 9_500),), "p1 had 100.00 and has 95.00: the wallet did not let", id="less"),
        pytest.param((Moved("p1", 123_450, 123_451),), "p1 had 1,234.50 and has 1,234.51: the wallet", id="more"),
        pytest.param((Moved("p1", 0, None),), "p1 had 0.00 and has unknown. Look into the account", id="unknown"),
    ],
)
def test_what_was_moved_is_told(moved: tuple[Moved, ...], words: str) -> None:
    """To the cent."""
    assert words in Page(html(replace(failing_report(), moved=moved))).part("In figures", "All scenarios")
