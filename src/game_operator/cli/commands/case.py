"""``game-operator case``: all that is known of one bet."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import typer

from game_operator.cli.database import LedgerOptions, address_of, check_file
from game_operator.cli.errors import ExitCode
from game_operator.cli.options import ServiceOptions, Source, check_extra
from game_operator.cli.output import answer, check_writable, is_written, say, waiting
from game_operator.cli.reports.case import show_case
from game_operator.errors import ConfigurationError, shown


def case(
    *,
    bet_id: Annotated[str, typer.Argument()],
    source: Source = "",
    html: Path | None = None,
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

    _check_page(html, place, [service.private_key])
    with (
        place.opened() as ledger,
        _client(service, offline=offline) as client,
        waiting("Making the case file …"),
    ):
        try:
            made = case_file(
                ledger,
                bet_id,
                source=source,
                client=client,
                redact=redact,
            )
        except ValueError as wrong:  # An id that no bet can have.
            raise typer.BadParameter(f"{wrong}.") from None
    answer({"format": 1, "digest": made.digest, "contents": made.contents})
    show_case(made)
    if html is not None:
        page = made.to_html()
        if not is_written(html, page, "case file"):
            return ExitCode.UNWRITABLE
        say(f"The case file is in {html}. Its SHA-256, as sha256sum shows it: {sha256(page.encode()).hexdigest()}")
    return ExitCode.FINE if made.is_known else ExitCode.SAID_NO


def _client(service: ServiceOptions, *, offline: bool) -> AbstractContextManager[Any]:  # Any: a client, or None.
    return nullcontext() if offline or not service.are_given else service.client()


def _check_page(path: Path | None, place: LedgerOptions, sources: Sequence[Path | None]) -> None:
    """Raise ConfigurationError if a page cannot be written to *path*, or would take the place of what is read."""
    if path is None:
        return
    check_extra("--html", "cli", ["jinja2"])
    database = check_file(address_of(place.database))
    if path.absolute() in {each.absolute() for each in (database, *sources) if each is not None}:
        raise ConfigurationError(f"--html {shown(str(path))} would overwrite a file that this command reads.")
    check_writable("--html", path, ".html")
