"""
Change the code that decides about money, one small change at a time, and see that its tests notice each.

    python tools/mutations.py [--record] [FILE …]

It runs mutmut (``make .venv/fuzz``) in a copy of the checkout, each file with its own tests. ``mutations.toml`` lists,
for each function, the numbers of the mutants that were caught. A mutant that was caught must be caught again;
``--record`` writes the list anew. mutmut numbers a function's mutants in their order, so a function that changes is
recorded anew, after a look at what it leaves. tests/support/generated_pages.py says what is left, and why.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tools" / "mutations.toml"
#: What tests read beside the code.
_COPIED = ("src", "testkit", "tests", "docs", "examples", "tools", "README.md", "Makefile", "LICENSE", "conftest.py")
_SETTINGS = """
[tool.mutmut]
source_paths = ["src"]
only_mutate = ["src/game_operator/{file}"]
also_copy = ["testkit", "docs", "examples", "tools", "README.md", "Makefile", "conftest.py"]
pytest_add_cli_args = ["-p", "no:cacheprovider", "-p", "no:game_operator_testkit", "--lane", "test"]
pytest_add_cli_args_test_selection = {tests}
"""
#: The results of mutmut that are no survivor: a failing test, and a loop that was ended.
_CAUGHT = (1, 3, 24, 36, 152, 255, -24, -9)


class Mutated(NamedTuple):
    """The tests of a file, and the numbers of the mutants that they catch and miss, by function."""

    tests: Sequence[str]
    caught: Mapping[str, Sequence[int]]
    left: Mapping[str, Sequence[int]]


def listed() -> dict[str, Mutated]:
    """Return the list: what is known of each file of the package."""
    return {
        file: Mutated(each["tests"], each.get("caught", {}), each.get("left", {}))
        for file, each in tomllib.loads(LIST.read_text()).items()
    }


def main(arguments: Sequence[str]) -> int:
    """Mutate the files named in *arguments*, or all; return how many mutants are missed that were caught before."""
    files = listed()
    missed = 0
    for file in [each for each in arguments if each != "--record"] or list(files):
        before, now = files[file], mutated(file, files[file].tests)
        lost = [
            f"{name} {number}"
            for name, numbers in before.caught.items()
            for number in numbers
            if number not in now.caught.get(name, ())
        ]
        missed += len(lost)
        caught, left = (sum(map(len, each.values())) for each in (now.caught, now.left))
        _say(f"{file}: {caught} of {caught + left} caught; missed that were caught before: {', '.join(lost) or 0}")
        if "--record" in arguments:
            files[file] = now
            LIST.write_text(written(files))
    return missed


def mutated(file: str, tests: Sequence[str]) -> Mutated:
    """Return which mutants of *file* its *tests* catch, and which they leave."""
    with tempfile.TemporaryDirectory() as folder:
        for name in _COPIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, Path(folder) / name)
        settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
        kept = {name: settings[name] for name in ("addopts", "filterwarnings", "anyio_mode", "markers", "pythonpath")}
        ours = "".join(f"{name} = {json.dumps(value)}\n" for name, value in kept.items())
        text = _SETTINGS.format(file=file, tests=json.dumps(tests)) + f"[tool.pytest.ini_options]\n{ours}"
        (Path(folder) / "pyproject.toml").write_text(text)
        # Before an installed package, for the tests must run the changed code; and Python passes over a folder that is
        # not there when it starts.
        changed = Path(folder) / "mutants" / "src"
        changed.mkdir(parents=True)
        environment = os.environ | {"PYTHONPATH": str(changed)}
        command = [str(Path(sys.executable).with_name("mutmut")), "run"]
        subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)  # noqa: S603
        meta = json.loads((changed / "game_operator" / f"{file}.meta").read_text())
    return _sorted(tests, meta["exit_code_by_key"])


def _sorted(tests: Sequence[str], exit_codes: Mapping[str, int | None]) -> Mutated:
    caught: dict[str, list[int]] = {}
    left: dict[str, list[int]] = {}
    for key, code in exit_codes.items():
        function, _, number = key.rpartition("__mutmut_")
        kind = caught if code in _CAUGHT else left
        kind.setdefault(function.rpartition(".")[2].removeprefix("x_"), []).append(int(number))
    return Mutated(tests, caught, left)


def written(files: Mapping[str, Mutated]) -> str:
    """Return the list as TOML."""
    parts = []
    for file, each in files.items():
        tests = "".join(f'    "{test}",\n' for test in each.tests)
        parts.append(f'["{file}"]\ntests = [\n{tests}]\n')
        for kind in ("caught", "left"):
            rows = (f'"{name}" = {sorted(numbers)}\n' for name, numbers in sorted(getattr(each, kind).items()))
            parts.append(f'["{file}".{kind}]\n{"".join(rows)}')
    return "\n".join(parts)


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
