"""``certify``: from an address and a key to a report."""

import re
import ssl
import time
from collections.abc import Mapping, Sequence
from typing import Final, Unpack

from game_operator._version import __version__
from game_operator.errors import ConfigurationError, shown
from game_operator_testkit.certifier.engine.certification import Certification, OnVerdict, Settings, unusual
from game_operator_testkit.certifier.engine.run import Run
from game_operator_testkit.certifier.engine.scenario import Scenario
from game_operator_testkit.certifier.report.report import Moved, Report, causes_of
from game_operator_testkit.certifier.report.verdicts import Verdict
from game_operator_testkit.certifier.selection import in_playing_order, scenarios, selected
from game_operator_testkit.certifier.wallet_check import check_wallet
from game_operator_testkit.provider.caller import HeadersToSend, check_moves_money
from game_operator_testkit.provider.http import HttpCarrier
from game_operator_testkit.provider.in_process import (
    InProcessCarrier,
    ReplyingWallet,
    a_loop_runs_here,
    checked_function,
)
from game_operator_testkit.provider.keys import ServiceKeys, SigningKey

_NAME: Final = re.compile("[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile("(?:[!-~\x80-\xff](?:[ \t!-~\x80-\xff]*[!-~\x80-\xff])?)?")


class _Hidden(tuple[tuple[bytes, bytes], ...]):
    """Headers that the user added. One may hold a token, so only their names are shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"({', '.join(repr(name) for name, _ in self)})"


def certify(
    url: str,
    *,
    signing_key: SigningKey,
    headers: HeadersToSend = (),
    ssl_context: ssl.SSLContext | None = None,
    timeout: float = 5.0,
    moves_money: bool = False,
    allow_insecure_http: bool = False,
    **settings: Unpack[Settings],
) -> Report:
    """
    Certify the wallet at *url* and return the report (spec §4.1).

    It sends what a wallet must survive, and judges what the wallet answers. It moves money of the two players, and puts
    it back where it can.

    Args:
        url: What ``/withdraw`` and the others are below; plain http only to this machine.
        signing_key: The service's private key, whose public half the wallet has.
        headers: More headers for each request; a report shows their names alone.
        ssl_context: Whom to trust over https.
        timeout: Seconds for one request.
        moves_money: Needed for a wallet on another machine.
        allow_insecure_http: Whether plain http may go to another machine.
        settings: ``player_id``, ``other_player_id`` and what else a ``Certification`` has.

    Raises:
        RequestNotSentError: The wallet cannot be reached.
        ConfigurationError: A setting cannot work; ``SigningKeyError`` if it is a key.
    """
    extra = _hidden(headers)
    try:
        certification = Certification(signing_key=signing_key, **settings)
    finally:
        # Error trackers show the locals of every frame that an error passes.
        del signing_key, headers
    if isinstance(extra, ConfigurationError):
        raise extra
    if a_loop_runs_here():
        raise ConfigurationError(
            "certify() waits for the wallet, and an event loop runs in this thread. Call it in another thread: "
            "await asyncio.to_thread(certify, …)."
        )
    second_url = certification.supplies.second_url
    for address in (url, second_url):
        if address is not None:
            check_moves_money(address, "a certification", moves_money=moves_money)
    if second_url is not None and str(second_url).rstrip("/") == url.rstrip("/"):
        raise ConfigurationError(
            f"{shown(url)} is the wallet's own address.",
            setting="second_url",
            remedy="Pass another process of it, on the same database.",
        )
    carrier = HttpCarrier(
        url,
        _keys(certification),
        second_url=second_url,
        elsewhere=certification.supplies.elsewhere,
        headers=extra,
        profile=certification.profile,
        timeout=timeout,
        allow_insecure_http=allow_insecure_http,
        ssl_context=ssl_context,
    )
    return _certified(certification, carrier, url, tuple(name for name, _ in extra))


def certify_in_process(wallet: ReplyingWallet, *, signing_key: SigningKey, **settings: Unpack[Settings]) -> Report:
    """
    Certify a wallet in this process, without sockets; what needs them is skipped.

    *wallet* is a function of path, headers and body that returns an ``HttpReply``, as ``WebhookReceiver.handle`` does,
    or an awaitable of one. What it raises counts as its answer. *settings* are those of a ``Certification``.

    Raises:
        TypeError: *wallet* is no such function, or returned something else than an ``HttpReply``. The certification
            ends at once, and players keep what was moved.
        ConfigurationError: A setting cannot work, or *wallet* is async and an event loop runs in this thread.
    """
    try:
        certification = Certification(signing_key=signing_key, **settings)
    finally:
        del signing_key  # As in ``certify``.
    checked_function(wallet)
    second = certification.supplies.second_url
    carrier = InProcessCarrier(wallet, _keys(certification), profile=certification.profile, second=second)
    return _certified(certification, carrier)


def _keys(certification: Certification) -> ServiceKeys:
    supplies = certification.supplies
    return ServiceKeys(certification.signing_key, supplies.old_key, retired=supplies.retired_key)


def _certified(
    certification: Certification,
    carrier: HttpCarrier | InProcessCarrier,
    url: str = "",
    shown_headers: tuple[bytes, ...] = (),
) -> Report:
    began_millis, began = time.time_ns() // 1_000_000, time.monotonic()
    try:
        certification.check()
        chosen = in_playing_order(selected(certification.only, certification.skip))
        run = Run(carrier=carrier, certification=certification, shown_headers=shown_headers)
        check_wallet(run, url, with_second=any("processes" in each.needs for each in chosen))
        before = dict(run.known)
        verdicts = _played(run, chosen, certification.on_verdict)
        after = run.balances()
        known = {player_id: cents for player_id, cents in before.items() if cents is not None}
        if known == before and None not in after and (after != [*before.values()] or run.observed.is_behind):
            run.put_back(known)
            after = run.balances()
    finally:
        carrier.close()
    ordered = tuple(sorted(verdicts, key=lambda verdict: verdict.id))
    return Report(
        url=url,
        verdicts=ordered,
        causes=causes_of(ordered, {each.id: each.explains for each in scenarios()}),
        load_ms=tuple(run.observed.load_ms),
        moved=tuple(map(Moved, before, before.values(), after)),
        began_millis=began_millis,
        seconds=time.monotonic() - began,
        calls=run.calls,
        moving_calls=run.moving_calls,
        run_id=run.run_id,
        version=__version__,
        profile=unusual(certification.profile),
    )


def _played(run: Run, chosen: Sequence[Scenario], on_verdict: OnVerdict | None) -> list[Verdict]:
    """Return the verdicts of *chosen*, in this order."""
    for scenario in chosen:
        run.begin(scenario)
    verdicts = []
    for scenario in chosen:
        verdicts.append(run.play(scenario))
        if on_verdict is not None:
            on_verdict(verdicts[-1], len(chosen))
    return verdicts


def _hidden(headers: HeadersToSend) -> _Hidden | ConfigurationError:
    """Return *headers* as they travel, or what is wrong: raised here, it would carry their values along."""
    try:
        pairs = tuple(headers.items() if isinstance(headers, Mapping) else headers)
        for name, value in pairs:
            if name.lower() == "host":
                return ConfigurationError("The header Host follows from the address and cannot be added.")
            if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
                return ConfigurationError(f"The header {shown(name)} cannot travel: mind spaces and line breaks in it.")
        return _Hidden((name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs)
    except (TypeError, ValueError):
        return ConfigurationError("headers must be a mapping, or pairs of a name and a value, each of them a str.")
