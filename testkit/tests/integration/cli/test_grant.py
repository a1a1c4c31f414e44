"""`game-operator grant`: free bets, refused ones, and ones in doubt (spec §2.2, §4.2, §7.2, §8); `round`."""

import signal
import socket
from itertools import count

import pytest

from game_operator_testkit.sandbox import Sandbox
from tests.support.command_line import CannedService, Reply, Run, Told, said, started, stopped
from tests.support.wire import wire

pytestmark = pytest.mark.outside

_references = count(1)


def grant_args(sandbox: Sandbox, **changes: object) -> list[str]:
    """Return a sound grant under a reference id of its own, with *changes*."""
    options: dict[str, object] = {
        "instance": sandbox.instance_id,
        "player": "player-1",
        "count": 5,
        "wager-cents": 100,
        "expire-millis": 86_400_000,
        "reference": f"cli-{next(_references)}",
    }
    options |= {name.replace("_", "-"): value for name, value in changes.items()}
    return ["grant", *(f"--{name}={value}" for name, value in options.items())]


def test_a_grant(run: Run, settings: dict[str, str], sandbox: Sandbox) -> None:
    """Granted once, and recorded by the service as asked (spec §2.3, §4.2)."""
    told = run(*grant_args(sandbox, reference="cli-told"))
    assert (told.code, told.err) == (0, "")
    facts = said(told.out)
    assert told.out.startswith("Granted: 5 free bets of 100 cents for player-1.\n")
    (grant,) = [each for each in sandbox.world.grants() if each.request.reference_id == "cli-told"]
    assert facts["free bet id"] == grant.free_bet_id
    asked = (grant.request.count, grant.request.wager_amount_cents, grant.request.expire_duration_millis)
    assert asked == (5, 100, 86_400_000)
    document = run(*grant_args(sandbox), "--json").document
    assert document.keys() == {"success", "free_bet_id", "message"}
    assert document["success"] is True


@pytest.mark.parametrize(
    ("changes", "code", "attempts"),
    [
        pytest.param({"count": 0}, "INVALID_COUNT", 0, id="no free bets"),
        pytest.param({"instance": "0" * 24}, "INSTANCE_NOT_FOUND", 1, id="no such instance"),
    ],
)
def test_a_refusal(
    run: Run, settings: dict[str, str], sandbox: Sandbox, changes: dict[str, object], code: str, attempts: int
) -> None:
    """Exit code 1 with the service's code, whoever refuses (spec §7.2, §8)."""
    told = run(*grant_args(sandbox, **changes))
    assert (told.code, told.out) == (1, "")
    assert code in told.err
    assert "Nothing was granted" in told.err
    error = run(*grant_args(sandbox, **changes), "--json").error
    assert (error["type"], error["error_code"], error["attempts"]) == ("FreeBetRejectedError", code, attempts)


def test_a_lost_answer_that_a_repeat_explains(run: Run, settings: dict[str, str], sandbox: Sandbox) -> None:
    """A duplicate after a lost answer counts as granted: exit code 3, and no advice to run it again."""
    body = {"success": False, "message": "there is one", "error_code": "DUPLICATE_REFERENCE_ID"}
    with CannedService([Reply(body=None), Reply(400, wire(body))]) as service:
        told = run(*grant_args(sandbox), "--base-url", service.base_url, "--json")
    error = told.error
    assert (told.code, error["type"], error["attempts"]) == (3, "OutcomeUnknownError", 2)
    assert error["error_code"] == "DUPLICATE_REFERENCE_ID"
    assert "Count it as granted" in error["message"]
    with CannedService([Reply(body=None), Reply(400, wire(body))]) as service:
        told = run(*grant_args(sandbox), "--base-url", service.base_url)
    assert (told.code, "run this very command once more" in told.err) == (3, False)


def interrupted(settings: dict[str, str], args: list[str], number: int) -> Told:
    """Return what the grant says that is sent the signal *number* once the service has read its request."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with started(*args, **settings | {"GAME_OPERATOR_BASE_URL": address}) as process:
            connection, _ = silent.accept()
            with connection:
                received = b""
                while not received.endswith(b"}"):
                    received += connection.recv(65_536)
                return stopped(process, number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_grant_that_is_interrupted_is_in_doubt(settings: dict[str, str], sandbox: Sandbox, number: int) -> None:
    """The service has read the request, so nobody may say that nothing was done (spec §2.2, §8)."""
    told = interrupted(settings, grant_args(sandbox, reference="cli-stopped"), number)
    assert (told.code, told.out, told.err.count("\n")) == (130, "", 1)
    assert "Whether the free bets were granted is unknown" in told.err
    assert "the very same command again (reference id 'cli-stopped')" in told.err


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(("--no", "999999"), id="unknown number"),
        pytest.param(("--id", "nope"), id="unknown id"),
        pytest.param(("--id", "nope", "--no", "4127"), id="the id counts, not the number"),
    ],
)
def test_a_round_that_is_not_there_is_an_answer(
    run: Run, settings: dict[str, str], sandbox: Sandbox, args: tuple[str, ...]
) -> None:
    """NOT_FOUND, also when only the number would find it (spec §4.2)."""
    told = run("round", "--instance", sandbox.instance_id, *args)
    assert (told.code, told.out.partition(":")[0]) == (0, "NOT_FOUND")
    assert run("round", "--instance", sandbox.instance_id, *args, "--json").document == {"status": "NOT_FOUND"}
