"""The wallets by hand in Node.js and PHP (examples/wallets): each passes a certification in full."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache, partial
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import given, settings
from wallet_by_hand import PlainWallet

from game_operator_testkit.certifier import Supplies, certify
from testkit.tests.certifier.harness import old_key, retired_key, service_key
from testkit.tests.certifier.other_languages import LANGUAGES, WALLETS, Language, Running, need
from testkit.tests.certifier.test_wallet_by_hand import OPENING, Answer, Step, histories, opened, told
from tests.support.documents import ROOT
from tests.support.webhooks import encoded, signature_of

#: What these wallets leave out: batches, and an allow list of addresses.
_NOT_PLAYED = {"A11", "E10"}
_INSTANCE = "instance-1"
_SLOTS = "\U0001f3b0"
_RANDOM_OPERATIONS = 1_000

_OTHERS = [pytest.param(name, marks=pytest.mark.artefact) for name in LANGUAGES]
_each_language = pytest.mark.parametrize(
    "language", [pytest.param(each, id=name, marks=pytest.mark.artefact) for name, each in LANGUAGES.items()]
)


# The files.


@pytest.mark.outside
@_each_language
def test_a_wallet_compiles(language: Language, tmp_path: Path) -> None:
    """Where the language is installed, which `make test-artefacts` ensures; without a warning."""
    need(language.missing_tools)
    checked = subprocess.run(
        language.check(tmp_path), cwd=WALLETS, capture_output=True, text=True, timeout=50, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")
    assert re.fullmatch(r"|No syntax errors detected in wallet\.php\n", checked.stdout.lstrip())


def test_there_is_a_wallet_for_each_language() -> None:
    """A file that no test certifies is not there."""
    assert {each.file for each in LANGUAGES.values()} == {path.name for path in WALLETS.iterdir()}


#: What the programs in language_traps print, each about what docs/tutorials/another-language.md says of its language.
_TRAPS: Mapping[str, tuple[str, Sequence[str]]] = {
    "Node.js": ("node traps.mjs", ["9007199254740992", "2", "true", "a%uFFFD", "2"]),
    "PHP": ("php traps.php", ["true"] * 7),
}


@pytest.mark.torture
@pytest.mark.outside
@pytest.mark.parametrize("name", _TRAPS)
def test_a_language_has_the_traps_that_the_page_names(name: str) -> None:
    """Because of them each wallet reads and compares in its own way."""
    need(LANGUAGES[name].missing_tools)
    command, lines = _TRAPS[name]
    folder = Path(__file__).parent / "language_traps"
    ran = subprocess.run(command.split(), cwd=folder, capture_output=True, text=True, timeout=100, check=True)
    assert ran.stdout.splitlines() == lines


# Started with a mistake.


class Mistake(NamedTuple):
    """
    Arguments with which a wallet cannot start.

    Attributes:
        says: A pattern of the line that it writes.
        key: The key file, in the folder with `_key_files`.
        port: The port; None stands for one that is in use.
    """

    says: str
    key: str = "service.pub.pem"
    port: str | None = "0"


_ADVICE = r"Pass the public half of the key that the service signs with\."
_UNREADABLE, _WITHOUT_KEY = rf"cannot be read( \(.+\))?\. {_ADVICE}", rf"does not hold an RSA public key\. {_ADVICE}"
_INVALID_PORT = r"is invalid\. Use a number from 0 to 65535\."
_MISTAKES: Mapping[str, Mistake] = {
    "a missing key file": Mistake(rf".*/missing\.pem {_UNREADABLE}", key="missing.pem"),
    "a folder in place of the key file": Mistake(rf".*/folder {_UNREADABLE}", key="folder"),
    "an empty key file": Mistake(rf".*/empty\.pem {_WITHOUT_KEY}", key="empty.pem"),
    "the private key": Mistake(rf".*/service\.pem {_WITHOUT_KEY}", key="service.pem"),
    "a key that is not RSA": Mistake(rf".*/elliptic\.pem {_WITHOUT_KEY}", key="elliptic.pem"),
    "half a key": Mistake(rf".*/half\.pem {_WITHOUT_KEY}", key="half.pem"),
    "a port in use": Mistake(r"Port {port} cannot be used \(.+\)\. Pass a port that is free\.", port=None),
    "a word as the port": Mistake(rf"Port abc {_INVALID_PORT}", port="abc"),
    "a service's name as the port": Mistake(rf"Port http {_INVALID_PORT}", port="http"),
    "a port too high": Mistake(rf"Port 65536 {_INVALID_PORT}", port="65536"),
    "a negative port": Mistake(rf"Port -1 {_INVALID_PORT}", port="-1"),
}


def _write_key_files(folder: Path) -> None:
    elliptic = generate_private_key(SECP256R1()).public_key()
    pem = service_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    begin, end = b"-----BEGIN PUBLIC KEY-----\n", b"-----END PUBLIC KEY-----\n"
    for name, contents in {
        "service.pub.pem": pem,
        "service.pem": service_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        "elliptic.pem": elliptic.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "half.pem": begin + pem.splitlines(keepends=True)[1] + end,
        "empty.pem": b"",
    }.items():
        (folder / name).write_bytes(contents)
    (folder / "folder").mkdir()


class Ready(NamedTuple):
    """A wallet's command, and the folder with the key files."""

    command: Sequence[str]
    folder: Path


@pytest.fixture(scope="module", params=["Python", *_OTHERS])
def ready(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ready:
    """One of the three wallets, made ready once."""
    folder = tmp_path_factory.mktemp("wallet")
    _write_key_files(folder)
    if request.param == "Python":
        return Ready((sys.executable, str(ROOT / "examples" / "wallet_by_hand.py")), folder)
    language = LANGUAGES[request.param]
    need(language.missing)
    return Ready(language.command(folder), folder)


def _started(ready: Ready, key: str, port: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [*ready.command, str(ready.folder / key), port, "p1"]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=50, check=False, env=os.environ | environ, cwd=ready.folder
    )


@pytest.mark.outside
@pytest.mark.parametrize("mistake", [pytest.param(each, id=name) for name, each in _MISTAKES.items()])
@pytest.mark.drawn(5, ready=("Python",))
def test_a_wallet_that_cannot_start_says_why_in_one_line(ready: Ready, mistake: Mistake) -> None:
    """On stderr, with the value and what to do, and an exit code other than 0."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = str(other.getsockname()[1])
        ended = _started(ready, mistake.key, taken if mistake.port is None else mistake.port)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert re.fullmatch(rf"{mistake.says.replace('{port}', taken)}\n", ended.stderr), ended.stderr


@pytest.mark.outside
@pytest.mark.parametrize("ready", _OTHERS, indirect=True)
def test_a_database_that_cannot_be_opened_is_one_line_too(ready: Ready) -> None:
    """In the words of the driver; the wallet in Python keeps its database in memory."""
    ended = _started(ready, "service.pub.pem", "0", DATABASE=str(ready.folder / "missing" / "wallet.db"))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert re.fullmatch(r".*(database|missing/wallet\.db).*\n", ended.stderr), ended.stderr


@pytest.mark.outside
def test_the_wallet_in_python_says_how_to_start_it(tmp_path: Path) -> None:
    """Without a port; without any argument it plays a bet instead."""
    command = sys.executable, str(ROOT / "examples" / "wallet_by_hand.py"), "service.pub.pem"
    ended = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "Usage: python wallet_by_hand.py service.pub.pem PORT PLAYER...\n"


# The certification.


@pytest.mark.torture
@pytest.mark.outside
@_each_language
def test_a_wallet_says_how_to_start_it(language: Language, tmp_path: Path) -> None:
    """Started without arguments."""
    need(language.missing)
    ran = subprocess.run(language.command(tmp_path), capture_output=True, text=True, timeout=50, check=False)
    assert ran.returncode != 0
    assert re.search(r"Usage: .*service\.pub\.pem PORT PLAYER", ran.stderr)


@pytest.mark.torture
@pytest.mark.outside
@pytest.mark.timeout(900)
@_each_language
def test_a_wallet_passes_in_full(language: Language, tmp_path: Path) -> None:
    """Nothing is found, nor advised but on time, with a second process, restarts, failures and blocked players."""
    need(language.missing)
    (first_folder := tmp_path / "first").mkdir()
    (second_folder := tmp_path / "second").mkdir()
    command, database = language.command(tmp_path), tmp_path / "wallet.db"
    keys = [service_key().public_key(), old_key().public_key()]
    first = Running(command, first_folder, keys, database=database, players=["p1", "p2"], instances=_INSTANCE)
    second = Running(command, second_folder, keys, database=database, instances=_INSTANCE)
    try:
        report = certify(
            first.url,
            signing_key=service_key(),
            player_id="p1",
            other_player_id="p2",
            instance_id=_INSTANCE,
            supplies=_supplies(first, second),
        )
    finally:
        first.stop()
        second.stop()
    # How long answers take depends on what else this machine does.
    advice = {each.id: each.reason for each in report.advice if each.id not in {"D05", "H01"}}
    assert ({each.id: each.reason for each in report.failures}, advice) == ({}, {})
    assert report.passed
    assert {each.id for each in report.skipped} == _NOT_PLAYED
    assert [each.difference_cents for each in report.moved] == [0, 0]


def _supplies(first: Running, second: Running) -> Supplies:
    return Supplies(
        block=first.block,
        unblock=first.unblock,
        open_account=first.open_account,
        fail=first.fail,
        recover=first.recover,
        restart=first.restart,
        distrust=first.distrust,
        trust=first.trust,
        later=first.later,
        stored_cents=first.stored_cents,
        second_url=second.url,
        old_key=old_key(),
        retired_key=retired_key(),
        foreign_instance_id="instance-of-another-operator",
        random_operations=_RANDOM_OPERATIONS,
    )


# The same answers as Python's.


class Service:
    """Signs bodies and posts them to one process, each on a new connection."""

    def __init__(self, key: RSAPrivateKey, running: Running) -> None:
        self.running, self.sign = running, cache(partial(signature_of, key))

    def post(self, path: str, body: bytes) -> Answer:
        with closing(HTTPConnection("127.0.0.1", int(self.running.url.rpartition(":")[2]), timeout=20)) as connection:
            connection.request("POST", path, body, {"Content-Type": "application/json", "Signature": self.sign(body)})
            answer = connection.getresponse()
            reply = answer.read()
        assert (answer.status, answer.getheader("Content-Type")) == (200, "application/json")
        return told(reply)


@pytest.fixture(scope="module", params=[pytest.param(each, id=name) for name, each in LANGUAGES.items()])
def service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, private_key: RSAPrivateKey
) -> Iterator[Service]:
    """The service, and a process of the language's wallet."""
    language: Language = request.param
    need(language.missing)
    folder = tmp_path_factory.mktemp("wallet")
    running = Running(language.command(folder), folder, [private_key.public_key()], database=folder / "wallet.db")
    yield Service(private_key, running)
    running.stop()


def _check(extra: str) -> bytes:
    return b'{"player_id":"ann"%b}' % extra.encode()


def _withdraw(amount: str, more: str = "") -> bytes:
    return f'{{"player_id":"ann","amount":{amount},"action_id":"b1","action":"BET"{more}}}'.encode()


def _claim(amount: str) -> bytes:
    return f'{{"player_id":"ann","amount":{amount},"action":{{"type":"JACKPOT"}},"tx_id":"c1"}}'.encode()


def _withdraw_of(bet_id: str) -> bytes:
    """Return a withdraw whose bet has this id, as JSON text."""
    return b'{"player_id":"ann","amount":500,"action":"BET","action_id":%b}' % bet_id.encode()


_INVALID = "INVALID_REQUEST"


class Case(NamedTuple):
    """A body, and the code that answers it: None is SUCCESS."""

    path: str
    body: bytes
    code: str | None


def _cases(path: str, code: str | None, bodies: Mapping[str, bytes]) -> dict[str, Case]:
    return {name: Case(path, body, code) for name, body in bodies.items()}


#: Where the parsers of languages differ.
_BODIES: Mapping[str, Case] = {
    **_cases(
        "/player-balance",
        None,
        {
            "as the service writes it": _check(""),
            "white space": b' \t\r\n{ "player_id" :\n"ann" } ',
            "every kind of value": _check(',"a":[1,-0.5,1.5E+30,true,false,null,"",{},[]],"b":{"a":{"a":1}}'),
            "escapes": b'{"\\u0070layer_id":"\\u0061nn","a":"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83c\\udfb0"}',
            "names that objects of JavaScript have": _check(',"__proto__":{"player_id":"ben"},"constructor":1'),
            "names that are numbers": _check(',"7":1,"07":2,"7.0":3'),
            "a name in capitals": _check(',"PLAYER_ID":"ben","Player_Id":"ben"'),
            "an empty name": _check(',"":1'),
            "64 levels": _check(f',"a":{"[" * 63}{"]" * 63}'),
            "brackets within a string": _check(f',"a":"{"[" * 100}"'),
            "half a pair where nothing depends on it": _check(',"game":"\\ud800"'),
            "a number that overflows a float": _check(',"a":1e999,"b":-1E-999'),
            "65,536 bytes": _check(f',"a":"{"x" * (65_536 - 26)}"'),
        },
    ),
    **_cases("/player-balance", "SYSTEM_ERROR", {"65,537 bytes": _check(f',"a":"{"x" * (65_537 - 26)}"')}),
    **_cases(
        "/player-balance",
        _INVALID,
        {
            "nothing": b"",
            "a duplicate member": b'{"player_id":"ann","player_id":"ann"}',
            "a duplicate by an escape": b'{"player_id":"ann","player_\\u0069d":"ben"}',
            "a duplicate far inside": _check(',"a":[{"b":{"c":1,"c":1}}]'),
            "a duplicate number": _check(',"7":1,"7":1'),
            "a duplicate of null": b'{"player_id":null,"player_id":"ann"}',
            "NaN": _check(',"a":NaN'),
            "Infinity": _check(',"a":-Infinity'),
            "a BOM": b"\xef\xbb\xbf" + _check(""),
            "UTF-16": _check("").decode().encode("utf-16-le"),
            "a byte that is not UTF-8": _check(',"a":"%b"').replace(b"%b", b"\xff"),
            "half a pair as UTF-8": _check(',"a":"%b"').replace(b"%b", b"\xed\xa0\x80"),
            "a letter in two bytes too many": _check(',"a":"%b"').replace(b"%b", b"\xc0\xaf"),
            "65 levels": _check(f',"a":{"[" * 64}{"]" * 64}'),
            "a comma too many": _check(","),
            "a comma too many in a list": _check(',"a":[1,]'),
            "a comma too few": b'{"player_id":"ann" "a":1}',
            "no colon": b'{"player_id" "ann"}',
            "a name without quotes": b'{player_id:"ann"}',
            "single quotes": b"{'player_id':'ann'}",
            "a comment": _check("/* */"),
            "a leading zero": _check(',"a":01'),
            "a plus sign": _check(',"a":+1'),
            "a point without digits": _check(',"a":1.'),
            "a point first": _check(',"a":.5'),
            "hexadecimal": _check(',"a":0x1'),
            "a word in capitals": _check(',"a":True'),
            "a word too long": _check(',"a":nulll'),
            "a line break in a string": _check(',"a":"x\ny"'),
            "U+0001 in a string": _check(',"a":"\x01"'),
            "an unknown escape": _check(',"a":"\\x41"'),
            "an escape without digits": _check(',"a":"\\u00g1"'),
            "digits of another script": _check(',"a":"\\u\u0660\u0660\u0664\u0661"'),
            "white space that is not JSON's": b"\xc2\xa0" + _check(""),
            "a form feed": b"\x0c" + _check(""),
            "something behind": _check("") + b"x",
            "two documents": _check("") * 2,
            "an array": b"[%b]" % _check(""),
            "a string": b'"ann"',
            "half of it": _check("")[:-1],
            "a string that does not end": b'{"player_id":"ann',
        },
    ),
    **_cases(
        "/withdraw",
        None,
        {
            "500": _withdraw("500"),
            "5.0": _withdraw("5.0"),
            "500.000": _withdraw("500.000"),
            "an id of 256 code points": _withdraw_of(f'"{_SLOTS * 256}"'),
            "an id with spaces around it": _withdraw_of('" b1 "'),
        },
    ),
    **_cases("/withdraw", "INSUFFICIENT_BALANCE", {"10^15": _withdraw("1000000000000000")}),
    **_cases(
        "/withdraw",
        _INVALID,
        {
            "500 as text": _withdraw('"500"'),
            "5.5": _withdraw("5.5"),
            "5e2": _withdraw("5e2"),
            "1e3": _withdraw("1e3"),
            "true": _withdraw("true"),
            "null": _withdraw("null"),
            "a list": _withdraw("[500]"),
            "an object": _withdraw("{}"),
            "0": _withdraw("0"),
            "-0": _withdraw("-0"),
            "-1": _withdraw("-1"),
            "10^15 + 1": _withdraw("1000000000000001"),
            "2^64 + 500": _withdraw("18446744073709552116"),
            "5 and a fraction that a float loses": _withdraw("5.00000000000000000001"),
            "an id of 257 code points": _withdraw_of(f'"{_SLOTS * 257}"'),
            "an id of half a pair": _withdraw_of('"b\\ud800"'),
            "an id of the other half": _withdraw_of('"\\udfb0b"'),
            "an id of the halves in the wrong order": _withdraw_of('"\\udfb0\\ud83c"'),
            "an id with U+0000": _withdraw_of('"b\\u0000"'),
            "an id that is blank": _withdraw_of('" \\t"'),
            "an id that is a number": _withdraw_of("7"),
            "an id that is null": _withdraw_of("null"),
            "an id that is a list": _withdraw_of('["b1"]'),
            "an action in small letters": _withdraw("500").replace(b"BET", b"bet"),
            "an action that is true": _withdraw("500").replace(b'"BET"', b"true"),
            "an action that is 0": _withdraw("500").replace(b'"BET"', b"0"),
        },
    ),
    **_cases("/deposit", None, {"a claim of 2^49 + 1": _claim("562949953421313"), "a claim of -0.0": _claim("-0.0")}),
}


@pytest.mark.torture
@pytest.mark.outside
@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in _BODIES.items()])
def test_a_body_is_read_strictly(service: Service, public_key: RSAPublicKey, case: Case) -> None:
    """As Python's wallet reads it. What one language reads differently is another amount or another player there."""
    service.running.begin_anew(OPENING)
    with opened(PlainWallet([public_key])) as plain:
        by_python = answer_of(plain, service, case.path, case.body)
    assert by_python.code == case.code
    assert service.post(case.path, case.body) == by_python


@pytest.mark.torture
@pytest.mark.outside
@settings(max_examples=50, deadline=None)
@given(history=histories())
def test_histories_are_answered_as_in_python(service: Service, public_key: RSAPublicKey, history: list[Step]) -> None:
    """Type, code and balance of each call of any history, and what players have at its end."""
    service.running.begin_anew(OPENING)
    with opened(PlainWallet([public_key])) as plain:
        players = set(OPENING)
        for step in history:
            if step.path.startswith("/"):
                body = encoded(step.body)
                assert service.post(step.path, body) == answer_of(plain, service, step.path, body), (step.path, body)
            elif step.path != "open":
                for wallet in (plain, service.running):
                    getattr(wallet, step.path)("ann")
            elif "eve" not in players:
                players.add("eve")
                for wallet in (plain, service.running):
                    wallet.open_account("eve", 2_000)
        for player_id in players:
            assert service.running.stored_cents(player_id) == plain.balance_cents(player_id)


def answer_of(plain: PlainWallet, service: Service, path: str, body: bytes) -> Answer:
    """Return what Python's wallet answers."""
    return told(plain.handle("POST", path, [("Signature", service.sign(body))], body)[2])
