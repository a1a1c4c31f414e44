"""
Lose the answer to a grant, and find out whether it was made.

The client repeats a grant with exactly the same bytes. If the service then answers DUPLICATE_REFERENCE_ID, the grant
was made: the error is OutcomeUnknownError. On a first attempt it is FreeBetRejectedError: an earlier call used the
reference.
"""

from functools import partial

import httpx

from game_operator import FreeBetRejectedError, OutcomeUnknownError
from game_operator_testkit import Sandbox


class LosesTheFirstAnswer(httpx.HTTPTransport):
    """A network that delivers every request, and drops the first answer on its way back."""

    lost = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request; lose the first answer."""
        response = super().handle_request(request)
        if not self.lost:
            self.lost = True
            response.close()
            raise httpx.ReadError("connection lost")
        return response


with Sandbox() as sandbox:
    for retries in (2, 0):
        with httpx.Client(transport=LosesTheFirstAnswer()) as network:
            client = sandbox.client(http_client=network, retries=retries)
            welcome = partial(
                client.grant_free_bet,
                player_id="player-1",
                instance_id=sandbox.instance_id,
                count=5,
                wager_amount_cents=100,
                expire_duration_millis=86_400_000,
                reference_id=f"welcome with {retries} retries",
            )
            try:
                welcome()
            except OutcomeUnknownError as unknown:
                print(f"{unknown.reference_id!r} is in doubt, error code {unknown.error_code}")
                try:
                    welcome()
                except FreeBetRejectedError as rejected:
                    print(f"{rejected.error_code}, so the grant was made")

# Prints:
# 'welcome with 2 retries' is in doubt, error code DUPLICATE_REFERENCE_ID
# DUPLICATE_REFERENCE_ID, so the grant was made
# 'welcome with 0 retries' is in doubt, error code None
# DUPLICATE_REFERENCE_ID, so the grant was made
