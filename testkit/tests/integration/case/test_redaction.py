"""What is left out: tokens always, and on request everything but the fields that name nobody."""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from hashlib import sha256
from typing import Any
from unicodedata import normalize
from urllib.parse import quote, quote_plus

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
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature
from game_operator_testkit.sandbox.in_process import InProcessSandbox
from testkit.tests.support.reconciling import KEYS
from tests.support.calls import claim, deposit, withdraw
from tests.support.seeds import random_of

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJwMSJ9.c2lnbmF0dXJl"


@pytest.fixture
def own(sqlite_url: str) -> Iterator[SqlLedger]:
    """A ledger with an account for player-77."""
    with SqlLedger(sqlite_url) as ledger:
        ledger.open_account("player-77", Decimal(100))
        yield ledger


def redaction(contents: object, keep: str = "b1", *, hides: bool = True, profile: Profile | None = None) -> Redaction:
    """Return the redaction of *contents*, with a salt drawn by the seed."""
    salt = random_of(7).randbytes(32)
    return Redaction(contents, keep=keep, salt=salt, profile=profile or Profile(), hides=hides)


def body_of(value: object, **settings: Any) -> Any:
    """Return what a redacted case file shows of a body."""
    raw = {"body": Bytes(json.dumps(value).encode())}
    return json.loads(redaction(raw, **settings).plain(raw)["body"]["data"])


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
    assert first["note"].startswith("Rewritten: ")
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
    shown = redaction({}, hides=False).plain(Bytes(data))
    assert (shown["data"] is not None) == is_shown
    assert redaction({}).plain(Bytes(data))["data"] is None


def behind(before: str, name: str) -> str:
    """Return *name* in the middle of a longer text in Base64."""
    return b64encode(f"{before}{name}?z".encode()).decode()


#: One player's id in a text: how it is written there.
_FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "upper case": str.upper,
    "lower case": str.lower,
    "another normal form": lambda name: normalize("NFD", name),
    "in an address": lambda name: quote(name, safe=""),
    "in a query": quote_plus,
    "twice in an address": lambda name: quote(quote(name, safe=""), safe=""),
    "hexadecimal": lambda name: name.encode().hex(),
    "hexadecimal, upper case": lambda name: name.encode().hex().upper(),
    "Base64": lambda name: b64encode(name.encode()).decode(),
    "Base64 without padding": lambda name: b64encode(name.encode()).decode().rstrip("="),
    "URL-safe Base64": lambda name: urlsafe_b64encode(name.encode()).decode(),
    **{f"Base64 behind {before!r}": partial(behind, before) for before in ("x", "xy", "xyz", "user:")},
    "glued": lambda name: f"user{name}x",
}


@pytest.mark.parametrize("player", ["ann", "ann.lee@example.com", "Änn Lee", "4711", 'a"b<c>', "p1", "a?b>c~d"])
@pytest.mark.parametrize("form", _FORMS)
def test_a_player_is_hidden_in_the_fields_that_stay(form: str, player: str) -> None:
    """However the id is written: in rows, in bodies, and in the names of unknown fields."""
    if player == "p1" and ("behind" in form or form == "glued"):
        return  # So short an id stands in other words.
    for around in ("{}", "withdraw:{}:1", "round-{}-1", "a {} b", "x={}"):
        written = around.format(_FORMS[form](player))
        body = {"player_id": player, "round_id": written, "action": {"type": "BET", "round_id": written}, written: 1}
        contents = {"player_id": player, "tx_id": written, "body": Bytes(json.dumps(body).encode())}
        plain = redaction(contents).plain(contents)
        shown = json.loads(plain["body"]["data"])
        for text in (plain["tx_id"], shown["round_id"], shown["action"]["round_id"], *shown):
            assert written not in text
        if form in ("plain", "upper case"):
            assert plain["tx_id"] == around.format(plain["player_id"])


@pytest.mark.parametrize(
    ("player", "text"),
    [
        pytest.param("player-77", "tx:player-777", id="another number that begins alike"),
        pytest.param("77", "tx:player-177", id="another number that ends alike"),
        pytest.param("p1", "top10", id="a short id inside of a word"),
        pytest.param("1", "tx-10", id="one digit of another number"),
        pytest.param("player-77", "b1-of-round-9", id="no id"),
    ],
)
def test_what_names_another_stays(player: str, text: str) -> None:
    contents = {"player_id": player, "tx_id": text}
    assert redaction(contents).plain(contents)["tx_id"] == text
    assert redaction(contents, hides=False).plain(contents) == contents


_WORDS = st.text(alphabet='ab:- .\u00e9\u202e"\\<', max_size=6)


@given(player=st.text(min_size=4, max_size=20), before=_WORDS, after=_WORDS)
def test_no_text_holds_a_players_id(player: str, before: str, after: str) -> None:
    """Whatever it is made of: not in rows, texts or bodies."""
    text = f"{before} {player} {after}"
    body = json.dumps({"player_id": player, "bets": [{"round_id": text}], "x": [text, {player: text}]})
    contents = {"player_id": player, "tx_id": player, "round_id": text, "detail": text, "body": Bytes(body.encode())}
    plain = redaction(contents, keep="no such bet at all").plain(contents)
    shown = [plain["player_id"], plain["tx_id"], plain["round_id"], plain["detail"]]
    if plain["body"]["data"] is not None:
        inside = json.loads(plain["body"]["data"])
        shown += [inside["player_id"], inside["bets"][0]["round_id"], inside["x"]]
    pieces = [piece for each in shown for piece in re.split(r"person-[0-9a-f]{12}|\[left out\]", each)]
    if player.strip() and player not in text.replace(player, "", 1):
        hidden = re.compile(rf"(?<![0-9]){re.escape(player)}(?![0-9])")
        assert not [piece for piece in pieces if hidden.search(piece)]


def test_words_and_amounts_stay() -> None:
    """A player who is called OPEN, or 100, changes no state and no amount."""
    contents = {"player_id": "OPEN", "account": "100", "state": "OPEN", "wager_cents": 100, "text": "It is OPEN."}
    plain = redaction(contents).plain(contents)
    assert (plain["state"], plain["wager_cents"], plain["text"]) == ("OPEN", 100, "It is OPEN.")
    assert plain["player_id"].startswith("person-")


def test_the_bets_own_id_stays() -> None:
    """Also where it holds the player's: it is what the case is about."""
    contents = {"player_id": "player-77", "bet_id": "player-77", "tx_id": "w:player-77-9", "subject": "player-77-9"}
    plain = redaction(contents, keep="player-77-9").plain(contents)
    assert (plain["tx_id"], plain["subject"]) == ("w:player-77-9", "player-77-9")
    assert plain["bet_id"].startswith("person-")


def test_players_who_differ_in_case_have_two_pseudonyms() -> None:
    contents = [{"player_id": "ann"}, {"player_id": "Ann"}, {"tx_id": "t:ann"}, {"tx_id": "t:Ann"}]
    lower, upper, *texts = (next(iter(each.values())) for each in redaction(contents).plain(contents))
    assert lower != upper
    assert texts == [f"t:{lower}", f"t:{upper}"]


@pytest.mark.parametrize(
    "key", ["detail", "reason", "resolution", "error", "a_field_of_tomorrow", "sha256", "digest", "withdraw_digest"]
)
def test_free_texts_and_hashes_of_a_case_file_are_left_out(key: str) -> None:
    """Staff write names into reasons, errors quote anything, and a hash tells who guesses right."""
    contents = {key: "Ann Lee called from +49 123", "list": [{key: "again"}]}
    assert redaction(contents).plain(contents) == {key: LEFT_OUT, "list": [{key: LEFT_OUT}]}
    assert redaction(contents, hides=False).plain(contents) == contents


def test_staff_have_pseudonyms_too(own: SqlLedger) -> None:
    """Of a finding: who resolved it and why, and what a run was begun for."""
    contents = {"actor": "bob", "resolved_by": "bob", "tx_id": "t:bob"}
    plain = redaction(contents).plain(contents)
    assert plain["actor"] == plain["resolved_by"] != "bob"
    assert plain["actor"].startswith("person-")
    assert plain["tx_id"] == "t:bob", "the staff play no bets"


_KNOWN: dict[str, Any] = {
    "withdraw": {"amount": 5000, "game": "aviator", "instance_id": "i1", "action": "BET", "action_id": "b1"},
    "deposit": {"amount": 5, "action": {"type": "BET", "round_id": "r1", "wager": 1, "won": 5}, "tx_id": "d1"},
    "claim": {
        "amount": 5,
        "action": {"type": "FREE_BET_CLAIM", "jackpot_id": "j", "bets": [{"id": "b", "round_id": "r", "won": 1}]},
    },
    "older names": {"bet_id": "b1", "transaction_id": "t", "wager": 5, "won": 7, "round_id": "r1", "reference_id": "b"},
    "batch": {"bets": [{"action_id": "b1", "amount": 5, "action": {"type": "BET", "won": 5}}]},
    "a provider's bet": {
        "status": "CLOSED",
        "reference_id": "b1",
        "wager": 5,
        "won": 0,
        "timestamp": 1_700_000_000_000,
    },
    "a provider's round": {"status": "OK", "round_no": 7, "bets": [{"status": "OPEN", "reference_id": "b1"}]},
    "array": [{"action_id": "b1", "amount": 5}],
}


@pytest.mark.parametrize("name", _KNOWN)
def test_known_fields_stay(name: str) -> None:
    """Ids, amounts, times, states, games and action types (spec §2.4, §4.1; docs/decisions/0010)."""
    assert body_of(_KNOWN[name]) == _KNOWN[name]


_PERSONAL: dict[str, Any] = {
    "phone": "+4912345",
    "msisdn": 4912345678,
    "fullName": "Ann Lee Real",
    "iban": "DE89370400440532013000",
    "pin": 1234,
    "vip": True,
    "height": 1.75,
    "ip": ["10.1.2.3"],
    "nested": {"game": "Ann Lee", "list": [{"pwd": "opaque", "player_id": "Ann Lee"}]},
    "error": "no account of Ann Lee",
}


@pytest.mark.parametrize("at", [(), ("action",), ("action", "bets"), ("bets",), ("list",)], ids=str)
def test_every_other_field_is_left_out(at: tuple[str, ...]) -> None:
    """At every depth: its value, whatever it holds, and its name if that is more than a name."""
    body: Any = _PERSONAL | {"ann@x.com": 1, "4912345678": 2, "Ann Lee": 3, "nothing": None}
    for name in reversed(at):
        body = {name: [body] if name == "bets" or name == "list" else body}
    shown = body_of({"player_id": "ann", **body})
    for name in at:
        shown = shown[name]
        if name == "list":
            assert shown == LEFT_OUT
            return
        shown = shown[0] if isinstance(shown, list) else shown
    shown.pop("player_id", None)
    assert shown == {**dict.fromkeys(_PERSONAL, LEFT_OUT), "nothing": None, LEFT_OUT: LEFT_OUT}


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        pytest.param({"player_id": 12345, "amount": 12345}, {"player_id": "person", "amount": 12345}, id="a number"),
        pytest.param({"player_id": ["ann"]}, {"player_id": LEFT_OUT}, id="a list for a player"),
        pytest.param({"amount": "Ann Lee"}, {"amount": LEFT_OUT}, id="a text for an amount"),
        pytest.param({"amount": {"game": "Ann"}}, {"amount": LEFT_OUT}, id="an object for an amount"),
        pytest.param({"game": ["Ann Lee"]}, {"game": LEFT_OUT}, id="a list for a text"),
        pytest.param({"game": True, "round_id": 7}, {"game": LEFT_OUT, "round_id": 7}, id="numbers for texts"),
        pytest.param({"bets": ["Ann Lee"], "action": ["x"]}, {"bets": [LEFT_OUT], "action": ["x"]}, id="odd items"),
        pytest.param({"action.type": "Ann Lee"}, {LEFT_OUT: LEFT_OUT}, id="a dot in a name"),
        pytest.param({"round_id": TOKEN}, {"round_id": LEFT_OUT}, id="a token in a known field"),
        pytest.param("Ann Lee", LEFT_OUT, id="a text alone"),
        pytest.param(["Ann Lee", 4912345678], [LEFT_OUT, LEFT_OUT], id="an array of texts"),
    ],
)
def test_odd_bodies(body: Any, shown: Any) -> None:
    """A known field stays only with what belongs there."""
    assert _unsalted(body_of(body)) == shown


def test_the_profile_says_which_fields_are_known() -> None:
    names = {"player_id": ("data.user.id",), "bet_id": ("data.wager_ref",)}
    body = {"data": {"user": {"id": "ann", "mail": "a@b.c"}, "wager_ref": "b-ann-1"}, "action_id": "b1"}
    shown = body_of(body, profile=Profile(fields=names))
    player = shown["data"]["user"]["id"]
    assert player.startswith("person-")
    assert shown == {
        "data": {"user": {"id": player, "mail": LEFT_OUT}, "wager_ref": f"b-{player}-1"},
        "action_id": LEFT_OUT,
    }


def test_both_sides_of_a_difference_are_values_of_its_field() -> None:
    sides = [("player_id", "ann", "eve"), ("state", "OPEN", "CLOSED"), ("game", "g", "h"), ("round", None, "OPEN")]
    raw = [{"field": field, "ours": ours, "theirs": theirs, "text": "It differs."} for field, ours, theirs in sides]
    shown = [(each["field"], each["ours"], each["theirs"]) for each in redaction(raw).plain(raw)]
    assert shown[1:] == sides[1:]
    assert [side.startswith("person-") for side in shown[0][1:]] == [True, True]


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
    shown = redaction({}, hides=False).plain(Bytes(data))
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
    plain = redaction({}, hides=False).plain(Foreign(document))
    assert plain == {"status": "OPEN", "launch_token": LEFT_OUT, "rate": "0.5", "odds": "1.10", "none": None}


def test_long_texts_take_no_longer_than_they_are_long() -> None:
    """A megabyte that almost is a token, over and over."""
    for text in ("eyJ" * 400_000, "eyJaaaaaaaa." * 100_000, "-----BEGIN" * 100_000, "eyJ-" * 300_000):
        assert redaction({}, hides=False).plain({"tx_id": text})
        assert redaction({"player_id": "player-77"}).plain({"tx_id": text[:64_000]})
