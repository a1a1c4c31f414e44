"""What all pages have in common: where they say they are, what they load, and that they work without JavaScript."""

import re
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

import game_operator_testkit.control_room
from testkit.tests.control_room.support import PATHS, page

STATIC = Path(game_operator_testkit.control_room.__file__).parent / "static"
#: Attributes that would run a script, and one that would need inline styles.
INLINE = re.compile(r"on[a-z]+|hx-on.*|style")


@pytest.mark.parametrize(("path", "title"), PATHS.items())
def test_a_page_says_where_it_is(http: httpx.Client, path: str, title: str) -> None:
    """By its title, its heading, and the entry of the navigation that is marked as current."""
    html = page(http, path)
    assert f"<title>{title} · acme · game-operator</title>" in html.source
    assert [each for each in html.all("a") if each.get("aria-current") == "page"] == [
        {"href": path, "aria-current": "page"}
    ]
    assert len(html.all("h1")) == len(html.all("main")) == 1
    assert html.all("html") == [{"lang": "en"}]


@pytest.mark.parametrize("path", [*PATHS, "/nowhere"])
def test_a_page_loads_nothing_but_our_files(http: httpx.Client, path: str) -> None:
    """No script or style stands in a page, and every file it names is there and is ours."""
    html = page(http, path, status=404 if path == "/nowhere" else 200)
    assert [name for _, attributes in html.elements for name in attributes if INLINE.fullmatch(name)] == []
    assert [each for each in html.all("script") if "src" not in each] == html.all("style") == []
    files = [*html.values("src"), *(link["href"] or "" for link in html.all("link"))]
    assert len(files) >= 5
    assert [name for name in files if not name.startswith("/")] == []
    assert [name for name in files if http.get(name).status_code != 200] == []


@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_for_keyboards_and_screen_readers(http: httpx.Client, path: str) -> None:
    """The first link skips to the content, every field has a label, and every form posts without a script."""
    html = page(http, path)
    assert html.all("a")[0]["href"] == "#content"
    labelled = {each.get("for") for each in html.all("label")}
    fields = [each for tag in ("input", "select", "textarea") for each in html.all(tag)]
    # The others stand inside their label.
    assert [each for each in fields if "id" in each and each["id"] not in labelled] == []
    for form in html.all("form"):
        assert form["action"] is not None
        assert form["method"] in {"get", "post"}
    ids = html.values("id")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("path", ["/nowhere", "/live/0", "/live/999999", "/live/x", "/live/1/2", "/static/nothing.css"])
def test_what_is_not_there_is_said_on_a_page(http: httpx.Client, path: str) -> None:
    """With the navigation, so that one finds back."""
    html = page(http, path, status=404)
    assert "Not found" in html.text
    assert "/live" in html.values("href")


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/"), ("PUT", "/live"), ("DELETE", "/play"), ("GET", "/play"), ("GET", "/live/1/again")],
)
def test_other_methods_are_refused(http: httpx.Client, method: str, path: str) -> None:
    """A link can change nothing."""
    assert http.request(method, path).status_code == 405


@pytest.mark.parametrize(
    "path", ["/static/..%2fguard.py", "/static/../guard.py", "/static/%2e%2e/guard.py", "/static/", "/static/genres"]
)
def test_only_the_files_are_served(http: httpx.Client, path: str) -> None:
    """No path leads out of the folder."""
    assert http.get(path).status_code == 404


def test_htmx_is_what_the_notice_says() -> None:
    """The files of others are shipped as they were published, with their licence."""
    notice = (STATIC / "NOTICE.txt").read_text()
    for name in ("htmx.min.js", "hx-sse.min.js"):
        assert sha256((STATIC / name).read_bytes()).hexdigest() in notice
        assert name in notice
    assert "Zero-Clause BSD" in (STATIC / "htmx-LICENSE.txt").read_text()


def test_a_path_that_is_nearly_the_apis_is_a_page(http: httpx.Client) -> None:
    """The API has what begins with /api/, and the document; all else is the control room's."""
    for path, kind in (("/api/", "application/json"), ("/api", "text/html"), ("/openapi.json/", "text/html")):
        response = http.get(path)
        assert response.status_code == 404
        assert response.headers["content-type"].startswith(kind)
