"""Two calls side by side: which lines are marked, and what cannot be compared."""

import httpx
import pytest

from game_operator_testkit.control_room.two_calls import Line, compared
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.control_room.support import EVIL, page
from testkit.tests.control_room.test_live import recorded

pytestmark = pytest.mark.outside

PLAIN = b'{"amount":1.50,"tx_id":"t"}'


def marked(lines: list[Line]) -> list[str]:
    return [line.text.strip() for line in lines if line.differs]


@pytest.mark.parametrize(
    ("left", "right", "marks"),
    [
        pytest.param({}, {}, ([], []), id="the same"),
        pytest.param(
            {},
            {"request_body": PLAIN.replace(b"1.50", b"1.5")},
            (['"amount": 1.50,'], ['"amount": 1.5,']),
            id="a digit",
        ),
        pytest.param({}, {"request_body": b'{"tx_id":"t"}'}, (['"amount": 1.50,'], []), id="a member less"),
        pytest.param(
            {}, {"path": "/deposit"}, (["POST /withdraw HTTP/1.1"], ["POST /deposit HTTP/1.1"]), id="the path"
        ),
        pytest.param(
            {}, {"request_headers": ((b"Signature", b"abd"),)}, (["Signature: abc"], ["Signature: abd"]), id="a header"
        ),
        pytest.param({"request_body": b"a\nb\nb"}, {"request_body": b"b\na\nb"}, (["b"], ["b"]), id="another order"),
    ],
)
def test_lines_that_differ_are_marked(
    own: Sandbox, left: dict[str, object], right: dict[str, object], marks: tuple[list[str], list[str]]
) -> None:
    """Those that the other message lacks at that place; JSON is compared value by value."""
    calls = [recorded(own, **{"request_body": PLAIN} | changes) for changes in (left, right)]
    request = compared(*calls)["Request"]
    assert tuple(marked(list(side)) for side in request) == marks


def test_the_page_shows_both(own: Sandbox, at_home: httpx.Client) -> None:
    """The older one left, whatever the order of the address; an answer that is missing is a line too."""
    first = recorded(own, player_id=EVIL, request_body=EVIL.encode()).number
    second = recorded(own, request_body=b"x", status=None, response_body=b"").number
    for query in (f"call={first}&call={second}", f"call={second}&call={first}"):
        html = page(at_home, f"/live/compare?{query}")
        assert f"Calls {first} and {second}" in html.text
        assert "Request: 1 line differs. Answer: " in html.text
        assert EVIL not in html.source
        assert "<mark>no answer</mark>" in html.source


@pytest.mark.parametrize(
    "query", ["", "call=1", "call=1&call=1", "call=1&call=2&call=3", "call=1&call=99", "call=1&call=x"]
)
def test_two_calls_are_needed(own: Sandbox, at_home: httpx.Client, query: str) -> None:
    """Said on a page, with what to do."""
    for _ in range(3):
        recorded(own)
    assert "Tick two calls of the list" in page(at_home, f"/live/compare?{query}", status=400).text


def test_deliveries_lead_to_it(own: Sandbox, at_home: httpx.Client) -> None:
    """What a repeat changed is one click away."""
    numbers = [recorded(own, request_body=PLAIN).number for _ in range(2)]
    links = page(at_home, f"/live/{numbers[1]}").values("href")
    assert f"/live/compare?call={numbers[1]}&call={numbers[0]}" in links
