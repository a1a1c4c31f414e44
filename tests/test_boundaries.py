"""What needs the testkit stands with the testkit: the SDK is tried without it."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: The tests of the SDK's packages. Beside them, `tests` looks at the repository as a whole.
_OF_SDK = [
    *("backoffice", "cli", "client", "ledger", "models", "protocol", "reliability", "signers"),
    *("telemetry", "webhooks"),
]


@cache
def _imports(file: Path) -> list[str]:
    """Return the modules that *file* imports when it is imported itself."""
    found = []
    for node in ast.parse(file.read_bytes()).body:
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
    return found


def _path_to_testkit(file: Path, seen: set[Path]) -> str:
    """Return how *file* leads to the testkit; "" if it does not."""
    seen.add(file)
    for name in _imports(file):
        if name.partition(".")[0] in ("game_operator_testkit", "testkit"):
            return f"{file.relative_to(ROOT)}: {name}"
        module = (ROOT / name.replace(".", "/")).with_suffix(".py")
        if module.is_file() and module not in seen and (way := _path_to_testkit(module, seen)):
            return f"{file.relative_to(ROOT)} > {way}"
    return ""


def test_tests_of_the_sdk_need_no_testkit() -> None:
    """Those that do are in testkit/tests/integration."""
    files = [file for folder in _OF_SDK for file in sorted((ROOT / "tests" / folder).rglob("*.py"))]
    assert len(files) > 150
    assert [way for file in files if (way := _path_to_testkit(file, set()))] == []
