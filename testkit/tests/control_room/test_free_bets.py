"""Free bets: granted with the API's own refusals, claimed from the wallet, and followed until then."""

from decimal import Decimal
from itertools import count

import httpx
import pytest

from game_operator import GrantErrorCode
from game_operator.codes import GRANT_MESSAGES
from game_operator.ledger import MemoryLedger
from game_operator_testkit.control_room.free_bets import read_grant_form, refused
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.control_room.support import EVIL, EVIL_ESCAPED, page, post
from testkit.tests.sandbox.support import NOW_MILLIS
from tests.support.times import StoppedClock

_numbers = count(1)


def terms(sandbox: Sandbox, **fields: str) -> dict[str, str]:
    """Return a form that is granted, under a reference id that no other test uses."""
    filled_in = {
        "player_id": "p1",
        "instance_id": sandbox.instance_id,
        "count": "3",
        "wager": "1.50",
        "duration": "2",
        "unit": "hours",
        "reference_id": f"page-{next(_numbers)}",
    }
    return filled_in | fields


def test_a_grant(sandbox: Sandbox, http: httpx.Client) -> None:
    """What the form says is what is granted, in cents and milliseconds (spec §2.2)."""
    fields = terms(sandbox)
    response = post(http, "/free-bets/grant", **fields)
    assert response.status_code == 303
    grant = sandbox.world.grants()[-1]
    assert grant.request.model_dump() == {
        "player_id": "p1",
        "instance_id": sandbox.instance_id,
        "count": 3,
        "wager_amount_cents": 150,
        "expire_duration_millis": 7_200_000,
        "reference_id": fields["reference_id"],
    }
    html = page(http, response.headers["location"])
    assert "Granted. p1 has 3 free bets of 1.50 EUR." in html.text
    assert fields["reference_id"] in html.text


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        pytest.param({"count": "51"}, "COUNT_TOO_HIGH", id="count 51"),
        pytest.param({"wager": "10000.01"}, "WAGER_AMOUNT_TOO_HIGH", id="wager a cent too high"),
        pytest.param(
            {"duration": "2592000001", "unit": "milliseconds"}, "EXPIRE_DURATION_TOO_LONG", id="a millisecond too long"
        ),
        pytest.param({"player_id": " "}, "EMPTY_PLAYER_ID", id="a blank player"),
        pytest.param({"reference_id": ""}, "EMPTY_REFERENCE_ID", id="no reference"),
        pytest.param({"reference_id": "used"}, "DUPLICATE_REFERENCE_ID", id="a reference of before"),
        pytest.param({"instance_id": "0" * 24}, "INSTANCE_NOT_FOUND", id="no such instance"),
    ],
)
def test_what_the_api_refuses_is_refused_here(
    sandbox: Sandbox, http: httpx.Client, fields: dict[str, str], code: str
) -> None:
    """With its code and its words beside the field, which keeps what was typed; none is granted (spec §2.2, §7.2)."""
    post(http, "/free-bets/grant", **terms(sandbox, reference_id="used"))
    before = len(sandbox.world.grants())
    response = post(http, "/free-bets/grant", **terms(sandbox, **fields))
    assert response.status_code == 422
    assert f"{GRANT_MESSAGES[GrantErrorCode(code)]} ({code})" in response.text
    assert response.text.count('aria-invalid="true"') == 1
    typed = next(iter(fields.values()))
    assert f'value="{typed}"' in response.text
    assert len(sandbox.world.grants()) == before


def test_every_refusal_has_a_place() -> None:
    """All 13 codes of spec §7.2 belong to a field of the form."""
    for code in GrantErrorCode:
        assert set(refused(code)) <= {"player_id", "instance_id", "count", "wager", "duration", "reference_id"}


@pytest.mark.parametrize(
    ("fields", "granted"),
    [
        pytest.param({"count": "1"}, True, id="count 1"),
        pytest.param({"count": "50"}, True, id="count 50"),
        pytest.param({"count": "5.0"}, False, id="a count with decimals"),
        pytest.param({"wager": "0.01"}, True, id="a cent"),
        pytest.param({"wager": "10000.00"}, True, id="the highest wager"),
        pytest.param({"wager": ""}, False, id="no wager"),
        pytest.param({"duration": "30", "unit": "days"}, True, id="30 days"),
        pytest.param({"duration": "1", "unit": "weeks"}, False, id="another unit"),
        pytest.param({"player_id": "p" * 100}, True, id="a player of 100"),
        pytest.param({"reference_id": "r" * 100}, True, id="a reference of 100"),
    ],
)
def test_both_sides_of_each_limit(sandbox: Sandbox, fields: dict[str, str], granted: bool) -> None:
    """What is read, and what is not; a form with mistakes has a sentence for each (spec §8)."""
    request, problems = read_grant_form(terms(sandbox, **fields))
    assert (request is not None) == granted
    assert bool(problems) != granted


def test_free_bets_are_claimed(sandbox: Sandbox, http: httpx.Client, ledger: MemoryLedger) -> None:
    """One deposit pays what they have won; the status changes, and a second claim is refused (spec §4.1)."""
    ledger.open_account("lucky", Decimal(10))
    granted = post(http, "/free-bets/grant", **terms(sandbox, player_id="lucky", count="50", wager="2"))
    free_bet_id = sandbox.world.grants()[-1].free_bet_id
    button = {"type": "hidden", "name": "free_bet_id", "value": free_bet_id}
    assert button in page(http, granted.headers["location"]).all("input")
    claimed = post(http, "/free-bets/claim", free_bet_id=free_bet_id)
    assert claimed.status_code == 303
    html = page(http, claimed.headers["location"])
    assert "Claimed. lucky has played 50 free bets" in html.text
    assert "/deposit SUCCESS" in html.text
    assert button not in html.all("input")
    paid = ledger.balance("lucky")
    assert paid > 1000
    again = post(http, "/free-bets/claim", free_bet_id=free_bet_id)
    assert (again.status_code, ledger.balance("lucky")) == (422, paid)
    assert "claimed already" in again.text


def test_a_claim_that_the_wallet_refuses(sandbox: Sandbox, http: httpx.Client) -> None:
    """A player whom the wallet does not know: the answer is shown, and the free bets can still be claimed."""
    post(http, "/free-bets/grant", **terms(sandbox, player_id="nobody"))
    free_bet_id = sandbox.world.grants()[-1].free_bet_id
    claimed = post(http, "/free-bets/claim", free_bet_id=free_bet_id)
    html = page(http, claimed.headers["location"])
    assert "Not claimed." in html.text
    assert '<div class="card said bad">' in html.source
    assert html.text.count("/deposit PLAYER_NOT_FOUND × ") == 1
    assert "PLAYER_NOT_FOUND" in html.text
    assert {"type": "hidden", "name": "free_bet_id", "value": free_bet_id} in html.all("input")


def test_free_bets_that_are_not_there(http: httpx.Client) -> None:
    """A sentence, whatever they are called."""
    refused = post(http, "/free-bets/claim", free_bet_id=EVIL)
    assert refused.status_code == 422
    assert 'role="alert"' in refused.text
    assert EVIL not in refused.text


@pytest.mark.outside
def test_free_bets_expire(own: Sandbox, at_home: httpx.Client) -> None:
    """From granted to expired, at the very millisecond; there is no button then."""
    own.service.clock = clock = StoppedClock(NOW_MILLIS)
    post(at_home, "/free-bets/grant", **terms(own, duration="1000", unit="milliseconds", player_id=EVIL))
    seen = []
    for at_millis in (NOW_MILLIS + 999, NOW_MILLIS + 1000):
        clock.now_millis = at_millis
        html = page(at_home, "/free-bets")
        seen.append(("granted" in html.text, "expired" in html.text, "Play and claim" in html.text))
        assert EVIL not in html.source
        assert EVIL_ESCAPED in html.source
    assert seen == [(True, False, True), (False, True, False)]


@pytest.mark.outside
def test_without_a_wallet_nothing_is_claimed(own: Sandbox, at_home: httpx.Client) -> None:
    """The page says what is missing."""
    post(at_home, "/free-bets/grant", **terms(own))
    refused = post(at_home, "/free-bets/claim", free_bet_id=own.world.grants()[-1].free_bet_id)
    assert refused.status_code == 422
    assert "no wallet" in refused.text


def test_what_is_off_is_marked(sandbox: Sandbox, http: httpx.Client) -> None:
    """Free bets can be granted there all the same; whoever does so shall know (spec §2.5, §2.6)."""
    source = page(http, "/free-bets").source
    for game in sandbox.world.games():
        for each in game.instances:
            option = source.partition(f'<option value="{each.id}"')[2].partition("</option>")[0]
            assert option.endswith(")") == (not each.active or game.status != "ACTIVE"), option
