"""schemathesis, let loose on the running sandbox with the sandbox's own OpenAPI document (spec §4.2, §5, §7)."""

import json
from importlib.resources import files
from typing import Any
from urllib.parse import unquote_to_bytes

import requests
import schemathesis
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from hypothesis import HealthCheck, settings
from pydantic import BaseModel
from requests.auth import AuthBase
from schemathesis import Case, GenerationMode
from schemathesis.checks import CheckFunction, not_a_server_error
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from game_operator import models
from game_operator.codes import GameStatus, Genre, GrantErrorCode
from game_operator_testkit.sandbox import Sandbox
from tests.support.signed_http import BET, GAMES
from tests.support.webhooks import signature_of

CHECKS: list[CheckFunction] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
    allow_header_conformance,
]

# Any: what a case of schemathesis may hold besides.
AnyCase = Case[Any]

DOCUMENT = json.loads(files("game_operator_testkit.sandbox").joinpath("service/openapi.json").read_bytes())
schema = schemathesis.openapi.from_dict(DOCUMENT)


class Signing(AuthBase):
    """Signs what is about to be sent, byte for byte (spec §5)."""

    def __init__(self, operator_id: str, key: RSAPrivateKey) -> None:
        self._operator_id = operator_id
        self._key = key

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        # A header that the case leaves out, on purpose, stays out.
        sound = {"X-Operator-Id": self._operator_id, "X-Signature": signature_of(self._key, self._signed(request))}
        request.headers.update({name: value for name, value in sound.items() if name in request.headers})
        return request

    def _signed(self, request: requests.PreparedRequest) -> bytes:
        path = request.path_url.partition("?")[0]
        if path == GAMES:
            return self._operator_id.encode()
        if path.startswith(BET):
            return f"{self._operator_id}:".encode() + unquote_to_bytes(path.removeprefix(BET))
        body = request.body or b""
        assert isinstance(body, str | bytes)
        return body.encode() if isinstance(body, str) else body


@schema.parametrize()
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_answers_conform_to_the_document(case: AnyCase, sandbox: Sandbox, private_key: RSAPrivateKey) -> None:
    """Whatever is sent, signed or not: status, content type and body are those described (spec §4.2, §7.2, §7.3)."""
    is_sound = case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE
    if is_sound and isinstance(case.body, dict) and "instance_id" in case.body:
        # No generator guesses 24 hex digits that exist, and without them there would be no success to look at.
        case.body["instance_id"] = sandbox.instance_id
    case.call_and_validate(base_url=sandbox.base_url, auth=Signing(sandbox.operator_id, private_key), checks=CHECKS)


def test_the_document_has_the_fields_and_codes_of_the_models() -> None:
    """The document is a file, and must not fall behind the models (spec §2)."""
    described = DOCUMENT["components"]["schemas"]
    assert [described[kind.__name__]["enum"] for kind in (GameStatus, Genre, GrantErrorCode)] == [
        [str(code) for code in kind] for kind in (GameStatus, Genre, GrantErrorCode)
    ]
    others = {"Game": "GameInfo", "GrantRefusal": "GrantRefused", "GrantWithinLimits": "GrantRequest"}
    for name, described_model in described.items():
        model = getattr(models, others.get(name, name), None)
        if isinstance(model, type) and issubclass(model, BaseModel):
            assert set(described_model["properties"]) == set(model.model_fields), name
