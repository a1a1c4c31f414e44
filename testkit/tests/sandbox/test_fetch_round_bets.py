"""fetch-round-bets, from the operator's viewpoint (spec §2.8, §4.2, §7.3, §8)."""

from typing import Any

import pytest

from game_operator import BadRequestError, ClosedBet, OpenBet, RolledBackBet, RoundFound, RoundNotFound
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.sandbox.support import DAY_MILLIS, Asker, outcome
from tests.support.signed_http import SignedHttp
from tests.support.times import StoppedClock

pytestmark = pytest.mark.outside

NOT_FOUND = (200, {"status": "NOT_FOUND"})
NO_KEY = (400, {"status": "BAD_REQUEST", "error": "Either round_id or round_no must be provided"})
INVALID = (400, {"error": "Invalid request"})


def test_a_round_is_found_by_id_and_by_number(ask: Asker, sandbox: Sandbox) -> None:
    """round_id, or instance_id with round_no, names one and the same round (spec §4.2)."""
    by_id = ask.fetch_round_bets(instance_id=sandbox.instance_id, round_id=sandbox.round_id)
    by_number = ask.fetch_round_bets(instance_id=sandbox.instance_id, round_no=sandbox.round_no)
    assert isinstance(by_id, RoundFound)
    assert by_id == by_number
    assert (by_id.round_id, by_id.round_no) == (sandbox.round_id, sandbox.round_no)


def test_all_bets_of_a_round_come_in_their_states(ask: Asker, sandbox: Sandbox) -> None:
    """The field bets has every bet of the round, with the structure of its state (spec §2.4, §2.8)."""
    found = ask.fetch_round_bets(instance_id=sandbox.instance_id, round_id=sandbox.round_id)
    assert isinstance(found, RoundFound)
    assert {type(bet) for bet in found.bets} == {OpenBet, ClosedBet, RolledBackBet}
    assert {bet.reference_id for bet in found.bets} >= {sandbox.bet_ids[state] for state in ("OPEN", "LOST", "CLOSED")}
    assert all(bet == ask.fetch_bet(bet.reference_id) for bet in found.bets[:4])
    assert len(found.bets) == 12


def test_fields_are_those_of_the_specification(http: SignedHttp, sandbox: Sandbox) -> None:
    """A round carries its fields and no others (spec §2.8)."""
    status, body = outcome(http.fetch_round_bets({"instance_id": sandbox.instance_id, "round_id": sandbox.round_id}))
    assert (status, sorted(body)) == (200, ["bets", "game", "instance_id", "round_id", "round_no", "status"])
    assert (body["status"], body["instance_id"], body["game"]) == ("OK", sandbox.instance_id, "comet-crash")


def test_a_round_without_bets_is_found(ask: Asker, sandbox: Sandbox) -> None:
    """A round with no bets has status OK and an empty array (spec §2.8, §4.2)."""
    empty = ask.fetch_round_bets(instance_id=sandbox.instance_id, round_id=sandbox.landmarks.empty_round_id)
    assert isinstance(empty, RoundFound)
    assert empty.bets == ()


@pytest.mark.parametrize("round_no", [pytest.param(4128, id="another round's"), pytest.param(999_999, id="no round's")])
def test_the_id_wins_when_both_are_sent(ask: Asker, sandbox: Sandbox, round_no: int) -> None:
    """If both round_no and round_id are present, round_id is used (spec §4.2)."""
    found = ask.fetch_round_bets(instance_id=sandbox.instance_id, round_id=sandbox.round_id, round_no=round_no)
    assert isinstance(found, RoundFound)
    assert found.round_no == sandbox.round_no


def test_the_number_is_no_second_chance(ask: Asker, sandbox: Sandbox) -> None:
    """With an id that matches nothing, the number is not tried (spec §4.2)."""
    keys: dict[str, Any] = {"round_id": "no-such-round", "round_no": sandbox.round_no}
    assert ask.fetch_round_bets(instance_id=sandbox.instance_id, **keys) == RoundNotFound()


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param({"round_id": "no-such-round"}, id="no round has this id"),
        pytest.param({"round_id": ""}, id="an empty id"),
        pytest.param({"round_no": 999_999}, id="no round has this number"),
        pytest.param({"round_no": -1}, id="a negative number"),
        pytest.param({"round_no": 10**40}, id="a number beyond all rounds"),
        pytest.param({"round_id": "HOME", "instance_id": "OTHER"}, id="the round of another instance, by id"),
        pytest.param({"round_no": 4127, "instance_id": "OTHER"}, id="the round of another instance, by number"),
        pytest.param({"round_id": "HOME", "instance_id": "f" * 24}, id="an instance that does not exist"),
        pytest.param({"round_id": "HOME", "instance_id": "no instance id"}, id="an instance id of another format"),
        pytest.param({"round_id": "EXPIRED"}, id="older than 90 days, by id"),
        pytest.param({"round_no": 17}, id="older than 90 days, by number"),
    ],
)
def test_a_round_that_does_not_match_is_not_found(http: SignedHttp, sandbox: Sandbox, keys: dict[str, Any]) -> None:
    """NOT_FOUND comes with 200 and carries only status (spec §2.8, §4.2)."""
    other = sandbox.world.games()[1].instances[0].id
    names = {"HOME": sandbox.round_id, "OTHER": other, "EXPIRED": sandbox.landmarks.expired_round_id}
    body = {"instance_id": sandbox.instance_id} | {key: names.get(value, value) for key, value in keys.items()}
    assert outcome(http.fetch_round_bets(body)) == NOT_FOUND


def test_the_client_reads_not_found(ask: Asker, sandbox: Sandbox) -> None:
    """A round that is not found is a value, not an error (spec §2.8)."""
    assert ask.fetch_round_bets(instance_id=sandbox.instance_id, round_no=999_999) == RoundNotFound()


@pytest.mark.parametrize(
    ("age_millis", "status"),
    [
        pytest.param(90 * DAY_MILLIS, "OK", id="90 days to the millisecond"),
        pytest.param(90 * DAY_MILLIS + 1, "NOT_FOUND", id="a millisecond older"),
    ],
)
@pytest.mark.parametrize("key", [{"round_id": "ageing"}, {"round_no": 1}], ids=["by id", "by number"])
def test_a_round_is_kept_for_90_days(
    own_sandbox: Sandbox,
    own_http: SignedHttp,
    clock: StoppedClock,
    age_millis: int,
    status: str,
    key: dict[str, object],
) -> None:
    """Rounds older than 90 days yield NOT_FOUND (spec §4.2, §8)."""
    instance_id = own_sandbox.instance_id
    own_sandbox.world.add_round(
        round_id="ageing", round_no=1, instance_id=instance_id, game="comet-crash", started_at_millis=clock()
    )
    clock.now_millis += age_millis
    assert own_http.fetch_round_bets({"instance_id": instance_id} | key).json()["status"] == status


def test_a_game_without_rounds_has_its_bets(own_sandbox: Sandbox, own_http: SignedHttp, clock: StoppedClock) -> None:
    """Where a game has no rounds, fetch-bet finds what fetch-round-bets does not (spec §4.2)."""
    slots = next(game for game in own_sandbox.world.games() if game.genre == "Slots")
    instance_id = slots.instances[0].id
    own_sandbox.world.add_bet(
        OpenBet(
            reference_id="spin-1",
            player_id="player-1",
            round_id="session-1",
            instance_id=instance_id,
            game=slots.id,
            wager=20,
            timestamp=clock(),
        )
    )
    assert own_http.fetch_bet("spin-1").json()["status"] == "OPEN"
    assert outcome(own_http.fetch_round_bets({"instance_id": instance_id, "round_id": "session-1"})) == NOT_FOUND


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"instance_id": "f" * 24}, id="an instance alone"),
        pytest.param({}, id="nothing"),
        pytest.param({"round": 7, "roundId": "r"}, id="other names"),
    ],
)
def test_neither_id_nor_number_is_a_bad_request(http: SignedHttp, body: object) -> None:
    """HTTP 400 with status BAD_REQUEST, and an error that says what must be provided (spec §2.8, §4.2, §7.3)."""
    assert outcome(http.fetch_round_bets(body)) == NO_KEY


def test_the_client_refuses_the_same_in_the_same_words(ask: Asker, sandbox: Sandbox) -> None:
    """Nothing is sent, and the error is the one the service would have caused (spec §4.2, §7.3)."""
    with pytest.raises(BadRequestError) as refused:
        ask.fetch_round_bets(instance_id=sandbox.instance_id)
    assert (refused.value.message, refused.value.attempts) == (NO_KEY[1]["error"], 0)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="no JSON"),
        pytest.param(b"[]", id="no object"),
        pytest.param(b'{"round_no":4127}', id="no instance"),
        pytest.param(b'{"instance_id":7,"round_no":4127}', id="an instance that is a number"),
        pytest.param(b'{"instance_id":"i","round_id":7}', id="an id that is a number"),
        pytest.param(b'{"instance_id":"i","round_id":null}', id="an id that is null"),
        pytest.param(b'{"instance_id":"i","round_no":null}', id="a number that is null"),
        pytest.param(b'{"instance_id":"i","round_no":"4127"}', id="a number that is text"),
        pytest.param(b'{"instance_id":"i","round_no":4127.5}', id="half a number"),
        pytest.param(b'{"instance_id":"i","round_no":true}', id="a number that is true"),
        pytest.param(b'{"instance_id":"i","round_no":1e400}', id="a number without end"),
        pytest.param(b'{"instance_id":"i","round_id":"\xff"}', id="no UTF-8"),
        pytest.param(b'{"instance_id":"i","round_id":"\\ud800"}', id="a lone surrogate"),
        pytest.param(b'{"a":' * 100_000, id="endlessly deep"),
        pytest.param(b'{"round_no":' + b"9" * 5000 + b"}", id="too many digits"),
    ],
)
def test_a_body_that_cannot_be_read_is_an_invalid_request(http: SignedHttp, body: bytes) -> None:
    """400 is for malformed requests and invalid data (spec §4.2, §7.3; the shape: docs/decisions/0004)."""
    assert outcome(http.fetch_round_bets(body)) == INVALID


@pytest.mark.parametrize("number", [b"4127", b"4127.0", b"4.127e3"])
def test_a_number_may_be_written_in_any_way(http: SignedHttp, sandbox: Sandbox, number: bytes) -> None:
    """round_no is a JSON number, and 4127.0 is 4127 (spec §4.2; docs/decisions/0002)."""
    body = b'{"instance_id":"%s","round_no":%s}' % (sandbox.instance_id.encode(), number)
    assert http.fetch_round_bets(body).json()["round_no"] == 4127


def test_unknown_fields_do_no_harm(http: SignedHttp, sandbox: Sandbox) -> None:
    """A field that the specification does not name is ignored (spec §4.2)."""
    body = {"instance_id": sandbox.instance_id, "round_id": sandbox.round_id, "page": {"size": 1}}
    assert len(http.fetch_round_bets(body).json()["bets"]) == 12
