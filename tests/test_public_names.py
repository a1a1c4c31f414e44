"""The public names: what they are, where they live, and what importing them costs."""

import ast
import subprocess
import sys
from importlib import import_module, metadata
from pathlib import Path

import pytest

import game_operator

SOURCE = Path(game_operator.__file__).read_text()

ERRORS = [
    "ApiError",
    "AuthenticationError",
    "BadRequestError",
    "ConfigurationError",
    "FreeBetRejectedError",
    "GameOperatorError",
    "NoAnswerError",
    "OperatorInactiveError",
    "OutcomeUnknownError",
    "RateLimitedError",
    "RequestNotSentError",
    "ServiceError",
    "SessionTokenError",
    "SigningKeyError",
    "TransportError",
    "UnexpectedResponseError",
]
MODELS = [
    "BetConfig",
    "BetNotFound",
    "ClosedBet",
    "GameInfo",
    "GameInstance",
    "GrantAccepted",
    "OpenBet",
    "RolledBackBet",
    "RoundFound",
    "RoundNotFound",
]
OTHERS = [
    "AsyncOperatorClient",
    "AsyncSigner",
    "Cents",
    "Exchange",
    "GameStatus",
    "Genre",
    "GrantErrorCode",
    "OperatorClient",
    "ReadLimits",
    "RetryPolicy",
    "SessionClaims",
    "SessionTokenBuilder",
    "Signer",
    "__version__",
    "launch_url",
]


def _type_checking_imports() -> dict[str, str]:
    """Return each name that a type checker sees, with the module it comes from."""
    blocks = [node for node in ast.parse(SOURCE).body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: str(node.module) for node in imports for alias in node.names}


def _loaded_after(statement: str) -> set[str]:
    """Return the packages that a fresh interpreter has loaded after *statement*."""
    program = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True, timeout=50)
    return set(done.stdout.split())


def test_the_names() -> None:
    """Everything a user relies on is exported, and nothing else."""
    assert sorted(game_operator.__all__) == sorted([*ERRORS, *MODELS, *OTHERS])


def test_names_stand_once_and_in_order() -> None:
    """The list can be read and merged."""
    assert len(set(game_operator.__all__)) == len(game_operator.__all__)
    assert game_operator.__all__ == sorted(game_operator.__all__)


def test_type_checkers_see_what_there_is() -> None:
    """The lazy names and the ones a type checker sees are the same, from the same modules."""
    lazy = {name: f"game_operator.{home}" for name, home in game_operator._HOME_OF.items()}
    assert _type_checking_imports() == lazy
    assert {*lazy, "__version__"} == set(game_operator.__all__)


@pytest.mark.parametrize("name", sorted(set(game_operator.__all__) - {"__version__"}))
def test_each_name_is_the_one_at_home(name: str) -> None:
    """A public name is the very object of its module, and documented (docs come from docstrings)."""
    home = import_module(f"game_operator.{game_operator._HOME_OF[name]}")
    public = getattr(game_operator, name)
    assert public is getattr(home, name)
    # NewType's docstring is of no use; Cents has a comment where it is made.
    assert name == "Cents" or (public.__doc__ or "").strip()


def test_unknown_names_are_attribute_errors() -> None:
    """A misspelt name fails as on any module, so that hasattr and the import statement work."""
    with pytest.raises(AttributeError, match="module 'game_operator' has no attribute 'OperatorKlient'"):
        _ = game_operator.OperatorKlient  # type: ignore[attr-defined]  # that is the point
    assert not hasattr(game_operator, "webhooks_of_the_future")
    with pytest.raises(ImportError):
        exec("from game_operator import OperatorKlient")


def test_dir_shows_the_names() -> None:
    """Completion in a shell finds names that are not loaded yet."""
    shown = dir(game_operator)
    assert set(game_operator.__all__) <= set(shown)
    assert shown == sorted(shown)


def test_a_star_import_brings_all() -> None:
    """``from game_operator import *`` resolves every name."""
    names: dict[str, object] = {}
    exec("from game_operator import *", names)
    assert set(game_operator.__all__) <= set(names)


def test_version_is_the_distribution_s() -> None:
    """The version in the package is the version that pip installed."""
    assert game_operator.__version__ == metadata.version("game-operator")


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
            "boto3 botocore jwt starlette typer uvicorn httpx2 aiohttp httpx_aiohttp trio",
            id="the client loads no server, command line or cloud",
        ),
        pytest.param(
            "from game_operator import SessionTokenBuilder",
            "boto3 httpx starlette",
            id="tokens load no client",
        ),
    ],
)
def test_what_an_import_loads(statement: str, absent: str) -> None:
    """A process pays only for what it touches."""
    assert _loaded_after(statement) & set(absent.split()) == set()


def test_the_client_adds_no_rich() -> None:
    """Httpx loads rich for its own command line where that is installed; the client has no part in it."""
    assert "rich" not in _loaded_after("from game_operator import OperatorClient") - _loaded_after("import httpx")


def test_the_probe_sees_what_is_loaded() -> None:
    """The check above would notice: the client does load httpx, pydantic and cryptography."""
    assert {"httpx", "pydantic", "cryptography"} <= _loaded_after("from game_operator import OperatorClient")
