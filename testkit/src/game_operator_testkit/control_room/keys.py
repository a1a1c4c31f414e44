"""Keys: what to register where, and how to rotate. Public halves alone: no private key ever reaches a page."""

from collections.abc import Sequence
from typing import ClassVar, Final

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from game_operator.errors import ConfigurationError
from game_operator.signers.keys import load_public_key
from game_operator_testkit.control_room.page_context import Page, see_other
from game_operator_testkit.control_room.status import short
from game_operator_testkit.provider.keys import fingerprint

_SERVICE_FILE: Final = "service.pub.pem"
_NEXT_FILE: Final = "service-new.pub.pem"
_NONE_PREPARED: Final = "There is no next key to switch to (any more). Make one first: step 1."


class KeysPage(Page):
    """The page, the service's keys as files, and the forms that rotate the key, step by step."""

    PATH: ClassVar[str] = "/keys"
    TITLE: ClassVar[str] = "Keys"
    FORMS: ClassVar[Sequence[str]] = ("prepare", "rotate")

    def routes(self) -> Sequence[Route]:  # noqa: D102 - as every page
        files = [Route(f"{self.PATH}/{name}", self.download) for name in (_SERVICE_FILE, _NEXT_FILE)]
        return [*super().routes(), *files]

    async def show(self, request: Request, problem: str = "") -> Response:
        """Show the keys, and a *problem* if there is one."""
        # In a thread: the service's key may have to be made first.
        keys = await run_in_threadpool(lambda: self._sandbox.service.keys)
        next_pem = self._sandbox.prepared_service_key_pem
        return self._context.page(
            request,
            "keys.html",
            status=409 if problem else 200,
            problem=problem,
            service_key=_shown(keys.current.public_key_pem()),
            next_key=None if next_pem is None else _shown(next_pem),
            operator_key=_shown(self._sandbox.world.public_key),
        )

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

    async def rotate(self, request: Request) -> Response:
        """Switch to the next key."""
        await self._context.form(request)
        try:
            # Pressed twice, it would else switch to a key that no wallet knows.
            await run_in_threadpool(self._sandbox.rotate_service_key, only_prepared=True)
        except ConfigurationError as failed:
            return await self.show(request, str(failed))
        return see_other(f"{self.PATH}?rotated")


def _shown(source: bytes | RSAPublicKey) -> dict[str, str | int]:
    """Return a public key as the page shows it, with its fingerprint, to compare it by."""
    key = load_public_key(source)
    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    return {"pem": pem, "bits": key.key_size, "fingerprint": fingerprint(key), "short": short(fingerprint(key))}
