"""Keys: what to register where, and how to rotate. Public halves alone: no private key ever reaches a page."""

from collections.abc import Sequence
from typing import ClassVar, Final

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from game_operator.errors import ConfigurationError, TransportError
from game_operator.signers.keys import load_public_key
from game_operator_testkit.control_room.outcomes import hint, unreachable_wallet
from game_operator_testkit.control_room.page_context import Page, see_other
from game_operator_testkit.control_room.status import short
from game_operator_testkit.provider.keys import fingerprint
from game_operator_testkit.sandbox.service.exchange_log import Exchange

_SERVICE_FILE: Final = "service.pub.pem"
_NEXT_FILE: Final = "service-new.pub.pem"
_NONE_PREPARED: Final = "There is no next key to switch to (any more). Make one first: step 1."


class KeysPage(Page):
    """The page, the service's keys as files, and the forms that rotate the key, step by step."""

    PATH: ClassVar[str] = "/keys"
    TITLE: ClassVar[str] = "Keys"
    FORMS: ClassVar[Sequence[str]] = ("prepare", "ask", "rotate", "retire")
    #: The key that the wallet was asked about last, and the call, or why there was none.
    _check: tuple[bytes, Exchange | None, str] | None = None

    def routes(self) -> Sequence[Route]:  # noqa: D102 - as every page
        files = [Route(f"{self.PATH}/{name}", self.download) for name in (_SERVICE_FILE, _NEXT_FILE)]
        return [*super().routes(), *files, Route(f"{self.PATH}/switch", self.switch)]

    async def show(self, request: Request, problem: str = "") -> Response:
        """Show the keys, and a *problem* if there is one."""
        return await self._page(request, "keys.html", problem)

    async def switch(self, request: Request) -> Response:
        """Ask whether to switch to the next key."""
        if self._sandbox.prepared_service_key_pem is None:
            return await self.show(request, _NONE_PREPARED)
        return await self._page(request, "key_switch.html")

    async def download(self, request: Request) -> Response:
        """Return the service's key as a file, or the next one."""
        name, pem = _NEXT_FILE, self._sandbox.prepared_service_key_pem
        if request.url.path.endswith(_SERVICE_FILE):
            name, pem = _SERVICE_FILE, await run_in_threadpool(lambda: self._sandbox.service_public_key_pem)
        if pem is None:
            return await self.show(request, _NONE_PREPARED)
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(pem, headers=headers, media_type="application/x-pem-file")

    async def prepare(self, request: Request) -> Response:
        """Make the next key."""
        await self._context.form(request)
        await run_in_threadpool(self._sandbox.prepare_service_key)
        return see_other(f"{self.PATH}#rotate-title")

    async def ask(self, request: Request) -> Response:
        """Ask the wallet whether it knows the next key."""
        await self._context.form(request)
        pem, player_id = self._sandbox.prepared_service_key_pem, self._context.likely_player()
        if pem is None:
            return await self.show(request, _NONE_PREPARED)
        try:
            asked = await self._context.call_wallet(self._sandbox.ask_with_next_key, player_id)
            self._check = pem, asked, hint(asked, self._sandbox.service.key_history.now)
        except TransportError as unreachable:
            self._check = pem, None, unreachable_wallet(self._sandbox, unreachable)
        except ConfigurationError as failed:
            return await self.show(request, str(failed))
        return see_other(f"{self.PATH}#ask-title")

    async def rotate(self, request: Request) -> Response:
        """Switch to the next key."""
        await self._context.form(request)
        try:
            # Pressed twice, it would else switch to a key that no wallet knows.
            await run_in_threadpool(self._sandbox.rotate_service_key, only_prepared=True)
        except ConfigurationError as failed:
            return await self.show(request, str(failed))
        return see_other(f"{self.PATH}?rotated")

    async def retire(self, request: Request) -> Response:
        """Let a wallet in this process forget the key before the latest switch."""
        await self._context.form(request)
        if self._sandbox.teach_wallet is None:
            return await self.show(request, "This wallet runs elsewhere: take the old key out of it there.")
        await run_in_threadpool(self._sandbox.retire_old_service_key)
        return see_other(f"{self.PATH}?retired")

    async def _page(self, request: Request, template: str, problem: str = "") -> Response:
        # In a thread: the service's key may have to be made first.
        keys = await run_in_threadpool(lambda: self._sandbox.service.keys)
        operator = self._sandbox.world.account(self._sandbox.operator_id)
        next_pem = self._sandbox.prepared_service_key_pem
        next_key = None if next_pem is None else _shown(load_public_key(next_pem))
        period = self._sandbox.service.key_history.now
        old = None if period.began_millis is None else load_public_key(keys.old.public_key_pem())
        previous = "" if old is None else short(fingerprint(old))
        return self._context.page(
            request,
            template,
            status=409 if problem else 200,
            problem=problem,
            service_key=_shown(load_public_key(keys.current.public_key_pem())),
            next_key=next_key,
            previous_key=previous,
            operator_key=None if operator is None else _shown(operator.public_key),
            check=self._check if self._check and self._check[0] == next_pem else None,
            period=period,
        )


def _shown(key: RSAPublicKey) -> dict[str, str | int]:
    """Return a public key as the page shows it, with its fingerprint, to compare it by."""
    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    return {"pem": pem, "bits": key.key_size, "fingerprint": fingerprint(key), "short": short(fingerprint(key))}
