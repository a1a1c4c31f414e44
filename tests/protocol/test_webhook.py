"""
Webhook bodies become calls, and calls bodies (spec §3, §4.1, §6).

The specification shows no body: names, shapes and bounds are assumed, docs/decisions/0010 and 0011.
"""

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from hypothesis import given, strategies

from game_operator import (
    BalanceCall,
    DepositCall,
    MalformedCallError,
    Profile,
    RollbackCall,
    WithdrawCall,
)
from game_operator.models.webhooks import LONGEST_ID, LONGEST_TX_ID
from game_operator.protocol.exact_json import read_json
from game_operator.protocol.signing import verify
from game_operator.protocol.webhook import (
    BATCH_PATHS,
    OPERATIONS,
    encode_call,
    read_batch,
    read_call,
)
from game_operator.webhooks import FreeBet, WebhookCall
from tests.support.spread import spread
from tests.support.webhooks import DEPOSIT, GENUINE, ROLLBACK, WITHDRAW
from tests.support.wire import JSON_VALUES, examples, hole, wire
from tests.test_money import hostile_context

VECTORS = Path(__file__).parents[1] / "vectors"
Body = dict[str, Any]  # Any: whatever a JSON object holds.

PROFILE = Profile()
#: A service that writes flat bodies under names of its own.
FLAT = Profile(
    fields={
        "player_id": ("user", "player.id"),
        "action.deposit": ("type",),
        "amount_cents.deposit": ("amount", "payout"),
        "round_id.withdraw": (),
    }
)

CLAIM: Body = DEPOSIT | {"action": {"type": "FREE_BET_CLAIM"}}
SAMPLES: dict[str, Body] = {path.removeprefix("/"): body for path, body in GENUINE.items()}
MOVING = ("withdraw", "deposit", "rollback")

_BET: Body = {"player_id": "p1", "bet_id": "b1"}
_HERE: Body = _BET | {"instance_id": "i1", "game": "aviator"}
#: What each pinned body means.
CASES: dict[str, WebhookCall] = {
    "withdraw": WithdrawCall(**_HERE, amount_cents=5000),
    "withdraw-rain": WithdrawCall(**_HERE, amount_cents=300, action="RAIN"),
    "withdraw-unicode": WithdrawCall(
        player_id="Zoë 🎲", bet_id='日本/"7"\\', amount_cents=1, tx_id="t\n\x01", instance_id="é", game="é"
    ),
    "withdraw-other-names": WithdrawCall(**_BET, amount_cents=5000),
    "deposit": DepositCall(**_HERE, amount_cents=15000, wager_cents=5000, won_cents=15000, round_id="r1"),
    "deposit-loss": DepositCall(**_HERE, amount_cents=0, wager_cents=5000, won_cents=0, round_id="r1"),
    "deposit-claim": DepositCall(
        **_HERE | {"bet_id": "c1"},
        amount_cents=700,
        action="FREE_BET_CLAIM",
        free_bets=(
            FreeBet(id="f1", round_id="r1", wager_cents=100, won_cents=700),
            FreeBet(id="f2", round_id="r2", wager_cents=100, won_cents=0),
        ),
    ),
    "deposit-jackpot": DepositCall(**_HERE, amount_cents=1_000_000, action="JACKPOT", jackpot_id="pool-1"),
    "deposit-other-names": DepositCall(**_BET, amount_cents=15000, tx_id="t1", round_id="r1"),
    "rollback": RollbackCall(**_HERE, tx_id="withdraw:bet:b1", amount_cents=5000, round_id="r1"),
    "player-balance": BalanceCall(player_id="p1"),
}


def read(operation: str, body: object, profile: Profile = PROFILE) -> Any:
    """Return the call in *body*."""
    return read_call(operation, body if isinstance(body, bytes) else wire(body), profile)[0]


def without(body: Mapping[str, Any], *names: str) -> Body:
    """Return *body* without some of its members."""
    return {name: value for name, value in body.items() if name not in names}


def refused(operation: str, body: object, problem: str, profile: Profile = PROFILE) -> None:
    """Assert that *body* is no call, and that the message is fit for a log."""
    with pytest.raises(MalformedCallError, match=problem) as told:
        read(operation, body, profile)
    assert str(told.value).isprintable()
    assert len(str(told.value)) < 500


@pytest.fixture(scope="module")
def service_key() -> RSAPublicKey:
    """The service's key of the vectors."""
    key = load_pem_public_key((VECTORS / "TEST-ONLY-public-key.pem").read_bytes())
    assert isinstance(key, RSAPublicKey)
    return key


def test_the_four_paths() -> None:
    """Withdraw, deposit, rollback and player-balance, without a version (spec §1, §4.1, §9)."""
    assert dict(OPERATIONS) == {f"/{operation}": operation for operation in SAMPLES}
    assert frozenset({"/deposit-batch", "/deposit/batch"}) == BATCH_PATHS
    assert not any(re.search(r"v\d", path) for path in OPERATIONS)


@pytest.mark.parametrize("name", CASES)
def test_pinned_bodies_are_read(name: str, service_key: RSAPublicKey) -> None:
    """What each body means, that we write the same, and that the service's key signed it (docs/decisions/0010)."""
    body = (VECTORS / "webhooks" / f"{name}.body").read_bytes()
    call = read_call(CASES[name].operation, body, PROFILE)[0]
    assert call == CASES[name]
    assert call.body == body
    assert call.raw == read_json(body)
    assert (encode_call(call) == body) is ("other-names" not in name)
    assert verify(service_key, body, (VECTORS / "webhooks" / f"{name}.signature").read_bytes())
    assert not verify(service_key, body + b" ", (VECTORS / "webhooks" / f"{name}.signature").read_bytes())


def test_every_pinned_body_is_tried() -> None:
    """No vector lies about untested, and every webhook has some (spec §4.1)."""
    assert {path.stem for path in (VECTORS / "webhooks").glob("*.body")} == set(CASES)
    assert {path.stem for path in (VECTORS / "webhooks").glob("*.signature")} == set(CASES)
    assert {call.operation for call in CASES.values()} == set(SAMPLES)


@pytest.mark.parametrize("operation", MOVING)
@pytest.mark.parametrize(
    ("field", "names"),
    [
        ("player_id", ("player_id",)),
        ("bet_id", ("action_id", "bet_id", "reference_id")),
        ("tx_id", ("tx_id", "transaction_id")),
    ],
)
def test_the_first_name_present_counts(operation: str, field: str, names: tuple[str, ...]) -> None:
    """F02: each name works alone, and stands before those behind it, even as null (docs/decisions/0010)."""
    bare = without(SAMPLES[operation], *names)
    called = re.escape(field if names == (field,) else f"{field} ({' or '.join(names)})")
    if field != "tx_id":
        refused(operation, bare, f"^{called} is missing")
    for at, name in enumerate(names):
        assert getattr(read(operation, bare | {name: "x"}), field) == "x"
        later = dict.fromkeys(names[at + 1 :], "later")
        assert getattr(read(operation, later | bare | {name: "x"}), field) == "x"
        refused(operation, bare | {name: None} | later, f"^{called} must be a string and not empty, not None")


@pytest.mark.parametrize(
    ("operation", "names"),
    [
        pytest.param("withdraw", ("amount", "wager"), id="withdraw"),
        pytest.param("deposit", ("amount", "won", "action.won"), id="deposit"),
    ],
)
def test_the_first_amount_present_counts(operation: str, names: tuple[str, ...]) -> None:
    """A withdraw's amount or wager; a deposit's amount, won or the action's won; null counts (docs/decisions/0010)."""
    bare = without(SAMPLES[operation], "amount")
    if operation == "deposit":
        bare["action"] = {"type": "BET"}
    for at, name in enumerate(names):
        values: Body = {name: 7} | dict.fromkeys(names[at + 1 :], 9)
        assert read(operation, _with(bare, values)).amount_cents == 7
        refused(operation, _with(bare, values | {name: None}), "^amount_cents .*must be a whole number of cents")
    refused(operation, bare, rf"^amount_cents \({' or '.join(names)}\) is missing")


def _with(body: Body, values: Mapping[str, object]) -> Body:
    """Return *body* with *values*, in which a dot steps into the action."""
    inner = {name.partition(".")[2]: value for name, value in values.items() if "." in name}
    outer = {name: value for name, value in values.items() if "." not in name}
    return body | outer | ({"action": body["action"] | inner} if inner else {})


def test_a_dot_steps_into_an_object_and_is_no_name() -> None:
    """A member that is called "action.type" is not the action's type (docs/decisions/0010)."""
    body = DEPOSIT | {"action.type": "JACKPOT", "action.won": 1, "action.bets": [{}], "action.round_id": "r9"}
    call = read("deposit", body)
    assert (call.action, call.won_cents, call.free_bets, call.round_id) == ("BET", 15000, (), "r1")
    refused("deposit", without(body, "action"), "must have action.type or won")


def test_a_player_balance_needs_no_more() -> None:
    """A balance is asked for by player; whatever else is there is kept and means nothing (spec §4.1)."""
    call = read("player-balance", {"player_id": "p1", "amount": "x", "action": 5, "action_id": None, "tx_id": []})
    assert call == BalanceCall(player_id="p1")
    assert call.raw["amount"] == "x"


IDS = [
    (operation, field, name)
    for operation in SAMPLES
    for field, name in (("player_id", "player_id"), ("bet_id", "action_id"), ("tx_id", "tx_id"))
    if operation != "player-balance" or field == "player_id"
]
#: What an id may be is the call's to say (tests/models/test_webhooks.py); here, what of JSON reaches it.
EACH_ID = [pytest.param(*each, id="-".join(each[:2])) for each in IDS]


BAD_IDS = [
    pytest.param("5", id="a number"),
    pytest.param("true", id="true"),
    pytest.param("[]", id="an array"),
    pytest.param('"a\\u0000b"', id="U+0000 inside"),
    pytest.param('""', id="empty"),
    pytest.param('"\\u00a0\\u2003\\u3000\\u2028\\u0085"', id="white space of other scripts"),
    pytest.param('"\\ud800"', id="a high surrogate alone"),
    pytest.param('"' + "x" * 10_000 + '"', id="10,000 letters"),
]


@pytest.mark.parametrize(("operation", "field", "name", "text"), spread(EACH_ID, BAD_IDS, everywhere=3))
def test_ids_that_cannot_be(operation: str, field: str, name: str, text: str) -> None:
    """Scenarios F02 and F07: ids are strings, not blank, and fit for any database (docs/decisions/0010)."""
    refused(operation, wire(SAMPLES[operation] | {name: hole()}, text), f"^{field}")


KEPT_IDS = [
    pytest.param(" b1 ", id="blanks around"),
    pytest.param("B1", id="capitals"),
    pytest.param("e\u0301", id="decomposed"),
    pytest.param("🎲👩‍👩‍👧", id="emoji"),
    pytest.param("<script>\r\nx", id="markup and line ends"),
]


@pytest.mark.parametrize(("operation", "field", "name", "value"), spread(EACH_ID, KEPT_IDS))
def test_ids_are_kept_as_they_are(operation: str, field: str, name: str, value: str) -> None:
    """Scenarios B09, F07 and F08: never trimmed, folded or normalised (docs/decisions/0010)."""
    assert getattr(read(operation, SAMPLES[operation] | {name: value}), field) == value
    escaped = json.dumps(SAMPLES[operation] | {name: value}, ensure_ascii=True).encode()
    assert getattr(read(operation, escaped), field) == value


@pytest.mark.parametrize(("operation", "field", "name"), EACH_ID)
def test_the_longest_ids(operation: str, field: str, name: str) -> None:
    """256 code points, 320 for a tx_id, and not one more (docs/decisions/0010)."""
    longest = LONGEST_TX_ID if field == "tx_id" else LONGEST_ID
    assert getattr(read(operation, SAMPLES[operation] | {name: "🎲" * longest}), field) == "🎲" * longest
    refused(operation, SAMPLES[operation] | {name: "🎲" * (longest + 1)}, f"^{field} must have at most {longest}")


@pytest.mark.parametrize("operation", ["withdraw", "deposit"])
@pytest.mark.parametrize(
    ("text", "cents"),
    [
        pytest.param("500.0", 500, id="with a zero behind"),
        pytest.param("1000000000000000", 10**15, id="the largest"),
        pytest.param("1000000000000001", None, id="one more"),
        pytest.param("499.9999999999999999999999999999999999", None, id="just below"),
        pytest.param("5e2", None, id="an exponent"),
        pytest.param("true", None, id="true"),
        pytest.param('""', None, id="text"),
        pytest.param("-0.01", None, id="a little negative"),
    ],
)
def test_amounts(operation: str, text: str, cents: int | None) -> None:
    """Scenarios F03 to F05: whole cents up to 10^15, written as a number without an exponent (docs/decisions/0010)."""
    body = wire(SAMPLES[operation] | {"amount": hole()}, text)
    with hostile_context():
        if cents is not None:
            amount = read(operation, body).amount_cents
            assert (amount, type(amount)) == (cents, int)
            return
        refused(operation, body, "^amount_cents|is not JSON|digits in a row")


@pytest.mark.parametrize("text", ["0", "0.0", "-0", "-0.0"])
def test_nothing_is_a_loss_and_no_bet(text: str) -> None:
    """A deposit of 0 is a loss (spec §3, §4.1); a withdraw of 0 is no bet unless the profile says so."""
    assert read("deposit", wire(DEPOSIT | {"amount": hole()}, text)).amount_cents == 0
    body = wire(WITHDRAW | {"amount": hole()}, text)
    refused("withdraw", body, r"a withdraw of 0 is not a bet; Profile\(allow_zero_withdraw=True\) accepts it")
    assert read("withdraw", body, Profile(allow_zero_withdraw=True)).amount_cents == 0
    refused("withdraw", WITHDRAW | {"amount": -1}, "^amount_cents", Profile(allow_zero_withdraw=True))


@pytest.mark.parametrize(
    "text", ["-1", '"500"', "5.5", "5e2", "1" + "0" * 30, "true", "null", "[]", "{}", "1000000000000001"]
)
def test_a_rollback_s_amount_moves_nothing(text: str) -> None:
    """Scenario F11: a rollback refunds the stored wager (spec §3); an amount that cannot be read is kept raw."""
    call, oddities = read_call("rollback", wire(ROLLBACK | {"amount": hole()}, text), PROFILE)
    assert isinstance(call, RollbackCall)
    assert call.amount_cents is None
    assert "amount" in call.raw
    assert [(oddity.field, oddity.absent) for oddity in oddities] == [("amount_cents", False)]
    assert read("rollback", without(ROLLBACK, "amount")).amount_cents is None
    assert read("rollback", ROLLBACK).amount_cents == 5000


@pytest.mark.parametrize("operation", ["withdraw", "rollback"])
def test_actions_of_bets(operation: str) -> None:
    """A string, BET or RAIN, BET when there is none; another is refused unless it is admitted (docs/decisions/0010)."""
    sample = SAMPLES[operation]
    assert read(operation, sample).action == "BET"
    assert read(operation, sample | {"action": "RAIN"}).action == "RAIN"
    assert read(operation, without(sample, "action")).action == "BET"
    unknown: list[object] = ["bet", "TIP", "", None, 5, True, ["BET"], {"type": "BET"}, {}]
    for value in unknown:
        refused(operation, sample | {"action": value}, "^action must be one of BET, RAIN, not ")
    tipping = Profile(withdraw_actions=("BET", "TIP"), spent_actions=())
    assert read(operation, sample | {"action": "TIP"}, tipping).action == "TIP"
    refused(operation, sample | {"action": "RAIN"}, "must be one of BET, TIP", tipping)


def test_types_of_deposits() -> None:
    """BET settles a bet, FREE_BET_CLAIM and JACKPOT are claims; an unknown type is refused (docs/decisions/0010)."""
    for kind, is_claim in (("BET", False), ("FREE_BET_CLAIM", True), ("JACKPOT", True)):
        call = read("deposit", DEPOSIT | {"action": {"type": kind}})
        assert (call.action, call.is_claim) == (kind, is_claim)
    unknown: list[object] = ["bet", "RAIN", "GIFT", "", None, 5, True, ["BET"], {}]
    for value in unknown:
        refused(
            "deposit", DEPOSIT | {"action": {"type": value}}, r"^action \(action.type\) must be one of BET, FREE_BET"
        )
    gifts = Profile(claim_types=("GIFT",))
    call = read("deposit", without(DEPOSIT, "tx_id") | {"action": {"type": "GIFT"}}, gifts)
    assert (call.is_claim, call.tx_id) == (True, "deposit:gift:b1")
    refused("deposit", CLAIM, "must be one of BET, GIFT", gifts)


def test_a_claim_needs_a_bet_id_or_a_tx_id() -> None:
    """A claim with a tx_id may name no bet; a settled bet must (docs/decisions/0010)."""
    assert read("deposit", without(CLAIM, "action_id")).bet_id is None
    assert read("deposit", without(CLAIM, "action_id")).tx_id == "deposit:bet:b1"
    assert read("deposit", without(CLAIM, "tx_id")).tx_id == "deposit:free_bet_claim:b1"
    assert read("deposit", CLAIM).bet_id == "b1"
    refused("deposit", without(CLAIM, "action_id", "tx_id"), "^bet_id .*is missing")
    refused("deposit", without(DEPOSIT, "action_id"), "^bet_id .*is missing")
    for value in (None, "", " ", 5):
        refused("deposit", CLAIM | {"action_id": value}, "^bet_id")
        refused("deposit", CLAIM | {"tx_id": value}, "^tx_id")


@pytest.mark.parametrize(
    ("operation", "changes", "tx_id"),
    [
        ("withdraw", {}, "withdraw:bet:b1"),
        ("withdraw", {"action": "RAIN"}, "withdraw:rain:b1"),
        ("deposit", {}, "deposit:bet:b1"),
        ("deposit", {"action": {"type": "JACKPOT", "jackpot_id": "j1"}}, "deposit:jackpot:b1"),
        ("rollback", {}, None),
    ],
)
def test_derived_tx_ids(operation: str, changes: Body, tx_id: str | None) -> None:
    """A body without tx_id gets its call's from action and bet, and never from the jackpot (docs/decisions/0010)."""
    assert read(operation, without(SAMPLES[operation], "tx_id") | changes).tx_id == tx_id
    longest = without(SAMPLES[operation], "tx_id") | changes | {"action_id": "🎲" * LONGEST_ID}
    assert read(operation, longest).bet_id == "🎲" * LONGEST_ID


@pytest.mark.parametrize("action", ["BET", "RAIN", None, {"type": "BET"}])
def test_a_withdraw_s_bytes_are_no_deposit(action: object) -> None:
    """Scenario E09: the signature covers the body and not the path, so the shape must fit (docs/decisions/0011)."""
    body = without(WITHDRAW, "action") if action is None else WITHDRAW | {"action": action}
    if isinstance(action, dict):
        refused("withdraw", body, "^action must be one of")
        return
    assert read("withdraw", body).amount_cents == 5000
    refused(
        "deposit", body, "a deposit's action must be an object|a deposit must have action.type or won or action.won"
    )
    refused("deposit", without(body, "amount") | {"wager": 5000}, "a deposit's action must|a deposit must have")


@pytest.mark.parametrize("operation", ["withdraw", "rollback"])
@pytest.mark.parametrize("name", [name for name, call in CASES.items() if call.operation == "deposit"])
def test_a_deposit_s_bytes_are_neither_withdraw_nor_rollback(operation: str, name: str) -> None:
    """A winner's body posted to /rollback would refund the wager before it is paid (docs/decisions/0011)."""
    body = (VECTORS / "webhooks" / f"{name}.body").read_bytes()
    problem = "won or action.won looks like a deposit" if name == "deposit-other-names" else "^action must be one of"
    refused(operation, body, problem, Profile(allow_zero_withdraw=True))


@pytest.mark.parametrize("operation", ["withdraw", "rollback"])
def test_a_won_field_beside_an_action_means_nothing(operation: str) -> None:
    """What says that it is a bet's withdraw or rollback is one, whatever else it carries (docs/decisions/0010)."""
    assert read(operation, SAMPLES[operation] | {"won": 0}).raw["won"] == 0
    refused(operation, without(SAMPLES[operation], "action") | {"won": 0}, "looks like a deposit")


@pytest.mark.parametrize("operation", SAMPLES)
def test_other_shapes(operation: str) -> None:
    """Scenario F01: a call is a JSON object (docs/decisions/0010)."""
    for body in (b"", b"null", b"[]", b"5", b'"p1"', b"true", b"[{}]", wire([SAMPLES[operation]])):
        refused(operation, body, "must be a JSON object|is not JSON")
    for body in (b"\xef\xbb\xbf" + wire(SAMPLES[operation]), wire(SAMPLES[operation])[:-1], b"\xff"):
        refused(operation, body, "is not JSON|is not UTF-8")


@pytest.mark.parametrize("operation", SAMPLES)
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param('{"a":1,"a":1}', "stands twice", id="a member twice"),
        pytest.param('[[{"a":{"b":1,"b":2}}]]', "stands twice", id="a member twice further down"),
        pytest.param("[" * 64 + "]" * 64, "more than 64 levels", id="65 levels with the body's own"),
    ],
)
def test_what_is_no_json_in_a_field_that_means_nothing(operation: str, text: str, problem: str) -> None:
    """Scenario F06: another reader might have seen another body, so it is refused whole (docs/decisions/0010)."""
    refused(operation, wire(SAMPLES[operation] | {"extra": hole()}, text), problem)


@pytest.mark.parametrize("operation", SAMPLES)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param('"\\ud800\\u0000"', id="text that no database keeps"),
        pytest.param("[" * 63 + "]" * 63, id="64 levels with the body's own"),
    ],
)
def test_unknown_fields_are_kept(operation: str, text: str) -> None:
    """What is not understood is accepted, and kept as it came (docs/decisions/0010)."""
    call = read(operation, wire(SAMPLES[operation] | {"extra": hole()}, text))
    assert call.raw["extra"] == read_json(text.encode())
    assert call == read(operation, SAMPLES[operation])


NOT_TEXT: list[Any] = [5, None, "", " ", True, [], {}, "a\0", "\ud800", "x" * 257]


@pytest.mark.parametrize("field", ["round_id", "instance_id", "game"])
@pytest.mark.parametrize("operation", MOVING)
def test_what_moves_no_money_cannot_refuse_a_call(operation: str, field: str) -> None:
    """Unreadable, it is None, kept raw and told as an oddity (docs/decisions/0010)."""
    for value in NOT_TEXT:
        call, oddities = read_call(operation, json.dumps(SAMPLES[operation] | {field: value}).encode(), PROFILE)
        assert getattr(call, field) is None
        assert call.raw[field] == value
        assert [(oddity.field, oddity.value, oddity.absent) for oddity in oddities][:1] == [(field, value, False)]
        assert str(oddities[0]).isprintable()
    kept, _ = read_call(operation, wire(SAMPLES[operation] | {field: "x" * 256}), PROFILE)
    assert getattr(kept, field) == "x" * 256


@pytest.mark.parametrize(
    ("operation", "absent"),
    [
        ("withdraw", ["instance_id", "game"]),
        ("deposit", ["round_id", "instance_id", "game"]),
        ("rollback", ["round_id", "instance_id", "game"]),
        ("player-balance", []),
    ],
)
def test_what_is_expected_and_absent_is_told(operation: str, absent: list[str]) -> None:
    """Deposits and rollbacks carry a round_id (spec §6); without it, and others, a call is read all the same."""
    body = without(SAMPLES[operation], "round_id", "instance_id", "game")
    if operation == "deposit":
        body["action"] = {"type": "BET"}
    call, oddities = read_call(operation, wire(body), PROFILE)
    assert [str(oddity) for oddity in oddities] == [f"{field} is absent" for field in absent]
    assert operation == "player-balance" or getattr(call, "round_id", "") is None
    assert read_call(operation, wire(SAMPLES[operation]), PROFILE)[1] == []


def test_round_ids_are_read() -> None:
    """Deposit and rollback carry the round_id that fetch-round-bets takes (spec §6)."""
    assert read("deposit", DEPOSIT).round_id == "r1"
    assert read("deposit", DEPOSIT | {"round_id": "r2"}).round_id == "r2"
    assert read("rollback", ROLLBACK).round_id == "r1"
    assert read("withdraw", WITHDRAW | {"round_id": "r3"}).round_id == "r3"
    _, oddities = read_call("deposit", wire(CLAIM), PROFILE)
    assert oddities == [], "a claim's rounds stand with its free bets"


@pytest.mark.parametrize("field", ["wager", "won"])
@pytest.mark.parametrize("value", [None, "500", 5.5, -1, -1.0, True, {"amount": 5}, [5], 10**15 + 1, 10.0**15 + 1])
def test_amounts_beside_the_amount_move_nothing(field: str, value: object) -> None:
    """Scenario F11: older deposits carry objects in wager and won; the amount is what is credited."""
    body = wire(DEPOSIT | {"action": DEPOSIT["action"] | {field: value}})
    call, oddities = read_call("deposit", body, PROFILE)
    assert (call.amount_cents, getattr(call, f"{field}_cents")) == (15000, None)  # type: ignore[union-attr]  # a deposit
    assert [oddity.field for oddity in oddities] == [f"{field}_cents"]
    zero = read("deposit", DEPOSIT | {"action": DEPOSIT["action"] | {field: 0}})
    assert getattr(zero, f"{field}_cents") == 0


def test_older_deposits() -> None:
    """Amount beside objects in wager and won, and no action: the won field tells that it is a deposit."""
    body = without(DEPOSIT, "action") | {"wager": {"amount": 5}, "won": {"amount": 7}}
    call = read("deposit", body)
    assert (call.amount_cents, call.action, call.is_claim) == (15000, "BET", False)
    refused("deposit", without(body, "amount"), "^amount_cents .* must be a whole number")
    refused("deposit", without(body, "won"), "a deposit must have action.type or won or action.won")


def test_a_deposit_s_action_must_say_what_it_is() -> None:
    """An action without a type might be a claim: it is not taken for a bet (docs/decisions/0010)."""
    for action in ({}, {"won": 5}, {"round_id": "r1", "wager": 5, "won": 5}):
        refused("deposit", DEPOSIT | {"action": action, "won": 5}, "a deposit's action must say what it is")
    others: list[object] = ["BET", None, 5, [], [{"type": "BET"}], True]
    for value in others:
        refused("deposit", DEPOSIT | {"action": value, "won": 5}, "a deposit's action must be an object, not ")


@pytest.mark.parametrize(
    ("bets", "read_as", "odd"),
    [
        pytest.param([], (), [], id="none"),
        pytest.param([{}], (FreeBet(),), [], id="one that tells nothing"),
        pytest.param(
            [{"id": 5, "round_id": "a\0", "wager": "100", "won": -1}, {"id": "f2"}],
            (FreeBet(), FreeBet(id="f2")),
            ["free_bets.id", "free_bets.round_id", "free_bets.wager", "free_bets.won"],
            id="unreadable",
        ),
        pytest.param([{"id": "f1"}, 5], (), ["free_bets"], id="one that is no object"),
        pytest.param({"id": "f1"}, (), ["free_bets"], id="no array"),
    ],
)
def test_free_bets(bets: object, read_as: tuple[FreeBet, ...], odd: list[str]) -> None:
    """Scenario A10: each free bet of a claim is kept as far as it can be read; the amount is what is credited."""
    body = wire(CLAIM | {"action": {"type": "FREE_BET_CLAIM", "bets": bets, "jackpot_id": "j1"}})
    call, oddities = read_call("deposit", body, PROFILE)
    assert isinstance(call, DepositCall)
    assert (call.free_bets, call.amount_cents, call.jackpot_id) == (read_as, 15000, "j1")
    assert [oddity.field for oddity in oddities] == odd


def test_names_of_the_operator_s_own() -> None:
    """Whatever the service calls its fields, the canonical ones are the same (docs/decisions/0010)."""
    body = {"player": {"id": "p1"}, "type": "BET", "payout": 7, "bet_id": "b1"}
    call = read("deposit", body, FLAT)
    assert (call.player_id, call.action, call.amount_cents, call.bet_id) == ("p1", "BET", 7, "b1")
    assert read("deposit", body | {"user": "p2"}, FLAT).player_id == "p2"
    refused("deposit", without(body, "player"), r"^player_id \(user or player.id\) is missing", FLAT)
    withdraw = {"user": "p1", "action": "BET", "amount": 5, "bet_id": "b1", "round_id": "r1"}
    assert read("withdraw", withdraw, FLAT).round_id is None
    assert read("rollback", withdraw, FLAT).round_id == "r1"


@pytest.mark.parametrize("action", ["BET", "RAIN", None])
def test_a_withdraw_s_bytes_are_no_deposit_under_other_names_either(action: str | None) -> None:
    """Scenario E09 with a profile of one's own: the deposit's own names must be there (docs/decisions/0011)."""
    withdraw = {"user": "p1", "amount": 5, "bet_id": "b1"} | ({} if action is None else {"action": action})
    assert read("withdraw", withdraw, FLAT).amount_cents == 5
    refused("deposit", withdraw, "a deposit must have type or payout; this looks like another call", FLAT)
    for operation in ("withdraw", "rollback"):
        refused(operation, withdraw | {"type": "BET"}, "only a deposit has type; this looks like another call", FLAT)
    assert read("player-balance", withdraw | {"type": "BET"}, FLAT).player_id == "p1"


def _parser(result: object) -> Callable[[str, bytes], Any]:
    def parse(operation: str, body: bytes) -> Any:
        if isinstance(result, Exception):
            raise result
        return result

    return parse


def test_a_parser_of_the_operator_s_own() -> None:
    """It is given operation and bytes, in place of everything here; the call has these bytes (docs/decisions/0010)."""
    asked: list[tuple[str, bytes]] = []

    def parse(operation: str, body: bytes) -> WebhookCall:
        asked.append((operation, body))
        return RollbackCall(player_id="p1", bet_id="b1", raw={"a": 1})

    call, oddities = read_call("rollback", b"not json", Profile(parse=parse))
    assert asked == [("rollback", b"not json")]
    assert (call, call.body, call.raw, oddities) == (
        RollbackCall(player_id="p1", bet_id="b1"),
        b"not json",
        {"a": 1},
        [],
    )
    filled = RollbackCall(player_id="p1", bet_id="b1", body=b"other bytes")
    assert read_call("rollback", b"bytes", Profile(parse=_parser(filled)))[0].body == b"bytes"


@pytest.mark.parametrize(
    "junk",
    [
        pytest.param({"player_id": "p1"}, id="a dict"),
        pytest.param(WithdrawCall(player_id="p1", bet_id="b1", amount_cents=1), id="a call of another path"),
    ],
)
def test_a_parser_that_returns_junk(junk: object) -> None:
    """A parser's mistake is no caller's: it is a TypeError, which is answered SYSTEM_ERROR (docs/decisions/0010)."""
    profile = Profile(parse=_parser(junk))
    with pytest.raises(TypeError, match="parse must return a call of deposit, not "):
        read_call("deposit", b"{}", profile)
    with pytest.raises(TypeError, match="parse must return a call of deposit, not "):
        read_batch(b"[{}]", profile)


def test_a_parser_that_raises() -> None:
    """MalformedCallError says that the body is no call; whatever else comes out is its own (docs/decisions/0010)."""
    with pytest.raises(MalformedCallError, match="no bet"):
        read_call("deposit", b"{}", Profile(parse=_parser(MalformedCallError("no bet"))))
    with pytest.raises(ZeroDivisionError):
        read_call("deposit", b"{}", Profile(parse=_parser(ZeroDivisionError())))
    (item,) = read_batch(b'[{"tx_id":"t1"}]', Profile(parse=_parser(MalformedCallError("no bet"))))
    assert (item.tx_id, item.call, item.problem) == ("t1", None, "no bet")


def test_a_mistake_of_ours_is_not_the_caller_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """A TypeError from within is no INVALID_REQUEST, which would never be repeated."""
    monkeypatch.setattr("game_operator.protocol.webhook.WithdrawCall", None)
    with pytest.raises(TypeError):
        read("withdraw", WITHDRAW)


_LETTERS = strategies.characters(exclude_categories=["Cs"], exclude_characters="\0")
_IDS = strategies.text(_LETTERS, min_size=1, max_size=12).filter(lambda text: bool(text.strip()))
_CENTS = strategies.integers(0, 10**15)
_MAYBE_ID, _MAYBE_CENTS = strategies.none() | _IDS, strategies.none() | _CENTS
_TX_IDS = strategies.just("") | _IDS
_CLAIMS = ["FREE_BET_CLAIM", "JACKPOT"]
_TOLD = {"player_id": _IDS, "round_id": _MAYBE_ID, "instance_id": _MAYBE_ID, "game": _MAYBE_ID}
_BETS = _TOLD | {"bet_id": _IDS, "action": strategies.sampled_from(["BET", "RAIN"])}
_FREE_BETS = strategies.builds(
    FreeBet, id=_MAYBE_ID, round_id=_MAYBE_ID, wager_cents=_MAYBE_CENTS, won_cents=_MAYBE_CENTS
)
_DEPOSITS = _TOLD | {
    "amount_cents": _CENTS,
    "wager_cents": _MAYBE_CENTS,
    "won_cents": _MAYBE_CENTS,
    "free_bets": strategies.lists(_FREE_BETS, max_size=3).map(tuple),
    "jackpot_id": _MAYBE_ID,
}
_SETTLING = {"bet_id": _IDS, "tx_id": _TX_IDS, "action": strategies.sampled_from(["BET", *_CLAIMS])}
_OF_NO_BET = {"bet_id": strategies.none(), "tx_id": _IDS, "action": strategies.sampled_from(_CLAIMS)}
ANY_CALL = strategies.one_of(
    strategies.builds(BalanceCall, player_id=_IDS),
    strategies.builds(WithdrawCall, **_BETS, amount_cents=_CENTS, tx_id=_TX_IDS),
    strategies.builds(DepositCall, **_DEPOSITS, **_SETTLING),
    strategies.builds(DepositCall, **_DEPOSITS, **_OF_NO_BET),
    strategies.builds(RollbackCall, **_BETS, amount_cents=_MAYBE_CENTS, tx_id=_MAYBE_ID),
)


@given(ANY_CALL)
@examples(200)
def test_any_call_goes_over_the_wire(call: WebhookCall) -> None:
    """What the service's side writes, the operator's side reads as the same call (docs/decisions/0010)."""
    body = encode_call(call)
    read_back, oddities = read_call(call.operation, body, Profile(allow_zero_withdraw=True))
    assert read_back == call
    assert all(oddity.absent for oddity in oddities)
    assert encode_call(read_back) == body


@given(
    operation=strategies.sampled_from(sorted(SAMPLES)),
    changes=strategies.dictionaries(
        strategies.sampled_from([*DEPOSIT, "bet_id", "reference_id", "wager", "won", "round_id", "extra"]),
        JSON_VALUES
        | strategies.dictionaries(strategies.sampled_from(["type", "won", "wager", "bets"]), JSON_VALUES, max_size=3),
        max_size=3,
    ),
    missing=strategies.sets(strategies.sampled_from(sorted(DEPOSIT)), max_size=2),
)
@examples(250)
def test_any_json_is_a_call_or_is_refused(operation: str, changes: Body, missing: set[str]) -> None:
    """Nothing but MalformedCallError comes out, and what is read holds what a call must (docs/decisions/0010)."""
    body = wire(without(SAMPLES[operation], *missing) | changes)
    try:
        call = read_call(operation, body, PROFILE)[0]
    except MalformedCallError:
        return
    assert call.operation == operation
    assert dataclasses.replace(call) == call


BATCH: list[Body] = [DEPOSIT, CLAIM | {"action_id": "c1", "tx_id": "t2"}]


def test_batches() -> None:
    """Scenario B15: an item is the very call it would be alone, with its own bytes (docs/decisions/0010)."""
    body = wire(BATCH)
    items = read_batch(body, PROFILE)
    assert [item.call for item in items] == [read("deposit", each) for each in BATCH]
    for item in items:
        assert item.call is not None
        assert item.body == item.call.body
        assert item.body in body
        assert read_call("deposit", item.body, PROFILE)[0] == item.call
        assert (item.tx_id, item.problem) == (item.call.tx_id, "")


def test_bad_items_stand_alone() -> None:
    """Scenario A11: one bad item refuses itself, and is matched by its tx_id if that can be read."""
    bad = [
        (5, None),
        ({}, None),
        (DEPOSIT | {"amount": -1, "tx_id": "t1"}, "t1"),
        (DEPOSIT | {"amount": "x", "tx_id": "a\0"}, None),
        (DEPOSIT | {"tx_id": 5}, None),
        (DEPOSIT | {"tx_id": "x" * 321}, None),
        (WITHDRAW, "withdraw:bet:b1"),
    ]
    items = read_batch(wire([*(body for body, _ in bad), DEPOSIT]), PROFILE)
    assert [(item.tx_id, item.call) for item in items[:-1]] == [(tx_id, None) for _, tx_id in bad]
    assert all(item.problem for item in items[:-1])
    assert items[-1].call == read("deposit", DEPOSIT)
    for item, (body, _) in zip(items, bad, strict=False):
        assert read_json(item.body) == read_json(wire(body))


def test_an_item_s_bytes_are_not_written_anew() -> None:
    """5e2 cents are refused; the same item taken up again later must not have become 500."""
    (item,) = read_batch(wire([DEPOSIT | {"amount": hole()}], "5e2"), PROFILE)
    assert (item.call, b'"amount": 5e2' in item.body) == (None, True)
    refused("deposit", item.body, "^amount_cents")


def test_flat_items() -> None:
    """The other spelling has won and no action (docs/decisions/0010)."""
    (item,) = read_batch(b'{"bets":[{"player_id":"p1","bet_id":"b1","won":7,"round_id":"r1"}]}', PROFILE)
    assert item.call == DepositCall(player_id="p1", bet_id="b1", amount_cents=7, round_id="r1")
    assert item.tx_id == "deposit:bet:b1"


@pytest.mark.parametrize(
    "body",
    [b"{}", b"null", b"5", b'"[]"', b'{"bets":{}}', b'{"bets":null}', b'{"items":[]}', b"", b'{"bets":[],"bets":[]}'],
)
def test_what_is_no_batch(body: bytes) -> None:
    """Nothing of it is read (docs/decisions/0010)."""
    with pytest.raises(MalformedCallError):
        read_batch(body, PROFILE)


def test_the_largest_batch() -> None:
    """1,000 items and not one more (docs/decisions/0010)."""
    assert len(read_batch(b"[" + b"{}," * 999 + b"{}]", PROFILE)) == 1000
    with pytest.raises(MalformedCallError, match="at most 1000 deposits, not 1001"):
        read_batch(b"[" + b"{}," * 1000 + b"{}]", PROFILE)
    assert read_batch(b"[]", PROFILE) == []


def test_a_batch_goes_to_the_parser_item_by_item() -> None:
    """A service that differs altogether differs in batches too (docs/decisions/0010)."""
    asked: list[tuple[str, bytes]] = []

    def parse(operation: str, body: bytes) -> WebhookCall:
        asked.append((operation, body))
        return DepositCall(player_id="p1", bet_id=f"b{len(asked)}", amount_cents=1)

    items = read_batch(b'[ {"a": 1}, 5 ]', Profile(parse=parse))
    assert asked == [("deposit", b'{"a": 1}'), ("deposit", b"5")]
    assert [(item.call.bet_id, item.call.body) for item in items if item.call] == [("b1", b'{"a": 1}'), ("b2", b"5")]
