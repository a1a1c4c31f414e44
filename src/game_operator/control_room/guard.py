"""
Who may see and use the control room: the person at this machine, and no page of another site in their browser.

A name that somebody points at 127.0.0.1 is refused by its Host header. A form of another site is refused by
``Sec-Fetch-Site``, ``Origin`` and the token of our forms (``forms.py``). No page can be framed.
"""

from collections.abc import Mapping
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message, Send

#: What every answer of the control room carries, unless it says otherwise itself.
_HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
_HTTP_PORT: Final = 80


def check_host(request: Request, bound: str) -> None:
    """
    Raise unless the request asks for this machine by an address, or by *bound*, the host that the sandbox was given.

    Raises:
        HTTPException: With 421.
    """
    # Where the connection came in, as the socket says it: with a listener on all addresses, the one that was called.
    host, port = request.scope["server"]
    address = _in_url(host)
    names = {address, _in_url(bound.lower()), *_LOCAL_NAMES}
    admitted = {f"{name}:{port}" for name in names} | (names if port == _HTTP_PORT else set())
    if request.headers.get("host", "").lower() in admitted:
        return
    here = f"http://localhost:{port}/"
    advice = f"Ask for {here} ."
    if address not in _LOCAL_NAMES:
        # Any name can be pointed at this machine, so no name is believed.
        advice = f"Ask for it by its address, http://{address}:{port}/ ; at the machine itself, {here} will do too."
    raise HTTPException(421, f"This is a control room for the person at this machine. {advice}")


def check_origin(request: Request) -> None:
    """
    Raise if the request changes something and another site has sent it. Call ``check_host`` first.

    Raises:
        HTTPException: With 403.
    """
    if request.method in {"GET", "HEAD"}:
        return
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    own = f"http://{request.headers['host'].lower()}"
    # Browsers send "null" with the forms of a page whose referrer policy is no-referrer, as ours are. A foreign page
    # could have it sent as well, but not together with "same-origin".
    admitted = {None, own, "null"} if site == "same-origin" else {None, own}
    if site not in {None, "same-origin", "none"} or origin not in admitted:
        raise HTTPException(
            403, "This form was sent by a page of another site, and nothing was done. Use the one in here."
        )


def locked_down(send: Send) -> Send:
    """Return *send* such that every answer forbids what no page of ours needs."""

    async def sends(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sends


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
