"""The public names: what they are, where they live, and what importing them costs."""

import ast
import subprocess
import sys
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType

import pytest

import game_operator
import game_operator_testkit
from game_operator import backoffice, ledger, models, signers
from game_operator_testkit import sandbox


def _names(package: ModuleType) -> list[str]:
    """Return the public names of *package*; type checkers see them by its imports."""
    return list(vars(package)["__all__"])


def _type_checking_imports(package: ModuleType) -> dict[str, str]:
    """Return each name that a type checker sees in *package*, with the module it comes from."""
    source = Path(str(package.__file__)).read_text()
    blocks = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: str(node.module) for node in imports for alias in node.names}


def _loaded_after(statement: str) -> set[str]:
    """Return the packages that a fresh interpreter has loaded after *statement*."""
    program = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True, timeout=50)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "package",
    [game_operator, backoffice, ledger, models, sandbox, signers, game_operator_testkit],
    ids=lambda it: it.__name__,
)
def test_type_checkers_see_what_there_is(package: ModuleType) -> None:
    """The lazy names and the ones that a type checker sees are the same objects, from the same modules."""
    seen = _type_checking_imports(package)
    assert set(seen) <= set(_names(package)) <= set(dir(package))
    for name, home in seen.items():
        assert getattr(package, name) is getattr(import_module(home), name)
    for name in _names(package):
        assert hasattr(package, name)
    with pytest.raises(AttributeError, match=rf"module '{package.__name__}' has no attribute 'Misspelt'"):
        _ = package.Misspelt


def test_version_is_the_distribution_s() -> None:
    """The version in the package is the version that pip installed."""
    assert game_operator.__version__ == metadata.version("game-operator")


@pytest.mark.artefact
@pytest.mark.outside
@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        pytest.param(
            "import game_operator",
            "anyio asyncio cryptography httpx jwt pydantic pydantic_core ssl starlette uvicorn typer rich boto3",
            id="the package alone loads nothing heavy",
        ),
        pytest.param(
            "from game_operator import ApiError, GrantErrorCode, Cents",
            "anyio asyncio cryptography httpx jwt pydantic pydantic_core ssl",
            id="errors, codes and money load nothing heavy",
        ),
        pytest.param(
            "from game_operator import GameInfo, OpenBet",
            "anyio asyncio cryptography httpx jwt ssl",
            id="models load pydantic and no more",
        ),
        pytest.param(
            "from game_operator import OperatorClient",
            "boto3 botocore jwt pydantic pydantic_core starlette typer uvicorn httpx2 trio",
            id="the client loads no model, server, command line or cloud",
        ),
        pytest.param(
            "from game_operator import SessionTokenBuilder",
            "boto3 httpx starlette",
            id="tokens load no client",
        ),
        pytest.param(
            "from game_operator import Profile, Reply, WithdrawCall, MalformedCallError",
            "anyio asyncio cryptography httpx jwt pydantic pydantic_core ssl sqlite3",
            id="calls, replies and the profile load nothing heavy",
        ),
        pytest.param(
            "from game_operator.webhooks import WebhookReceiver, RsaSignature, asgi_app, success, error",
            "anyio asyncpg boto3 django fastapi flask h11 httpcore httptools httpx httpx2 jwt litestar psycopg "
            "pydantic pydantic_core sqlalchemy sqlite3 starlette typer rich uvicorn uvloop",
            id="a process of webhooks loads no client, database driver or framework",
        ),
        pytest.param(
            "import game_operator.backoffice",
            "anyio asyncio cryptography httpx jwt pydantic pydantic_core ssl sqlite3 psycopg starlette typer",
            id="the back office alone loads nothing heavy",
        ),
        pytest.param(
            "from game_operator.backoffice import Verdict",
            "anyio asyncpg psycopg sqlalchemy starlette typer uvicorn jinja2",
            id="a verdict loads no server and no template",
        ),
        pytest.param(
            "from game_operator.backoffice import Catalogue",
            "anyio cryptography httpx jwt psycopg sqlalchemy sqlite3 starlette typer uvicorn",
            id="a catalogue loads no client and no database driver",
        ),
        pytest.param(
            "from game_operator_testkit.provider.caller import WebhookCaller",
            "boto3 django fastapi flask httpx2 jwt litestar psycopg sqlalchemy sqlite3 "
            "starlette trio typer uvicorn uvloop",
            id="a caller of webhooks loads no server and no database driver",
        ),
    ],
)
def test_what_an_import_loads(statement: str, absent: str) -> None:
    """A process pays only for what it touches."""
    assert _loaded_after(statement) & set(absent.split()) == set()


@pytest.mark.outside
def test_the_scenarios_can_be_asked_for_again_and_again() -> None:
    """The package of the scenarios never takes the place of the function of the same name."""
    program = "from game_operator_testkit import certifier; certifier.scenarios(); assert certifier.scenarios()"
    subprocess.run([sys.executable, "-c", program], check=True)
