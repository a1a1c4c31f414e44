"""Keys: what to register where, and how to rotate. Public halves alone: no private key ever comes to a page."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from game_operator.control_room.desk import Desk
from game_operator.control_room.streams import Streams
from game_operator.errors import ConfigurationError
from game_operator.signers.keys import load_public_key

__all__ = ["PATH", "TITLE", "routes"]

PATH: Final = "/keys"
TITLE: Final = "Keys"

_SEE_OTHER: Final = 303
_CONFLICT: Final = 409
_NONE_PREPARED: Final = "There is no next key to switch to (any more). Make one first: step 1."


def routes(desk: Desk, streams: Streams) -> Sequence[Route]:  # noqa: ARG001 - as every page
    """Return the page, the service's keys as files, and the forms that prepare the next one and switch to it."""
    keys = _Keys(desk)
    return [
        Route(PATH, keys.show),
        Route(f"{PATH}/service.pub.pem", keys.download),
        Route(f"{PATH}/service-new.pub.pem", keys.download_next),
        Route(f"{PATH}/prepare", keys.prepare, methods=["POST"]),
        Route(f"{PATH}/rotate", keys.rotate, methods=["POST"]),
    ]


class _Keys:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._sandbox = desk.sandbox

    async def show(self, request: Request) -> Response:
        return await self._page(request)

    async def _page(self, request: Request, *, status: int = 200, problem: str = "") -> Response:
        # In a thread: the service's key may have to be made first.
        service_pem = await run_in_threadpool(lambda: self._sandbox.service_public_key_pem)
        service_key, operator = load_public_key(service_pem), self._sandbox.world.account(self._sandbox.operator_id)
        next_pem = self._sandbox.prepared_service_key_pem
        next_key = None if next_pem is None else load_public_key(next_pem)
        keeper = self._sandbox.key_keeper
        return self._desk.page(
            request,
            "keys.html",
            status=status,
            problem=problem,
            where="" if keeper is None else keeper.where,
            next_pem="" if next_pem is None else next_pem.decode(),
            next_fingerprint="" if next_key is None else fingerprint(next_key),
            next_bits=0 if next_key is None else next_key.key_size,
            service_pem=service_pem.decode(),
            service_fingerprint=fingerprint(service_key),
            service_bits=service_key.key_size,
            operator_pem="" if operator is None else _pem(operator.public_key),
            operator_fingerprint="" if operator is None else fingerprint(operator.public_key),
            operator_bits=0 if operator is None else operator.public_key.key_size,
            rotated="rotated" in request.query_params,
        )

    async def download(self, request: Request) -> Response:  # noqa: ARG002 - as every route
        pem = await run_in_threadpool(lambda: self._sandbox.service_public_key_pem)
        return _file("service.pub.pem", pem)

    async def download_next(self, request: Request) -> Response:
        pem = self._sandbox.prepared_service_key_pem
        return await self._not_prepared(request) if pem is None else _file("service-new.pub.pem", pem)

    async def prepare(self, request: Request) -> Response:
        await self._desk.form(request)
        await run_in_threadpool(self._sandbox.prepare_service_key)
        return RedirectResponse(f"{PATH}#rotate-title", _SEE_OTHER)

    async def rotate(self, request: Request) -> Response:
        await self._desk.form(request)
        try:
            # Pressed twice, it would else switch to a key that no wallet knows.
            await run_in_threadpool(self._sandbox.rotate_service_key, only_prepared=True)
        except ConfigurationError as failed:
            return await self._page(request, status=_CONFLICT, problem=str(failed))
        return RedirectResponse(f"{PATH}?rotated", _SEE_OTHER)

    async def _not_prepared(self, request: Request) -> Response:
        return await self._page(request, status=_CONFLICT, problem=_NONE_PREPARED)


def _file(name: str, pem: bytes) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(pem, headers=headers, media_type="application/x-pem-file")


def fingerprint(key: RSAPublicKey) -> str:
    """Return what to compare a key by: SHA-256 of its DER, as openssl prints it."""
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return sha256(der).digest().hex(":").upper()


def _pem(key: RSAPublicKey) -> str:
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
