"""`game-operator certify`: the real wallet over HTTP, wrong ones, hostile ones, and none at all."""

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.models.webhooks import WithdrawCall
from game_operator.wallet import Wallet
from game_operator_testkit.cli.hooks import HOOKS
from tests.support.command_line import Forked, Run, Told, mode_of
from tests.support.documents import ROOT
from tests.support.served_wallets import GivesBackWhatItNeverTook, Served, served

_WHO = ("--player", "ann", "--other-player", "bob")
_SECRET = "Bearer-c2VjcmV0"


@pytest.fixture(scope="module")
def blocked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file for each player who may not bet."""
    return tmp_path_factory.mktemp("blocked")


@pytest.fixture(scope="module")
def wallet(tmp_path_factory: pytest.TempPathFactory, private_key: RSAPrivateKey, blocked: Path) -> Iterator[Served]:
    """The ready wallet; a certification leaves it as it was."""

    def may_bet(call: WithdrawCall, *_: object) -> str | None:
        return "PLAYER_BLOCKED" if (blocked / call.player_id).exists() else None

    folder = tmp_path_factory.mktemp("wallet")
    with served(folder, private_key, lambda ledger: Wallet(ledger, may_bet=may_bet)) as app:
        yield app


# --- what is told -----------------------------------------------------------------------------------------------------


def test_a_right_wallet_passes(certify: Run, wallet: Served) -> None:
    """Exit code 0; how many passed, by group, what was not tried and how to try it, and that no money is gone."""
    told = certify(wallet.url, "--only", "A01,A02,A09,B01")
    assert (told.code, told.err) == (0, "")
    lines = told.out.splitlines()
    assert lines[0].startswith("PASSED: ")
    assert re.fullmatch(rf"{wallet.url}: of 4 scenarios, 3 passed, 1 not tried; \d+ calls in \d+\.\d s\.", lines[1])
    assert re.search(r"A Flows +│ +2 │ +- │ +- │ +1 ", told.out)
    assert re.search(r"B Repeats +│ +1 │ +- │ +- │ +- ", told.out)
    assert "\n1 scenario not tried. Options that try more: --hook." in told.out
    assert "ann has 100.00, as before." in told.out
    assert "bob has 100.00, as before." in told.out
    assert "Failed:" not in told.out
    assert max(map(len, lines)) <= 100
    assert lines[0].endswith("; 1 scenario was not tried.")


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.outside
def test_files_are_private_and_hold_no_secret(
    certify: Run, tmp_path: Path, private_key: RSAPrivateKey, private_pem: bytes
) -> None:
    """JSON, JUnit and HTML beside the terminal; neither the key nor the value of a header is anywhere."""
    files = {name: tmp_path / f"report.{name}" for name in ("json", "xml", "html")}
    files["json"].write_text("an older one")
    files["json"].chmod(0o644)
    reports = ("--json-file", files["json"], "--junit", files["xml"], "--html", files["html"])
    with served(tmp_path, private_key, GivesBackWhatItNeverTook) as app:
        told = certify(app.url, "--header", f"Authorization: {_SECRET}", "--only", "A01,C01", *reports)
    assert told.code == 1
    assert {head[b"authorization"] for head in app.heads} == {_SECRET.encode()}
    texts = {name: path.read_text() for name, path in files.items()}
    assert [verdict["id"] for verdict in json.loads(texts["json"])["verdicts"]] == ["A01", "C01"]
    assert texts["xml"].count("<testcase") == 2
    assert texts["html"].startswith("<!doctype html>")
    key_lines = private_pem.decode().splitlines()[1:-1]
    for text in (*texts.values(), told.out, told.err):
        assert _SECRET not in text
        assert not any(line in text for line in key_lines)
    # Signatures are in the files, so that a call can be sent again; a terminal is not the place for them.
    assert '"Signature"' in texts["json"] or '"signature"' in texts["json"]
    assert "ignature:" not in told.out
    assert {mode_of(path) for path in files.values()} == {0o600}
    assert sorted(path.name for path in tmp_path.glob(".game-operator-*")) == []
    for path in files.values():
        assert str(path) in told.out.replace("\n", "")


def test_a_file_that_cannot_be_written_is_74(certify: Run, wallet: Served, tmp_path: Path) -> None:
    """What was found is told all the same; a pass is not 0, for somebody waits for the file."""
    told = certify(wallet.url, "--only", "A01", "--json-file", tmp_path / ("x" * 300), "--json")
    assert told.code == 74
    assert json.loads(told.out)["passed"] is True
    assert "could not be written" in told.err
    assert list(tmp_path.iterdir()) == []


# --- what cannot be done ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "says"),
    [
        pytest.param(("URL", "KEY", "--player", "ann"), "Missing option '--other-player'", id="one player"),
        pytest.param(("URL", "KEY", "--player", "ann", "--other-player", "ann"), "are the same", id="one player twice"),
        pytest.param(("URL", "KEY", "--player", "x", "--other-player", "bob"), "not know the player", id="nobody"),
        pytest.param(("URL", "KEY", *_WHO, "--only", "Z"), "no scenario or group 'Z'", id="no such group"),
        pytest.param(("URL", "KEY", *_WHO, "--only", "A", "--skip", "A"), "No scenario is left", id="nothing is left"),
        pytest.param(("URL/nowhere", "KEY", *_WHO), "is not a wallet", id="a wrong path"),
        pytest.param(
            ("https://wallet.example", "KEY", *_WHO),
            "Pass --moves-money if that is what you want.",
            id="another machine",
        ),
        pytest.param(("URL", "KEY", *_WHO, "--elsewhere", "10.99.99.99"), "--elsewhere: '10.99", id="nobody's address"),
        pytest.param(
            ("http://wallet.example", "KEY", *_WHO, "--moves-money"),
            "Use https.\nOn a private network, pass --allow-insecure-http.",
            id="another machine without TLS",
        ),
        pytest.param(("URL", "--service-private-key", "none.pem", *_WHO), "none.pem", id="no key"),
        pytest.param(("URL", "KEY", *_WHO, "--html", "/dev/null"), "is not a file", id="a device"),
        pytest.param(("URL", "KEY", *_WHO, "--html", "PEM"), "would overwrite another file of this run", id="the key"),
        pytest.param(("URL", "KEY", *_WHO, "--header", _SECRET), "--header", id="no colon"),
        pytest.param(("URL", "KEY", *_WHO, "--header", f"A: {_SECRET}\r\nX: y"), "--header", id="two lines"),
        pytest.param(("URL", "KEY", *_WHO, "--header", f"signature: {_SECRET}"), "--header", id="the signature's own"),
    ],
)
def test_what_cannot_work_is_2(
    run: Run, wallet: Served, key_file: Path, private_pem: bytes, args: tuple[str, ...], says: str
) -> None:
    """
    Said before anything is sent but a balance check, in the words of the command line.

    A header is not shown: it may be a secret. A mistyped file name costs no key.
    """
    given: list[object] = []
    for arg in args:
        given += ["--service-private-key", key_file] if arg == "KEY" else [arg.replace("URL", wallet.url)]
    told = run("certify", *(key_file if arg == "PEM" else arg for arg in given))
    assert (told.code, told.out) == (2, "")
    assert says in told.err
    assert _SECRET not in told.err
    assert key_file.read_bytes() == private_pem


@pytest.mark.parametrize(("option", "ending"), [("--html", ".html"), ("--json-file", ".json"), ("--junit", ".xml")])
def test_a_report_replaces_a_report_alone(
    option: str, ending: str, certify: Run, wallet: Served, tmp_path: Path
) -> None:
    """A file of another kind may be the wallet's code or its database."""
    code, before = tmp_path / "wallet.py", tmp_path / f"before{ending}"
    for file in (code, before):
        file.write_text("precious")
    told = certify(wallet.url, "--only", "A01", option, code)
    assert (told.code, code.read_text()) == (2, "precious")
    assert f"only a file whose name ends in {ending} is overwritten" in told.err
    told = certify(wallet.url, "--only", "A01", option, before)
    assert told.code == 0
    assert "precious" not in before.read_text()


@pytest.mark.outside
def test_a_wallet_that_is_not_there_is_3(certify: Run, nobody: str) -> None:
    """Nothing was sent."""
    told = certify(nobody)
    assert (told.code, "never left" in told.err) == (3, True)
    assert certify(nobody, "--json").error["type"] == "RequestNotSentError"


@pytest.mark.outside
def test_an_authority_of_ones_own(tmp_path: Path, private_key: RSAPrivateKey, key_file: Path) -> None:
    """With SSL_CERT_FILE a certificate that nobody else trusts is; without, the wallet is out of reach."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(tmp_path / "tls.key")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "tls.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with served(tmp_path, private_key, ssl_certfile=tmp_path / "tls.pem", ssl_keyfile=tmp_path / "tls.key") as app:
        trusting: dict[str, Any] = {"SSL_CERT_FILE": str(tmp_path / "ca.pem")}  # Any: mypy takes stderr for one of it.
        for environ, code in ((trusting, 0), ({}, 3)):
            with _started(app.url, key_file, "--only", "A01", **environ) as process:
                process.communicate(timeout=50)
            assert process.returncode == code


# --- hooks ------------------------------------------------------------------------------------------------------------


def test_hooks_make_more_scenarios_possible(certify: Run, wallet: Served, blocked: Path) -> None:
    """Players are blocked, let in again and opened by commands; nothing of it is left."""
    opening = f"open_account={sys.executable} -m game_operator.cli ledger open --database {wallet.database}"
    hooks = (f"block=sh -c 'touch {blocked}/$1' sh", f"unblock=sh -c 'rm {blocked}/$1' sh", opening)
    given = [word for hook in hooks for word in ("--hook", hook)]
    verdicts = certify(wallet.url, "--only", "A09,C14", *given, "--json").document["verdicts"]
    assert [(each["id"], each["outcome"]) for each in verdicts] == [("A09", "passed"), ("C14", "passed")]
    assert list(blocked.iterdir()) == []


def test_a_hook_that_fails_is_no_pass(certify: Run, wallet: Served) -> None:
    """Its scenario is skipped, with the exit code and the last line that the command wrote; the run ends with 1."""
    hooks = ("--hook", "block=sh -c 'echo $1 is unknown here >&2; exit 7' sh", "--hook", "unblock=true")
    told = certify(wallet.url, "--only", "A01,A09", *hooks, "--json")
    assert (told.code, told.document["passed"], told.document["counts"]["undone"]) == (1, True, 1)
    skipped = told.document["verdicts"][1]
    assert (skipped["id"], skipped["outcome"], skipped["is_undone"]) == ("A09", "skipped", True)
    assert skipped["reason"] == "the hook block ended with exit code 7: 'ann is unknown here'"
    told = certify(wallet.url, "--only", "A01,A09", *hooks)
    assert told.code == 1
    assert told.out.startswith("NOT FINISHED: what was supplied did not work, and 1 scenario could not be tried.")
    assert "What was supplied did not work, so A09 could not be tried: the hook block ended" in told.out


# --- at a terminal ----------------------------------------------------------------------------------------------------


def _started(url: str, key: Path, *options: object, stderr: int = subprocess.PIPE, **environ: str) -> Forked:
    args = ("certify", url, "--service-private-key", key, *_WHO, *options)
    return Forked(list(map(str, args)), environ=environ, stderr=stderr)


def test_progress_is_shown_on_a_terminal_alone(wallet: Served, key_file: Path) -> None:
    """On stderr: the last verdict and how many there are; stdout has the report and nothing else."""
    ours, theirs = pty.openpty()
    with _started(wallet.url, key_file, "--only", "A01,A02,B01", stderr=theirs) as process:
        os.close(theirs)
        out, _ = process.communicate(timeout=50)
    shown = os.read(ours, 65_536).decode()
    os.close(ours)
    assert process.returncode == 0
    assert "3/3" in shown
    assert "B01 passed: " in shown
    assert out.startswith("PASSED: ")
    assert "\x1b" not in out


@pytest.mark.outside
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: signal.Signals(number).name)
@pytest.mark.drawn(1)
def test_a_run_that_is_stopped_puts_money_back(
    tmp_path: Path, private_key: RSAPrivateKey, key_file: Path, number: signal.Signals
) -> None:
    """In the middle of the first bet; the report says what was not tried, and the exit code that it was a signal."""
    heard = threading.Event()

    def may_bet(call: WithdrawCall, *_: object) -> None:
        if not heard.is_set():
            process.send_signal(number)
            heard.set()

    report = tmp_path / "report.xml"
    with (
        served(tmp_path, private_key, lambda ledger: Wallet(ledger, may_bet=may_bet)) as app,
        _started(app.url, key_file, "--only", "A01,A02,B01", "--junit", report) as process,
    ):
        out, err = process.communicate(timeout=50)
    told = Told(process.wait(), out, err)
    assert told.code == 128 + number
    assert told.err.startswith("Stopping: money is put back and the report is printed first. Ctrl-C once more leaves")
    assert told.err.count("\n") == 1
    assert told.out.startswith("STOPPED: nothing is wrong so far, and 2 scenarios were not tried.\n")
    assert "The run was stopped, so A02, B01 were not tried to the end." in told.out
    assert "ann has 100.00, as before." in told.out
    assert report.read_text().count("the run was stopped") == 2


@pytest.mark.outside
def test_a_second_ctrl_c_leaves_at_once(key_file: Path) -> None:
    """Whatever the wallet takes for its answer; money may have moved, so the ids that tell are named."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with _started(url, key_file, "--timeout", 40) as process:
            silent.accept()[0].close()
            connection, _ = silent.accept()
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            first = process.stderr.readline()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
            connection.close()
    assert re.match(r"Stopping: .* their ids begin with certify-[0-9a-f]{8}\.", first)
    assert Told(process.wait(), out, err) == Told(130, "", "")


# --- the pages -------------------------------------------------------------------------------------------------------

_PAGE = (ROOT / "docs" / "how-to" / "certify.md").read_text()


def test_the_page_names_every_hook_and_no_option_that_is_not_there(run: Run) -> None:
    """A hook has its arguments there alone."""
    helped = set(re.findall(r"(?<![\w-])--[a-z][\w-]+", run("certify", "--help").out))
    more = _PAGE.partition("## Scenarios that need more\n")[2].partition("\n## ")[0]
    first_cells = re.findall(r"^\| (`.*?) \|", more, re.MULTILINE)
    assert {cell.strip("`") for cell in first_cells if not cell.startswith("`--")} == set(HOOKS)
    text = re.sub(r"```.*?```", "", _PAGE, flags=re.DOTALL)
    assert set(re.findall(r"`(--[a-z][a-z-]+)", text)) <= helped
