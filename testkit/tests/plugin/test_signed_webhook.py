"""The fixture ``signed_webhook``: what it signs is accepted, and what the service would not sign is refused."""

import dataclasses
import json
import pickle
from typing import Any

import pytest

from game_operator import BalanceCall, ConfigurationError, DepositCall, Profile, RollbackCall, WithdrawCall
from game_operator.protocol.webhook import encode_call
from game_operator.webhooks import RsaSignature, WebhookCall, WebhookReceiver
from game_operator_testkit import SignedWebhook, WebhookSigner
from game_operator_testkit.provider.keys import ThrowAwayKeys
from tests.support.webhooks import Handler, code_of

FIELDS: dict[str, Any] = {"player_id": "p1", "bet_id": "b1", "amount_cents": 500, "round_id": "r1"}
BET = WithdrawCall(**FIELDS)


def _code(receiver: WebhookReceiver, webhook: SignedWebhook, handler: Handler | None = None) -> str | None:
    return code_of(receiver.handle(webhook.path, webhook.headers, webhook.body, handler or Handler()))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        pytest.param("withdraw", BET, id="withdraw"),
        pytest.param("deposit", DepositCall(player_id="p1", bet_id="b1", amount_cents=0), id="deposit"),
        pytest.param("rollback", RollbackCall(player_id="p1", bet_id="b1"), id="rollback"),
        pytest.param("player-balance", BalanceCall(player_id="p1"), id="player-balance"),
    ],
)
def test_a_call_is_written_signed_and_read_again(
    signed_webhook: WebhookSigner, receiver: WebhookReceiver, name: str, call: WebhookCall
) -> None:
    """By name and fields, with a hyphen or an underscore: the same bytes, accepted (spec §4.1)."""
    fields = {
        each.name: getattr(call, each.name) for each in dataclasses.fields(call) if each.name not in {"raw", "body"}
    }
    webhooks = [signed_webhook(name, **fields), signed_webhook(name.replace("-", "_"), **fields)]
    assert webhooks[0] == webhooks[1]
    assert (webhooks[0].path, webhooks[0].body) == (f"/{name}", encode_call(call))
    handler = Handler()
    assert _code(receiver, webhooks[0], handler) is None
    assert handler.calls == [call]


def test_bodies_have_the_names_of_the_profile() -> None:
    """A wallet with the same profile reads what was meant, under the header that the profile names."""
    profile = Profile(signature_header="X-Sign", fields={"player_id": ("user",), "bet_id": ("bet.id",)})
    signer = WebhookSigner(ThrowAwayKeys(), profile)
    webhook, handler = signer("withdraw", **FIELDS), Handler()
    assert json.loads(webhook.body)["user"] == "p1"
    receiver = WebhookReceiver(authenticator=RsaSignature(signer.public_key_pem), profile=profile)
    assert _code(receiver, webhook, handler) is None
    assert handler.calls == [BET]


@pytest.mark.parametrize(
    ("key", "code"),
    [
        pytest.param("service", None, id="the service's"),
        pytest.param("old", "INVALID_SIGNATURE", id="from before a rotation"),
        pytest.param("forged", "INVALID_SIGNATURE", id="a stranger's"),
    ],
)
def test_other_keys_are_refused(
    signed_webhook: WebhookSigner, receiver: WebhookReceiver, key: Any, code: str | None
) -> None:
    """A test can send what the service would not sign."""
    assert _code(receiver, signed_webhook("withdraw", key=key, **FIELDS)) == code
    assert (
        signed_webhook("withdraw", key=key, **FIELDS).headers == signed_webhook("withdraw", key=key, **FIELDS).headers
    )


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        pytest.param({"call": "bet"}, ConfigurationError, "no webhook 'bet'.*withdraw, deposit", id="no such call"),
        pytest.param(
            {"call": "withdraw", "player_id": "p1"},
            TypeError,
            "missing 2 required .* 'bet_id' and 'amount_cents'",
            id="a field is missing",
        ),
        pytest.param(
            {"call": "withdraw", "amount": 5},
            TypeError,
            "unexpected keyword argument 'amount'",
            id="an unknown field",
        ),
        pytest.param({"call": "withdraw", "body": "{}"}, TypeError, "bytes, not str", id="a body of text"),
        pytest.param({"call": "deposit", "body": b"", "amount_cents": 5}, TypeError, "no fields", id="field and body"),
        pytest.param({"call": "x", "body": b"", "key": "lost"}, ConfigurationError, "or forged", id="no such key"),
    ],
)
def test_what_cannot_be_signed_is_said(
    signed_webhook: WebhookSigner, arguments: dict[str, Any], error: type[Exception], told: str
) -> None:
    """A mistake in a test is told to its author."""
    with pytest.raises(error, match=told):
        signed_webhook(**arguments)


def test_no_key_and_no_signature_is_shown(signed_webhook: WebhookSigner) -> None:
    """What pytest prints of a failed test holds neither."""
    webhook = signed_webhook("withdraw", **FIELDS)
    assert webhook.headers["signature"] not in repr(webhook)
    keys = ThrowAwayKeys()
    assert keys.service.fingerprint
    assert "PRIVATE" not in repr(signed_webhook) + repr(keys)
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(keys)
