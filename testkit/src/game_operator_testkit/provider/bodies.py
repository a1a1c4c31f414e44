"""The bodies of calls, as the service writes them (docs/decisions/0010)."""

from typing import Any, Final

from game_operator.models.webhooks import FreeBet, WebhookCall
from game_operator.profile import Profile
from game_operator.protocol.exact_json import Json, encode_json


class BodyWriter:
    """
    Writes calls as the service does, under the names that *profile* has for their fields (docs/decisions/0010).

    Of several names the first is written. A profile that reads bodies by a function gets the names of its ``fields``.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile: Final = profile
        self._names: dict[tuple[str, str], str] = {}

    def name(self, canonical: str, operation: str) -> str:
        """Return the name under which a field is written, with dots between steps; "" if the service has none."""
        known = self._names.get((canonical, operation))
        if known is None:
            names = self.profile.names_of(canonical, operation)
            if operation == "deposit" and canonical == "round_id":
                # A deposit has its round beside its type, where the service has such a place.
                holder = self.name("action", operation).rpartition(".")[0]
                names = tuple(sorted(names, key=lambda name: name.rpartition(".")[0] != holder))
            known = self._names[canonical, operation] = names[0] if names else ""
        return known

    def body(self, call: WebhookCall) -> dict[str, Any]:
        """Return *call* as an object; what the call does not have is left out."""
        body: dict[str, Any] = {}
        for canonical in _WRITTEN[call.operation]:
            value = getattr(call, canonical)
            if canonical == "free_bets":
                value = [_free_bet(bet) for bet in value] or None
            if value is not None and (name := self.name(canonical, call.operation)):
                *steps, last = name.split(".")
                holder = body
                for step in steps:
                    holder = holder.setdefault(step, {})
                holder[last] = value
        return body

    def encoded(self, call: WebhookCall) -> bytes:
        """Return the bytes of *call*."""
        return encode_json(self.body(call))

    @property
    def claim_types(self) -> tuple[str, ...]:
        """Types of deposit that credit without a bet; none where a body has no place for a deposit's type."""
        return self.profile.claim_types if self.name("action", "deposit") else ()


#: Writes the default names.
DEFAULT_WRITER: Final = BodyWriter(Profile())

#: The fields of each call in the order in which the service writes them.
_WRITTEN: Final = {
    "player-balance": ("player_id",),
    "withdraw": ("player_id", "amount_cents", "game", "instance_id", "action", "bet_id", "tx_id", "round_id"),
    "deposit": (
        *("player_id", "amount_cents", "game", "instance_id", "action", "round_id"),
        *("wager_cents", "won_cents", "jackpot_id", "free_bets", "bet_id", "tx_id"),
    ),
    "rollback": ("player_id", "amount_cents", "game", "instance_id", "action", "bet_id", "tx_id", "round_id"),
}


def _free_bet(bet: FreeBet) -> dict[str, Json]:
    fields = {"id": bet.id, "round_id": bet.round_id, "wager": bet.wager_cents, "won": bet.won_cents}
    return {name: value for name, value in fields.items() if value is not None}
