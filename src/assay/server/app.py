"""RewardApp: the server as an ASGI application. Scoring is short and by hand; `pages` has the rest."""

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Final, NamedTuple

from starlette.responses import Response as Page

from assay.redaction import logger_of
from assay.report import EvaluationReport
from assay.rubric import Rubric
from assay.server.board import Board
from assay.server.gate import Gate, stopping
from assay.server.keys import Hosts, refuse_stranger
from assay.server.metrics import FAMILIES, Counts
from assay.server.native import Native
from assay.server.nemo_gym import NemoGym
from assay.server.openrlhf import OpenRLHF
from assay.server.pages import pages
from assay.server.patience import Patience
from assay.server.reading import Disconnected, Receive, body_of, refuse_kind, size_of
from assay.server.refusals import CLOSE, Headers, Refusal, error_body
from assay.server.rewards import refuse_unscored
from assay.server.routes import Asked, Route, encoded
from assay.server.served import LATE, Served
from assay.server.settings import Settings
from assay.server.slime import Slime

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

logger = logger_of("assay.server")

JSON: Final = (b"content-type", b"application/json")
ROLLOUT_PREFIX: Final = "/ng-rollout/"
"""NeMo-Gym puts this and the id of the rollout before a path when it records what happens."""


class Answer(NamedTuple):
    """What is sent back."""

    status: int
    body: bytes
    headers: Headers = ()


class RewardApp:
    """Scores over HTTP with one rubric, which can be exchanged while it runs.

    Any ASGI server can run it; `assay serve` adds worker processes, reloading and a clean end.
    """

    def __init__(
        self, rubric: Rubric, settings: Settings | None = None, counts: Counts | None = None
    ) -> None:
        self.settings = settings if settings is not None else Settings()
        self.counts = counts if counts is not None else Counts(Board(FAMILIES))
        self.gate = Gate(self.settings.bounds)
        self.reload_error = ""
        """Why the rubric file as it is now is not the one that is served."""
        self.last_error = ""
        """Why a rollout was not scored, the last time that happened."""
        self._key = self.settings.key.encode()
        self._hosts = Hosts(self.settings)
        self._patience = Patience(self.settings.bounds.body_seconds)
        self._limits: set[asyncio.Timeout] = set()
        self._routes: dict[str, Route] = {
            "/v1/score": Native(),
            "/openrlhf": OpenRLHF(),
            "/slime": Slime(),
            "/verify": NemoGym(),
        }
        self._pages = pages(self)
        self.serve(rubric)

    def serve(self, rubric: Rubric) -> None:
        """Score with this rubric from the next request on."""
        self.served = Served(rubric)

    def drain(self) -> None:
        """Finish what is under way, and refuse what comes in."""
        self.gate.draining = True

    def cut_off(self) -> None:
        """Refuse what is still under way, too."""
        for limit in self._limits:
            limit.reschedule(asyncio.get_running_loop().time())

    def write_gauges(self) -> None:
        """Write down how much is under way now."""
        self.counts.row.set("assay_requests_under_way", self.gate.requests)
        self.counts.row.set("assay_bytes_under_way", self.gate.bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._route(scope) if scope["type"] == "http" else None
        if route is None:
            await self._show_page(scope, receive, send)
            return
        started = time.perf_counter()
        try:
            answer = await self._answer(route, scope, receive)
        except Refusal as refusal:
            answer = Answer(refusal.status, refusal.body, (JSON, *refusal.headers))
        except Disconnected:
            return
        except Exception:
            logger.exception("a request to %s failed", scope["path"])
            sentence = "the server failed, through no fault of yours: its log says more"
            answer = Answer(500, error_body(sentence), (JSON,))
        headers = [*answer.headers, (b"content-length", b"%d" % len(answer.body))]
        if self.gate.draining:
            headers += CLOSE
        # First, so that whoever has an answer finds it counted.
        self.counts.answered(route.name, answer.status, time.perf_counter() - started)
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _show_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._hosts.refuse(scope.get("headers", ()))
        except Refusal as refusal:
            await Page(refusal.body, refusal.status, media_type="application/json")(
                scope, receive, send
            )
            return
        await self._pages(scope, receive, send)

    def _route(self, scope: Scope) -> Route | None:
        if scope["method"] != "POST":
            return None
        path: str = scope["path"]
        if path.startswith(ROLLOUT_PREFIX):
            path = f"/{path.removeprefix(ROLLOUT_PREFIX).partition('/')[2]}"
        return self._routes.get(path)

    async def _answer(self, route: Route, scope: Scope, receive: Receive) -> Answer:
        self._hosts.refuse(scope["headers"])
        headers: dict[bytes, bytes] = dict(scope["headers"])
        refuse_stranger(self._key, headers)
        bounds = self.settings.bounds
        size = size_of(headers, bounds)
        held = min(size, bounds.max_bytes)
        self.gate.enter(held)
        try:
            refuse_kind(headers)
            body = await body_of(receive, size, bounds, self._patience)
            asked = route.read(body)
            return await self._score(route, asked)
        finally:
            self.gate.leave(held)

    async def _score(self, route: Route, asked: Asked) -> Answer:
        served, bounds = self.served, self.settings.bounds
        if len(asked.rollouts) > bounds.max_batch:
            raise Refusal(
                413,
                f"there are {len(asked.rollouts)} rollouts, and {bounds.max_batch} are allowed: "
                "send fewer at a time",
            )
        if served.waits:
            reports = await self._while_it_may(served, asked)
        else:
            reports = await served.reports(asked.rollouts, bounds.item_seconds)
        self._count(route, reports)
        if route.numbers_only and self.settings.unscored == "raise":
            refuse_unscored(reports)
        reply = route.write(asked, reports, served, self.settings.unscored)
        return Answer(200, encoded(reply), (JSON, (b"x-assay-rubric", served.hash.encode())))

    async def _while_it_may(self, served: Served, asked: Asked) -> list[EvaluationReport]:
        """The reports, unless the server stops before they are there."""
        limit = asyncio.timeout(None)
        self._limits.add(limit)
        try:
            async with limit:
                return await served.reports(asked.rollouts, self.settings.bounds.item_seconds)
        except TimeoutError:
            raise stopping() from None
        finally:
            self._limits.discard(limit)

    def _count(self, route: Route, reports: Sequence[EvaluationReport]) -> None:
        missing = [report for report in reports if not report.scored]
        self.counts.rollouts(route.name, len(reports) - len(missing), len(missing))
        if not missing:
            return
        for report in missing:
            for error in report.errors.values():
                self.last_error = error
                if error.startswith(LATE):
                    self.counts.row.add("assay_deadlines_total")
                    break
        if route.numbers_only:
            self.counts.fell_back(route.name, self.settings.unscored, len(missing))
