"""Certifies a wallet within a test, without sockets."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import fields, replace
from threading import Event
from typing import Any, Final, Unpack

import pytest

from game_operator.errors import ConfigurationError
from game_operator.profile import Profile
from game_operator.protocol.http import HttpReply
from game_operator.webhooks.authenticators import RsaSignature
from game_operator.webhooks.receiver import WebhookReceiver
from game_operator_testkit.certifier import Report, Supplies, Verdict, certify_in_process
from game_operator_testkit.certifier.engine.certification import Settings
from game_operator_testkit.plugin.failures import ErrorRecorder, ReportText
from game_operator_testkit.provider.in_process import Deliver, WalletInProcess, a_loop_runs_here, answer_of, delivery_to
from game_operator_testkit.provider.keys import ThrowAwayKeys, loaded

#: Brings a function of the test's to where it can be called.
_Bridge = Callable[[Callable[..., Any]], Callable[..., Any]]
#: For one certification, unless a call says otherwise.
_SECONDS: Final = 60.0


class WalletCertifier:
    """
    Certifies wallets with the service's key of this test run.

    Args:
        keys: The service's.
        profile: What is assumed of wallets, unless a call has another.
    """

    def __init__(self, keys: ThrowAwayKeys, profile: Profile) -> None:
        self._keys = keys
        self._profile = profile

    def __call__(
        self,
        wallet: WalletInProcess,
        *,
        check: bool = True,
        **settings: Unpack[Settings],
    ) -> Report:
        """
        Certify *wallet*, and fail the test if a scenario failed; advice fails none.

        The message has the causes, in the order in which to fix them. What could not be tried although something was
        supplied for it fails the test as well.

        Scenarios of calls at once call a sync wallet in several threads, and an async one on an event loop of this run.

        Args:
            wallet: A webhook handler, sync or async, which is put behind a receiver that trusts the service's key; a
                function of path, headers and body that returns a response; or what ``asgi_wallet`` and ``wsgi_wallet``
                return.
            check: False fails nothing: look at the report yourself.
            settings: ``player_id`` and ``other_player_id``, who have at least 10.00 each, and if need be ``only``,
                ``skip``, ``profile``, ``supplies``, ``instance_id``, ``game`` and ``deadline``: as
                for ``certify``, with a deadline of 60 seconds and the profile of the fixture ``operator_profile``.

        Raises:
            ConfigurationError: The wallet does not know key or players, there is no such scenario, or this is an async
                test: await ``certify_async``.
            TypeError: *wallet* is not one of the above, or does not return a response.
        """
        if a_loop_runs_here():
            raise ConfigurationError(
                "An event loop runs here, and a certification would block it. Write "
                "`report = await wallet_certifier.certify_async(…)` in an async test."
            )
        report, seen = self._run(wallet, settings, lambda function: function)
        self._show(report, seen, check=check)
        return report

    async def certify_async(
        self,
        wallet: WalletInProcess,
        *,
        check: bool = True,
        **settings: Unpack[Settings],
    ) -> Report:
        """
        Certify *wallet* as a call of this object does, in an async test of asyncio, and return the report.

        The arguments are those of ``WalletCertifier.__call__``.

        The scenarios are played in a thread. What an async wallet returns is awaited on the test's own event loop,
        where its connections belong, and so is what async functions in *supplies* return. A sync wallet is called in
        that thread.

        Raises:
            ConfigurationError: As for a call.
            RuntimeError: The test does not run under asyncio.
            TypeError: As for a call.
        """
        is_over = Event()
        bridge = _bridge_to(asyncio.get_running_loop(), is_over)
        try:
            report, seen = await asyncio.to_thread(self._run, wallet, settings, bridge)
        finally:
            is_over.set()
        self._show(report, seen, check=check)
        return report

    def _run(
        self, wallet: WalletInProcess, settings: Settings, bridge: _Bridge
    ) -> tuple[Report, dict[str, tuple[str, ...]]]:
        """Return the report, and by scenario what the wallet raised or logged."""
        signing_key, profile = self._keys.service.current, settings.setdefault("profile", self._profile)
        supplies = settings.get("supplies", Supplies())
        signers = [signing_key] if supplies.old_key is None else [signing_key, loaded(supplies.old_key, "old_key")]
        authenticator = RsaSignature([signer.public_key_pem() for signer in signers])
        receiver = WebhookReceiver(authenticator=authenticator, profile=profile)
        seen: dict[str, tuple[str, ...]] = {}
        with ErrorRecorder() as errors:

            def delivery(to: WalletInProcess) -> Deliver:
                return _delivery(bridge(delivery_to(to, lambda: receiver)), errors)

            def note(verdict: Verdict, _: int) -> None:
                seen[verdict.id] = errors.taken()

            given = {each.name: getattr(supplies, each.name) for each in fields(supplies)}
            done: dict[str, Any] = {name: bridge(deed) for name, deed in given.items() if callable(deed)}
            if supplies.second_url is not None:
                done["second_url"] = delivery(supplies.second_url)
            settings |= {"supplies": replace(supplies, **done), "on_verdict": note}
            settings.setdefault("deadline", _SECONDS)
            report = certify_in_process(delivery(wallet), signing_key=signing_key, **settings)
        return report, seen

    def _show(self, report: Report, seen: Mapping[str, tuple[str, ...]], *, check: bool) -> None:
        """
        Fail what failed, if it is to be checked, and print all else that is worth a line.

        pytest shows what is printed with the test's output, for -rP or beside a failure.
        """
        text = ReportText(report, seen)
        failure = text.failure() if check else ""
        for line in text.beside():
            print(line)  # noqa: T201
        if failure:
            pytest.fail(failure, pytrace=False)


# Any: what the wallet or the supplied function returns.
def _bridge_to(loop: asyncio.AbstractEventLoop, is_over: Event) -> _Bridge:
    """Return what lets a thread call a function whose answer *loop* awaits, until the test *is_over*."""

    def bridge(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any) -> Any:
            if is_over.is_set():  # Nobody would answer.
                raise RuntimeError("the test has ended")
            answer = function(*arguments)
            if not inspect.isawaitable(answer):
                return answer
            return asyncio.run_coroutine_threadsafe(_awaited(answer), loop).result()

        return called

    return bridge


async def _awaited(answer: Awaitable[Any]) -> Any:
    return await answer


def _delivery(deliver: Deliver, errors: ErrorRecorder) -> Deliver:
    """Return what delivers; what the wallet raises goes to *errors*."""

    async def awaited(answer: Any) -> HttpReply:
        with errors.keeping():
            response = await answer
        return answer_of(response)

    def delivered(path: str, headers: Mapping[str, str], body: bytes) -> Any:
        with errors.keeping():
            answer = deliver(path, headers, body)
        return awaited(answer) if inspect.isawaitable(answer) else answer_of(answer)

    return delivered
