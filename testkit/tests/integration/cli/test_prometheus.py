"""docs/how-to/deploy.md: Debian's Prometheus finds each worker of `serve`, and its sums are right."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from game_operator import WithdrawCall
from game_operator.cli.keys import KeyFiles
from game_operator.ledger import SqlLedger
from game_operator_testkit.provider.caller import WebhookCaller
from tests.support.documents import ROOT
from tests.support.times import wait_until

pytestmark = [pytest.mark.outside, pytest.mark.artefact]

_PROGRAM = ROOT / "examples" / "telemetry" / "serve_with_prometheus.py"
_PAGE = ROOT / "docs" / "how-to" / "deploy.md"
_CALLS = 12
_PATIENCE_SECONDS = 40.0


@contextmanager
def _running(*command: object, **environ: str) -> Iterator["subprocess.Popen[str]"]:
    """Run *command*, and stop it at the end."""
    words = list(map(str, command))
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=os.environ | environ) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(_PATIENCE_SECONDS)


@contextmanager
def _prometheus(folder: Path, metrics: Path) -> Iterator[Callable[[str], float]]:
    """Run Prometheus with the page's settings for the folder *metrics*; yield what asks it for one number."""
    program = shutil.which("prometheus")
    assert program, "Prometheus is not installed: tools/install-languages.sh installs it"
    (found,) = re.findall(r"^```yaml\n(.*?)^```$", _PAGE.read_text(), re.MULTILINE | re.DOTALL)
    settings = found.replace("/run/wallet-metrics", str(metrics)).replace("15s", "1s")
    assert str(metrics) in settings
    (folder / "prometheus.yml").write_text(settings)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    options = (f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}")

    def asked(query: str) -> float:
        with suppress(OSError), urlopen(f"http://{address}/api/v1/query?query={quote(query)}", timeout=5) as answer:
            result: list[Any] = json.load(answer)["data"]["result"]
            return float(result[0]["value"][1]) if result else 0.0
        return 0.0

    with _running(program, *options, f"--web.listen-address={address}", "--log.level=error"):
        yield asked


def test_prometheus_counts_the_calls_of_all_workers(keys: KeyFiles, postgres_url: str, tmp_path: Path) -> None:
    """Each worker is a target, and so is who starts them; their sum is what the provider sent."""
    metrics = tmp_path / "metrics"
    metrics.mkdir()
    (metrics / "4194305.json").write_text("[]")  # Of a process that cannot be: Linux has no such number.
    with SqlLedger(postgres_url) as ledger:
        ledger.open_account("p1", Decimal(100))
    served = ("serve", "--port", 0, "--json", "--telemetry", "--workers", 2)
    where = ("--database", postgres_url, "--service-key", keys.public)
    with (
        _prometheus(tmp_path, metrics) as asked,
        _running(sys.executable, _PROGRAM, *served, *where, METRICS_FOLDER=str(metrics)) as wallet,
    ):
        assert wallet.stdout is not None
        url = json.loads(wallet.stdout.readline())["url"]
        for number in range(_CALLS):
            with WebhookCaller(url, keys.private) as provider:  # A connection each, so that both workers get some.
                call = WithdrawCall(player_id="p1", bet_id=f"b{number}", amount_cents=100)
                assert provider.send(call).code is None
        wait_until(lambda: asked('sum(game_operator_webhook_calls_total{job="wallet"})') == _CALLS)
        assert asked("sum(game_operator_wagered_total)") == _CALLS * 100
        wait_until(lambda: asked('count(up{job="wallet"} == 1)') == 3)
        assert len(list(metrics.glob("*.json"))) == 3
    assert list(metrics.iterdir()) == []
