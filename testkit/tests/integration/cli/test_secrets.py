"""Keys come from pipes and files, and no key, passphrase or signature is ever printed, whatever fails."""

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from game_operator.signers.keys import load_signer
from game_operator_testkit.sandbox import Sandbox
from tests.support.command_line import COMMAND, CannedService, Reply, Run, command, ran
from tests.support.keys import encrypted

pytestmark = pytest.mark.slow

PASSPHRASE = "planted-passphrase"
BUILD = ("token", "build", "--instance=i", "--player=p", "--operator-id=acme")
_VARIABLE = "GAME_OPERATOR_PRIVATE_KEY_PASSPHRASE"
GRANT = ("grant", "--instance=i", "--player=p", "--count=1", "--wager-cents=1", "--expire-millis=1", "--reference=r")
COMMANDS = (
    ("doctor",),
    ("games",),
    ("bet", "bet-1"),
    ("round", "--instance=i", "--id=r"),
    GRANT,
    ("token", "decode", "nonsense", "--instance=i"),
    ("keygen", "new.pem"),
    ("nope",),
)


def secret_lines(private_key: RSAPrivateKey, encrypted: bytes) -> Iterator[str]:
    """Return every line of the key in each form in which it could be printed."""
    for form in (PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL):
        yield from private_key.private_bytes(Encoding.PEM, form, NoEncryption()).decode().splitlines()[1:-1]
    yield from encrypted.decode().splitlines()[1:-1]
    yield str(private_key.private_numbers().d)
    yield str(private_key.private_numbers().p)


@pytest.fixture(scope="module")
def encrypted_pem(private_key: RSAPrivateKey) -> bytes:
    """The operator's key, encrypted with the planted passphrase."""
    encryption = BestAvailableEncryption(PASSPHRASE.encode())
    return private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


@pytest.mark.parametrize("passphrase", [PASSPHRASE, f"wrong-{PASSPHRASE}"], ids=["right", "wrong"])
@pytest.mark.parametrize("one_line", [False, True], ids=["PEM", "PEM on one line"])
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.drawn(4)
def test_planted_secrets_are_in_no_output(
    run: Run,
    sandbox: Sandbox,
    private_key: RSAPrivateKey,
    encrypted_pem: bytes,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    passphrase: str,
    one_line: bool,
    as_json: bool,
) -> None:
    """A key in the environment, its passphrase right or wrong: every command, and nothing of them is printed."""
    monkeypatch.chdir(tmp_path)
    pem = encrypted_pem.decode()
    monkeypatch.setenv("GAME_OPERATOR_BASE_URL", sandbox.base_url)
    monkeypatch.setenv("GAME_OPERATOR_ID", sandbox.operator_id)
    monkeypatch.setenv("GAME_OPERATOR_PRIVATE_KEY", pem.replace("\n", "\\n") if one_line else pem)
    monkeypatch.setenv(_VARIABLE, passphrase)
    told = [run(*args, *(["--json"] if as_json else [])) for args in COMMANDS]
    assert told[1].code == (0 if passphrase == PASSPHRASE else 2)
    shown = "".join(each.out + each.err for each in told)
    assert len(shown) > 1000
    assert not [line for line in [*secret_lines(private_key, encrypted_pem), PASSPHRASE] if line in shown]


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("damage", ["cut", "none"])
def test_a_damaged_key_is_not_printed(
    run: Run, sandbox: Sandbox, private_pem: bytes, monkeypatch: pytest.MonkeyPatch, as_json: bool, damage: str
) -> None:
    """Half a key, or one given where a path was meant, is as secret as a whole one."""
    pem = private_pem.decode()
    options = ["--base-url", sandbox.base_url, "--operator-id", "acme", *(["--json"] if as_json else [])]
    if damage == "cut":
        monkeypatch.setenv("GAME_OPERATOR_PRIVATE_KEY", pem[:-200])
    else:
        options += ["--private-key", pem.replace("\n", "\\n")]
    for args in (("games",), ("doctor",)):
        told = run(*args, *options)
        assert told.code in {1, 2}
        lines = [line for line in pem.splitlines()[1:-1] if line in told.out + told.err]
        assert lines == []


def test_a_signature_echoed_by_the_service_is_not_printed(run: Run, settings: dict[str, str]) -> None:
    """A debugging proxy that answers with our headers must not put a signature into a log."""
    signer = load_signer(Path(settings["GAME_OPERATOR_PRIVATE_KEY_FILE"]))
    raw = signer.sign(b"acme")
    assert isinstance(raw, bytes)
    signature = urlsafe_b64encode(raw).rstrip(b"=")
    for body in (b'{"error": "you sent ' + signature + b'"}', b"<html>" + signature):
        with CannedService([Reply(401, body)]) as service:
            for args in (("games",), ("games", "--json"), ("doctor",)):
                told = run(*args, "--base-url", service.base_url)
                assert told.code == 1
                assert signature.decode() not in told.out + told.err
                assert "signature removed" in told.out + told.err


# --- where a key may come from ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [("games",), BUILD, ("doctor",)], ids=" ".join)
@pytest.mark.drawn(1)
def test_a_key_comes_through_a_pipe(settings: dict[str, str], key_file: Path, name: tuple[str, ...]) -> None:
    """`--private-key <(cat operator.pem)`: it is read once (spec §5)."""
    script = 'exec "$@" --private-key <(cat "$KEY")'
    told = ran("bash", "-c", script, "bash", *COMMAND, *name, **settings, KEY=str(key_file))
    assert (told.code, told.err) == (0, "")


@pytest.mark.outside
def test_a_passphrase_comes_out_of_a_file(tmp_path: Path) -> None:
    """Each command that signs reads the file that the variable names."""
    key, secret = encrypted(tmp_path / "operator.pem", b"planted secret"), tmp_path / "secret"
    secret.write_text("planted secret\n")
    assert command(*BUILD, "--private-key", str(key), **{f"{_VARIABLE}_FILE": str(secret)}).code == 0
    told = command(*BUILD, "--private-key", str(key), **{f"{_VARIABLE}_FILE": str(secret), _VARIABLE: "x"})
    assert (told.code, "are both set" in told.err) == (2, True)
