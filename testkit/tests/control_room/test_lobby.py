"""The lobby: the catalogue, and a round played from it."""

import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from game_operator.ledger import MemoryLedger
from game_operator.text import money
from game_operator_testkit.control_room import ControlRoom
from game_operator_testkit.control_room.amounts import units_in
from game_operator_testkit.control_room.page_context import PageContext
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.control_room.support import Html, form_token, page, play, post
from tests.support.hostile_server import Connection, HostileServer
from tests.support.times import wait_until

pytestmark = pytest.mark.outside


UNLIMITED = httpx.Limits(max_connections=None)


def shown_games(http: httpx.Client, query: str) -> list[str]:
    """Return the names of the games that are listed."""
    html = page(http, f"/?{query}")
    return [src.removeprefix("/thumbnails/").removesuffix(".svg") for src in html.values("src") if "thumb" in src]


def test_the_catalogue_is_what_the_api_answers(sandbox: Sandbox, http: httpx.Client) -> None:
    """Every game with its limits, in currency units (spec §2.5, §2.7)."""
    text = page(http, "/").text
    games = sandbox.world.games()
    for game in games:
        assert game.name in text
        for instance in game.instances:
            limits = instance.bet_config
            least, most, win = (
                units_in(each, limits.currency) for each in (limits.min_wager, limits.max_wager, limits.max_win)
            )
            assert f"{limits.currency} {least} – {most}" in text
            assert f"wins up to {win}" in text
    assert f"{len(games)} of {len(games)}" in text
    assert "wins up to 1,234,567,890,123,456.78" in text


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("genre=Crash", ["comet-crash"], id="by genre"),
        pytest.param("status=MAINTENANCE", ["upstairs"], id="by status"),
        pytest.param("genre=Crash&status=ACTIVE", ["comet-crash"], id="by both"),
        pytest.param("genre=Crash&status=MAINTENANCE", [], id="none fits both"),
    ],
)
def test_games_are_filtered(http: httpx.Client, query: str, expected: list[str]) -> None:
    """By a link or a form without a script; what was chosen stays chosen."""
    assert shown_games(http, query) == expected
    assert ("No game has this genre" in page(http, f"/?{query}").text) == (not expected)
    assert len(shown_games(http, "genre=&status=")) == 14


def test_every_game_has_its_picture(http: httpx.Client) -> None:
    """Drawn here, whatever thumbnail_url says; there is none of a game that is not there."""
    for path in [src for src in page(http, "/").values("src") if "thumb" in src]:
        response = http.get(path)
        assert (response.status_code, response.headers["content-type"]) == (200, "image/svg+xml")
        assert b"<svg" in response.content
    assert http.get("/thumbnails/nothing.svg").status_code == 404


def test_the_form_is_filled_in(sandbox: Sandbox, http: httpx.Client) -> None:
    """With the instance that a game's link names, and its default wager."""
    instance = next(
        each for game in sandbox.world.games() for each in game.instances if each.bet_config.currency == "KWD"
    )
    html = page(http, f"/?instance={instance.id}")
    wager = next(each for each in html.all("input") if each.get("name") == "wager")
    assert wager["value"] == "0.25"
    assert page(http, "/?instance=nothing").all("h1")


@pytest.mark.parametrize(
    ("fields", "moved", "told"),
    [
        pytest.param(
            {"outcome": "win", "wager": "2.50", "won": "7"}, "4.50", "wagered 2.50 EUR and won 7.00 EUR", id="win"
        ),
        pytest.param({"outcome": "loss", "wager": "3"}, "-3.00", "wagered 3.00 EUR and lost", id="loss"),
        pytest.param({"outcome": "cancelled", "wager": "4"}, "0", "bet of 4.00 EUR is cancelled.", id="cancelled"),
    ],
)
def test_a_round_is_played(
    sandbox: Sandbox, http: httpx.Client, ledger: MemoryLedger, fields: dict[str, str], moved: str, told: str
) -> None:
    """The wallet is called, the page tells what came of it, and fetch-bet answers the bet (spec §3, §4.1, §4.2)."""
    before = ledger.balance("p1")
    response = play(http, instance_id=sandbox.instance_id, **fields)
    assert response.status_code == 303
    assert ledger.balance("p1") - before == int(Decimal(moved) * 100)
    html = page(http, response.headers["location"])
    assert told in html.text
    bet_id = next(parse_qs(urlsplit(link).query)["id"][0] for link in html.values("href") if link.startswith("/bets?"))
    bet = sandbox.world.bet(bet_id, now_millis=sandbox.service.clock())
    assert bet.status == ("ROLLED_BACK" if fields["outcome"] == "cancelled" else "CLOSED")
    # The status bar may link to the wallet's last error.
    assert html.source.partition('id="play-result"')[2].count('href="/live/') == 2
    assert f"The wallet now has {money(ledger.balance('p1'))} EUR." in html.text
    kept = {each["name"]: each.get("value") for each in html.all("input") if each.get("name") in {"wager", "player_id"}}
    assert kept == {"wager": fields["wager"], "player_id": "p1"}


def test_a_loss_is_not_left_to_the_game(http: httpx.Client, ledger: MemoryLedger) -> None:
    """Whatever amount stands in the form, a chosen loss pays nothing, ten times out of ten."""
    before = ledger.balance("p1")
    for _ in range(10):
        play(http, outcome="loss", wager="1", won="7")
    assert before - ledger.balance("p1") == 1_000


def test_a_filter_outlives_a_round(http: httpx.Client) -> None:
    """Whoever looks at one genre goes on looking at it after playing, or after a mistake."""
    action = next(form["action"] for form in page(http, "/?genre=Keno&status=ACTIVE").all("form") if "hx-post" in form)
    assert action == "/play?genre=Keno&status=ACTIVE"
    assert play(http, action).headers["location"].startswith("/?genre=Keno&status=ACTIVE&")
    assert "1 of 14" in Html(play(http, action, wager="x").text).text


def test_a_round_that_the_wallet_refuses(http: httpx.Client) -> None:
    """A player without enough money: no bet, and the refusal is shown (spec §7.1)."""
    html = page(http, play(http, player_id="poor", wager="50").headers["location"])
    assert "The withdraw was refused: INSUFFICIENT_BALANCE. No money moved." in html.text


def test_players_are_suggested(sandbox: Sandbox, http: httpx.Client) -> None:
    """Those whose balance the wallet told, and nobody whom it does not know."""
    for player_id in ("p1", "nobody"):
        sandbox.play_round(player_id=player_id, wager_cents=100, won_cents=0)
    suggested = [each.get("value") for each in page(http, "/").all("option")]
    assert ("p1" in suggested, "nobody" in suggested) == (True, False)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        pytest.param({"wager": ""}, "Write an amount", id="no wager"),
        pytest.param({"wager": "1.005"}, "Write an amount", id="finer than a cent"),
        pytest.param({"won": ""}, "Write an amount", id="a win without an amount"),
        pytest.param({"outcome": "draw"}, "Choose one of the outcomes.", id="another outcome"),
    ],
)
def test_what_is_wrong_is_said_beside_the_field(http: httpx.Client, fields: dict[str, str], sentence: str) -> None:
    """No call is made, and what was typed stays there."""
    response = play(http, **({"wager": "12.25"} | fields))
    assert response.status_code == 422
    assert sentence in response.text
    assert 'aria-invalid="true"' in response.text
    assert ('value="12.25"' in response.text) == ("wager" not in fields)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        pytest.param({"wager": "100"}, None, id="the highest wager"),
        pytest.param({"wager": "100.01"}, "Pass 0.10 to 100.00 EUR", id="a wager above it"),
        pytest.param({"wager": "0.1"}, None, id="the least wager"),
        pytest.param({"wager": "0.09"}, "Pass 0.10 to 100.00 EUR", id="a wager below it"),
        pytest.param({"won": "10000"}, None, id="the most that can be won"),
        pytest.param({"won": "10000.01"}, "Pass 0.00 to 10000.00 EUR", id="more than that"),
        pytest.param({"instance_id": "0" * 24}, "is unknown.", id="no such instance"),
        pytest.param({"player_id": " "}, "player_id must not be blank", id="a blank player"),
    ],
)
def test_what_the_sandbox_refuses_is_said(
    sandbox: Sandbox, http: httpx.Client, fields: dict[str, str], sentence: str | None
) -> None:
    """In its own words; limits hold on both sides, in currency units (spec §2.7)."""
    response = play(http, **({"instance_id": sandbox.instance_id} | fields))
    assert response.status_code == (303 if sentence is None else 422)
    assert sentence is None or sentence in response.text


def test_what_is_off_is_not_for_play(sandbox: Sandbox, http: httpx.Client) -> None:
    """Neither an inactive instance nor a game under maintenance is offered or taken (spec §2.5, §2.6)."""
    offered = [each["value"] for each in page(http, "/").all("option") if len(each.get("value") or "") == 24]
    games = sandbox.world.games()
    off = [each.id for game in games for each in game.instances if not (each.active and game.status == "ACTIVE")]
    assert len(off) >= 5
    assert set(offered).isdisjoint(off)
    assert play(http, instance_id=off[0]).status_code == 422


def test_a_wallet_that_is_not_there(own: Sandbox, at_home: httpx.Client) -> None:
    """Not configured, or not listening: a sentence, and not a page of errors."""
    assert "game-operator sandbox --url http://127.0.0.1:8000/wallet" in page(at_home, "/").text
    unset = play(at_home)
    own.wallet_url = "http://127.0.0.1:9"
    unreachable = play(at_home, wager="3.25")
    assert (unset.status_code, unreachable.status_code) == (422, 502)
    assert "in a program. The sandbox knows no wallet." in Html(unset.text).text
    assert "Nobody answers at 127.0.0.1:9, so the call was not sent (" in unreachable.text
    assert 'value="3.25"' in unreachable.text
    assert "What was called is in Live." in Html(unreachable.text).text


def say_nothing(connection: Connection) -> None:
    connection.read_request()


def test_a_wallet_that_hangs_holds_up_no_page(private_key: RSAPrivateKey, public_key: RSAPublicKey) -> None:
    """However many rounds wait for it, other pages answer; and the sandbox stops without waiting for them."""
    with HostileServer(say_nothing) as wallet, ThreadPoolExecutor(45) as threads:
        with (
            Sandbox(
                operator_public_key=public_key,
                service_private_key=private_key,
                wallet_url=wallet.base_url,
                control_room=ControlRoom,
            ) as sandbox,
            httpx.Client(
                base_url=sandbox.base_url, trust_env=False, verify=False, timeout=60, limits=UNLIMITED
            ) as http,
        ):
            fields = {"player_id": "p1", "instance_id": sandbox.instance_id, "wager": "1", "outcome": "loss"}
            form_token(http)
            playing = [threads.submit(post, http, "/play", **fields) for _ in range(45)]
            wait_until(lambda: len(wallet.requests) >= 8)
            began = time.monotonic()
            assert http.get("/keys").status_code == 200
            # The first of them is given up after ten seconds.
            assert time.monotonic() - began < 8
            assert not any(each.done() for each in playing)
            assert len(wallet.requests) == 8
            began = time.monotonic()
            sandbox.__exit__(None, None, None)
            assert time.monotonic() - began < 5
        assert {type(each.exception(20)) for each in playing} <= {
            type(None),
            httpx.RemoteProtocolError,
            httpx.ReadError,
        }


def test_the_oldest_rounds_that_were_played_are_forgotten(own: Sandbox) -> None:
    """A control room may run for months; the 200 newest rounds are remembered."""
    context = PageContext(own, ())
    for number in range(201):
        context.remember(f"round-{number}", [f"bet-{number}"], [])
    assert len(context.played) == 200
    assert "round-0" not in context.played
    assert context.played["round-1"] == (["bet-1"], [])
