"""Style, scripts and icon, read once and served from memory: no path of a request ever reaches the disk."""

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from game_operator.control_room.refusal import NotServedError

__all__ = ["static_file"]

_FOLDER: Final = Path(__file__).with_name("static")
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


class _File(NamedTuple):
    content: bytes
    media_type: str
    etag: str


async def static_file(request: Request) -> Response:
    """Return the file that the path names."""
    found = _files().get(request.path_params["name"])
    if found is None:
        raise NotServedError(404, "There is no such file.")
    # Asked for again each time, and sent again only when it has changed, as it does with another version.
    headers = {"cache-control": "no-cache", "etag": found.etag}
    if request.headers.get("if-none-match") == found.etag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.media_type, headers=headers)


@cache
def _files() -> dict[str, _File]:
    files = {}
    for path in _FOLDER.iterdir():
        if path.suffix in _TYPES:
            content = path.read_bytes()
            files[path.name] = _File(content, _TYPES[path.suffix], f'"{sha256(content).hexdigest()[:32]}"')
    return files
