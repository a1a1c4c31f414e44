"""
The proxy of a client: that of its argument, or that which HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names for an address.

NO_PROXY is read as curl, Go and Docker write it; no standard defines it. An entry that cannot be read exempts nothing
and stops no call. `game-operator doctor` names it.
"""

import re
from contextlib import suppress
from importlib.util import find_spec
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final
from urllib.request import getproxies

import httpx

from game_operator.errors import ConfigurationError, without_frames
from game_operator.protocol.http import is_loopback

_PORTS = {"http": 80, "https": 443}
_SEPARATORS = re.compile(r"[,\s]+")
_WITH_PORT = re.compile(r"(\[.*\]|[^:]*):([0-9]{1,5})")
#: Not "10" or "192.168": those begin an address, and would exempt nothing if they were read as names.
_NAME = re.compile(r"(?:[a-z0-9_-]+\.)*(?![0-9]+\Z)[a-z0-9_-]+")


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
    if not proxy or any(_exempts(entry, url) for entry in _entries()):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def unreadable_exceptions() -> list[str]:
    """Return the entries of NO_PROXY that cannot be read and are skipped, without what may be a password."""
    return [re.sub(r".*@", "***@", entry) for entry in _entries() if entry != "*" and _read(entry)[0] is None]


def _entries() -> list[str]:
    """Return the entries of NO_PROXY without the quotes that an env file leaves around each, or around them all."""
    entries = (entry.strip("\"'") for entry in _SEPARATORS.split(getproxies().get("no", "")))
    return [entry for entry in entries if entry]


def _exempts(entry: str, url: httpx.URL) -> bool:
    if entry == "*":
        return True
    what, port = _read(entry)
    host = _host(url)
    if port not in (None, url.port or _PORTS[url.scheme]):
        return False
    if isinstance(what, str):
        return f".{host}".endswith(f".{what}")
    address = _network(host)
    return what is not None and address is not None and address.network_address in what


def _read(entry: str) -> tuple[str | IPv4Network | IPv6Network | None, int | None]:
    """Return the name or network that *entry* exempts, or None, and on which port; None for all ports."""
    host, port = entry.rpartition("://")[2], None
    if match := _WITH_PORT.fullmatch(host):
        host, port = match[1], int(match[2])
    return (_network(host) or _name(host)) if (port or 0) < 65_536 else None, port


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(re.sub(r"\[(.*)\]", r"\1", text), strict=False)
    except ValueError:
        return None


def _name(text: str) -> str | None:
    """Return the name that *text*, `.text` or `*.text` exempts, as a URL carries it; None if it is not a name."""
    try:
        name = _host(httpx.URL(scheme="http", host=text.removeprefix("*.").removeprefix(".")))
    except (httpx.InvalidURL, UnicodeError):
        return None
    return name if _NAME.fullmatch(name) else None


def _host(url: httpx.URL) -> str:
    return url.raw_host.decode("ascii").removesuffix(".")
