"""`game-operator bet` and `round`: what became of a wager (spec §2.4, §2.8, §4.2)."""

import pytest

from game_operator_testkit.sandbox import Sandbox
from tests.support.command_line import CannedService, Reply, Run, said
from tests.support.wire import bet, wire

pytestmark = pytest.mark.outside


@pytest.mark.parametrize("state", ["OPEN", "CLOSED", "ROLLED_BACK"])
def test_a_bet_in_each_state(run: Run, settings: dict[str, str], state: str) -> None:
    """Cents as currency units, the time in UTC; `won` of a closed bet alone (spec §2.4)."""
    with CannedService([Reply(body=wire(bet(state)))]) as service:
        told = run("bet", "bet-1", "--base-url", service.base_url)
        document = run("bet", "bet-1", "--base-url", service.base_url, "--json").document
    assert (told.code, told.err) == (0, "")
    won = {"won": "12.50"} if state == "CLOSED" else {}
    assert said(told.out) == {
        "reference id": "bet-1",
        "status": state,
        "player id": "player-1",
        "round id": "round-1",
        "instance id": "instance-1",
        "game": "crash",
        "wager": "5.00",
        **won,
        "placed at (UTC)": "2023-11-14 22:13:20.123",
    }
    assert document == bet(state)


@pytest.mark.parametrize("by", ["--id", "--no"])
def test_a_round_by_id_and_by_number(run: Run, settings: dict[str, str], sandbox: Sandbox, by: str) -> None:
    """Both find the same round with its bets (spec §2.8, §4.2)."""
    key = sandbox.round_id if "id" in by else sandbox.round_no
    told = run("round", "--instance", sandbox.instance_id, by, key)
    document = run("round", "--instance", sandbox.instance_id, by, key, "--json").document
    assert (told.code, told.err) == (0, "")
    assert (document["round_id"], document["round_no"]) == (sandbox.round_id, sandbox.round_no)
    facts = said(told.out)
    assert (facts["round id"], facts["round no"]) == (sandbox.round_id, str(sandbox.round_no))
    assert document["bets"]
    assert all(each["reference_id"] in told.out for each in document["bets"])


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(("--no", "999999"), id="unknown number"),
        pytest.param(("--id", "nope"), id="unknown id"),
        pytest.param(("--id", "nope", "--no", "4127"), id="the id counts, not the number"),
    ],
)
def test_a_round_that_is_not_there_is_an_answer(
    run: Run, settings: dict[str, str], sandbox: Sandbox, args: tuple[str, ...]
) -> None:
    """NOT_FOUND, also when only the number would find it (spec §4.2)."""
    told = run("round", "--instance", sandbox.instance_id, *args)
    assert (told.code, told.out.partition(":")[0]) == (0, "NOT_FOUND")
    assert run("round", "--instance", sandbox.instance_id, *args, "--json").document == {"status": "NOT_FOUND"}
