"""The five commands of the testkit: found by an entry-point group, and missed in one line."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from game_operator import __version__
from game_operator.cli.app import TESTKIT_NAMES
from game_operator_testkit.cli import storm
from tests.support.command_line import Run, clean_environment

#: Makes a distribution of that name, version and entry points, in the place of what is installed.
Install = Callable[[str, str, dict[str, str]], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts the metadata of a distribution before all others."""

    def installed(name: str, version: str, commands: dict[str, str]) -> None:
        about = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n")
        entries = "".join(f"{command} = {place}\n" for command, place in commands.items())
        (about / "entry_points.txt").write_text(f"[game_operator.commands]\n{entries}")
        monkeypatch.syspath_prepend(str(tmp_path))

    return installed


@pytest.mark.parametrize("name", TESTKIT_NAMES)
def test_another_version_is_one_line_with_the_remedy(run: Run, install: Install, name: str) -> None:
    """Nothing of it is imported."""
    install("game-operator-testkit", "0.0.9", {name: "no_such_module:command"})
    told = run(name, "--help")
    assert (told.code, told.out) == (2, "")
    assert told.err == (
        f"Error: game-operator-testkit 0.0.9 is installed, and game-operator {__version__} needs the same version for "
        f"the command {name}. Run: pip install 'game-operator-testkit=={__version__}'\n"
    )
    assert run(name, "--json").error["type"] == "ConfigurationError"


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        pytest.param("no_such_module:command", "ModuleNotFoundError: No module named 'no_such_module'", id="a module"),
        pytest.param("game_operator.money:absent", "AttributeError: module 'game_operator.money'", id="a function"),
        pytest.param("broken_command:command", "RuntimeError: planted", id="a module that raises"),
        pytest.param("spelt_wrong:command", "SyntaxError: ", id="a module that cannot be read"),
    ],
)
def test_one_that_cannot_be_imported(run: Run, install: Install, tmp_path: Path, place: str, problem: str) -> None:
    """One line with the remedy; every other command works, and the help lists it with the reason."""
    (tmp_path / "broken_command.py").write_text("raise RuntimeError('planted')\n")
    (tmp_path / "spelt_wrong.py").write_text("def command(:\n")
    install("game-operator-testkit", __version__, dict.fromkeys(TESTKIT_NAMES, place))
    told = run("storm", "--url", "http://127.0.0.1:1")
    assert (told.code, told.out, told.err.count("\n")) == (2, "", 1)
    assert f"cannot be imported for the command storm ({problem}" in told.err
    assert told.err.endswith(f"Run: pip install --force-reinstall 'game-operator-testkit=={__version__}'\n")
    assert run("keygen", "--help").code == 0
    assert "cannot be imported" in run("--help").out


def test_a_name_that_is_built_in_wins(run: Run, install: Install) -> None:
    """Whatever a distribution offers: only the five names are looked up."""
    before = run("keygen", "--help")
    install("game-operator-testkit", __version__, {"keygen": "no_such_module:command", "more": "json:dumps"})
    assert run("keygen", "--help") == before
    assert run("more").code == 2
    assert "No such command 'more'." in run("more").err


def test_no_other_distribution_is_asked(run: Run, install: Install) -> None:
    """A command that signs with the provider's key comes from the testkit alone."""
    install("somebody-elses", "1.0", {"storm": "no_such_module:command"})
    assert run("storm", "--help").code == 0
    assert storm.storm.__doc__ is not None


@pytest.mark.outside
@pytest.mark.parametrize("args", [("ledger", "verify"), ("keygen", "--help"), ("reconcile", "--help")], ids=" ".join)
def test_no_other_command_imports_the_testkit(tmp_path: Path, args: tuple[str, ...]) -> None:
    """It is not even looked for."""
    program = (
        "import json, sys, importlib.metadata as metadata\n"
        "asked = []\n"
        "found = metadata.distribution\n"
        "metadata.distribution = lambda name: asked.append(name) or found(name)\n"
        "from game_operator.cli import main\n"
        "code = main(sys.argv[1:])\n"
        "loaded = [name for name in sys.modules if name.startswith('game_operator_testkit')]\n"
        "print(json.dumps([code, asked, loaded]), file=sys.stderr)\n"
    )
    database = ("--database", f"sqlite:///{tmp_path / 'wallet.db'}") if args[0] == "ledger" else ()
    command = [sys.executable, "-c", program, *args, *database]
    if database:
        opened = ["ledger", "open", "p1", "1.00", *database]
        subprocess.run([sys.executable, "-m", "game_operator.cli", *opened], env=clean_environment({}), check=True)
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment({}), check=True)
    assert json.loads(done.stderr.splitlines()[-1]) == [0, [], []]
