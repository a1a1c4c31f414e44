"""The faults of the Operator API, laid over the answers of the service (docs/decisions/0017)."""

import time
from dataclasses import replace
from typing import Final

from game_operator.protocol.http import HttpRequest, HttpResponse
from game_operator.protocol.service import OperatorAccount, World, answer, signature_verdict
from game_operator.provider.faults import Fault
from game_operator.sandbox.service.exchange_log import Exchange
from game_operator.sandbox.service.state import SandboxService

_JSON: Final = (b"content-type", b"application/json")
_TOO_MANY: Final = HttpResponse(429, (_JSON, (b"retry-after", b"1")), b'{"error":"Too many requests"}')
_BROKEN: Final = HttpResponse(500, (_JSON,), b'{"error":"Internal server error"}')


def answered(service: SandboxService, request: HttpRequest, now_millis: int) -> HttpResponse:
    """
    Return the response to *request*, with the faults that are switched on, and keep both in the live log.

    Only calls that are rightly signed are struck, and count: a fault that waits for the Nth is for the operator's.
    """
    began_millis, began = time.time_ns() // 1_000_000, time.perf_counter()
    signature = signature_verdict(request, service.world)
    fault = service.api_fault() if signature == "valid" else None
    response = _response(service.world, request, now_millis, fault)
    service.live.record(
        Exchange(
            at_millis=began_millis,
            direction="api",
            method=request.method,
            path=request.path,
            request_headers=request.headers,
            request_body=request.body,
            signature=signature,
            status=response.status,
            response_headers=response.headers,
            response_body=response.body,
            elapsed_ms=(time.perf_counter() - began) * 1_000,
            fault=fault or "",
        )
    )
    return response


def _response(world: World, request: HttpRequest, now_millis: int, fault: Fault | None) -> HttpResponse:
    match fault:
        case Fault.API_429:
            # Whoever is asked to slow down was not served.
            return _TOO_MANY
        case Fault.API_500:
            # The worst of its kind: what was asked for was done.
            answer(request, world, now_millis=now_millis)
            return _BROKEN
        case Fault.API_INACTIVE:
            return answer(request, _Inactive(world), now_millis=now_millis)
        case _:
            return answer(request, world, now_millis=now_millis)


class _Inactive:
    """A world whose operators are all inactive: no call gets beyond that."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.games, self.bet, self.round, self.grant = world.games, world.bet, world.round, world.grant

    def account(self, operator_id: str) -> OperatorAccount | None:
        account = self._world.account(operator_id)
        return None if account is None else replace(account, active=False)
