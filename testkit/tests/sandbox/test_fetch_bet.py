"""fetch-bet, from the operator's viewpoint (spec §2.4, §4.2, §8)."""

from urllib.parse import quote

import pytest

from game_operator import BadRequestError, BetNotFound, ClosedBet, OpenBet, RolledBackBet
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.sandbox.support import DAY_MILLIS, Asker, outcome
from tests.support.signed_http import SignedHttp
from tests.support.times import StoppedClock

pytestmark = pytest.mark.outside

PLACED = ["status", "reference_id", "player_id", "round_id", "instance_id", "game", "wager", "timestamp"]
NOT_FOUND = (200, {"status": "NOT_FOUND"})


def open_bet(bet_id: str, *, at_millis: int) -> OpenBet:
    """Return a bet to put into a world."""
    return OpenBet(
        reference_id=bet_id,
        player_id="player-1",
        round_id="round-1",
        instance_id="0" * 24,
        game="comet-crash",
        wager=1250,
        timestamp=at_millis,
    )


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        pytest.param("OPEN", OpenBet, id="open"),
        pytest.param("CLOSED", ClosedBet, id="closed with a win"),
        pytest.param("LOST", ClosedBet, id="closed with a loss"),
        pytest.param("ROLLED_BACK", RolledBackBet, id="rolled back"),
        pytest.param("EXPIRED", BetNotFound, id="older than 90 days"),
    ],
)
def test_a_bet_is_found_in_its_state(ask: Asker, sandbox: Sandbox, state: str, kind: type) -> None:
    """The answer is a union tagged by status, one class per case (spec §2.4, §4.2)."""
    assert type(ask.fetch_bet(sandbox.bet_ids[state])) is kind


def test_a_win_and_a_loss_are_both_closed(ask: Asker, sandbox: Sandbox) -> None:
    """The field won is the payout in cents, and 0 for a loss, which is a settled bet all the same (spec §2.4, §3)."""
    won, lost = ask.fetch_bet(sandbox.bet_ids["CLOSED"]), ask.fetch_bet(sandbox.bet_ids["LOST"])
    assert isinstance(won, ClosedBet)
    assert isinstance(lost, ClosedBet)
    assert (won.won > 0, lost.won) == (True, 0)


def test_the_fields_of_a_bet_arrive_as_they_are(ask: Asker, sandbox: Sandbox) -> None:
    """reference_id is the bet id; wager is in cents, timestamp in Unix milliseconds (spec §2.4)."""
    bet = open_bet("as-it-is", at_millis=1_900_000_000_000)
    sandbox.world.add_bet(bet)
    assert ask.fetch_bet("as-it-is") == bet


@pytest.mark.parametrize(
    ("state", "fields"),
    [
        pytest.param("OPEN", PLACED, id="open"),
        pytest.param("CLOSED", [*PLACED, "won"], id="closed"),
        pytest.param("LOST", [*PLACED, "won"], id="closed with a loss"),
        pytest.param("ROLLED_BACK", PLACED, id="rolled back"),
        pytest.param("EXPIRED", ["status"], id="not found"),
    ],
)
def test_each_state_carries_its_fields_and_no_others(
    http: SignedHttp, sandbox: Sandbox, state: str, fields: list[str]
) -> None:
    """The field won is in CLOSED only, and NOT_FOUND carries only status (spec §2.4)."""
    status, body = outcome(http.fetch_bet(sandbox.bet_ids[state]))
    assert (status, sorted(body)) == (200, sorted(fields))


@pytest.mark.parametrize("bet_id", ["no-such-bet", "0", "BET", "bet-" + "0" * 24, "x" * 4000])
def test_an_unknown_bet_is_not_found(ask: Asker, bet_id: str) -> None:
    """An invalid or non-existent id is answered with NOT_FOUND, and 200 (spec §4.2)."""
    assert ask.fetch_bet(bet_id) == BetNotFound()


@pytest.mark.parametrize(
    ("age_millis", "status"),
    [
        pytest.param(0, "OPEN", id="just placed"),
        pytest.param(90 * DAY_MILLIS, "OPEN", id="90 days to the millisecond"),
        pytest.param(90 * DAY_MILLIS + 1, "NOT_FOUND", id="a millisecond older"),
    ],
)
def test_a_bet_is_kept_for_90_days(
    own_sandbox: Sandbox, own_http: SignedHttp, clock: StoppedClock, age_millis: int, status: str
) -> None:
    """Bets older than 90 days are removed and yield NOT_FOUND (spec §4.2, §8)."""
    own_sandbox.world.add_bet(open_bet("ageing", at_millis=clock()))
    clock.now_millis += age_millis
    assert own_http.fetch_bet("ageing").json()["status"] == status


def test_a_bet_changes_its_state(own_sandbox: Sandbox, own_http: SignedHttp, clock: StoppedClock) -> None:
    """An open bet settles, and the next look-up says so (spec §3)."""
    bet = open_bet("settling", at_millis=clock())
    own_sandbox.world.add_bet(bet)
    assert own_http.fetch_bet("settling").json()["status"] == "OPEN"
    own_sandbox.world.add_bet(ClosedBet.model_validate(bet.model_dump() | {"status": "CLOSED", "won": 0}))
    assert own_http.fetch_bet("settling").json() == bet.model_dump() | {"status": "CLOSED", "won": 0}


ODD_IDS = ["a/b", "50%", "..%2f", "日本", "a b", "a?b", "a#b", "a+b", "%2F", "a\nb", "a;b=c", "...", "é", "a\x00b"]


@pytest.mark.parametrize("bet_id", ODD_IDS)
def test_an_id_arrives_as_one_segment(ask: Asker, sandbox: Sandbox, bet_id: str) -> None:
    """bet_id is one path parameter, whatever characters it has, and the signature over it verifies (spec §4.2, §5)."""
    bet = open_bet(bet_id, at_millis=1_900_000_000_000)
    sandbox.world.add_bet(bet)
    assert ask.fetch_bet(bet_id) == bet


@pytest.mark.parametrize("bet_id", ["", ".", ".."])
def test_an_id_that_would_be_another_address_never_leaves(ask: Asker, bet_id: str) -> None:
    """Such an id cannot be a path parameter; the client refuses it as a 400 (spec §4.2, §7.3; docs/decisions/0002)."""
    with pytest.raises(BadRequestError) as refused:
        ask.fetch_bet(bet_id)
    assert (refused.value.message, refused.value.attempts) == ("Invalid request", 0)


@pytest.mark.parametrize(
    ("segment", "answer"),
    [
        pytest.param("%2E%2E", NOT_FOUND, id="two dots, escaped"),
        pytest.param("..", NOT_FOUND, id="two dots, bare"),
        pytest.param("c%2fd", NOT_FOUND, id="an escaped slash"),
        pytest.param("c/d", (404, {"error": "Not found"}), id="a slash: two segments"),
        pytest.param("", (404, {"error": "Not found"}), id="nothing"),
        pytest.param("%FF", (400, {"error": "Invalid request"}), id="no text"),
    ],
)
def test_a_segment_is_taken_as_it_stands(http: SignedHttp, segment: str, answer: object) -> None:
    """The service folds no dots, splits no escaped slash, and refuses what is no text (spec §4.2, §7.3)."""
    plain = {"%2E%2E": "..", "c%2fd": "c/d"}.get(segment, segment)
    assert outcome(http.fetch_bet(plain, segment=segment)) == answer


def test_the_plain_id_is_signed_not_its_escapes(http: SignedHttp, sandbox: Sandbox) -> None:
    """The signed string holds the bet id itself (spec §5)."""
    sandbox.world.add_bet(open_bet("signed/plain", at_millis=1_900_000_000_000))
    escaped = quote("signed/plain", safe="")
    assert http.fetch_bet("signed/plain", segment=escaped).json()["status"] == "OPEN"
    assert outcome(http.fetch_bet(escaped, segment=escaped)) == (401, {"error": "Authentication failed"})
