"""The keys that webhooks are signed with: whose is whose, and that none gets out."""

import pickle

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from game_operator.errors import ConfigurationError, SigningKeyError
from game_operator.protocol.signing import Signature, verify
from game_operator_testkit.provider import keys as service_keys
from game_operator_testkit.provider.delivery import Post
from game_operator_testkit.provider.faults import Fault
from game_operator_testkit.provider.keys import ServiceKeys, new_key
from game_operator_testkit.sandbox import Sandbox
from tests.support.calls import withdraw
from tests.support.leaks import everything_told

EXTRAS = [None, *Fault]


@pytest.fixture(scope="module")
def old_key() -> RSAPrivateKey:
    return new_key()


@pytest.fixture(scope="module")
def keys(private_key: RSAPrivateKey, old_key: RSAPrivateKey) -> ServiceKeys:
    return ServiceKeys(private_key, old_key)


def made_by(key: RSAPublicKey, signature: Signature, body: bytes) -> bool:
    return verify(key, body, signature)


@pytest.mark.parametrize("extra", EXTRAS, ids=str)
def test_whose_signature_a_post_bears(keys: ServiceKeys, old_key: RSAPrivateKey, extra: Fault | None) -> None:
    """The service's own, but for a forgery and a key of old; each verifies under its own key alone."""
    post = Post(withdraw(), extra=extra)
    signature = keys.signature(post.request)
    current, stranger = (
        load_pem_public_key(signer.public_key_pem()) for signer in (keys.current, service_keys.stranger())
    )  # fmt: skip
    assert isinstance(current, RSAPublicKey)
    assert isinstance(stranger, RSAPublicKey)
    makers = [made_by(key, signature, post.signed) for key in (current, old_key.public_key(), stranger)]
    whose = {Fault.OLD_KEY: 1, Fault.FORGED: 2}.get(extra, 0) if extra else 0
    assert makers == [number == whose for number in range(3)]
    told = {0: "valid", 1: "old key", 2: "forged"}
    assert post.signed_with == ("other bytes" if extra is Fault.RESERIALISED else told[whose])


def test_a_rotation_makes_the_current_key_the_old_one(keys: ServiceKeys) -> None:
    """And once more, the one in between."""
    once = keys.rotated()
    twice = once.rotated()
    assert once.old is keys.current
    assert twice.old is once.current
    assert len({signer.public_key_pem() for signer in (keys.old, keys.current, once.current, twice.current)}) == 4


def test_a_prepared_key_is_switched_to(public_pem: bytes) -> None:
    """It is made once, signs nothing before the switch, and is the current one after it; then there is none."""
    sandbox = Sandbox(operator_public_key=public_pem)
    before, unprepared = sandbox.service_public_key_pem, sandbox.prepared_service_key_pem
    prepared = sandbox.prepare_service_key()
    assert unprepared is None
    assert prepared == sandbox.prepare_service_key() == sandbox.prepared_service_key_pem
    assert sandbox.service_public_key_pem == before != prepared
    assert sandbox.rotate_service_key() == prepared == sandbox.service_public_key_pem
    assert sandbox.service.keys.old.public_key_pem() == before
    assert sandbox.prepared_service_key_pem is None


class Keeper:
    """Keeps keys in a list, or cannot."""

    where = "a list"

    def __init__(self, *, full: bool) -> None:
        self.full = full
        self.kept: list[RSAPrivateKey] = []

    def keep(self, following: RSAPrivateKey) -> None:
        if self.full:
            raise ConfigurationError("no room")
        self.kept.append(following)


def test_a_rotation_is_kept_or_does_not_happen(public_pem: bytes) -> None:
    """The keeper is asked first; if it cannot, the service signs as before, and the next key is still prepared."""
    keeper = Keeper(full=True)
    sandbox = Sandbox(operator_public_key=public_pem, key_keeper=keeper)
    before, prepared = sandbox.service_public_key_pem, sandbox.prepare_service_key()
    with pytest.raises(ConfigurationError, match="no room"):
        sandbox.rotate_service_key()
    assert (sandbox.service_public_key_pem, sandbox.prepared_service_key_pem) == (before, prepared)
    keeper.full = False
    assert sandbox.rotate_service_key() == prepared
    assert [ServiceKeys(key).current.public_key_pem() for key in keeper.kept] == [prepared]


def halves(pem: bytes) -> list[str]:
    """Return lines of the key itself, any of which gives it away."""
    return pem.decode().splitlines()[1:-1]


def test_no_key_is_told(keys: ServiceKeys, private_pem: bytes) -> None:
    """Neither by repr nor by pickle or the objects within."""
    told = repr(keys) + str(keys) + repr(vars(keys)) + repr(keys.current) + repr(keys.old)
    assert not any(line in told for line in halves(private_pem))
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(keys)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "raised"),
    [
        pytest.param({"host": "203.0.113.1"}, ConfigurationError, id="a host that is refused"),
        pytest.param({"operator_public_key": "no key"}, SigningKeyError, id="an operator's key that is none"),
        pytest.param({"old_service_key": "no key"}, SigningKeyError, id="an old key that is none"),
    ],
)
def test_no_error_of_a_sandbox_tells_a_key(
    private_pem: bytes, public_pem: bytes, options: dict[str, object], raised: type[Exception]
) -> None:
    """Not even by the locals of the frames it passed, which error trackers send along."""
    for key in (private_pem, private_pem.decode()):
        settings: dict[str, object] = {"operator_public_key": public_pem, "service_private_key": key} | options
        with pytest.raises(raised) as failed:
            Sandbox(**settings)  # type: ignore[arg-type]  # What a user may pass.
        told = everything_told(failed.value)
        assert not any(line in told for line in halves(private_pem))
