"""
The proxy that HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names for an address, unless NO_PROXY exempts the address.

NO_PROXY is read as curl, Go and Docker write it; no standard defines it. An entry that cannot be read exempts nothing
and stops no call. `game-operator doctor` names it.
"""

import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import NamedTuple
from urllib.request import getproxies

import httpx

_PORTS = {"http": 80, "https": 443}
_SEPARATORS = re.compile(r"[,\s]+")
_WITH_PORT = re.compile(r"(\[.*\]|[^:]*):([0-9]{1,5})")
#: Not "10" or "192.168": those begin an address, and would exempt nothing if they were read as names.
_NAME = re.compile(r"(?:[a-z0-9_-]+\.)*(?![0-9]+\Z)[a-z0-9_-]+")


class _Exemption(NamedTuple):
    """An entry of NO_PROXY: a name with all names below it or a network, on one port or (None) on all."""

    host: str | IPv4Network | IPv6Network
    port: int | None

    def covers(self, host: str, port: int) -> bool:
        if self.port not in (None, port):
            return False
        if isinstance(self.host, str):
            return f".{host}".endswith(f".{self.host}")
        address = _network(host)
        return address is not None and address.network_address in self.host


def proxy_for(base_url: str) -> str | None:
    """Return the URL of the proxy that the environment names for *base_url*; None without one, or if it is exempt."""
    found, url = getproxies(), httpx.URL(base_url)
    proxy = found.get(url.scheme) or found.get("all")
    if not proxy:
        return None
    host, port = _host(url), url.port or _PORTS[url.scheme]
    for entry in _entries():
        exemption = _read(entry)
        if entry == "*" or (exemption is not None and exemption.covers(host, port)):
            return None
    return proxy if "://" in proxy else f"http://{proxy}"


def unreadable_exceptions() -> list[str]:
    """Return the entries of NO_PROXY that cannot be read and are skipped, without what may be a password."""
    return [re.sub(r".*@", "***@", entry) for entry in _entries() if entry != "*" and _read(entry) is None]


def _entries() -> list[str]:
    """Return the entries of NO_PROXY without the quotes that an env file leaves around each, or around them all."""
    entries = (entry.strip("\"'") for entry in _SEPARATORS.split(getproxies().get("no", "")))
    return [entry for entry in entries if entry]


def _read(entry: str) -> _Exemption | None:
    host, port = entry.rpartition("://")[2], None
    if match := _WITH_PORT.fullmatch(host):
        host, port = match[1], int(match[2])
    found = _network(host) or _name(host)
    return _Exemption(found, port) if found and (port or 0) < 65_536 else None


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
