"""The page for security teams claims what the code does: its tests exist, and its tables are complete."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.documents import ROOT

_PAGE = (ROOT / "docs" / "explanation" / "security-review.md").read_text()
_PACKAGE = ROOT / "src" / "game_operator"
_MODULES = sorted(_PACKAGE.rglob("*.py"))
_NAMED = re.findall(r"`((?:testkit/)?tests/[\w/]+\.py)::(\w+)`", _PAGE)
#: What opens files for writing, databases, connections and processes, by the name that is called.
_OPENERS = re.compile(
    r"mkstemp|\w*Temporary\w+|write_text|write_bytes|os\.open|sqlite3\.connect|psycopg\.connect|kind\.connect|connect_tcp"
    r"|asyncio\.open_connection|socket\.create_server|socket\.socketpair|subprocess\.\w+|httpx\.\w*Client|HTTPS?Connection"
    r"|os\.(?:fork|system|exec\w+|popen)|session\.client"
)
#: Ours, wherever they are named, and others where they are read.
_VARIABLE = re.compile(
    r'GAME_OPERATOR_[A-Z_]*[A-Z]|(?<=")[A-Z_]+(?=" in os\.environ)|(?<=os\.environ\.get\(")[A-Z_]+(?=")'
)
#: What runs what it is given.
_RUNNERS = re.compile(r"eval|exec|(?:c?pickle|marshal|shelve|dill)\.loads?|yaml\.\w*load\w*|os\.(?:system|popen)")


def _section(title: str) -> str:
    return _PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def _calls(source: str) -> Iterator[str]:
    """Yield what is called in *source*: the name, or the last two of a dotted one."""
    for node in ast.walk(ast.parse(source)):
        match node:
            # As steps have it: partial(kind.connect, url).
            case ast.Call(func=ast.Name(id="partial"), args=[ast.Attribute(value=ast.Name(id=owner), attr=name), *_]):
                yield f"{owner}.{name}"
            case ast.Call(func=ast.Name(id=name)):
                yield name
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name)):
                yield from (name, f"{owner}.{name}")
            case ast.Call(func=ast.Attribute(attr=name)):
                yield name


def _that_call(pattern: re.Pattern[str]) -> set[str]:
    """Return the modules that call what *pattern* is; only those whose text has it are parsed."""
    texts = {module.relative_to(_PACKAGE).as_posix(): module.read_text() for module in _MODULES}
    called = re.compile(rf"\b(?:{pattern.pattern})[(,]")
    suspects = {name: text for name, text in texts.items() if called.search(text)}
    return {name for name, text in suspects.items() if any(pattern.fullmatch(call) for call in _calls(text))}


@cache
def _functions(file: Path) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    nodes = ast.walk(ast.parse(file.read_text()))
    return {node.name: node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_threat_has_tests() -> None:
    """A threat without a test would be a promise."""
    _, *threats = _section("Threats").split("\n### ")
    assert len(threats) > 30
    assert [threat for threat in threats if not re.search(r"^- `(?:testkit/)?tests/", threat, re.MULTILINE)] == []


@pytest.mark.artefact
def test_the_tests_it_names_run() -> None:
    """Each is there, and runs with each change: it is not left to the long runs."""
    assert [named for named in _NAMED if not _runs(*named)] == []


def _runs(file: str, name: str) -> bool:
    functions = _functions(ROOT / file)
    marks = [ast.unparse(each) for each in functions[name].decorator_list] if name in functions else ["mark.skip"]
    is_left_out = any("mark.torture" in mark or "mark.skip" in mark for mark in marks)
    return not is_left_out and not re.search(r"^pytestmark = .*torture", (ROOT / file).read_text(), re.MULTILINE)


def test_it_names_every_variable() -> None:
    """All that the code reads, and none that it does not."""
    texts = [path.read_text() for path in _PACKAGE.rglob("*") if path.suffix in {".py", ".toml", ".html"}]
    read = {name for text in texts for name in _VARIABLE.findall(text)}
    rows = re.findall(r"^\| (`[^|]+) \|", _section("What it reads"), re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == read


def test_it_names_every_place_that_writes_connects_or_starts() -> None:
    """Files, databases, sockets and processes are opened in these modules, and in no other."""
    named = re.findall(r"^\| `([\w/]+\.py)` \|", _section("What it writes and opens"), re.MULTILINE)
    assert len(set(named)) == len(named)
    # Through boto3, and through uvicorn's supervisor.
    assert set(named) == _that_call(_OPENERS) | {"signers/aws.py", "cli/serving.py"}


def test_nothing_runs_what_it_is_given() -> None:
    """No module evaluates or unpickles anything; the search could find it."""
    assert any(_RUNNERS.fullmatch(call) for call in _calls("eval(text)"))
    assert _that_call(_RUNNERS) == set()
