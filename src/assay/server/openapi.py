"""The OpenAPI document describes what can be asked of the server, and every answer there can be."""

from typing import Any, Final, NamedTuple

import msgspec

from assay import __version__
from assay.server.protocols import PROTOCOLS

Schema = dict[str, Any]


class PageRoute(NamedTuple):
    """A route that does not score."""

    name: str
    summary: str
    method: str = "GET"
    needs_key: bool = False
    statuses: tuple[str, ...] = ("200",)
    media: str = "application/json"


PAGES: Final = {
    "/health": PageRoute("health", "Whether the server runs."),
    "/ready": PageRoute("ready", "Whether it takes requests.", statuses=("200", "503")),
    "/metrics": PageRoute("metrics", "Counts, for Prometheus.", needs_key=True, media="text/plain"),
    "/v1/rubric": PageRoute("rubric", "The rubric that is served, and limits.", needs_key=True),
    "/openapi.json": PageRoute("openapi", "This document."),
    "/seed_session": PageRoute("seed_session", "For NeMo-Gym; keeps nothing.", "POST", needs_key=True),
    "/reverify_mode": PageRoute("reverify_mode", "For NeMo-Gym."),
}
_ERROR: Final[Schema] = {
    "type": "object",
    "properties": {"error": {"type": "string", "description": "What was wrong, and what to do."}},
    "required": ["error"],
}
_HASH: Final[Schema] = {"x-assay-rubric": {"schema": {"type": "string"}, "description": "The hash of the rubric."}}
_WAIT: Final[Schema] = {"retry-after": {"schema": {"type": "integer"}, "description": "Seconds to wait."}}


def _answer(meaning: str, schema: Schema | None = None, media: str = "application/json", **more: Any) -> Schema:
    """An answer with this schema; without one, it is that of an error."""
    schema = {"$ref": "#/components/schemas/Error"} if schema is None else schema
    return {"description": meaning, "content": {media: {"schema": schema}}, **more}


_REFUSALS: Final = {
    "400": _answer("The body is no JSON, or not as it should be."),
    "408": _answer("The request was not sent in time."),
    "413": _answer("The request, or its batch, is too large."),
    "415": _answer("The body is not plain JSON."),
    "422": _answer("A rollout has no score, and the route takes numbers only."),
    "429": _answer("Too much is under way: come back later.", headers=_WAIT),
    "500": _answer("The server failed."),
    "503": _answer("The server is stopping.", headers=_WAIT),
}


def document(*, needs_key: bool) -> Schema:
    def operation(name: str, summary: str, answers: Schema, *, secured: bool, **body: Any) -> Schema:
        denied = {"403": _answer("The server was asked under a name that is not its own.")}
        if secured:
            denied, body["security"] = {"401": _answer("The key is missing or wrong.")}, [{"key": []}]
        return {"operationId": name, "summary": summary, "responses": answers | denied, **body}

    types = [kind for protocol in PROTOCOLS for kind in (protocol.request, protocol.reply)]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    # What the type of a rollout cannot say.
    components["RolloutBody"]["anyOf"] = [{"required": ["completion"]}, {"required": ["state"], "maxProperties": 1}]
    paths: Schema = {}
    for protocol, request, reply in zip(PROTOCOLS, schemas[::2], schemas[1::2], strict=True):
        answers = {"200": _answer("The scores.", reply, headers=_HASH)} | _REFUSALS
        body = {"required": True, "content": {"application/json": {"schema": request}}}
        asked = operation(protocol.name, protocol.summary, answers, secured=needs_key, requestBody=body)
        paths[protocol.path] = {"post": asked}
    for path, page in PAGES.items():
        answers = {status: _answer("An answer.", {}, page.media) for status in page.statuses}
        asked = operation(page.name, page.summary, answers, secured=needs_key and page.needs_key)
        paths[path] = {page.method.lower(): asked}
    scheme = {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "assay reward server", "version": __version__},
        "paths": paths,
        "components": {"schemas": {"Error": _ERROR, **components}} | (scheme if needs_key else {}),
    }
