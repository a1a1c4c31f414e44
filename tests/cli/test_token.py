"""`game-operator token`: session tokens, built and read (spec §5; their contents are assumed)."""

import io
from datetime import datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator import SessionTokenBuilder
from game_operator.cli.keys import write_pair
from tests.support.command_line import Run, said

BUILD = ("token", "build", "--instance", "i1", "--player", "p1")


@pytest.fixture(autouse=True)
def _operator(monkeypatch: pytest.MonkeyPatch, key_file: Path) -> None:
    """A token needs the operator's id and key, and no address."""
    monkeypatch.setenv("GAME_OPERATOR_ID", "acme")
    monkeypatch.setenv("GAME_OPERATOR_PRIVATE_KEY_FILE", str(key_file))


def test_a_token_is_built_that_the_library_trusts(run: Run, private_key: RSAPrivateKey) -> None:
    """It stands alone on stdout, whole, so that a shell can take it."""
    told = run(*BUILD, "--balance", "12.50", "--name", "Ann", "--minutes", "2")
    assert (told.code, told.err, told.out.count("\n")) == (0, "", 1)
    claims = SessionTokenBuilder("acme", private_key).decode(told.out.strip(), instance_id="i1")
    assert (claims.player_id, str(claims.balance), claims.name) == ("p1", "12.50", "Ann")
    assert (claims.expires_at - claims.issued_at).seconds == 120


def test_what_is_built_is_read(run: Run) -> None:
    """Balances digit for digit, in text and in JSON; what was not given is null, or not shown."""
    token = run(*BUILD, "--balance", "1234567890123456.78").out.strip()
    facts = said(run("token", "decode", token, "--instance", "i1").out)
    told = run("token", "decode", token, "--instance", "i1", "--json")
    document = told.document
    assert facts["balance"] == "1234567890123456.78"
    assert '"balance":1234567890123456.78,' in told.out
    assert (document["operator_id"], document["player_id"], document["instance_id"]) == ("acme", "p1", "i1")
    assert (document["name"], document["timestamp"], document["extra"]) == (None, None, {})
    assert facts.keys() == {name.replace("_", " ") for name, value in document.items() if value}
    ends, begins = (datetime.fromisoformat(document[name]) for name in ("expires_at", "issued_at"))
    assert (ends - begins).seconds == 15 * 60


def test_a_token_from_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """There it is in no list of processes."""
    token = run(*BUILD).out
    monkeypatch.setattr("sys.stdin", io.StringIO(token))
    assert run("token", "decode", "-", "--instance", "i1").code == 0


@pytest.mark.parametrize("given", ["", " \n"])
def test_an_empty_standard_input_is_2(run: Run, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    """No token is not a bad one."""
    for as_json in ([], ["--json"]):
        monkeypatch.setattr("sys.stdin", io.StringIO(given))
        told = run("token", "decode", "-", "--instance", "i1", *as_json)
        assert (told.code, "standard input is empty" in told.out + told.err) == (2, True)


def test_json_carries_the_token_and_the_address(run: Run) -> None:
    document = run(*BUILD, "--json").document
    assert document.keys() == {"token", "launch_url"}
    assert document["launch_url"] is None
    document = run(*BUILD, "--launch", "https://play.example/?t={token}", "--json").document
    assert document["launch_url"] == f"https://play.example/?t={document['token']}"


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        pytest.param(("--launch", "http://play.example/{token}"), "https", id="an address in the open"),
        pytest.param(("--launch", "https://play.example/"), "{token}", id="an address without a place"),
        pytest.param(("--balance", "NaN"), "not an amount in currency units", id="no number"),
        pytest.param(("--minutes", "180.1"), "from 1 second to 3 hours", id="too long"),
        pytest.param(("--player", ""), "--player: ", id="no player"),
    ],
)
def test_a_token_that_cannot_be_is_2(run: Run, args: tuple[str, ...], problem: str) -> None:
    told = run(*BUILD, *args)
    assert (told.code, told.out) == (2, "")
    assert problem in told.err
    assert run(*BUILD, *args, "--json").error["exit_code"] == 2


def test_a_token_that_deserves_no_trust_is_1(run: Run, tmp_path: Path) -> None:
    """Another instance, another operator, another key, no token at all."""
    token = run(*BUILD).out.strip()
    other = write_pair(tmp_path / "other.pem", bits=2048)
    decode = ("token", "decode", token, "--instance", "i1")
    assert run(*decode).code == 0
    for args in (
        ("token", "decode", token, "--instance", "i2"),
        (*decode, "--operator-id", "other"),
        (*decode, "--private-key", other.private),
        ("token", "decode", "nonsense", "--instance", "i1"),
    ):
        told = run(*args)
        assert (told.code, told.out) == (1, "")
        assert "session token" in told.err
        assert token not in told.err
        assert run(*args, "--json").error["type"] == "SessionTokenError"


@pytest.mark.parametrize("args", [BUILD, ("token", "decode", "x", "--instance", "i")], ids=["build", "decode"])
def test_missing_settings_are_2(run: Run, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...]) -> None:
    """The id and the key are named, and the address is not: it is not needed."""
    monkeypatch.delenv("GAME_OPERATOR_ID")
    monkeypatch.delenv("GAME_OPERATOR_PRIVATE_KEY_FILE")
    told = run(*args)
    assert told.code == 2
    assert "GAME_OPERATOR_ID" in told.err
    assert "GAME_OPERATOR_BASE_URL" not in told.err
