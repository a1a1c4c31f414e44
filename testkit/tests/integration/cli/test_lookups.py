"""`game-operator bet` and `round`: what became of a wager (spec §2.4, §2.8, §4.2)."""

import pytest

from game_operator_testkit.sandbox import Sandbox
from tests.support.command_line import CannedService, Reply, Run, said
from tests.support.wire import bet, round_of, wire

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


@pytest.mark.parametrize("name", ["OPEN", "CLOSED", "ROLLED_BACK"])
def test_the_sandboxs_bets(run: Run, settings: dict[str, str], sandbox: Sandbox, name: str) -> None:
    """Signed by the registered key, over real HTTP (spec §4.2, §5)."""
    bet_id = sandbox.bet_ids[name]
    assert (said(run("bet", bet_id).out)["status"], said(run("bet", bet_id).out)["reference id"]) == (name, bet_id)


@pytest.mark.parametrize("bet_id", ["nope", "a/b", "50%", "..%2f", "日本", "a b", "--json"])
def test_a_bet_that_is_not_there_is_an_answer(run: Run, settings: dict[str, str], bet_id: str) -> None:
    """NOT_FOUND is no failure (spec §4.2); any id reaches the service as one path segment."""
    told = run("bet", "--", bet_id)
    assert (told.code, told.out) == (0, "NOT_FOUND: there is no such bet, or it is older than 90 days.\n")
    assert run("bet", "--json", "--", bet_id).document == {"status": "NOT_FOUND"}


@pytest.mark.parametrize("bet_id", ["", ".", "..", "\udcff"])
def test_a_bet_id_that_cannot_travel_is_refused(run: Run, settings: dict[str, str], bet_id: str) -> None:
    """It would name another address; said before anything is sent."""
    assert run("bet", bet_id).code == 1
    error = run("bet", bet_id, "--json").error
    assert (error["type"], error["attempts"], error["service_message"]) == ("BadRequestError", 0, "Invalid request")


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


def test_the_table_of_a_round(run: Run, settings: dict[str, str]) -> None:
    """Amounts in currency units; nothing is won by a bet that is not closed (spec §2.4)."""
    body = round_of(bet(), bet("CLOSED", reference_id="bet-2"), bet("CLOSED", won=0), bet("ROLLED_BACK"))
    with CannedService([Reply(body=wire(body))]) as service:
        out = run("round", "--instance=instance-1", "--no=12", "--base-url", service.base_url).out
    rows = [[each.strip() for each in line.strip("│").split("│")] for line in out.splitlines() if line[0] == "│"]
    when = "2023-11-14 22:13:20.123"
    assert rows == [
        ["bet-1", "player-1", "OPEN", "5.00", "–", when],
        ["bet-2", "player-1", "CLOSED", "5.00", "12.50", when],
        ["bet-1", "player-1", "CLOSED", "5.00", "0.00", when],
        ["bet-1", "player-1", "ROLLED_BACK", "5.00", "–", when],
    ]


def test_a_round_without_bets(run: Run, settings: dict[str, str], sandbox: Sandbox) -> None:
    """OK with no bets, which is not the same as not found (spec §4.2)."""
    args = ("round", "--instance", sandbox.instance_id, "--id", sandbox.landmarks.empty_round_id)
    assert run(*args).out.splitlines()[-1] == "The round has no bets."
    assert (run(*args, "--json").document["status"], run(*args, "--json").document["bets"]) == ("OK", [])


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
