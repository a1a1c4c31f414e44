"""
Webhooks that somebody wrote by hand: kept in the live log, and judged as far as their bodies can be read.

The service does not know what such a call was meant to do. So where it may have moved money, the next balance of its
player is believed, and no balance is called wrong because of it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from game_operator.codes import WebhookErrorCode
from game_operator.errors import MalformedCallError
from game_operator.models.webhooks import BalanceCall, WebhookCall
from game_operator.profile import Profile
from game_operator.protocol.webhook import OPERATIONS, read_batch, read_call
from game_operator_testkit.provider.delivery import BATCH_PATH, Carried
from game_operator_testkit.provider.keys import ServiceKeys
from game_operator_testkit.provider.requests import AS_THE_SERVICE, Request
from game_operator_testkit.sandbox.service.exchange_log import Exchange
from game_operator_testkit.sandbox.service.state import SandboxService, fields_about, fields_of_outcome

#: Verdicts on signatures that only a call made by hand has.
UNSIGNED: Final = "not signed"
TYPED: Final = "typed, invalid"
#: Codes, None for no reply, of a call that may have moved money.
_MAY_HAVE_MOVED: Final = frozenset({"SUCCESS", WebhookErrorCode.SYSTEM_ERROR, None})


_WRONG_KEYS: Final = {"old": "old key", "stranger": "forged"}


def signature_of(request: Request, keys: ServiceKeys) -> str:
    """Return the verdict on the signature that *request* gets: ``valid``, or why a correct wallet refuses it."""
    seal = request.seal
    if seal.literal is not None:
        # Signatures of one key over the same bytes are equal.
        right = keys.signature(replace(request, seal=AS_THE_SERVICE))
        return "valid" if right == seal.literal.encode("latin-1") else TYPED
    return UNSIGNED if seal.key is None else _WRONG_KEYS.get(seal.key, "valid")


def saw_by_hand(service: SandboxService, carried: Carried, *, signature: str, note: str) -> Exchange:
    """
    Keep a webhook that somebody wrote by hand, and return its exchange.

    Args:
        service: Whose live log and balances those are.
        carried: What was sent, and what came of it.
        signature: The verdict on its signature, as of ``Exchange``.
        note: What else the log says of it.
    """
    request = carried.request
    calls = _calls_in(request.path, request.body, service.profile)
    exchange = service.live.record(
        Exchange(
            direction="webhook",
            method=request.method,
            path=request.path,
            request_headers=carried.headers,
            request_body=request.body,
            signature=signature,
            note="; ".join(filter(None, (note, carried.problem))),
            **fields_about(calls),
            **fields_of_outcome(carried),
        )
    )
    _judge(service, exchange, calls)
    return exchange


def _calls_in(path: str, body: bytes, profile: Profile) -> tuple[WebhookCall, ...]:
    """Return the calls in a *body* posted to *path*; none if it cannot be read as the path asks."""
    try:
        if path == BATCH_PATH:
            return tuple(item.call for item in read_batch(body, profile) if item.call is not None)
        return (read_call(OPERATIONS[path], body, profile)[0],) if path in OPERATIONS else ()
    except (MalformedCallError, TypeError):
        return ()


def _judge(service: SandboxService, exchange: Exchange, calls: Sequence[WebhookCall]) -> None:
    log, board = service.live, service.balances
    before = [log.exchange(number) for number in log.deliveries(exchange) if number < exchange.number]
    acted = any(each is not None and each.code == "SUCCESS" for each in before)
    asks_only = bool(calls) and all(isinstance(call, BalanceCall) for call in calls)
    # A repeat moves nothing, and neither does what was refused. What is not known may have moved money.
    if not acted and not asks_only and exchange.code in _MAY_HAVE_MOVED:
        # Whose money a body moved that cannot be read here, only the wallet knows.
        players = {call.player_id for call in calls} or {each.player_id for each in board.players()}
        for player_id in players:
            service.believe_next_balance(player_id)
    if len(calls) == 1 and exchange.balance_cents is not None:
        board.reported(calls[0].player_id, exchange.balance_cents, repeated=acted, number=exchange.number)
