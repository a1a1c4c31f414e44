"""The Keys page: public halves to register, a rotation, and never a private key."""

import re
from collections.abc import Iterator

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256, Hash
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from game_operator.errors import ConfigurationError
from game_operator.ledger import MemoryLedger
from game_operator.profile import Profile
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookRequest
from game_operator_testkit.provider.faults import FaultPlan
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.control_room.running import room_with
from testkit.tests.control_room.support import PATHS, page, play, post

pytestmark = pytest.mark.outside

PEM = re.compile(r"-----BEGIN PUBLIC KEY-----[^-]+-----END PUBLIC KEY-----\n")


def test_both_public_keys_are_shown(own: Sandbox, at_home: httpx.Client, public_pem: bytes) -> None:
    """The service's, which the wallet needs, and the operator's that is registered; whole, and to be copied."""
    html = page(at_home, "/keys")
    assert PEM.findall(html.source) == [own.service_public_key_pem.decode(), public_pem.decode()]
    assert [each["data-copy"] for each in html.all("button") if "data-copy" in each] == ["service-key", "operator-key"]


def test_fingerprints_are_those_of_openssl(at_home: httpx.Client) -> None:
    """SHA-256 of the key's DER, in upper case with colons: what one compares over the telephone."""
    html = page(at_home, "/keys")
    for pem in PEM.findall(html.source):
        digest = Hash(SHA256())
        digest.update(load_pem_public_key(pem.encode()).public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
        assert ":".join(f"{byte:02X}" for byte in digest.finalize()) in html.text
    assert html.text.count("RSA, 2048 bits") == 2


def test_the_service_key_is_a_file(own: Sandbox, at_home: httpx.Client) -> None:
    """As a wallet reads it."""
    response = at_home.get("/keys/service.pub.pem")
    assert response.content == own.service_public_key_pem
    assert response.headers["content-disposition"] == 'attachment; filename="service.pub.pem"'
    assert "default-src 'none'" in response.headers["content-security-policy"]


def test_the_next_key_is_made_before_the_switch(own: Sandbox, at_home: httpx.Client) -> None:
    """It is shown, copied and downloaded for the wallet, and nothing is signed with it yet."""
    before = own.service_public_key_pem
    for reply in (at_home.get("/keys/service-new.pub.pem"), post(at_home, "/keys/rotate")):
        assert reply.status_code == 409
        assert "There is no next key to switch to" in reply.text
    assert "/keys/rotate" not in page(at_home, "/keys").values("action")
    assert at_home.get("/keys/prepare").status_code == 405
    assert at_home.post("/keys/prepare").status_code == 415
    unprepared = own.prepared_service_key_pem
    assert unprepared is None
    assert post(at_home, "/keys/prepare").headers["location"] == "/keys#rotate-title"
    prepared = own.prepared_service_key_pem
    assert prepared is not None
    html = page(at_home, "/keys")
    assert PEM.findall(html.source)[:2] == [before.decode(), prepared.decode()]
    assert "/keys/rotate" in html.values("action")
    assert "next-key" in [each.get("data-copy") for each in html.all("button")]
    response = at_home.get("/keys/service-new.pub.pem")
    assert response.content == prepared
    assert response.headers["content-disposition"] == 'attachment; filename="service-new.pub.pem"'
    assert own.service_public_key_pem == before


def test_a_rotation_makes_a_new_key(own: Sandbox, at_home: httpx.Client) -> None:
    """A link alone does not; the form does, once, and the page says what to do next."""
    before, prepared = own.service_public_key_pem, own.prepare_service_key()
    assert at_home.get("/keys/rotate").status_code == 405
    assert at_home.post("/keys/rotate").status_code == 415
    assert own.service_public_key_pem == before
    rotated = post(at_home, "/keys/rotate")
    assert rotated.status_code == 303
    assert own.service_public_key_pem == prepared
    assert post(at_home, "/keys/rotate").status_code == 409
    assert own.service_public_key_pem == prepared
    html = page(at_home, rotated.headers["location"])
    assert "Switched. Webhooks are signed with the new key" in html.text
    assert PEM.findall(html.source)[0] == own.service_public_key_pem.decode()


class FullDisk:
    """Keeps no key."""

    where = "/full/disk"

    def keep(self, following: object) -> None:
        raise ConfigurationError("No space left. Nothing was switched.")


def test_a_switch_that_cannot_be_kept_is_told(private_key: RSAPrivateKey) -> None:
    """And the page says where keys are, which it does only if they are kept."""
    with room_with(private_key, key_keeper=FullDisk()) as room:
        before = room.sandbox.service_public_key_pem
        room.sandbox.prepare_service_key()
        refused = post(room.http, "/keys/rotate")
        assert refused.status_code == 409
        assert "No space left. Nothing was switched." in refused.text
        assert "/full/disk" in page(room.http, "/keys").text
        assert room.sandbox.service_public_key_pem == before


@pytest.fixture
def rotating(private_key: RSAPrivateKey) -> Iterator[tuple[Sandbox, httpx.Client, list[bytes]]]:
    """A sandbox with a wallet, its reader, and the keys that the wallet knows: add one, and it accepts it."""
    known: list[bytes] = []
    with room_with(private_key, Wallet(MemoryLedger({"p1": 10_000})), Knowing(known)) as room:
        known.append(room.sandbox.service_public_key_pem)
        yield room.sandbox, room.http, known


class Knowing:
    """Accepts calls by the keys in a list, as it is now."""

    def __init__(self, known: list[bytes]) -> None:
        self._known = known

    def authenticate(self, request: WebhookRequest, profile: Profile) -> None:
        """Return, or raise WebhookSignatureError."""
        RsaSignature(self._known).authenticate(request, profile)


def played(sandbox: Sandbox, http: httpx.Client) -> str:
    """Play a round, and return what its bet's page says."""
    (bet_id,) = sandbox.play_round(player_id="p1", wager_cents=100, won_cents=0).bet_ids
    return page(http, f"/bets?id={bet_id}").text


def test_a_rehearsal_of_a_key_change(rotating: tuple[Sandbox, httpx.Client, list[bytes]]) -> None:
    """Prepare, trust, rotate, play a round, retire: the wallet accepts each call, and in the end the new key alone."""
    sandbox, http, known = rotating
    post(http, "/keys/prepare")
    known.append(http.get("/keys/service-new.pub.pem").content)
    assert post(http, "/keys/rotate").headers["location"] == "/keys?rotated"
    assert "The wallet has confirmed that." in played(sandbox, http)
    del known[0]
    sandbox.faults.plan = FaultPlan.parse("old-key@1")
    assert "The wallet has confirmed that." in played(sandbox, http)
    assert [each.code for each in sandbox.live.recent() if each.signature == "old key"] == ["INVALID_SIGNATURE"]


BLAMED = "A correct wallet never does this"


def test_the_wallet_is_not_blamed_for_our_key(rotating: tuple[Sandbox, httpx.Client, list[bytes]]) -> None:
    """Below a round and a claim that are refused after a switch, and where the wallet has forgotten a key."""
    sandbox, http, known = rotating
    known.append(sandbox.prepare_service_key())

    def told() -> str:
        return page(http, play(http).headers["location"]).text

    assert BLAMED not in told()
    post(http, "/keys/prepare")
    post(http, "/keys/rotate")
    assert BLAMED not in told()
    post(http, "/keys/prepare")
    post(http, "/keys/rotate")
    refused = told()
    assert "The wallet does not know the key that signed this call." in refused
    assert BLAMED not in refused
    grant = {"player_id": "p1", "instance_id": sandbox.instance_id, "count": "2", "wager": "1", "unit": "days"}
    post(http, "/free-bets/grant", **grant, duration="1", reference_id="ours")
    free_bet_id = sandbox.world.grants()[-1].free_bet_id
    claimed = page(http, post(http, "/free-bets/claim", free_bet_id=free_bet_id).headers["location"]).text
    assert "Not claimed." in claimed
    assert BLAMED not in claimed
    known.append(sandbox.service_public_key_pem)
    assert BLAMED not in told()
    known[:] = [sandbox.prepare_service_key()]
    assert BLAMED not in told()


def test_no_page_shows_a_private_key(
    sandbox: Sandbox, http: httpx.Client, at_home: httpx.Client, private_pem: bytes
) -> None:
    """Neither in PEM nor a line of it, wherever it is looked for."""
    sandbox.play_round(player_id="p1", wager_cents=100, won_cents=0)
    secret_lines = [line for line in private_pem.decode().splitlines() if len(line) == 64]
    for reader in (http, at_home):
        for path in [*PATHS, "/status", "/keys/service.pub.pem", "/live/1", "/openapi.json"]:
            text = reader.get(path).text
            assert "PRIVATE" not in text
            assert not any(line in text for line in secret_lines)
