"""A case file holds what ledger, journal and provider know of a bet, and says what is not kept (spec §2.4, §2.8)."""

import json
import time
from collections.abc import Iterator
from decimal import Decimal
from hashlib import sha256
from typing import Any

import httpx
import pytest

from game_operator import OperatorClient
from game_operator.backoffice import case_file
from game_operator.ledger import SqlLedger
from game_operator.ledger.staff.repairs import Repair
from game_operator.ledger.steps import Steps
from game_operator.models.webhooks import WebhookCall
from game_operator.protocol.webhook import encode_call
from game_operator.wallet import Wallet
from game_operator_testkit.sandbox.in_process import InProcessSandbox
from testkit.tests.support.reconciling import KEYS
from tests.support.calls import claim, deposit, rollback, with_body, withdraw

pytestmark = [pytest.mark.drawn(6, database_url=("postgres",))]


def played(ledger: SqlLedger, *calls: WebhookCall) -> None:
    """Apply *calls*, each as it is read from its body."""
    for call in calls:
        ledger.apply(with_body(call))


@pytest.fixture
def sandbox() -> Iterator[InProcessSandbox]:
    """A service in this process."""
    with InProcessSandbox(keys=KEYS) as sandbox:
        yield sandbox


def in_round(ledger: SqlLedger, sandbox: InProcessSandbox, **options: Any) -> str:
    """Play a round of p1 against *ledger*; return the bet's id."""
    sandbox.wallet = Wallet(ledger)
    return sandbox.play_round(player_id="p1", wager_cents=500, **options).bet_ids[0]


def test_all_rows_of_a_settled_bet(ledger: SqlLedger) -> None:
    """Bet, calls, postings with their sums, the account now; of the bodies what is kept, and no more is claimed."""
    played(ledger, withdraw("other"), withdraw(), deposit(), withdraw("b1-2"))
    case = case_file(ledger, "b1")
    of_ledger = case.contents["ledger"]
    assert case.is_known
    assert (of_ledger["bet"]["state"], of_ledger["bet"]["won_cents"]) == ("CLOSED", 1250)
    assert [each["operation"] for each in of_ledger["calls"]] == ["withdraw", "deposit"]
    moved = [(each["account"], each["delta_cents"], each["bet_total_cents"]) for each in of_ledger["postings"]]
    assert moved == [("p1", -500, -500), ("p1", 1250, 750)]
    assert of_ledger["account"] == {"account": "p1", "balance_cents": 100_000 - 1500 + 1250, "error": None}
    digest = sha256(encode_call(withdraw())).hexdigest()
    first, second = (each["body"] for each in of_ledger["calls"])
    assert (first["sha256"], first["kept"]) == (digest, None)
    assert (second["sha256"], second["kept"]) == (None, None)
    assert of_ledger["notes"][-1].startswith("The ledger does not keep signatures")
    assert case.contents["summary"] == ["The ledger has the bet as CLOSED.", "The provider was not asked."]


@pytest.mark.parametrize(
    ("calls", "operations", "deltas"),
    [
        pytest.param([withdraw(), rollback()], ["withdraw", "rollback"], [-500, 500], id="rolled back"),
        pytest.param([rollback()], ["rollback", "withdraw"], [], id="a tombstone holds its withdraw's identity"),
        pytest.param(
            [withdraw(), claim(bet_id="b1")], ["withdraw", "deposit"], [-500, 300], id="a claim names the bet"
        ),
        pytest.param([claim(bet_id="b1")], ["deposit"], [300], id="only a claim names the bet"),
    ],
)
def test_calls_are_found_by_their_identities(
    ledger: SqlLedger, calls: list[WebhookCall], operations: list[str], deltas: list[int]
) -> None:
    """By the indexes, in every state; they are those that ``history`` finds by reading all."""
    played(ledger, *calls, withdraw("b10"), claim("claim-2", bet_id="b10"))
    of_ledger = case_file(ledger, "b1").contents["ledger"]
    assert [each["operation"] for each in of_ledger["calls"]] == operations
    assert [each["delta_cents"] for each in of_ledger["postings"]] == deltas
    history = ledger.history("b1")
    assert {(each.operation, each.tx_id) for each in history.calls} == {
        (each["operation"], each["tx_id"]) for each in of_ledger["calls"]
    }
    assert [each.delta_cents for each in history.movements] == deltas


def test_anomalies_resolved_or_not(ledger: SqlLedger) -> None:
    """With their bodies, and what could not be read but holds the bet's id; who resolved one is not stored."""
    played(ledger, withdraw(), deposit(), deposit(tx_id="again", amount_cents=9))
    ledger.resolve(1)
    played(ledger, deposit(tx_id="more", amount_cents=7))
    ledger.keep_anomaly("deposit", "unreadable", b'{"bet": "b1", "amount": ')
    ledger.keep_anomaly("deposit", "unreadable", b'{"bet": "b10", "amount": ')
    found = case_file(ledger, "b1").contents["anomalies"]
    assert [(each["kind"], each["is_unreadable"]) for each in found] == [
        ("second_deposit", False),
        ("second_deposit", False),
        ("unreadable", True),
    ]
    assert found[0]["resolved_at_millis"] is not None
    assert found[1]["resolved_at_millis"] is None
    assert json.loads(found[1]["body"]["kept"]["data"])["tx_id"] == "more"
    assert case_file(ledger, "b1").contents["summary"][-1] == "Open: 2 anomalies, 0 findings."


def test_a_repaired_bet_and_the_deposit_that_came_late(ledger: SqlLedger) -> None:
    """It says who settled the bet, and that the provider's own call moved nothing."""

    def nothing(*_: object) -> Steps[None]:
        yield from ()

    played(ledger, withdraw())
    Wallet(ledger).repair(Repair(deposit(), "reconcile", nothing))
    of_ledger = case_file(ledger, "b1").contents["ledger"]
    assert of_ledger["notes"][0].startswith("The bet was settled by a repair of a reconciliation")
    assert [each["operation"] for each in of_ledger["postings"]] == ["withdraw", "reconcile"]
    time.sleep(0.002)  # Calls of one millisecond are in the order of their names.
    played(ledger, deposit())
    of_ledger = case_file(ledger, "b1").contents["ledger"]
    assert [each["operation"] for each in of_ledger["calls"]] == ["withdraw", "reconcile", "deposit"]
    assert [each["delta_cents"] for each in of_ledger["postings"]] == [-500, 1250]
    assert "The provider's own call came after the bet was settled here, and moved nothing." in of_ledger["notes"]


@pytest.mark.parametrize("cancel", [False, True], ids=["closed", "rolled back"])
def test_both_sides_agree(ledger: SqlLedger, sandbox: InProcessSandbox, cancel: bool) -> None:
    """The provider's answer with its time, beside our row."""
    bet_id = in_round(ledger, sandbox, cancel=cancel, **({} if cancel else {"won_cents": 900}))
    with sandbox.client() as client:
        contents = case_file(ledger, bet_id, client=client, clock_millis=lambda: 77).contents
    assert contents["comparison"]["agrees"] is True, contents["comparison"]
    provider = contents["provider"]
    assert (provider["service"], provider["asked_at_millis"]) == (f"{sandbox.base_url}|acme", 77)
    assert provider["answer"]["reference_id"] == bet_id
    assert json.loads(provider["body"]["data"])["reference_id"] == bet_id


@pytest.mark.parametrize(
    ("player_id", "wager_cents", "verdict", "text"),
    [
        ("p1", 500, "settle", "The provider has closed it; the win 9.00 is owed."),
        ("p1", 700, "amount_differs", "The wager is 7.00 here, and 5.00 there."),
        ("p2", 700, "player_differs", "The player is 'p2' here, and 'p1' there."),
    ],
)
def test_the_sides_differ(
    ledger: SqlLedger, sandbox: InProcessSandbox, player_id: str, wager_cents: int, verdict: str, text: str
) -> None:
    """As a reconciliation judges it; redacted, the verdict stays and the sentence goes."""
    bet_id = in_round(ledger, sandbox, won_cents=900)
    with SqlLedger("sqlite:///:memory:") as ours, sandbox.client() as client:
        ours.open_account(player_id, Decimal(100))
        ours.apply(withdraw(bet_id, player_id, wager_cents))
        case = case_file(ours, bet_id, client=client).contents
        redacted = case_file(ours, bet_id, client=client, redact=True).contents
    assert case["comparison"] == {"agrees": False, "verdict": verdict, "text": text}
    assert redacted["comparison"] == {"agrees": False, "verdict": verdict, "text": "[left out]"}
    assert f"The two sides differ: {verdict.replace('_', ' ')}." in redacted["summary"]


def test_a_bet_that_nobody_knows(ledger: SqlLedger, sandbox: InProcessSandbox) -> None:
    """There is a case file, and it says so."""
    with sandbox.client() as client:
        case = case_file(ledger, "nobody's", client=client)
    assert not case.is_known
    assert case.contents["summary"] == [
        "Nobody knows this bet: no row of the ledger names it.",
        "The provider answers NOT_FOUND.",
    ]
    assert case.contents["comparison"]["agrees"] is True
    assert "Nobody knows this bet" in case.to_html()


def test_a_provider_that_does_not_answer(ledger: SqlLedger, sandbox: InProcessSandbox) -> None:
    """The error stands in the place of the answer, and everything else is there."""

    def refuse(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("nobody is there")

    played(ledger, withdraw(round_id="r", instance_id="i"))
    http = httpx.Client(transport=httpx.MockTransport(refuse))
    key = sandbox.private_key_pem
    with OperatorClient("https://api.example.com", "acme", key, http_client=http, retries=0) as client:
        contents = case_file(ledger, "b1", client=client).contents
    assert contents["provider"]["was_asked"]
    assert contents["provider"]["answer"] is None
    assert contents["provider"]["problem"].startswith("RequestNotSentError: ")
    assert contents["comparison"]["agrees"] is None
    assert "The provider gave no usable answer." in contents["summary"]


def test_the_digest_is_that_of_the_canonical_contents(ledger: SqlLedger) -> None:
    """Anybody recomputes it with the standard library, from the JSON however it is written."""
    played(ledger, withdraw("b1", instance_id="ä\u2028"))
    case = case_file(ledger, "b1")
    written = json.dumps(json.loads(case.to_json()), indent=3, ensure_ascii=False)
    contents = json.loads(written)["contents"]
    text = json.dumps(contents, sort_keys=True, separators=(",", ":"))
    assert sha256(text.encode()).hexdigest() == case.digest
    assert case_file(ledger, "b1", clock_millis=lambda: 1).digest != case.digest
