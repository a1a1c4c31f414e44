"""A stranger behind a real proxy, whose request for an upgrade takes the service's next call to another path (E10)."""

from itertools import product
from pathlib import Path

import fastapi
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from game_operator.webhooks import RsaSignature, WebhookReceiver, asgi_app
from tests.support.documents import ROOT
from tests.support.proxies import WEBSOCKETS, behind, leave_a_request, needs
from tests.support.servers import RawClient, asgi_server, request_bytes
from tests.support.webhooks import WITHDRAW, AsyncHandler, encoded, read_reply, signed

pytestmark = pytest.mark.outside

BODY = encoded(WITHDRAW)
#: Enough that it comes in many packets, and after the answer.
MANY = 300_000
#: With these lines each lets an upgrade through, and with those of docs/how-to/deploy.md none does.
OPEN = {"caddy": "", "haproxy": "", "nginx": WEBSOCKETS}
SHUT = {
    "caddy": "request_header -Upgrade",
    "haproxy": "http-request del-header Upgrade",
    "nginx": 'proxy_set_header Connection "";',
}
behind_each = pytest.mark.parametrize("proxy", [pytest.param(name, marks=needs(name)) for name in OPEN])


def program(public_key: RSAPublicKey, handler: AsyncHandler) -> fastapi.FastAPI:
    """Return an operator's own program: the wallet, and a route that has nothing to do with it."""
    app = fastapi.FastAPI()
    app.mount("/wallet", asgi_app(WebhookReceiver(authenticator=RsaSignature(public_key)), handler))

    @app.get("/health")
    @app.post("/health")
    async def health(request: fastapi.Request) -> bool:
        return "upgrade" in request.headers

    return app


def passes_upgrade_on(port: int) -> bool:
    """Return whether an upgrade without a body reaches the program."""
    with RawClient(port) as client:
        client.send(request_bytes("/health", b"", {"Connection": "Upgrade", "Upgrade": "foo"}, method="GET"))
        return client.reply()[2] == b"true"


def astray(port: int, handler: AsyncHandler, private_key: RSAPrivateKey) -> list[tuple[str, int]]:
    """Return behind which attacks, by path and blank lines, the service's withdraw is SUCCESS and moves nothing."""
    found = []
    for path, blank_lines in product(("/wallet/player-balance", "/wallet/withdraw", "/health"), (0, MANY)):
        leave_a_request(port, path, "/wallet/player-balance", blank_lines=blank_lines)
        handler.calls.clear()
        with RawClient(port) as client:
            client.send(request_bytes("/wallet/withdraw", BODY, signed(private_key, BODY)))
            assert read_reply(client.reply()[2]).code is None
        if [call.operation for call in handler.calls] != ["withdraw"]:
            found.append((path, blank_lines))
    return found


def test_the_lines_against_it_are_told() -> None:
    """Those that are tried below are those of the page."""
    page = (ROOT / "docs/how-to/deploy.md").read_text()
    assert [line for line in SHUT.values() if f"`{line}`" not in page] == []


@behind_each
@pytest.mark.parametrize(
    ("http", "lines", "hears_of_it", "is_safe"),
    [
        pytest.param("game_operator.serve:SafeProtocol", OPEN, False, True, id="SafeProtocol"),
        pytest.param("h11", OPEN, True, True, id="h11"),
        pytest.param("httptools", SHUT, False, True, id="httptools behind the lines against it"),
        pytest.param("httptools", OPEN, True, False, id="httptools"),
    ],
)
def test_a_stranger_moves_no_call_elsewhere(
    http: str,
    lines: dict[str, str],
    hears_of_it: bool,
    is_safe: bool,
    proxy: str,
    public_key: RSAPublicKey,
    private_key: RSAPrivateKey,
    tmp_path: Path,
) -> None:
    """On the wallet's path and on another one, with a body in one packet and in many."""
    handler = AsyncHandler()
    with (
        asgi_server(program(public_key, handler), http=http) as server,
        behind(proxy, server, tmp_path, lines[proxy]) as port,
    ):
        # asgi_app closes behind an upgrade, and protects itself alone. HAProxy passes none on that has a body.
        lost = [] if is_safe or proxy == "haproxy" else [("/health", MANY)]
        # A proxy uses a connection again only if the body was sent within some 50 ms of the answer.
        assert any(astray(port, handler, private_key) == lost for _ in range(10 if lost else 1))
        assert passes_upgrade_on(port) is hears_of_it
