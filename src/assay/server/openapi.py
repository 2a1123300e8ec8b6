"""The OpenAPI document: what can be asked, and every answer there can be."""

from typing import Any, Final, NamedTuple

import msgspec

from assay import __version__
from assay.server.native import ScoreBody, ScoreReply
from assay.server.nemo_gym import VerifyBody
from assay.server.openrlhf import OpenRLHFBody, OpenRLHFReply
from assay.server.slime import SlimeBody, SlimeReply

Schema = dict[str, Any]


class Verified(msgspec.Struct):
    """The request, and what came of it beside its fields."""

    reward: float
    reward_components: dict[str, float] = {}
    mask_sample: bool = False
    failure_kind: str = ""
    failure_reason: str = ""


class Scoring(NamedTuple):
    """A route that scores."""

    name: str
    purpose: str
    takes: Any
    gives: Any


class Page(NamedTuple):
    """A route that does not."""

    name: str
    purpose: str
    method: str = "get"
    is_open: bool = True
    """Whether it needs no key."""
    statuses: tuple[str, ...] = ("200",)
    media: str = "application/json"


SCORING: Final = {
    "/v1/score": Scoring(
        "score", "Score rollouts; one without a score says why.", ScoreBody, ScoreReply
    ),
    "/openrlhf": Scoring("openrlhf", "Score as OpenRLHF asks.", OpenRLHFBody, OpenRLHFReply),
    "/slime": Scoring("slime", "Score as slime asks.", SlimeBody, SlimeReply),
    "/verify": Scoring("verify", "Score as NeMo-Gym asks.", VerifyBody, Verified),
}
PAGES: Final = {
    "/health": Page("health", "Whether the server runs."),
    "/ready": Page("ready", "Whether it takes requests.", statuses=("200", "503")),
    "/metrics": Page("metrics", "Counts, for Prometheus.", is_open=False, media="text/plain"),
    "/v1/rubric": Page("rubric", "The rubric that is served, and limits.", is_open=False),
    "/openapi.json": Page("openapi", "This document."),
    "/seed_session": Page("seed_session", "For NeMo-Gym; keeps nothing.", "post", is_open=False),
    "/reverify_mode": Page("reverify_mode", "For NeMo-Gym."),
}

_REFUSALS: Final = {
    "400": "The body is no JSON, or not as it should be.",
    "408": "The request was not sent in time.",
    "413": "The request, or its batch, is too large.",
    "415": "The body is not plain JSON.",
    "422": "A rollout has no score, and the route takes numbers only.",
    "429": "Too much is under way: come back later.",
    "500": "The server failed.",
    "503": "The server is stopping.",
}
_ERROR: Final[Schema] = {
    "type": "object",
    "properties": {"error": {"type": "string", "description": "What was wrong, and what to do."}},
    "required": ["error"],
}
_ERROR_HERE: Final[Schema] = {"$ref": "#/components/schemas/Error"}
_HASH: Final[Schema] = {"schema": {"type": "string"}, "description": "The hash of the rubric."}
_WAIT: Final[Schema] = {"schema": {"type": "integer"}, "description": "Seconds to wait."}


def document(*, needs_key: bool) -> Schema:
    """The document of a server, of one that needs a key or of one that does not."""
    kinds = [kind for route in SCORING.values() for kind in (route.takes, route.gives)]
    schemas, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    known = {"Error": _ERROR, **_narrowed(dict(components))}
    paths: Schema = {}
    for path, route, takes, gives in zip(
        SCORING, SCORING.values(), schemas[::2], schemas[1::2], strict=True
    ):
        paths[path] = {"post": _scoring(route, takes, gives) | _guarded(needs_key)}
        paths[path]["post"]["responses"] |= _stranger(needs_key)
    for path, page in PAGES.items():
        is_guarded = needs_key and not page.is_open
        paths[path] = {page.method: _page(page) | _guarded(is_guarded)}
        paths[path][page.method]["responses"] |= _stranger(is_guarded)
    scheme = {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "assay reward server", "version": __version__},
        "paths": paths,
        "components": {"schemas": known} | (scheme if needs_key else {}),
    }


def _narrowed(components: dict[str, Schema]) -> dict[str, Schema]:
    """The schemas of the bodies, with what their types cannot say."""
    rollout = components["RolloutBody"]
    rollout["additionalProperties"] = components["ScoreBody"]["additionalProperties"] = False
    rollout["anyOf"] = [{"required": ["completion"]}, {"required": ["state"], "maxProperties": 1}]
    return components


def _scoring(route: Scoring, takes: Schema, gives: Schema) -> Schema:
    answers = {"200": _answer("The scores.", gives) | {"headers": {"x-assay-rubric": _HASH}}}
    for status, meaning in _REFUSALS.items():
        headers = {"headers": {"retry-after": _WAIT}} if status in ("429", "503") else {}
        answers[status] = _answer(meaning, _ERROR_HERE) | headers
    body = {"required": True, "content": {"application/json": {"schema": takes}}}
    return _said(route.name, route.purpose) | {"requestBody": body, "responses": answers}


def _page(page: Page) -> Schema:
    answers = {status: _answer("An answer.", {}, page.media) for status in page.statuses}
    return _said(page.name, page.purpose) | {"responses": answers}


def _said(name: str, purpose: str) -> Schema:
    return {"operationId": name, "summary": purpose}


def _answer(meaning: str, schema: Schema, media: str = "application/json") -> Schema:
    return {"description": meaning, "content": {media: {"schema": schema}}}


def _guarded(is_guarded: bool) -> Schema:
    return {"security": [{"key": []}]} if is_guarded else {}


def _stranger(is_guarded: bool) -> Schema:
    if is_guarded:
        return {"401": _answer("The key is missing or wrong.", _ERROR_HERE)}
    return {"403": _answer("The server was asked under a name that is not its own.", _ERROR_HERE)}
