"""``game-operator case``: a case file from the command line, with its exit codes."""

import pytest

from game_operator.ledger import SqlLedger
from game_operator_testkit.sandbox import Sandbox
from tests.support.calls import deposit, with_body, withdraw
from tests.support.command_line import Run


@pytest.fixture
def database(database: str) -> str:
    """A ledger with the closed bet b1 of p1; its address."""
    with SqlLedger(database) as ledger:
        for call in (withdraw(), deposit()):
            ledger.apply(with_body(call))
    return database


def test_a_case_for_people(run: Run, database: str) -> None:
    """The summary, the bet, its calls and postings, what is not kept, and the hash."""
    told = run("case", "b1", "--database", database)
    assert (told.code, told.err) == (0, "")
    lines = told.out.splitlines()
    assert lines[:2] == ["The ledger has the bet as CLOSED.", "The provider was not asked."]
    assert lines[-1].startswith("digest  ")
    for part in (
        "withdraw:bet:b1",
        "deposit:bet:b1",
        "12.50",
        "-5.00",
        "The bet was settled by a call of the provider.",
    ):
        assert part in told.out


def test_a_bet_that_nobody_knows_is_1(run: Run, database: str) -> None:
    """There is a case file all the same."""
    told = run("case", "nobody's", "--database", database)
    assert (told.code, told.err) == (1, "")
    assert told.out.startswith("Nobody knows this bet")
    told = run("case", "nobody's", "--database", database, "--json")
    assert (told.code, told.document["contents"]["is_known"]) == (1, False)
    assert run("case", "b1", "--source", "elsewhere", "--database", database).code == 1


def test_the_provider_is_asked_unless_offline(
    run: Run, database: str, settings: dict[str, str], sandbox: Sandbox
) -> None:
    """It is known by its answer alone; --offline leaves that out."""
    bet_id = sandbox.bet_ids["CLOSED"]
    told = run("case", bet_id, "--database", database, "--json")
    assert (told.code, told.document["contents"]["provider"]["answer"]["status"]) == (0, "CLOSED")
    told = run("case", bet_id, "--database", database, "--offline", "--json")
    assert (told.code, told.document["contents"]["provider"]["was_asked"]) == (1, False)
