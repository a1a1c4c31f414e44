"""Output that cannot be written makes nothing look undone: a script would do it again."""

import os
import subprocess

import pytest

from tests.support.command_line import COMMAND, CannedService, Forked, Reply, Told, clean_environment, ran
from tests.support.seeds import random_of
from tests.support.wire import granted, wire

pytestmark = pytest.mark.outside

GRANT = ("grant", "--instance=i", "--player=p", "--count=1", "--wager-cents=1", "--expire-millis=1", "--reference=r")
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
    return ran("/bin/sh", "-c", f'exec "$@" {redirection}', "sh", *COMMAND, *args, **environ)


def without_reader(*args: str, **environ: str) -> Told:
    """Run the command with a pipe as stdout that nobody reads any more."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as unread:
        ran = subprocess.run(
            [*COMMAND, *args],
            stdout=unread,
            stderr=subprocess.PIPE,
            text=True,
            env=clean_environment(environ),
            timeout=50,
            check=False,
        )
    return Told(ran.returncode, "", ran.stderr)


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


def test_no_stderr_hides_no_verdict(settings: dict[str, str]) -> None:
    """A grant in doubt is 3 (spec §4.2), although nothing could be said about it."""
    with CannedService([UNKNOWN]) as service:
        environ = settings | {"GAME_OPERATOR_BASE_URL": service.base_url}
        doubtful = (*GRANT, "--deadline=0.3")
        for streams in ("stderr", "stdout and stderr"):
            assert on_a_full_disk(*doubtful, streams=streams, **environ).code == 3
        closed = random_of(3).choice(["2>&-", ">&- 2>&-"])
        assert through_shell(closed, *doubtful, **environ).code == 3
