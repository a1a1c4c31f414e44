"""Output that cannot be written makes nothing look undone: a script would do it again."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import pytest

from game_operator.ledger import SqlLedger
from game_operator_testkit.sandbox import Sandbox
from tests.support.calls import withdraw
from tests.support.command_line import COMMAND, CannedService, Forked, Reply, Run, Told, clean_environment
from tests.support.seeds import random_of
from tests.support.wire import bet, granted, wire

pytestmark = pytest.mark.outside

GRANT = ("grant", "--instance=i", "--player=p", "--count=1", "--wager-cents=1", "--expire-millis=1", "--reference=r")
TOKEN = ("token", "build", "--instance=i", "--player=p")
AS_TEXT_AND_JSON = pytest.mark.parametrize("more", [(), ("--json",)], ids=["text", "json"])
CARRIED_OUT = Reply(body=wire(granted()))
REFUSED = Reply(400, b'{"success": false, "message": "no", "error_code": "PLAYER_NOT_FOUND"}')
UNKNOWN = Reply(body=None)


def on_a_full_disk(*args: str, streams: str = "stdout", **environ: str) -> Told:
    """Run the command with *streams* that have no space left."""
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        stdout, stderr = (full if name in streams else subprocess.PIPE for name in ("stdout", "stderr"))
        with Forked(args, environ=environ, stdout=stdout, stderr=stderr) as process:
            out, err = process.communicate(timeout=50)
    finally:
        os.close(full)
    return Told(process.wait(), out, err)


def through_shell(redirection: str, *args: str, **environ: str) -> Told:
    """Run the command under a shell that gives it *redirection*."""
    script = f'exec "$@" {redirection}'
    ran = subprocess.run(
        ["/bin/sh", "-c", script, "sh", *COMMAND, *args],
        capture_output=True,
        text=True,
        env=clean_environment(environ),
        timeout=50,
        check=False,
    )
    return Told(ran.returncode, ran.stdout, ran.stderr)


def without_reader(*args: str, **environ: str) -> Told:
    """Run the command with a pipe as stdout that nobody reads any more."""
    with unread() as writing:
        ran = subprocess.run(
            [*COMMAND, *args],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            env=clean_environment(environ),
            timeout=50,
            check=False,
        )
    return Told(ran.returncode, "", ran.stderr)


@contextmanager
def unread() -> Iterator[int]:
    """Make a pipe that nobody reads any more; yield where to write."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@AS_TEXT_AND_JSON
@pytest.mark.parametrize(
    ("reply", "code"),
    [pytest.param(CARRIED_OUT, 141, id="carried out"), pytest.param(REFUSED, 1, id="refused")],
)
@pytest.mark.drawn(1)
def test_a_reader_that_has_gone_makes_no_failure(
    settings: dict[str, str], more: tuple[str, ...], reply: Reply, code: int
) -> None:
    """A grant that was made is 141 and one that was refused 1, whoever reads of it (spec §4.2)."""
    with CannedService([reply]) as service:
        told = without_reader(*GRANT, *more, **settings | {"GAME_OPERATOR_BASE_URL": service.base_url})
    assert told.code == code
    assert "Traceback" not in told.err
    assert bool(told.err) == (code == 1 and not more)


@AS_TEXT_AND_JSON
@pytest.mark.drawn(1)
def test_a_result_that_cannot_be_written_is_74(settings: dict[str, str], more: tuple[str, ...]) -> None:
    """On a full disk, and without any stdout: one sentence says that it was carried out all the same."""
    with CannedService([CARRIED_OUT]) as service:
        environ = settings | {"GAME_OPERATOR_BASE_URL": service.base_url}
        full = on_a_full_disk(*GRANT, *more, **environ)
        closed = through_shell(">&-", *GRANT, *more, **environ)
        assert len(service.paths) == 2
    for told, why in ((full, "No space left on device"), (closed, "it is closed")):
        assert (told.code, told.err) == (74, f"Carried out, but the result could not be written ({why}).\n")


def test_a_refusal_that_cannot_be_written_is_still_1(settings: dict[str, str]) -> None:
    """74 is for what was carried out: a refused grant is none (spec §7)."""
    with CannedService([REFUSED]) as service:
        environ = settings | {"GAME_OPERATOR_BASE_URL": service.base_url}
        told = on_a_full_disk(*GRANT, "--json", **environ)
    assert (told.code, told.err) == (1, "The output could not be written (No space left on device).\n")


@pytest.mark.parametrize("args", [TOKEN, ("--version",), ("--help",), ("games", "--help")], ids=" ".join)
@pytest.mark.drawn(1)
def test_commands_that_ask_nobody(settings: dict[str, str], args: tuple[str, ...]) -> None:
    """Help and tokens have no verdict but the one that they were written, or not read."""
    with unread() as writing, Forked(args, environ=settings, stdout=writing) as process:
        assert process.wait(50) == 141
    for told in (on_a_full_disk(*args, **settings), through_shell(">&-", *args, **settings)):
        assert (told.code, told.err.count("\n")) == (74, 1)


def test_rows_that_nobody_reads(tmp_path: Path) -> None:
    """More of them than a buffer holds: it ends without a traceback."""
    url = f"sqlite:///{tmp_path / 'wallet.db'}"
    with SqlLedger(url) as ledger:
        ledger.open_account("p1", Decimal(1_000))
        for number in range(200):
            ledger.apply(withdraw(f"b{number}", amount_cents=1, game=f"game-{number}"))
    told = without_reader("ledger", "totals", "--by", "game", "--json", "--database", url)
    assert (told.code, told.err) == (141, "")


def test_no_stderr_hides_no_verdict(settings: dict[str, str]) -> None:
    """A grant in doubt is 3 (spec §4.2), although nothing could be said about it."""
    with CannedService([UNKNOWN]) as service:
        environ = settings | {"GAME_OPERATOR_BASE_URL": service.base_url}
        doubtful = (*GRANT, "--deadline=0.3")
        for streams in ("stderr", "stdout and stderr"):
            assert on_a_full_disk(*doubtful, streams=streams, **environ).code == 3
        closed = random_of(3).choice(["2>&-", ">&- 2>&-"])
        assert through_shell(closed, *doubtful, **environ).code == 3


def test_a_sandbox_that_nobody_hears_of_ends(tmp_path: Path) -> None:
    """It cannot be asked for its address, so it does not wait for ever."""
    args = ("sandbox", "--directory", str(tmp_path))
    assert without_reader(*args).code == 141
    told = on_a_full_disk(*args)
    assert (told.code, told.err) == (74, "The output could not be written (No space left on device).\n")


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        pytest.param(b"1e999", "Infinity", id="beyond all doubles"),
        pytest.param(b"-1e999", "-Infinity", id="below all doubles"),
        pytest.param(b"1.5", 1.5, id="an ordinary number"),
    ],
)
def test_a_document_is_json_whatever_number_the_service_sends(
    run: Run, settings: dict[str, str], sandbox: Sandbox, number: bytes, expected: object
) -> None:
    """JSON has no Infinity (RFC 8259 §6): it is written as text, also in a field that we do not know (spec §4.2)."""
    body = wire(bet("OPEN")).rstrip()[:-1] + b', "x": ' + number + b', "deep": [{"y": ' + number + b"}]}"
    with CannedService([Reply(body=body)]) as service:
        told = run("bet", "bet-1", "--json", "--base-url", service.base_url)

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    document = json.loads(told.out, parse_constant=refuse)
    assert (document["x"], document["deep"]) == (expected, [{"y": expected}])
