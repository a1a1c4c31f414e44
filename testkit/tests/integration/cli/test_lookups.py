"""`game-operator bet` and `round`: what became of a wager (spec §2.4, §2.8, §4.2)."""

import pytest

from game_operator_testkit.sandbox import Sandbox
from tests.support.command_line import Run

pytestmark = pytest.mark.outside


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
