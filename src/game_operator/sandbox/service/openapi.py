"""
The OpenAPI 3.1 document of the sandbox, built from the wire models (spec §2, §4.2, §5, §7).

It describes what the sandbox sends, no more: every field of an answer is required, and nothing is added to one. A real
service may add fields; the clients accept them.
"""

import json
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import core_schema

from game_operator.codes import GameStatus, Genre, GrantErrorCode
from game_operator.models import (
    BetLookup,
    GameInfo,
    GrantAccepted,
    GrantRefused,
    GrantRequest,
    RoundLookup,
)
from game_operator.models._base import Text, WholeNumber, WireModel
from game_operator.models.free_bets import (
    MAX_COUNT,
    MAX_EXPIRE_DURATION_MILLIS,
    MAX_ID_CHARACTERS,
    MAX_WAGER_AMOUNT_CENTS,
)
from game_operator.protocol.operations import API_PREFIX

__all__ = ["document", "document_json"]

#: A JSON object of the document; Any, for its values are any JSON.
Node: TypeAlias = dict[str, Any]


class Game(GameInfo):
    """A game as the sandbox sends it: with one of the listed statuses and genres (spec §2.5)."""

    status: GameStatus
    genre: Genre


class Games(WireModel):
    """All games and instances available for the operator (spec §4.2)."""

    games: tuple[Game, ...]


class Failure(WireModel):
    """Why a call failed (spec §4.2, §7.3)."""

    error: Text


class RoundWithoutKey(WireModel):
    """Neither round_id nor round_no was given (spec §4.2, §7.3)."""

    status: Literal["BAD_REQUEST"]
    error: Text


class GrantRefusal(GrantRefused):
    """Why a grant was refused (spec §7.2)."""

    error_code: GrantErrorCode


class RoundRequest(WireModel):
    """Which round is meant: round_id is used if both are present (spec §4.2)."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["round_id"]}, {"required": ["round_no"]}]})

    instance_id: Text
    # The defaults only say that either may be left out.
    round_id: Text = ""
    round_no: int = 0


Id = Annotated[str, Field(max_length=MAX_ID_CHARACTERS, pattern=r"\S")]


class GrantWithinLimits(GrantRequest):
    """A grant that breaks no limit (spec §2.2, §8)."""

    player_id: Id
    count: Annotated[int, WholeNumber(1, MAX_COUNT)]
    wager_amount_cents: Annotated[int, WholeNumber(1, MAX_WAGER_AMOUNT_CENTS)]
    expire_duration_millis: Annotated[int, WholeNumber(1, MAX_EXPIRE_DURATION_MILLIS)]
    reference_id: Id


_BODIES: Final[tuple[tuple[str, JsonSchemaMode, Any], ...]] = (
    ("games", "serialization", Games),
    ("bet", "serialization", BetLookup),
    ("round", "serialization", RoundLookup),
    ("granted", "serialization", GrantAccepted),
    ("refused", "serialization", GrantRefusal),
    ("failure", "serialization", Failure),
    ("round without key", "serialization", RoundWithoutKey),
    ("round request", "validation", RoundRequest),
    ("grant request", "validation", GrantWithinLimits),
)


class _Exact(GenerateJsonSchema):
    """Describes answers as they are sent: each field always there, and no other."""

    def field_is_required(
        self,
        field: core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField,
        total: bool,
    ) -> bool:
        return self.mode == "serialization" or super().field_is_required(field, total)

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        described = super().model_schema(schema)
        return described | {"additionalProperties": False} if self.mode == "serialization" else described

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


@cache
def document_json() -> bytes:
    """Return the document as it is served at ``/openapi.json``."""
    return json.dumps(document(), ensure_ascii=False).encode()


def document() -> Node:
    """Return the OpenAPI document of the four calls (spec §4.2)."""
    adapters = [(name, mode, TypeAdapter(kind)) for name, mode, kind in _BODIES]
    keyed, definitions = TypeAdapter.json_schemas(
        adapters, ref_template="#/components/schemas/{model}", schema_generator=_Exact
    )
    bodies = {name: schema for (name, _), schema in keyed.items()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Operator API, as the sandbox plays it", "version": API_PREFIX.rpartition("/v")[2]},
        "paths": _paths(bodies),
        "components": {"schemas": definitions["$defs"], "securitySchemes": _SECURITY_SCHEMES},
        "security": [dict.fromkeys(_SECURITY_SCHEMES, ())],
    }


_SECURITY_SCHEMES: Final[Node] = {
    "OperatorId": {"type": "apiKey", "in": "header", "name": "X-Operator-Id"},
    "Signature": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Signature",
        "description": (
            "RSA-SHA256 (PKCS#1 v1.5), URL-safe Base64 without padding, over the operator id for fetch-games, over "
            "<operator_id>:<bet_id> for fetch-bet, and over the whole body for a POST (spec §5)."
        ),
    },
}

_BET_ID: Final[Node] = {
    "name": "bet_id",
    "in": "path",
    "required": True,
    "description": "One path segment, percent-encoded; its plain text is signed.",
    "schema": {"type": "string", "minLength": 1},
}


def _paths(bodies: dict[str, Any]) -> Node:
    failure = bodies["failure"]
    refused = {"401": _answer("Authentication failed", failure)}
    inactive = refused | {"403": _answer("Operator account inactive", failure)}
    posted = inactive | {"413": _answer("Body over 1 MiB", failure)}
    no_round, no_grant = (_either(bodies[name], failure) for name in ("round without key", "refused"))
    return {
        f"{API_PREFIX}/fetch-games": {
            "get": _call("fetch-games", bodies["games"], {"400": _answer("Invalid request", failure)} | refused)
        },
        f"{API_PREFIX}/fetch-bet/{{bet_id}}": {
            "parameters": [_BET_ID],
            "get": _call("fetch-bet", bodies["bet"], {"400": _answer("Invalid request", failure)} | inactive),
        },
        f"{API_PREFIX}/fetch-round-bets": {
            "post": _call("fetch-round-bets", bodies["round"], {"400": _answer("Invalid request", no_round)} | posted)
            | _takes(bodies["round request"])
        },
        f"{API_PREFIX}/free-bet/grant": {
            "post": _call("free-bet/grant", bodies["granted"], {"400": _answer("Not granted", no_grant)} | posted)
            | _takes(bodies["grant request"])
        },
    }


def _call(name: str, success: Node, failures: Node) -> Node:
    return {"operationId": name, "responses": {"200": _answer("The answer", success)} | failures}


def _takes(schema: Node) -> Node:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _answer(description: str, schema: Node) -> Node:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _either(*schemas: Node) -> Node:
    return {"anyOf": list(schemas)}
