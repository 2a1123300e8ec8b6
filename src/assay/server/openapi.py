"""The OpenAPI document describes what can be asked of the server, and every answer there can be, as `openapi.json` has it."""

from collections.abc import Sequence
from pkgutil import get_data
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
    statuses: Sequence[str] = ("200",)
    media: str = "application/json"


_DATA: Final[Schema] = msgspec.json.decode(get_data("assay.server", "openapi.json") or b"")
PAGES: Final = {path: PageRoute(**page) for path, page in _DATA["pages"].items()}


def _answer(meaning: str, schema: Schema, media: str = "application/json", **more: Any) -> Schema:
    return {"description": meaning, "content": {media: {"schema": schema}}, **more}


def document(*, needs_key: bool) -> Schema:
    def operation(
        name: str, summary: str, answers: Schema, *, secured: bool, **body: Any
    ) -> Schema:
        status = "401" if secured else "403"
        needs: Schema = {"security": [{"key": []}]} if secured else {}
        denied = {status: _DATA["denied"][status]}
        return {
            "operationId": name,
            "summary": summary,
            "responses": answers | denied,
            **body,
            **needs,
        }

    types = [kind for protocol in PROTOCOLS for kind in (protocol.request, protocol.reply)]
    schemas, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    # What the type of a rollout cannot say.
    components["RolloutBody"]["anyOf"] = [
        {"required": ["completion"]},
        {"required": ["state"], "maxProperties": 1},
    ]
    paths: Schema = {}
    for protocol, request, reply in zip(PROTOCOLS, schemas[::2], schemas[1::2], strict=True):
        answers = {"200": _answer("The scores.", reply, headers=_DATA["scored_headers"])} | _DATA[
            "refusals"
        ]
        body = {"required": True, "content": {"application/json": {"schema": request}}}
        asked = operation(
            protocol.name, protocol.summary, answers, secured=needs_key, requestBody=body
        )
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
        "components": {"schemas": {"Error": _DATA["error"], **components}}
        | (scheme if needs_key else {}),
    }
