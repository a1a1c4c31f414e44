"""What a certification is made with: one value, whose key no error shows."""

import traceback
from typing import Any

import pytest

from game_operator.errors import ConfigurationError, SigningKeyError
from game_operator.protocol.http import HttpReply
from game_operator_testkit.certifier import Certification, certify, certify_in_process

_PEM = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"
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
    ],
)
def test_what_is_checked_without_the_wallet(settings: dict[str, Any], problem: str) -> None:
    """Before anything is sent."""
    certification = Certification(**_GIVEN | settings)
    if not problem:
        certification.check()
        return
    with pytest.raises(ConfigurationError, match=problem):
        certification.check()
