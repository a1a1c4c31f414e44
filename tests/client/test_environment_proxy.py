"""Which proxy the environment names for an address, and which addresses NO_PROXY exempts (docs/decisions/0004)."""

import pytest

from game_operator.client.settings import proxy_for

_PROXY = "http://proxy.example:3128"

pytestmark = pytest.mark.usefixtures("no_proxy_from_outside")


@pytest.mark.parametrize(
    ("environment", "https", "http"),
    [
        pytest.param({}, None, None, id="nothing is set"),
        pytest.param({"HTTPS_PROXY": _PROXY}, _PROXY, None, id="for https"),
        pytest.param({"ALL_PROXY": _PROXY}, _PROXY, _PROXY, id="for both"),
        pytest.param(
            {"ALL_PROXY": "socks5://other:1", "HTTPS_PROXY": _PROXY}, _PROXY, "socks5://other:1", id="own first"
        ),
        pytest.param({"https_proxy": _PROXY}, _PROXY, None, id="in small letters"),
        pytest.param({"HTTPS_PROXY": "proxy.example:3128"}, _PROXY, None, id="without a scheme"),
        pytest.param({"HTTPS_PROXY": "user:secret@p:1"}, "http://user:secret@p:1", None, id="with a password"),
        pytest.param({"HTTP_PROXY": _PROXY, "REQUEST_METHOD": "GET"}, None, None, id="a header that CGI hands on"),
    ],
)
def test_which_variable_counts(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], https: str | None, http: str | None
) -> None:
    """The variable of the scheme comes before ALL_PROXY."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert (proxy_for("https://api.example.com"), proxy_for("http://api.example.com")) == (https, http)


@pytest.mark.parametrize(
    ("exceptions", "exempt", "proxied"),
    [
        pytest.param("", [], ["api.example.com"], id="none"),
        pytest.param("*", ["api.example.com", "10.0.0.1", "[::1]:8443"], [], id="all"),
        pytest.param(
            "example.com", ["example.com", "api.example.com", "a.b.example.com"], ["myexample.com", "com"], id="a name"
        ),
        pytest.param("localhost", ["localhost"], ["127.0.0.1", "[::1]"], id="localhost is a name"),
        pytest.param("10.0.0.1", ["10.0.0.1", "10.0.0.1:8443"], ["10.0.0.10", "110.0.0.1"], id="IPv4"),
        pytest.param("[::1]", ["[::1]", "[::1]:8443"], ["[::2]", "127.0.0.1"], id="IPv6"),
        pytest.param("host:8443", ["host:8443", "a.host:8443"], ["host", "host:8444"], id="a port"),
        pytest.param("host:443", ["host", "host:443"], ["host:8443"], id="the scheme's own port"),
        pytest.param("host:80", [], ["host", "host:443"], id="the other scheme's port"),
        pytest.param("a:b,10.0.0.0/8,b.test", ["b.test"], ["a", "10.0.0.1"], id="what cannot be read is skipped"),
    ],
)
def test_what_no_proxy_exempts(
    monkeypatch: pytest.MonkeyPatch, exceptions: str, exempt: list[str], proxied: list[str]
) -> None:
    """NO_PROXY counts as it does in the standard library."""
    monkeypatch.setenv("HTTPS_PROXY", _PROXY)
    monkeypatch.setenv("NO_PROXY", exceptions)
    found = {host: proxy_for(f"https://{host}") for host in exempt + proxied}
    assert found == dict.fromkeys(exempt) | dict.fromkeys(proxied, _PROXY)


def test_a_port_of_plain_http(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a port in the address, it is 80."""
    monkeypatch.setenv("ALL_PROXY", _PROXY)
    monkeypatch.setenv("NO_PROXY", "10.0.0.1:80")
    assert (proxy_for("http://10.0.0.1"), proxy_for("http://10.0.0.1/api")) == (None, None)
    assert (proxy_for("http://10.0.0.1:81"), proxy_for("https://10.0.0.1")) == (_PROXY, _PROXY)
