"""``certify``: from an address and a key to a report. It first checks the address, the key and the players."""

import re
import secrets
import ssl
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from decimal import Decimal
from threading import Event
from typing import Any, Final, Literal, TypeAlias

from game_operator._version import __version__
from game_operator.codes import WebhookErrorCode
from game_operator.errors import ConfigurationError, RequestNotSentError, shown
from game_operator.models.webhooks import LONGEST_ID, problem_of_id
from game_operator.money import amount_from_cents, cents_from_amount
from game_operator.profile import Profile
from game_operator.protocol.made_ids import CERTIFY_DIGITS, certify_run_id
from game_operator_testkit.certifier.engine.balances import MOST_BALANCE_CENTS
from game_operator_testkit.certifier.engine.calls import PAYS
from game_operator_testkit.certifier.engine.observed import Observed
from game_operator_testkit.certifier.engine.run import Run
from game_operator_testkit.certifier.engine.scenario import LOAD, Scenario
from game_operator_testkit.certifier.engine.steps import Allowance
from game_operator_testkit.certifier.engine.supplies import Supplies
from game_operator_testkit.certifier.report.report import Moved, Report, causes_of
from game_operator_testkit.certifier.report.verdicts import TURNING_AWAY, Verdict
from game_operator_testkit.certifier.selection import in_playing_order, scenarios, selected
from game_operator_testkit.provider.caller import HeadersToSend
from game_operator_testkit.provider.delivery import Carried
from game_operator_testkit.provider.http import HttpCarrier
from game_operator_testkit.provider.in_process import (
    InProcessCarrier,
    ReplyingWallet,
    a_loop_runs_here,
    checked_function,
)
from game_operator_testkit.provider.keys import ServiceKeys, SigningKey
from game_operator_testkit.provider.permission import check_moves_money
from game_operator_testkit.provider.requests import Form, Seal

#: Called with each verdict, and with how many scenarios there are.
OnVerdict: TypeAlias = Callable[[Verdict, int], object]

#: All ids begin with it, and some are of the longest length.
_RUN_ID: Final = re.compile("[A-Za-z0-9_-]{1,64}")
_NAME: Final = re.compile("[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile("(?:[!-~\x80-\xff](?:[ \t!-~\x80-\xff]*[!-~\x80-\xff])?)?")
#: The least that both players must have, in cents: scenarios scale to what there is.
_LEAST_CENTS: Final = 1_000
#: And the most, so that what is won besides can still be moved.
_MOST_CENTS: Final = MOST_BALANCE_CENTS // 10
_SHOWN_BYTES: Final = 200
#: How else a signature may be written: what a wallet that refuses ours may expect.
_OTHER_FORMS: Final[tuple[Form, ...]] = ("standard padded", "standard", "url-safe padded")
_REMEDIES: Final[Mapping[str, str]] = {
    WebhookErrorCode.INVALID_SIGNATURE: "The wallet says that our signature is wrong. It needs the public half of "
    "the key that you certify with, and has to look for RSA-SHA256 (PKCS#1 v1.5) over the body's bytes as they came, "
    "in the header signature (or the one that the profile names; in capitals or not), in URL-safe Base64 without "
    "padding (assumed, decision 0011).",
    WebhookErrorCode.INVALID_REQUEST: "The wallet does not understand a player-balance. Mind the address, a prefix "
    "such as /wallet, and pass the profile with which it reads its bodies.",
    WebhookErrorCode.SYSTEM_ERROR: "The wallet fails, or has another key than ours. Look into its log.",
}


class _Hidden(tuple[tuple[bytes, bytes], ...]):
    """Headers that the user added. One may hold a token, so only their names are shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"({', '.join(repr(name) for name, _ in self)})"


def certify(
    url: str,
    *,
    signing_key: SigningKey,
    player_id: str,
    other_player_id: str,
    profile: Profile | None = None,
    only: Iterable[str] = (),
    skip: Iterable[str] = (),
    supplies: Supplies | None = None,
    instance_id: str | None = None,
    game: str | None = None,
    wager_amount: Decimal | None = None,
    headers: HeadersToSend = (),
    ssl_context: ssl.SSLContext | None = None,
    timeout: float = 5.0,
    deadline: float = 600.0,
    moves_money: bool = False,
    allow_insecure_http: bool = False,
    on_verdict: OnVerdict | None = None,
    run_id: str | None = None,
    stopping: Event | None = None,
    with_signatures: bool = False,
) -> Report:
    """
    Certify the wallet at *url* and return the report (spec §4.1).

    It sends what a wallet must survive, and judges what the wallet answers. It moves money of the two players, and puts
    it back where it can.

    Args:
        url: What ``/withdraw`` and the others are below; plain http only to this machine.
        signing_key: The service's private key, whose public half the wallet has.
        player_id: A test player with at least 10.00, in no other use meanwhile.
        other_player_id: Another one.
        profile: What is assumed of the wallet.
        only: Groups (``B``) or ids (``B05``) to be played; all if empty.
        skip: Groups or ids to be left out.
        supplies: What more can be done to the wallet; scenarios that need it are skipped without.
        instance_id: The game instance that is played; a wallet that knows its instances refuses others.
        game: The game that is played, for a wallet that knows its games; a made-up one if None.
        wager_amount: A wager in currency units that the wallet takes; None for at most 5.00, and for less or more where
            the wallet answers that this is beyond a limit.
        headers: More headers for each request; a report shows their names alone.
        ssl_context: Whom to trust over https.
        timeout: Seconds for one request.
        deadline: Seconds for the whole run; what is not played by then failed.
        moves_money: Needed for a wallet on another machine.
        allow_insecure_http: Whether plain http may go to another machine.
        on_verdict: Called with each verdict as soon as there is one, and with how many scenarios are played.
        run_id: What all ids of this run begin with; a new one if None. Runs with the same one are no fresh runs, and a
            reconciliation knows test bets by a new one alone.
        stopping: Once it is set, from a signal handler or another thread, the call under way is waited for, money is
            put back, and the report says that it was stopped.
        with_signatures: Whether the report holds the signatures of the calls. A reader can send such calls to
            each wallet that trusts the key; without them, ``game-operator call`` signs a call again.

    Raises:
        RequestNotSentError: The wallet cannot be reached.
        ConfigurationError: A setting cannot work; ``SigningKeyError`` if it is a key.
    """
    if a_loop_runs_here():
        raise ConfigurationError(
            "certify() waits for the wallet, and an event loop runs in this thread. Call it in another thread: "
            "await asyncio.to_thread(certify, …)."
        )
    extra = _hidden(headers)
    profile, supplies = profile or Profile(), supplies or Supplies()
    try:
        keys = ServiceKeys(signing_key, supplies.old_key, retired=supplies.retired_key)
    finally:
        # Error trackers show the locals of every frame that an error passes.
        del signing_key, headers
    if isinstance(extra, ConfigurationError):
        raise extra
    for address in (url, supplies.second_url):
        if address is not None:
            check_moves_money(address, "a certification", moves_money=moves_money)
    if supplies.second_url is not None and str(supplies.second_url).rstrip("/") == url.rstrip("/"):
        raise ConfigurationError(
            f"{shown(url)} is the wallet's own address.",
            setting="second_url",
            remedy="Pass another process of it, on the same database.",
        )
    chosen, run_id = selected(only, skip), _run_id(run_id)
    carrier = HttpCarrier(
        url,
        keys,
        second_url=supplies.second_url,
        elsewhere=supplies.elsewhere,
        headers=extra,
        profile=profile,
        timeout=timeout,
        allow_insecure_http=allow_insecure_http,
        ssl_context=ssl_context,
    )
    run = Run(
        carrier=carrier,
        profile=profile,
        player_ids=(player_id, other_player_id),
        supplies=supplies,
        run_id=run_id,
        instance_id=instance_id,
        allowance=Allowance(deadline, stopping),
        shown_headers=tuple(name for name, _ in extra),
        with_signatures=with_signatures,
        **_what_is_played(game, wager_amount),
    )
    return _certified(url, run, chosen, on_verdict)


def certify_in_process(
    wallet: ReplyingWallet,
    *,
    signing_key: SigningKey,
    player_id: str,
    other_player_id: str,
    profile: Profile | None = None,
    only: Iterable[str] = (),
    skip: Iterable[str] = (),
    supplies: Supplies | None = None,
    instance_id: str | None = None,
    game: str | None = None,
    wager_amount: Decimal | None = None,
    deadline: float = 600.0,
    on_verdict: OnVerdict | None = None,
    run_id: str | None = None,
    stopping: Event | None = None,
    with_signatures: bool = False,
) -> Report:
    """
    Certify a wallet in this process, without sockets; what needs them is skipped.

    *wallet* is a function of path, headers and body that returns an ``HttpReply``, as ``WebhookReceiver.handle`` does,
    or an awaitable of one. What it raises counts as its answer. All else is as for ``certify``.

    Raises:
        TypeError: *wallet* is no such function, or returned something else than an ``HttpReply``. The certification
            ends at once, and players keep what was moved.
        ConfigurationError: A setting cannot work, or *wallet* is async and an event loop runs in this thread.
    """
    checked_function(wallet)
    profile, supplies = profile or Profile(), supplies or Supplies()
    try:
        keys = ServiceKeys(signing_key, supplies.old_key, retired=supplies.retired_key)
    finally:
        # As in ``certify``.
        del signing_key
    chosen, run_id = selected(only, skip), _run_id(run_id)
    run = Run(
        carrier=InProcessCarrier(wallet, keys, profile=profile, second=supplies.second_url),
        profile=profile,
        player_ids=(player_id, other_player_id),
        supplies=supplies,
        run_id=run_id,
        instance_id=instance_id,
        allowance=Allowance(deadline, stopping),
        with_signatures=with_signatures,
        **_what_is_played(game, wager_amount),
    )
    return _certified("", run, chosen, on_verdict)


def _certified(url: str, run: Run, chosen: tuple[Scenario, ...], on_verdict: OnVerdict | None) -> Report:
    began_millis, began = time.time_ns() // 1_000_000, time.monotonic()
    verdicts: list[Verdict] = []
    stages: defaultdict[str, float] = defaultdict(float)
    try:
        if run.profile.parse is not None:
            raise ConfigurationError(
                "The profile reads bodies by a function of your own, so they cannot be written. Pass a profile that "
                "names the fields instead."
            )
        needs_second = any("second_url" in each.needs for each in chosen)
        _check_wallet(run, url, with_second=needs_second and run.supplies.second_url is not None)
        before = list(run.known.values())
        in_order = in_playing_order(chosen)
        for scenario in in_order:
            run.begin(scenario)
        for scenario in in_order:
            verdict = run.play(scenario)
            stages[scenario.stage] += verdict.duration_ms / 1_000
            verdicts.append(verdict)
            if on_verdict is not None:
                on_verdict(verdict, len(chosen))
        after = run.balances()
        if (after != before or run.observed.is_behind) and None not in after:
            run.put_back(before)
            after = run.balances()
    finally:
        run.carrier.close()
    ordered = tuple(sorted(verdicts, key=lambda verdict: verdict.id))
    return Report(
        url=url,
        verdicts=ordered,
        causes=causes_of(ordered, {each.id: each.explains for each in scenarios()}),
        latency=run.latency(stages.get(LOAD, 0.0)),
        moved=tuple(map(Moved, run.player_ids, before, after)),
        began_millis=began_millis,
        seconds=time.monotonic() - began,
        calls=run.calls,
        run_id=run.run_id,
        version=__version__,
        stages_seconds=dict(stages),
        with_signatures=run.with_signatures,
        profile=_unusual(run.profile),
    )


def _what_is_played(game: str | None, wager_amount: Decimal | None) -> dict[str, Any]:  # Any: each as Run has it.
    """Return the fields of a run for *game* and *wager_amount*."""
    if game is not None and (what := problem_of_id(game, LONGEST_ID)):
        raise ConfigurationError(f"The game {shown(game)} is invalid: it {what}.", setting="game")
    wager_cents = None
    if wager_amount is not None:
        try:
            wager_cents = int(cents_from_amount(wager_amount))
        except (TypeError, ValueError):
            wager_cents = 0
        if not 1 <= wager_cents <= _MOST_CENTS:
            raise ConfigurationError(
                f"The wager {shown(str(wager_amount))} is not an amount that can be wagered.",
                setting="wager_amount",
                remedy="Pass an exact amount above 0 in currency units: 0.50 as --wager, Decimal('0.50') in a program.",
            )
    return {"game": game or "certify", "observed": Observed(wager_cents=wager_cents)}


def _unusual(profile: Profile) -> dict[str, str]:
    """Return the settings of *profile* that are not the usual, in words; of the fields, those with other names."""
    usual = Profile()
    names = {name: names for name, names in profile.fields.items() if usual.fields.get(name) != names}
    settings = (each.name for each in fields(Profile) if each.compare and each.name != "fields")
    found = {name: str(getattr(profile, name)) for name in settings if getattr(profile, name) != getattr(usual, name)}
    return found | ({"fields": str(names)} if names else {})


def _run_id(run_id: str | None) -> str:
    if run_id is not None and not _RUN_ID.fullmatch(run_id):
        raise ConfigurationError(f"run_id {shown(run_id)} cannot be used. Pass 1 to 64 of A-Z, 0-9, _ and -.")
    return run_id or new_run_id()


def new_run_id() -> str:
    """Return what all ids of a new run begin with."""
    return certify_run_id(secrets.token_hex(CERTIFY_DIGITS // 2))


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


def _check_wallet(run: Run, url: str, *, with_second: bool) -> None:
    """
    Read both balances, and one of them *with_second* from the second process too.

    A wallet whose answers cannot be read is left to the scenarios.

    Raises:
        RequestNotSentError: The wallet cannot be reached.
        ConfigurationError: Address, key or players cannot work, or the second process is not one of this wallet.
    """
    if run.player_ids[0] == run.player_ids[1]:
        raise ConfigurationError("player_id and other_player_id are the same. Pass two players, each with money.")
    for player_id in run.player_ids:
        problem = problem_of_id(player_id, LONGEST_ID)
        if problem:
            raise ConfigurationError(f"The player_id {shown(player_id)} is invalid: it {problem}.")
    for player_id in run.player_ids:
        heard = _balance(run, player_id)
        if heard.code == WebhookErrorCode.INVALID_SIGNATURE:
            _check_alphabet(run, player_id)
        run.known[player_id] = _checked_cents(heard, player_id, url)
    _check_wager(run)
    if not with_second:
        return
    player_id, known_cents = next(iter(run.known.items()))
    heard = _balance(run, player_id, at="second")
    if known_cents is not None and heard.balance_cents != known_cents:
        reported = "no balance" if heard.balance_cents is None else amount_from_cents(heard.balance_cents)
        raise ConfigurationError(
            f"The second process reports {reported} for the player {shown(player_id)}, and the first "
            f"{amount_from_cents(known_cents)}.",
            setting="second_url",
            remedy="Pass another process of the same wallet, on the same database.",
        )


def _check_alphabet(run: Run, player_id: str) -> None:
    """Hold that the wallet, which refused our signature, refuses it in another Base64 too: else that is the reason."""
    for form in _OTHER_FORMS:
        heard = run.balance_of(player_id, seal=Seal(form=form))
        if heard.reply is not None and heard.code != WebhookErrorCode.INVALID_SIGNATURE:
            raise ConfigurationError(
                "A player-balance was refused with 'INVALID_SIGNATURE', because its signature is in URL-safe Base64 "
                f"without padding (assumed, decision 0011): in {form} Base64 it is accepted. Let the wallet decode "
                "both alphabets, with and without = at the end."
            )


def _check_wager(run: Run) -> None:
    """Hold that twenty times the wager can be paid, if one was named: no other is played without a word."""
    wager_cents = run.observed.wager_cents
    player_id, cents = min(run.known.items(), key=lambda known: known[1] or 0)
    if wager_cents and cents is not None and PAYS * wager_cents > cents:
        raise ConfigurationError(
            f"The wager {amount_from_cents(wager_cents)} is more than a twentieth of the {amount_from_cents(cents)} "
            f"that the player {shown(player_id)} has.",
            setting="wager_amount",
            remedy=f"Give both players at least {amount_from_cents(PAYS * wager_cents)}, or name a lower wager.",
        )


def _balance(run: Run, player_id: str, at: Literal["wallet", "second"] = "wallet") -> Carried:
    heard = run.balance_of(player_id, at=at)
    if heard.unreachable:
        raise RequestNotSentError(
            heard.problem,
            elapsed_seconds=heard.elapsed_seconds,
            timed_out=heard.timed_out,
            remedy="Nothing was sent: check address, DNS, firewall and TLS, and that the wallet runs.",
        )
    return heard


def _no_wallet(url: str, answer: str) -> ConfigurationError:
    where = f"{shown(url)} is" if url else "This is"
    return ConfigurationError(
        f"{where} not a wallet: player-balance was answered with {answer}. Pass the address that /withdraw and the "
        "others are below; mind a prefix, such as /wallet."
    )


def _checked_cents(heard: Carried, player_id: str, url: str) -> int | None:
    """Return the player's balance; None if the answer cannot be read."""
    if heard.status in (404, 405) and not heard.succeeded:
        raise _no_wallet(url, f"HTTP {heard.status}")
    if heard.reply is None and heard.status in TURNING_AWAY:
        # The beginning of an answer that is not a reply may say who answered.
        text = " ".join(heard.body[:_SHOWN_BYTES].decode(errors="backslashreplace").split())
        body = f"the answer is not a reply: {shown(text)}" if text else "an empty answer"
        raise ConfigurationError(
            f"A player-balance was turned away with HTTP {heard.status}, and {body}. If something "
            "stands before the wallet, let this machine through, or pass what it asks for as a header "
            "(--header 'NAME: VALUE'). If the wallet itself says that the signature is wrong, give it the public half "
            "of the key that you certify with."
        )
    if heard.reply is None:
        if heard.status < 400 and heard.body.lstrip().startswith(b"<"):
            raise _no_wallet(url, f"HTTP {heard.status} and a web page")
        return None
    if heard.code == WebhookErrorCode.PLAYER_NOT_FOUND:
        raise ConfigurationError(
            f"The wallet does not know the player {shown(player_id)}. Open an account with some money, or pass "
            "the id of a test player."
        )
    if heard.code is not None:
        told = _REMEDIES.get(heard.code, "Look into the wallet's log.")
        raise ConfigurationError(f"A player-balance was refused with {shown(heard.code)}. {told}")
    cents = heard.balance_cents or 0
    if cents < _LEAST_CENTS:
        raise ConfigurationError(
            f"The player {shown(player_id)} has {amount_from_cents(cents)}. Give both players at least "
            f"{amount_from_cents(_LEAST_CENTS)}: the scenarios move it, and put it back."
        )
    if cents > _MOST_CENTS:
        raise ConfigurationError(
            f"The player {shown(player_id)} has {amount_from_cents(cents)}. Give both players at most "
            f"{amount_from_cents(_MOST_CENTS)}: the scenarios move all of it and more, and an amount has an end."
        )
    return cents
