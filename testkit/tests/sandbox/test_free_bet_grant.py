"""free-bet/grant, from the operator's viewpoint (spec §2.2, §2.3, §4.2, §7.2, §8)."""

import pytest

from game_operator import FreeBetRejectedError, GrantAccepted, GrantErrorCode, OperatorClient
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.sandbox.support import terms
from tests.support.signed_http import SignedHttp
from tests.test_codes import MESSAGES


def test_free_bets_are_granted(client: OperatorClient, sandbox: Sandbox) -> None:
    """The answer says so and names the grant, which the service then has, as asked (spec §2.2, §2.3, §4.2)."""
    asked = terms(sandbox.instance_id)
    granted = client.grant_free_bet(**asked)
    assert isinstance(granted, GrantAccepted)
    (kept,) = [grant for grant in sandbox.world.grants() if grant.request.reference_id == asked["reference_id"]]
    assert (kept.request.model_dump(), kept.free_bet_id) == (asked, granted.free_bet_id)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param({"instance_id": "no instance id"}, "INVALID_INSTANCE_ID", id="another format"),
        pytest.param({"instance_id": "0" * 24}, "INSTANCE_NOT_FOUND", id="an unknown instance"),
        pytest.param({}, "DUPLICATE_REFERENCE_ID", id="a reference id used before"),
    ],
)
def test_the_client_tells_what_only_the_service_knows(
    client: OperatorClient, http: SignedHttp, sandbox: Sandbox, change: dict[str, str], code: str
) -> None:
    """Such a grant is sent, and refused in the service's words (spec §2.3, §7.2)."""
    asked = terms(sandbox.instance_id)
    assert http.grant(asked).status_code == 200
    with pytest.raises(FreeBetRejectedError) as rejected:
        client.grant_free_bet(**(asked | change))
    error = rejected.value
    assert (error.error_code, error.message, error.attempts) == (GrantErrorCode(code), MESSAGES[code], 1)
    assert (error.status_code, error.reference_id) == (400, asked["reference_id"])
