"""The page of one call: what it means, its deliveries, its balance, and its neighbours."""

from collections.abc import Iterator
from decimal import Decimal

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.ledger import MemoryLedger
from game_operator.wallet import Wallet
from game_operator_testkit.control_room.call_page import laid_out
from game_operator_testkit.sandbox import Sandbox
from game_operator_testkit.sandbox.service.exchange_log import Exchange
from testkit.tests.control_room.running import Room, room_with
from testkit.tests.control_room.support import Html, page, play
from testkit.tests.control_room.test_live import recorded
from tests.support.shell import needs_curl, run_in_shell

pytestmark = pytest.mark.outside

LOST = {"fault": "request-lost", "note": "request lost", "status": None, "response_body": b""}
REPLY_LOST = {"fault": "reply-lost", "note": "reply lost"}
ERROR = b'{"type":"ERROR","code":"%s","timestamp":1}'


@pytest.fixture
def own_ledger() -> MemoryLedger:
    """Where ann has 100.00."""
    return MemoryLedger({"ann": 10_000})


@pytest.fixture
def home(own_ledger: MemoryLedger, private_key: RSAPrivateKey) -> Iterator[Room]:
    """A control room with an empty log, for the test to fill, and with its own wallet."""
    with room_with(private_key, Wallet(own_ledger)) as room:
        yield room


def delivered(sandbox: Sandbox, **changes: object) -> Exchange:
    """Put a delivery of always the same call into the live log."""
    return recorded(sandbox, **({"request_body": b'{"player_id":"p1"}'} | changes))


def row_of(html: Html, number: int) -> str:
    return Html(html.source.partition(f'id="call-{number}"')[2].partition("</tr>")[0]).text


def test_deliveries_of_a_call_stand_together(own: Sandbox, at_home: httpx.Client) -> None:
    """Each says which it is of how many, and which was lost; a forged copy is not one of them, nor another call."""
    first, second = delivered(own, **LOST), delivered(own, **REPLY_LOST)
    forged = delivered(own, signature="forged")
    third, other = delivered(own), delivered(own, request_body=b"{}")
    listed = page(at_home, "/live")
    for place, call in enumerate((first, second, third), start=1):
        assert f"delivery {place} of 3" in row_of(listed, call.number)
    for call in (forged, other):
        assert "delivery" not in row_of(listed, call.number)
        assert "Deliveries of this call" not in page(at_home, f"/live/{call.number}").text
    one = page(at_home, f"/live/{second.number}").text
    assert "Deliveries of this call 3, the oldest first" in one
    assert f"call {first.number} no answer request lost" in one
    assert "this one SUCCESS reply lost" in one


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        pytest.param(LOST, "the wallet never received it", id="request"),
        pytest.param(REPLY_LOST, "The wallet has received the call and answered it", id="reply"),
        pytest.param({"status": None, "note": "no answer within 10 s"}, "may have carried the call out", id="neither"),
    ],
)
def test_what_the_loss_of_a_delivery_means(
    own: Sandbox, at_home: httpx.Client, lost: dict[str, object], said: str
) -> None:
    """And whether a later delivery of the call was answered."""
    number = delivered(own, **lost).number
    text = page(at_home, f"/live/{number}").text
    assert said in text
    assert "No later delivery of this call in the log was answered." in text
    again = delivered(own).number
    assert f"The same call was delivered again as number {again}: SUCCESS." in page(at_home, f"/live/{number}").text
    assert said not in page(at_home, f"/live/{again}").text


def test_what_was_never_sent_took_no_time(own: Sandbox, at_home: httpx.Client) -> None:
    """A dash in the list, and no time on its page; any other call has one."""
    lost, answered = delivered(own, **LOST).number, delivered(own).number
    listed = page(at_home, "/live")
    assert [row_of(listed, number).endswith(" –") for number in (lost, answered)] == [True, False]
    pages = [page(at_home, f"/live/{number}").text for number in (lost, answered)]
    assert "UTC, and lost on its way." in pages[0]
    assert "0.00 ms" not in pages[0]
    assert "answered in 0.00 ms" in pages[1]


def test_a_list_says_amounts_and_balances(own: Sandbox, at_home: httpx.Client) -> None:
    """What is taken, paid and given back, and what the wallet says is left."""
    own.play_round(player_id="ann", wager_cents=500, won_cents=1_250)
    own.play_round(player_id="ann", wager_cents=300, cancel=True)
    own.play_round(player_id="ann", wager_cents=100, won_cents=0)
    listed = page(at_home, "/live")
    calls = own.live.recent()[::-1]
    amounts = [row_of(listed, each.number).split(" valid")[0].split()[-2:] for each in calls]
    assert amounts == [
        ["−5.00", "95.00"], ["+12.50", "107.50"], ["−3.00", "104.50"], ["+3.00", "107.50"], ["−1.00", "106.50"],
        ["0.00", "106.50"],
    ]  # fmt: skip
    for call in calls:
        assert f"ann {call.bet_id} " in row_of(listed, call.number)
        assert call.operation == "withdraw" or f"round {call.round_id}" in row_of(listed, call.number)
    taken = page(at_home, "/live/1").text
    assert "By this answer the wallet took 5.00, now or at an earlier delivery." in taken
    assert "It says that the player now has 95.00." in taken


def test_a_balance_that_disagrees_is_said_on_the_spot(
    own: Sandbox, at_home: httpx.Client, own_ledger: MemoryLedger
) -> None:
    """In the list, above it, and on the page of the call, which leads to the player's calls."""
    own.play_round(player_id="ann", wager_cents=500, won_cents=0)
    right = own.live.count
    assert "disagree" not in page(at_home, "/live").text
    own_ledger.adjust("ann", Decimal("-0.75"), reference="by hand")
    own.play_round(player_id="ann", wager_cents=100, won_cents=0)
    wrong = right + 1
    listed = page(at_home, "/live")
    assert "93.25should be 94.00" in row_of(listed, wrong).replace(" should", "should")
    assert "with a balance that disagrees" in listed.text
    one = page(at_home, f"/live/{wrong}")
    assert "it is 93.25 and should be 94.00, so the wallet has 0.75 too little." in one.text
    assert "/live?player=ann" in one.values("href")
    assert "The balance in this answer" not in page(at_home, f"/live/{right}").text
    own.service.balances.accept("ann")
    assert "should be" not in page(at_home, "/live").text


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ERROR % b"INSUFFICIENT_BALANCE", "less than the wager, so no money moved."),
        (ERROR % b"SYSTEM_ERROR", "It may have moved the money or not"),
        (ERROR % b"MY_OWN", ""),
        (b"<html>", ""),
    ],
)
def test_what_an_answer_means(own: Sandbox, at_home: httpx.Client, answer: bytes, said: str) -> None:
    """In a sentence, where the code is one that everybody uses."""
    text = page(at_home, f"/live/{recorded(own, response_body=answer).number}").text
    assert said in text
    assert said or "moved" not in text


def test_neighbours(own: Sandbox, at_home: httpx.Client) -> None:
    """The next newer and the next older call, as far as there is one."""
    numbers = [recorded(own).number for _ in range(3)]
    found = [
        {each["rel"]: each["href"] for each in page(at_home, f"/live/{number}").all("a") if "rel" in each}
        for number in numbers
    ]
    first, middle, last = (f"/live/{number}" for number in numbers)
    assert found == [{"next": middle}, {"prev": first, "next": last}, {"prev": middle}]


def test_bytes_headers_and_json(own: Sandbox, at_home: httpx.Client) -> None:
    """JSON is laid out, and the raw bytes are a click away; what is not JSON is open at once."""
    headers = tuple((b"x-%d" % number, b"v" * 200) for number in range(31))
    number = recorded(own, request_body=b'{"amount":1.50}', response_body=b"<html>", response_headers=headers).number
    html = page(at_home, f"/live/{number}")
    assert (
        '<pre class="raw" tabindex="0" aria-label="Request: body">{\n  &#34;amount&#34;: 1.50\n}</pre>' in html.source
    )
    raw, answer_raw = [part for part in html.source.split("<details")[1:] if "Headers and raw bytes" in part]
    assert "{&#34;amount&#34;:1.50}</pre>" in raw
    assert not raw.startswith(' class="part" open')
    assert answer_raw.startswith(' class="part" open')
    assert answer_raw.count("x-") == 31


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        pytest.param(b'{"a":1.50,"b":[1,{}]}', '{\n  "a": 1.50,\n  "b": [\n    1,\n    {}\n  ]\n}', id="nested"),
        pytest.param(b'{"a":1e400,"b":-0.0,"a":1}', '{\n  "a": 1e400,\n  "b": -0.0,\n  "a": 1\n}', id="digits, twice"),
        pytest.param(b"[" + b"9" * 5_000 + b"]", "[\n  " + "9" * 5_000 + "\n]", id="a number that int() refuses"),
        pytest.param(b" [ ] ", "[ ]", id="empty"),
        pytest.param(b'"}]{[,:"', '"}]{[,:"', id="marks in a text"),
        pytest.param(rb'["\u202e\"\\"]', '[\n  "\\u202e\\"\\\\"\n]', id="escapes stay"),
        pytest.param('["a\u202eb"]'.encode(), '[\n  "a\\u202eb"\n]', id="nothing hides"),
        pytest.param(b"null", "null", id="a word"),
        *(
            pytest.param(body, "", id=name)
            for name, body in {
                "nothing": b"", "half": b"{", "HTML": b"<html>", "NaN": b"[NaN]", "not UTF-8": b"\xff",
                "two values": b"[1] [2]", "deep": b"[" * 9_000, "a bare line end in a text": b'"\n"',
            }.items()
        ),
    ],
)  # fmt: skip
def test_json_is_laid_out(body: bytes, shown: str) -> None:
    """Each value stands on its own line, as it was sent; what is not JSON is left to the raw bytes."""
    assert laid_out(body) == shown


def test_a_long_body_has_no_line_for_curl(own: Sandbox, at_home: httpx.Client) -> None:
    """It would be longer than the page may be."""
    for body, is_there in ((b"x" * 12_000, True), (b"x" * 12_288, False), (b"'" * 8_000, False)):
        text = page(at_home, f"/live/{recorded(own, request_body=body).number}").text
        assert ("The body is too long for a line here." not in text) == is_there
        assert ("curl --include" in text) == is_there


@needs_curl
def test_the_line_of_a_page_is_a_repeat(sandbox: Sandbox, http: httpx.Client, ledger: MemoryLedger) -> None:
    """Copied from the page of a withdraw, it is answered as before, with the signature it had, and takes nothing."""
    play(http)
    number = next(each.number for each in sandbox.live.recent() if each.path == "/withdraw")
    before = ledger.balance("p1")
    source = http.get(f"/live/{number}").text.partition('id="curl-line"')[2].partition("</pre>")[0]
    line = Html("<pre" + source).text
    assert line.startswith("curl ")
    answer = run_in_shell(line + " --silent --noproxy '*'")
    assert '"type":"SUCCESS"' in answer.replace(" ", "")
    assert ledger.balance("p1") == before
