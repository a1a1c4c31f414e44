"""
Limit how long a call may take and how often it is repeated, per client and per call.

The service in this example fails twice, then answers.
"""

import httpx

from game_operator import OperatorClient, RetryPolicy, ServiceError
from game_operator_testkit import Sandbox

statuses = [503, 503, 200]


def stand_in(request: httpx.Request) -> httpx.Response:
    status = statuses.pop(0)
    print(request.method, request.url.path, "is answered with", status)
    return httpx.Response(status, json={"games": []})


with httpx.Client(transport=httpx.MockTransport(stand_in)) as network:
    client = OperatorClient(
        base_url="https://api.example.com",
        operator_id="acme",
        private_key=Sandbox().private_key_pem,
        timeout=5.0,  # Seconds for each attempt.
        deadline=20.0,  # Seconds for the whole call, repeats and waits included.
        retries=RetryPolicy(max_retries=2, base_delay_seconds=0.05),
        http_client=network,
    )

    # While a player waits for a page: one attempt, over the same connections.
    hurried = client.with_options(timeout=1.0, deadline=1.0, retries=0)
    try:
        hurried.fetch_games()
    except ServiceError as trouble:
        print(f"hurried: HTTP {trouble.status_code} after {trouble.attempts} attempt")

    print("patient:", client.fetch_games())

# Prints:
# GET /api/v0.2/fetch-games is answered with 503
# hurried: HTTP 503 after 1 attempt
# GET /api/v0.2/fetch-games is answered with 503
# GET /api/v0.2/fetch-games is answered with 200
# patient: []
