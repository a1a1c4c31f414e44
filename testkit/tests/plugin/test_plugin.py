"""The plugin in test suites of its users, each in an interpreter of its own."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.outside

pytest_plugins = ["pytester"]

_PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "testing.md"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

#: What nobody pays for who uses no fixture.
_LOADS_NOTHING = """
import sys

def test_nothing_heavy_is_loaded():
    heavy = {"anyio", "asyncio", "cryptography", "httpx", "jwt", "pydantic", "sqlite3", "starlette", "uvicorn"}
    assert "game_operator_testkit.plugin.fixtures" in sys.modules
    assert not heavy & set(sys.modules)
    ours = {name for name in sys.modules if name.startswith("game_operator")}
    sdk = {"game_operator", "game_operator._lazy", "game_operator._version"}
    testkit = {"game_operator_testkit", "game_operator_testkit.plugin", "game_operator_testkit.plugin.fixtures"}
    assert ours <= sdk | testkit

def test_a_fixture_loads_what_it_needs(signed_webhook):
    assert "cryptography" in sys.modules
    assert "httpx" not in sys.modules

def test_a_sandbox_makes_no_further_keys(game_operator_keys, request, monkeypatch):
    import game_operator_testkit.provider.keys
    assert game_operator_keys.operator and game_operator_keys.service
    monkeypatch.setattr("game_operator_testkit.provider.keys.generate_private_key", None)
    assert request.getfixturevalue("operator_sandbox")
"""

#: Extras that the plugin does without, and a profile of the suite's own.
_CONFTEST = """
import sys

import pytest

for name in ("psycopg", "rich", "starlette", "typer", "uvicorn"):
    sys.modules[name] = None

@pytest.fixture(scope="session")
def operator_profile():
    from game_operator import Profile
    return Profile(signature_header="x-provider-signature")
"""

_SUITE = """
import pytest

from game_operator.ledger import MemoryLedger
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver, wsgi_app
from game_operator_testkit import wsgi_wallet

@pytest.fixture
def ledger():
    return MemoryLedger({"p1": 10_000, "p2": 10_000})

@pytest.fixture
def receiver(signed_webhook, operator_profile):
    signature = RsaSignature(signed_webhook.public_key_pem)
    return WebhookReceiver(authenticator=signature, profile=operator_profile)

@pytest.mark.parametrize(("key", "balance"), [("service", 9_500), ("forged", 10_000)])
def test_signed(signed_webhook, receiver, ledger, key, balance):
    bet = signed_webhook("withdraw", player_id="p1", bet_id="b1", amount_cents=500, key=key)
    assert "x-provider-signature" in bet.headers
    reply = receiver.handle(bet.path, bet.headers, bet.body, Wallet(ledger))
    assert (b"INVALID_SIGNATURE" in reply.body) == (key == "forged")
    assert ledger.balance("p1") == balance

def test_played(operator_sandbox, receiver, ledger):
    operator_sandbox.wallet = wsgi_wallet(wsgi_app(receiver, Wallet(ledger)))
    operator_sandbox.faults.set_nth("reply-lost", 1)
    played = operator_sandbox.play_round(player_id="p1", wager_cents=500, won_cents=1_500)
    assert (played.problems, len(played.deliveries), ledger.balance("p1")) == ((), 3, 11_000)

def test_certified(wallet_certifier, ledger):
    report = wallet_certifier(Wallet(ledger), player_id="p1", other_player_id="p2", only="A")
    assert report.advice == ()

@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_asked(operator_sandbox, anyio_backend):
    async with operator_sandbox.async_client() as client:
        assert await client.fetch_games()
"""


def _run(pytester: pytest.Pytester, *plugins: str) -> pytest.RunResult:
    """Run the suite with *plugins* alone: those of this machine may load anything."""
    pytester.plugins = []
    arguments = [part for plugin in plugins for part in ("-p", plugin)]
    options = ("--disable-plugin-autoload", "-W", "error", "-p", "no:cacheprovider")
    return pytester.runpytest_subprocess(*options, *arguments, timeout=100)


def test_loading_it_costs_nothing(pytester: pytest.Pytester) -> None:
    """
    Whoever asks for no fixture loads nothing but the plugin, which is found by its entry point.

    And once the keys are made, a sandbox makes none: that is what takes long.
    """
    pytester.makepyfile(_LOADS_NOTHING)
    _run(pytester, "game_operator_testkit").assert_outcomes(passed=3)


@pytest.mark.artefact
def test_the_page_is_a_suite_that_passes(pytester: pytest.Pytester) -> None:
    """The blocks of docs/how-to/testing.md, as one file: the wallet it calls wrong fails as it says."""
    pytester.makepyfile("\n\n".join(_BLOCK.findall(_PAGE.read_text())))
    _run(pytester, "game_operator_testkit", "anyio").assert_outcomes(passed=32, xfailed=1)


@pytest.mark.artefact
def test_a_suite_without_the_extras(pytester: pytest.Pytester) -> None:
    """Sync and async clients, another header: no web server and no command line of ours is needed."""
    pytester.makeconftest(_CONFTEST)
    pytester.makepyfile(_SUITE)
    _run(pytester, "game_operator_testkit", "anyio").assert_outcomes(passed=6)
