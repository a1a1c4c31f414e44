"""
Settings of a connection: its address, its times, how much of an answer is read, and its proxy.

The proxy is that of the client's argument, or that which HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names for an address.
NO_PROXY is read as Python's standard library reads it.
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from game_operator.errors import ConfigurationError, shown, without_frames
from game_operator.protocol.http import is_loopback

_PORTS = {"http": 80, "https": 443}
#: A name, an IPv4 or a bracketed IPv6 address, and perhaps a port: neither empty, nor a template that nobody filled in.
_LABEL = r"[A-Za-z0-9_-]{1,63}"
_AUTHORITY = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*\.?|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?\Z")
_PROXY_ARGUMENT: Final = (
    "Pass one like http://user:password@proxy.example.com:3128; https:// and socks5:// are fine, too. In a password, "
    "write / as %2F, @ as %40 and : as %3A."
)
_PROXY_VARIABLES: Final = "Check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY, or pass trust_env=False to do without them."


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """
    How many bytes of a response body are read: the catalogue may be long, nothing else is.

    Attributes:
        catalogue: Of fetch-games: 16 MiB. 20,000 games are 15 MB.
        other: Of any other answer: 4 MiB.
    """

    catalogue: int = 16 * 1024 * 1024
    other: int = 4 * 1024 * 1024

    def of(self, operation_name: str) -> int:
        """Return the limit for the endpoint *operation_name*."""
        return self.catalogue if operation_name == "fetch-games" else self.other


@without_frames
def base_url_of(
    text: object, *, allow_insecure_http: bool, name: str = "base_url", example: str = "https://api.example.com"
) -> str:
    """
    Return the base URL, the argument called *name*, without its trailing slash; an error names *example*.

    Raises:
        ConfigurationError: It is not an http(s) address, carries what does not belong there, or is plain http to
            another machine.
        TypeError: It is not a str.
    """
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a str, not {type(text).__name__}")
    named = "The base URL" if name == "base_url" else name
    parts, setting, subject = split_address(text), name, f"{named} {shown(text)}"
    if parts.username is not None or parts.password is not None:
        subject, problem, remedy = named, "carries a user name or password", "Remove it: calls are signed instead."
    elif text[:1] in {'"', "'"}:
        problem, remedy = "is in quotes", "Remove the quotes."
    elif parts.scheme not in {"http", "https"} or not _AUTHORITY.match(parts.netloc) or not text.isprintable():
        problem, remedy = "is not a valid address", f"Pass one like {example}."
    elif not text.isascii() or not set("?# ").isdisjoint(text):
        problem = "carries a query, a fragment, a space or letters beyond ASCII"
        remedy = "Pass the address alone."
    elif text.rstrip("/").endswith("/api/v0.2"):
        problem, remedy = "ends in /api/v0.2, which every path begins with", "Leave it out."
    elif parts.scheme == "http" and not allow_insecure_http and not is_loopback(parts.hostname or ""):
        setting = "allow_insecure_http"
        problem = "is plain http to another machine: anyone on the way could read and replay signed requests"
        remedy = "Use https, or pass allow_insecure_http=True if the way is private."
    else:
        # Schemes are told apart by comparing text from here on, and HTTPS:// is the same as https://.
        return parts.scheme + text[len(parts.scheme) :].rstrip("/")
    raise ConfigurationError(f"{subject} {problem}.", setting=setting, remedy=remedy)


def split_address(text: str) -> SplitResult:
    """Return the parts of an address; all are empty if it cannot be read."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        parts = SplitResult("", "", "", "", "")
    return parts


def proxy_of_environment(base_url: str) -> httpx.Proxy | None:
    """
    Return the proxy that the environment names for *base_url*, if any.

    Raises:
        ConfigurationError: A proxy variable cannot be used.
    """
    # What goes to this machine in the open stays on this machine.
    if base_url.startswith("http:") and is_loopback(httpx.URL(base_url).host):
        return None
    return proxy_at(proxy_for(base_url), is_argument=False)


@without_frames
def proxy_at(address: object, *, is_argument: bool = True) -> httpx.Proxy | None:
    """
    Return the proxy at *address*, its user and password apart; None if that is None.

    Raises:
        ConfigurationError: It is not the address of an http, https or SOCKS5 proxy, or the extra ``socks`` is missing.
            The text does not quote the address, which may hold a password.
        TypeError: It is not a str.
    """
    if address is None:
        return None
    if not isinstance(address, str):
        raise TypeError(f"proxy must be a str, not {type(address).__name__}")
    proxy = None
    with suppress(httpx.InvalidURL, ValueError):
        read = httpx.Proxy(address)
        read.url.host.encode("idna")  # As a resolver does: labels have 1 to 63 letters.
        proxy = read if read.url.host and (read.url.port or 0) < 65_536 else None
    if proxy is None:
        problem, remedy = "A proxy's address cannot be read.", _PROXY_ARGUMENT if is_argument else _PROXY_VARIABLES
    elif proxy.url.scheme.startswith("socks") and find_spec("socksio") is None:
        problem, remedy = "A SOCKS proxy needs the package socksio.", "Run: pip install 'game-operator[socks]'"
    else:
        return proxy
    raise ConfigurationError(problem, setting="proxy" if is_argument else "trust_env", remedy=remedy)


def proxy_for(base_url: str) -> str | None:
    """Return the address of the proxy that the environment names for *base_url*; None without one, or if exempt."""
    found, url = getproxies(), httpx.URL(base_url)
    proxy = found.get(url.scheme) or found.get("all")
    host = url.raw_host.decode("ascii")
    place = f"[{host}]" if ":" in host else host
    if not proxy or proxy_bypass(f"{place}:{url.port or _PORTS[url.scheme]}"):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"
