"""Bodies as the service writes them, under the names that a profile has for their fields (docs/decisions/0010)."""

from collections.abc import Iterator
from typing import Any

from game_operator.errors import ConfigurationError
from game_operator.models.webhooks import BalanceCall, DepositCall, FreeBet, WebhookCall
from game_operator.profile import Profile
from game_operator.protocol.canonical import encode_json

__all__ = ["Body", "BodyWriter", "with_field", "without_field"]

#: A JSON object. Any: scenarios put into it whatever no call should have.
Body = dict[str, Any]


class BodyWriter:
    """
    Writes calls.

    Raises:
        ConfigurationError: The profile reads bodies by a function, and nobody can write what only that can read.
    """

    def __init__(self, profile: Profile) -> None:
        if profile.parse is not None:
            raise ConfigurationError(
                "The profile reads bodies by a function of your own, so nobody can write them. Pass a profile that "
                "names the fields instead."
            )
        self._profile = profile
        self._names: dict[tuple[str, str], str] = {}

    def name(self, canonical: str, operation: str) -> str:
        """Return the name under which a field is written, with dots between steps; "" if the service has none."""
        known = self._names.get((canonical, operation))
        if known is None:
            known = self._names[canonical, operation] = self._name(canonical, operation)
        return known

    def _name(self, canonical: str, operation: str) -> str:
        names = self._profile.names_of(canonical, operation)
        if operation == "deposit" and canonical == "round_id":
            # A deposit tells its round beside its type, where the service has such a place.
            holder = self.name("action", operation).rpartition(".")[0]
            names = tuple(sorted(names, key=lambda name: name.rpartition(".")[0] != holder))
        return names[0] if names else ""

    def body(self, call: WebhookCall) -> Body:
        """Return *call* as an object."""
        body: Body = {}
        for canonical, value in _fields(call):
            name = self.name(canonical, call.operation)
            if name and value is not None:
                _put(body, name.split("."), value)
        return body

    def encoded(self, call: WebhookCall) -> bytes:
        """Return *call* as bytes."""
        return encode_json(self.body(call))


def with_field(body: Body, name: str, value: object) -> Body:
    """Return *body* with *value* under *name*, whose steps have dots between them."""
    changed = _copied(body)
    _put(changed, name.split("."), value)
    return changed


def without_field(body: Body, name: str) -> Body:
    """Return *body* without *name*."""
    changed = _copied(body)
    *steps, last = name.split(".")
    holder = changed
    for step in steps:
        holder = holder[step]
    del holder[last]
    return changed


def _fields(call: WebhookCall) -> Iterator[tuple[str, object]]:
    """Yield canonical fields in the order in which the service writes them."""
    yield "player_id", call.player_id
    if isinstance(call, BalanceCall):
        return
    yield "amount_cents", call.amount_cents
    yield "game", call.game
    yield "instance_id", call.instance_id
    yield "action", call.action
    if isinstance(call, DepositCall):
        yield "round_id", call.round_id
        yield "wager_cents", call.wager_cents
        yield "won_cents", call.won_cents
        yield "jackpot_id", call.jackpot_id
        yield "free_bets", [_free_bet(bet) for bet in call.free_bets] or None
    yield "bet_id", call.bet_id
    yield "tx_id", call.tx_id
    if not isinstance(call, DepositCall):
        yield "round_id", call.round_id


def _free_bet(bet: FreeBet) -> Body:
    told = {"id": bet.id, "round_id": bet.round_id, "wager": bet.wager_cents, "won": bet.won_cents}
    return {name: value for name, value in told.items() if value is not None}


def _put(body: Body, steps: list[str], value: object) -> None:
    for step in steps[:-1]:
        body = body.setdefault(step, {})
    body[steps[-1]] = value


def _copied(body: Body) -> Body:
    return {name: _copied(value) if isinstance(value, dict) else value for name, value in body.items()}
