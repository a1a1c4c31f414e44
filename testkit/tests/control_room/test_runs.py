"""Test runs: certifications and storms that are begun, watched, stopped and reported on a page, as real processes."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from playwright.sync_api import Browser, expect
from wallet_by_hand import PlainWallet

from game_operator.profile import Profile
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.certifier.wrong_wallets.repeats import DebitsEachTime
from testkit.tests.control_room.conftest import Gate
from testkit.tests.control_room.running import CERTIFICATION, PAGE, STORM, Room, polled, room_at, room_over
from testkit.tests.control_room.support import EVIL, Html, page, post
from tests.support.browser import visiting

pytestmark = pytest.mark.outside


@pytest.fixture(scope="module")
def right(private_key: RSAPrivateKey) -> Iterator[Room]:
    """A control room over a wallet that is right."""
    with room_over(PlainWallet, private_key) as room:
        yield room


def command_on(html: Html) -> list[str]:
    """Return the words of the command on the page."""
    found = html.source.partition('id="command"')[2].partition(">")[2].partition("</pre>")[0]
    return shlex.split(found.replace("&#39;", "'").replace("&lt;", "<").replace("&gt;", ">"))


def of_our_children() -> list[str]:
    """Return the command lines of the processes of the command line that this process has begun."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            line = (folder / "cmdline").read_bytes().decode()
        except OSError:
            continue
        if parent == str(os.getpid()) and "\0-m\0game_operator.cli\0" in line:
            found.append(line)
    return found


def test_a_certification_is_the_command_line(right: Room) -> None:
    """The page shows the command, the report that it wrote, and what it printed; Live has none of its calls."""
    right.sandbox.play_round(player_id="ann", wager_cents=100, won_cents=0)
    before = right.sandbox.live.count
    right.begin(CERTIFICATION)
    # A round beside the run shows a balance that the sandbox cannot know.
    right.sandbox.play_round(player_id="ann", wager_cents=100, won_cents=0)
    before += 2
    html = right.ended()
    assert "The certification: It passed." in html.text
    command = command_on(html)
    assert command[:2] == ["game-operator", "certify"]
    assert command[2] == right.sandbox.wallet_url
    assert {"--player=ann", "--other-player=bob", "--only=A02,B01"} < set(command)
    assert "PRIVATE" not in html.source
    assert right.sandbox.live.count == before
    report = right.http.get(f"{PAGE}/report.html")
    assert (report.status_code, "B01" in report.text) == (200, True)
    assert report.headers["content-security-policy"].endswith("; sandbox")
    assert right.http.get(f"{PAGE}/storm.trace").status_code == 404
    # The run has moved money, so the page Wallet believes the next balance.
    right.sandbox.play_round(player_id="ann", wager_cents=100, won_cents=100)
    assert not right.sandbox.service.balances.mistakes()


def test_a_wrong_wallet_has_findings(private_key: RSAPrivateKey) -> None:
    """Both kinds end with the exit code 1; a storm that does not pass leaves its trace."""
    with room_over(DebitsEachTime, private_key) as room:
        html = room.run(CERTIFICATION)
        assert "The certification: There are findings." in html.text
        html = room.run(STORM | {"faults": "duplicate=0.5"})
        assert "The storm: There are findings." in html.text
        trace = room.http.get(f"{PAGE}/storm.trace")
        assert trace.headers["content-disposition"] == 'attachment; filename="storm.trace"'
        assert trace.text.startswith("{")


def test_a_storm_is_the_command_line(right: Room) -> None:
    """Of players from a file; their ids are in no argument."""
    html = right.run(STORM | {"players": f"ann\r\n{EVIL}\r\n\r\nbob"})
    assert "The storm: It passed." in html.text
    assert EVIL not in html.source
    assert command_on(html)[1] == "storm"
    assert "30 bets" in html.text


@pytest.mark.parametrize(
    ("form", "said"),
    [
        pytest.param(CERTIFICATION | {"player_id": ""}, "it must not be blank.", id="no player"),
        pytest.param(CERTIFICATION | {"other_player_id": "ann"}, "are the same. Pass two players", id="one player"),
        pytest.param(CERTIFICATION | {"player_id": "--help"}, "does not know the player", id="an option for an id"),
        pytest.param(STORM | {"bets": "many"}, "Input should be a valid integer", id="a word"),
        pytest.param(STORM | {"faults": EVIL}, EVIL, id="no fault"),
    ],
)
def test_what_the_command_line_refuses_is_shown(right: Room, form: dict[str, str], said: str) -> None:
    """Its text says what to do, and nothing in it becomes a part of the page; what was typed is in the command."""
    html = right.run(form)
    assert "It could not begin." in html.text or "does not know" in html.text
    assert said in " ".join(html.text.split())
    assert EVIL not in html.source


@pytest.mark.parametrize("form", [{"kind": "doctor"}, CERTIFICATION | {"player_id": "a\0"}], ids=["kind", "NUL"])
def test_what_is_no_command_begins_nothing(right: Room, form: dict[str, str]) -> None:
    """Another command, and what no command line can carry."""
    assert post(right.http, f"{PAGE}/begin", **form).status_code == 400
    assert of_our_children() == []


@pytest.mark.parametrize("form", [CERTIFICATION, STORM], ids=lambda form: form["kind"])
def test_without_wallet_or_key_nothing_begins(
    own: Sandbox, at_home: httpx.Client, private_key: RSAPrivateKey, form: dict[str, str]
) -> None:
    """The buttons are disabled, and the forms are refused."""
    with room_at(None, private_key) as room:
        html = page(room.http, PAGE)
        assert "The sandbox knows no wallet." in html.text
        assert len([each for each in html.all("button") if "disabled" in each]) == 2
        assert post(room.http, f"{PAGE}/begin", **form).status_code == 409
    own.wallet_url = "http://127.0.0.1:1"
    assert "is not in a file" in page(at_home, PAGE).text
    assert post(at_home, f"{PAGE}/begin", **form).status_code == 409


def test_a_wallet_on_another_machine_needs_a_tick(private_key: RSAPrivateKey) -> None:
    """Its players' money is not moved by mistake; one at this machine needs none."""
    with room_at("https://wallet.example.test", private_key) as room:
        assert "moves_money" in page(room.http, PAGE).values("name")
        assert "is another machine" in room.run(CERTIFICATION).text
        html = room.run(CERTIFICATION | {"moves_money": "on"})
        assert "--moves-money" in command_on(html)
        assert "could not be reached" in html.text
        room.sandbox.wallet_url = "http://127.0.0.1:1"
        assert "moves_money" not in page(room.http, PAGE).values("name")


def test_another_profile_is_handed_over(private_key: RSAPrivateKey) -> None:
    """As a file: the run assumes what the sandbox assumes."""
    with room_over(PlainWallet, private_key) as room:
        assert not any(each.startswith("--profile") for each in command_on(room.run(CERTIFICATION)))
        room.sandbox.service.profile = Profile(signature_header="x-sig")  # type: ignore[misc]
        html = room.run(CERTIFICATION)
        assert any(each.startswith("--profile=") for each in command_on(html))
        assert "It passed" not in html.text


def test_a_run_is_watched_and_stopped(waiting: Room, gate: Gate) -> None:
    """The page asks again, a second run is refused, and Stop ends it: money is put back, and the report is shown."""
    waiting.begin(CERTIFICATION)
    at_work = page(waiting.http, PAGE)
    assert "The certification: at work" in at_work.text
    assert polled(at_work) == [PAGE]
    assert [each["content"] for each in at_work.all("meta") if "http-equiv" in each] == [f"2; url={PAGE}"]
    assert len(of_our_children()) == 1
    again = post(waiting.http, f"{PAGE}/begin", **STORM)
    assert (again.status_code, "A run is at work." in again.text) == (409, True)
    assert len(of_our_children()) == 1
    assert gate.reached.wait(20)
    assert post(waiting.http, f"{PAGE}/interrupt").status_code == 303
    gate.opened.set()
    html = waiting.ended()
    assert "It ended early (exit code 143)." in html.text
    assert "Stopping: money is put back and the report is printed first." in html.text
    assert of_our_children() == []


@pytest.mark.parametrize("form", [CERTIFICATION, STORM], ids=lambda form: form["kind"])
def test_nothing_is_left_running(waiting: Room, gate: Gate, form: dict[str, str]) -> None:
    """A run ends with the server, even one whose wallet hangs; its files go with it."""
    waiting.begin(form)
    files = [each for each in command_on(page(waiting.http, PAGE)) if each.startswith(("--html=", "--trace="))]
    folder = Path(files[0].partition("=")[2]).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    waiting.sandbox.__exit__()
    assert of_our_children() == []
    assert not folder.exists()
    gate.opened.set()


@pytest.mark.drawn(4)
def test_in_a_browser_the_report_is_shown(right: Room, browser: Browser) -> None:
    """In a frame of its own origin, below the command; nothing is loaded from elsewhere."""
    with visiting(browser, right.sandbox.base_url) as screen:
        screen.goto(PAGE)
        form = screen.locator("form", has=screen.get_by_role("heading", name="Certify"))
        form.get_by_label("Player", exact=True).fill("ann")
        form.get_by_label("Other player").fill("bob")
        form.get_by_label("Only these").fill("A02")
        form.get_by_role("button").click()
        expect(screen.get_by_text("It passed.")).to_be_visible(timeout=20_000)
        expect(screen.frame_locator("iframe").get_by_role("heading").first).to_be_visible()
