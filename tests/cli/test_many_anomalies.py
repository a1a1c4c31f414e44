"""`game-operator ledger anomalies|resolve|retry` for many at once, those of a certification too."""

from decimal import Decimal
from typing import Any

import pytest

from game_operator.errors import LedgerUnavailableError
from game_operator.ledger import SqlLedger
from game_operator.models.webhooks import WebhookCall
from game_operator.profile import Profile
from game_operator.protocol.webhook import encode_call, read_call
from tests.support.calls import claim, deposit, rollback, withdraw
from tests.support.command_line import Run
from tests.support.raw_sql import run as run_sql

pytestmark = [pytest.mark.drawn(6, any_database=("postgres",))]

EARLY = ("a-1", "a-2", "b-1")
FOREIGN = encode_call(claim("claim-9", player_id="p2", bet_id="a-9", instance_id="theirs"))


@pytest.fixture
def database(any_database: str) -> str:
    """
    A ledger of each kind, named by the environment.

    Three early deposits (1, 2, 3), whose withdraws have come since; an early rollback (4), a stranger's claim (5) and
    a body that cannot be read (6).
    """
    calls: list[WebhookCall] = [deposit(bet_id, player_id="p2" if bet_id == "a-2" else "p1") for bet_id in EARLY]
    calls += [rollback("c-1", tx_id="withdraw:bet:c-1")]
    calls += [withdraw(bet_id, player_id="p2" if bet_id == "a-2" else "p1") for bet_id in EARLY]
    with SqlLedger(any_database) as ledger:
        for player_id in ("p1", "p2"):
            ledger.open_account(player_id, Decimal(100))
        for call in calls:
            ledger.apply(read_call(call.operation, encode_call(call), Profile())[0])
        ledger.keep_anomaly("deposit", "foreign_instance", FOREIGN)
        ledger.keep_anomaly("deposit", "unreadable", b'{"player":"p1","bet":"a-8"')
    return any_database


def waiting(url: str) -> list[int]:
    """Return the numbers of the anomalies that are not resolved."""
    with SqlLedger(url) as ledger:
        return [record.id for record in ledger.anomalies()]


LISTED: dict[str, tuple[tuple[str, ...], list[int]]] = {
    "all": ((), [1, 2, 3, 4, 5, 6]),
    "a kind": (("--kind", "early_deposit"), [1, 2, 3]),
    "two kinds": (("--kind", "early_rollback,unreadable"), [4, 6]),
    "a kind more than once": (("--kind", "early_rollback", "--kind", "unreadable"), [4, 6]),
    "a player, in a body that was refused too": (("--player", "p2"), [2, 5]),
    "ids that begin so": (("--id-prefix", "a-"), [1, 2, 5, 6]),
    "transactions that begin so": (("--id-prefix", "deposit:bet:b"), [3]),
    "of the last hour": (("--since", "1h"), [2, 3, 4, 5, 6]),
    "before": (("--until", "1h"), [1]),
    "in UTC": (("--since", "2001-09-09T01:46:39Z", "--until", "2001-09-09T01:46:41"), [1]),
    "with its own zone, and not at the end": (("--until", "2001-09-09 03:46:40+02:00"), []),
    "another source": (("--source", "other"), []),
}


def test_which_are_listed(run: Run, database: str) -> None:
    """Those that all options let through."""
    then = 1_000_000_000_000
    run_sql(database, "UPDATE {p}anomalies SET first_at_millis = ?, last_at_millis = ? WHERE id = 1", then, then)
    listed = {
        case: [each["id"] for each in run("ledger", "anomalies", *options, "--json").document["anomalies"]]
        for case, (options, _) in LISTED.items()
    }
    assert listed == {case: ids for case, (_, ids) in LISTED.items()}


def test_several_are_resolved(run: Run, database: str) -> None:
    """By their numbers: each, or none of them."""
    told = run("ledger", "resolve", 4, 99, 6)
    assert (told.code, waiting(database)) == (1, [1, 2, 3, 4, 5, 6])
    assert run("ledger", "resolve", 4, 6, 4).out == "Resolved: 2.\n"
    assert run("ledger", "resolve", 1, 2, "--json").document == {"resolved": [1, 2]}
    assert waiting(database) == [3, 5]


def test_several_are_retried(run: Run, database: str) -> None:
    """Each for itself: what cannot be retried says why, and the others are paid."""
    document = run("ledger", "retry", 1, 5, 6, "--json").document["retried"]
    assert document[0] == {
        "id": 1,
        "resolved": True,
        "code": None,
        "applied": True,
        "replayed": False,
        "balance": 102.5,
    }
    assert [each["resolved"] for each in document] == [True, False, False]
    assert "names a game instance" in document[1]["error"]
    told = run("ledger", "retry", 3, 6)
    assert (told.code, told.out.splitlines()[0]) == (1, "Resolved: 1 of 2.")
    assert "115.00" in told.out
    unknown = run("ledger", "retry", 99, f"{1 << 63}", "--json")
    assert (unknown.code, "`game-operator ledger anomalies`" in unknown.document["retried"][0]["error"]) == (1, True)


def test_an_unknown_source_is_one_of_many(run: Run, database: str) -> None:
    """The others are paid, and a retry that is refused is not one more call of the service."""
    with SqlLedger(database) as ledger:
        ledger.keep_anomaly("deposit", "unknown_source", encode_call(deposit("a-1")), source="other")
    told = run("ledger", "retry", 7, 1, "--json")
    unknown, paid = told.document["retried"]
    assert (told.code, unknown["id"], unknown["resolved"], paid["applied"]) == (1, 7, False, True)
    assert "ledger add-source other" in unknown["error"]
    assert run("ledger", "retry", 7).code == 1
    with SqlLedger(database) as ledger:
        assert [record.seen for record in ledger.anomalies(source="other")] == [1]


def test_what_was_done_before_a_failure_is_shown(run: Run, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger fails at the second of three."""
    retry = SqlLedger.retry

    def fails_at_2(self: SqlLedger, anomaly_id: int, *args: Any, **options: Any) -> Any:
        if anomaly_id == 2:
            raise LedgerUnavailableError("It is gone.")
        return retry(self, anomaly_id, *args, **options)

    monkeypatch.setattr(SqlLedger, "retry", fails_at_2)
    told = run("ledger", "retry", 1, 2, 3, "--json")
    assert told.code == 3
    assert [(each["id"], each["resolved"]) for each in told.document["retried"]] == [(1, True), (2, False)]
    assert "It is gone." in told.document["retried"][1]["error"]
    assert waiting(database) == [2, 3, 4, 5, 6]


def test_no_stranger_is_paid_unless_it_is_said(run: Run, database: str) -> None:
    """Each of all is tried, and those that are ours are paid once."""
    told = run("ledger", "retry", *range(1, 7), "--json")
    assert told.code == 1
    resolved = {each["id"]: each["resolved"] for each in told.document["retried"]}
    assert resolved == {1: True, 2: True, 3: True, 4: False, 5: False, 6: False}
    with SqlLedger(database) as ledger:
        assert (ledger.balance("p1"), ledger.balance("p2")) == (10_000 + 2 * 750, 10_000 + 750)
    assert run("ledger", "retry", 5, "--accept-foreign").code == 0
    with SqlLedger(database) as ledger:
        assert ledger.balance("p2") == 10_000 + 750 + 300
