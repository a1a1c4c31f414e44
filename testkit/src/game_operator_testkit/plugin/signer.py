"""Signs webhooks as the service would, and as it would not, for the test client of any framework."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from game_operator.errors import ConfigurationError, shown
from game_operator.models.webhooks import BalanceCall, DepositCall, RollbackCall, WebhookCall, WithdrawCall
from game_operator.profile import Profile
from game_operator_testkit.provider.bodies import BodyWriter
from game_operator_testkit.provider.keys import ThrowAwayKeys
from game_operator_testkit.provider.requests import Request, Seal

__all__ = ["KeyName", "WebhookSigner"]

#: Whose key signs.
KeyName: TypeAlias = Literal["service", "old", "forged"]

_SEALS: Final = {"service": Seal(), "old": Seal(key="old"), "forged": Seal(key="stranger")}
_CALLS: Final[Mapping[str, type[WebhookCall]]] = {
    kind.operation: kind for kind in (WithdrawCall, DepositCall, RollbackCall, BalanceCall)
}


@dataclass(frozen=True, slots=True)
class SignedWebhook:
    """
    A webhook, ready to be posted by any client (spec §4.1).

    Attributes:
        path: Where it goes, below the operator's own prefix, such as ``/withdraw``.
        body: The bytes of the body, which must arrive as they are.
        headers: Content type and signature.
    """

    path: str
    body: bytes
    headers: dict[str, str] = field(repr=False)


class WebhookSigner:
    """
    Makes signed webhooks (spec §4.1; bodies and signatures are assumed, docs/decisions/0010, 0011).

    Args:
        keys: The service's, and those that it must not sign with.
        profile: Names the header of the signature and the fields of the bodies.
    """

    def __init__(self, keys: ThrowAwayKeys, profile: Profile | None = None) -> None:
        self._keys = keys
        self._profile = profile or Profile()

    @property
    def public_key_pem(self) -> bytes:
        """What your receiver verifies webhooks with: the service's public key, in PEM."""
        return self._keys.service.current.public_key_pem()

    # Any: fields of the call's class, which checks them.
    def __call__(
        self, call: str, body: bytes | None = None, *, key: KeyName = "service", **fields: Any
    ) -> SignedWebhook:
        """
        Return a webhook to be posted.

        Args:
            call: ``withdraw``, ``deposit``, ``rollback`` or ``player-balance``, with its *fields*; or any path, with a
                *body*.
            body: The bytes to be signed, well-formed or not, in place of *fields*.
            key: ``service`` signs as the service does, ``old`` as it did before a rotation, ``forged`` as a stranger.
            fields: Of ``WithdrawCall``, ``DepositCall``, ``RollbackCall`` or ``BalanceCall``; amounts in cents.

        Raises:
            ConfigurationError: There is no such webhook, or no such key.
            TypeError: *fields* are not those of the call, or are given beside a *body*; or *body* is not bytes.
            ValueError: An id or amount that no call can have; pass a *body* to send one all the same.
        """
        path = call if call.startswith("/") else f"/{call.replace('_', '-')}"
        if body is None:
            body = self._written(path[1:], fields)
        elif fields or not isinstance(body, bytes):
            raise TypeError(f"a body must be bytes, not {type(body).__name__}, and has no fields beside it")
        seal = _SEALS.get(key)
        if seal is None:
            raise ConfigurationError(f"There is no key {shown(key)}. Pass service, old or forged.")
        pairs = self._keys.service.headers(Request("", path, body, seal), self._profile.signature_header)
        return SignedWebhook(path, body, {name.decode("latin-1"): value.decode("latin-1") for name, value in pairs})

    def _written(self, operation: str, fields: dict[str, Any]) -> bytes:
        kind = _CALLS.get(operation)
        if kind is None:
            raise ConfigurationError(
                f"There is no webhook {shown(operation)}. Pass {', '.join(_CALLS)}, or bytes as its body."
            )
        return BodyWriter(self._profile).encoded(kind(**fields))
