"""What is left out: tokens always, and on request everything but the fields that name nobody."""

import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from hashlib import sha256
from unicodedata import normalize
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from game_operator.backoffice import case_file
from game_operator.backoffice.case.redaction import LEFT_OUT, Bytes, Foreign, Redaction
from game_operator.ledger import SqlLedger
from game_operator.models.webhooks import WebhookCall
from game_operator.protocol.webhook import encode_call
from game_operator.wallet import Wallet
from game_operator_testkit.sandbox.in_process import InProcessSandbox
from testkit.tests.support.reconciling import KEYS
from tests.support.calls import claim, deposit, with_body, withdraw

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJwMSJ9.c2lnbmF0dXJl"


@pytest.fixture
def own(sqlite_url: str) -> Iterator[SqlLedger]:
    """A ledger with an account for player-77."""
    with SqlLedger(sqlite_url) as ledger:
        ledger.open_account("player-77", Decimal(100))
        yield ledger


def redaction(contents: object, keep: str = "b1", *, hides: bool = True) -> Redaction:
    """Return the redaction of *contents*."""
    return Redaction(contents, keep=keep, hides=hides)


def played(ledger: SqlLedger, *calls: WebhookCall) -> None:
    for call in calls:
        ledger.apply(with_body(call))


def test_a_player_is_one_pseudonym_all_over_a_case_file(own: SqlLedger) -> None:
    """In rows, in bodies, in transaction ids and in answers; another case file has another one."""
    with InProcessSandbox(keys=KEYS) as sandbox, sandbox.client() as client:
        sandbox.wallet = Wallet(own)
        (bet_id,) = sandbox.play_round(player_id="player-77", wager_cents=500, won_cents=900).bet_ids
        extra = deposit(bet_id, "player-77", 5, tx_id="more:player-77:x")
        played(own, extra, claim("c1", "player-77", bet_id=bet_id))
        open_case = case_file(own, bet_id, client=client)
        cases = [case_file(own, bet_id, client=client, redact=True) for _ in range(2)]
    assert "player-77" in open_case.to_json()
    for case in cases:
        assert "player-77" not in case.to_json()
        assert "player-77" not in case.to_html()
    names = [case.contents["ledger"]["bet"]["player_id"] for case in cases]
    assert names[0] != names[1]
    first, name = cases[0].contents, names[0]
    assert name.startswith("person-")
    assert first["ledger"]["bet"]["account"] == name
    assert first["provider"]["answer"]["player_id"] == name
    assert first["anomalies"][0]["tx_id"] == LEFT_OUT, "it holds the player's id"
    assert first["bet_id"] == bet_id
    assert first["comparison"]["agrees"] is True


def test_no_hash_shows_whether_a_guessed_player_is_right(own: SqlLedger) -> None:
    """All of a body but the player is known, so a hash of the body would let anybody try all players."""
    bet = withdraw(player_id="player-77")
    played(own, claim("c1", "player-77", bet_id="b1"), deposit("b1", "player-77", 5, tx_id="early"), bet)
    with InProcessSandbox(keys=KEYS) as sandbox, sandbox.client() as client:
        texts = [case_file(own, "b1", client=client, redact=redact).to_json() for redact in (False, True)]
    hashes = [set(re.findall(r"[0-9a-f]{64}", text)) for text in texts]
    assert sha256(encode_call(bet)).hexdigest() in hashes[0]
    assert hashes[1] == {json.loads(texts[1])["digest"]}
    assert json.loads(texts[1])["contents"]["ledger"]["bet"]["withdraw_digest"] == LEFT_OUT


@pytest.mark.parametrize("redact", [False, True])
def test_tokens_never_appear(own: SqlLedger, redact: bool) -> None:
    """In no body and no row: their values are cut out, and the note says so."""
    body = json.dumps({"bet": "b1", "session_token": "opaque-1", "deep": [{"x": TOKEN}], "session": {"a": "opaque-2"}})
    own.keep_anomaly("deposit", "unreadable", body.encode())
    own.keep_anomaly("deposit", "unreadable", f'{{"bet": "b1", "token": "opaque-3", {TOKEN}'.encode())
    case = case_file(own, "b1", redact=redact)
    for text in (case.to_json(), case.to_html()):
        assert TOKEN not in text
        assert "opaque" not in text
    first, second = (each["body"]["kept"] for each in case.contents["anomalies"])
    if not redact:
        assert json.loads(first["data"])["session_token"] == LEFT_OUT
        assert first["note"].startswith("Rewritten: these bytes do not have the SHA-256 above.")
    assert (second["encoding"], second["data"]) == ("left out", None)


@pytest.mark.parametrize(
    ("data", "is_shown"),
    [
        pytest.param(b"no JSON at all", True, id="nothing secret"),
        pytest.param(b"no JSON: token=opaque", False, id="a name of a secret"),
        pytest.param(f"no JSON: {TOKEN}".encode(), False, id="a token"),
        pytest.param(b'{"\\u0074oken": "opaque", ', False, id="an escape"),
        pytest.param(b'{"token": "opaque", "token": "opaque"}', False, id="a member that stands twice"),
        pytest.param(b"\xffsession=opaque", False, id="bytes"),
    ],
)
def test_bodies_that_are_not_json(data: bytes, is_shown: bool) -> None:
    """What may hold a secret is left out as a whole, for it cannot be told from the rest."""
    shown = redaction({}, hides=False).plain(Bytes(data))
    assert (shown["data"] is not None) == is_shown
    assert redaction({}).plain(Bytes(data))["data"] is None


#: One player's id in a text: how it is written there.
_FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "upper case": str.upper,
    "lower case": str.lower,
    "another normal form": lambda name: normalize("NFD", name),
    "in an address": lambda name: quote(name, safe=""),
    "in a query": quote_plus,
    "glued": lambda name: f"user{name}x",
}


@pytest.mark.parametrize("player", ["ann", "ann.lee@example.com", "Änn Lee", "4711", 'a"b<c>', "p1", "a?b>c~d"])
@pytest.mark.parametrize("form", _FORMS)
def test_an_id_that_names_a_player_is_left_out(form: str, player: str) -> None:
    """However the player's id is written in it."""
    if player == "p1" and form == "glued":
        return  # So short an id stands in other words.
    for around in ("{}", "withdraw:{}:1", "round-{}-1", "a {} b", "x={}"):
        contents = {"player_id": player, "tx_id": around.format(_FORMS[form](player))}
        assert redaction(contents).plain(contents)["tx_id"] == LEFT_OUT


_AROUND = st.text(alphabet='ab:- .\u00e9\u202e"\\<', max_size=6)


@given(player=st.text(min_size=4, max_size=20), before=_AROUND, after=_AROUND)
def test_no_text_holds_a_players_id(player: str, before: str, after: str) -> None:
    """Whatever it is made of: not in rows, texts or bodies."""
    text = f"{before} {player} {after}"
    contents = {"player_id": player, "round_id": text, "detail": text, "body": Bytes(text.encode(errors="replace"))}
    plain = redaction(contents, keep="no such bet at all").plain(contents)
    assert plain["player_id"].startswith("person-")
    assert (plain["detail"], plain["body"]["data"]) == (LEFT_OUT, None)
    if not player[0].isdigit() and not player[-1].isdigit() and player.strip():
        assert plain["round_id"] == LEFT_OUT


_ANSWER = {"status": "CLOSED", "reference_id": "b1", "wager": 5, "won": 0, "timestamp": 1_700_000_000_000, "game": "g"}


def test_known_fields_of_an_answer_stay() -> None:
    """Ids, amounts, times, states and games (spec §2.4); whatever else the provider adds is left out, its name too."""
    answer = {"player_id": "ann", "phone": "+4912345", "Ann Lee": {"game": "x"}, **_ANSWER}
    contents = {"answer": Foreign(answer)}
    shown = redaction(contents).plain(contents)["answer"]
    assert shown.pop("player_id").startswith("person-")
    assert shown == _ANSWER


def test_long_texts_take_no_longer_than_they_are_long() -> None:
    """A megabyte that almost is a token, over and over."""
    for text in ("eyJ" * 400_000, "eyJaaaaaaaa." * 100_000, "-----BEGIN" * 100_000, "eyJ-" * 300_000):
        assert redaction({}, hides=False).plain({"tx_id": text})
        assert redaction({"player_id": "player-77"}).plain({"tx_id": text[:64_000]})
