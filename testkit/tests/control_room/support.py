"""Pages as a reader without a browser sees them."""

import re
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser

import httpx

from game_operator_testkit.control_room.application import PAGES

#: A player's name that must never become a part of a page.
EVIL = "<script>alert(1)</script>"
EVIL_ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt;"

#: Every page of the navigation, with what its title begins with.
PATHS = {each.PATH: each.TITLE for each in PAGES}

#: The lobby with one game alone, which is quicker to read.
_ONE_GAME = "/?genre=Crash"
_TOKEN = re.compile(r'name="form_token" value="([A-Za-z0-9_-]{43})"')


@dataclass
class Html(HTMLParser):
    """What a page holds: its elements, and its text."""

    source: str
    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.source)
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of each element called *tag*."""
        return [attributes for name, attributes in self.elements if name == tag]

    def values(self, attribute: str) -> list[str]:
        """Return the values of *attribute*, wherever it stands."""
        return [attributes[attribute] or "" for _, attributes in self.elements if attribute in attributes]


def page(http: httpx.Client, path: str, *, status: int = 200) -> Html:
    """Return the page at *path*."""
    response = http.get(path)
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    return Html(response.text)


@cache
def form_token(http: httpx.Client) -> str:
    """Return the token of the forms, which stays the same for as long as a server runs."""
    return _token_in(http.get(_ONE_GAME).text)


def _token_in(source: str) -> str:
    found = _TOKEN.search(source)
    assert found is not None
    return found[1]


def post(http: httpx.Client, path: str, **fields: str) -> httpx.Response:
    """Send a form as the page would."""
    return http.post(path, data={"form_token": form_token(http), **fields})


def play(http: httpx.Client, path: str = "/play", **fields: str) -> httpx.Response:
    """Play a round by the lobby's form; p1 wagers 1.00 and wins 2.50 unless *fields* say otherwise."""
    html = page(http, _ONE_GAME)
    select = next(each for each in html.all("option") if each.get("value") and "selected" in each)
    filled_in = {"player_id": "p1", "instance_id": select["value"] or "", "wager": "1", "outcome": "win", "won": "2.50"}
    return http.post(path, data={"form_token": _token_in(html.source), **filled_in, **fields})
