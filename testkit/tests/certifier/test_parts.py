"""What a certification is made of: its settings, bodies under a profile's names, what codes mean, the scenarios."""

import json
import traceback
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.codes import WebhookErrorCode
from game_operator.errors import ConfigurationError, SigningKeyError
from game_operator.models.webhooks import BalanceCall, DepositCall, FreeBet, RollbackCall, WebhookCall, WithdrawCall
from game_operator.profile import Profile
from game_operator.protocol.http import HttpReply
from game_operator.protocol.webhook import encode_call, read_call
from game_operator_testkit.certifier import Certification, certify, certify_in_process
from game_operator_testkit.certifier.engine.scenario import STAGES
from game_operator_testkit.certifier.report.report import ALL
from game_operator_testkit.certifier.scenarios.bodies import MISSING, with_field
from game_operator_testkit.certifier.selection import in_playing_order, scenarios, selected
from game_operator_testkit.provider.bodies import BodyWriter
from game_operator_testkit.provider.delivery import Finality, finality

CALLS: list[WebhookCall] = [
    WithdrawCall(player_id="p", bet_id="b", amount_cents=5, instance_id="i", game="g"),
    DepositCall(player_id="p", bet_id="b", amount_cents=5, wager_cents=3, won_cents=5, round_id="r"),
    DepositCall(
        player_id="p", bet_id="b", amount_cents=5, action="FREE_BET_CLAIM", free_bets=(FreeBet(id="f", won_cents=5),)
    ),
    RollbackCall(player_id="p", bet_id="b", tx_id="withdraw:bet:b", amount_cents=5, round_id="r"),
    BalanceCall(player_id="p"),
]
OTHER_NAMES = Profile(
    fields={
        "player_id": ("user",),
        "bet_id": ("bet.id",),
        "tx_id": ("bet.tx",),
        "amount_cents": ("cents",),
        "amount_cents.withdraw": ("stake",),
        "amount_cents.deposit": ("win",),
        "action.deposit": ("what.kind",),
    }
)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.operation}")
def test_bodies_are_those_of_the_service(call: WebhookCall) -> None:
    """With the default profile they are what the package's own writer writes (docs/decisions/0010)."""
    assert json.loads(BodyWriter(Profile()).encoded(call)) == json.loads(encode_call(call))


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.operation}")
def test_bodies_are_read_again_under_other_names(call: WebhookCall) -> None:
    """A wallet with the same profile reads what was meant."""
    body = BodyWriter(OTHER_NAMES).encoded(call)
    assert b"player_id" not in body
    assert read_call(call.operation, body, OTHER_NAMES)[0] == call


def test_fields_of_a_body() -> None:
    """They are changed in a copy, inner ones too."""
    body = {"a": {"b": 1, "c": 2}, "d": 3}
    assert with_field(body, "a.b", None) == {"a": {"b": None, "c": 2}, "d": 3}
    assert with_field(body, "a.b", MISSING) == {"a": {"c": 2}, "d": 3}
    assert with_field(body, "d", MISSING) == {"a": {"b": 1, "c": 2}}
    assert body == {"a": {"b": 1, "c": 2}, "d": 3}


@pytest.mark.parametrize("code", [*WebhookErrorCode, "HOUSE_RULES"])
@pytest.mark.parametrize("operation", ["withdraw", "deposit", "rollback", "player-balance"])
def test_what_a_code_lets_conclude(operation: str, code: str) -> None:
    """Only what may still succeed is sent again (docs/decisions/0013)."""
    due = Finality.FINAL
    early = operation == "deposit" and code in ("BET_NOT_FOUND", "PLAYER_NOT_FOUND")
    if code in ("SYSTEM_ERROR", "INVALID_SIGNATURE") or early:
        due = Finality.REPEAT
    elif code == "HOUSE_RULES" and operation != "withdraw":
        due = Finality.STRANGE
    assert finality(operation, code) is due


def test_the_choice_of_scenarios() -> None:
    """By group or id, in any case, as a sequence or as text."""
    assert {each.group for each in selected(("a",), ())} == {"A"}
    assert [each.id for each in selected("A01,a02", ())] == ["A01", "A02"]
    assert {each.id for each in selected("A", "A01 A02")} == {each.id for each in scenarios() if each.group == "A"} - {
        "A01",
        "A02",
    }
    assert selected((), ()) == scenarios()


@pytest.mark.parametrize(
    ("only", "skip", "message"),
    [
        pytest.param(("Z",), (), "no scenario or group 'Z'", id="no such group"),
        pytest.param((), ("A99",), "no scenario or group 'A99'", id="no such scenario"),
        pytest.param(("A01",), ("A",), "No scenario is left", id="nothing left"),
    ],
)
def test_a_choice_that_cannot_be(only: tuple[str, ...], skip: tuple[str, ...], message: str) -> None:
    """It is told before anything is sent."""
    with pytest.raises(ConfigurationError, match=message):
        selected(only, skip)


def test_stages_follow_each_other() -> None:
    """In turn, at once, hostile, load; each in the order of ids."""
    ordered = in_playing_order(scenarios())
    places = [(STAGES.index(each.stage), each.id) for each in ordered]
    assert places == sorted(places)
    assert len(ordered) == len(scenarios())


def test_every_scenario_is_told_in_full() -> None:
    """Title, means, fix, and what it rests on: sections of the specification or decision notes that exist."""
    ids = [each.id for each in scenarios()]
    assert len(ids) == len(set(ids))
    for each in scenarios():
        assert all((each.title, each.means, each.fix)), each.id
        assert each.play.__doc__, each.id
        for rests_on in each.rests_on:
            assert rests_on.startswith(("spec §", "decision 00")), each.id
        assert set(each.explains) <= {*ids, ALL}, each.id
        assert each.id not in each.explains


_PEM = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"
_READS_BY_A_FUNCTION = Profile(parse=lambda operation, body: BalanceCall(player_id="p"))
_GIVEN: dict[str, Any] = {"signing_key": _PEM, "player_id": "p1", "other_player_id": "p2"}


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        pytest.param({}, SigningKeyError, id="the key is invalid"),
        pytest.param({"wager": 1}, TypeError, id="an unknown setting"),
    ],
)
@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(lambda given: certify("http://127.0.0.1:9", **given), id="over HTTP"),
        pytest.param(lambda given: certify_in_process(lambda *_: HttpReply(200, {}, b""), **given), id="in process"),
    ],
)
def test_no_error_leads_to_the_key(begin: Any, settings: dict[str, Any], kind: type[Exception]) -> None:
    """Error trackers show the locals of each frame that an error passes."""
    with pytest.raises(kind) as raised:
        begin(_GIVEN | settings)
    ours = [
        frame for frame, _ in traceback.walk_tb(raised.value.__traceback__) if "tests" not in frame.f_code.co_filename
    ]
    assert ours
    assert not [frame for frame in ours if "c2VjcmV0" in repr(frame.f_locals)]


def test_what_was_given_is_shown_without_the_key() -> None:
    """And cannot change."""
    certification = Certification(**_GIVEN)
    assert "c2VjcmV0" not in repr(certification)
    with pytest.raises(AttributeError):
        certification.player_id = "p3"  # type: ignore[misc] # that is the point


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        pytest.param({}, "", id="nothing"),
        pytest.param({"run_id": "r" * 64}, "", id="a long run_id"),
        pytest.param({"run_id": "r" * 65}, "cannot be used. Pass 1 to 64", id="a run_id that is too long"),
        pytest.param({"player_id": "p2"}, "^Both players are the same", id="one player"),
        pytest.param({"player_id": ""}, "^The player '' is invalid", id="no player"),
        pytest.param({"other_player_id": ""}, "^The other player '' is invalid", id="no other player"),
        pytest.param({"game": "g" * 257}, "The game 'ggg", id="a long game"),
        pytest.param({"profile": _READS_BY_A_FUNCTION}, "function of your own", id="nobody writes for a function"),
    ],
)
def test_what_is_checked_without_the_wallet(settings: dict[str, Any], problem: str, private_key: RSAPrivateKey) -> None:
    """Before anything is sent: what this wallet answers would be the problem."""
    given = _GIVEN | settings | {"signing_key": private_key}
    if not problem:
        Certification(**given).check()
        return
    with pytest.raises(ConfigurationError, match=problem):
        certify_in_process(lambda *_: HttpReply(200, {}, b""), **given)
