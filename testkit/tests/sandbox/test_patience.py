"""Patience with a wallet that answers nothing of use: it ends, and begins anew with the first answer."""

import asyncio
from contextlib import suppress

import pytest

from game_operator.errors import RequestNotSentError, TransportError
from game_operator.models.webhooks import Reply, WithdrawCall
from game_operator.money import Cents
from game_operator_testkit.provider.delivery import Answer, Post
from game_operator_testkit.provider.faults import Fault
from game_operator_testkit.sandbox.storm.trace import Timeline

pytestmark = pytest.mark.slow

CALL = WithdrawCall(player_id="p", bet_id="b", amount_cents=1)
SILENCE = Answer(None, None, "it hung up")
USE = Answer(Reply(balance_cents=Cents(1)), 200)
REFUSAL = Answer(Reply(code="INSUFFICIENT_BALANCE", balance_cents=Cents(1)), 200)
TROUBLE = Answer(Reply(code="SYSTEM_ERROR"), 200)
STRANGER = Answer(Reply(code="INVALID_SIGNATURE"), 200)


class Canned:
    """Gives its answers in turn, and takes a moment for each."""

    def __init__(self, answers: tuple[Answer, ...], seconds: float) -> None:
        self._answers, self._seconds = iter(answers), seconds

    async def post(self, post: Post) -> Answer:
        await asyncio.sleep(self._seconds)
        return next(self._answers)


def posted(*answers: Answer, patience: float = 0.04, takes: float = 0.06, post: Post | None = None) -> int:
    """Return how many of the *answers* were heard before patience was at its end."""
    timeline, courier, heard = Timeline(patience), Canned(answers, takes), 0

    async def everything() -> None:
        nonlocal heard
        for _ in answers:
            await timeline.carry(courier.post, post or Post(CALL))
            heard += 1

    with suppress(TransportError):
        asyncio.run(everything())
    return heard


@pytest.mark.parametrize("answer", [SILENCE, TROUBLE, STRANGER], ids=["silence", "SYSTEM_ERROR", "INVALID_SIGNATURE"])
def test_patience_ends(answer: Answer) -> None:
    """After the time that was given, and not with the first."""
    assert posted(answer, answer, answer) == 1
    assert posted(answer, answer, answer, patience=60, takes=0) == 3


class Unreachable:
    """Cannot be reached so many times, and then answers."""

    def __init__(self, times: int) -> None:
        self.left = times

    async def post(self, post: Post) -> Answer:
        await asyncio.sleep(0.01)
        self.left -= 1
        if self.left >= 0:
            raise RequestNotSentError("/withdraw: refused", elapsed_seconds=0.0)
        return USE


def test_a_wallet_that_restarts_is_waited_for() -> None:
    """It then gets the call, and nobody counts those that never left."""
    timeline, courier = Timeline(60), Unreachable(20)
    answer = asyncio.run(timeline.carry(courier.post, Post(CALL)))
    assert (answer, courier.left, timeline.posts) == (USE, -1, 1)


def test_how_long_a_wallet_was_waited_for_that_cannot_be_reached() -> None:
    """From the first attempt in vain on; no advice on what never left."""
    timeline, courier = Timeline(0.2), Unreachable(10**6)
    with pytest.raises(TransportError, match="cannot be reached any more: /withdraw: refused") as gone:
        asyncio.run(timeline.carry(courier.post, Post(CALL)))
    assert gone.value.elapsed_seconds >= 0.2
    assert gone.value.attempts == 10**6 - courier.left
    assert not isinstance(gone.value, RequestNotSentError)
    assert timeline.posts == 0


@pytest.mark.parametrize("answer", [USE, REFUSAL], ids=["SUCCESS", "a refusal"])
def test_an_answer_of_use_begins_it_anew(answer: Answer) -> None:
    """A refusal is one too."""
    assert posted(SILENCE, answer, SILENCE, answer, TROUBLE, answer) == 6


@pytest.mark.parametrize(
    ("manner", "extra"),
    [(Fault.REQUEST_LOST, None), (Fault.TIMEOUT, None), (None, Fault.FORGED), (None, Fault.OLD_KEY)],
)
def test_what_a_fault_hid_is_not_the_wallets(manner: Fault | None, extra: Fault | None) -> None:
    """A reply that we lost ourselves, and the refusal of a stranger."""
    assert posted(*[SILENCE] * 3, post=Post(CALL, manner=manner, extra=extra)) == 3
