"""What became of a bet is told from what the wallet answered."""

from typing import Literal

import pytest

from game_operator.models import BetNotFound, ClosedBet, OpenBet, RolledBackBet
from game_operator.profile import Profile
from game_operator.protocol.operations import AnyBet
from game_operator_testkit.control_room.bet_outcome import BetOutcome
from game_operator_testkit.control_room.page_context import environment
from game_operator_testkit.sandbox.service.exchange_log import Exchange
from testkit.tests.control_room.support import Html
from testkit.tests.sandbox.support import exchange

PLACED = {
    "reference_id": "b1",
    "player_id": "ann",
    "round_id": "r1",
    "instance_id": "a" * 24,
    "game": "dice",
    "wager": 500,
    "timestamp": 1,
}
NOT_FOUND = BetNotFound.model_validate({})
OPEN = OpenBet.model_validate(PLACED)
LOST = ClosedBet.model_validate(PLACED | {"won": 0})
WON = ClosedBet.model_validate(PLACED | {"won": 1250})
CANCELLED = RolledBackBet.model_validate(PLACED)
W, D, R = "/withdraw", "/deposit", "/rollback"


def calls(*told: tuple[str, object] | tuple[str, object, str]) -> list[Exchange]:
    """Return exchanges of path, answer and fault: a code, a status without a reply, or None for nothing."""
    return [call(number, *each) for number, each in enumerate(told, 1)]


def outcome(bet: AnyBet, *told: tuple[str, object] | tuple[str, object, str]) -> BetOutcome:
    return BetOutcome(bet, calls(*told), Profile())


def call(number: int, path: str, answer: object, fault: str = "") -> Exchange:
    body = b"<html>"
    if isinstance(answer, str):
        body = b'{"type":"SUCCESS","balance":1.00,"timestamp":1}'
        if answer != "SUCCESS":
            body = b'{"type":"ERROR","code":"%s","timestamp":1}' % answer.encode()
    status = 200 if isinstance(answer, str) else answer
    assert status is None or isinstance(status, int)
    return exchange(path=path, request_body=b"{}", status=status, response_body=body, fault=fault, number=number)


UNKNOWN = "What the wallet has is not known."


@pytest.mark.parametrize(
    ("bet", "told", "expected"),
    [
        pytest.param(WON, [], "", id="no longer in the log"),
        pytest.param(
            CANCELLED,
            [*[(W, "INVALID_SIGNATURE")] * 12, *[(R, "INVALID_SIGNATURE")] * 12],
            "The withdraw had no definite answer in 12 tries: INVALID_SIGNATURE. The rollback had no definite answer "
            "in 12 tries: INVALID_SIGNATURE. No money moved. The wallet does not know the key that signed this call.",
            id="the wallet has another key",
        ),
        pytest.param(
            CANCELLED,
            [(W, 404), (R, 404)],
            "The withdraw had no definite answer: 404. The rollback had no definite answer: 404. No money moved. The "
            "wallet’s address must be the one that /withdraw is below; is a prefix such as /wallet missing?",
            id="the wrong address",
        ),
        pytest.param(
            CANCELLED, [(W, 500), (R, 500)], f"{UNKNOWN} Your wallet failed: look into its log.", id="an error"
        ),
        pytest.param(CANCELLED, [(W, 500), (R, 404)], UNKNOWN, id="an error that may come after the deed"),
        pytest.param(
            CANCELLED, [(W, 307), (R, 307)], "No money moved. The service follows no redirect", id="a redirect"
        ),
        pytest.param(
            WON,
            [(W, "SUCCESS"), (D, 201)],
            f"The withdraw was answered SUCCESS. The deposit had no definite answer: 201, unreadable. {UNKNOWN}",
            id="a page in the place of the deposit's",
        ),
        pytest.param(
            NOT_FOUND,
            [(W, "INVALID_REQUEST")],
            "The withdraw was refused: INVALID_REQUEST. No money moved. A receiver that was given "
            "instances= refuses all",
            id="a call that cannot be used",
        ),
        pytest.param(CANCELLED, [(W, 404), (R, "SYSTEM_ERROR")], UNKNOWN, id="a reply among those that are none"),
        pytest.param(CANCELLED, [(W, None), (R, None)], f"no answer. {UNKNOWN}", id="nothing was heard"),
        pytest.param(
            NOT_FOUND,
            [(W, "OF_OUR_OWN")],
            "The withdraw was refused: OF_OUR_OWN. No money moved.",
            id="another code",
        ),
        pytest.param(
            LOST,
            [(W, "SUCCESS"), (D, "SYSTEM_ERROR"), (D, "BET_NOT_FOUND")],
            f"The deposit had no definite answer in 2 tries: BET_NOT_FOUND. {UNKNOWN}",
            id="a loss that was never told",
        ),
        pytest.param(
            WON,
            [(W, "SUCCESS"), (D, "LIMIT_EXCEEDED")],
            "The withdraw was answered SUCCESS. The deposit was refused: LIMIT_EXCEEDED.",
            id="a win that was refused",
        ),
        pytest.param(
            NOT_FOUND,
            [(W, "INVALID_SIGNATURE", "forged"), (W, "PLAYER_BLOCKED")],
            "The withdraw was refused: PLAYER_BLOCKED.",
            id="a forgery beside the call",
        ),
        pytest.param(
            WON,
            [(W, "SUCCESS"), (D, None, "request-lost"), (D, None)],
            f"The deposit had no definite answer in 2 tries: no answer. {UNKNOWN}",
            id="a deposit that was lost once",
        ),
        pytest.param(
            CANCELLED,
            [(W, None, "request-lost"), (R, None, "request-lost")],
            "The withdraw was lost on its way, and the wallet never received it. The rollback was lost on its way, and "
            "the wallet never received it. No money moved.",
            id="a bet of which the wallet saw nothing",
        ),
        pytest.param(WON, [(W, "SUCCESS")], f"The deposit is not in the live log. {UNKNOWN}", id="no deposit"),
    ],
)
def test_what_became_of_each_operation(
    bet: AnyBet, told: list[tuple[str, object] | tuple[str, object, str]], expected: str
) -> None:
    """Never what was asked for; what nobody knows is said to be unknown (spec §3, docs/decisions/0013)."""
    answers = outcome(bet, *told).answers
    assert expected in answers
    assert (UNKNOWN in answers) == (UNKNOWN in expected)


def test_a_deposit_that_was_lost_is_no_riddle() -> None:
    """It moved nothing, and so did one of whose answer we know that it was lost; the withdraw did."""
    lost = outcome(WON, (W, "SUCCESS"), (D, None, "request-lost")).answers
    assert lost == (
        "The withdraw was answered SUCCESS. The deposit was lost on its way, and the wallet never received it."
    )


@pytest.mark.parametrize(
    ("early_code", "end"),
    [
        pytest.param("BET_NOT_FOUND", "The deposit had no definite answer: BET_NOT_FOUND.", id="early"),
        pytest.param("SYSTEM_ERROR", "The deposit was refused: BET_NOT_FOUND.", id="final"),
    ],
)
def test_a_refused_deposit_is_early_or_final_as_the_profile_says(
    early_code: Literal["BET_NOT_FOUND", "SYSTEM_ERROR"], end: str
) -> None:
    """BET_NOT_FOUND asks for the deposit again only where it is the profile's early_deposit_code."""
    profile = Profile(early_deposit_code=early_code)
    told = calls((W, "SUCCESS"), (D, "BET_NOT_FOUND"))
    assert end in BetOutcome(WON, told, profile).answers


@pytest.mark.parametrize(
    ("bet", "told", "confirmed"),
    [
        pytest.param(WON, [(W, "SUCCESS"), (D, "SUCCESS")], True, id="settled"),
        pytest.param(WON, [(W, "SUCCESS"), (D, 500)], False, id="a deposit without an answer"),
        pytest.param(WON, [(W, "SUCCESS")], False, id="no deposit"),
        pytest.param(WON, [(W, None), (D, "SUCCESS")], False, id="a deposit before the withdraw"),
        pytest.param(LOST, [(W, "SUCCESS"), (D, "LIMIT_EXCEEDED")], False, id="a deposit that was refused"),
        pytest.param(LOST, [(W, "SUCCESS"), (D, "SUCCESS", "forged")], False, id="a forged deposit alone"),
        pytest.param(OPEN, [(W, "SUCCESS")], True, id="open"),
        pytest.param(CANCELLED, [(W, "SUCCESS"), (R, "SUCCESS")], True, id="cancelled"),
        pytest.param(CANCELLED, [(W, None), (R, "BET_NOT_FOUND")], True, id="cancelled, and never there"),
        pytest.param(CANCELLED, [(W, "SUCCESS"), (R, "BET_NOT_FOUND")], False, id="there, and not found"),
        pytest.param(WON, [], None, id="no call in the log"),
        pytest.param(NOT_FOUND, [(W, "PLAYER_BLOCKED")], None, id="no such bet"),
    ],
)
def test_whether_the_wallet_has_confirmed_a_bet(
    bet: AnyBet, told: list[tuple[str, object] | tuple[str, object, str]], confirmed: bool | None
) -> None:
    """Only by what it answered to the calls themselves (spec §3)."""
    assert outcome(bet, *told).confirmed is confirmed


@pytest.mark.parametrize(
    ("bet", "currency", "said"),
    [
        pytest.param(WON, "EUR", "ann wagered 5.00 EUR and won 12.50 EUR.", id="won"),
        pytest.param(WON, "", "ann wagered 5.00 and won 12.50.", id="an instance that is gone has no currency"),
        pytest.param(LOST, "EUR", "ann wagered 5.00 EUR and lost.", id="lost"),
        pytest.param(CANCELLED, "EUR", "ann’s bet of 5.00 EUR is cancelled.", id="cancelled"),
        pytest.param(OPEN, "EUR", "ann’s bet of 5.00 EUR is open.", id="open"),
        pytest.param(NOT_FOUND, "", "The service has no such bet.", id="no such bet"),
    ],
)
def test_what_the_service_holds(bet: AnyBet, currency: str, said: str) -> None:
    """Whatever the wallet has."""
    template = environment().get_template("_bets.html").make_module({"currencies": {PLACED["instance_id"]: currency}})
    assert Html(template.ended(bet)).text == said  # type: ignore[attr-defined]  # a macro


def test_a_player_cannot_turn_the_sentence_around() -> None:
    """The id is isolated, and what hides in it is shown."""
    template = environment().get_template("_bets.html").make_module({"currencies": {}})
    bet = OpenBet.model_validate(PLACED | {"player_id": "a\u202e<b"})
    html = template.ended(bet)  # type: ignore[attr-defined]  # a macro
    assert html.strip() == "<bdi>a\\u202e&lt;b</bdi>’s bet of 5.00 is open."
