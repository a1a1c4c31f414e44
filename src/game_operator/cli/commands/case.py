"""``game-operator case``: all that is known of one bet."""

from contextlib import AbstractContextManager, nullcontext
from hashlib import sha256
from typing import Annotated, Any, Final

import typer

from game_operator.cli.database import LedgerOptions
from game_operator.cli.errors import ExitCode
from game_operator.cli.files import HtmlFile, check_page, is_written
from game_operator.cli.options import ServiceOptions, Source, checked_values
from game_operator.cli.output import answer, say, waiting

#: The parts that people see; programs and pages have all of it.
_VIEW: Final = {
    "contents.ledger.bet": (
        "state player_id account wager_cents won_cents opened_at_millis settled_at_millis settled_by game round_id"
    ),
    "contents.ledger.calls": "at_millis operation tx_id amount_cents code balance_cents",
    "contents.ledger.postings": "at_millis operation tx_id account delta_cents",
    "contents.anomalies": "id kind code operation tx_id seen last_at_millis resolved_at_millis",
    "contents.findings": "id kind detail seen last_at_millis resolved_at_millis resolved_by resolution",
    "contents.reconciliations": "run_id verdict at_millis service",
    "contents.comparison.differences": "field ours theirs text",
    "contents.ledger": "notes",
    "contents.provider": "problem",
    "": "digest",
}


def case(
    *,
    bet_id: Annotated[str, typer.Argument()],
    source: Source = "",
    html: HtmlFile = None,
    redact: bool = False,
    offline: bool = False,
    place: LedgerOptions,
    service: ServiceOptions,
) -> int:
    """
    Make the case file of a bet: all that the ledger and the provider know of it, with a hash.

    --json prints it whole, --html writes it as a page. The provider is asked unless --offline is passed, or nothing
    is set about the service. The exit code is 1 for a bet that nobody knows.
    """
    from game_operator.backoffice.case import case_file

    check_page(html)
    with (
        place.opened() as ledger,
        _client(service, offline=offline) as client,
        waiting("Making the case file …"),
        checked_values(),
    ):
        made = case_file(ledger, bet_id, source=source, client=client, redact=redact)
    page = "" if html is None else made.to_html()
    is_complete = html is None or is_written(html, page, "report")
    document = {"format": 1, "digest": made.digest, "contents": made.contents}
    answer(document, *made.contents["summary"], view=_VIEW)
    if not is_complete:
        return ExitCode.UNWRITABLE
    if html is not None:
        say(f"The case file is in {html}. Its SHA-256, as sha256sum shows it: {sha256(page.encode()).hexdigest()}")
    return ExitCode.FINE if made.is_known else ExitCode.SAID_NO


def _client(service: ServiceOptions, *, offline: bool) -> AbstractContextManager[Any]:  # Any: a client, or None.
    return nullcontext() if offline or not service.are_given else service.client()
