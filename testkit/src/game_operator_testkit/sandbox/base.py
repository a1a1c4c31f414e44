"""What all sandboxes have, over HTTP or in process: a world, a service that plays in it, and two keys."""

import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from game_operator.errors import ConfigurationError
from game_operator.profile import Profile
from game_operator.signers.keys import LocalSigner
from game_operator_testkit.provider.delivery import Carried, Delivery, Post
from game_operator_testkit.provider.keys import KeyKeeper, ServiceKeys, private_pem
from game_operator_testkit.sandbox.service.exchange_log import LiveLog
from game_operator_testkit.sandbox.service.requested_rounds import Settlement
from game_operator_testkit.sandbox.service.seed import populate
from game_operator_testkit.sandbox.service.state import PlayedRound, SandboxService
from game_operator_testkit.sandbox.service.world import SandboxWorld

if TYPE_CHECKING:
    from game_operator.client.async_ import AsyncOperatorClient
    from game_operator.client.sync import OperatorClient

T = TypeVar("T")

#: Brings a post to the wallet.
Carry: TypeAlias = Callable[[Post], Awaitable[Carried]]


class SandboxBase(ABC):
    """
    What all sandboxes have; how calls travel is up to each.

    Args:
        operator_id, seed, clock, profile: As for ``Sandbox``.
        operator_key: The operator's private key, or the public half if the private one is the user's alone.
        service_keys: Makes what webhooks are signed with, when it is first needed.
        key_keeper: Keeps the service's keys over a restart; None forgets them.
    """

    def __init__(
        self,
        operator_id: str,
        operator_key: RSAPrivateKey | RSAPublicKey,
        service_keys: Callable[[], ServiceKeys],
        *,
        seed: int | None,
        clock: Callable[[], int] | None,
        profile: Profile | None,
        key_keeper: KeyKeeper | None = None,
    ) -> None:
        self.key_keeper: KeyKeeper | None = key_keeper
        """Keeps the service's keys over a restart, or None."""
        self._rotation = Lock()
        self._clock = clock or (lambda: time.time_ns() // 1_000_000)
        self._private_key = operator_key if isinstance(operator_key, RSAPrivateKey) else None
        public_key = operator_key.public_key() if isinstance(operator_key, RSAPrivateKey) else operator_key
        self.operator_id: Final = operator_id
        """The operator that is registered."""
        self.world: SandboxWorld = SandboxWorld(operator_id, public_key)
        """What the service knows; change it at any time."""
        self.landmarks: Final = populate(self.world, seed, self._clock())
        """The instance, bets and rounds that the seed put there to be asked about."""
        self.instance_id: Final = self.landmarks.instance_id
        """A known, active game instance."""
        self.bet_ids: Final = self.landmarks.bet_ids
        """Bet ids by state: OPEN, CLOSED, ROLLED_BACK; LOST is closed with nothing won, EXPIRED is not found."""
        self.round_id: Final = self.landmarks.round_id
        """A round of ``instance_id`` with many bets."""
        self.round_no: Final = self.landmarks.round_no
        """The number of that round."""
        self.service: SandboxService = SandboxService(
            self.world,
            service_keys,
            self._clock,
            seed=seed or 0,
            default_instance_id=self.instance_id,
            profile=profile or Profile(),
        )
        """The service: its faults, retries and keys, what it dealt, and what it saw on the wire."""
        self.faults: Final = self.service.faults
        """The faults, to be switched on and off; see ``game_operator_testkit.sandbox.FAULTS``."""
        self.lies: Final = self.service.lies
        """What the Operator API answers in place of the truth, for tests."""

    @property
    def private_key_pem(self) -> bytes:
        """
        The operator's private key, made for you, as PKCS#8 PEM.

        Raises:
            ConfigurationError: You passed ``operator_public_key``, so the key is yours alone.
        """
        return private_pem(self._own_key())

    @property
    def service_public_key_pem(self) -> bytes:
        """What the operator verifies webhooks with: the service's public key, in PEM."""
        return self.service.keys.current.public_key_pem()

    @property
    def live(self) -> LiveLog:
        """The newest exchanges, of both directions."""
        return self.service.live

    @property
    @abstractmethod
    def base_url(self) -> str:
        """Where the Operator API is, without ``/api/v0.2``."""

    def client(self, **options: Any) -> "OperatorClient":
        """
        Return a client of this sandbox; *options* are those of ``OperatorClient``. Proxy variables do not count.

        Raises:
            ConfigurationError: The sandbox is not running, or the operator's key is yours.
        """
        from game_operator.client.sync import OperatorClient

        options = self._client_options() | options
        return OperatorClient(self.base_url, self.operator_id, self._own_key(), **options)

    def async_client(self, **options: Any) -> "AsyncOperatorClient":
        """
        Return an async client of this sandbox; see ``client``.

        Raises:
            ConfigurationError: The sandbox is not running, or the operator's key is yours.
        """
        from game_operator.client.async_ import AsyncOperatorClient

        options = self._client_options(is_async=True) | options
        return AsyncOperatorClient(self.base_url, self.operator_id, self._own_key(), **options)

    def play_round(
        self,
        *,
        player_id: str,
        wager_cents: int,
        won_cents: int | None = None,
        cancel: bool = False,
        instance_id: str | None = None,
        round_id: str | None = None,
        settlement: Settlement = "send",
    ) -> PlayedRound:
        """
        Play a round of one bet against the wallet: withdraw, then deposit or rollback (spec §3).

        A call that is not answered definitely is repeated at once: the hours that a service would wait are simulated.

        Args:
            player_id: Who bets.
            wager_cents: The wager, within the limits of the instance.
            won_cents: What is won, 0 for a loss; None leaves it to the game's rules.
            cancel: Cancel the bet instead of settling it.
            instance_id: Where; ``self.instance_id`` if None.
            round_id: A round that was played before, for one more bet in it; a new round if None.
            settlement: ``send`` sends the deposit or rollback. ``hold`` keeps it back until ``release_held``, ``lose``
                for ever: the bet is then over for the service, and open at the wallet.

        Raises:
            ConfigurationError: There is no wallet, the sandbox is not running, or the round cannot be played; in
                process also if the wallet is async and an event loop runs in this thread.
            TransportError: Over HTTP: the wallet cannot be reached, or has answered nothing definite for a minute.
        """
        self._check_ready()
        planned = self.service.requested.round(
            player_id=player_id,
            wager_cents=wager_cents,
            won_cents=won_cents,
            cancel=cancel,
            instance_id=instance_id,
            round_id=round_id,
            settlement=settlement,
        )
        return self._run(partial(self.service.play, planned))

    def claim_free_bets(self, free_bet_id: str) -> PlayedRound:
        """
        Play the free bets of a grant, claim their winnings by a deposit of action FREE_BET_CLAIM, and return the round.

        Raises:
            ConfigurationError: As for ``play_round``; or there is no such grant, or it is claimed or expired.
            TransportError: As for ``play_round``.
        """
        self._check_ready()
        return self._run(partial(self.service.play, self.service.requested.claim(free_bet_id)))

    def release_held(self, *, lost: bool = False) -> tuple[Delivery, ...]:
        """
        Send the deposits and rollbacks that were held back, and return the wallet's answers; none if none were.

        What gets no definite answer may be released again.

        Args:
            lost: Send those too that were never to be sent.

        Raises:
            ConfigurationError, TransportError: As for ``play_round``.
        """
        return self._run(partial(self.service.release, lost=lost))

    def _client_options(self, *, is_async: bool = False) -> dict[str, Any]:  # noqa: ARG002 - of use in process
        """Return options of ``OperatorClient``, whose types differ."""
        return {"trust_env": False}

    @abstractmethod
    def _check_ready(self) -> object:
        """Raise ConfigurationError unless the wallet can be called."""

    @abstractmethod
    def _run(self, work: Callable[[Carry], Coroutine[Any, Any, T]]) -> T:
        """Do *work* with what brings posts to the wallet, and return what comes of it."""

    @property
    def prepared_service_key_pem(self) -> bytes | None:
        """The public half of the service's next key, in PEM, or None if it is not made yet."""
        following = self.service.keys.following
        return None if following is None else LocalSigner(following).public_key_pem()

    def prepare_service_key(self) -> bytes:
        """Make the service's next key, if there is none, and return its public half, in PEM; nothing is switched."""
        with self._rotation:
            return LocalSigner(self.service.keys.prepared()).public_key_pem()

    def rotate_service_key(self, *, only_prepared: bool = False) -> bytes:
        """
        Sign webhooks with the next key from now on, made if there is none yet, and return its public half, in PEM.

        Args:
            only_prepared: Switch only to a key that was prepared, which the wallet may know already.

        Raises:
            ConfigurationError: The keys cannot be kept, or none is prepared; then the service signs with the one it
                had.
        """
        with self._rotation:
            keys = self.service.keys
            if only_prepared and keys.following is None:
                raise ConfigurationError("There is no next key to switch to (any more). Make one first.")
            if self.key_keeper is not None:
                self.key_keeper.keep(keys.prepared())
            self.service.switch_keys(keys.rotated())
            return self.service_public_key_pem

    def _own_key(self) -> RSAPrivateKey:
        if self._private_key is None:
            raise ConfigurationError(
                "The operator's private key is yours: this sandbox knows its public half alone. Build the client "
                "yourself with that key, or leave operator_public_key out and have a pair made."
            )
        return self._private_key
