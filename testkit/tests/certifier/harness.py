"""Certifies a wallet by hand in process, with everything supplied that a scenario may need; and what a report says."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from wallet_by_hand import PlainWallet

from game_operator.profile import Profile
from game_operator.protocol.http import HttpReply
from game_operator.signers.keys import LocalSigner
from game_operator_testkit.certifier import Outcome, Report, Supplies, Verdict, certify_in_process, scenarios
from game_operator_testkit.certifier.engine.certification import Certification
from game_operator_testkit.certifier.engine.run import Run
from game_operator_testkit.provider.in_process import InProcessCarrier
from game_operator_testkit.provider.keys import ServiceKeys
from testkit.tests.certifier.wrong_wallets.registry import RANDOM_OPERATIONS

__all__ = ["INSTANCE", "OTHER", "PLAYER", "RUN_ID", "RememberingSigner", "certified", "certified_by", "delivered_to"]
__all__ += ["found", "given", "ids_of", "only", "opened", "run_on", "skipped", "supplies_of"]

Deliver = Callable[[str, Mapping[str, str], bytes], HttpReply]

PLAYER, OTHER, INSTANCE = "player-1", "player-2", "instance-1"
#: The same for all, so that all wallets are sent the same bytes, which are signed once.
RUN_ID = "certify-7e577e57"
_OPENING_CENTS = 100_000


class RememberingSigner(LocalSigner):
    """Signs each body once: signing takes longer than all else that a wallet in process does."""

    __slots__ = ("_signatures",)

    def __init__(self, key: RSAPrivateKey) -> None:
        super().__init__(key)
        self._signatures: dict[bytes, bytes] = {}

    def sign(self, message: bytes) -> bytes:
        if len(message) > 100_000:
            return super().sign(message)
        signature = self._signatures.get(message)
        if signature is None:
            signature = self._signatures[message] = super().sign(message)
        return signature


@cache
def service_key() -> RSAPrivateKey:
    """Whose public half the wallets have."""
    return generate_private_key(65537, 2048)


@cache
def service_signer() -> RememberingSigner:
    return RememberingSigner(service_key())


@cache
def old_key() -> RSAPrivateKey:
    """Accepted beside the service's."""
    return generate_private_key(65537, 2048)


@cache
def retired_key() -> RSAPrivateKey:
    """Accepted no more."""
    return generate_private_key(65537, 2048)


def delivered_to(wallet: PlainWallet) -> Deliver:
    """Return the function by which a certifier reaches *wallet*."""

    def deliver(path: str, headers: Mapping[str, str], body: bytes) -> HttpReply:
        status, answered, reply = wallet.handle("POST", path, headers.items(), body)
        return HttpReply(status, {name.lower(): value for name, value in answered.items()}, reply)

    return deliver


def opened(
    kind: type[PlainWallet] = PlainWallet,
    *,
    database: str = ":memory:",
    batches: bool = True,
    cents: int = _OPENING_CENTS,
) -> PlainWallet:
    """Return a wallet of *kind* with both players, who have so many *cents*."""
    keys = [service_key().public_key(), old_key().public_key()]
    wallet = kind(keys, database=database, instances=frozenset({INSTANCE}), batches=batches)
    for player_id in (PLAYER, OTHER):
        wallet.open_account(player_id, cents)
    return wallet


def supplies_of(
    wallet: PlainWallet, second: PlainWallet | None = None, *, operations: int = RANDOM_OPERATIONS
) -> Supplies:
    """Return all that *wallet*, by its levers, lets a certifier do."""

    def distrust() -> None:
        wallet.public_keys[:] = []

    def trust() -> None:
        wallet.public_keys[:] = [service_key().public_key(), old_key().public_key()]

    def broken(is_broken: bool) -> None:
        wallet.broken = is_broken

    return Supplies(
        block=wallet.block,
        unblock=wallet.unblock,
        open_account=wallet.open_account,
        fail=lambda: broken(True),
        recover=lambda: broken(False),
        restart=_lever(wallet, "restarted"),
        distrust=distrust,
        trust=trust,
        later=_lever(wallet, "days_passed"),
        stored_cents=wallet.balance_cents,
        second_url=delivered_to(second or wallet),
        old_key=old_key(),
        retired_key=retired_key(),
        foreign_instance_id="instance-of-another-operator",
        random_operations=operations,
    )


def _lever(wallet: PlainWallet, name: str) -> Callable[..., object]:
    """Return what a wrong wallet does when it is restarted, or when days pass; a right one needs to do nothing."""
    lever: Callable[..., object] = getattr(wallet, name, lambda *_: None)
    return lever


def certified(
    kind: type[PlainWallet] = PlainWallet,
    *,
    only: Iterable[str] = (),
    skip: Iterable[str] = (),
    file: Path | None = None,
    profile: Profile | None = None,
    operations: int = RANDOM_OPERATIONS,
    **settings: Any,  # Of ``certify_in_process``.
) -> Report:
    """
    Return what the certifier finds of a wallet of *kind*, all levers supplied.

    Args:
        kind: The wallet's class.
        only: Which scenarios.
        skip: Which scenarios not.
        file: Where its database is, which a second wallet of the same class shares; in memory if None.
        profile: What is assumed of it; with batches by default.
        operations: How many random operations are tried.
        settings: In place of those here.
    """
    wallet = opened(kind, database=":memory:" if file is None else str(file))
    second = None
    if file is not None:
        second = kind([service_key().public_key(), old_key().public_key()], database=str(file), batches=True)
        second.instances = wallet.instances
    standard = {
        "profile": profile or Profile(deposit_batch=True),
        "only": only,
        "skip": skip,
        "supplies": supplies_of(wallet, second, operations=operations),
    }
    try:
        return certified_by(delivered_to(wallet), **standard | settings)
    finally:
        wallet.close()
        if second is not None:
            second.close()


def given(**settings: Any) -> dict[str, Any]:  # Any: of a certification.
    """Return what a certification is made with: the service's key, both players and *settings*."""
    standard = {
        "signing_key": service_signer(),
        "player_id": PLAYER,
        "other_player_id": OTHER,
        "instance_id": INSTANCE,
        "run_id": RUN_ID,
    }
    return standard | settings


def certified_by(deliver: Any, **settings: Any) -> Report:  # Any: a wallet, sync or async; see above.
    """Return what the certifier finds of the wallet that *deliver* reaches, with nothing supplied."""
    return certify_in_process(deliver, **given(**settings))


def run_on(deliver: Deliver, **settings: Any) -> Run:  # Any: see above.
    """Return a run that has not begun."""
    carrier = InProcessCarrier(deliver, ServiceKeys(service_signer()))
    return Run(carrier=carrier, certification=Certification(**given(**settings)))


def found(report: Report) -> dict[str, str]:
    """Return why each scenario failed, advice too."""
    return {each.id: each.reason for each in report.verdicts if each.outcome is Outcome.FAILED}


def skipped(report: Report) -> dict[str, str]:
    """Return why each scenario was skipped."""
    return {each.id: each.reason for each in report.skipped}


def only(report: Report) -> Verdict:
    """Return the one verdict that there is."""
    (verdict,) = report.verdicts
    return verdict


def ids_of(group: str) -> set[str]:
    """Return the ids of all scenarios of *group*."""
    return {each.id for each in scenarios() if each.id.startswith(group)}
