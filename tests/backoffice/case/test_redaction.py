"""What is left out: tokens always, and on request whoever a player is."""

import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from decimal import Decimal
from hashlib import sha256
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from hypothesis import given
from hypothesis import strategies as st

from game_operator.backoffice import case_file
from game_operator.backoffice.case.redaction import LEFT_OUT, Bytes, Foreign, Redaction
from game_operator.ledger import SqlLedger
from game_operator.models.webhooks import WebhookCall
from game_operator.profile import Profile
from game_operator.protocol.webhook import encode_call, read_call
from game_operator.sandbox.in_process import InProcessSandbox
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature
from tests.support.calls import claim, deposit, withdraw
from tests.support.reconciling import KEYS
from tests.support.seeds import random_of

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJwMSJ9.c2lnbmF0dXJl"


@pytest.fixture
def own(sqlite_url: str) -> Iterator[SqlLedger]:
    """A ledger with an account for player-77."""
    with SqlLedger(sqlite_url) as ledger:
        ledger.open_account("player-77", Decimal(100))
        yield ledger


def redaction(contents: object, keep: str = "b1", only: frozenset[str] | None = None) -> Redaction:
    """Return the redaction of *contents*, with a salt drawn by the seed."""
    return Redaction(contents, keep=keep, salt=random_of(7).randbytes(32), only=only)


def played(ledger: SqlLedger, *calls: WebhookCall) -> None:
    for call in calls:
        ledger.apply(read_call(call.operation, encode_call(call), Profile())[0])


def test_a_player_is_one_pseudonym_all_over_a_case_file(own: SqlLedger) -> None:
    """In rows, in bodies, in transaction ids and in answers; another case file has another one."""
    with InProcessSandbox(keys=KEYS) as sandbox, sandbox.client() as client:
        sandbox.wallet = Wallet(own)
        (bet_id,) = sandbox.play_round(player_id="player-77", wager_cents=500, won_cents=900).bet_ids
        extra = deposit(bet_id, "player-77", 5, tx_id="more:player-77:x")
        played(own, extra, claim("c1", "player-77", bet_id=bet_id))
        exchange = ("/deposit", {"cookie": "player-77"}, encode_call(extra))
        open_case = case_file(own, bet_id, client=client, exchanges=[exchange])
        cases = [case_file(own, bet_id, client=client, redact=True, exchanges=[exchange]) for _ in range(2)]
    assert "player-77" in open_case.to_json()
    for case in cases:
        assert "player-77" not in case.to_json()
        assert "player-77" not in case.to_html()
    names = [case.contents["ledger"]["bet"]["player_id"] for case in cases]
    assert names[0] != names[1]
    first, name = cases[0].contents, names[0]
    assert name.startswith("person-")
    assert first["ledger"]["bet"]["account"] == name
    assert first["provider"]["bet"]["answer"]["document"]["player_id"] == name
    assert first["anomalies"][0]["tx_id"] == f"more:{name}:x"
    assert json.loads(first["exchanges"][0]["body"]["data"])["player_id"] == name
    assert first["exchanges"][0]["headers"] == ["cookie"]
    assert first["bet_id"] == bet_id
    assert first["comparison"]["agrees"] is True
    assert open_case.contents["exchanges"][0]["body"]["sha256"] == sha256(encode_call(extra)).hexdigest()


def test_no_hash_shows_whether_a_guessed_player_is_right(own: SqlLedger, private_key: RSAPrivateKey) -> None:
    """All of a body but the player is in a case file, so a hash of the body would let anybody try all players."""
    body = encode_call(withdraw(player_id="player-77"))
    headers = {"signature": urlsafe_b64encode(private_key.sign(body, PKCS1v15(), SHA256())).rstrip(b"=").decode()}
    exchanges = [("/withdraw", headers, body), ("/withdraw", headers, body.replace(b"b1", b"b1 "))]
    played(own, claim("c1", "player-77", bet_id="b1"), deposit("b1", "player-77", 5, tx_id="early"))
    own.apply(read_call("withdraw", body, Profile())[0])
    trusted = RsaSignature(private_key.public_key())
    with InProcessSandbox(keys=KEYS) as sandbox, sandbox.client() as client:
        texts = [
            case_file(own, "b1", client=client, authenticator=trusted, exchanges=exchanges, redact=redact).to_json()
            for redact in (False, True)
        ]
    hashes = [set(re.findall(r"[0-9a-f]{64}", text)) for text in texts]
    assert sha256(body).hexdigest() in hashes[0]
    assert hashes[1] == {json.loads(texts[1])["digest"]}
    contents = json.loads(texts[1])["contents"]
    assert contents["ledger"]["bet"]["withdraw_digest"] == LEFT_OUT
    assert [each["verdict"] for each in contents["exchanges"]] == ["genuine", "forged"]
    assert contents["exchanges"][0]["kept_body"] == "same", "the comparison was made before the hash was left out"


def test_other_players_of_a_round_are_never_named(sqlite_url: str) -> None:
    """A case is about one player, redacted or not."""
    with SqlLedger(sqlite_url) as ledger, InProcessSandbox(keys=KEYS) as sandbox, sandbox.client() as client:
        found = client.fetch_round_bets(instance_id=sandbox.instance_id, round_id=sandbox.round_id)
        assert found.status == "OK"
        bet = found.bets[0]
        others = {each.player_id for each in found.bets} - {bet.player_id}
        assert others
        case = case_file(ledger, bet.reference_id, client=client)
        text = json.dumps(case.contents)
    assert f'"{bet.player_id}"' in text
    assert not [player for player in others if f'"{player}"' in text]
    assert text.count('"person-') >= len(others)
    assert case.contents["provider"]["round"]["body_sha256"] == LEFT_OUT
    assert len(case.contents["provider"]["bet"]["body"]["sha256"]) == 64


@pytest.mark.parametrize("redact", [False, True])
def test_tokens_never_appear(own: SqlLedger, redact: bool) -> None:
    """In no body, header, row or address: their values are cut out, and the note says so."""
    body = json.dumps({"bet": "b1", "session_token": "opaque-1", "deep": [{"x": TOKEN}], "session": {"a": "opaque-2"}})
    own.keep_anomaly("deposit", "unreadable", body.encode())
    own.keep_anomaly("deposit", "unreadable", f'{{"bet": "b1", "token": "opaque-3", {TOKEN}'.encode())
    exchange = (f"/deposit?token={TOKEN}", {"Authorization": f"Bearer {TOKEN}", "Signature": "opaque-4"}, body.encode())
    case = case_file(own, "b1", redact=redact, exchanges=[exchange])
    for text in (case.to_json(), case.to_html()):
        assert TOKEN not in text
        assert "opaque" not in text
    first, second = (each["body"]["kept"] for each in case.contents["anomalies"])
    assert json.loads(first["data"])["session_token"] == LEFT_OUT
    assert ("do not have the SHA-256" in first["note"]) is not redact
    assert first["note"].startswith("Rewritten without")
    assert (second["encoding"], second["data"]) == ("left out", None)
    assert case.contents["exchanges"][0]["headers"] == ["authorization", "signature"]


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
    shown = redaction({}, only=frozenset()).plain(Bytes(data))
    assert (shown["data"] is not None) == is_shown


@pytest.mark.parametrize(
    ("value", "hidden"),
    [
        pytest.param("player-77", True, id="the id alone"),
        pytest.param("a b player-77.", True, id="in a sentence"),
        pytest.param("tx:player-77:1", True, id="in another id"),
        pytest.param("tx:player-777", False, id="another id that begins alike"),
        pytest.param("xplayer-77", False, id="another id that ends alike"),
    ],
)
def test_where_an_id_is_replaced(value: str, hidden: bool) -> None:
    """Where no letter or digit stands beside it."""
    contents = {"player_id": "player-77", "tx_id": value}
    assert ("player-77" not in redaction(contents).plain(contents)["tx_id"]) == hidden
    assert redaction(contents, only=frozenset()).plain(contents) == contents


_WORDS = st.text(alphabet='ab:- .\u00e9\u202e"\\<', max_size=6)


@given(player=st.text(min_size=4, max_size=20), before=_WORDS, after=_WORDS)
def test_no_text_holds_a_players_id(player: str, before: str, after: str) -> None:
    """Whatever it is made of: not in rows, sentences or bodies, unless letters stand beside it."""
    text = f"{before} {player} {after}"
    body = json.dumps({"user": player, "list": [text, {player: text}]}, ensure_ascii=len(before) % 2 == 0)
    contents = {"player_id": player, "tx_id": player, "detail": text, "body": Bytes(body.encode())}
    plain = redaction(contents, keep="no such bet at all").plain(contents)
    shown = [plain["player_id"], plain["tx_id"], plain["detail"]]
    if plain["body"]["data"] is not None:
        inside = json.loads(plain["body"]["data"])
        shown += [inside["user"], inside["list"][0], *inside["list"][1], *inside["list"][1].values()]
    hidden = re.compile(rf"(?<![0-9A-Za-z]){re.escape(player)}(?![0-9A-Za-z])")
    pieces = [piece for each in shown for piece in re.split(r"person-[0-9a-f]{12}", each)]
    if player.strip() and player not in text.replace(player, "", 1):
        assert not [piece for piece in pieces if hidden.search(piece)]


def test_short_ids_do_not_spoil_others() -> None:
    """The player 1 is hidden where the text is the id, and in sentences, but not inside of other ids."""
    contents = {"player_id": "1", "tx_id": "withdraw:1", "detail": "It is 1 of all.", "wager_cents": 1, "state": "1"}
    plain = redaction(contents).plain(contents)
    assert plain["player_id"].startswith("person-")
    assert (plain["tx_id"], plain["wager_cents"], plain["state"]) == ("withdraw:1", 1, "1")
    assert plain["detail"] == f"It is {plain['player_id']} of all."


def test_the_bets_own_id_stays() -> None:
    """Also where it holds the player's: it is what the case is about."""
    contents = {"player_id": "player-77", "bet_id": "player-77", "tx_id": "w:player-77-9", "detail": "player-77-9 here"}
    plain = redaction(contents, keep="player-77-9").plain(contents)
    assert plain["tx_id"] == "w:player-77-9"
    assert plain["detail"] == "player-77-9 here"
    assert plain["bet_id"].startswith("person-")


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        pytest.param({"player": 12345, "amount": 12345}, {"player": "person", "amount": 12345}, id="a number"),
        pytest.param(
            {"user": {"name": "Ann Lee"}, "x": "Ann Lee"}, {"user": {"name": "person"}, "x": "person"}, id="a name"
        ),
        pytest.param(
            {"player-77": {"player_id": "player-77"}}, {"person": {"player_id": "person"}}, id="a member's name"
        ),
        pytest.param({"amount": 5, "action": "BET"}, {"amount": 5, "action": "BET"}, id="nobody"),
    ],
)
def test_persons_in_bodies(body: Any, shown: Any) -> None:
    """By the names of their fields, in any service's body."""
    raw = {"body": Bytes(json.dumps(body).encode())}
    text = redaction(raw).plain(raw)["body"]["data"]
    assert _unsalted(json.loads(text)) == shown


def _unsalted(value: Any) -> Any:
    match value:
        case dict():
            return {_unsalted(name): _unsalted(item) for name, item in value.items()}
        case str() if value.startswith("person-"):
            return "person"
    return value


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        pytest.param(b"\xff\x00", "base64", id="bytes"),
        pytest.param("\u202e<b>".encode(), "utf-8", id="text"),
        pytest.param(b"", "utf-8", id="nothing"),
        pytest.param(b'{"a": "\\ud800"}', "utf-8", id="a lone surrogate, escaped"),
    ],
)
def test_bodies_that_hold_nobody_are_shown_whole(data: bytes, encoding: str) -> None:
    """As they came, unless players are hidden and the body cannot be read."""
    shown = redaction({}, only=frozenset()).plain(Bytes(data))
    assert (shown["encoding"], shown["bytes"]) == (encoding, len(data))
    if data and not data.startswith(b"{"):
        assert redaction({}).plain(Bytes(data))["data"] is None


def test_a_players_id_beside_a_lone_surrogate_is_hidden() -> None:
    """What cannot be written again as JSON is left out as a whole."""
    raw = {"body": Bytes(b'{"player_id": "player-77", "a": "\\ud800"}')}
    assert "player-77" not in json.dumps(redaction(raw).plain(raw))


def test_what_the_provider_adds_is_looked_through() -> None:
    """Unknown fields of an answer may hold a token, and numbers with a point."""
    document = {"status": "OPEN", "launch_token": "opaque", "rate": 0.5, "odds": Decimal("1.10"), "none": None}
    plain = redaction({}, only=frozenset()).plain(Foreign(document))
    assert plain == {"status": "OPEN", "launch_token": LEFT_OUT, "rate": "0.5", "odds": "1.10", "none": None}


def test_long_texts_take_no_longer_than_they_are_long() -> None:
    """A megabyte that almost is a token, over and over."""
    for text in ("eyJ" * 400_000, "eyJaaaaaaaa." * 100_000, "-----BEGIN" * 100_000, "eyJ-" * 300_000):
        assert redaction({"player_id": "player-77"}).plain({"detail": text})
