"""The seam to httpx and httpx2: requests go out as built, whatever comes back is understood (docs/decisions/0004)."""

import inspect
import logging
import ssl
from collections.abc import Callable
from types import ModuleType
from typing import Any

import anyio
import httpcore
import httpx
import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator import AsyncOperatorClient, Exchange, OperatorClient, RetryPolicy
from game_operator.errors import (
    ConfigurationError,
    GameOperatorError,
    NoAnswerError,
    OutcomeUnknownError,
    RequestNotSentError,
    UnexpectedResponseError,
)
from game_operator.models import GrantAccepted, OpenBet
from game_operator.protocol.exchange import Departure
from game_operator.transport.wire import Progress, failure
from tests.support.flavours import Scenario, look_up, make_grant, run_over
from tests.support.hostile_server import Connection, HostileServer, answer, found, response_bytes
from tests.support.leaks import everything_told
from tests.support.wire import bet, grant_request, granted, wire

Handler = Callable[[Any], Any]

_URL = "http://localhost:9"

LIBRARIES = pytest.mark.parametrize(
    ("library", "flavour"),
    [
        pytest.param(httpx, "sync", id="httpx"),
        pytest.param(httpx, "asyncio", id="httpx on asyncio"),
        pytest.param(httpx, "trio", id="httpx on trio"),
        pytest.param(httpx2, "sync", id="httpx2"),
        pytest.param(httpx2, "asyncio", id="httpx2 on asyncio"),
        pytest.param(httpx2, "trio", id="httpx2 on trio"),
    ],
)


def _ending(
    library: ModuleType,
    flavour: str,
    handler: Handler,
    scenario: Scenario[Any],
    key: RSAPrivateKey,
    **options: Any,
) -> Any:
    """Return the result or the error of *scenario* against *handler*: of one attempt, unless *options* say more."""
    try:
        return run_over(library, flavour, handler, scenario, _URL, key, **options)
    except GameOperatorError as error:
        return error


@pytest.mark.outside
@LIBRARIES
def test_both_libraries_speak_http_alike(library: ModuleType, flavour: str, private_key: RSAPrivateKey) -> None:
    """Over a real connection: the same bytes, sent again on a new one when the first is lost (spec §4.2, §5)."""

    def finds(connection: Connection) -> None:
        connection.send(found(connection.read_request()))

    def loses_a_grant(connection: Connection) -> None:
        connection.read_request()
        connection.close()

    async def lookup_and_grant(client: AsyncOperatorClient) -> tuple[Any, Any]:
        return await client.fetch_bet("a/b"), await client.grant_free_bet(**grant_request())

    with HostileServer(finds, loses_a_grant, answer(response_bytes(200, wire(granted())))) as server:
        looked_up, made = run_over(
            library, flavour, None, lookup_and_grant, server.base_url, private_key, retries=1, trust_env=False
        )
        assert (type(looked_up), type(made)) == (OpenBet, GrantAccepted)
        lookup, first, second = server.requests
    assert lookup.startswith(b"GET /api/v0.2/fetch-bet/a%2Fb HTTP/1.1\r\n")
    assert lookup.endswith(b"\r\n\r\n")
    assert b"content-length" not in lookup.lower()
    assert first == second
    assert b"\r\nContent-Length: %d\r\n" % len(first.partition(b"\r\n\r\n")[2]) in first
    assert b"\r\nContent-Type: application/json\r\n" in first


def _exceptions_of(library: ModuleType) -> list[type[Exception]]:
    """Return every exception *library* can raise, but for the one that holds a response."""
    kinds = [kind for kind in vars(library).values() if inspect.isclass(kind) and issubclass(kind, Exception)]
    return [kind for kind in kinds if kind.__name__ != "HTTPStatusError"]


def _made(kind: type[Exception]) -> Exception:
    try:
        return kind("of no importance")
    except TypeError:
        return kind()


_NEVER_SENT = {"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol", "InvalidURL"}
_TIMEOUTS = {"TimeoutException", "ConnectTimeout", "PoolTimeout", "ReadTimeout", "WriteTimeout", "TimeoutError"}
_ANY_OTHERS = [OSError, ssl.SSLError, TimeoutError]


@pytest.mark.parametrize("flavour", ["sync", "asyncio"])
@pytest.mark.parametrize(
    ("library", "kind"),
    [
        pytest.param(library, kind, id=f"{library.__name__}.{kind.__name__}")
        for library in (httpx, httpx2)
        for kind in [*_exceptions_of(library), *_ANY_OTHERS]
    ],
)
def test_only_what_surely_never_left_counts_as_not_sent(
    library: ModuleType, flavour: str, kind: type[Exception], private_key: RSAPrivateKey
) -> None:
    """Every exception there is leaves a grant in doubt, unless no connection came about (docs/decisions/0004)."""

    def handler(request: Any) -> Any:
        raise _made(kind)

    lookup = _ending(library, flavour, handler, look_up, private_key)
    grant = _ending(library, flavour, handler, make_grant, private_key)
    never_sent = kind.__name__ in _NEVER_SENT
    assert type(lookup) is (RequestNotSentError if never_sent else NoAnswerError)
    assert type(grant) is (RequestNotSentError if never_sent else OutcomeUnknownError)
    assert lookup.timed_out is grant.timed_out is (kind.__name__ in _TIMEOUTS)
    assert kind.__name__ in str(lookup)


@pytest.mark.parametrize(
    "kind", [kind for kind in _exceptions_of(httpcore) if kind.__name__ != "ConnectionNotAvailable"]
)
def test_errors_of_our_own_connections_mean_the_same(kind: type[Exception]) -> None:
    """They come from httpcore, without httpx between (docs/decisions/0004)."""
    failed = failure(kind("x"), Progress(Departure()))
    assert failed.sent is (kind.__name__ not in _NEVER_SENT)
    assert failed.timed_out is (kind.__name__ in _TIMEOUTS)


@pytest.mark.parametrize("name", sorted(_NEVER_SENT))
def test_an_error_of_the_same_name_says_nothing(name: str) -> None:
    """A transport of yours may raise a ProxyError of another library after it has sent."""
    failed = failure(type(name, (OSError,), {})("cut off"), Progress(Departure()))
    assert (failed.sent, failed.timed_out) == (True, False)


#: As aiohttp has them.
_OF_AIOHTTP = type("ClientConnectionResetError", (ConnectionError,), {"__module__": "aiohttp.client_exceptions"})


@pytest.mark.parametrize("kind", [httpx.ConnectError, httpx.ConnectTimeout])
@pytest.mark.parametrize(
    ("behind", "never_sent"),
    [
        pytest.param(None, True, id="nothing"),
        pytest.param(httpcore.ConnectError("refused"), True, id="httpcore"),
        pytest.param(OSError(111, "refused"), True, id="the system"),
        pytest.param(RuntimeError("a mock's"), True, id="a mock"),
        pytest.param(_OF_AIOHTTP("a reset in the middle of an answer"), False, id="aiohttp"),
    ],
)
def test_over_aiohttp_a_grant_is_in_doubt(
    kind: type[Exception], behind: Exception | None, never_sent: bool, private_key: RSAPrivateKey
) -> None:
    """httpx-aiohttp calls a reset in the middle of an answer ConnectTimeout (docs/decisions/0004)."""

    def handler(request: httpx.Request) -> httpx.Response:
        raise kind("as a transport maps it") from behind

    lookup = _ending(httpx, "asyncio", handler, look_up, private_key)
    grant = _ending(httpx, "asyncio", handler, make_grant, private_key)
    assert type(lookup) is (RequestNotSentError if never_sent else NoAnswerError)
    assert type(grant) is (RequestNotSentError if never_sent else OutcomeUnknownError)


@LIBRARIES
def test_your_headers_are_kept_beside_ours(library: ModuleType, flavour: str, private_key: RSAPrivateKey) -> None:
    """Yours travel along; ours cannot be replaced, nor doubled (spec §5)."""
    seen: list[Any] = []

    def handler(request: Any) -> Any:
        seen.append(request.headers)
        return library.Response(200, content=wire(bet()))

    yours = {
        "Authorization": "Bearer gateway",
        "X-Team": "wallet",
        "x-operator-id": "mallory",
        "X-Signature": "forged",
        "Accept-Encoding": "gzip",
        "Accept": "text/html",
        "Host": "elsewhere.example",
        "Content-Length": "7",
    }
    _ending(library, flavour, handler, look_up, private_key, headers=yours)
    (headers,) = seen
    assert headers["authorization"] == "Bearer gateway"
    assert headers["x-team"] == "wallet"
    assert headers.get_list("x-operator-id") == ["acme"]
    assert len(headers.get_list("x-signature")) == 1
    assert "forged" not in headers["x-signature"]
    assert headers.get_list("accept-encoding") == ["identity"]
    assert headers.get_list("accept") == ["application/json"]
    assert headers.get_list("host") == ["localhost:9"]
    assert "content-length" not in headers


@LIBRARIES
def test_your_client_is_neither_closed_nor_obeyed(
    library: ModuleType, flavour: str, private_key: RSAPrivateKey
) -> None:
    """It stays open; its parameters, cookies and readiness to follow redirects do not count (docs/decisions/0004)."""
    seen: list[str] = []
    http_clients: list[Any] = []

    def handler(request: Any) -> Any:
        seen.append(str(request.url))
        assert "cookie" not in request.headers
        return library.Response(302, headers={"Location": "https://elsewhere.example/"})

    settings = {"follow_redirects": True, "params": {"debug": "1"}, "cookies": {"session": "1"}}
    ended = _ending(library, flavour, handler, look_up, private_key, afterwards=http_clients.append, **settings)
    assert isinstance(ended, UnexpectedResponseError)
    assert seen == [f"{_URL}/api/v0.2/fetch-bet/bet-1"]
    assert http_clients == [False], "closed"


class _SoftTimeLimitError(Exception):
    """What a signal handler raises, as Celery's does."""


class _InterruptedError(BaseException):
    """What ends a program."""


_FOREIGN = [RuntimeError, EOFError, _SoftTimeLimitError, StopIteration, _InterruptedError]


@LIBRARIES
@pytest.mark.parametrize("when", ["request", "response", "transport"])
@pytest.mark.parametrize("kind", _FOREIGN)
def test_what_is_no_failure_of_the_network_passes_with_a_note(
    library: ModuleType, flavour: str, when: str, kind: type[BaseException], private_key: RSAPrivateKey
) -> None:
    """A bug in a hook, or a time limit, ends the call at once; a grant may have been made (docs/decisions/0028)."""

    def handler(request: Any) -> Any:
        if when == "transport":
            raise kind("not of the network")
        return library.Response(200, content=wire(granted()))

    def hook(event: Any) -> None:
        raise kind("not of the network")

    async def async_hook(event: Any) -> None:
        hook(event)

    hooks = {} if when == "transport" else {when: [hook if flavour == "sync" else async_hook]}
    # Neither a generator nor a coroutine lets a StopIteration pass.
    raised_kind = RuntimeError if kind is StopIteration else kind
    for scenario, notes in ((make_grant, 1), (look_up, 0)):
        with pytest.raises(raised_kind) as raised:
            run_over(library, flavour, handler, scenario, _URL, private_key, retries=5, event_hooks=hooks)
        told = getattr(raised.value, "__notes__", [])
        assert len(told) == notes
        assert all("'welcome-7' on instance 'instance-1' was under way: it may have been made" in note for note in told)


@LIBRARIES
def test_your_hook_may_read_the_answer_first(library: ModuleType, flavour: str, private_key: RSAPrivateKey) -> None:
    """An answer whose stream is spent is taken from where it was kept (docs/decisions/0004)."""
    told: list[bytes] = []

    def handler(request: Any) -> Any:
        assert request.content == b"" or request.method == "POST"
        return library.Response(200, stream=_Stream(library, wire(granted())))

    def hook(response: Any) -> None:
        told.append(response.read())

    async def async_hook(response: Any) -> None:
        told.append(await response.aread())

    hooks = {"response": [hook if flavour == "sync" else async_hook]}
    made = _ending(library, flavour, handler, make_grant, private_key, event_hooks=hooks)
    assert isinstance(made, GrantAccepted)
    assert told == [wire(granted())]


@LIBRARIES
def test_an_answer_read_before_is_still_refused_when_encoded(
    library: ModuleType, flavour: str, private_key: RSAPrivateKey
) -> None:
    """Not even a body that somebody unpacked for us is taken (docs/decisions/0004)."""

    def handler(request: Any) -> Any:
        response = library.Response(200, content=wire(bet()))
        response.headers["Content-Encoding"] = "gzip"
        return response

    error = _ending(library, flavour, handler, look_up, private_key)
    assert isinstance(error, UnexpectedResponseError)
    assert "'gzip' encoded" in str(error)


def _Stream(library: ModuleType, body: bytes) -> Any:  # noqa: N802 - it stands for a class of either library
    """Return a stream of *library* that can be read once, sync or async."""

    class Stream(library.SyncByteStream, library.AsyncByteStream):  # type: ignore[name-defined,misc] # either library's
        def __iter__(self) -> Any:
            yield body

        async def __aiter__(self) -> Any:
            yield body

    return Stream()


def _nothing(request: httpx.Request) -> httpx.Response:
    return httpx.Response(500)


@pytest.mark.parametrize(
    ("kind", "http_client"),
    [
        pytest.param(OperatorClient, httpx.AsyncClient, id="async for sync"),
        pytest.param(AsyncOperatorClient, httpx.Client, id="sync for async"),
        pytest.param(AsyncOperatorClient, httpx2.Client, id="sync httpx2 for async"),
        pytest.param(OperatorClient, httpx.MockTransport, id="a transport"),
    ],
)
def test_the_wrong_kind_of_client_is_refused(kind: Any, http_client: Any, private_key: RSAPrivateKey) -> None:
    """The error names what was given and what is wanted (docs/decisions/0004)."""
    given = http_client(_nothing) if http_client is httpx.MockTransport else http_client()
    wanted = "AsyncClient" if kind is AsyncOperatorClient else "Client"
    with pytest.raises(ConfigurationError, match=rf"{http_client.__name__}\. Pass an httpx\.{wanted} or httpx2"):
        kind(_URL, "acme", private_key, http_client=given)


@LIBRARIES
def test_your_closed_client_is_noticed(library: ModuleType, flavour: str, private_key: RSAPrivateKey) -> None:
    """It says so, instead of an error of the library's (docs/decisions/0004)."""
    closed = library.Client() if flavour == "sync" else library.AsyncClient()
    if flavour == "sync":
        closed.close()
        with pytest.raises(ConfigurationError, match="Your http_client is closed"):
            OperatorClient(_URL, "acme", private_key, http_client=closed).fetch_games()
        return

    async def use_it() -> None:
        await closed.aclose()
        with pytest.raises(ConfigurationError, match="Your http_client is closed"):
            await AsyncOperatorClient(_URL, "acme", private_key, http_client=closed).fetch_games()

    anyio.run(use_it, backend=flavour)


@pytest.mark.outside
def test_a_credential_of_yours_that_cannot_be_sent_is_not_shown(private_key: RSAPrivateKey) -> None:
    """h11 quotes the header value it refuses; we do not (docs/decisions/0004)."""
    with (
        HostileServer(answer(response_bytes(200, b"{}"))) as server,
        httpx.Client(trust_env=False, headers={"Authorization": "Bearer s3cret\n"}) as http_client,
    ):
        client = OperatorClient(server.base_url, "acme", private_key, http_client=http_client, retries=0)
        with pytest.raises(GameOperatorError, match="a header has a value that cannot be sent") as raised:
            client.fetch_games()
        assert server.requests == []
    assert "s3cret" not in everything_told(raised.value)


def test_an_id_too_long_for_any_address_is_not_sent(private_key: RSAPrivateKey) -> None:
    """There is no URL of 100,000 letters (docs/decisions/0002)."""
    client = OperatorClient(_URL, "acme", private_key, trust_env=False, retries=0)
    with client, pytest.raises(RequestNotSentError, match="InvalidURL"):
        client.fetch_bet("x" * 100_000)


@pytest.mark.parametrize("flavour", ["sync", "asyncio"])
def test_a_watcher_sees_each_attempt_and_changes_nothing(
    flavour: str, private_key: RSAPrivateKey, caplog: pytest.LogCaptureFixture
) -> None:
    """on_exchange gets every attempt without signature; what it raises is logged (docs/decisions/0004)."""
    seen: list[Any] = []

    def watch(exchange: Any) -> None:
        seen.append(exchange)
        raise RuntimeError("a bug in your watcher")

    def handler(request: httpx.Request) -> httpx.Response:
        if not seen:
            raise httpx.ReadTimeout("silent")
        return httpx.Response(200, content=wire(granted(echo=request.headers["x-signature"])))

    with caplog.at_level(logging.ERROR):
        repeats = RetryPolicy(base_delay_seconds=0.01)
        made = _ending(httpx, flavour, handler, make_grant, private_key, retries=repeats, on_exchange=watch)
    assert isinstance(made, GrantAccepted)
    first, second = seen
    assert (first.method, first.url) == ("POST", f"{_URL}/api/v0.2/free-bet/grant")
    assert (first.attempt, first.status) == (1, None)
    assert (second.attempt, second.status) == (2, 200)
    assert first.request_body == second.request_body != b""
    assert first.response_body == b""
    assert b"[signature removed]" in second.response_body
    assert 0 <= first.elapsed < 5
    assert "on_exchange raised; the call goes on" in caplog.text
    assert made.model_extra == {"echo": "[signature removed]"}


@pytest.mark.outside
@pytest.mark.parametrize("yours", [False, True], ids=["our connections", "your client"])
def test_a_grant_in_doubt_stays_in_doubt_when_its_client_is_closed(yours: bool, private_key: RSAPrivateKey) -> None:
    """At shutdown another thread may close the client between two attempts (docs/decisions/0004)."""
    http_client = httpx.Client(trust_env=False) if yours else None

    def close(_: Exchange) -> None:
        (http_client or client).close()

    with HostileServer(answer(response_bytes(503, b""))) as server:
        client = OperatorClient(
            server.base_url, "acme", private_key, http_client=http_client, trust_env=False, on_exchange=close
        )
        with pytest.raises(OutcomeUnknownError) as raised:
            client.grant_free_bet(**grant_request())
    assert isinstance(raised.value.__cause__, ConfigurationError)
    assert len(server.requests) == 1
