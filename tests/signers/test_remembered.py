"""Signatures are made once and remembered: the operator id's for ever, 1,024 others for a while (spec §5)."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import anyio
import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from game_operator import BetNotFound, OperatorClient, SigningKeyError
from game_operator.protocol.signing import Signature, verify
from game_operator.signers.keys import RememberedSignatures
from tests.signers.conftest import Keys

OPERATOR = b"acme"
REMEMBERED = 1024


class Counting:
    """A signer that makes signatures out of thin air and counts how often it is asked."""

    def __init__(self, failures: int = 0, size: int = 256) -> None:
        self.asked: Counter[bytes] = Counter()
        self.failures = failures
        self.size = size

    def sign(self, message: bytes) -> bytes:
        self.asked[message] += 1
        if self.asked.total() <= self.failures:
            raise ConnectionError("the key is out of reach")
        return message.rjust(self.size, b".")


class CountingAsync(Counting):
    """The same, awaited; it lets others run before it answers."""

    async def sign(self, message: bytes) -> bytes:  # type: ignore[override] # a twin, not a stand-in
        await anyio.lowlevel.checkpoint()
        return super().sign(message)


def expected(message: bytes) -> Signature:
    """Return what a ``Counting`` signer's signature looks like in the header."""
    return Signature.of(message.rjust(256, b"."))


def numbered(count: int) -> list[bytes]:
    """Return *count* messages, all different."""
    return [b"acme:bet-%d" % number for number in range(count)]


@pytest.mark.parametrize(
    ("others", "first_again"),
    [
        pytest.param(REMEMBERED - 1, 1, id="with 1,023 others it is still known"),
        pytest.param(REMEMBERED, 2, id="with 1,024 others it is signed again"),
    ],
)
def test_the_memory_is_bounded(others: int, first_again: int) -> None:
    """1,024 signatures are kept (spec §5)."""
    signer = Counting()
    signatures = RememberedSignatures(signer)
    first, *rest = numbered(others + 1)
    for message in [first, *rest, first]:
        signatures.sign(message)
    assert signer.asked[first] == first_again


async def test_what_was_used_lately_is_kept() -> None:
    """Using a signature again keeps it; the one not used for longest goes (spec §5)."""
    used, unused, *rest = numbered(REMEMBERED + 1)
    signer, async_signer = Counting(), CountingAsync()
    signatures, async_signatures = RememberedSignatures(signer), RememberedSignatures(async_signer)
    for message in [used, unused, *rest[:100], used, *rest, used, unused]:
        signatures.sign(message)
        await async_signatures.sign_async(message)
    for asked in (signer.asked, async_signer.asked):
        assert asked[used] == 1
        assert asked[unused] == 2


@pytest.mark.parametrize("message", [pytest.param(OPERATOR, id="the id"), pytest.param(b"acme:bet-1", id="a bet")])
async def test_a_failure_is_not_remembered(message: bytes) -> None:
    """The signer's error arrives as it is, and the next call asks again (spec §5)."""
    signer, async_signer = Counting(failures=1), CountingAsync(failures=1)
    signatures, async_signatures = RememberedSignatures(signer), RememberedSignatures(async_signer)
    with pytest.raises(ConnectionError, match="out of reach"):
        signatures.sign(message)
    with pytest.raises(ConnectionError, match="out of reach"):
        await async_signatures.sign_async(message)
    for _ in range(3):
        assert signatures.sign(message) == await async_signatures.sign_async(message) == expected(message)
    assert signer.asked == async_signer.asked == {message: 2}


async def test_a_signature_of_the_wrong_size_is_refused_and_not_remembered() -> None:
    """128 bytes come from a key under 2048 bits, every time (spec §5)."""
    short, short_async = Counting(size=128), CountingAsync(size=128)
    signatures, async_signatures = RememberedSignatures(short), RememberedSignatures(short_async)
    for _ in range(2):
        with pytest.raises(SigningKeyError, match="128 bytes"):
            signatures.sign(OPERATOR)
        with pytest.raises(SigningKeyError, match="128 bytes"):
            await async_signatures.sign_async(OPERATOR)
    assert short.asked == short_async.asked == {OPERATOR: 2}


def test_threads_may_share_a_memory() -> None:
    """Threads that ask for the same and for other messages all get the right signature (spec §5)."""
    signer = Counting()
    signatures = RememberedSignatures(signer)
    messages = [OPERATOR, *numbered(1500)] * 4
    start = threading.Barrier(4)

    def work(offset: int) -> bool:
        start.wait()
        return all(signatures.sign(message) == expected(message) for message in messages[offset::4])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
    assert set(signer.asked) == set(messages)


async def test_tasks_that_ask_at_once_each_ask_the_signer_and_agree() -> None:
    """Callers do not wait for one another's signature: one that is cancelled takes none along (spec §5)."""
    signer = CountingAsync()
    signatures = RememberedSignatures(signer)
    told: list[Signature] = []

    async def ask() -> None:
        told.append(await signatures.sign_async(b"acme:bet-1"))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(ask)
    assert told == [expected(b"acme:bet-1")] * 3
    assert signer.asked[b"acme:bet-1"] == 3
    await ask()
    assert signer.asked[b"acme:bet-1"] == 3


class Service:
    """A service that keeps the signatures it is sent."""

    def __init__(self) -> None:
        self.signatures: list[bytes] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.signatures.append(request.headers["X-Signature"].encode())
        return httpx.Response(200, json={"status": "NOT_FOUND"})


def test_clients_with_different_keys_share_no_signature(
    private_key: RSAPrivateKey, public_key: RSAPublicKey, keys: Keys
) -> None:
    """The same bet, signed by two operators' keys, carries two signatures; each is its own key's (spec §5)."""
    service = Service()
    with httpx.Client(transport=httpx.MockTransport(service)) as http_client:
        ours = OperatorClient("https://api.example.com", "acme", private_key, http_client=http_client)
        theirs = OperatorClient("https://api.example.com", "acme", keys.other, http_client=http_client)
        for client in (ours, theirs, ours):
            assert isinstance(client.fetch_bet("bet-1"), BetNotFound)
    first, second, third = service.signatures
    assert verify(public_key, b"acme:bet-1", first)
    assert verify(keys.other.public_key(), b"acme:bet-1", second)
    assert first == third != second
