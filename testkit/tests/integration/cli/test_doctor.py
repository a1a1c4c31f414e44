"""`game-operator doctor`: each finding is made, says what to do, and is marked where it rests on an assumption."""

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from game_operator.cli.keys import write_pair
from game_operator.signers.keys import fingerprint
from game_operator_testkit.sandbox import Sandbox
from tests.support.command_line import Run
from tests.support.proxies import WEBSOCKETS, behind, needs
from tests.support.servers import asgi_server

pytestmark = pytest.mark.outside


def checks(document: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return the checks by name, having held that every finding says what to do."""
    found: dict[str, dict[str, str]] = {each["name"]: each for each in document["checks"]}
    for name, check in found.items():
        assert check.keys() == {"name", "outcome", "found", "todo", "assumed"}
        assert check["todo"] or check["outcome"] in {"ok", "skipped"}, name
    assert document["ok"] == all(each["outcome"] in {"ok", "skipped", "advice"} for each in found.values())
    return found


def outcomes(document: dict[str, Any]) -> dict[str, str]:
    """Return the outcome of each check, those that are fine and mere advice left out."""
    found = checks(document).items()
    return {name: check["outcome"] for name, check in found if check["outcome"] not in {"ok", "advice"}}


def test_all_is_well(run: Run, settings: dict[str, str]) -> None:
    """Exit code 0; what rests on an assumption says so, in JSON and in text, and the rest does not."""
    told = run("doctor", "--json")
    assert told.code == 0
    found = checks(told.document)
    assert outcomes(told.document) == {}
    assumed = {name: check["assumed"] for name, check in found.items() if check["assumed"]}
    assert assumed.keys() == {"private key", "clock", "signed fetch-games", "webhooks"}
    assert not any("docs/" in text for text in assumed.values())
    text = run("doctor")
    assert (text.code, text.err) == (0, "")
    lines = text.out.splitlines()
    marks = ["→" if check["outcome"] == "advice" else "✓" for check in found.values()]
    told_of = [line.partition(":")[0] for line in lines if not line.startswith(" ")]
    assert told_of == [f"{mark} {name}" for mark, name in zip(marks, found, strict=True)]
    assert sum(line.startswith("    assumed: ") for line in lines) == len(assumed)


@pytest.mark.parametrize(
    ("mode", "outcome"),
    [(0o600, "ok"), (0o400, "ok"), (0o440, "ok"), (0o604, "problem"), (0o644, "problem"), (0o620, "problem")],
    ids=lambda value: oct(value) if isinstance(value, int) else value,
)
def test_a_key_that_others_can_use(run: Run, tmp_path: Path, private_pem: bytes, mode: int, outcome: str) -> None:
    """Read or written by others: a finding. A group that may read it is how containers mount secrets."""
    key = tmp_path / "operator.pem"
    key.write_bytes(private_pem)
    key.chmod(mode)
    check = checks(run("doctor", "--private-key", key, "--json").document)["key file"]
    assert check["outcome"] == outcome
    assert (f"chmod 600 {key}" in check["todo"]) == (outcome == "problem")


def test_the_registered_key_is_another(run: Run, settings: dict[str, str], tmp_path: Path, key_file: Path) -> None:
    """Both fingerprints are told, whether the other key is given or lies beside the private one."""
    other = write_pair(tmp_path / "other.pem", bits=2048)
    told = run("doctor", "--public-key", other.public, "--json")
    check = checks(told.document)["key pair"]
    assert (told.code, check["outcome"]) == (1, "problem")
    assert fingerprint(other.public_key) in check["found"]
    mixed = tmp_path / "mixed.pem"
    mixed.write_bytes(key_file.read_bytes())
    mixed.chmod(0o600)
    (tmp_path / "mixed.pub.pem").write_bytes(other.public.read_bytes())
    assert outcomes(run("doctor", "--private-key", mixed, "--json").document) == {"key pair": "problem"}


def test_the_service_does_not_know_the_key(run: Run, settings: dict[str, str], public_key: RSAPublicKey) -> None:
    """401 (spec §5): what to ask the provider, with the fingerprint, and what the call rests on."""
    with Sandbox() as stranger:
        told = run("doctor", "--base-url", stranger.base_url, "--json")
    assert told.code == 1
    assert outcomes(told.document) == {"signed fetch-games": "problem"}
    check = checks(told.document)["signed fetch-games"]
    assert "HTTP 401" in check["found"]
    assert fingerprint(public_key) in check["todo"]
    assert "PKCS#1 v1.5" in check["assumed"]


@pytest.mark.parametrize(
    ("ahead_seconds", "outcome"),
    [
        pytest.param(-120, "problem", id="two minutes ahead of the service"),
        pytest.param(25, "ok", id="a little behind"),
        pytest.param(120, "problem", id="two minutes behind the service"),
    ],
)
def test_the_clocks_differ(
    run: Run, settings: dict[str, str], public_key: RSAPublicKey, ahead_seconds: int, outcome: str
) -> None:
    """By the Date header; over 30 seconds it matters, to session tokens (assumed)."""
    service = Sandbox(operator_public_key=public_key, clock=lambda: time.time_ns() // 1_000_000 + ahead_seconds * 1000)
    with service:
        told = run("doctor", "--base-url", service.base_url, "--json")
    check = checks(told.document)["clock"]
    assert (check["outcome"], told.code) == (outcome, 0 if outcome == "ok" else 1)
    if outcome == "problem":
        side = "behind" if ahead_seconds > 0 else "ahead of"
        seconds = int(check["found"].split()[3])
        assert f"s {side} the service" in check["found"]
        assert abs(seconds - 120) <= 5
        assert "NTP" in check["todo"]
        assert "session tokens" in check["assumed"]


def test_nobody_answers(run: Run, settings: dict[str, str], nobody: str) -> None:
    """Exit code 3, and where to look."""
    told = run("doctor", "--base-url", nobody, "--deadline", "0.15", "--json")
    assert told.code == 3
    assert outcomes(told.document) == {
        "signed fetch-games": "unreachable",
        "clock": "skipped",
    }
    out = run("doctor", "--base-url", nobody, "--deadline", "0.15").out
    assert "firewall" in out
    assert out.count("✗") == 1


async def _fine(scope: Any, receive: Any, send: Any) -> None:
    """Answer without a look at the body, as most routes do."""
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


async def _closing(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": [(b"connection", b"close")]})
    await send({"type": "http.response.body"})


@pytest.mark.parametrize("proxy", ["", *(pytest.param(name, marks=needs(name)) for name in ("caddy", "nginx"))])
@pytest.mark.parametrize(
    ("app", "http", "outcome"),
    [
        pytest.param(_fine, "game_operator.serve:SafeProtocol", "ok", id="SafeProtocol"),
        pytest.param(_fine, "h11", "ok", id="h11"),
        pytest.param(_closing, "httptools", "ok", id="httptools that closes"),
        pytest.param(_fine, "httptools", "problem", id="httptools"),
    ],
)
def test_what_an_upgrade_does_to_the_next_call(
    run: Run, settings: dict[str, str], tmp_path: Path, app: Any, http: str, outcome: str, proxy: str
) -> None:
    """RFC 9110 §7.8: seen from outside, through a proxy or not, without a call to any path."""
    with ExitStack() as opened:
        port = opened.enter_context(asgi_server(app, http=http))
        if proxy:
            port = opened.enter_context(behind(proxy, port, tmp_path, WEBSOCKETS if proxy == "nginx" else ""))
        for _ in range(5):  # A proxy on a busy machine does not use each connection again.
            told = run("doctor", "--url", f"http://127.0.0.1:{port}/wallet", "--json")
            check = checks(told.document)["upgrade"]
            if check["outcome"] == outcome:
                break
    assert (check["outcome"], told.code) == (outcome, 0 if outcome == "ok" else 1)
    if outcome == "problem":
        assert "answered 400 instead of 204" in check["found"]
        assert "--http game_operator.serve:SafeProtocol" in check["todo"]
