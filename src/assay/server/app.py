"""RewardApp answers requests: it checks access, admits, reads, scores and replies. Any ASGI server can run it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send

from assay.redaction import logger_of
from assay.report import EvaluationReport
from assay.rubric import Rubric
from assay.server.access import Access
from assay.server.body import (
    CLOSE,
    RETRY,
    ClientGoneError,
    Headers,
    HttpRefusal,
    announced_size,
    decode,
    read_body,
    refuse_other_types,
    stopping,
)
from assay.server.metrics import CONTENT_TYPE, Metrics, ServerStatus
from assay.server.openapi import PAGES, document
from assay.server.protocols import PROTOCOLS, ScoredRequest, ScoreRequest, ScoringProtocol, encode, refuse_unscored
from assay.server.service import LATE, RubricService
from assay.server.settings import Bounds, Settings

Lifespan = Callable[[Starlette], AbstractAsyncContextManager[None]]

logger = logger_of("assay.server")

JSON: Final = (b"content-type", b"application/json")
LINGER: Final = 0.3
"""Seconds without a request after which a server that was told to stop does: clients that are about to ask on an
open connection are told so, and not cut off."""


class Admission:
    """The scoring requests under way, by number and bytes. Health and metrics need no admission."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self.requests = 0
        self.bytes = 0
        self.is_draining = False
        """Whether requests that come in now are refused, since the server is about to stop."""

    def enter(self, size: int) -> None:
        """Count a request of that size in, or refuse it."""
        if self.is_draining:
            raise stopping()
        if self.requests >= self._bounds.at_once:
            raise HttpRefusal(429, f"{self._bounds.at_once} requests are under way: come back", RETRY)
        if self.requests and self.bytes + size > self._bounds.all_bytes:
            raise HttpRefusal(429, f"requests of {self.bytes} bytes are under way: come back", RETRY)
        self.requests += 1
        self.bytes += size

    def leave(self, size: int) -> None:
        """Count it out."""
        self.requests -= 1
        self.bytes -= size


class RewardApp(Starlette):
    """Scores over HTTP with one rubric, which can be exchanged while it runs.

    `assay serve` adds worker processes, reloading and a clean end.
    """

    def __init__(
        self,
        rubric: Rubric,
        settings: Settings | None = None,
        *,
        status: Callable[[], ServerStatus] = ServerStatus,
        metrics: Metrics | None = None,
        lifespan: Lifespan | None = None,
    ) -> None:
        self.settings = settings if settings is not None else Settings()
        self.metrics = metrics if metrics is not None else Metrics(status)
        self.admission = Admission(self.settings.bounds)
        self.access = Access(self.settings)
        self.reload_error = ""
        """Why this process could not take over a changed rubric."""
        self.unscored = 0
        """Rollouts that could not be scored; `last_error` says why the last of them could not."""
        self.last_error = ""
        self._status = status
        self._context = copy_context()
        self._limits: set[asyncio.Timeout] = set()
        self.serve(rubric)
        self._scoring = {protocol.path: _Scoring(self, protocol) for protocol in PROTOCOLS}
        scoring = [Route(path, app, methods=["POST"]) for path, app in self._scoring.items()]
        # NeMo-Gym puts a prefix with the id of the rollout before a path when it records what happens.
        mounted = Mount("/ng-rollout/{rollout}", routes=scoring)
        pages = [
            Route(path, self._page(getattr(self, f"_{page.name}"), needs_key=page.needs_key), methods=[page.method])
            for path, page in PAGES.items()
        ]  # fmt: skip
        super().__init__(
            routes=[*scoring, *pages, mounted], exception_handlers={HTTPException: _no_page}, lifespan=lifespan
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Scoring goes past Starlette's middleware, which costs as much as a rollout."""
        if scope["type"] == "http" and scope["method"] == "POST":
            scoring = self._scoring.get(scope["path"])
            if scoring is not None:
                await scoring(scope, receive, send)
                return
        await super().__call__(scope, receive, send)

    def serve(self, rubric: Rubric) -> None:
        """Score with this rubric from the next request on."""
        seconds = self.settings.bounds.item_seconds
        self.service = RubricService(rubric, seconds, self._context)

    async def drain(self, linger: float = LINGER) -> None:
        """Refuse what comes in, finish what is under way, and refuse what takes too long to finish."""
        self.admission.is_draining = True
        loop = asyncio.get_running_loop()
        now = busy = loop.time()
        ends = now + self.settings.bounds.drain_seconds
        while now < ends and (self.admission.requests or now < busy + linger):
            busy = now if self.admission.requests else busy
            await asyncio.sleep(0.02)
            now = loop.time()
        for limit in self._limits:
            limit.reschedule(now)

    async def reports(self, service: RubricService, asked: ScoreRequest) -> list[EvaluationReport]:
        """The reports on the rollouts of a request, unless the server stops before they are there."""
        if not service.waits:
            return await service.reports(asked.rollouts)
        limit = asyncio.timeout(None)
        self._limits.add(limit)
        try:
            async with limit:
                return await service.reports(asked.rollouts)
        except TimeoutError:
            raise stopping() from None
        finally:
            self._limits.discard(limit)

    def write_gauges(self) -> None:
        """Write down how much is under way now."""
        self.metrics.requests_under_way.set(self.admission.requests)
        self.metrics.bytes_under_way.set(self.admission.bytes)

    def _page(
        self, content: Callable[[Request], Response], *, needs_key: bool
    ) -> Callable[[Request], Awaitable[Response]]:
        async def page(request: Request) -> Response:
            try:
                self.access.check(dict(request.scope["headers"]), needs_key=needs_key)
            except HttpRefusal as refusal:
                headers = {name.decode(): value.decode() for name, value in refusal.headers}
                return Response(refusal.body, refusal.status, headers, "application/json")
            return content(request)

        return page

    def _health(self, request: Request) -> Response:
        return _json({"status": "ok"})

    def _ready(self, request: Request) -> Response:
        status = self._status()
        error = self.reload_error or status.reload_error
        is_draining = self.admission.is_draining
        is_ready = status.workers_ready >= status.workers and not is_draining
        state: dict[str, Any] = {
            "ready": is_ready,
            "workers": status.workers,
            "workers_ready": status.workers_ready,
            "draining": is_draining,
            "rubric": self.service.hash,
            "reload_failed": bool(error),
        }
        # The error may quote files, which is not for everybody who may ask whether the server is ready.
        if error and self.access.knows_key(dict(request.scope["headers"])):
            state["reload_error"] = error
        return _json(state, 200 if is_ready else 503)

    def _metrics(self, request: Request) -> Response:
        self.write_gauges()
        return Response(self.metrics.text(), headers={"content-type": CONTENT_TYPE})

    def _rubric(self, request: Request) -> Response:
        rubric, bounds = self.service.rubric, self.settings.bounds
        return _json(
            {
                "rubric": self.service.hash,
                "name": rubric.name,
                "criteria": [
                    {"name": c.name, "weight": c.weight, "counts": c.counts, "judged": c.judged}
                    for c in rubric.criteria
                ],
                "compares": list(self.service.compares),
                "max_batch": bounds.max_batch,
                "max_bytes": bounds.max_bytes,
            }
        )

    def _openapi(self, request: Request) -> Response:
        return _json(document(needs_key=bool(self.settings.key)))

    def _seed_session(self, request: Request) -> Response:
        return _json({})

    def _reverify_mode(self, request: Request) -> Response:
        return _json("stateless")


class _Scoring:
    """Answers the requests of one protocol. It is an ASGI application, since a `Request` costs more than its work."""

    def __init__(self, app: RewardApp, protocol: ScoringProtocol) -> None:
        self._app = app
        self._protocol = protocol
        metrics, name = app.metrics, protocol.name
        self._seconds = metrics.seconds.labels(name)
        self._scored = metrics.rollouts.labels(name, "scored")
        self._unscored = metrics.rollouts.labels(name, "unscored")
        self._fallbacks = metrics.fallbacks.labels(name, app.settings.unscored)
        self._answered = metrics.requests.labels(name, 200)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        status = 200
        headers: list[tuple[bytes, bytes]] = [JSON]
        try:
            body, more = await self._reply(scope, receive)
            headers += more
        except HttpRefusal as refusal:
            status, body = refusal.status, refusal.body
            headers += refusal.headers
        except ClientGoneError:
            return
        except Exception:
            logger.exception("a request to %s failed", scope["path"])
            sentence = "the server failed, through no fault of yours: its log says more"
            status, body = 500, HttpRefusal(500, sentence).body
        headers.append((b"content-length", b"%d" % len(body)))
        if self._app.admission.is_draining:
            headers += CLOSE
        # Before the reply is sent, so that a client that has it finds it counted.
        answered = self._answered
        if status != 200:
            answered = self._app.metrics.requests.labels(self._protocol.name, status)
        answered.inc()
        self._seconds.observe(time.perf_counter() - started)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _reply(self, scope: Scope, receive: Receive) -> tuple[bytes, Headers]:
        app, protocol = self._app, self._protocol
        headers: dict[bytes, bytes] = dict(scope["headers"])
        app.access.check(headers)
        bounds = app.settings.bounds
        size = announced_size(headers, bounds)
        held = min(size, bounds.max_bytes)
        app.admission.enter(held)
        try:
            refuse_other_types(headers)
            asked = protocol.read(decode(await read_body(receive, size, bounds)))
            if len(asked.rollouts) > bounds.max_batch:
                raise HttpRefusal(
                    413,
                    f"there are {len(asked.rollouts)} rollouts, and {bounds.max_batch} are allowed: "
                    "send fewer at a time",
                )
            service = app.service
            reports = await app.reports(service, asked)
            self._count(reports)
            if protocol.numbers_only and app.settings.unscored == "raise":
                refuse_unscored(reports)
            scored = ScoredRequest(asked, reports, service, app.settings.unscored)
            return encode(protocol.write(scored)), ((b"x-assay-rubric", service.hash.encode()),)
        finally:
            app.admission.leave(held)

    def _count(self, reports: Sequence[EvaluationReport]) -> None:
        missing = [report for report in reports if not report.scored]
        self._scored.inc(len(reports) - len(missing))
        if not missing:
            return
        self._unscored.inc(len(missing))
        app = self._app
        app.unscored += len(missing)
        for report in missing:
            for error in report.errors.values():
                app.last_error = error
                if error.startswith(LATE):
                    app.metrics.deadlines.inc()
                    break
        if self._protocol.numbers_only:
            self._fallbacks.inc(len(missing))


def _json(value: Any, status: int = 200) -> Response:
    return Response(encode(value), status, media_type="application/json")


async def _no_page(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path
    headers = dict(error.headers or {})
    sentence = (
        f"{path[:80]!r} takes {headers.get('Allow', '')}, and not {request.method[:20]}"
        if error.status_code == 405
        else f"there is nothing at {path[:80]!r}: /openapi.json lists what there is"
    )
    refusal = HttpRefusal(error.status_code, sentence)
    return Response(refusal.body, refusal.status, headers, "application/json")
