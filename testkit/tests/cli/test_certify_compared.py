"""`game-operator certify --baseline`: what is compared, and how the run then ends."""

import json
import re
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from tests.support.command_line import Run, Told
from tests.support.served_wallets import GivesBackWhatItNeverTook, served

pytestmark = pytest.mark.outside


@pytest.fixture
def certified(certify: Run, tmp_path: Path, private_key: RSAPrivateKey) -> Run:
    """Certify a wallet that pays for rollbacks of bets that it does not know."""

    def certified(*options: object) -> Told:
        folder = tmp_path / f"wallet-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        with served(folder, private_key, GivesBackWhatItNeverTook) as app:
            return certify(app.url, "--only", "A01,A02,C01", *options)

    return certified


def _baseline(folder: Path, **outcomes: str) -> Path:
    file = folder / "before.json"
    verdicts = [{"id": name, "outcome": outcome, "weight": "money doubled"} for name, outcome in outcomes.items()]
    file.write_text(json.dumps({"format": 1, "version": "0.1", "profile": {}, "verdicts": verdicts}))
    return file


def test_a_run_with_its_own_report_as_baseline_ends_well(certified: Run, tmp_path: Path) -> None:
    """Exit code 1 without, 0 with it; that the wallet is still wrong is said, on the first screen and in the files."""
    files = {name: tmp_path / name for name in ("before.json", "after.json", "page.html", "cases.xml")}
    first = certified("--json-file", files["before.json"])
    assert first.code == 1
    assert first.out.splitlines()[-1] == "FAILED: 2 passed, 1 failed, 0 advice, 0 not tried"
    after = ("--json-file", files["after.json"], "--html", files["page.html"], "--junit", files["cases.xml"])
    told = certified("--baseline", files["before.json"], *after)
    assert (told.code, told.err) == (0, "")
    lines = told.out.splitlines()
    numbers = "0 worse, 0 better, 1 remaining"
    assert lines[0].startswith("FAILED: ")
    assert f"Compared with the baseline: {numbers}." in lines[:6]
    assert re.search(r"^  remains: C01 a rollback of a bet that was never placed", told.out, re.MULTILINE)
    assert lines[-1] == f"FAILED: 2 passed, 1 failed, 0 advice, 0 not tried; {numbers}"
    read = json.loads(files["after.json"].read_text())
    assert (read["passed"], read["comparison"]["passed"], read["comparison"]["summary_line"]) == (False, True, numbers)
    assert numbers in files["page.html"].read_text()


@pytest.mark.parametrize(
    ("before", "code", "said"),
    [
        pytest.param({"C01": "failed"}, 0, "remains: C01 ", id="old"),
        pytest.param({"C01": "passed"}, 1, "worse: C01 ", id="new"),
        pytest.param({"B01": "passed"}, 1, "worse: C01 ", id="not there before"),
        pytest.param(
            {"C01": "failed", "B01": "failed"}, 0, "remains: B01 (money doubled, now not tried)", id="not played"
        ),
        pytest.param({"C01": "failed", "A01": "failed"}, 0, "better: A01 ", id="fixed"),
    ],
)
@pytest.mark.drawn(3)
def test_only_what_is_worse_fails_the_run(
    certified: Run, tmp_path: Path, before: dict[str, str], code: int, said: str
) -> None:
    """Each change is named."""
    told = certified("--baseline", _baseline(tmp_path, **before))
    assert told.code == code
    assert f"\n  {said}" in told.out
    assert "The baseline is of version '0.1', and this run of " in told.out


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(None, "No such file or directory", id="missing"),
        pytest.param('{"format": 1}', "version: Field required", id="no report"),
        pytest.param("[" * 10_000, "Invalid JSON", id="nested"),
    ],
)
def test_a_baseline_that_cannot_be_read_is_reported_before_anything_is_sent(
    certify: Run, tmp_path: Path, content: str | None, problem: str
) -> None:
    """With exit code 2: nothing listens at this address."""
    file = tmp_path / "before.json"
    if content is not None:
        file.write_text(content)
    told = certify("http://127.0.0.1:9", "--baseline", file)
    assert told.code == 2
    assert f"The baseline '{file}' cannot be used: " in told.err
    assert problem in told.err
