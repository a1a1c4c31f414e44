"""No module of ours is imported by its name as a text, which import-linter would not see."""

import ast
from collections.abc import Iterator

import pytest

from tests.support.sources import sources

#: What imports a module by its name.
_IMPORTERS = {"__import__", "exec_module", "import_module", "resolve_name", "run_module", "spec_from_file_location"}
#: Where a name is not written in the place itself: lazy public names.
_ALLOWED = {
    "game_operator/_lazy.py": ["import_module(home_of[name], package)"],
}


def _string_imports(source: str) -> Iterator[str]:
    """Yield the calls in *source* that import what is ours, or may be."""
    if not any(name in source for name in _IMPORTERS):
        return  # Parsing them all takes seconds.
    nodes = list(ast.walk(ast.parse(source)))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        if isinstance(node, ast.Call):
            if _name_of(node.func) in _IMPORTERS and not _is_anothers(node.args[0] if node.args else None):
                yield ast.unparse(node)
        # By another name, or handed on, it could be called anywhere.
        elif id(node) not in called and _name_of(node) in _IMPORTERS:
            yield ast.unparse(node)


def _name_of(node: ast.AST) -> str:
    """Return the name that *node* uses, or gives another name."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.alias(name=name, asname=str()):
            return name.rpartition(".")[2]
    return ""


def _is_anothers(name: ast.expr | None) -> bool:
    """Return whether *name* is written out and no module of ours."""
    return (
        isinstance(name, ast.Constant)
        and isinstance(name.value, str)
        and name.value.partition(".")[0] not in ("", "game_operator", "game_operator_testkit")
    )


def test_no_module_of_ours_is_imported_by_a_string() -> None:
    """A package's imports are those that import-linter sees; lazy public names are in ``_lazy.py`` alone."""
    found = {name: calls for name, file in sources().items() if (calls := list(_string_imports(file.read_text())))}
    assert found == _ALLOWED


@pytest.mark.parametrize(
    ("source", "is_seen"),
    [
        ("import_module('game_operator.ledger')", True),
        ("import_module('.sql', __package__)", True),
        ("import_module(name=module)", True),
        ("__import__('game_operator.ledger', fromlist=['api'])", True),
        ("from importlib import import_module as load", True),
        ("map(import_module, names)", True),
        ("import_module('psycopg')", False),
    ],
)
def test_a_string_import_is_seen(source: str, is_seen: bool) -> None:
    """The search finds what it is for, and nothing else."""
    assert bool(list(_string_imports(source))) == is_seen
