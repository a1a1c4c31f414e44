"""Live with a thousand calls of any length: no page parses their bodies, and each has its bound."""

import httpx
import pytest

from game_operator.models.webhooks import LONGEST_ID
from game_operator.protocol.http import HttpReply
from game_operator_testkit.sandbox import Sandbox
from game_operator_testkit.sandbox.service import exchange_log
from testkit.tests.control_room.support import page
from testkit.tests.control_room.test_live import numbers, recorded

pytestmark = pytest.mark.outside

MOST_BYTES = 100_000
PAGES = ("/live", "/live?search=zzz", "/live?answer=SUCCESS", "/live?before=900", "/live/1000", "/live/1000?player=p1")
#: Ids that take the most room: once they are escaped, and once nothing hides in them.
HEAVY = ('"' * LONGEST_ID, "\U0010ffff" * LONGEST_ID)


def test_no_page_reads_a_body_again(own: Sandbox, at_home: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a list shows of a body was read when the call was recorded; and a search has its bound."""
    for number in range(1_000):
        recorded(own, player_id=f"p{number % 7}", bet_id=f"bet-{number}", request_body=b'{"n":%d}' % number)

    def reads(_answer: HttpReply) -> None:
        raise AssertionError("a body was parsed")

    monkeypatch.setattr(exchange_log, "reply_in", reads)
    for path in PAGES:
        html = page(at_home, path.replace("1000", str(own.live.count)))
        assert len(html.source.encode()) < MOST_BYTES, path
    assert len(numbers(page(at_home, "/live").source)) == 50
    with pytest.raises(AssertionError, match="a body was parsed"):
        recorded(own)


@pytest.mark.parametrize("name", HEAVY, ids=["quotes", "unassigned"])
def test_the_longest_ids_make_no_heavy_page(own: Sandbox, at_home: httpx.Client, name: str) -> None:
    """A page of the list has 50 calls, however long they are; the page of a call is bounded by bytes."""
    heavy = name.encode() * 100
    code = b"X" * 256
    for number in range(60):
        recorded(
            own,
            player_id=name,
            bet_id=name[1:] + "b",
            round_id=name,
            tx_id=name,
            path="/" + name * 20,
            note=name * 20,
            fault="reply-lost, duplicate, slow, other-content",
            request_headers=((b"Signature", heavy), *((b"x" * 500, heavy) for _ in range(60))),
            request_body=b"%d" % number + heavy,
            response_headers=tuple((b'"' * 500, b"\xff" * 5_000) for _ in range(60)),
            response_body=b'{"type":"ERROR","code":"%s","balance":1.00,"timestamp":1,"x":"%s"}' % (code, b"<" * 9_000),
        )
    newest = own.live.count
    asked = httpx.QueryParams(player=name, bet=name[1:] + "b", search=name, answer=code.decode())
    for path, most_bytes in (
        ("/live", 6 * MOST_BYTES),
        (f"/live?{asked}", 6 * MOST_BYTES),
        (f"/live/{newest}", MOST_BYTES),
    ):
        html = page(at_home, path)
        assert len(html.source.encode()) < most_bytes, path
