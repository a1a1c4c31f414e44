"""Lies of the Operator API: once or for ever, about a bet, a round or all of them; and the truth again."""

from collections.abc import Iterator
from functools import partial

import httpx
import pytest

from game_operator import OperatorClient
from game_operator.errors import AuthenticationError, ServiceError, UnexpectedResponseError
from game_operator.models import BetNotFound, ClosedBet, OpenBet, RoundFound, RoundNotFound
from game_operator_testkit.provider.keys import ThrowAwayKeys, new_key
from game_operator_testkit.sandbox.in_process import InProcessSandbox

KEYS = ThrowAwayKeys()


@pytest.fixture
def sandbox() -> Iterator[InProcessSandbox]:
    with InProcessSandbox(keys=KEYS) as sandbox:
        yield sandbox


@pytest.mark.parametrize("times", [1, 2, None])
def test_another_win_is_told_so_often(sandbox: InProcessSandbox, times: int | None) -> None:
    """Once, twice or for ever; other bets are answered truly."""
    bet_id = sandbox.bet_ids["CLOSED"]
    with sandbox.client() as client:
        true, other = client.fetch_bet(bet_id), client.fetch_bet(sandbox.bet_ids["LOST"])
        assert isinstance(true, ClosedBet)
        sandbox.lies.about_bet(bet_id, {"won": true.won + 1}, times=times)
        lie = true.model_copy(update={"won": true.won + 1})
        told = 4 if times is None else times
        assert [client.fetch_bet(bet_id) for _ in range(4)] == [lie] * told + [true] * (4 - told)
        assert client.fetch_bet(sandbox.bet_ids["LOST"]) == other
        sandbox.lies.clear()
        assert client.fetch_bet(bet_id) == true


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"status":"CLOSED"}', b"\xff\x00"])
def test_garbage(sandbox: InProcessSandbox, body: bytes) -> None:
    """Byte for byte; the client reports it as a separate kind of error."""
    bet_id = sandbox.bet_ids["OPEN"]
    sandbox.lies.about_bet(bet_id, body)
    with sandbox.client() as client, pytest.raises(UnexpectedResponseError):
        client.fetch_bet(bet_id)
    seen = sandbox.live.recent(1)[0]
    assert (seen.response_body, seen.status) == (body, 200)
    assert "lie" in seen.note


def test_rounds(sandbox: InProcessSandbox) -> None:
    """By id and by number; one that is not there too. A bet that is lied about is listed truly."""
    with sandbox.client() as client:
        fetched = partial(client.fetch_round_bets, instance_id=sandbox.instance_id)
        true = fetched(round_id=sandbox.round_id)
        assert isinstance(true, RoundFound)
        sandbox.lies.about_bet(true.bets[0].reference_id, b"<html>")
        assert fetched(round_id=sandbox.round_id) == true
        sandbox.lies.about_round(sandbox.round_id, {"bets": []}, times=2)
        empty = true.model_copy(update={"bets": ()})
        assert fetched(round_id=sandbox.round_id) == empty
        assert fetched(round_no=sandbox.round_no) == empty
        assert fetched(round_no=sandbox.round_no) == true
        known = true.model_copy(update={"round_id": "round-of-nobody"})
        sandbox.lies.about_round("round-of-nobody", known, times=1)
        assert fetched(round_id="round-of-nobody") == known
        assert isinstance(fetched(round_id="round-of-nobody"), RoundNotFound)


def test_a_call_that_is_refused_hears_no_lie(sandbox: InProcessSandbox) -> None:
    """Nor does one that meets a fault; neither counts as told."""
    bet_id = sandbox.bet_ids["OPEN"]
    sandbox.lies.about_bet(bet_id, BetNotFound(), times=1)
    sandbox.faults.set_nth("api-500", 1)
    http = httpx.Client(transport=sandbox.transport)
    stranger = OperatorClient(sandbox.base_url, sandbox.operator_id, new_key(), http_client=http)
    with http, stranger, pytest.raises(AuthenticationError):
        stranger.fetch_bet(bet_id)
    with sandbox.client(retries=0) as client:
        with pytest.raises(ServiceError):
            client.fetch_bet(bet_id)
        assert client.fetch_bet(bet_id) == BetNotFound()
        assert isinstance(client.fetch_bet(bet_id), OpenBet)
