"""No package uses another's private names, nor uvicorn's; the undocumented names of uvicorn that we need are there."""

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import uvicorn.config
import uvicorn.server
from uvicorn.protocols.http import flow_control, httptools_impl

import game_operator

ROOT = Path(game_operator.__file__).parent
#: Shared by the packages, and not for users.
_SHARED = {"_lazy", "_version"}
#: What an import of a private name has in a line of its own, or beside the word; only such files are parsed.
_SUSPECT = re.compile(
    r"\bimport\b.*\b_[A-Za-z]|game_operator\S*\._|^\s+(?:\w+(?: as \w+)?, *)*_\w+(?: as \w+)?,?\s*(?:#.*)?$"
)

#: What stands on uvicorn's classes.
_ON_UVICORN = ("serve.py", "cli/serve_connections.py", "cli/serve_processes.py")
_OF_UVICORN = (uvicorn.config, uvicorn.server, flow_control, httptools_impl)
_PRIVATE = re.compile(r"\b_[a-z]\w*")


def _imports(file: Path) -> Iterator[tuple[str, str]]:
    """Yield what *file* imports of this distribution: the module and the name."""
    text = file.read_text()
    if not any(map(_SUSPECT.search, text.splitlines())):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("game_operator"):
            yield from ((str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.startswith("game_operator."))


def _is_private(module: str, name: str) -> bool:
    parts = {*module.split(".")[1:], name}
    return any(part.startswith("_") and not part.endswith("__") for part in parts - _SHARED)


def test_no_package_uses_anothers_private_names() -> None:
    """A name with an underscore is the package's alone: what others need has a name without."""
    found = [
        f"{file.relative_to(ROOT)}: {module}.{name}"
        for file in ROOT.rglob("*.py")
        for module, name in _imports(file)
        if _is_private(module, name) and module.split(".")[1:2] != list(file.relative_to(ROOT).parts[:1])
    ]
    assert found == []


def test_a_private_name_is_seen(tmp_path: Path) -> None:
    """The search finds what it is for."""
    file = tmp_path / "module.py"
    file.write_text(
        "from game_operator.models._base import decode\nfrom game_operator._version import __version__\n"
        "if True:\n    from game_operator.models import (\n        Currency,\n        _Base,\n    )\n"
        "    import game_operator.ledger._hidden\n"
    )
    assert [_is_private(*each) for each in _imports(file)] == [True, False, False, True, True]


def test_no_private_name_of_uvicorn_is_used_or_hidden() -> None:
    """Also no attribute of ours has the name of one of theirs by chance."""
    theirs = {name for module in _OF_UVICORN for name in _PRIVATE.findall(Path(str(module.__file__)).read_text())}
    for file in _ON_UVICORN:
        assert set(_PRIVATE.findall((ROOT / file).read_text())) & theirs == set(), file


#: What `serve` needs of uvicorn beside what it documents (docs/decisions/0042): the class, and its names.
UVICORN = {
    "uvicorn.supervisors.multiprocess:Multiprocess": (
        "init_processes restart_all keep_subprocess_alive terminate_all processes sockets should_exit"
    ),
    "uvicorn.supervisors.multiprocess:Process": "parent_conn child_conn process wait_until_ready exitcode pid",
    "uvicorn.server:Server": "handle_exit should_exit force_exit",
    "uvicorn.protocols.http.httptools_impl:HttpToolsProtocol": "cycle flow on_response_complete shutdown transport",
    "uvicorn.protocols.http.httptools_impl:RequestResponseCycle": "disconnected keep_alive response_complete",
}


@pytest.mark.parametrize("place", UVICORN)
def test_undocumented_names_of_uvicorn_are_there(place: str) -> None:
    """A version without one of them is seen here first, and not by a wallet that stops."""
    module, _, name = place.partition(":")
    source = inspect.getsource(getattr(import_module(module), name))
    assert [each for each in UVICORN[place].split() if not re.search(rf"def {each}\(|self\.{each}\b", source)] == []


def test_uvicorns_server_owns_the_handler_of_its_signals() -> None:
    """So that a process finds its server."""
    source = inspect.getsource(import_module("uvicorn.server").Server.capture_signals)
    assert "signal.signal(sig, self.handle_exit)" in source
