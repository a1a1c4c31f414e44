"""The pages about reconciliations: their tables are the code's, and their recipes run."""

import re
from collections.abc import Iterator
from inspect import cleandoc, getdoc
from pathlib import Path
from typing import Any

import pytest
from procrastinate.testing import InMemoryConnector

from game_operator.backoffice.reconcile import judge
from game_operator.backoffice.reconcile.report import advices, report_in
from game_operator.cli import main
from game_operator.ledger import SqlLedger
from game_operator_testkit.sandbox import Sandbox
from tests.support.documents import ROOT

PAGE = (ROOT / "docs" / "how-to" / "reconciliation.md").read_text()
RECIPES = (ROOT / "docs" / "how-to" / "reconciliation-recipes.md").read_text()


def blocks(page: str, language: str) -> list[str]:
    """Return the code blocks of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def test_the_table_of_verdicts_is_the_codes() -> None:
    """Word by word that of judge.py, which a test holds against what it really answers."""
    drawn = cleandoc((getdoc(judge) or "").partition("::\n\n")[2].partition("Before that:")[0])
    assert [each.strip() for each in blocks(PAGE, "text") if each.startswith("ours ")] == [drawn.strip()]


def test_there_is_a_row_for_each_verdict() -> None:
    """With the words of the reports, in their order."""
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (.*) \|$", PAGE, re.MULTILINE)
    assert rows == [(name, *advice) for name, advice in advices().items()]


def options_of(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    capsys.readouterr()
    assert main([*command, "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("page", [PAGE, RECIPES], ids=["the page", "the recipes"])
def test_every_command_that_is_named_exists(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With each of its options, in sentences, crontabs and Kubernetes too."""
    named = set(re.findall(r"(?:game-operator |`)reconcile (\w+)([^`\n|>]*)", page))
    assert len(named) > 1
    for command, rest in named:
        known = options_of(capsys, "reconcile", command)
        for option in re.findall(r"--[a-z-]+", rest):
            assert option in known, (command, option)


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The names that the Python recipes define, in a folder with a ledger and against a service."""
    monkeypatch.chdir(tmp_path)
    SqlLedger("sqlite:///wallet.db").close()
    with Sandbox() as sandbox:
        monkeypatch.setenv("GAME_OPERATOR_BASE_URL", sandbox.base_url)
        monkeypatch.setenv("GAME_OPERATOR_ID", sandbox.operator_id)
        monkeypatch.setenv("GAME_OPERATOR_PRIVATE_KEY", sandbox.private_key_pem.decode())
        # Any: what a page defines.
        names: dict[str, Any] = {"__name__": "recipe"}
        for block in blocks(RECIPES, "python"):
            if "distributed" not in block:  # testkit/tests/integration/test_reconcile_workers.py has a cluster.
                exec(block, names)
        yield names


def finished() -> bool:
    with SqlLedger("sqlite:///wallet.db") as ledger:
        return report_in(ledger).is_whole


@pytest.mark.outside
def test_the_celery_task_runs(recipe: dict[str, Any]) -> None:
    """What beat sends by its name is the task, and the task ends a run."""
    celery = recipe["celery"]
    (entry,) = celery.conf.beat_schedule.values()
    assert celery.tasks[entry["task"]].apply().get() == 0
    assert finished()


@pytest.mark.outside
def test_the_procrastinate_task_runs(recipe: dict[str, Any]) -> None:
    """A worker takes it, in a thread, and it ends a run; a second one does not wait behind it."""
    connector = InMemoryConnector()
    with recipe["app"].replace_connector(connector) as app:
        recipe["reconcile"].defer(timestamp=0)
        app.run_worker(wait=False, install_signal_handlers=False, listen_notify=False)
        (periodic,) = app.periodic_registry.periodic_tasks.values()
        assert (periodic.cron, periodic.task.queueing_lock) == ("*/5 * * * *", "reconcile")
    assert [job["status"] for job in connector.jobs.values()] == ["succeeded"]
    assert finished()
