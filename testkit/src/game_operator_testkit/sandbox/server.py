"""The sandbox: a world behind a port of this machine, for as long as a ``with`` block lasts."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar

from starlette.types import ASGIApp, Receive, Scope, Send

from game_operator.errors import ConfigurationError
from game_operator.profile import Profile
from game_operator.signers.keys import PublicKeySource, load_public_key
from game_operator_testkit.provider.delivery import DeliveryInDoubtError
from game_operator_testkit.provider.keys import KeyKeeper, ServiceKeys, SigningKey, new_key
from game_operator_testkit.sandbox.base import Carry, SandboxBase
from game_operator_testkit.sandbox.service.exchange_log import Exchange
from game_operator_testkit.sandbox.serving import ServingThread, application, listening_socket, loopback, tcp_port

if TYPE_CHECKING:
    from game_operator_testkit.provider.http import HttpCarrier

T = TypeVar("T")

#: Nobody waits longer for a wallet that answers nothing definite.
_PLAY_SECONDS: Final = 60.0


class Pages(Protocol):
    """An ASGI application that is served in place of the Operator API, which it passes on."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

    def stop(self) -> None:
        """End what would outlast the server. Called in the server's event loop."""


class Sandbox(SandboxBase):
    """
    The service, played over real HTTP on loopback (spec §4.2, §5).

    It serves inside its ``with`` block, in its own thread, and any number of sandboxes may serve at once. Its state
    lies in ``world``, is there before the block and survives it.

    Args:
        operator_id: The operator that is registered.
        operator_public_key: Its public key: a path, a PEM or a key object. None makes a key pair, and then
            ``private_key_pem``, ``client`` and ``async_client`` have the private half.
        wallet_url: The wallet that rounds are played against; it may be set later.
        host: An address of this machine and no other, unless ``allow_remote``.
        port: The port to listen on; 0 takes a free one.
        seed: The same seed makes the same games, bets and rounds; None stands for 0.
        clock: The service's clock, in Unix milliseconds; bets and rounds age by it. None is the machine's.
        service_private_key: What webhooks are signed with: a path, a PEM or a key object. None makes one.
        old_service_key: The key before a rotation, which the fault ``old-key`` signs with. None makes one.
        key_keeper: Keeps the keys of each rotation, so that they survive a restart. None forgets them.
        allow_remote: Whether other machines may reach it: its control room has no password.
        record: A file for the exchanges of ``live``: those of earlier runs are there from the start of the block, and
            new ones are written to it. It has the signatures of all calls. None keeps them in memory alone.
        profile: What is assumed: names of fields, and the signature's header.
        control_room: Makes the pages that are served beside the Operator API, from this sandbox and the API. Pass
            ``game_operator_testkit.control_room.ControlRoom``. None serves the API alone.

    Raises:
        ConfigurationError: A setting cannot work; on entering the block, if the port cannot be had.
    """

    def __init__(
        self,
        operator_id: str = "acme",
        operator_public_key: PublicKeySource | None = None,
        wallet_url: str | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        seed: int | None = None,
        clock: Callable[[], int] | None = None,
        service_private_key: SigningKey | None = None,
        old_service_key: SigningKey | None = None,
        key_keeper: KeyKeeper | None = None,
        profile: Profile | None = None,
        control_room: "Callable[[Sandbox, ASGIApp], Pages] | None" = None,
        allow_remote: bool = False,
        record: Path | None = None,
    ) -> None:
        try:
            service_keys = ServiceKeys.maker(service_private_key, old_service_key)
        finally:
            # Error trackers show the locals of every frame that an error passes.
            del service_private_key, old_service_key
        self._host, self._port = host if allow_remote else loopback(host), tcp_port(port)
        self._allow_remote = allow_remote
        super().__init__(
            operator_id,
            new_key() if operator_public_key is None else load_public_key(operator_public_key),
            service_keys,
            seed=seed,
            clock=clock,
            profile=profile,
            key_keeper=key_keeper,
        )
        self._running: ServingThread | None = None
        #: Where the wallet is whose webhooks are called, or None.
        self.wallet_url: str | None = wallet_url
        self._make_pages = control_room
        self._record = record

    @property
    def base_url(self) -> str:
        """
        Where the Operator API is, without ``/api/v0.2``.

        Raises:
            ConfigurationError: The sandbox is not running.
        """
        if self._running is None:
            raise ConfigurationError("The sandbox has an address only while it runs. Use it in `with Sandbox() as …:`.")
        return self._running.base_url

    def redeliver(self, number: int) -> Exchange:
        """
        Send the webhook with this *number* in the live log again, byte for byte, and return the new exchange.

        Its signature is sent again too.

        Raises:
            ConfigurationError: There is no such webhook any more, or no wallet.
            TransportError: The wallet cannot be reached.
        """
        running, wallet_url = self._check_ready()
        before = self.live.exchange(number)
        if before is None or before.direction != "webhook":
            raise ConfigurationError(f"There is no webhook number {number} in the live log (any more).")
        again = before.path, before.request_body, before.request_headers
        carried = running.run(self._carried(wallet_url, lambda carrier: carrier.carry_again(*again)))
        return self.service.saw_again(before, carried)

    def __enter__(self) -> Self:
        if self._running is not None:
            raise ConfigurationError(f"This sandbox already runs at {self.base_url}. Make a second one instead.")
        app: ASGIApp = application(self.service.answered, self._clock)
        pages = None if self._make_pages is None else self._make_pages(self, app)
        with ExitStack() as if_it_fails:
            if self._record is not None:
                self.live.keep_in(self._record)
                if_it_fails.callback(self.live.close_file)
            self._running = ServingThread(
                listening_socket(self._host, self._port, allow_remote=self._allow_remote),
                app if pages is None else pages,
                lambda: None if pages is None else pages.stop(),
            )
            if_it_fails.pop_all()
        return self

    def __exit__(self, *_exc: object) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.stop()
        self.live.close_file()

    def __repr__(self) -> str:
        if not hasattr(self, "_running"):
            # Error trackers show the locals of a constructor that failed.
            return "Sandbox(…)"
        where = "not running" if self._running is None else self._running.base_url
        return f"Sandbox({self.operator_id!r}, {where})"

    def _check_ready(self) -> "tuple[ServingThread, str]":
        """Return where webhooks are sent from, and the wallet that they go to."""
        if self._running is None:
            raise ConfigurationError("The sandbox plays only while it runs. Use it in `with Sandbox() as …:`.")
        if self.wallet_url is None:
            raise ConfigurationError("The sandbox knows no wallet. Pass wallet_url=, or set it, to play rounds.")
        return self._running, self.wallet_url

    def _run(self, work: Callable[[Carry], Coroutine[Any, Any, T]]) -> T:
        running, wallet_url = self._check_ready()
        return running.run(self._done(work, wallet_url))

    async def _done(self, work: Callable[[Carry], Coroutine[Any, Any, T]], wallet_url: str) -> T:
        began = time.monotonic()
        try:
            async with asyncio.timeout(_PLAY_SECONDS):
                return await self._carried(wallet_url, lambda carrier: work(carrier.carry_post))
        except TimeoutError:
            reason = f"the wallet at {wallet_url} has answered nothing definite for {_PLAY_SECONDS:g} s"
            raise DeliveryInDoubtError(reason, elapsed_seconds=time.monotonic() - began, timed_out=True) from None

    async def _carried(self, wallet_url: str, carry: "Callable[[HttpCarrier], Coroutine[Any, Any, T]]") -> T:
        """Return what comes of *carry* with a carrier to the wallet."""
        from game_operator_testkit.provider.http import HttpCarrier

        async with aclosing(HttpCarrier(wallet_url, self.service.keys, profile=self.service.profile)) as carrier:
            return await carry(carrier)
