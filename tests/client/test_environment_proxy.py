"""Which proxy the environment names for an address, and which addresses NO_PROXY exempts (docs/decisions/0004)."""

import pytest

from game_operator.client.proxies import proxy_for, unreadable_exceptions

_PROXY = "http://proxy.example:3128"


@pytest.fixture(autouse=True)
def _nothing_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize(
    ("environment", "https", "http"),
    [
        pytest.param({}, None, None, id="nothing is set"),
        pytest.param({"HTTPS_PROXY": _PROXY}, _PROXY, None, id="for https"),
        pytest.param({"HTTP_PROXY": _PROXY}, None, _PROXY, id="for http"),
        pytest.param({"ALL_PROXY": _PROXY}, _PROXY, _PROXY, id="for both"),
        pytest.param(
            {"ALL_PROXY": "socks5://other:1", "HTTPS_PROXY": _PROXY}, _PROXY, "socks5://other:1", id="own first"
        ),
        pytest.param({"https_proxy": _PROXY}, _PROXY, None, id="in small letters"),
        pytest.param({"HTTPS_PROXY": "", "NO_PROXY": "*"}, None, None, id="empty"),
        pytest.param({"HTTPS_PROXY": "proxy.example:3128"}, _PROXY, None, id="without a scheme"),
        pytest.param({"HTTPS_PROXY": "user:secret@p:1"}, "http://user:secret@p:1", None, id="with a password"),
        pytest.param({"HTTPS_PROXY": "https://p:1"}, "https://p:1", None, id="with TLS"),
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
        pytest.param(" , ,, ", [], ["api.example.com"], id="separators alone"),
        pytest.param("*", ["api.example.com", "10.0.0.1", "[::1]:8443"], [], id="all"),
        pytest.param("a.test,*", ["api.example.com"], [], id="all, beside another"),
        pytest.param('"*"', ["api.example.com"], [], id="all, in quotes"),
        # Names.
        pytest.param(
            "example.com", ["example.com", "api.example.com", "a.b.example.com"], ["myexample.com", "com"], id="a name"
        ),
        pytest.param(".example.com", ["example.com", "api.example.com"], ["myexample.com"], id="a dot before"),
        pytest.param("*.example.com", ["example.com", "api.example.com"], ["myexample.com"], id="a star before"),
        pytest.param("EXAMPLE.com", ["api.Example.COM"], ["example.org"], id="capitals"),
        pytest.param("example.com.", ["example.com", "example.com."], ["example.co"], id="a dot behind the entry"),
        pytest.param("example.com", ["api.example.com."], ["example.com.org"], id="a dot behind the host"),
        pytest.param("localhost", ["localhost"], ["127.0.0.1", "[::1]"], id="localhost is a name"),
        pytest.param("my_host", ["my_host"], ["my-host"], id="an underscore"),
        pytest.param("ün.example", ["xn--n-dha.example", "a.xn--n-dha.example"], ["un.example"], id="beyond ASCII"),
        pytest.param("*.ÜN.example", ["xn--n-dha.example"], ["un.example"], id="beyond ASCII, in capitals"),
        pytest.param("xn--n-dha.example", ["xn--n-dha.example"], ["n-dha.example"], id="as IDNA"),
        # Addresses.
        pytest.param("10.0.0.1", ["10.0.0.1", "10.0.0.1:8443"], ["10.0.0.10", "110.0.0.1"], id="IPv4"),
        pytest.param("[10.0.0.1]", ["10.0.0.1"], ["10.0.0.2"], id="IPv4 in brackets"),
        pytest.param("::1", ["[::1]", "[0:0::1]:8443"], ["[::2]", "127.0.0.1"], id="IPv6"),
        pytest.param("[::1]", ["[::1]"], ["[::2]"], id="IPv6 in brackets"),
        pytest.param("0:0:0:0:0:0:0:1", ["[::1]"], ["[::2]"], id="IPv6 in full"),
        pytest.param("::1:443", ["[::1:443]"], ["[::1]"], id="IPv6 that ends like a port"),
        # Networks.
        pytest.param("10.0.0.0/8", ["10.255.255.255"], ["11.0.0.0", "9.255.255.255", "[::a00:1]"], id="IPv4 network"),
        pytest.param("10.1.2.3/8", ["10.0.0.0"], ["11.0.0.0"], id="IPv4 network with host bits"),
        pytest.param("0.0.0.0/0", ["10.0.0.1"], ["[::1]", "api.example.com"], id="all of IPv4"),
        pytest.param(
            "fd07:b51a:cc66:f0::/64",
            ["[fd07:b51a:cc66:f0::1]"],
            ["[fd07:b51a:cc66:f1::1]", "10.0.0.1"],
            id="IPv6 network",
        ),
        pytest.param("[fd07:b51a:cc66:f0::]/64", ["[fd07:b51a:cc66:f0::1]"], ["[fd07::1]"], id="brackets and a length"),
        pytest.param("[fd07:b51a:cc66:f0::/64]", ["[fd07:b51a:cc66:f0::1]"], ["[fd07::1]"], id="a length in brackets"),
        pytest.param("::1/128", ["[::1]"], ["[::2]"], id="a network of one"),
        # Ports.
        pytest.param("host:8443", ["host:8443", "a.host:8443"], ["host", "host:8444"], id="a port"),
        pytest.param("host:443", ["host", "host:443"], ["host:8443"], id="the scheme's own port"),
        pytest.param("host:80", [], ["host", "host:443"], id="the other scheme's port"),
        pytest.param("*.example.com:443", ["api.example.com"], ["api.example.com:8443"], id="a port behind a star"),
        pytest.param("[::1]:443", ["[::1]"], ["[::1]:8443", "[::1:443]"], id="IPv6 and a port"),
        pytest.param("10.0.0.1:8443", ["10.0.0.1:8443"], ["10.0.0.1"], id="IPv4 and a port"),
        pytest.param("host:65535", ["host:65535"], ["host"], id="the last port"),
        # Schemes.
        pytest.param("http://internal", ["internal", "internal:8443"], ["other"], id="a scheme"),
        pytest.param("https://[::1]:8443", ["[::1]:8443"], ["[::1]"], id="a scheme, IPv6 and a port"),
        # Several.
        pytest.param("a.test, b.test", ["a.test", "b.test"], ["c.test"], id="a comma and a space"),
        pytest.param("a.test\n192.168.1.1\tb.test", ["a.test", "192.168.1.1", "b.test"], ["c.test"], id="white space"),
        pytest.param('"a.test,::1"', ["a.test", "[::1]"], ["c.test"], id="quotes around all"),
        pytest.param("'a.test',\"::1\"", ["a.test", "[::1]"], ["c.test"], id="quotes around each"),
        pytest.param("a:b,10.*,b.test", ["b.test"], ["a", "10.0.0.1"], id="what cannot be read is skipped"),
    ],
)
def test_what_no_proxy_exempts(
    monkeypatch: pytest.MonkeyPatch, exceptions: str, exempt: list[str], proxied: list[str]
) -> None:
    """NO_PROXY counts as it does with curl, Go and Docker."""
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


@pytest.mark.parametrize(
    "entry",
    [
        *("a:b", "host:", ":443", "host:65536", "host:123456", "[::1]:x", "::1::", "a:b:c"),
        *("10.*", "10.", "192.168", "256.0.0.1", "10.0.0.0/33", "::/129", "10.0.0.0/8/8"),
        *(
            "*.*",
            "**",
            "a*b",
            ".",
            "*.",
            "a..b",
            "a/b",
            "a?b",
            "[a]",
            "[::1",
            "a[b]",
            "http://",
            "http://a/",
            "\x00",
            "☃",
        ),
    ],
)
def test_entries_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    """Each is named, exempts nothing, and does not stop the entries beside it."""
    monkeypatch.setattr(
        "game_operator.client.proxies.getproxies",
        lambda: {"https": _PROXY, "no": f"a.test,{entry} b.test"},
    )
    assert unreadable_exceptions() == [entry]
    assert [proxy_for(f"https://{host}") for host in ("a.test", "b.test", "c.test")] == [None, None, _PROXY]


@pytest.mark.parametrize(
    ("exceptions", "named"),
    [
        pytest.param("", [], id="none"),
        pytest.param("*,localhost,.a.test,10.0.0.0/8,[::1]:443,http://b", [], id="all can be read"),
        pytest.param("a:b localhost,'10.*'", ["a:b", "10.*"], id="two of three"),
        pytest.param("http://user:secret@host:1", ["***@host:1"], id="without what may be a password"),
    ],
)
def test_what_is_named(monkeypatch: pytest.MonkeyPatch, exceptions: str, named: list[str]) -> None:
    """In their order, without quotes and passwords, whether or not a proxy is set."""
    monkeypatch.setenv("NO_PROXY", exceptions)
    assert unreadable_exceptions() == named
