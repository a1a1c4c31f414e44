"""Keys in every form an operator may have them in, and everything that is none (spec §5)."""

import functools
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from game_operator import (
    AsyncOperatorClient,
    AsyncSigner,
    ConfigurationError,
    OperatorClient,
    SessionTokenBuilder,
    Signer,
    SigningKeyError,
)
from game_operator.protocol.signing import Signature, verify
from game_operator.signers.environment import FromEnvironment
from game_operator.signers.keys import (
    LocalSigner,
    PublicKeySource,
    checked_signature,
    is_async,
    load_public_key,
    load_signer,
    public_key_of,
)
from tests.signers.conftest import PASSPHRASE, Keys
from tests.support.keys import set_environment
from tests.support.leaks import everything_told

Build = Callable[..., object]

READABLE = [
    pytest.param("pkcs8", None, id="PKCS#8"),
    pytest.param("pkcs8", "", id="an empty passphrase is none"),
    pytest.param("pkcs1", None, id="PKCS#1"),
    pytest.param("pkcs8 encrypted", PASSPHRASE, id="PKCS#8, encrypted"),
    pytest.param("pkcs1 encrypted", PASSPHRASE, id="PKCS#1, encrypted (Proc-Type)"),
    pytest.param("byte order mark", None, id="a byte order mark"),
    pytest.param("one line with \\n", None, id="line breaks written as backslash n"),
    pytest.param("one line with \\r\\n", None, id="in quotes, line breaks written as backslash r backslash n"),
    pytest.param("with its certificate", None, id="after its certificate"),
]

UNUSABLE = [
    pytest.param("public", None, ["public key", "private one", "keygen"], id="a public key"),
    pytest.param("certificate", None, ["certificate", "private key", "keygen"], id="a certificate"),
    pytest.param("two keys", None, ["2 private keys", "Keep one"], id="two private keys"),
    pytest.param("2047 bits", None, ["2047 bits", "2048", "keygen"], id="2047 bits"),
    pytest.param("elliptic", None, ["another kind (EC)", "RSA", "keygen"], id="an elliptic curve"),
    pytest.param("openssh", None, ["OpenSSH", "ssh-keygen -p -m PKCS8"], id="the format of OpenSSH"),
    pytest.param("pkcs8 encrypted", None, ["encrypted", "passphrase ("], id="PKCS#8: no passphrase"),
    pytest.param("pkcs8 encrypted", "hunter2hunter2", ["passphrase is wrong"], id="PKCS#8: wrong passphrase"),
    pytest.param("pkcs8 encrypted", "hunter2 \ud800", ["passphrase is wrong"], id="a passphrase no file can have"),
    pytest.param("encrypted and damaged", PASSPHRASE, ["passphrase is wrong", "damaged"], id="encrypted and damaged"),
    pytest.param("pkcs8 encrypted", f"{PASSPHRASE}\n", ["the passphrase ends with a line break"], id="a line end"),
    pytest.param("pkcs8 encrypted", f'"{PASSPHRASE}"', ["the passphrase is in quotes"], id="a quoted passphrase"),
    pytest.param("another cipher", PASSPHRASE, ["cipher", "DEK-Info", "openssl pkcs8 -topk8"], id="another cipher"),
    pytest.param("half a header", PASSPHRASE, ["Proc-Type and DEK-Info are damaged", "Copy it"], id="half a header"),
    pytest.param("pkcs8", PASSPHRASE, ["not encrypted", "Leave the passphrase"], id="a passphrase for an open key"),
    pytest.param("empty", None, ["is empty"], id="nothing at all"),
    pytest.param("der", None, ["not PEM", "-----BEGIN"], id="DER"),
    pytest.param("cut off", None, ["damaged", "cut off", "Copy it again"], id="cut off"),
    pytest.param("damaged", None, ["damaged", "Copy it again"], id="a damaged number"),
    pytest.param("base64 without its frame", None, ["not PEM", "-----BEGIN"], id="no PEM"),
]


def assert_nothing_told(error: BaseException, *secrets: bytes | str) -> None:
    """Assert that no 20 characters of a line of any of *secrets* are told."""
    told = everything_told(error)
    for secret in secrets:
        text = secret if isinstance(secret, str) else secret.decode("latin-1")
        for line in text.replace("\\n", "\n").splitlines():
            if len(line) >= 10 and "-----" not in line:
                assert line[:20] not in told
                assert line[-20:] not in told


@pytest.mark.parametrize(("document", "passphrase"), READABLE)
@pytest.mark.drawn(7)
def test_a_key_in_any_usual_form_signs(
    documents: dict[str, bytes], document: str, passphrase: str | bytes | None, public_key: RSAPublicKey, tmp_path: Path
) -> None:
    """As bytes, as str and in a file, the key is the same RSA key (spec §5)."""
    path = tmp_path / "operator.pem"
    path.write_bytes(documents[document])
    for source in (documents[document], documents[document].decode(), path):
        signer = load_signer(source, passphrase)
        assert isinstance(signer, LocalSigner)
        assert verify(public_key, b"acme", Signature.of(signer.sign(b"acme")))


@pytest.mark.parametrize("document", ["pkcs8", "pkcs1", "pkcs8 encrypted", "pkcs1 encrypted"])
@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda pem: pem.strip().replace("\n", " "), id="spaces for line ends"),
        pytest.param(lambda pem: pem.replace("\n\n", "\n"), id="the blank line lost"),
        pytest.param(lambda pem: pem.replace("\n", "\\\\n"), id="doubly escaped"),
        pytest.param(lambda pem: pem.replace("\n", "\n  "), id="indented"),
        pytest.param(lambda pem: pem.replace("\n", ""), id="no line ends"),
        pytest.param(lambda pem: pem.replace("\n", "\r"), id="carriage returns alone"),
    ],
)
def test_a_key_whose_line_ends_were_spoilt_signs(
    documents: dict[str, bytes], document: str, spoil: Callable[[str], str], public_key: RSAPublicKey
) -> None:
    """Panels, secret stores and .env files change line ends; base64 and headers show where they were (spec §5)."""
    pem = spoil(documents[document].decode())
    signer = load_signer(pem, PASSPHRASE if "encrypted" in document else None)
    assert isinstance(signer, LocalSigner)
    assert verify(public_key, b"acme", Signature.of(signer.sign(b"acme")))


@pytest.mark.parametrize("passphrase", [f'"{PASSPHRASE}"', f"{PASSPHRASE}\n", "\n", "'"])
def test_a_passphrase_is_taken_as_it_is(private_key: RSAPrivateKey, passphrase: str) -> None:
    """Quotes and a line break at its end may be a part of it (spec §5)."""
    pem = private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(passphrase.encode()))
    assert isinstance(load_signer(pem, passphrase), LocalSigner)


@pytest.mark.parametrize(("document", "passphrase", "words"), UNUSABLE)
def test_what_cannot_sign_is_refused_with_its_reason(
    documents: dict[str, bytes], document: str, passphrase: str | None, words: list[str], tmp_path: Path
) -> None:
    """The error names the key and what to do, and tells nothing of the key or its passphrase (spec §5)."""
    path = tmp_path / "operator.pem"
    path.write_bytes(documents[document])
    for source, name in ((documents[document], "The PEM passed as private_key"), (path, "operator.pem")):
        with pytest.raises(SigningKeyError) as refused:
            load_signer(source, passphrase)
        for word in [*words, name]:
            assert word in str(refused.value)
        assert refused.value.__cause__ is refused.value.__context__ is None
        if document != "public":
            assert_nothing_told(refused.value, documents[document], passphrase or "")


def test_a_builder_that_fails_tells_nothing_of_its_key(documents: dict[str, bytes]) -> None:
    """The same holds for session tokens (spec §5)."""
    pem = documents["pkcs8 encrypted"]
    for arguments in ({"operator_id": ""}, {"operator_id": "acme", "public_key": b"nonsense"}):
        with pytest.raises(ConfigurationError) as refused:
            SessionTokenBuilder(private_key=pem, passphrase=PASSPHRASE, **arguments)
        assert_nothing_told(refused.value, pem, PASSPHRASE)


def test_a_passphrase_of_any_bytes_comes_through_the_environment(
    private_key: RSAPrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A passphrase that is no UTF-8 arrives in a variable as lone surrogates, and still opens the key (spec §5)."""
    passphrase = b"caf\xe9 au lait"
    encryption = BestAvailableEncryption(passphrase)
    pem = private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    monkeypatch.setitem(os.environb, b"GAME_OPERATOR_PRIVATE_KEY_PASSPHRASE", passphrase)
    assert isinstance(load_signer(pem, passphrase), LocalSigner)
    assert isinstance(load_signer(pem, os.environ["GAME_OPERATOR_PRIVATE_KEY_PASSPHRASE"]), LocalSigner)
    with pytest.raises(SigningKeyError, match="passphrase is wrong"):
        load_signer(pem, "café au lait")


def test_every_kind_of_source_but_these_is_a_type_error(private_key: RSAPrivateKey, private_pem: bytes) -> None:
    """Arguments of the wrong type are named by their type alone (spec §5)."""
    sources: list[tuple[Any, str]] = [
        (bytearray(private_pem), "not bytearray"),
        (None, "not NoneType"),
        (42, "not int"),
        (LocalSigner, "not the class LocalSigner"),
    ]
    for source, words in sources:
        with pytest.raises(TypeError, match=words) as refused:
            load_signer(source)
        assert_nothing_told(refused.value, private_pem)
    with pytest.raises(TypeError, match="passphrase must be a str or bytes, not int"):
        load_signer(private_pem, 1234)  # type: ignore[arg-type] # what is tested


def test_a_key_object_signs_and_one_of_another_kind_does_not(private_key: RSAPrivateKey, keys: Keys) -> None:
    """An Ed25519 key object has a fitting sign method too, which no service would accept (spec §5)."""
    assert isinstance(load_signer(private_key), LocalSigner)
    wrong: list[tuple[Any, str]] = [
        (keys.edwards, r"another kind \(Ed25519\)"),
        (keys.elliptic, r"another kind \(EC\)"),
        (private_key.public_key(), r"another kind \(RSAPublicKey\)"),
        (keys.bits_1024, "1024 bits"),
        (keys.bits_2047, "2047 bits"),
    ]
    for source, words in wrong:
        with pytest.raises(SigningKeyError, match=words):
            load_signer(source)
    with pytest.raises(SigningKeyError, match="Leave the passphrase out"):
        load_signer(private_key, PASSPHRASE)


class Remote:
    """A signer of the user's own."""

    def sign(self, message: bytes) -> bytes:
        return b"\x01" * 256


class AsyncRemote:
    """The same, awaited."""

    async def sign(self, message: bytes) -> bytes:
        return b"\x01" * 256


class Holder:
    """A signer whose method was put together by its owner."""

    def __init__(self, sign: Callable[[bytes], Any]) -> None:
        self.sign = sign


def test_any_object_that_signs_is_taken_as_it_is() -> None:
    """A Signer or AsyncSigner needs one method and no base class (spec §5)."""
    signers: list[Signer | AsyncSigner] = [Remote(), AsyncRemote()]
    for signer in signers:
        assert isinstance(signer, Signer)
        assert load_signer(signer) is signer
        assert public_key_of(signer) is None
    assert not isinstance(object(), Signer)
    assert isinstance(AsyncRemote(), AsyncSigner)
    with pytest.raises(SigningKeyError, match="Leave the passphrase out"):
        load_signer(Remote(), PASSPHRASE)


@pytest.mark.parametrize(
    ("signer", "expected"),
    [
        pytest.param(Remote(), False, id="a method"),
        pytest.param(AsyncRemote(), True, id="an async method"),
        pytest.param(Holder(functools.partial(AsyncRemote().sign)), True, id="a partial of one"),
    ],
)
def test_an_async_signer_is_recognised(signer: Signer | AsyncSigner, expected: bool) -> None:
    """Whether a signer has to be awaited is known before it is asked (spec §5)."""
    assert is_async(signer) is expected


async def _unexpected(message: bytes) -> bytes:
    return message


@pytest.mark.parametrize(
    ("raw", "error", "words"),
    [
        pytest.param(b"\x01" * 255, SigningKeyError, "255 bytes.*2048 bits has 256", id="one byte short"),
        pytest.param(None, TypeError, "must return bytes, not NoneType", id="None"),
    ],
)
def test_what_a_signer_returns_is_checked(raw: object, error: type[Exception], words: str) -> None:
    """A signature shorter than that of 2048 bits comes of another key than §5 asks for (spec §5)."""
    assert checked_signature(b"\x01" * 256) == b"\x01" * 256
    with pytest.raises(error, match=words):
        checked_signature(raw)


def test_a_coroutine_in_place_of_a_signature_is_refused_and_closed() -> None:
    """A signer that is async in disguise leaves no warning behind, only its error (spec §5)."""
    with pytest.raises(TypeError, match="must return bytes, not coroutine"):
        checked_signature(_unexpected(b"acme"))


# Files


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        pytest.param(lambda path: None, ["No such file", "Check the path"], id="missing"),
        pytest.param(lambda path: path.write_bytes(b"-" * 65_537), ["is not PEM"], id="too large for a key"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    prepare: Callable[[Path], object], words: list[str], tmp_path: Path
) -> None:
    """The error names the path and the system's reason (spec §5)."""
    path = tmp_path / "operator.pem"
    prepare(path)
    with pytest.raises(SigningKeyError) as refused:
        load_signer(path)
    for word in [*words, str(path)]:
        assert word in str(refused.value)
    with pytest.raises(SigningKeyError, match=r"cannot be read"):
        load_signer(Path("operator\0.pem"))


@pytest.mark.parametrize(
    ("mix_up", "words"),
    [
        pytest.param(lambda pem: Path(pem), "looks like the key itself", id="a PEM as a path"),
        pytest.param(lambda pem: Path(pem.replace("\n", "")[27:-25]), "looks like the key itself", id="without frame"),
        pytest.param(lambda pem: "operator.pem", r"For a file, pass Path\(", id="a file name as a PEM"),
    ],
)
def test_a_pem_in_place_of_a_path_and_the_reverse(
    mix_up: Callable[[str], Path | str], words: str, private_pem: bytes
) -> None:
    """A mixed-up argument is explained without printing it (spec §5)."""
    with pytest.raises(SigningKeyError, match=words) as refused:
        load_signer(mix_up(private_pem.decode()))
    assert_nothing_told(refused.value, private_pem)


def test_a_short_pem_in_place_of_a_path(documents: dict[str, bytes]) -> None:
    """A PEM as short as a path is known by its looks (spec §5)."""
    pem = documents["elliptic"]
    assert len(pem) < 255
    for text in (pem.decode(), pem.decode().replace("\n", "\\n"), pem.decode().splitlines()[1] + "\n"):
        with pytest.raises(SigningKeyError, match="looks like the key itself") as refused:
            load_signer(Path(text))
        assert_nothing_told(refused.value, pem)


# The environment


_SERVICE = {"BASE_URL": "https://api.example.com", "ID": "acme"}


@pytest.mark.parametrize("kind", [OperatorClient, AsyncOperatorClient, SessionTokenBuilder])
def test_a_passphrase_comes_out_of_a_file(
    kind: type[FromEnvironment],
    documents: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One line end does not count, for editors and `echo` write it; an empty variable is not set (spec §5)."""
    path = tmp_path / "passphrase"
    pem = documents["pkcs8 encrypted"].decode()
    set_environment(
        monkeypatch, **_SERVICE, PRIVATE_KEY=pem, PRIVATE_KEY_PASSPHRASE="", PRIVATE_KEY_PASSPHRASE_FILE=str(path)
    )
    for content in (PASSPHRASE, f"{PASSPHRASE}\n"):
        path.write_text(content)
        assert "acme" in repr(kind.from_env())


_NAMED = "The file that GAME_OPERATOR_PRIVATE_KEY_PASSPHRASE_FILE names"


@pytest.mark.parametrize("kind", [OperatorClient, AsyncOperatorClient, SessionTokenBuilder])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(None, f"{_NAMED} cannot be read: No such file", id="missing"),
        pytest.param(b"", f"{_NAMED} is empty", id="empty"),
        pytest.param(b"hunter2hunter2\n", "passphrase is wrong", id="another passphrase"),
    ],
)
def test_a_passphrase_file_that_cannot_be_used_is_named_by_its_variable(
    kind: type[FromEnvironment],
    content: bytes | None,
    words: str,
    documents: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The path is not shown: the passphrase itself may be there; nor is the rest of the environment (spec §5)."""
    monkeypatch.setenv("DATABASE_PASSWORD", "swordfish-swordfish")
    path = tmp_path / "swordfish-swordfish"
    if content is not None:
        path.write_bytes(content)
    pem = documents["pkcs8 encrypted"].decode()
    set_environment(monkeypatch, **_SERVICE, PRIVATE_KEY=pem, PRIVATE_KEY_PASSPHRASE_FILE=str(path))
    with pytest.raises(ConfigurationError, match=words) as refused:
        kind.from_env()
    assert_nothing_told(refused.value, pem, "swordfish-swordfish", "hunter2hunter2")


def test_a_key_and_its_passphrase_stand_in_one_place(
    private_key: RSAPrivateKey, documents: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two variables are one too many; what is passed leaves both alone (spec §5)."""
    pem = documents["pkcs8 encrypted"].decode()
    both = {"PRIVATE_KEY_PASSPHRASE": PASSPHRASE, "PRIVATE_KEY_PASSPHRASE_FILE": "/nowhere"}
    set_environment(monkeypatch, **_SERVICE, PRIVATE_KEY=pem, **both)
    with pytest.raises(ConfigurationError, match=r"PASSPHRASE_FILE are both set\. Unset one of them"):
        OperatorClient.from_env()
    assert "acme" in repr(OperatorClient.from_env(passphrase=PASSPHRASE))
    assert "acme" in repr(OperatorClient.from_env(private_key=private_key))
    monkeypatch.delenv("GAME_OPERATOR_BASE_URL")
    assert "acme" in repr(SessionTokenBuilder.from_env(passphrase=PASSPHRASE))
    set_environment(monkeypatch, **_SERVICE, PRIVATE_KEY=pem, PRIVATE_KEY_FILE="/nowhere")
    with pytest.raises(ConfigurationError, match="both set") as refused:
        OperatorClient.from_env(passphrase=PASSPHRASE)
    assert_nothing_told(refused.value, pem, PASSPHRASE)


def test_a_pem_in_the_variable_of_the_file_is_not_told(private_pem: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key put into the wrong variable is not printed as a path (spec §5)."""
    set_environment(monkeypatch, **_SERVICE, PRIVATE_KEY_FILE=private_pem.decode())
    with pytest.raises(SigningKeyError, match="looks like the key itself") as refused:
        OperatorClient.from_env()
    assert_nothing_told(refused.value, private_pem)


# Public keys


def test_a_public_key_is_read_from_all_its_forms(public_key: RSAPublicKey, public_pem: bytes, tmp_path: Path) -> None:
    """A path, a PEM or a key object stand for the same public key (spec §5)."""
    path = tmp_path / "operator.pub.pem"
    path.write_bytes(public_pem)
    for source in (path, public_pem, public_pem.decode(), public_key):
        assert load_public_key(source).public_numbers() == public_key.public_numbers()


def test_what_is_no_public_key_is_refused(keys: Keys, documents: dict[str, bytes], private_pem: bytes) -> None:
    """Private, short and foreign keys are told apart, and a private one is not shown (spec §5)."""
    refusals: list[tuple[PublicKeySource, str]] = [
        (private_pem, "holds a private key where the public one is wanted"),
        (documents["certificate"], "openssl x509"),
        (LocalSigner(keys.other).public_key_pem() * 2, "holds 2 public keys"),
        (b"", "is empty"),
        (documents["der"], "is not PEM"),
        (Path("/nowhere/operator.pub.pem"), "No such file"),
        (keys.bits_1024.public_key(), "1024 bits"),
    ]
    for source, words in refusals:
        with pytest.raises(SigningKeyError, match=words) as refused:
            load_public_key(source)
        assert_nothing_told(refused.value, private_pem)
    with pytest.raises(TypeError, match="not RSAPrivateKey"):
        load_public_key(keys.other)  # type: ignore[arg-type] # what is tested


class TellsItsKey(Remote):
    """A signer that knows its public key."""

    def __init__(self, pem: bytes) -> None:
        self.pem = pem

    def public_key_pem(self) -> bytes:
        return self.pem


class TellsItsKeyLater(AsyncRemote):
    """A signer whose public key has to be awaited."""

    async def public_key_pem(self) -> bytes:
        raise AssertionError("nobody awaits this")


def test_a_signer_may_tell_its_public_key(public_key: RSAPublicKey, public_pem: bytes, private_pem: bytes) -> None:
    """A public_key_pem method is used if it can be called; what it returns is checked (spec §5)."""
    told = public_key_of(TellsItsKey(public_pem))
    assert told is not None
    assert told.public_numbers() == public_key.public_numbers()
    assert public_key_of(TellsItsKeyLater()) is None
    with pytest.raises(SigningKeyError, match="private key where the public one is wanted"):
        public_key_of(TellsItsKey(private_pem))


# The signer of a local key


def test_a_local_signer_shows_and_gives_away_nothing(private_key: RSAPrivateKey, private_pem: bytes) -> None:
    """Its repr is the size of the key; it is not pickled (spec §5)."""
    signer = load_signer(private_pem)
    assert repr(signer) == str(signer) == "LocalSigner(RSA, 2048 bits)"
    assert isinstance(signer, Signer)
    with pytest.raises(TypeError, match="load the key in each process"):
        pickle.dumps(signer)
    assert not hasattr(signer, "__dict__")


def test_a_local_signer_is_of_2048_bits_or_more(keys: Keys) -> None:
    """2048 bits are enough, 2047 are not, however the signer is made (spec §5)."""
    assert len(LocalSigner(keys.other).sign(b"acme")) == 256
    with pytest.raises(SigningKeyError, match="2047 bits"):
        LocalSigner(keys.bits_2047)


def test_a_key_is_loaded_once(private_pem: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a key costs as much as dozens of signatures: one load serves all calls (spec §5)."""
    loads: list[int] = []

    def counted(pem: bytes, password: bytes | None) -> object:
        loads.append(len(pem))
        return load_pem_private_key(pem, password)

    monkeypatch.setattr("cryptography.hazmat.primitives.serialization.load_pem_private_key", counted)
    answered = httpx.MockTransport(lambda request: httpx.Response(200, json={"status": "NOT_FOUND"}))
    with httpx.Client(transport=answered) as http_client:
        client = OperatorClient("https://api.example.com", "acme", private_pem, http_client=http_client)
        for number in range(40):
            client.with_options(timeout=5.0).fetch_bet(f"bet-{number}")
    tokens = SessionTokenBuilder("acme", private_pem)
    for _ in range(10):
        tokens.decode(tokens.build(player_id="p1", instance_id="i1"), instance_id="i1")
    assert len(loads) == 2
