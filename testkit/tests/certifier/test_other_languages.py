"""The wallets by hand in Node.js and PHP (examples/wallets): each passes a certification in full."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from wallet_by_hand import PlainWallet

from game_operator_testkit.certifier import Supplies, certify
from testkit.tests.certifier.harness import old_key, retired_key, service_key
from testkit.tests.certifier.other_languages import LANGUAGES, WALLETS, Language, Running, need
from testkit.tests.certifier.test_wallet_by_hand import (
    OPENING,
    Answer,
    Headers,
    Service,
    Step,
    histories,
    hold_alike,
    opened,
    told,
)
from tests.support.documents import ROOT
from tests.support.webhooks import signature_of

#: What these wallets leave out: batches, and an allow list of addresses.
_NOT_PLAYED = {"A11", "E10"}
_INSTANCE = "instance-1"
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


_INVALID_PORT = r"is invalid\. Use a number from 0 to 65535\."
#: For each the key file, the port, None if it is in use, and a pattern of the line that the wallet writes.
_MISTAKES: Sequence[tuple[str, str | None, str]] = [
    ("missing.pem", "0", r".*/missing\.pem cannot be read( \(.+\))?\. Pass the public half of the key .*"),
    ("service.pub.pem", None, r"Port {port} cannot be used \(.+\)\. Pass a port that is free\."),
    ("service.pub.pem", "abc", rf"Port abc {_INVALID_PORT}"),
    ("service.pub.pem", "65536", rf"Port 65536 {_INVALID_PORT}"),
]


class Ready(NamedTuple):
    """A wallet's command, and the folder with the key files."""

    command: Sequence[str]
    folder: Path


@pytest.fixture(scope="module", params=["Python", *_OTHERS])
def ready(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ready:
    """One of the three wallets, made ready once."""
    folder = tmp_path_factory.mktemp("wallet")
    pem = service_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / "service.pub.pem").write_bytes(pem)
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
@pytest.mark.parametrize(("key", "port", "says"), _MISTAKES, ids=["no key", "port in use", "a word", "too high"])
@pytest.mark.drawn(5, ready=("Python",))
def test_a_wallet_that_cannot_start_says_why_in_one_line(ready: Ready, key: str, port: str | None, says: str) -> None:
    """On stderr, with the value and what to do, and an exit code other than 0."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = str(other.getsockname()[1])
        ended = _started(ready, key, taken if port is None else port)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert re.fullmatch(rf"{says.replace('{port}', taken)}\n", ended.stderr), ended.stderr


@pytest.mark.outside
@pytest.mark.parametrize("ready", _OTHERS, indirect=True)
def test_a_database_that_cannot_be_opened_is_one_line_too(ready: Ready) -> None:
    """In the words of the driver; the wallet in Python keeps its database in memory."""
    ended = _started(ready, "service.pub.pem", "0", DATABASE=str(ready.folder / "missing" / "wallet.db"))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert re.fullmatch(r".*(database|missing/wallet\.db).*\n", ended.stderr), ended.stderr


# The certification.


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


class Process:
    """What is posted to one process, each on a new connection, and what staff do to it."""

    def __init__(self, running: Running) -> None:
        self.block, self.unblock = running.block, running.unblock
        self.open_account, self.stored_cents = running.open_account, running.stored_cents
        self._address = running.url.removeprefix("http://")

    def post(self, path: str, headers: Headers, body: bytes) -> Answer:
        with closing(HTTPConnection(self._address, timeout=20)) as connection:
            connection.request("POST", path, body, dict(headers))
            answer = connection.getresponse()
            reply = answer.read()
        assert (answer.status, answer.getheader("Content-Type")) == (200, "application/json")
        return told(reply)


@pytest.fixture(scope="module", params=[pytest.param(each, id=name) for name, each in LANGUAGES.items()])
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, public_key: RSAPublicKey
) -> Iterator[Running]:
    """A process of the language's wallet."""
    language: Language = request.param
    need(language.missing)
    folder = tmp_path_factory.mktemp("wallet")
    running = Running(language.command(folder), folder, [public_key], database=folder / "wallet.db")
    yield running
    running.stop()


@pytest.mark.torture
@pytest.mark.outside
@settings(max_examples=50, deadline=None)
@given(history=histories())
def test_histories_are_answered_as_in_python(
    running: Running, public_key: RSAPublicKey, private_key: RSAPrivateKey, history: list[Step]
) -> None:
    """Type, code and balance of each call of any history, and what players have at its end."""
    running.begin_anew(OPENING)
    with opened(PlainWallet([public_key])) as plain:
        hold_alike(Service(partial(signature_of, private_key), plain), Process(running), history)
