"""RewardApp is the reward server as a Starlette application: its routes, pages and limits."""

import asyncio
import json
import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from prometheus_client import Counter
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from assay.aggregation import Policy, UnscoredError
from assay.graders.grader import JudgeSource
from assay.integrations.monitor import RewardMonitor, to_jsonl
from assay.integrations.step import GROUP_MISSING, Scored, watch_results
from assay.redaction import get_logger
from assay.report import EvaluationReport
from assay.rollout import Rollout
from assay.rubric import Rubric
from assay.server.access import AccessRules
from assay.server.metrics import Metrics, ServerStatus
from assay.server.nemo_gym import AggregateRequest, VerifyRequest
from assay.server.openapi import describe_api
from assay.server.payloads import (
    check_content_type,
    decode_json,
    encode_json,
    read_announced_size,
    read_body,
)
from assay.server.protocols import (
    NativeRequest,
    OpenRLHFRequest,
    ScoringRequest,
    ScoringResults,
    SlimeRequest,
)
from assay.server.service import LATE_ERROR_START, RubricService
from assay.server.settings import Settings
from assay.wording import format_value

logger = get_logger("assay.server")

PROTOCOLS: Final[Sequence[type[ScoringRequest]]] = (
    NativeRequest,
    OpenRLHFRequest,
    SlimeRequest,
    VerifyRequest,
    AggregateRequest,
)
# The headers of a refusal after which a client should try again, in seconds.
RETRY_HEADERS: Final = {"retry-after": "1"}
# How many versions of a rubric are kept. A client that has scored a part of its rollouts with one
# version may ask for that version until all are scored.
MAX_VERSIONS: Final = 8
# The bodies of all requests in progress may have this many times the size that one may have.
MAX_TOTAL_BODIES: Final = 8
# Seconds without a request after which a server that was told to stop does stop. Until then,
# clients that send a request on an open connection get an answer.
QUIET_SECONDS: Final = 0.3
# The event loop gets one turn for each millisecond that scoring has blocked it, up to MAX_TURNS; see
# `_accept_waiting_connections`.
BLOCKED_SECONDS_PER_TURN: Final = 0.001
MAX_TURNS: Final = 100


class RewardApp(Starlette):
    """Scores over HTTP with one rubric, which can be exchanged while it runs.

    Any ASGI server can run it; `assay serve` adds worker processes, reloading and a clean shutdown.
    """

    def __init__(
        self,
        rubric: Rubric,
        settings: Settings | None = None,
        *,
        read_status: Callable[[], ServerStatus] = ServerStatus,
        metrics: Metrics | None = None,
        monitor: RewardMonitor | None = None,
        judge: JudgeSource | None = None,
    ) -> None:
        """`read_status` returns the state of all workers, if this is the app of one of them.

        `judge` answers the judged criteria, in place of a judge that the rubric has.
        """
        self.settings = settings if settings is not None else Settings()
        self.access = AccessRules(self.settings)
        self.metrics = metrics if metrics is not None else Metrics(read_status)
        if monitor is None and self.settings.monitor:
            write_signs = to_jsonl(self.settings.monitor, str(os.getpid()))
            monitor = RewardMonitor(sinks=[write_signs, self.metrics.set_signs])
        self.monitor = monitor
        self._judge = judge
        self.is_draining = False  # whether requests are refused because the server is about to stop
        self.reload_error = ""  # why this process could not take over a changed rubric
        self._read_status = read_status
        self._requests_in_progress = 0  # scoring requests
        self._bytes_in_progress = 0  # the size of the bodies of these requests
        # The timeouts around requests that wait for a judge or another process.
        self._timeouts: set[asyncio.Timeout] = set()
        self._monitor_tasks: set[asyncio.Task[Any]] = set()  # calls of the monitor
        self._services: dict[str, RubricService] = {}  # by the hash of the rubric, the newest last
        self.serve_rubric(rubric)
        scoring_routes = [
            Route(protocol.path, ScoringEndpoint(self, protocol).answer, methods=["POST"])
            for protocol in PROTOCOLS
        ]
        super().__init__(
            routes=[
                *scoring_routes,
                # NeMo-Gym puts the id of the rollout before the path when it records requests.
                Mount("/ng-rollout/{rollout}", routes=scoring_routes),
                Route("/health", self._answer_health),
                Route("/ready", self._answer_ready),
                Route("/metrics", self._answer_metrics),
                Route("/v1/rubric", self._answer_rubric),
                Route("/openapi.json", self._answer_openapi),
                Route("/seed_session", self._answer_seed_session, methods=["POST"]),
                Route("/reverify_mode", self._answer_reverify_mode),
            ],
            exception_handlers={
                HTTPException: self._answer_refusal,
                Exception: self._answer_failure,
            },
        )

    def serve_rubric(self, rubric: Rubric) -> None:
        """Score with this rubric from the next request on, unless a request asks for an older version."""
        self.service = RubricService(rubric, self.settings.bounds.item_seconds, judge=self._judge)
        # Remove a rubric with the same hash first, so that the new entry is the last of the dict.
        self._services.pop(self.service.hash, None)
        self._services[self.service.hash] = self.service
        for old_hash in list(self._services)[:-MAX_VERSIONS]:
            del self._services[old_hash]

    def find_service(self, request: Request) -> RubricService:
        """Return the service that scores a request.

        That is the newest one, unless the request asks for another version of the rubric with
        `?rubric=HASH`. Raise HTTPException if this process does not have that version.
        """
        # In most requests there is no query. To parse it would cost 5 % of the time of a request.
        if not request.scope["query_string"]:
            return self.service
        version = request.query_params.get("rubric")
        if not version:
            return self.service
        if version not in self._services:
            raise HTTPException(
                409,
                f"this worker has the rubric {self.service.hash}, not the version "
                f"{format_value(version)}: ask again if it has just changed, or ask for the "
                "one that is served",
                RETRY_HEADERS,
            )
        return self._services[version]

    @contextmanager
    def admit(self, body_size: int) -> Generator[None]:
        """Count a scoring request as in progress inside the block.

        Raise HTTPException if too many requests, or too large ones, are in progress already, or if
        the server is stopping. `body_size` is in bytes.
        """
        bounds = self.settings.bounds
        if self.is_draining:
            raise _build_stopping_error()
        if self._requests_in_progress >= bounds.at_once:
            raise HTTPException(
                429, f"{bounds.at_once} requests are in progress: try again later", RETRY_HEADERS
            )
        total_size = self._bytes_in_progress + body_size
        if self._requests_in_progress and total_size > MAX_TOTAL_BODIES * bounds.max_bytes:
            raise HTTPException(
                429,
                f"requests of {self._bytes_in_progress} bytes are in progress: try again later",
                RETRY_HEADERS,
            )
        self._requests_in_progress += 1
        self._bytes_in_progress += body_size
        try:
            yield
        finally:
            self._requests_in_progress -= 1
            self._bytes_in_progress -= body_size

    async def score(
        self, service: RubricService, rollouts: Sequence[Rollout]
    ) -> list[EvaluationReport]:
        """Return one report per rollout; raise HTTPException if the server has to stop before."""
        if not service.may_wait(rollouts):
            # Scoring never yields to the event loop, so a timeout could not end it.
            started = time.perf_counter()
            reports = await service.score(rollouts)
            await _accept_waiting_connections(time.perf_counter() - started)
            return reports
        # Without a limit for now. When the server has to stop, `drain` lets the timeout expire.
        timeout = asyncio.timeout(None)
        self._timeouts.add(timeout)
        try:
            async with timeout:
                return await service.score(rollouts)
        except TimeoutError:
            raise _build_stopping_error() from None
        finally:
            self._timeouts.discard(timeout)

    def monitor_reports(
        self, rollouts: Sequence[Rollout], reports: Sequence[EvaluationReport]
    ) -> None:
        """Let the monitor, if there is one, look for signs of reward hacking in reports.

        It works in a task of its own, so that the reply need not wait for it.
        """
        if self.monitor is None:
            return
        rows = [
            {"prompt": rollout.prompt, "completion": rollout.completion} for rollout in rollouts
        ]
        # What the monitor reads of a report: the reward and the value of each criterion.
        scored = [Scored.of(report, self.service.names) for report in reports]
        task = asyncio.create_task(watch_results(self.monitor, rows, scored))
        self._monitor_tasks.add(task)  # the event loop keeps only a weak reference
        task.add_done_callback(self._monitor_tasks.discard)

    async def drain(self, quiet_seconds: float = QUIET_SECONDS) -> None:
        """Refuse new requests from now on, and wait for those in progress.

        Return when there was no request for `quiet_seconds`. Requests that are still in progress
        after `Bounds.drain_seconds` get an error.
        """
        self.is_draining = True
        last_busy = time.monotonic()
        deadline = last_busy + self.settings.bounds.drain_seconds
        while time.monotonic() < deadline:
            if self._requests_in_progress:
                last_busy = time.monotonic()
            elif time.monotonic() >= last_busy + quiet_seconds:
                break
            await asyncio.sleep(0.02)
        for timeout in self._timeouts:  # those in `score`, which then refuses the request
            timeout.reschedule(asyncio.get_running_loop().time())
        if self.monitor is not None:
            # The monitor collects rollouts, and reports on a number of them together. This empty
            # call makes it report on those that it has collected so far.
            await self.monitor.watch([], [], [], is_step=True)

    def build_reply(
        self, body: bytes, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Return a reply with a JSON body; while the server stops, it closes the connection."""
        reply_headers = dict(headers or {})
        if self.is_draining:
            reply_headers["connection"] = "close"
        return Response(body, status, reply_headers, media_type="application/json")

    def update_metrics(self) -> None:
        """Record how many requests are in progress."""
        self.metrics.requests_under_way.set(self._requests_in_progress)
        self.metrics.bytes_under_way.set(self._bytes_in_progress)

    async def _answer_refusal(self, request: Request, error: Exception) -> Response:
        """Answer a request that this app refused, or for which Starlette found no route."""
        assert isinstance(error, HTTPException)  # the handler is registered for this class only
        headers = error.headers or {}
        path = format_value(request.url.path)
        if error.status_code == 405:
            message = f"{path} takes {headers.get('Allow', '')}, not {request.method[:20]}"
        elif error.status_code == 404:
            message = f"there is nothing at {path}: /openapi.json lists all routes"
        else:
            message = error.detail
        # json, not msgspec: a message may quote half of a surrogate pair.
        body = json.dumps({"error": message}).encode()
        return self.build_reply(body, error.status_code, headers)

    async def _answer_failure(self, request: Request, error: Exception) -> Response:
        """Log an unexpected error, and answer the request that caused it."""
        logger.error("a request to %s failed", request.url.path, exc_info=error)
        body = encode_json({"error": "the server failed: its log says why"})
        return self.build_reply(body, 500)

    # The routes that do not score. `access.check` refuses requests without the key. Routes that show
    # nothing about the rubric or its use need no key, and call `access.check_host`.

    async def _answer_health(self, request: Request) -> Response:
        """Answer that this process runs, even if it is about to stop."""
        self.access.check_host(request)
        return self.build_reply(encode_json({"status": "ok"}))

    async def _answer_ready(self, request: Request) -> Response:
        """Answer whether the server takes requests, with status 503 if it does not."""
        self.access.check_host(request)
        status = self._read_status()
        error = self.reload_error or status.reload_error  # of this worker, or of the supervisor
        is_ready = status.workers_ready >= status.workers and not self.is_draining
        state: dict[str, Any] = {
            "ready": is_ready,
            "workers": status.workers,
            "workers_ready": status.workers_ready,
            "draining": self.is_draining,
            "rubric": self.service.hash,
            "reload_failed": bool(error),
        }
        # The error may quote files, so only clients with the key may read it.
        if error and self.access.has_key(request):
            state["reload_error"] = error
        return self.build_reply(encode_json(state), 200 if is_ready else 503)

    async def _answer_metrics(self, request: Request) -> Response:
        """Answer with the metrics of all workers, in the text format of Prometheus."""
        self.access.check(request)
        self.update_metrics()
        return Response(
            self.metrics.format_text(),
            headers={"content-type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    async def _answer_rubric(self, request: Request) -> Response:
        """Describe the rubric, and what a client needs to split rollouts into requests."""
        self.access.check(request)
        rubric = self.service.rubric
        criteria = [
            {
                "name": criterion.name,
                "weight": criterion.weight,
                "counts": criterion.counts,
                "judged": criterion.judged,
            }
            for criterion in rubric.criteria
        ]
        description = {
            "rubric": self.service.hash,
            "name": rubric.name,
            "criteria": criteria,
            # Criteria that compare rollouts, which must therefore be in one request.
            "compares": list(self.service.comparing_criteria),
            "max_batch": self.settings.bounds.max_batch,
            "max_bytes": self.settings.bounds.max_bytes,
        }
        return self.build_reply(encode_json(description))

    async def _answer_openapi(self, request: Request) -> Response:
        """Describe all routes, as an OpenAPI document."""
        self.access.check_host(request)
        description = describe_api(PROTOCOLS, needs_key=bool(self.settings.key))
        return self.build_reply(encode_json(description))

    async def _answer_seed_session(self, request: Request) -> Response:
        """Answer NeMo-Gym's request to begin a session. This server keeps no sessions."""
        self.access.check(request)
        return self.build_reply(encode_json({}))

    async def _answer_reverify_mode(self, request: Request) -> Response:
        """Tell NeMo-Gym that a row can be verified again at any time."""
        self.access.check_host(request)
        return self.build_reply(encode_json("stateless"))


async def _accept_waiting_connections(blocked_seconds: float) -> None:
    """Let the event loop accept the connections that came in the seconds when it was blocked.

    uvloop accepts one connection per turn of the loop. If scoring blocks it again and again, more
    connections come than it accepts. They would wait in the queue of the system, where they are not
    counted, so that the limit of requests in progress would not hold.
    """
    turns = min(MAX_TURNS, int(blocked_seconds / BLOCKED_SECONDS_PER_TURN))
    for _ in range(turns):
        await asyncio.sleep(0)


class ScoringEndpoint:
    """Answers the scoring requests of one protocol, which is the format of one kind of client."""

    def __init__(self, app: RewardApp, protocol: type[ScoringRequest]) -> None:
        self._app = app
        self._protocol = protocol
        self._bounds = app.settings.bounds
        self._unscored_policy: Policy = app.settings.unscored
        # The metrics of this protocol are looked up only once: calling `labels` for each request
        # would cost 2 % of its time.
        metrics = app.metrics
        self._request_counters: dict[int, Counter] = {}  # by the status of the reply
        self._seconds = metrics.seconds.labels(protocol.name)
        self._scored_counter = metrics.rollouts.labels(protocol.name, "scored")
        self._unscored_counter = metrics.rollouts.labels(protocol.name, "unscored")
        self._fallback_counter = metrics.fallbacks.labels(protocol.name, self._unscored_policy)

    async def answer(self, request: Request) -> Response:
        """Answer a request, and record its status and duration in the metrics."""
        started = time.perf_counter()
        status = 500  # for an error other than HTTPException
        try:
            reply = await self._answer_if_admitted(request)
            status = reply.status_code
            return reply
        except HTTPException as refusal:
            status = refusal.status_code
            raise
        finally:
            # Counted before the reply is sent, so that a client that has the reply and then reads
            # the metrics finds its request in them.
            self._count_request(status)
            self._seconds.observe(time.perf_counter() - started)

    def _count_request(self, status: int) -> None:
        """Count a request by the status of its reply."""
        if status not in self._request_counters:
            requests = self._app.metrics.requests
            self._request_counters[status] = requests.labels(self._protocol.name, status)
        self._request_counters[status].inc()

    async def _answer_if_admitted(self, request: Request) -> Response:
        """Read a request, and return the reply; raise HTTPException if it is refused."""
        self._app.access.check(request)
        announced_size = read_announced_size(request, self._bounds)
        # A body that is announced as larger than allowed is refused below, by `read_body`.
        largest_size = min(announced_size, self._bounds.max_bytes)
        with self._app.admit(largest_size):
            check_content_type(request)
            body = await read_body(request, announced_size, self._bounds)
            scoring = self._protocol(decode_json(body))
            if len(scoring.rollouts) > self._bounds.max_batch:
                raise HTTPException(
                    413,
                    f"there are {len(scoring.rollouts)} rollouts, and {self._bounds.max_batch} "
                    "are allowed: send fewer at a time",
                )
            # Give other requests that have arrived a chance to be counted as in progress. If scoring
            # never waits, each would otherwise be counted only after the one before it has ended,
            # and no limit would apply.
            await asyncio.sleep(0)
            return await self._score(scoring, self._app.find_service(request))

    async def _score(self, scoring: ScoringRequest, service: RubricService) -> Response:
        """Score the rollouts of a request, and return the reply."""
        rollouts = scoring.rollouts
        if self._protocol.takes_numbers_only and len(rollouts) == 1 and service.comparing_criteria:
            # The rubric compares rollouts, and there is no other one to compare this with.
            reports = [service.report_failure(GROUP_MISSING)]
        else:
            reports = await self._app.score(service, rollouts)
        self._count_rollouts(reports)
        self._app.monitor_reports(rollouts, reports)
        results = ScoringResults(
            rollouts=rollouts,
            reports=reports,
            rubric_hash=service.hash,
            criterion_names=service.names,
            unscored=self._unscored_policy,
        )
        self._refuse_unscored(reports)
        try:
            reply = scoring.write_reply(results)
        except UnscoredError as error:
            raise HTTPException(422, str(error)) from None
        return self._app.build_reply(encode_json(reply), headers={"x-assay-rubric": service.hash})

    def _count_rollouts(self, reports: Sequence[EvaluationReport]) -> None:
        """Count scored and unscored rollouts, and those that were not scored in time."""
        unscored = [report for report in reports if not report.scored]
        self._scored_counter.inc(len(reports) - len(unscored))
        if not unscored:
            return
        self._unscored_counter.inc(len(unscored))
        if self._protocol.takes_numbers_only:  # something else is sent in place of their rewards
            self._fallback_counter.inc(len(unscored))
        for report in unscored:
            if any(error.startswith(LATE_ERROR_START) for error in report.errors.values()):
                self._app.metrics.deadlines.inc()

    def _refuse_unscored(self, reports: Sequence[EvaluationReport]) -> None:
        """Raise HTTPException if the reply needs a number for an unscored rollout, but there is none.

        The setting `unscored` may provide such a number, or the protocol may have another way to
        report an unscored rollout.
        """
        protocol = self._protocol
        if not protocol.takes_numbers_only or protocol.marks_failures:
            return
        if self._unscored_policy != "raise":
            return
        unscored = [index for index, report in enumerate(reports) if not report.scored]
        if not unscored:
            return
        errors = reports[unscored[0]].why_unscored
        reasons = "; ".join(f"{name}: {error}" for name, error in list(errors.items())[:3])
        raise HTTPException(
            422,
            f"{len(unscored)} of {len(reports)} rollouts have no score, and this route takes "
            f"numbers only (rollout {unscored[0]}: {reasons}): ask again, or start the server "
            "with --unscored zero, group_mean or drop",
        )


def _build_stopping_error() -> HTTPException:
    """Return the refusal of a request that comes, or is still being scored, while the server stops."""
    return HTTPException(
        503, "the server is stopping: ask again, perhaps another server", RETRY_HEADERS
    )
