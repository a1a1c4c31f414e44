"""The copyable curl line of a call's page, run by a real shell; what a line can carry: provider/test_shell_lines.py."""

import httpx
import pytest

from game_operator.ledger import MemoryLedger
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.control_room.support import Html, play
from tests.support.shell import needs_curl, run_in_shell

pytestmark = pytest.mark.outside


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
