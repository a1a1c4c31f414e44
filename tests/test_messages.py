"""Sentences are for people: no decision looks into one."""

import ast
from collections.abc import Iterator
from typing import Final

import pytest

from tests.support.documents import ROOT

#: What holds a sentence of ours, wherever it is an attribute or a variable.
_SENTENCES: Final = {"cause", "detail", "message", "note", "problem", "reason", "remedy", "told", "what", "why"}
#: What makes a sentence out of an exception.
_MAKES_TEXT: Final = {"str", "repr", "one_line", "shown", "error_text", "_text_of", "reason_of"}
_LOOKS: Final = {"startswith", "endswith", "split", "rsplit", "partition", "rpartition", "find", "index", "count"}
_MATCHES: Final = {"search", "match", "fullmatch", "findall", "finditer"}
#: Libraries that give nothing but a sentence, by the function that has to read it. Each has a comment that says so.
_FOREIGN: Final = {
    ("ledger/joined_calls.py", "_raise_translated"): "databases name a missing table in their message alone",
    ("transport/wire.py", "reason_of"): "h11 has one class for all its errors, and quotes a header's value in one",
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


def _looks_into_sentences(code: str) -> Iterator[tuple[str, str]]:
    """Yield each look of *code* into a sentence, after the name of its function."""
    for function in ast.walk(ast.parse(code)):
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


def test_no_decision_looks_into_a_message() -> None:
    """In both distributions, but for libraries that give nothing else."""
    found: dict[tuple[str, str], str] = {}
    for source in (ROOT / "src" / "game_operator", ROOT / "testkit" / "src" / "game_operator_testkit"):
        for module in source.rglob("*.py"):
            for function, look in _looks_into_sentences(module.read_text()):
                found[str(module.relative_to(source)), function] = look
    assert {place: look for place, look in found.items() if place not in _FOREIGN} == {}
    assert found.keys() >= _FOREIGN.keys()


@pytest.mark.parametrize(
    ("code", "is_look"),
    [
        ('if "bits" in str(wrong): pass', True),
        ("if verdict.reason.startswith('too'): pass", True),
        ("if PATTERN.search(str(wrong).lower()): pass", True),
        ("known = any(word in wrong.reason.upper().replace(' ', '_') for word in WORDS)", True),
        ("text = str(wrong)\n    if 'bits' in text: pass", True),
        ("if wrong.reason == 'gone': pass", True),
        ("if wrong.reason == other.reason: pass", False),
        ("raise Other(str(wrong))", False),
    ],
)
def test_the_search_finds_what_it_looks_for(code: str, is_look: bool) -> None:
    """A look into a sentence, and not its making or passing on."""
    function = f"def f():\n  try:\n    pass\n  except ValueError as wrong:\n    {code}\n"
    assert (list(_looks_into_sentences(function)) != []) is is_look
