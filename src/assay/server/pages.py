"""Pages: everything that is not scoring. They always answer, however much is under way."""

from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.responses import Response as Page
from starlette.routing import Route

from assay.server.keys import knows, refuse_stranger
from assay.server.openapi import SCORING, document
from assay.server.refusals import Refusal, error_body
from assay.server.routes import encoded

if TYPE_CHECKING:
    from assay.server.app import RewardApp


def pages(app: "RewardApp") -> Starlette:
    """The pages of a server."""
    key = app.settings.key.encode()

    async def health(request: Request) -> Page:
        return _page({"status": "ok"})

    async def ready(request: Request) -> Page:
        state = _readiness(app)
        if key and not knows(key, dict(request.scope["headers"])):
            state.pop("reload_error", None)
        return _page(state, 200 if state["ready"] else 503)

    async def metrics(request: Request) -> Page:
        refuse_stranger(key, dict(request.scope["headers"]))
        app.write_gauges()
        return PlainTextResponse(
            app.counts.board.text(), media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    async def rubric(request: Request) -> Page:
        refuse_stranger(key, dict(request.scope["headers"]))
        return _page(_described(app))

    async def openapi(request: Request) -> Page:
        return _page(document(needs_key=bool(key)))

    async def seed_session(request: Request) -> Page:
        refuse_stranger(key, dict(request.scope["headers"]))
        return _page({})

    async def reverify_mode(request: Request) -> Page:
        return _page("stateless")

    readers = {
        "/health": health,
        "/ready": ready,
        "/metrics": metrics,
        "/v1/rubric": rubric,
        "/openapi.json": openapi,
        "/reverify_mode": reverify_mode,
    }
    routes = [Route(path, page, methods=["GET"]) for path, page in readers.items()]
    routes.append(Route("/seed_session", seed_session, methods=["POST"]))
    # Only what is not POST comes here, and is told what would be right.
    routes += [Route(path, health, methods=["POST"]) for path in SCORING]
    return Starlette(routes=routes, exception_handlers={HTTPException: _no_page, Refusal: _refused})


def _page(value: Any, status: int = 200) -> Page:
    return Page(encoded(value), status, media_type="application/json")


def _readiness(app: "RewardApp") -> dict[str, Any]:
    board = app.counts.board
    wanted, there = (int(board.total(f"assay_workers{end}")) for end in ("", "_ready"))
    state: dict[str, Any] = {
        "ready": there == wanted and not app.gate.draining,
        "workers": wanted,
        "workers_ready": there,
        "draining": app.gate.draining,
        "rubric": app.served.hash,
        "reload_failed": bool(app.reload_error),
    }
    if app.reload_error:
        state["reload_error"] = app.reload_error
    return state


def _described(app: "RewardApp") -> dict[str, Any]:
    served, bounds = app.served, app.settings.bounds
    return {
        "rubric": served.hash,
        "name": served.rubric.name,
        "criteria": [
            {"name": c.name, "weight": c.weight, "counts": c.counts, "judged": c.judged}
            for c in served.rubric.criteria
        ],
        "compares": list(served.compares),
        "max_batch": bounds.max_batch,
        "max_bytes": bounds.max_bytes,
    }


async def _no_page(request: Request, error: Exception) -> Page:
    assert isinstance(error, HTTPException)
    path = request.url.path
    allowed = (error.headers or {}).get("Allow", "")
    sentence = (
        f"{path[:80]!r} takes {allowed}, and not {request.method[:20]}"
        if error.status_code == 405
        else f"there is nothing at {path[:80]!r}: /openapi.json lists what there is"
    )
    headers = dict(error.headers or {})
    return Page(error_body(sentence), error.status_code, headers, "application/json")


async def _refused(request: Request, error: Exception) -> Page:
    assert isinstance(error, Refusal)
    headers = {name.decode(): value.decode() for name, value in error.headers}
    return Page(error.body, error.status, headers, "application/json")
