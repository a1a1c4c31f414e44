"""Faults: each switched on and off by a form, and seen at work."""

from collections.abc import Iterator

import httpx
import pytest

from game_operator.ledger import MemoryLedger
from game_operator_testkit.control_room.faults import read_plan
from game_operator_testkit.provider.faults import FAULTS, LASTING_FAULTS, Fault, FaultPlan
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.control_room.support import EVIL, Html, page, post

pytestmark = pytest.mark.outside


@pytest.fixture(autouse=True)
def sound_again(sandbox: Sandbox) -> Iterator[None]:
    """The sandbox is shared: whatever is switched on is switched off again."""
    retries = sandbox.service.retries
    yield
    sandbox.faults.clear()
    sandbox.service.retries = retries


@pytest.mark.parametrize("info", FAULTS, ids=lambda info: info.name)
def test_each_fault_is_on_the_page(http: httpx.Client, info: object) -> None:
    """By its title, its name and its sentence, with a field for its share and one for a call."""
    html = page(http, "/faults")
    found = next(each for each in FAULTS if each is info)
    assert f"{found.title} {found.name} {found.text}" in html.text
    names = {each.get("name") for each in html.all("input")}
    assert {f"rate-{found.name}", f"call-{found.name}"} < names


def test_switched_on_and_off(sandbox: Sandbox, http: httpx.Client) -> None:
    """A share in percent, the Nth call, a preset of repeats; what is on is said on top, and all goes off at once."""
    assert "No fault is on." in page(http, "/faults").text
    saved = post(
        http, "/faults/set", **{"rate-reply-lost": "2.5", "rate-forged": " 100 % ", "call-reset": "3", "retries": "ten"}
    )
    assert saved.status_code == 303
    assert sandbox.faults.plan == FaultPlan({Fault.REPLY_LOST: 0.025, Fault.FORGED: 1.0}, {Fault.RESET: 3})
    assert sandbox.service.retries == "ten"
    html = page(http, saved.headers["location"])
    assert "3 faults on." in html.text
    assert html.source.count("fault-row on") == 3
    assert "reply lost 2.5 % forged signature 100 % connection reset call 3 from now" in html.text
    fields = {each["name"]: each["value"] for each in html.all("input") if each.get("type") is None}
    assert {name: value for name, value in fields.items() if value} == {
        "rate-reply-lost": "2.5",
        "rate-forged": "100",
        "call-reset": "3",
    }
    assert [each["value"] for each in html.all("input") if "checked" in each] == ["ten"]
    assert post(http, "/faults/preset", name="none").status_code == 303
    assert not sandbox.faults.plan
    assert "No fault is on." in page(http, "/faults").text


def test_all_at_once(sandbox: Sandbox, http: httpx.Client) -> None:
    """One button switches on all that occurs in webhooks."""
    assert post(http, "/faults/preset", name="all").status_code == 303
    assert sandbox.faults.plan == FaultPlan.parse("all")


def test_lasting_faults_stand_apart(http: httpx.Client) -> None:
    """Their section says what they leave, and the button for all of them leaves them out."""
    source = page(http, "/faults").source
    before, _, lasting = source.partition("Lasting faults")
    for fault in LASTING_FAULTS:
        assert f'name="rate-{fault}"' in lasting
        assert f'name="rate-{fault}"' not in before
    assert 'name="rate-slow"' in before
    assert "service and wallet differ until you reconcile them" in lasting


def test_what_is_held_is_sent_by_a_button(sandbox: Sandbox, http: httpx.Client, ledger: MemoryLedger) -> None:
    """It is there while something is held; a wallet that cannot be reached leaves it held."""
    assert "Send now" not in page(http, "/faults").text
    assert "Nothing was held back." in post(http, "/faults/release").text
    before = ledger.balance("p1")
    (bet_id,) = sandbox.play_round(player_id="p1", wager_cents=500, won_cents=700, settlement="hold").bet_ids
    assert "1 deposit or rollback held back. Send now" in page(http, "/faults").text
    assert "The wallet has not confirmed that" in page(http, f"/bets?id={bet_id}").text
    wallet_url, sandbox.wallet_url = sandbox.wallet_url, "http://127.0.0.1:1"
    refused = post(http, "/faults/release")
    assert (refused.status_code, "Is the wallet running?" in refused.text) == (502, True)
    sandbox.wallet_url = None
    refused = post(http, "/faults/release")
    assert (refused.status_code, "knows no wallet" in refused.text) == (422, True)
    sandbox.wallet_url = wallet_url
    assert ledger.balance("p1") == before - 500
    sent = post(http, "/faults/release")
    assert sent.status_code == 200
    assert "Sent late. The wallet answered: /deposit SUCCESS" in Html(sent.text).text
    assert ledger.balance("p1") == before + 200
    assert "Send now" not in sent.text
    assert f"/live/{sandbox.live.count}" in Html(sent.text).values("href")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        pytest.param({"rate-slow": "100.1"}, "from 0% to 100%", id="more than all"),
        pytest.param({"rate-slow": "-1"}, "&#39;slow=-1%&#39; cannot be read.", id="less than none"),
        pytest.param({"rate-slow": EVIL}, "cannot be read.", id="a script"),
        pytest.param({"call-slow": "0"}, "must be 1 or more, not 0.", id="the call before the next one"),
    ],
)
def test_what_cannot_be_read_changes_nothing(
    sandbox: Sandbox, http: httpx.Client, fields: dict[str, str], sentence: str
) -> None:
    """The form keeps what was typed, right or wrong, and says what is wrong, in the words of the faults."""
    response = post(http, "/faults/set", **({"retries": "ten", "rate-forged": "5"} | fields))
    assert response.status_code == 422
    assert "Nothing was changed. " in response.text
    assert sentence in response.text
    assert 'name="rate-forged" value="5"' in response.text
    assert "fault-row on" not in response.text
    assert EVIL not in response.text
    assert not sandbox.faults.plan
    assert sandbox.service.retries == "three"


@pytest.mark.parametrize(("form", "fields"), [("set", {"retries": "often"}), ("set", {}), ("preset", {"name": "x"})])
def test_a_choice_that_is_not_there_changes_nothing(
    sandbox: Sandbox, http: httpx.Client, form: str, fields: dict[str, str]
) -> None:
    """No page of ours sends it."""
    assert post(http, f"/faults/{form}", **fields, **{"rate-slow": "5"}).status_code == 400
    assert (bool(sandbox.faults.plan), sandbox.service.retries) == (False, "three")


def test_the_form_says_what_is_switched_on(sandbox: Sandbox, http: httpx.Client) -> None:
    """And reads itself back unchanged."""
    plan = FaultPlan({Fault.SLOW: 0.03, Fault.API_500: 0.125}, {Fault.TIMEOUT: 7})
    sandbox.faults.plan, sandbox.service.retries = plan, "none"
    inputs = [each for each in page(http, "/faults").all("input") if each.get("type") != "radio" or "checked" in each]
    typed = {each["name"] or "": each["value"] or "" for each in inputs if each.get("type") != "hidden"}
    assert (read_plan(typed), typed["retries"]) == (plan, "none")
