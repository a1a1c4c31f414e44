"""What no module of ours does: hold a clock, import one of us by a text, or look into a sentence for people."""

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import pytest

_CLOCKS = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
}


def _held_clocks(tree: ast.Module) -> Iterator[str]:
    """Yield the clocks in *tree* that are not read where they are named, or are read for a default value."""
    nodes = list(ast.walk(tree))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        match node:
            case ast.Attribute(value=ast.Name(id=home) | ast.Attribute(attr=home), attr=name):
                if id(node) not in called and name in _CLOCKS.get(home, ()):
                    yield ast.unparse(node)
            case ast.ImportFrom(module="time", names=names):
                yield from (each.name for each in names if each.name in _CLOCKS["time"])
            case ast.arguments(defaults=defaults, kw_defaults=kw_defaults):
                for default in filter(None, defaults + kw_defaults):
                    match default:
                        case ast.Call(func=ast.Attribute(value=ast.Name(id=home), attr=name)):
                            if name in _CLOCKS.get(home, ()):
                                yield ast.unparse(default)


def test_no_clock_is_held(trees: dict[str, ast.Module]) -> None:
    """Each clock is looked up when it is read, so that freezegun and monkeypatch replace it everywhere."""
    found = {name: list(_held_clocks(tree)) for name, tree in trees.items()}
    assert {file: clocks for file, clocks in found.items() if clocks} == {}


#: What imports a module by its name.
_IMPORTERS = {"__import__", "exec_module", "import_module", "resolve_name", "run_module", "spec_from_file_location"}
#: Where a name is not written in the place itself: lazy public names.
_ALLOWED = {
    "game_operator/_lazy.py": ["import_module(home_of[name], package)"],
}


def _string_imports(tree: ast.Module) -> Iterator[str]:
    """Yield the calls in *tree* that import what is ours, or may be."""
    nodes = list(ast.walk(tree))
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


def test_no_module_of_ours_is_imported_by_a_string(trees: dict[str, ast.Module]) -> None:
    """A package's imports are those that import-linter sees; lazy public names are in ``_lazy.py`` alone."""
    found = {name: calls for name, tree in trees.items() if (calls := list(_string_imports(tree)))}
    assert found == _ALLOWED


#: What holds a sentence of ours, wherever it is an attribute or a variable.
_SENTENCES: Final = {"cause", "detail", "message", "note", "problem", "reason", "remedy", "told", "what", "why"}
#: What makes a sentence out of an exception.
_MAKES_TEXT: Final = {"str", "repr", "one_line", "shown", "error_text", "_text_of", "reason_of"}
_LOOKS: Final = {"startswith", "endswith", "split", "rsplit", "partition", "rpartition", "find", "index", "count"}
_MATCHES: Final = {"search", "match", "fullmatch", "findall", "finditer"}
#: Libraries that give nothing but a sentence, by the function that has to read it. Each has a comment that says so.
_FOREIGN: Final = {
    (
        "game_operator/ledger/joined_calls.py",
        "_raise_translated",
    ): "databases name a missing table nowhere else",
    (
        "game_operator/transport/wire.py",
        "reason_of",
    ): "h11 has one class for all its errors",
}


def _is_sentence(node: ast.expr, of_errors: set[str]) -> bool:
    """Return whether *node* is the text of an error, or what holds a sentence by its name."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name) if name in _SENTENCES:
            return True
        case ast.Name(id=name):
            return name in of_errors
        case ast.Call(func=ast.Name(id=name), args=[_, *_]) if name in _MAKES_TEXT:
            return any(isinstance(each, ast.Name) and each.id in of_errors for each in ast.walk(node))
        case ast.Call(func=ast.Attribute(value=value, attr="lower" | "upper" | "casefold" | "strip" | "replace")):
            return _is_sentence(value, of_errors)
        case ast.Subscript(value=ast.Attribute(attr="args")):
            return True
    return False


def _errors_in(function: ast.AST) -> set[str]:
    """Return the names in *function* that hold an error, or its text."""
    names = {each.name for each in ast.walk(function) if isinstance(each, ast.ExceptHandler) and each.name}
    for each in ast.walk(function):
        if isinstance(each, ast.arg) and each.annotation is not None:
            names |= {each.arg} if ast.unparse(each.annotation).endswith(("Exception", "Error")) else set()
    texts = {
        target.id
        for each in ast.walk(function)
        if isinstance(each, ast.Assign) and _is_text(each.value, names)
        for target in ast.walk(each.targets[0])
        if isinstance(target, ast.Name)
    }
    return names | texts


def _is_text(value: ast.expr, errors: set[str]) -> bool:
    made = (each for each in ast.walk(value) if isinstance(each, ast.Call) and isinstance(each.func, ast.Name))
    return any(_is_sentence(each, errors) for each in made)


def _looks_into_sentences(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each look of *tree* into a sentence, after the name of its function."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        errors = _errors_in(function)
        for node in ast.walk(function):
            if _is_look(node, errors):
                yield function.name, ast.unparse(node)


def _is_look(node: ast.AST, errors: set[str]) -> bool:
    match node:
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[held]):
            return _is_sentence(held, errors)
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
            words = [each.value for each in (left, right) if isinstance(each, ast.Constant)]
            return _is_sentence(left, errors) and any(isinstance(each, str) and each for each in words)
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in _LOOKS:
            return _is_sentence(value, errors)
        case ast.Call(func=ast.Attribute(attr=name), args=arguments) if name in _MATCHES:
            return any(_is_sentence(each, errors) for each in arguments)
    return False


def test_no_decision_looks_into_a_message(trees: dict[str, ast.Module]) -> None:
    """Sentences are for people; only libraries that give nothing else are read."""
    found = {(name, function): look for name, tree in trees.items() for function, look in _looks_into_sentences(tree)}
    assert {place: look for place, look in found.items() if place not in _FOREIGN} == {}
    assert found.keys() >= _FOREIGN.keys()


@pytest.mark.parametrize(
    ("search", "source"),
    [
        (_held_clocks, "def f(clock=time.time): ..."),
        (_held_clocks, "def f(*, now=datetime.now(UTC)): ..."),
        (_held_clocks, "from time import monotonic"),
        (_string_imports, "import_module('.sql', __package__)"),
        (_string_imports, "from importlib import import_module as load"),
        (_looks_into_sentences, "def f(wrong: Exception):\n    text = str(wrong)\n    if 'bits' in text: pass"),
    ],
)
def test_a_search_sees_what_it_is_for(search: Callable[[ast.Module], Iterable[object]], source: str) -> None:
    """Each would pass without a word otherwise."""
    assert list(search(ast.parse(source)))
