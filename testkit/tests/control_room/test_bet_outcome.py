"""What became of a round is told from what the wallet answered."""

import pytest

from game_operator.models import BetNotFound, ClosedBet, OpenBet, RolledBackBet
from game_operator.protocol.operations import AnyBet
from game_operator_testkit.control_room.outcomes import BetOutcome
from game_operator_testkit.sandbox.service.exchange_log import Exchange

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


def call(number: int, path: str, answer: object, fault: str = "") -> Exchange:
    body = b"<html>"
    if isinstance(answer, str):
        body = b'{"type":"SUCCESS","balance":1.00,"timestamp":1}'
        if answer != "SUCCESS":
            body = b'{"type":"ERROR","code":"%s","timestamp":1}' % answer.encode()
    status = 200 if isinstance(answer, str) else answer
    assert status is None or isinstance(status, int)
    return Exchange(
        at_millis=0,
        direction="webhook",
        method="POST",
        path=path,
        url=f"http://w{path}",
        request_headers=(),
        request_body=b"{}",
        signature="valid",
        status=status,
        response_body=body,
        fault=fault,
        player_id="ann",
        number=number,
    )


GAVE_UP = (
    "The service gave up: neither the withdraw nor its rollback was answered definitely. What the wallet has is not"
)


@pytest.mark.parametrize(
    ("bet", "told", "expected"),
    [
        pytest.param(WON, [(W, "SUCCESS"), (D, "SUCCESS")], "ann wagered 5.00 EUR and won 12.50 EUR.", id="won"),
        pytest.param(LOST, [(W, "SUCCESS"), (D, "SUCCESS")], "ann wagered 5.00 EUR and lost.", id="lost"),
        pytest.param(
            CANCELLED,
            [(W, "SUCCESS"), (R, "SUCCESS")],
            "ann’s wager of 5.00 EUR was taken and given back.",
            id="cancelled",
        ),
        pytest.param(OPEN, [(W, "SUCCESS")], "ann’s bet of 5.00 EUR is still open.", id="open"),
        pytest.param(WON, [], "ann wagered 5.00 EUR and won 12.50 EUR.", id="no longer in the log"),
        pytest.param(NOT_FOUND, [], "The wallet took no wager, so there is no bet.", id="neither bet nor log"),
        pytest.param(
            CANCELLED,
            [*[(W, "INVALID_SIGNATURE")] * 12, *[(R, "INVALID_SIGNATURE")] * 12],
            "Not played. The wallet answered INVALID_SIGNATURE to all 24 calls: it does not know the service’s key. "
            "Give it the key under Keys.",
            id="the wallet has another key",
        ),
        pytest.param(
            CANCELLED,
            [(W, 404), (R, 404)],
            "Not played. http://w/withdraw answered HTTP 404, and no reply. The wallet’s address must be the one that "
            "/withdraw is below; is a prefix such as /wallet missing?",
            id="the wrong address",
        ),
        pytest.param(CANCELLED, [(W, 500), (R, 500)], GAVE_UP, id="an error that may come after the deed"),
        pytest.param(
            CANCELLED,
            [(W, 500), (R, 404)],
            "is not known. http://w/withdraw answered HTTP 500, and no reply. Your wallet failed: look into its log.",
            id="and where to look for it",
        ),
        pytest.param(
            CANCELLED,
            [(W, 405), (R, 405)],
            "answered HTTP 405, and no reply. The wallet’s address must be the one",
            id="another method's address",
        ),
        pytest.param(
            CANCELLED, [(W, 307), (R, 307)], "Not played. http://w/withdraw answered HTTP 307, and no", id="a redirect"
        ),
        pytest.param(
            CANCELLED, [(W, 403), (R, 403)], "no reply. The body cannot be read as a reply: ", id="a gate before it"
        ),
        pytest.param(
            CANCELLED,
            [(W, 200), (R, 200)],
            "http://w/withdraw answered HTTP 200, and no reply. The body cannot be read as a reply: the body is no",
            id="a page in the place of a reply",
        ),
        pytest.param(
            WON,
            [(W, "SUCCESS"), (D, 201)],
            "the deposit was not answered definitely. What the wallet has is not known. http://w/deposit answered HTTP",
            id="a page in the place of the deposit's",
        ),
        pytest.param(
            NOT_FOUND,
            [(W, "INVALID_REQUEST")],
            "it cannot make sense of the call. No wager was taken. A receiver that was given instances= refuses all",
            id="another's instance",
        ),
        pytest.param(CANCELLED, [(W, 404), (R, "SYSTEM_ERROR")], GAVE_UP, id="a reply among those that are none"),
        pytest.param(CANCELLED, [(W, "SYSTEM_ERROR"), (R, "SYSTEM_ERROR")], GAVE_UP, id="unknown to the wallet too"),
        pytest.param(CANCELLED, [(W, None), (R, None)], GAVE_UP, id="nothing was heard"),
        pytest.param(CANCELLED, [(W, None), (R, "SUCCESS")], "Cancelled. The withdraw was not", id="cancelled unseen"),
        pytest.param(
            CANCELLED, [(W, None), (R, "BET_NOT_FOUND")], "to its rollback the answer is BET_NOT_FOUND.", id="not there"
        ),
        pytest.param(
            CANCELLED,
            [(W, None), (R, "PLAYER_BLOCKED")],
            "its rollback was refused: PLAYER_BLOCKED. What the wallet has is not known.",
            id="a rollback that is refused",
        ),
        pytest.param(
            NOT_FOUND,
            [(W, "PLAYER_NOT_FOUND")],
            "The wallet refused: PLAYER_NOT_FOUND, it knows no player ann. No wager was taken.",
            id="no such player",
        ),
        pytest.param(
            NOT_FOUND,
            [(W, "INSUFFICIENT_BALANCE")],
            "The wallet refused: INSUFFICIENT_BALANCE, ann has less than the wager.",
            id="too little money",
        ),
        pytest.param(NOT_FOUND, [(W, "OF_OUR_OWN")], "The wallet refused: OF_OUR_OWN. No wager", id="another code"),
        pytest.param(
            LOST,
            [(W, "SUCCESS"), (D, "SYSTEM_ERROR"), (D, "BET_NOT_FOUND")],
            "ann’s wager of 5.00 EUR was taken, and the service gave up: the deposit was not answered definitely.",
            id="a loss that was never told",
        ),
        pytest.param(
            WON,
            [(W, "SUCCESS"), (D, "LIMIT_EXCEEDED")],
            "ann’s wager of 5.00 EUR was taken, and the wallet refused the deposit: LIMIT_EXCEEDED.",
            id="a win that was refused",
        ),
        pytest.param(
            CANCELLED, [(W, "SUCCESS"), (R, None)], "the rollback was not answered definitely.", id="not given back"
        ),
        pytest.param(
            LOST,
            [(W, "INVALID_SIGNATURE", "forged"), (W, "SUCCESS"), (D, "SUCCESS")],
            "ann wagered 5.00 EUR and lost.",
            id="a forgery beside the call",
        ),
        pytest.param(CANCELLED, [(W, "SUCCESS", "reply-lost"), (R, None)], GAVE_UP, id="an answer that was lost"),
        pytest.param(
            WON,
            [(W, "SUCCESS"), (D, None, "request-lost")],
            "the service gave up: the deposit was lost on its way, and the wallet never received it.",
            id="a deposit that was lost",
        ),
        pytest.param(
            WON,
            [(W, "SUCCESS"), (D, None, "request-lost"), (D, None)],
            "the deposit was not answered definitely. What the wallet has is not known.",
            id="a deposit that was lost once",
        ),
        pytest.param(
            WON,
            [(W, "SUCCESS"), (D, "SUCCESS", "reply-lost")],
            "the deposit was answered SUCCESS, and that answer was lost on its way back.",
            id="a deposit whose answer was lost",
        ),
        pytest.param(
            CANCELLED,
            [(W, None, "request-lost"), (R, None, "request-lost")],
            "The service gave up. The withdraw was lost on its way, and the wallet never received it; its rollback was",
            id="a bet of which the wallet saw nothing",
        ),
        pytest.param(
            WON,
            [(W, "SUCCESS")],
            "ann’s wager of 5.00 EUR was taken, and no answer to its deposit is in the live log. What the wallet has",
            id="a deposit that never went out",
        ),
        pytest.param(CANCELLED, [(W, "SUCCESS")], "no answer to its rollback is in the live log.", id="nor a rollback"),
        pytest.param(
            WON, [(D, "SUCCESS")], "ann wagered 5.00 EUR and won 12.50 EUR.", id="the log has lost the withdraw"
        ),
        pytest.param(
            CANCELLED,
            [(R, "SUCCESS")],
            "Cancelled. The withdraw is not in the live log; its rollback was answered SUCCESS",
            id="and of a cancelled bet",
        ),
        pytest.param(
            CANCELLED,
            [(R, None)],
            "The withdraw is not in the live log, and its rollback was not answered definitely.",
            id="and of one that was given up",
        ),
    ],
)
def test_the_headline_is_what_was_answered(
    bet: AnyBet, told: list[tuple[str, object] | tuple[str, object, str]], expected: str
) -> None:
    """Never what was asked for; what nobody knows is said to be unknown (spec §3, docs/decisions/0013)."""
    assert expected in BetOutcome(bet, calls(*told), "EUR").headline


@pytest.mark.parametrize(
    ("early_code", "end"),
    [
        pytest.param("BET_NOT_FOUND", "and the service gave up: the deposit was not answered definitely.", id="early"),
        pytest.param("SYSTEM_ERROR", "and the wallet refused the deposit: BET_NOT_FOUND.", id="final"),
    ],
)
def test_a_refused_deposit_is_early_or_final_as_the_profile_says(early_code: str, end: str) -> None:
    """BET_NOT_FOUND asks for the deposit again only where it is the profile's early_deposit_code."""
    outcome = BetOutcome(WON, calls((W, "SUCCESS"), (D, "BET_NOT_FOUND")), "EUR", early_code)
    assert end in outcome.headline


@pytest.mark.parametrize(
    ("bet", "told", "confirmed"),
    [
        pytest.param(WON, [(W, "SUCCESS"), (D, "SUCCESS")], True, id="settled"),
        pytest.param(WON, [(D, "SUCCESS")], True, id="settled, and the log has lost the withdraw"),
        pytest.param(WON, [(W, "SUCCESS"), (D, 500)], False, id="a deposit without an answer"),
        pytest.param(WON, [(W, "SUCCESS")], False, id="no deposit"),
        pytest.param(WON, [(W, None), (D, "SUCCESS")], False, id="a deposit before the withdraw"),
        pytest.param(LOST, [(W, "SUCCESS"), (D, "LIMIT_EXCEEDED")], False, id="a deposit that was refused"),
        pytest.param(LOST, [(W, "SUCCESS"), (D, "SUCCESS", "forged")], False, id="a forged deposit alone"),
        pytest.param(OPEN, [(W, "SUCCESS")], True, id="open"),
        pytest.param(OPEN, [(W, None)], False, id="a withdraw without an answer"),
        pytest.param(CANCELLED, [(W, "SUCCESS"), (R, "SUCCESS")], True, id="cancelled"),
        pytest.param(CANCELLED, [(W, None), (R, "BET_NOT_FOUND")], True, id="cancelled, and never there"),
        pytest.param(CANCELLED, [(W, "SUCCESS"), (R, "BET_NOT_FOUND")], False, id="there, and not found"),
        pytest.param(CANCELLED, [(W, 500), (R, 500)], False, id="errors alone"),
        pytest.param(WON, [], None, id="no call in the log"),
        pytest.param(WON, [(D, "INVALID_SIGNATURE", "forged")], None, id="no genuine call in the log"),
        pytest.param(NOT_FOUND, [(W, "PLAYER_BLOCKED")], None, id="no such bet"),
    ],
)
def test_whether_the_wallet_has_confirmed_a_bet(
    bet: AnyBet, told: list[tuple[str, object] | tuple[str, object, str]], confirmed: bool | None
) -> None:
    """Only by what it answered to the calls themselves (spec §3)."""
    stands = BetOutcome(bet, calls(*told), "EUR")
    assert stands.confirmed is confirmed
    assert ("has confirmed that." in stands.wallet) == (confirmed is True)
    assert ("has not confirmed that" in stands.wallet) == (confirmed is False)


@pytest.mark.parametrize(
    ("bet", "service"),
    [
        pytest.param(WON, "For the service, this bet is settled: ann wagered 5.00 and won 12.50.", id="won"),
        pytest.param(LOST, "For the service, this bet is settled: ann wagered 5.00 and lost.", id="lost"),
        pytest.param(CANCELLED, "For the service, ann’s bet of 5.00 is cancelled.", id="cancelled"),
        pytest.param(OPEN, "For the service, ann’s bet of 5.00 is still open.", id="open"),
        pytest.param(NOT_FOUND, "", id="no such bet"),
    ],
)
def test_what_the_service_holds(bet: AnyBet, service: str) -> None:
    """Whatever the wallet has; an instance that is gone has no currency."""
    assert BetOutcome(bet, [], "").service == service
    assert ("no call about it" in BetOutcome(bet, [], "").wallet) == (bet is not NOT_FOUND)
