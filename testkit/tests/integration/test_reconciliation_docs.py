"""docs/how-to/reconcile.md: its tables are the code's, and its recipes run."""

import re
from inspect import cleandoc, getdoc
from pathlib import Path
from typing import Any

import pytest

from game_operator.backoffice import Reconciler
from game_operator.backoffice.reconcile import judge
from game_operator.backoffice.reconcile.report import advices, report_in
from game_operator.cli import main
from game_operator.ledger import SqlLedger
from game_operator.wallet import Wallet
from game_operator_testkit.sandbox import Sandbox
from tests.support.documents import ROOT

PAGE = (ROOT / "docs" / "how-to" / "reconcile.md").read_text()


def blocks(page: str, language: str) -> list[str]:
    """Return the code blocks of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def test_the_table_of_verdicts_is_the_codes() -> None:
    """Word by word that of judge.py, which a test holds against what it really answers."""
    drawn = cleandoc((getdoc(judge) or "").partition("::\n\n")[2].partition("Before that:")[0])
    assert [each.strip() for each in blocks(PAGE, "text") if each.startswith("ours ")] == [drawn.strip()]


def test_each_verdict_is_on_the_page() -> None:
    """In the section that says what to do."""
    section = PAGE.partition("## What a verdict says")[2].partition("All but those")[0]
    assert set(advices()) <= set(re.findall(r"`(\w+)`", section))


def options_of(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    capsys.readouterr()
    assert main([*command, "--help"]) == 0
    return capsys.readouterr().out


def test_every_command_that_is_named_exists(capsys: pytest.CaptureFixture[str]) -> None:
    """With each of its options, in sentences and crontabs too."""
    named = set(re.findall(r"(?:game-operator |`)reconcile (\w+)([^`\n|>]*)", PAGE))
    assert len(named) > 1
    for command, rest in named:
        known = options_of(capsys, "reconcile", command)
        for option in re.findall(r"--[a-z-]+", rest):
            assert option in known, (command, option)


@pytest.mark.outside
def test_the_celery_task_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What beat sends by its name is the task, and the task ends a run."""
    monkeypatch.chdir(tmp_path)
    SqlLedger("sqlite:///wallet.db").close()
    # Any: what a page defines.
    names: dict[str, Any] = {"__name__": "recipe", "SqlLedger": SqlLedger, "Reconciler": Reconciler, "Wallet": Wallet}
    (block,) = [block for block in blocks(PAGE, "python") if "celery" in block]
    exec(block, names)
    celery = names["celery"]
    (entry,) = celery.conf.beat_schedule.values()
    with Sandbox() as sandbox:
        monkeypatch.setenv("GAME_OPERATOR_BASE_URL", sandbox.base_url)
        monkeypatch.setenv("GAME_OPERATOR_ID", sandbox.operator_id)
        monkeypatch.setenv("GAME_OPERATOR_PRIVATE_KEY", sandbox.private_key_pem.decode())
        assert celery.tasks[entry["task"]].apply().get() == 0
    with SqlLedger("sqlite:///wallet.db") as ledger:
        assert report_in(ledger).is_whole
