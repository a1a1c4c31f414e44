"""The stage: how answers are judged, each acceptance beside its rejection."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import pytest

from game_operator.codes import WebhookErrorCode
from game_operator.models.webhooks import Reply, WebhookCall
from game_operator.money import Cents
from game_operator.profile import Profile
from game_operator.protocol.http import HttpReply
from game_operator.protocol.webhook_reply import encode_reply
from game_operator_testkit.certifier import Supplies
from game_operator_testkit.certifier.engine.calls import Player
from game_operator_testkit.certifier.engine.observed import Observed
from game_operator_testkit.certifier.engine.restoring import put_back
from game_operator_testkit.certifier.engine.stage import Stage
from game_operator_testkit.certifier.engine.steps import Found, Limited, NotTried
from game_operator_testkit.certifier.report.verdicts import KnownCause, Weight
from game_operator_testkit.provider.delivery import Carried
from game_operator_testkit.provider.requests import Request

ADVICE, BROKEN, LOST = Weight.ADVICE, Weight.CONTRACT_BROKEN, Weight.MONEY_LOST
#: A call that fails however often it is sent, the balance after it, and another one with the same content.
_STAYS_FAILED: list[tuple[str | None, int | None]] = [
    *[("SYSTEM_ERROR", 9_500)] * 4,
    (None, 9_500),
    *[("SYSTEM_ERROR", 9_500)] * 4,
]
#: An answer by its code, None for SUCCESS, and its balance in cents.
Answer = tuple[str | None, int | None]
#: A refusal of a call that shows what others like the one that is wrong move.
_NOT_TRIED: Answer = ("INVALID_REQUEST", None)


def stage(profile: Profile | None = None) -> Stage:
    """Return a stage of a run that has waited for a balance in vain, and has asked often enough for it at rest."""
    return Stage(
        player=Player("p1", 10_000, 10_000),
        other=Player("p2", 10_000, 10_000),
        profile=profile or Profile(),
        prefix="run-A99",
        instance_id=None,
        carry=lambda _: pytest.fail("nothing is scripted"),
        act=lambda *_: pytest.fail("nothing can be done"),
        supplied=frozenset(),
        supplies=Supplies(),
        observed=Observed(waited_in_vain=True, seen_at_rest=4),
    )


def heard(request: Request, answer: Answer, place: int, status: int = 200) -> Carried:
    code, balance_cents = answer
    cents = None if balance_cents is None else Cents(balance_cents)
    body = encode_reply(Reply(code=code, balance_cents=cents, timestamp=1), now_millis=1)
    return Carried(request, (), HttpReply(status, {}, body), "", 0.001, 1, place=place)


def judged(at: Stage, play: Callable[[], object], *answers: Answer, status: int = 200) -> None:
    """Play *play* with scripted *answers*, and hold that it asks for each of them."""
    left = list(answers)
    at.carry = lambda requests: [heard(request, left.pop(0), 7, status) for request in requests]
    play()
    assert not left, left


def placed(at: Stage, *answers: Answer, status: int = 200, **expected: Any) -> None:
    """Place a bet of 5.00 that must be accepted, with scripted *answers*."""
    judged(at, partial(at.accepts, at.bet().withdraw(), "a withdraw", moves=-500, **expected), *answers, status=status)


def refused(at: Stage, call: WebhookCall, due: str, *answers: Answer, status: int = 200, **expected: Any) -> None:
    """Send *call*, which must be refused with *due*, with scripted *answers*."""
    judged(at, partial(at.refuses, call, "a call", due, **expected), *answers, status=status)


def weights(at: Stage) -> list[Weight]:
    return [note.weight for note in at.notes]


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        pytest.param([(None, 9_500)], None, id="as it must be"),
        pytest.param([("INSUFFICIENT_BALANCE", 10_000)], "refused with INSUFFICIENT_BALANCE", id="refused"),
        pytest.param(
            [(None, 10_000), (None, 10_000), (None, 10_000), _NOT_TRIED],
            "p1 has 100.00; expected 95.00: 5.00 too much",
            id="no debit",
        ),
        pytest.param(
            [*[(None, 9_000)] * 3, _NOT_TRIED, (None, 9_000), _NOT_TRIED],
            "p1 has 90.00; expected 95.00: 5.00 too little",
            id="twice",
        ),
    ],
)
def test_what_must_be_accepted(answers: Sequence[Answer], found: str | None) -> None:
    """A withdraw of 5.00 is a SUCCESS, and the balance is 5.00 less."""
    at = stage()
    if found is None:
        placed(at, *answers)
        assert (at.player.due_cents, at.notes) == (9_500, [])
        return
    with pytest.raises(Found) as raised:
        placed(at, *answers)
    assert found in raised.value.reason
    assert raised.value.weight is None, "it weighs what the scenario says"
    assert raised.value.place == 7


def test_a_balance_that_is_told_wrongly_is_noted() -> None:
    """The money is right, and what the answer tells is not (spec §2.1)."""
    at = stage()
    placed(at, (None, 10_000), (None, 9_500))
    assert weights(at) == [BROKEN]


@pytest.mark.parametrize(
    ("codes", "code", "limited", "ends"),
    [
        pytest.param("extended", "LIMIT_EXCEEDED", True, NotTried, id="a high bet"),
        pytest.param("extended", "MAX_BET", True, NotTried, id="a word of its own"),
        pytest.param("extended", "MAX_BET", False, Limited, id="a word of its own, until lower bets were tried"),
        pytest.param("core", "INVALID_REQUEST", True, NotTried, id="few codes"),
        pytest.param("core", "INVALID_REQUEST", False, Found, id="few codes, for a low bet"),
        pytest.param("extended", "INVALID_REQUEST", True, Found, id="no limit"),
        pytest.param("extended", "INSUFFICIENT_BALANCE", True, Found, id="no money, and there is enough"),
    ],
)
def test_a_limit_of_the_wallets_own(
    codes: Literal["extended", "core"], code: str, limited: bool, ends: type[Exception]
) -> None:
    """Where a scenario bets high, a limit is no mistake; elsewhere only its own code is one (docs/decisions/0013)."""
    at = stage(Profile(codes=codes))
    with pytest.raises(ends, match=code):
        placed(at, (code, 10_000), (None, 10_000), may_limit=limited)


def test_a_word_of_its_own_is_a_refusal_once_lower_bets_were_tried() -> None:
    """Then it is no limit, and the bet must be accepted."""
    at = stage()
    at.observed.is_limited = True
    with pytest.raises(Found, match="refused with MAX_BET instead of SUCCESS"):
        placed(at, ("MAX_BET", 10_000))


BET_NOT_FOUND, ROLLED_BACK = WebhookErrorCode.BET_NOT_FOUND, WebhookErrorCode.BET_ROLLED_BACK
FORGED = WebhookErrorCode.INVALID_SIGNATURE


@pytest.mark.parametrize(
    ("codes", "operation", "due", "code", "noted"),
    [
        pytest.param("extended", "withdraw", ROLLED_BACK, "BET_ROLLED_BACK", [], id="the code that is assumed"),
        pytest.param("extended", "withdraw", ROLLED_BACK, "SYSTEM_ERROR", [ADVICE], id="sent again for nothing"),
        pytest.param("extended", "deposit", BET_NOT_FOUND, "BET_NOT_FOUND", [], id="sent again"),
        pytest.param("extended", "deposit", BET_NOT_FOUND, "BET_ALREADY_CLOSED", [LOST], id="a payment given up"),
        pytest.param(
            "extended", "deposit", BET_NOT_FOUND, "NO_SUCH_BET", [ADVICE], id="a strange code may do anything"
        ),
        pytest.param("extended", "deposit", BET_NOT_FOUND, "undefined", [BROKEN], id="no code"),
        pytest.param("extended", "withdraw", ROLLED_BACK, "UNDEFINED_BET", [ADVICE], id="a code that begins like none"),
        pytest.param("extended", "withdraw", FORGED, "INVALID_REQUEST", [ADVICE], id="a forged bet is never placed"),
        pytest.param("extended", "deposit", FORGED, "INVALID_REQUEST", [LOST], id="a forged payment given up"),
        pytest.param("extended", "rollback", FORGED, "INVALID_REQUEST", [LOST], id="a refund given up"),
        pytest.param("core", "withdraw", ROLLED_BACK, "BET_ALREADY_CLOSED", [], id="few codes: the folded one is due"),
        pytest.param("core", "withdraw", ROLLED_BACK, "BET_ROLLED_BACK", [ADVICE], id="few codes, and not folded"),
    ],
)
def test_codes_of_refusals(
    codes: Literal["extended", "core"], operation: str, due: str, code: str, noted: list[Weight]
) -> None:
    """What counts is whether the service sends the call again (docs/decisions/0013, 0018)."""
    at = stage(Profile(codes=codes))
    bet = at.bet()
    calls: dict[str, WebhookCall] = {
        "withdraw": bet.withdraw(),
        "deposit": bet.deposit(5),
        "rollback": bet.rollback(),
    }
    again = [(code, 10_000)] * 3 if code == "SYSTEM_ERROR" else []  # As the service would send it again.
    refused(at, calls[operation], due, (code, 10_000), *again)
    assert weights(at) == noted


def test_a_limit_of_requests_loses_no_money() -> None:
    """The service sends the call again; what answers 429 in the wallet's place must be found first."""
    at = stage()
    with pytest.raises(Found, match=r"turned away with HTTP 429") as raised:
        placed(at, *[("SYSTEM_ERROR", 10_000)] * 4, status=429)
    assert (raised.value.weight, raised.value.cause) == (BROKEN, KnownCause.TURNED_AWAY)


def test_the_call_before_others_fail_is_named() -> None:
    """If withdraws worked until another was refused, that one may have left a lock behind."""
    at = stage()
    placed(at, (None, 9_500))
    refused(at, at.bet().withdraw(), "INSUFFICIENT_BALANCE", ("INSUFFICIENT_BALANCE", 9_500))
    with pytest.raises(Found) as raised:
        placed(at, *_STAYS_FAILED)
    assert raised.value.reason.endswith("; the call before this began was a call, which returned INSUFFICIENT_BALANCE")


@pytest.mark.parametrize(("left_cents", "is_named"), [(9_000, True), (8_900, False), (11_000, False)])
def test_refused_calls_that_are_worth_the_difference_are_named(left_cents: int, is_named: bool) -> None:
    """Their refusals had no balance, so only a later balance check shows that their money moved."""
    at = stage()
    for title in ("a late one", "another"):
        judged(at, partial(at.refuses, at.bet().withdraw(), title, "BET_ROLLED_BACK"), ("BET_ROLLED_BACK", None))
    with pytest.raises(Found) as raised:
        judged(at, partial(at.check_balances, at.player), (None, left_cents))
    named = "by what was refused before: a late one (BET_ROLLED_BACK) and another (BET_ROLLED_BACK)"
    assert raised.value.reason.endswith(named) is is_named


@pytest.mark.parametrize(
    ("after", "sound", "found"),
    [
        pytest.param(10_000, False, "nothing moved, although the service believes it did", id="a lie"),
        pytest.param(10_000, True, None, id="no harm"),
        pytest.param(9_500, False, "the balance moved by -5.00", id="a debit"),
        pytest.param(10_500, True, "the balance moved by +5.00", id="a refund of nothing"),
    ],
)
def test_what_must_be_refused_and_is_accepted(after: int, sound: bool, found: str | None) -> None:
    """A SUCCESS that moves money fails; one that moves none, unless no harm is done."""
    at = stage()
    play = partial(refused, at, at.bet().rollback(), BET_NOT_FOUND, (None, 10_000), (None, after))
    if found is None:
        play(success_is_advice=sound)
        assert weights(at) == [ADVICE]
        return
    with pytest.raises(Found, match=r"returned SUCCESS instead of BET_NOT_FOUND") as raised:
        play(success_is_advice=sound)
    assert found in raised.value.reason


def test_a_refusal_that_moves_money() -> None:
    """ERROR was said, and the balance it tells is another: the money is looked at."""
    at = stage()
    with pytest.raises(Found, match=r"5\.00 too little"):
        refused(at, at.bet().withdraw(), ROLLED_BACK, ("BET_ROLLED_BACK", 9_500), (None, 9_500))


@pytest.mark.parametrize(
    ("first", "again", "found"),
    [
        pytest.param((None, 9_500), [(None, 9_500)], None, id="the same"),
        pytest.param((None, 9_000), [(None, 9_500)], None, id="today's balance"),
        pytest.param((None, 9_000), [(None, 9_000)], None, id="word for word"),
        pytest.param(
            (None, 9_500), [("DUPLICATE_TRANSACTION", 9_500)], "the first time it returned SUCCESS", id="refused"
        ),
        pytest.param(
            ("INSUFFICIENT_BALANCE", 9_500), [(None, 9_000)] * 2, "the first time it returned INSUFF", id="accepted"
        ),
        pytest.param(
            ("INSUFFICIENT_BALANCE", 9_500), [(None, 9_500)] * 2, "nothing moved, although", id="accepted in words"
        ),
        pytest.param((None, 9_500), [(None, 9_000), (None, 9_000)], "5.00 too little", id="debited again"),
    ],
)
def test_a_call_that_comes_again(first: Answer, again: Sequence[Answer], found: str | None) -> None:
    """It is answered alike and moves nothing; its balance is of now, or word for word that of then."""
    at = stage()
    at.player.due_cents = 9_500
    call = at.bet().withdraw()
    known = heard(at.request(call, "first"), first, 0)
    if found is None:
        judged(at, partial(at.again, call, known, "again"), *again)
        assert at.notes == []
        return
    with pytest.raises(Found, match=found):
        judged(at, partial(at.again, call, known, "again"), *again)


@pytest.mark.parametrize(
    ("due", "status", "noted"),
    [
        pytest.param(200, 200, [], id="200 always"),
        pytest.param(200, 401, [BROKEN], id="another"),
        pytest.param(401, 401, [], id="the profile's"),
        pytest.param(401, 200, [ADVICE], id="200 where the profile has another"),
        pytest.param(401, 500, [BROKEN], id="neither"),
    ],
)
def test_status(due: int, status: int, noted: list[Weight]) -> None:
    """200 always (spec §4.1), unless the profile knows another for what nobody known signed."""
    at = stage()
    play = partial(at.refuses, at.bet().withdraw(), "a withdraw", FORGED, status=due)
    judged(at, play, (FORGED, None), status=status)
    assert weights(at) == noted


def test_ids_and_amounts() -> None:
    """Ids are fresh, and a unit is what the poorer player can pay twenty times."""
    at = stage()
    assert at.unit_cents == 500
    at.other.opening_cents = 1_000
    assert at.unit_cents == 50
    ids = {at.bet().bet_id for _ in range(10)} | {at.fresh() for _ in range(10)}
    assert len(ids) == 20
    assert all(each.startswith("run-A99-") for each in ids)


@pytest.mark.parametrize(
    ("later", "told"),
    [
        pytest.param([False, False, True], "for a moment the wallet accepted no connection; it runs again", id="once"),
        pytest.param([False] * 5, "since then the wallet accepts no connection", id="for good"),
    ],
)
def test_a_process_that_ended_is_named_also_if_it_runs_again(later: list[bool], told: str) -> None:
    """A bad body ended it, and a supervisor started it again, or did not."""
    at = stage()
    at.supplied = frozenset({"wire"})
    left = list(later)

    def carry(requests: Sequence[Request]) -> list[Carried]:
        (request,) = requests
        if request.path == "/withdraw":
            return [Carried(request, (), None, "the connection was closed", 0.001, 1)]
        if left.pop(0):
            return [heard(request, (None, 10_000), 7)]
        return [Carried(request, (), None, "connection refused", 0.001, 1, unreachable=True)]

    at.carry = carry
    with pytest.raises(Found) as raised:
        at.ask(at.bet().withdraw(), "a bad body")
    assert raised.value.cause == KnownCause.GONE
    assert raised.value.reason.startswith("a bad body: no answer")
    assert told in raised.value.reason
    assert left == []


@pytest.mark.parametrize(
    ("seconds", "cause"),
    [pytest.param(2.0, KnownCause.STARVED, id="slow"), pytest.param(0.5, KnownCause.NO_ANSWER, id="quick")],
)
def test_calls_at_once_that_time_out_starve_each_other(seconds: float, cause: KnownCause) -> None:
    """If one call at a time is quick, and a timeout was waited for; otherwise nobody knows why there is no answer."""
    at = stage()
    at.carry = lambda requests: [Carried(each, (), None, "no answer", seconds, 1, timed_out=True) for each in requests]
    with pytest.raises(Found) as raised:
        at.answered([at.request(at.bet().withdraw(), "a withdraw") for _ in range(3)])
    assert raised.value.cause == cause


@pytest.mark.parametrize(
    ("wager_cents", "ends"),
    [pytest.param(10_000, Found, id="all there is"), pytest.param(10_001, NotTried, id="a cent more")],
)
def test_a_refusal_for_want_of_money_is_right_where_there_is_less(wager_cents: int, ends: type[Exception]) -> None:
    """What an earlier scenario left of the balance is no mistake of the withdraw that it cannot pay for."""
    at = stage()
    at.carry = lambda requests: [heard(each, ("INSUFFICIENT_BALANCE", 10_000), 0) for each in requests]
    with pytest.raises(ends):
        at.accepts(at.bet(wager_cents=wager_cents).withdraw(), "a withdraw")


def test_withdraws_in_doubt_are_cancelled_before_the_balance_is_put_back() -> None:
    """One that comes later finds its bet cancelled; what was answered in time stays as it is."""
    at, sent = stage(), list[Request]()

    def carry(requests: Sequence[Request]) -> list[Carried]:
        sent.extend(requests)
        late, *others = requests
        if late.path != "/withdraw":
            return [heard(each, (None, 10_000), 0) for each in requests]
        first = Carried(late, (), None, "no answer", 2.0, 1, timed_out=True)
        return [first, *(heard(each, (None, 10_000), 0) for each in others)]

    at.carry = carry
    bets = [at.bet(), at.bet()]
    at.together([at.request(bet.withdraw(), "a withdraw") for bet in bets])
    sent.clear()
    put_back(at)
    rollback, *others = sent
    assert (rollback.path, bets[0].bet_id.encode() in rollback.body) == ("/rollback", True)
    assert {each.path for each in others} == {"/player-balance"}


def test_a_balance_is_asked_for_again_before_it_is_put_back() -> None:
    """An answer that cannot be read may come by chance, and the money that a scenario took must come back."""
    at, sent = stage(), list[Request]()

    def carry(requests: Sequence[Request]) -> list[Carried]:
        sent.extend(requests)
        unread = Carried(requests[0], (), HttpReply(502, {}, b"<html>"), "not JSON", 0.001, 1)
        return [unread if len(sent) == 1 else heard(each, (None, 10_000), 0) for each in requests]

    at.carry = carry
    put_back(at)
    assert [b"p1" in each.body for each in sent] == [True, True, False]
