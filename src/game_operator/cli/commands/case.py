"""``game-operator case``: all that is known of one bet, and the check of a case file."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from game_operator.cli.database import LedgerOptions
from game_operator.cli.errors import ExitCode
from game_operator.cli.files import ReportFiles
from game_operator.cli.options import (
    ProfileFile,
    ServiceOptions,
    Source,
    checked_values,
    read_file,
    read_profile,
    signed_by,
)
from game_operator.cli.output import say, waiting
from game_operator.cli.render import answer
from game_operator.errors import ConfigurationError, shown

_MOST_BYTES = 64 * 1024 * 1024
_MOST_CASE_BYTES = 512 * 1024 * 1024
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
    "contents.exchanges": "path verdict kept_body note",
    "contents.comparison.differences": "field ours theirs text",
    "contents.ledger": "notes",
    "contents.provider.bet": "problem",
    "contents.provider.round": "problem",
    "": "digest",
}


def case(
    *,
    bet_id: Annotated[str | None, typer.Argument()] = None,
    source: Source = "",
    html: Path | None = None,
    redact: bool = False,
    offline: bool = False,
    profile: ProfileFile = None,
    check: Path | None = None,
    exchange: list[Path] | None = None,
    service_public_key: list[Path] | None = None,
    place: LedgerOptions,
    service: ServiceOptions,
) -> int:
    """
    Make the case file of a bet: all that the ledger, the provider and your logs know of it, with a hash.

    --json prints it whole, --html writes it as a page. The provider is asked unless --offline is passed, or nothing
    is set about the service. The exit code is 1 for a bet that nobody knows, and for a --check that fails.
    """
    if (bet_id is None) == (check is None):
        raise typer.BadParameter("Name a bet, or pass --check FILE to check a case file: one of the two.")
    if check is not None:
        return _check(check)
    assert bet_id is not None
    from game_operator.backoffice.case import case_file, read_exchanges

    files = ReportFiles(html=html)
    files.check()
    exchanges = [each for file in exchange or () for each in read_exchanges(_content(file, _MOST_BYTES), str(file))]
    authenticator = signed_by(service_public_key) if service_public_key else None
    assumed = read_profile(profile)
    with (
        place.opened() as ledger,
        _client(service, offline=offline) as client,
        waiting("Making the case file …"),
        checked_values(),
    ):
        made = case_file(
            ledger,
            bet_id,
            source=source,
            client=client,
            redact=redact,
            profile=assumed,
            authenticator=authenticator,
            exchanges=exchanges,
        )
    is_complete = files.are_written(made.to_html, str)
    document = {"format": 1, "digest": made.digest, "contents": made.contents}
    answer(document, *made.contents["summary"], view=_VIEW)
    if not is_complete:
        return ExitCode.UNWRITABLE
    if html is not None:
        say(f"The case file is in {html}.")
    return ExitCode.FINE if made.is_known else ExitCode.SAID_NO


def _client(service: ServiceOptions, *, offline: bool) -> AbstractContextManager[Any]:  # Any: a client, or None.
    return nullcontext() if offline or not service.are_given else service.client()


def _check(file: Path) -> int:
    from game_operator.backoffice.case import check_case_file

    checked = check_case_file(_content(file, _MOST_CASE_BYTES))
    sentence = (
        "✓ The case file has the hash that it names. Compare it with the one that you kept elsewhere: a changed file "
        "can hold a new hash."
    )
    document = checked._asdict() | {"is_unaltered": checked.is_unaltered}
    answer(document, sentence if checked.is_unaltered else f"✗ {checked.problem}", view={"": "bet_id digest"})
    return ExitCode.FINE if checked.is_unaltered else ExitCode.SAID_NO


def _content(file: Path, most: int) -> bytes:
    content = read_file(str(file), most + 1)
    if len(content) > most:
        raise ConfigurationError(f"{shown(str(file))} has more than {most:,} bytes. Pass a smaller file.")
    return content
