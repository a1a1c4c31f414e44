"""
The proxy of a client: that of its argument, or that which HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names for an address.

NO_PROXY is read as Python's standard library reads it.
"""

from contextlib import suppress
from importlib.util import find_spec
from typing import Final
from urllib.request import getproxies, proxy_bypass

import httpx

from game_operator.errors import ConfigurationError, without_frames
from game_operator.protocol.http import is_loopback

_PORTS = {"http": 80, "https": 443}


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
        problem, remedy = "A proxy's address cannot be read.", _ARGUMENT if is_argument else _VARIABLES
    elif proxy.url.scheme.startswith("socks") and find_spec("socksio") is None:
        problem, remedy = "A SOCKS proxy needs the package socksio.", "Run: pip install 'game-operator[socks]'"
    else:
        return proxy
    raise ConfigurationError(problem, setting="proxy" if is_argument else "trust_env", remedy=remedy)


_ARGUMENT: Final = (
    "Pass one like http://user:password@proxy.example.com:3128; https:// and socks5:// are fine, too. In a password, "
    "write / as %2F, @ as %40 and : as %3A."
)
_VARIABLES: Final = "Check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY, or pass trust_env=False to do without them."


def proxy_for(base_url: str) -> str | None:
    """Return the address of the proxy that the environment names for *base_url*; None without one, or if exempt."""
    found, url = getproxies(), httpx.URL(base_url)
    proxy = found.get(url.scheme) or found.get("all")
    host = url.raw_host.decode("ascii")
    place = f"[{host}]" if ":" in host else host
    if not proxy or proxy_bypass(f"{place}:{url.port or _PORTS[url.scheme]}"):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"
