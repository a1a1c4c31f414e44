"""
Plant faults in a copy of the package, one at a time, and see which test notices (tests/support/generated_pages.py).

    python tools/planted_faults.py [--record] [MODULE …]

``planted_faults.toml`` has the faults. Most of what its modules do stands in SQL, in conditions that a tool for
mutations of Python cannot change. Each fault names the text that it replaces, which must stand in the module exactly
once: when the code moves on, so must the fault. ``caught_by`` is the test that noticed it last, "" if none did. A fault
that was caught must be caught again; ``--record`` writes down by which test.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tools" / "planted_faults.toml"
_PACKAGE = Path("src") / "game_operator"


class Fault(NamedTuple):
    """A text of the module, what replaces it, and the test that notices."""

    before: str
    after: str
    caught_by: str = ""


class Module(NamedTuple):
    """A module with its SQL, the tests that must notice, and the faults."""

    file: str
    tests: Sequence[str]
    faults: Sequence[Fault]


def listed() -> dict[str, Module]:
    """Return the modules of the list by name."""
    return {
        name: Module(each["file"], each["tests"], [Fault(**fault) for fault in each["faults"]])
        for name, each in tomllib.loads(LIST.read_text()).items()
    }


def main(arguments: Sequence[str]) -> int:
    """Plant the faults of the modules named in *arguments*, and return how many are missed that were caught before."""
    modules = listed()
    chosen = [each for each in arguments if each != "--record"] or list(modules)
    missed = 0
    for name in chosen:
        module = modules[name]
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            caught_by = list(threads.map(lambda fault, module=module: noticing_test(module, fault), module.faults))
        flaky = _first_failure_without_fault(set(caught_by) - {""})
        if flaky:
            raise SystemExit(f"{flaky} fails without a fault, so it catches none. Fix it first.")
        now = [Fault(fault.before, fault.after, test) for fault, test in zip(module.faults, caught_by, strict=True)]
        lost = [fault for fault, test in zip(module.faults, caught_by, strict=True) if fault.caught_by and not test]
        missed += len(lost)
        _say(f"{name}: {sum(map(bool, caught_by))} of {len(now)} caught; missed that were caught before: {len(lost)}")
        for fault in lost:
            _say(f"  {fault.before!r} -> {fault.after!r}, caught before by {fault.caught_by}")
        if "--record" in arguments:
            modules[name] = module._replace(faults=now)
            LIST.write_text(written(modules))
    return missed


def files_of(file: Path) -> list[Path]:
    """Return a module's file, and that of its SQL if it has one."""
    return [each for each in (file, file.with_suffix(".sql")) if each.exists()]


def noticing_test(module: Module, fault: Fault) -> str:
    """Return a test that fails with *fault*: the one that did before, else the first of the module's; "" if none."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "game_operator"
        # With the compiled files, which fit as long as the times do: else each run would compile the whole package.
        shutil.copytree(ROOT / _PACKAGE, package)
        files = files_of(package / module.file)
        holding = [file for file in files for _ in range(file.read_text().count(fault.before))]
        if len(holding) != 1:
            raise SystemExit(f"{module.file} holds {len(holding)} times, and not once: {fault.before!r}")
        holding[0].write_text(holding[0].read_text().replace(fault.before, fault.after))
        known = _first_failure(folder, [fault.caught_by]) if fault.caught_by else ""
        return known or _first_failure(folder, module.tests)


def _first_failure_without_fault(tests: Set[str]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / _PACKAGE, Path(folder) / "game_operator")
        return _first_failure(folder, sorted(tests), must_run=True) if tests else ""


def _first_failure(folder: str, tests: Sequence[str], *, must_run: bool = False) -> str:
    """Return the first of *tests* of `make test` that fails with the package in *folder*; "" if all pass."""
    cache = Path(folder) / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    options = ("-q", "-x", "--tb=no", "--lane", "test", "-o", f"cache_dir={cache}")
    command = [sys.executable, "-m", "pytest", *options, *tests]
    environment = os.environ | {"PYTHONPATH": folder}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    failed = cache / "v" / "cache" / "lastfailed"
    if done.returncode == 1 and failed.exists():
        return str(next(iter(json.loads(failed.read_text()))))
    if must_run and done.returncode:
        raise SystemExit(f"Not all of these tests run without a fault:\n{done.stdout[-2_000:]}")
    if done.returncode not in (0, 4, 5):  # Neither passed nor without a test: the copy cannot be imported, say.
        _say(done.stdout[-2_000:] + done.stderr[-2_000:])
    return ""


def written(modules: Mapping[str, Module]) -> str:
    """Return the list as TOML."""
    parts = []
    for name, module in modules.items():
        tests = "".join(f"    {_text(test)},\n" for test in module.tests)
        parts.append(f"[{name}]\nfile = {_text(module.file)}\ntests = [\n{tests}]\n")
        for fault in module.faults:
            fields = (f"{field} = {_text(value)}\n" for field, value in fault._asdict().items())
            parts.append(f"[[{name}.faults]]\n{''.join(fields)}")
    return "\n".join(parts)


def _text(value: str) -> str:
    """Return *value* as TOML, readable where it can be."""
    return json.dumps(value, ensure_ascii=False) if "'" in value or "\n" in value else f"'{value}'"


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
