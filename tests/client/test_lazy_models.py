"""pydantic and the models are loaded when a client is made, and built for the first answer of their kind."""

import inspect
import subprocess
import sys
import typing
from collections.abc import Iterator

import pytest

import game_operator
from game_operator import models
from game_operator.protocol import operations
from tests.support.wire import bet, game, wire


def _with_hints() -> Iterator[object]:
    """Yield every public class and function of the client and the models, and the methods of the classes."""
    public = {getattr(game_operator, name) for name in vars(game_operator)["__all__"]}
    for value in [*public, *(getattr(models, name) for name in vars(models)["__all__"]), *vars(operations).values()]:
        if not getattr(value, "__module__", "").startswith("game_operator"):
            continue
        if inspect.isfunction(value):
            yield value
        elif inspect.isclass(value):
            yield value
            yield from (member for _, member in inspect.getmembers_static(value, inspect.isfunction))


def test_type_hints_of_everything_public_resolve() -> None:
    """Frameworks that read hints at run time see the models, although importing a client does not load them."""
    seen = list(_with_hints())
    assert len(seen) > 150
    for value in seen:
        if (getattr(value, "__module__", None) or "").startswith("game_operator"):
            typing.get_type_hints(value, include_extras=True)


_CLIENT_IN_A_FRESH_PROCESS = """
import sys
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from game_operator import OperatorClient
before = "pydantic" in sys.modules
OperatorClient("https://api.example.com", "acme", generate_private_key(65537, 2048))
print(before, "pydantic" in sys.modules, "game_operator.models.operator_api" in sys.modules)
"""

_FIRST_ANSWERS_AT_ONCE = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from game_operator.protocol import operations
from game_operator.protocol.http import HttpReply
sys.setswitchinterval(1e-6)
calls = 4 * [
    (operations.fetch_bet("acme", "bet-1"), {bet!r}),
    (operations.fetch_games("acme"), {games!r}),
    (operations.fetch_round_bets(instance_id="instance-1", round_id="round-1"), b'{{"status":"NOT_FOUND"}}'),
]
everybody = threading.Barrier(len(calls), timeout=30)

def first(call):
    everybody.wait()
    return call[0].parse(HttpReply(200, {{}}, call[1]))

with ThreadPoolExecutor(len(calls)) as threads:
    answers = list(threads.map(first, calls))
assert answers[:3] * 4 == answers
print(*(type(answer).__name__ for answer in answers[:3]))
"""


def _printed(program: str) -> str:
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True, timeout=50)
    return done.stdout.strip()


@pytest.mark.outside
def test_making_a_client_loads_pydantic_and_importing_it_does_not() -> None:
    """No event loop then waits for an import in the middle of its first answer."""
    assert _printed(_CLIENT_IN_A_FRESH_PROCESS) == "False True True"


@pytest.mark.outside
@pytest.mark.parametrize("attempt", [1, *(pytest.param(n, marks=pytest.mark.torture) for n in range(2, 21))])
def test_first_answers_in_many_threads_at_once(attempt: int) -> None:
    """Each thread loads and builds what it needs, or waits for it; nobody meets half a model."""
    program = _FIRST_ANSWERS_AT_ONCE.format(bet=wire(bet(reference_id="bet-1")), games=wire({"games": [game()]}))
    assert _printed(program) == "OpenBet list RoundNotFound", attempt
