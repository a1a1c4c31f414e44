"""No package uses another's private names, and the private names of other libraries that we need stand in one table."""

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest
import uvicorn.config
import uvicorn.server
from uvicorn.protocols.http import flow_control, httptools_impl

from tests.support.sources import sources

#: Shared by the packages, and not for users.
_SHARED = {"_lazy", "_version"}


class Needed(NamedTuple):
    """
    Private or undocumented names of another library, which a release may take away without a word.

    Attributes:
        library: Whose they are.
        tried: The version that was tried last.
        used_in: The file or folder of ours.
        place: The module, or the module and the class.
        names: The names in it.
        without_them: What breaks.
    """

    library: str
    tried: str
    used_in: str
    place: str
    names: str
    without_them: str


_SERVE = "game_operator/cli/serving.py"
_SERVING, _SESSIONS = "game_operator_testkit/sandbox/serving.py", "game_operator/ledger/postgres/sessions.py"
_HTTPTOOLS = "uvicorn.protocols.http.httptools_impl:"
#: All that `src` uses beside what other libraries document.
NEEDED = (
    Needed(
        "uvicorn", "0.54.0", _SERVE, "uvicorn.supervisors.multiprocess:Multiprocess",
        "init_processes restart_all keep_subprocess_alive terminate_all processes sockets should_exit",
        "Workers are not replaced without losing calls, and a stop has no end (docs/decisions/0042).",
    ),
    Needed(
        "uvicorn", "0.54.0", _SERVE, "uvicorn.supervisors.multiprocess:Process",
        "parent_conn child_conn process wait_until_ready exitcode pid",
        "A worker that hangs while it is replaced is not killed (docs/decisions/0042).",
    ),
    Needed(
        "uvicorn", "0.54.0", _SERVE, "uvicorn.server:Server", "should_exit force_exit",
        "A signal stops `serve` at once, and calls on their way are lost (docs/decisions/0042).",
    ),
    Needed(
        "uvicorn", "0.54.0", _SERVING, "uvicorn.server:Server", "startup shutdown server_state",
        "The sandbox does not know when it is ready, and does not stop while a client is silent.",
    ),
    Needed(
        "uvicorn", "0.54.0", _SERVE, f"{_HTTPTOOLS}HttpToolsProtocol",
        "client cycle flow loop on_message_complete on_response_complete parser shutdown transport",
        "`serve` has no limit on connections, and closes those that have a request on its way (docs/decisions/0042).",
    ),
    Needed(
        "uvicorn", "0.54.0", _SERVE, f"{_HTTPTOOLS}RequestResponseCycle",
        "disconnected keep_alive response_complete",
        "`serve` does not know which connections are idle (docs/decisions/0042).",
    ),
    Needed(
        "uvicorn", "0.54.0", _SERVE, "uvicorn.protocols.http.flow_control:FlowControl", "write_paused",
        "At the limit, a peer that does not read keeps its connection (docs/decisions/0042).",
    ),
    Needed(
        "uvicorn", "0.54.0", "game_operator/serve.py", f"{_HTTPTOOLS}HttpToolsProtocol",
        "cycle headers loop parser transport url on_url on_header on_message_begin on_headers_complete on_body "
        "on_message_complete send_400_response",
        "A request that asks for an upgrade loses its body or leaves another one behind, and heads have no end.",
    ),
    Needed(
        "uvicorn", "0.54.0", "game_operator/serve.py", f"{_HTTPTOOLS}RequestResponseCycle",
        "keep_alive response_complete response_started",
        "A request that cannot be read is answered in the middle of another answer.",
    ),
    Needed(
        "psycopg", "3.3.9", _SESSIONS, "psycopg._connection_base:BaseConnection", "_prepared",
        "Behind a pooler that we do not recognise, a statement runs that another connection prepared.",
    ),
    Needed(
        "psycopg", "3.3.9", _SESSIONS, "psycopg._preparing", "Prepare PrepareManager",
        "The same: prepared statements get psycopg's names and not ours.",
    ),
    Needed(
        "psycopg", "3.3.9", _SESSIONS, "psycopg._queries", "PostgresQuery",
        "Nothing at run time: an annotation.",
    ),
    Needed(
        "psycopg", "3.3.9", _SESSIONS, "psycopg.generators", "execute",
        "The express statement does not run (docs/decisions/0033).",
    ),
    Needed(
        "psycopg", "3.3.9", "game_operator/ledger/postgres/socket_reader.py", "psycopg.waiting", "Ready Wait",
        "The express statement does not run under asyncio (docs/decisions/0033).",
    ),
    Needed(
        "SQLAlchemy", "2.1.9", "game_operator/ledger/joined_connections.py",
        "sqlalchemy.dialects.postgresql.asyncpg:AsyncAdapt_asyncpg_connection", "_prepared_statement_cache",
        "asyncpg behind a pooler is not refused, and may run the statement of another connection.",
    ),
    Needed(
        "opentelemetry-api", "1.45.2", "game_operator/telemetry/client_calls.py", "opentelemetry.context",
        "_SUPPRESS_HTTP_INSTRUMENTATION_KEY",
        "An attempt has two spans where the HTTP library is instrumented as well.",
    ),
    Needed(
        "httpx", "0.28.1", "game_operator/transport", "httpx._transports.default:HTTPTransport", "_pool",
        "Our connection pool is not the one that httpx's transport sends through.",
    ),
    Needed(
        "httpx", "0.28.1", "game_operator/transport", "httpx._transports.default:AsyncHTTPTransport", "_pool",
        "The same for the async client.",
    ),
    Needed(
        "Python", "3.11.7", "game_operator/protocol/exact_json.py", "json.encoder", "encode_basestring",
        "JSON is not written.",
    ),
    Needed(
        "Python", "3.11.7", "game_operator/protocol/exact_json.py", "json.decoder:JSONDecoder", "scan_once",
        "JSON is not read.",
    ),
    Needed(
        "Python", "3.11.7", "game_operator/cli/commands/serve.py", "multiprocessing.resource_tracker", "ensure_running",
        "SIGHUP to all processes of a service ends the one that tidies up after Python.",
    ),
    Needed(
        "Python", "3.11.7", _SERVE, "multiprocessing.process", "BaseProcess",
        "Nothing at run time: an annotation.",
    ),
)  # fmt: skip

#: Begins with an underscore and is documented: of named tuples, of ``os``, and typeshed's module for annotations.
_DOCUMENTED = {"_asdict", "_fields", "_make", "_replace", "_exit", "_typeshed"}
#: Texts that only look like names: the end of a parameter's name, a value of OpenTelemetry, a template.
_NOT_NAMES = {"_key", "_OTHER", "_status.html"}
_PRIVATE = re.compile(r"\b_[A-Za-z]\w*(?<!_)")
_NAMES_IN_TEXT = re.compile(r"\w+(?:[.:]\w+)*")
#: Methods of a text whose arguments are parts of one.
_OF_TEXT = {"endswith", "startswith", "removesuffix", "removeprefix", "replace", "split", "join", "count", "strip"}


def _defined(tree: ast.Module) -> Iterator[str]:
    """Yield each name that *tree* gives to something of its own."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                yield name
            case ast.Assign(targets=[ast.Name(id="__slots__")], value=slots):
                yield from (str(each.value) for each in ast.walk(slots) if isinstance(each, ast.Constant))


def _used(tree: ast.Module) -> Iterator[str]:
    """Yield each private name that *tree* takes from something: as an attribute, as a text, or from a module."""
    pieces = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pieces |= {id(each) for each in node.values}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _OF_TEXT:
            pieces |= {id(each) for argument in node.args for each in (argument, *getattr(argument, "elts", ()))}
    for node in ast.walk(tree):
        names: list[str] = []
        match node:
            case ast.Attribute(attr=name):
                names = [name]
            case ast.Constant(value=str(text)) if id(node) not in pieces and text not in _NOT_NAMES:
                names = re.split("[.:]", text) if _NAMES_IN_TEXT.fullmatch(text) else []
            case ast.ImportFrom(module=str(module), names=imported) if not _is_ours(module):
                names = [*module.split("."), *(each.name for each in imported)]
            case ast.Import(names=imported):
                names = [part for each in imported for part in each.name.split(".")]
        yield from (name for name in names if _PRIVATE.fullmatch(name) and name not in _DOCUMENTED)


def _is_ours(module: str) -> bool:
    return module.split(".")[0] in ("game_operator", "game_operator_testkit")


def _package(file: str) -> str:
    return "/".join(file.split("/")[:2])


def _strange(trees: dict[str, ast.Module]) -> set[tuple[str, str]]:
    """Return each private name that a file uses and no file of its package defines, with the file."""
    own: dict[str, set[str]] = {}
    for file, tree in trees.items():
        own.setdefault(_package(file), {path.stem for path in map(Path, trees)}).update(_defined(tree))
    return {(file, name) for file, tree in trees.items() for name in set(_used(tree)) - own[_package(file)]}


def _is_below(file: str, place: str) -> bool:
    return file == place or file.startswith(f"{place}/")


def _is_listed(file: str, name: str) -> bool:
    rows = [row for row in NEEDED if _is_below(file, row.used_in)]
    return any(name in re.split(r"[.: ]", f"{row.place} {row.names}") for row in rows)


def test_every_private_name_of_another_library_is_listed(trees: dict[str, ast.Module]) -> None:
    """Use what a library documents. If there is no other way, say in the table what breaks without the name."""
    found = _strange(trees)
    assert sorted(each for each in found if not _is_listed(*each)) == []


def _text_of_class(source: str, kind: str) -> str:
    return next(
        ast.unparse(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef) and node.name == kind
    )


@pytest.mark.parametrize("row", NEEDED, ids=lambda row: f"{row.place} in {row.used_in}")
def test_a_name_that_is_needed_is_there(row: Needed) -> None:
    """A release without it is seen here first. A row whose names nobody uses any more goes."""
    module, _, kind = row.place.partition(":")
    place = import_module(module)
    text = _text_of_class(inspect.getsource(place), kind) if kind else ""
    for name in row.names.split():
        is_there = re.search(rf"def {name}\(|self\.{name}\b|^    {name}\b", text, re.MULTILINE)
        assert is_there or (not kind and hasattr(place, name)), name
    used = "\n".join(file.read_text() for name, file in sources().items() if _is_below(name, row.used_in))
    assert [each for each in row.names.split() if not re.search(rf"\b{each}\b", used)] == []


def test_uvicorns_server_owns_the_handler_of_its_signals() -> None:
    """So that a process finds its server."""
    source = inspect.getsource(import_module("uvicorn.server").Server.capture_signals)
    assert "signal.signal(sig, self.handle_exit)" in source


#: What stands on uvicorn's classes.
_ON_UVICORN = ("game_operator/serve.py", _SERVE)
_OF_UVICORN = (uvicorn.config, uvicorn.server, flow_control, httptools_impl)


def test_no_private_name_of_uvicorn_is_hidden() -> None:
    """No attribute of ours has the name of one of theirs by chance."""
    theirs = {name for module in _OF_UVICORN for name in _PRIVATE.findall(Path(str(module.__file__)).read_text())}
    for file in _ON_UVICORN:
        assert set(_PRIVATE.findall(sources()[file].read_text())) & theirs == set(), file


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield what *tree* imports of this distribution: the module and the name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and _is_ours(node.module or ""):
            yield from ((str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if _is_ours(alias.name))


def _is_private(module: str, name: str) -> bool:
    parts = {*module.split(".")[1:], name}
    return any(part.startswith("_") and not part.endswith("__") for part in parts - _SHARED)


def test_no_package_imports_anothers_private_names(trees: dict[str, ast.Module]) -> None:
    """A name with an underscore is the package's alone: what others need has a name without."""
    found = [
        f"{file}: {module}.{name}"
        for file, tree in trees.items()
        for module, name in _imports(tree)
        if _is_private(module, name) and module.split(".")[:2] != file.split("/")[:2]
    ]
    assert found == []
