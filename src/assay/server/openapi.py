"""Describe the routes of the server, and every reply that they can give, as an OpenAPI document."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from assay import __version__
from assay.server.protocols import ScoringRequest

Schema = dict[str, Any]


class PageRoute(NamedTuple):
    """A route that does not score, as the document describes it."""

    path: str
    name: str  # its `operationId`
    summary: str
    method: str = "get"
    needs_key: bool = False  # if the server has a key at all
    statuses: Sequence[int] = (200,)
    media_type: str = "application/json"


PAGES: Final = (
    PageRoute("/health", "health", "Whether the server runs."),
    PageRoute("/ready", "ready", "Whether it takes requests.", statuses=(200, 503)),
    PageRoute(
        "/metrics", "metrics", "Counts, for Prometheus.", needs_key=True, media_type="text/plain"
    ),
    PageRoute("/v1/rubric", "rubric", "The rubric that is served, and limits.", needs_key=True),
    PageRoute("/openapi.json", "openapi", "This document."),
    PageRoute(
        "/seed_session",
        "seed_session",
        "For NeMo-Gym; keeps nothing.",
        method="post",
        needs_key=True,
    ),
    PageRoute("/reverify_mode", "reverify_mode", "For NeMo-Gym."),
)

ERROR_SCHEMA: Final[Schema] = {
    "type": "object",
    "properties": {
        "error": {"type": "string", "description": "What was wrong, and what to do."},
    },
    "required": ["error"],
}
RUBRIC_HEADER: Final[Schema] = {
    "x-assay-rubric": {"schema": {"type": "string"}, "description": "The hash of the rubric."}
}
RETRY_HEADER: Final[Schema] = {
    "retry-after": {"schema": {"type": "integer"}, "description": "Seconds to wait."}
}


def describe_api(protocols: Sequence[type[ScoringRequest]], *, needs_key: bool) -> Schema:
    """Return the OpenAPI document of a server that has these scoring routes, and `PAGES`.

    `needs_key` says that the server has a key.
    """
    body_types = [protocol.body_type for protocol in protocols]
    reply_types = [protocol.reply_type for protocol in protocols]
    schemas, components = msgspec.json.schema_components(
        [*body_types, *reply_types], ref_template="#/components/schemas/{name}"
    )
    # msgspec returns one schema per type, in the same order.
    body_schemas = schemas[: len(protocols)]
    reply_schemas = schemas[len(protocols) :]
    # A rollout has a completion, or only a state. The Python type cannot express this.
    components["RolloutBody"]["anyOf"] = [
        {"required": ["completion"]},
        {"required": ["state"], "maxProperties": 1},
    ]
    paths: dict[str, Schema] = {}
    for protocol, body, reply in zip(protocols, body_schemas, reply_schemas, strict=True):
        paths[protocol.path] = {"post": _describe_scoring(protocol, body, reply, needs_key)}
    for page in PAGES:
        paths[page.path] = {page.method: _describe_page(page, needs_key and page.needs_key)}
    all_components: Schema = {"schemas": {"Error": ERROR_SCHEMA, **components}}
    if needs_key:
        all_components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "assay reward server", "version": __version__},
        "paths": paths,
        "components": all_components,
    }


def _describe_scoring(
    protocol: type[ScoringRequest], body: Schema, reply: Schema, needs_key: bool
) -> Schema:
    """Return the description of a route that scores: its body, and every reply that it can give."""
    responses = {
        "200": _describe_response("The scores.", reply) | {"headers": RUBRIC_HEADER},
        "400": _describe_error("The body is not valid JSON, or it does not match the schema."),
        "408": _describe_error("The request was not sent in time."),
        "409": _describe_error(
            "The server does not have the version of the rubric that the request names."
        )
        | {"headers": RETRY_HEADER},
        "413": _describe_error("The request, or its batch, is too large."),
        "415": _describe_error("The body is not plain JSON."),
        "422": _describe_error("A rollout has no score, and the route takes numbers only."),
        "429": _describe_error("Too many requests are in progress: try again later.")
        | {"headers": RETRY_HEADER},
        "500": _describe_error("The server failed."),
        "503": _describe_error("The server is stopping.") | {"headers": RETRY_HEADER},
    }
    return {
        "operationId": protocol.name,
        "summary": protocol.summary,
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": responses | _describe_denial(needs_key),
        **_describe_security(needs_key),
    }


def _describe_page(page: PageRoute, needs_key: bool) -> Schema:
    """Return the description of a route that does not score; its replies have no schema."""
    responses = {
        str(status): _describe_response("An answer.", {}, page.media_type)
        for status in page.statuses
    }
    return {
        "operationId": page.name,
        "summary": page.summary,
        "responses": responses | _describe_denial(needs_key),
        **_describe_security(needs_key),
    }


def _describe_response(
    description: str, schema: Schema, media_type: str = "application/json"
) -> Schema:
    """Return the description of a reply whose body matches this schema."""
    return {"description": description, "content": {media_type: {"schema": schema}}}


def _describe_error(description: str) -> Schema:
    """Return the description of a reply that holds an error."""
    return _describe_response(description, {"$ref": "#/components/schemas/Error"})


def _describe_denial(needs_key: bool) -> Schema:
    """Return the description of the reply to a request that has no access, by its status.

    A server without a key checks the host name of every request in place of the key.
    """
    if needs_key:
        return {"401": _describe_error("The key is missing or wrong.")}
    return {"403": _describe_error("The request used a host name that is not the server's.")}


def _describe_security(needs_key: bool) -> Schema:
    """Return the field that says that a route needs the key; nothing if it needs none."""
    if needs_key:
        return {"security": [{"key": []}]}
    return {}
