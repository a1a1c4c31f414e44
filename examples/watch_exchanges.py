"""See every attempt of the client, for logs and metrics. An Exchange holds no key and no signature."""

from urllib.parse import urlsplit

from game_operator import Exchange
from game_operator_testkit import Sandbox


def watch(exchange: Exchange) -> None:
    path = urlsplit(exchange.url).path
    assert exchange.elapsed < 10  # Seconds.
    print(f"{exchange.method} {path} -> {exchange.status}, attempt {exchange.attempt}")
    if exchange.request_body:
        print("  sent", exchange.request_body.decode())
    print("  received", exchange.response_body[:60].decode())


with Sandbox() as sandbox, sandbox.client(on_exchange=watch) as client:
    client.fetch_bet("50% of a/b")
    # NOT_FOUND names no round: over a reused connection it is asked again.
    client.fetch_round_bets(instance_id=sandbox.instance_id, round_no=1)

# Prints:
# GET /api/v0.2/fetch-bet/50%25%20of%20a%2Fb -> 200, attempt 1
#   received {"status":"NOT_FOUND"}
# POST /api/v0.2/fetch-round-bets -> 200, attempt 1
#   sent {"instance_id":"6baa9455e3e70682c2094cac","round_no":1}
#   received {"status":"NOT_FOUND"}
# POST /api/v0.2/fetch-round-bets -> 200, attempt 2
#   sent {"instance_id":"6baa9455e3e70682c2094cac","round_no":1}
#   received {"status":"NOT_FOUND"}
