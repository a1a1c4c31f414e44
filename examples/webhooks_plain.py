"""
Answer webhooks without a framework, with your own handler.

`receiver.handle` takes the path, the headers and the raw body of a request and returns the response. So you can connect
any HTTP server. The handler here keeps balances in a dict and does not recognise repeats. The ready `Wallet` does.
"""

import logging
from base64 import urlsafe_b64encode

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256

from game_operator.webhooks import (
    BalanceCall,
    DepositCall,
    HandledCall,
    Reply,
    RollbackCall,
    RsaSignature,
    WebhookReceiver,
    WithdrawCall,
    error,
    success,
)


class PocketMoney:
    """Balances by player."""

    def __init__(self) -> None:
        self.balances_cents = {"p1": 10_000}
        self.wagers: dict[str, int] = {}

    def withdraw(self, call: WithdrawCall) -> Reply:
        """A player places a bet."""
        balance = self.balances_cents[call.player_id]
        if balance < call.amount_cents:
            return error("INSUFFICIENT_BALANCE", balance_cents=balance)
        self.wagers[call.bet_id] = call.amount_cents
        return self._moved(call.player_id, -call.amount_cents)

    def deposit(self, call: DepositCall) -> Reply:
        """A bet settles; 0 is a loss."""
        return self._moved(call.player_id, call.amount_cents)

    def rollback(self, call: RollbackCall) -> Reply:
        """A bet is cancelled before it starts."""
        if call.bet_id not in self.wagers:
            return error("BET_NOT_FOUND", balance_cents=self.balances_cents[call.player_id])
        return self._moved(call.player_id, self.wagers.pop(call.bet_id))

    def player_balance(self, call: BalanceCall) -> Reply:
        """The service asks for the balance."""
        return self._moved(call.player_id, 0)

    def _moved(self, player_id: str, delta_cents: int) -> Reply:
        self.balances_cents[player_id] += delta_cents
        return success(balance_cents=self.balances_cents[player_id])


def why(handled: HandledCall) -> None:
    """Print why a call was refused: the reply never says it."""
    if handled.reason:
        print("   ", handled.reason.partition(". ")[0])


logging.basicConfig(level=logging.CRITICAL)  # The log would say the same.
service_key = generate_private_key(65537, 2048)  # The service keeps this key and gives you its public half.
receiver = WebhookReceiver(authenticator=RsaSignature(service_key.public_key()), on_call=why)
handler = PocketMoney()


def post(path: str, body: bytes, signed: bytes | None = None) -> None:
    """Play the service: sign the body, post it, print the answer up to its time."""
    raw = service_key.sign(body if signed is None else signed, PKCS1v15(), SHA256())
    headers = {"Signature": urlsafe_b64encode(raw).rstrip(b"=").decode()}
    reply = receiver.handle(path, headers, body, handler, peer="192.0.2.7")
    print(path, reply.status, reply.body.decode().partition(',"timestamp"')[0] + "}")


withdraw = b'{"player_id":"p1","amount":4000,"action":"BET","action_id":"b1","instance_id":"i1"}'
post("/withdraw", withdraw)
post("/withdraw", withdraw.replace(b"4000", b"7000").replace(b"b1", b"b2"))
post("/deposit", b'{"player_id":"p1","amount":1250,"action":{"type":"BET","round_id":"r1"},"action_id":"b1"}')
post("/player-balance", b'{"player_id":"p1"}')
post("/player-balance", b'{"player_id": "p1"}', signed=b'{"player_id":"p1"}')
post("/player-balance", b'{"player_id":"p2"}', signed=b'{"player_id":"p1"}')
post("/withdraw/", withdraw)

# Prints:
# /withdraw 200 {"type":"SUCCESS","balance":60.00}
# /withdraw 200 {"type":"ERROR","code":"INSUFFICIENT_BALANCE","balance":60.00}
# /deposit 200 {"type":"SUCCESS","balance":72.50}
# /player-balance 200 {"type":"SUCCESS","balance":72.50}
#     the signature fits this body written in another form: the body was re-serialised on the way
# /player-balance 200 {"type":"ERROR","code":"INVALID_SIGNATURE"}
#     the signature was not made by any of the keys, or is for another body
# /player-balance 200 {"type":"ERROR","code":"INVALID_SIGNATURE"}
#     '/withdraw/' is not one of our paths
# /withdraw/ 404 {"type":"ERROR","code":"INVALID_REQUEST"}
