"""The scenarios of who calls: right wallets pass, wrong ones are told what they do, sound ones get advice at most."""

import logging
import re
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from wallet_by_hand import Case, PlainWallet, Reply, serve

from game_operator.errors import ConfigurationError
from game_operator.ledger import MemoryLedger
from game_operator.profile import Profile
from game_operator.wallet import Wallet
from game_operator.webhooks import AllOf, IpAllowList, RsaSignature, WebhookReceiver, asgi_app
from game_operator.webhooks.adapters import AsgiApp
from game_operator_testkit.certifier import Outcome, Report, Supplies, Weight, certify
from testkit.tests.certifier.findings import found, ids_of, only, skipped
from testkit.tests.certifier.harness import (
    INSTANCE,
    OTHER,
    PLAYER,
    certified,
    hold_told,
    opened,
    service_key,
    service_signer,
)
from testkit.tests.certifier.ours import certified_ours
from testkit.tests.certifier.wrong_wallets import callers
from tests.support.ledgers import InMemory
from tests.support.servers import asgi_server

DOUBLED, LOST, BROKEN, ADVICE = Weight.MONEY_DOUBLED, Weight.MONEY_LOST, Weight.CONTRACT_BROKEN, Weight.ADVICE
_NO_TYPES: dict[str, tuple[str, ...]] = {"action.deposit": (), "amount_cents.deposit": ("won",), "won_cents": ()}


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Refusals by the hundred would fill the captured log."""
    caplog.set_level(logging.CRITICAL, "game_operator")


def test_the_wallet_by_hand_passes() -> None:
    """Nothing is found; what needs a network is skipped with its reason (spec §4.1, §5)."""
    report = certified(only=["E"])
    assert found(report) == {}
    assert skipped(report).keys() == {"E10"}
    assert {each.id for each in report.verdicts} == ids_of("E")
    assert report.calls < 140


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"unauthenticated_status": 401}, id="forgeries are answered 401"),
        pytest.param({"codes": "core", "rollback_tx_id": "own"}, id="core codes, rollbacks with tx_ids of their own"),
        pytest.param({"rollback_may_equal_withdraw": True}, id="a rollback may be its withdraw"),
        pytest.param({"duplicate_reply": "verbatim"}, id="repeats are answered word for word"),
        pytest.param({"claim_types": ()}, id="no claims"),
        pytest.param({"fields": _NO_TYPES}, id="deposits without a type"),
        pytest.param({"signature_header": "X-Provider-Signature"}, id="another header"),
    ],
)
def test_a_right_wallet_passes_under_its_profile(settings: dict[str, Any]) -> None:
    """What is asked is what the profile says, and no more is skipped."""
    report = certified_ours(InMemory(), Profile(**settings), only=["E"])
    assert found(report) == {}
    assert skipped(report).keys() == {"E10"}


def test_only_what_the_profile_admits_is_left_out() -> None:
    """A wallet that takes a withdraw's bytes for its rollback is right where the two may be equal, and nowhere else."""
    admitting = Profile(rollback_may_equal_withdraw=True)
    assert certified(callers.KeepsNoDigest, only=["E09"], profile=admitting).passed
    assert not certified(callers.KeepsNoDigest, only=["E09"]).passed


@pytest.mark.parametrize(
    ("wrong", "scenario", "weight", "told"),
    [
        pytest.param(callers.BelievesEverybody, "E01", DOUBLED, "a claim without a signature: returned", id="E01"),
        pytest.param(callers.BelievesTheUnsigned, "E04", DOUBLED, "an empty signature", id="E04, none and empty"),
        pytest.param(
            callers.AsksNobodyAtRollback, "E01", DOUBLED, "a rollback without a signature", id="E01, one path"
        ),
        pytest.param(callers.IgnoresWhatVerifySays, "E02", DOUBLED, "signed with another key: returned", id="E02"),
        pytest.param(
            callers.BelievesKnownSignatures, "E02", DOUBLED, "with the signature of a balance check", id="E02, known"
        ),
        pytest.param(callers.RefusesTheUnauthenticForGood, "E02", LOST, "never sends it again", id="E02, final"),
        pytest.param(callers.RemembersTheUnauthentic, "E02", LOST, "the same deposit, as the", id="E02, remembered"),
        pytest.param(callers.WritesAnewBeforeVerifying, "E03", DOUBLED, "with other spaces", id="E03"),
        pytest.param(callers.TrimsBeforeVerifying, "E03", DOUBLED, "with a line break more", id="E03, trimmed"),
        pytest.param(callers.FallsOverGarbage, "E04", BROKEN, "answered HTTP 500, which is not a reply", id="E04"),
        pytest.param(callers.MindsTheCaseOfHeaders, "E05", BROKEN, "the header in capitals: refused", id="E05"),
        pytest.param(callers.AcceptsRetiredKeys, "E06", DOUBLED, "with a retired key: returned SUCCESS", id="E06"),
        pytest.param(callers.TrustsOneKey, "E06", BROKEN, "signed with the old key: refused", id="E06, too early"),
        pytest.param(callers.ForgetsAfterADay, "E07", DOUBLED, "after a claim again, a day later", id="E07"),
        pytest.param(callers.ReadsAnyBodyAnywhere, "E09", DOUBLED, "of a withdraw, posted to /deposit", id="E09"),
        pytest.param(callers.KeepsNoDigest, "E09", DOUBLED, "posted to /rollback: returned SUCCESS", id="E09, refund"),
        pytest.param(
            callers.KeepsDigestsOfRepeats, "E09", LOST, "the rollback at its own path: refused", id="E09, digests"
        ),
        pytest.param(callers.FallsOverLongBodies, "E11", BROKEN, "answered HTTP 502", id="E11"),
        pytest.param(callers.RefusesTheUnauthenticForGood, "E12", LOST, "takes this for final", id="E12, final"),
        pytest.param(callers.RemembersTheUnauthentic, "E12", LOST, "the same deposit afterwards", id="E12, remembered"),
        pytest.param(callers.BelievesEverybody, "E12", DOUBLED, "while no key is trusted: returned", id="E12, forged"),
        pytest.param(callers.MindsNoInstance, "E13", DOUBLED, "a withdraw of another operator's instance", id="E13"),
        pytest.param(callers.ComparesInstancesOfBetsAlone, "E13", DOUBLED, "a claim of another", id="E13, claims"),
    ],
)
def test_a_wrong_wallet_is_told_what_it_does(
    wrong: type[PlainWallet], scenario: str, weight: Weight, told: str
) -> None:
    """The verdict weighs what is at risk, and its reason names the call and what became of it."""
    hold_told(wrong, scenario, weight, told)


class AnswersNobodyWith401(PlainWallet):
    """As many frameworks would have it."""

    def _status(self, reply: Reply) -> int:
        return 401 if reply.outcome == "INVALID_SIGNATURE" else 200


class TellsAnybodyABalance(PlainWallet):
    """Verifies the signatures of what moves money alone."""

    def _answer(self, path: str, headers: list[tuple[str, str]], body: bytes) -> tuple[int, str]:
        if path == "/player-balance" and self._signature(headers) is None:
            return 200, self._render(self._carry_out(self._read("player-balance", self._parse(body), body)))
        return super()._answer(path, headers, body)


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
        pytest.param("[A-Za-z0-9+/]+={1,2}", "standard padded", id="standard, padded"),
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


class RefusesWithABalance(PlainWallet):
    """Tells the player's balance to whoever asks without a signature."""

    def _refuse(self, code: str) -> tuple[int, str]:
        return 200, self._render(Reply(code, 100_000, 1)) if code == "INVALID_SIGNATURE" else super()._refuse(code)[1]


class RefusesRepeatsAstray(PlainWallet):
    """Knows by another field that a rollback's body is no withdraw."""

    def _is_its_withdraw(self, case: Case) -> bool:
        is_other = case.call.operation == "withdraw" and case.bet is not None and case.bet.digest != case.call.digest
        return is_other or super()._is_its_withdraw(case)


@pytest.mark.parametrize(
    ("sound", "scenario", "weight", "told"),
    [
        pytest.param(callers.RefusesTheUnauthenticForGood, "E01", ADVICE, "never sends it again", id="a final code"),
        pytest.param(ReadsOneForm, "E04", ADVICE, "accepted is assumed", id="one form of Base64"),
        pytest.param(
            RefusesWithABalance, "E03", ADVICE, "refused, but returned a balance", id="a refusal with a balance"
        ),
        pytest.param(TellsAnybodyABalance, "E01", BROKEN, "with the player's balance", id="an open balance check"),
        pytest.param(AnswersNobodyWith401, "E01", BROKEN, "HTTP 401, and it must be 200", id="401 unannounced"),
    ],
)
def test_what_costs_no_money(sound: type[PlainWallet], scenario: str, weight: Weight, told: str) -> None:
    """What moves no money wrongly weighs no more than it costs (spec §4.1)."""
    verdict = only(certified(sound, only=[scenario]))
    assert verdict.weight is weight
    assert told in verdict.reason


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        pytest.param(PlainWallet, "SUCCESS 995.00", id="the withdraw again"),
        pytest.param(RefusesRepeatsAstray, "ERROR INVALID_REQUEST 995.00", id="no withdraw"),
    ],
)
def test_a_rollback_that_is_posted_to_withdraw(kind: type[PlainWallet], told: str) -> None:
    """It has all that makes it the withdraw again, so it may be accepted or refused: nothing moves."""
    verdict = only(certified(kind, only=["E09"]))
    assert verdict.reason == ""
    title = "the body of a rollback, posted to /withdraw"
    assert [each.told for each in verdict.exchanges if each.title == title] == [told]


def test_a_wallet_trusts_its_key_again_whatever_it_answered() -> None:
    """What a scenario did to a wallet is undone before anything is judged."""
    report = certified(callers.RefusesTheUnauthenticForGood, only=["E12", "A02"])
    assert report.verdict("E12").failed
    assert report.verdict("A02").outcome is Outcome.PASSED


# --- Over HTTP --------------------------------------------------------------------------------------------------------


def certified_at(port: int, *only: str, elsewhere: str | None = None) -> Report:
    return certify(
        f"http://127.0.0.1:{port}",
        signing_key=service_signer(),
        player_id=PLAYER,
        other_player_id=OTHER,
        instance_id=INSTANCE,
        only=only,
        supplies=Supplies(elsewhere=elsewhere),
    )


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
    wallet = opened(kind)
    server = serve(wallet)
    try:
        report = certified_at(server.server_port, "E05", "E11")
    finally:
        server.shutdown()
        server.server_close()
        wallet.close()
    assert report.passed
    assert report.verdict("E05").outcome is outcome
    assert report.verdict("E11").outcome is Outcome.PASSED


class _TrustingProxies:
    """Believes everybody's X-Forwarded-For, as a server does that trusts all proxies."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        told = dict(scope.get("headers", ())).get(b"x-forwarded-for")
        await self._app(scope | {"client": (told.decode(), 0)} if told else scope, receive, send)


class _Unlimited:
    """Takes everybody for 127.0.0.1."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope | {"client": ("127.0.0.1", 0)}, receive, send)


@pytest.fixture
def allowing() -> AsgiApp:
    """A wallet that answers 127.0.0.1 alone."""
    ledger = MemoryLedger(opening_cents={PLAYER: 100_000, OTHER: 100_000})
    public_key: RSAPublicKey = service_key().public_key()
    authenticator = AllOf(IpAllowList(["127.0.0.1"]), RsaSignature(public_key))
    return asgi_app(WebhookReceiver(authenticator=authenticator), Wallet(ledger))


@pytest.mark.outside
def test_an_address_that_may_not_call(allowing: AsgiApp) -> None:
    """It is refused, whatever it says of itself."""
    with asgi_server(allowing) as port:
        verdict = certified_at(port, "E10", elsewhere="127.0.0.2").verdict("E10")
    assert (verdict.outcome, verdict.reason) == (Outcome.PASSED, "")
    assert [each.reply.code for each in verdict.exchanges[:2] if each.reply] == ["INVALID_SIGNATURE"] * 2


@pytest.mark.outside
def test_a_wallet_that_limits_no_addresses(allowing: AsgiApp) -> None:
    """No header was sent, so the reason speaks of none that was forged."""
    with asgi_server(_Unlimited(allowing)) as port:
        verdict = certified_at(port, "E10", elsewhere="127.0.0.2").verdict("E10")
    assert (verdict.outcome, verdict.weight) == (Outcome.FAILED, BROKEN)
    assert verdict.reason.startswith("a balance check from elsewhere: returned SUCCESS instead of a refusal; ")
    assert "the wallet limits no addresses, or allows this one" in verdict.reason


@pytest.mark.outside
def test_an_address_that_says_it_may(allowing: AsgiApp) -> None:
    """A wallet that believes a header of anybody's keeps nobody out."""
    with asgi_server(_TrustingProxies(allowing)) as port:
        verdict = certified_at(port, "E10", elsewhere="127.0.0.2").verdict("E10")
    assert (verdict.outcome, verdict.weight) == (Outcome.FAILED, BROKEN)
    assert "says it is from 127.0.0.1: returned SUCCESS" in verdict.reason
    assert "limits no addresses" not in verdict.reason
