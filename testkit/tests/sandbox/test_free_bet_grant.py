"""free-bet/grant, from the operator's viewpoint (spec §2.2, §2.3, §4.2, §7.2, §8)."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from game_operator import FreeBetRejectedError, GrantAccepted, GrantErrorCode
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.sandbox.support import Asker, fresh_reference, outcome, terms
from tests.support.signed_http import SignedHttp
from tests.test_codes import MESSAGES

INVALID = (400, {"error": "Invalid request"})


def refused(code: str) -> tuple[int, dict[str, object]]:
    """Return the refusal that spec §2.3 and §7.2 describe for *code*."""
    return 400, {"success": False, "message": MESSAGES[code], "error_code": code}


def test_free_bets_are_granted(ask: Asker, sandbox: Sandbox) -> None:
    """The answer says so and names the grant, which the service then has, as asked (spec §2.2, §2.3, §4.2)."""
    asked = terms(sandbox.instance_id)
    granted = ask.grant_free_bet(**asked)
    assert isinstance(granted, GrantAccepted)
    (kept,) = [grant for grant in sandbox.world.grants() if grant.request.reference_id == asked["reference_id"]]
    assert (kept.request.model_dump(), kept.free_bet_id) == (asked, granted.free_bet_id)


def test_a_success_has_three_fields(http: SignedHttp, sandbox: Sandbox) -> None:
    """The field success is true, free_bet_id identifies the grant, message is text (spec §2.3)."""
    status, body = outcome(http.grant(terms(sandbox.instance_id)))
    assert (status, list(body), body["success"]) == (200, ["success", "free_bet_id", "message"], True)
    assert body["free_bet_id"]
    assert body["message"]


def test_each_grant_has_an_id_of_its_own(http: SignedHttp, sandbox: Sandbox) -> None:
    """free_bet_id identifies the grant (spec §4.2)."""
    ids = {http.grant(terms(sandbox.instance_id)).json()["free_bet_id"] for _ in range(5)}
    assert len(ids) == 5


LIMITS = [
    pytest.param("count", -1, "INVALID_COUNT", id="count -1"),
    pytest.param("count", 0, "INVALID_COUNT", id="count 0"),
    pytest.param("count", 1, None, id="count 1"),
    pytest.param("count", 50, None, id="count 50"),
    pytest.param("count", 51, "COUNT_TOO_HIGH", id="count 51"),
    pytest.param("count", 10**30, "COUNT_TOO_HIGH", id="count 10^30"),
    pytest.param("wager_amount_cents", -100, "INVALID_WAGER_AMOUNT", id="wager -100"),
    pytest.param("wager_amount_cents", 0, "INVALID_WAGER_AMOUNT", id="wager 0"),
    pytest.param("wager_amount_cents", 1, None, id="wager 1"),
    pytest.param("wager_amount_cents", 1_000_000, None, id="wager 1000000"),
    pytest.param("wager_amount_cents", 1_000_001, "WAGER_AMOUNT_TOO_HIGH", id="wager 1000001"),
    pytest.param("expire_duration_millis", -1, "INVALID_EXPIRE_DURATION", id="duration -1"),
    pytest.param("expire_duration_millis", 0, "INVALID_EXPIRE_DURATION", id="duration 0"),
    pytest.param("expire_duration_millis", 1, None, id="duration 1"),
    pytest.param("expire_duration_millis", 2_592_000_000, None, id="duration of 30 days"),
    pytest.param("expire_duration_millis", 2_592_000_001, "EXPIRE_DURATION_TOO_LONG", id="a millisecond more"),
    pytest.param("player_id", "", "EMPTY_PLAYER_ID", id="no player"),
    pytest.param("player_id", " \t\n\u3000", "EMPTY_PLAYER_ID", id="a player of spaces"),
    pytest.param("player_id", "p", None, id="a player of 1 character"),
    pytest.param("player_id", "日" * 100, None, id="a player of 100 characters"),
    pytest.param("player_id", "日" * 101, "PLAYER_ID_TOO_LONG", id="a player of 101 characters"),
    pytest.param("player_id", "😀" * 100, None, id="a player of 100 characters beyond the basic plane"),
    pytest.param("reference_id", "", "EMPTY_REFERENCE_ID", id="no reference"),
    pytest.param("reference_id", "   ", "EMPTY_REFERENCE_ID", id="a reference of spaces"),
    pytest.param("reference_id", "r", None, id="a reference of 1 character"),
    pytest.param("reference_id", "r" * 100, None, id="a reference of 100 characters"),
    pytest.param("reference_id", "r" * 101, "REFERENCE_ID_TOO_LONG", id="a reference of 101 characters"),
    pytest.param("instance_id", "", "INVALID_INSTANCE_ID", id="no instance"),
    pytest.param("instance_id", "0" * 23, "INVALID_INSTANCE_ID", id="an instance id of 23 digits"),
    pytest.param("instance_id", "0" * 25, "INVALID_INSTANCE_ID", id="an instance id of 25 digits"),
    pytest.param("instance_id", "F" * 24, "INVALID_INSTANCE_ID", id="an instance id in upper case"),
    pytest.param("instance_id", "0" * 24 + "\n", "INVALID_INSTANCE_ID", id="an instance id with a line break"),
    pytest.param("instance_id", "0" * 24, "INSTANCE_NOT_FOUND", id="an instance that does not exist"),
]


@pytest.mark.parametrize(("field", "value", "code"), LIMITS)
def test_limits_hold_on_both_sides(
    http: SignedHttp, sandbox: Sandbox, field: str, value: object, code: str | None
) -> None:
    """The service itself refuses what breaks a limit, by code and sentence, and nothing else (spec §2.2, §7.2, §8)."""
    answer = outcome(http.grant(terms(sandbox.instance_id, **{field: value})))
    assert answer[0] == 200 if code is None else answer == refused(code)


def test_all_thirteen_codes_are_reached() -> None:
    """The tables above, and the duplicates below, leave no code of spec §7.2 out."""
    reached = {str(case.values[2]) for case in LIMITS} - {"None"}
    assert reached | {"DUPLICATE_REFERENCE_ID"} == set(MESSAGES) == set(GrantErrorCode)


def test_a_reference_id_is_used_once_per_instance(http: SignedHttp, sandbox: Sandbox) -> None:
    """The same reference id on the same instance is refused, whatever else differs (spec §2.2, §7.2, §8)."""
    first = terms(sandbox.instance_id)
    assert http.grant(first).status_code == 200
    assert outcome(http.grant(first)) == refused("DUPLICATE_REFERENCE_ID")
    assert outcome(http.grant(first | {"player_id": "player-2", "count": 1})) == refused("DUPLICATE_REFERENCE_ID")


def test_a_reference_id_is_free_on_another_instance(http: SignedHttp, sandbox: Sandbox) -> None:
    """A reference id is unique per instance, not for the operator (spec §2.2, §8)."""
    first = terms(sandbox.instance_id)
    other = sandbox.world.games()[1].instances[0].id
    assert http.grant(first).status_code == 200
    assert http.grant(first | {"instance_id": other}).status_code == 200


@pytest.mark.parametrize("change", ["{} ", " {}", "{}x"], ids=["a space behind", "a space before", "a letter more"])
def test_reference_ids_are_compared_as_they_stand(http: SignedHttp, sandbox: Sandbox, change: str) -> None:
    """Only the very same reference id is a duplicate (spec §2.2; assumed: docs/decisions/0017)."""
    first = terms(sandbox.instance_id)
    assert http.grant(first).status_code == 200
    assert http.grant(first | {"reference_id": change.format(first["reference_id"])}).status_code == 200


def test_a_refused_grant_uses_up_no_reference_id(http: SignedHttp, sandbox: Sandbox) -> None:
    """After a refusal nothing was granted, so the reference id is still free (spec §7.2)."""
    asked = terms(sandbox.instance_id)
    assert outcome(http.grant(asked | {"count": 51})) == refused("COUNT_TOO_HIGH")
    assert http.grant(asked).status_code == 200


def test_of_sixteen_that_race_one_is_granted(http: SignedHttp, sandbox: Sandbox) -> None:
    """A reference id is unique per instance, however many ask at once (spec §2.2)."""
    asked = terms(sandbox.instance_id)
    with ThreadPoolExecutor(16) as threads:
        answers = [outcome(response) for response in threads.map(http.grant, [asked] * 16)]
    assert [status for status, _ in answers].count(200) == 1
    assert [answer for answer in answers if answer[0] == 400] == [refused("DUPLICATE_REFERENCE_ID")] * 15


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param({"instance_id": "no instance id"}, "INVALID_INSTANCE_ID", id="another format"),
        pytest.param({"instance_id": "0" * 24}, "INSTANCE_NOT_FOUND", id="an unknown instance"),
        pytest.param({}, "DUPLICATE_REFERENCE_ID", id="a reference id used before"),
    ],
)
def test_the_client_tells_what_only_the_service_knows(
    ask: Asker, http: SignedHttp, sandbox: Sandbox, change: dict[str, str], code: str
) -> None:
    """Such a grant is sent, and refused in the service's words (spec §2.3, §7.2)."""
    asked = terms(sandbox.instance_id)
    assert http.grant(asked).status_code == 200
    with pytest.raises(FreeBetRejectedError) as rejected:
        ask.grant_free_bet(**(asked | change))
    error = rejected.value
    assert (error.error_code, error.message, error.attempts) == (GrantErrorCode(code), MESSAGES[code], 1)
    assert (error.status_code, error.reference_id) == (400, asked["reference_id"])


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param({"count": 51}, "COUNT_TOO_HIGH", id="count"),
        pytest.param({"wager_amount_cents": 0}, "INVALID_WAGER_AMOUNT", id="wager"),
        pytest.param({"reference_id": " "}, "EMPTY_REFERENCE_ID", id="reference"),
    ],
)
def test_client_and_service_refuse_alike(
    ask: Asker, http: SignedHttp, sandbox: Sandbox, change: dict[str, Any], code: str
) -> None:
    """What the client refuses before sending, the service refuses with the same code and text (spec §7.2, §8)."""
    asked = terms(sandbox.instance_id) | change
    with pytest.raises(FreeBetRejectedError) as rejected:
        ask.grant_free_bet(**asked)
    assert rejected.value.attempts == 0
    said = {"success": False, "message": rejected.value.message, "error_code": str(rejected.value.error_code)}
    assert outcome(http.grant(asked)) == (400, said) == refused(code)


@pytest.mark.parametrize(
    ("written", "count"),
    [
        pytest.param("5", 5, id="5"),
        pytest.param("5.0", 5, id="5.0"),
        pytest.param("0.5e1", 5, id="0.5e1"),
        pytest.param('"5"', None, id="text"),
        pytest.param("5.5", None, id="5.5"),
        pytest.param("true", None, id="true"),
        pytest.param("null", None, id="null"),
        pytest.param("[5]", None, id="a list"),
        pytest.param("NaN", None, id="NaN"),
        pytest.param("1e400", None, id="1e400"),
    ],
)
def test_a_number_is_a_whole_json_number(http: SignedHttp, sandbox: Sandbox, written: str, count: int | None) -> None:
    """The count is a number: 5.0 is 5, and nothing else stands for it (spec §2.2; docs/decisions/0002)."""
    reference_id = fresh_reference()
    body = (
        f'{{"player_id":"p","instance_id":"{sandbox.instance_id}","count":{written},"wager_amount_cents":100,'
        f'"expire_duration_millis":1000,"reference_id":"{reference_id}"}}'
    )
    answer = outcome(http.grant(body.encode()))
    kept = [grant.request.count for grant in sandbox.world.grants() if grant.request.reference_id == reference_id]
    assert (kept == [count], answer[0]) == (True, 200) if count else (kept, answer) == ([], INVALID)


@pytest.mark.parametrize("field", list(terms("0" * 24)))
def test_every_field_is_required(http: SignedHttp, sandbox: Sandbox, field: str) -> None:
    """A request without one of its six fields cannot be read (spec §2.2; the answer: docs/decisions/0004)."""
    asked = terms(sandbox.instance_id)
    del asked[field]
    assert outcome(http.grant(asked)) == INVALID


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"null", id="null"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"player_id"', id="truncated"),
        pytest.param(b"\xff\xfe{}", id="no UTF-8"),
        pytest.param(b'\xef\xbb\xbf{"count":1}', id="a byte order mark"),
    ],
)
def test_a_body_that_cannot_be_read_grants_nothing(http: SignedHttp, body: bytes) -> None:
    """Grant with an unreadable body: 400 with error (spec §4.2, §7.3; assumed: docs/decisions/0004)."""
    assert outcome(http.grant(body)) == INVALID


@pytest.mark.parametrize("field", ["player_id", "instance_id", "reference_id"])
def test_an_id_is_text(http: SignedHttp, sandbox: Sandbox, field: str) -> None:
    """The ids are strings, and a number is none (spec §2.2)."""
    assert outcome(http.grant(terms(sandbox.instance_id, **{field: 7}))) == INVALID


def test_unknown_fields_do_no_harm(http: SignedHttp, sandbox: Sandbox) -> None:
    """A field that the specification does not name is ignored (spec §2.2)."""
    assert http.grant(terms(sandbox.instance_id, note={"campaign": "spring"})).status_code == 200
