"""The scenarios of who calls: right wallets pass, a wrong one's fault is named, sound ones get advice at most."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from wallet_by_hand import PlainWallet, Reply

from game_operator.errors import ConfigurationError
from game_operator.ledger import MemoryLedger
from game_operator.profile import Profile
from game_operator.wallet import Wallet
from game_operator.webhooks import AllOf, IpAllowList, RsaSignature, WebhookReceiver, asgi_app
from game_operator.webhooks.adapters import AsgiApp
from game_operator_testkit.certifier import Outcome, Supplies, Weight
from testkit.tests.certifier.harness import OTHER, PLAYER, certified, only, opened, service_key
from testkit.tests.certifier.serving import certified_at, served
from testkit.tests.certifier.wrong_wallets import callers
from tests.support.servers import asgi_server

BROKEN, ADVICE = Weight.CONTRACT_BROKEN, Weight.ADVICE


def test_only_what_the_profile_admits_is_left_out() -> None:
    """A wallet that takes a withdraw's bytes for its rollback is right where the two may be equal, and nowhere else."""
    admitting = Profile(rollback_may_equal_withdraw=True)
    assert certified(callers.KeepsNoDigest, only=["E09"], profile=admitting).passed
    assert not certified(callers.KeepsNoDigest, only=["E09"]).passed


class AnswersNobodyWith401(PlainWallet):
    """As many frameworks would have it."""

    def _status(self, reply: Reply) -> int:
        return 401 if reply.outcome == "INVALID_SIGNATURE" else 200


class ReadsOneForm(PlainWallet):
    """Reads Base64 of the alphabet that the service uses, without padding."""

    def _signature(self, headers: list[tuple[str, str]]) -> str | None:
        header = super()._signature(headers)
        return None if header is None or set(header) & set("+/=") else header


class ReadsAnotherForm(PlainWallet):
    """Reads Base64 as the signers of another service write it."""

    form = re.compile("[A-Za-z0-9+/]+={1,2}")

    def _signature(self, headers: list[tuple[str, str]]) -> str | None:
        header = super()._signature(headers)
        return header if header is not None and self.form.fullmatch(header) else None


@pytest.mark.parametrize(
    ("pattern", "form"),
    [
        pytest.param("[A-Za-z0-9+/]+", "standard", id="standard"),
        pytest.param("[A-Za-z0-9_-]+={1,2}", "url-safe padded", id="URL-safe, padded"),
    ],
)
def test_a_wallet_that_reads_another_base64_alone_is_told_so(pattern: str, form: str) -> None:
    """Before anything moves: its key may be right (assumed, docs/decisions/0011)."""

    class Wallet(ReadsAnotherForm):
        form = re.compile(pattern)

    with pytest.raises(ConfigurationError, match=f"accepted with its signature in {form} Base64. It belongs"):
        certified(Wallet)


class LooksElsewhere(PlainWallet):
    """Looks for the signature in another header."""

    header = "x-signature"

    def _signature(self, headers: list[tuple[str, str]]) -> str | None:
        return next((value for name, value in headers if name.lower() == self.header), None)


def test_a_wallet_that_looks_for_another_header_is_told_so() -> None:
    """With the field of the profile; one that nobody sends is refused as a wrong key is."""
    with pytest.raises(ConfigurationError, match="accepted with its signature in the header x-signature"):
        certified(LooksElsewhere)

    class Wallet(LooksElsewhere):
        header = "x-nobody-sends-it"

    with pytest.raises(ConfigurationError, match="The wallet says that our signature is wrong"):
        certified(Wallet)


@pytest.mark.parametrize(
    ("sound", "scenario", "weight", "told"),
    [
        pytest.param(callers.RefusesTheUnauthenticForGood, "E01", ADVICE, "never sends it again", id="a final code"),
        pytest.param(ReadsOneForm, "E04", ADVICE, "accepted is assumed", id="one form of Base64"),
        pytest.param(AnswersNobodyWith401, "E01", BROKEN, "HTTP 401, and it must be 200", id="401 unannounced"),
    ],
)
def test_what_costs_no_money(sound: type[PlainWallet], scenario: str, weight: Weight, told: str) -> None:
    """What moves no money wrongly weighs no more than it costs (spec §4.1)."""
    verdict = only(certified(sound, only=[scenario]))
    assert verdict.weight is weight
    assert told in verdict.reason


# --- Over HTTP --------------------------------------------------------------------------------------------------------


class TakesTheFirstSignature(PlainWallet):
    """Two readers would take two different ones."""

    def _signature(self, headers: list[tuple[str, str]]) -> str | None:
        return next((value for name, value in headers if name.lower() == self.signature_header), None)


@pytest.mark.outside
@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        pytest.param(PlainWallet, Outcome.PASSED, id="refused"),
        pytest.param(TakesTheFirstSignature, Outcome.FAILED, id="the first is taken"),
    ],
)
def test_two_signatures(kind: type[PlainWallet], outcome: Outcome) -> None:
    """A header that stands twice can be sent over HTTP alone; that it should be refused is advice."""
    with served(opened(kind)) as url:
        report = certified_at(url, only=["E05", "E11"])
    assert report.passed
    assert report.verdict("E05").outcome is outcome
    assert report.verdict("E11").outcome is Outcome.PASSED


def _forwarded(scope: Any) -> Any:
    """Believe everybody's X-Forwarded-For, as a server does that trusts all proxies."""
    told = dict(scope.get("headers", ())).get(b"x-forwarded-for")
    return (told.decode(), 0) if told else scope["client"]


@pytest.fixture
def allowing() -> AsgiApp:
    """A wallet that answers 127.0.0.1 alone."""
    ledger = MemoryLedger(opening_cents={PLAYER: 100_000, OTHER: 100_000})
    public_key: RSAPublicKey = service_key().public_key()
    authenticator = AllOf(IpAllowList(["127.0.0.1"]), RsaSignature(public_key))
    return asgi_app(WebhookReceiver(authenticator=authenticator), Wallet(ledger))


@pytest.mark.outside
@pytest.mark.parametrize(
    ("client_of", "outcome", "told", "untold"),
    [
        pytest.param(lambda scope: scope["client"], Outcome.PASSED, "", "?", id="refused, whatever it says of itself"),
        pytest.param(
            lambda _: ("127.0.0.1", 0),
            Outcome.FAILED,
            "the wallet limits no addresses, or allows this one",
            "says it is",
            id="no limit",
        ),
        pytest.param(
            _forwarded,
            Outcome.FAILED,
            "says it is from 127.0.0.1: returned SUCCESS",
            "limits no addresses",
            id="a header of anybody's is believed",
        ),
    ],
)
def test_an_address_that_may_not_call(
    allowing: AsgiApp, client_of: Callable[[Any], Any], outcome: Outcome, told: str, untold: str
) -> None:
    """A wallet that believes a header of anybody's keeps nobody out; where none was sent, no reason speaks of it."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await allowing(scope | {"client": client_of(scope)} if "client" in scope else scope, receive, send)

    with asgi_server(app) as port:
        report = certified_at(f"http://127.0.0.1:{port}", only=["E10"], supplies=Supplies(elsewhere="127.0.0.2"))
    verdict = report.verdict("E10")
    assert (verdict.outcome, told in verdict.reason, untold in verdict.reason) == (outcome, True, False)
    assert verdict.weight is BROKEN
