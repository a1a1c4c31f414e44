"""The documents lead somewhere, and the first wallets do what they say; that all code runs: the top conftest."""

import asyncio
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator import DepositCall, WithdrawCall
from game_operator.protocol.webhook import encode_call
from game_operator.webhooks import WebhookCall, WebhookReceiver, asgi_app
from tests.support.documents import ROOT
from tests.support.generated_pages import generated_pages
from tests.support.servers import wait_until_it_listens
from tests.support.webhooks import read_reply, signed

_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
_README = ROOT / "README.md"
_PAGES = [path for path in _DOCUMENTS if path.is_relative_to(ROOT / "docs")]
#: A note of a decision begins with what hurt; decisions/index.md says who reads them.
_DECISION = re.compile(r"\d{4}-")
#: Who reads a page, and what they need before.
_READERS = re.compile(r"For \S[^\n]+\. (You need|Read first): \S[^\n]+\.")
_MOST_LINKS = 3
_MOST_LINES = 75
_START = ROOT / "docs" / "start"


#: The text of each, and that of the pages which the site build makes.
_TEXTS = {path: path.read_text() for path in _DOCUMENTS} | {
    ROOT / "docs" / name: text for name, text in generated_pages().items()
}


def _links(document: Path) -> list[tuple[Path, str]]:
    """Return the files that *document* links to, each with the heading's anchor or ""."""
    text = _BLOCK.sub("", _TEXTS[document])
    return [((document.parent / file).resolve() if file else document, anchor) for file, anchor in _LINK.findall(text)]


def _anchors(document: Path) -> set[str]:
    """Return the anchors of the headings, as GitHub makes them."""
    headings = _HEADING.findall(_BLOCK.sub("", _TEXTS[document]))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_to_files() -> None:
    """A link to a page or a heading that is not there is found here and not by a reader."""
    anchors = {document: _anchors(document) for document in _TEXTS}
    links = [(document, *link) for document in _TEXTS for link in _links(document)]
    absent = [(page.name, str(target)) for page, target, _ in links if target not in _TEXTS and not target.exists()]
    assert absent == []
    assert [
        (page.name, anchor) for page, target, anchor in links if anchor and anchor not in anchors.get(target, ())
    ] == []


@pytest.mark.outside
def test_every_page_is_found_from_the_readme() -> None:
    """By three links at most: a page that nothing leads to is not read."""
    found = {_README}
    for _ in range(_MOST_LINKS):
        found |= {target for each in found for target, _ in _links(each) if target in _TEXTS}
    assert [str(page.relative_to(ROOT)) for page in _PAGES if page not in found] == []


def test_pages_say_who_reads_them() -> None:
    """In one line below the title, with what they need before."""
    assert [page.name for page in _PAGES if not _DECISION.match(page.name) and not _names_its_readers(page)] == []


def _names_its_readers(page: Path) -> bool:
    title, blank, readers, after, *_ = page.read_text().splitlines()
    return title.startswith("# ") and blank == after == "" and _READERS.fullmatch(readers) is not None


def test_tables_name_their_columns() -> None:
    """A screen reader names the column of each cell; an empty name says nothing."""
    heads = [(page.name, head) for page in _PAGES for head in _table_heads(page)]
    assert len(heads) > 50
    assert [head for head in heads if re.search(r"\|\s*\|", head[1])] == []


def _table_heads(page: Path) -> list[str]:
    lines = _BLOCK.sub("", page.read_text()).splitlines()
    return [above for above, below in pairwise(lines) if re.fullmatch(r"\|(?:\s*:?-+:?\s*\|)+", below)]


def test_the_readme_is_one_screen() -> None:
    """What it is and is not, the two packages, a call, an answer, the demo and the tests."""
    assert len(_README.read_text().splitlines()) <= _MOST_LINES


def test_the_readmes_first_steps_are_those_of_the_pages() -> None:
    """The pages explain and try what the README only shows."""
    pages = "".join((_START / name).read_text() for name in ("first-call.md", "own-wallet.md"))
    blocks = [code for _, code in _BLOCK.findall(_README.read_text())]
    assert len(blocks) == 4
    *steps, commands = blocks
    assert [code for code in steps if code not in pages] == []
    assert commands.startswith("$ make demo ")


@pytest.mark.parametrize(("page", "least"), [("docs/explanation/architecture.md", 50), ("CONTRIBUTING.md", 3)])
def test_modules_that_a_page_names_are_there(page: str, least: int) -> None:
    """What moved is found where the page says."""
    named = re.findall(r"`([a-z_]+/[a-z_0-9/]*(?:\.py)?)`", (ROOT / page).read_text())
    assert len(named) >= least
    sdk, testkit = ROOT / "src" / "game_operator", ROOT / "testkit" / "src" / "game_operator_testkit"
    places = (ROOT, ROOT / "docs", sdk, testkit, testkit / "sandbox", testkit / "certifier")
    assert [each for each in named if not any((place / each).exists() for place in places)] == []


def _block(page: str, start: str, holds: str) -> str:
    """Return the one block of docs/start/*page* in the language *start* that has *holds* in it."""
    blocks = _BLOCK.findall((_START / page).read_text())
    (found,) = [code for language, code in blocks if language == start and holds in code]
    return str(found)


# Any: an ASGI application, which each framework types in its own way.
async def _over_asgi(wallet: Any, receiver: WebhookReceiver, path: str, body: bytes, headers: dict[str, str]) -> bytes:
    transport = httpx.ASGITransport(asgi_app(receiver, wallet, prefix="/wallet"))
    async with httpx.AsyncClient(transport=transport, base_url="http://wallet.example") as client:
        return (await client.post(f"/wallet{path}", content=body, headers=headers)).content


@pytest.mark.artefact
def test_the_wallet_over_own_players_answers_calls_in_parallel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, private_key: RSAPrivateKey, public_pem: bytes
) -> None:
    """As it is printed, with sixteen calls at once in its threads: all SUCCESS, and each has moved its money once."""
    monkeypatch.chdir(tmp_path)
    Path("service.pub.pem").write_bytes(public_pem)
    names: dict[str, Any] = {}
    exec(_block("own-players.md", "python", "JoinedWallet("), names)
    receiver: WebhookReceiver = names["receiver"]

    async def send(call: WebhookCall) -> str | None:
        body = encode_call(call)
        answer = await _over_asgi(names["wallet"], receiver, f"/{call.operation}", body, signed(private_key, body))
        return read_reply(answer).code

    async def send_all(calls: Sequence[WebhookCall]) -> list[str | None]:
        return await asyncio.gather(*(send(call) for call in calls))

    bets: list[WithdrawCall] = [
        WithdrawCall(player_id="ann", bet_id=f"p{number}", amount_cents=100) for number in range(16)
    ]
    wins: list[WebhookCall] = [
        DepositCall(player_id="ann", bet_id=f"p{number}", amount_cents=10) for number in range(8)
    ]
    for calls in (bets, [*wins, *bets[:8]]):
        assert asyncio.run(send_all(calls)) == [None] * 16
    with names["ledger"] as ledger:
        # It began with 95.00 and one bet, which the block itself has placed.
        assert ledger.balance("ann") == 9_500 - 16 * 100 + 8 * 10
        assert [ledger.bet(bet.bet_id).state for bet in bets] == ["CLOSED"] * 8 + ["OPEN"] * 8
    with names["transaction"]() as casino:
        assert casino.execute("SELECT bets FROM players").fetchall() == [(17,)]


@pytest.mark.outside
@pytest.mark.parametrize(
    ("page", "commands", "printed"),
    [
        pytest.param("first-wallet.md", [*["game-operator"] * 3, "uvicorn"], "100.00\n", id="the ready wallet"),
        pytest.param("own-wallet.md", ["game-operator", "uvicorn"], "95.00 95.00\n", id="a wallet that exists"),
    ],
)
def test_a_wallet_is_served_as_it_is_pasted(
    page: str,
    commands: list[str],
    printed: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In a fresh folder: the program, the commands below it, and the call from another terminal."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wallet.py").write_text(_block(page, "python", "app = asgi_app(receiver, "))
    typed = [line.removeprefix("$ ") for line in _block(page, "console", "uvicorn").splitlines()]
    assert [shlex.split(command)[0] for command in typed] == commands
    scripts = Path(sys.executable).parent
    for command in typed[:-1]:
        subprocess.run([scripts / "game-operator", *shlex.split(command)[1:]], check=True, timeout=50)
    with _served(scripts, shlex.split(typed[-1])[1:]) as port:
        caller = _block(page, "python", "WebhookCaller(")
        assert "127.0.0.1:8000" in caller
        capsys.readouterr()
        exec(caller.replace("127.0.0.1:8000", f"127.0.0.1:{port}"), {})
    assert capsys.readouterr().out == printed


@contextmanager
def _served(scripts: Path, arguments: list[str]) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    server = subprocess.Popen(
        [scripts / "uvicorn", *arguments, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_until_it_listens(port, server)
        yield port
    finally:
        server.terminate()
        server.wait(50)
