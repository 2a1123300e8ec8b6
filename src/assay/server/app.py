"""RewardApp answers requests: it checks access, admits, reads, scores and replies. Any ASGI server can run it."""

import asyncio
import hmac
import os
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from contextvars import copy_context
from typing import Any, Final, cast
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import Message, Receive, Scope, Send

from assay.aggregation import UnscoredError
from assay.concurrency import run_without_waiting
from assay.integrations.monitor import RewardMonitor, to_jsonl
from assay.integrations.step import ALONE, Scored, watched
from assay.redaction import get_logger
from assay.report import EvaluationReport
from assay.rollout import Rollout
from assay.rubric import Rubric
from assay.server.metrics import Metrics, ServerStatus
from assay.server.openapi import PAGES, PageRoute, document
from assay.server.protocols import (
    PROTOCOLS,
    Headers,
    HttpRefusal,
    ScoredRequest,
    ScoringProtocol,
    decode,
    encode,
)
from assay.server.service import LATE, RubricService
from assay.server.settings import Bounds, Settings, is_loopback
from assay.wording import format_value

logger = get_logger("assay.server")

JSON: Final = (b"content-type", b"application/json")
RETRY: Final[Headers] = ((b"retry-after", b"1"),)
CLOSE: Final[Headers] = ((b"connection", b"close"),)
MOST_VERSIONS: Final = (
    8  # of a rubric that changes: a group under way is finished by the one that it began with
)
# Requests after which metrics are written: writing them for each would cost a tenth as much as answering it, since
# they lie in files that are shared with the other workers.
MOST_UNWRITTEN: Final = 256
# Seconds without a request after which a server that was told to stop does: clients that are about to ask on an open
# connection are told so, and not cut off.
LINGER: Final = 0.3
# How long a body that is too large is read and thrown away: a client that is still sending reads no reply.
DISCARD_SECONDS: Final = 5.0


class ClientGoneError(Exception):
    """The client has closed the connection, so that no reply is needed."""


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
        lifespan: Callable[[Starlette], AbstractAsyncContextManager[None]] | None = None,
        monitor: RewardMonitor | None = None,
    ) -> None:
        self.settings = settings = settings if settings is not None else Settings()
        self.metrics = metrics if metrics is not None else Metrics(status)
        if monitor is None and settings.monitor:
            monitor = RewardMonitor(
                sinks=[to_jsonl(settings.monitor, str(os.getpid())), self.metrics.set_signs]
            )
        self.monitor = monitor
        self._versions: dict[str, RubricService] = {}  # the last that were served, the newest last
        self._watching: set[asyncio.Task[Any]] = set()
        self.tasks: Collection[
            object
        ] = ()  # of all requests that have come, where the HTTP server tells of them
        self.requests = self.bytes = 0  # scoring requests under way, and their bytes
        self.is_draining = False  # whether requests that come in now are refused, since the server is about to stop
        self.reload_error = ""  # why this process could not take over a changed rubric
        self._status = status
        self._context = copy_context()
        self._limits: set[asyncio.Timeout] = set()
        self._checks_host = not settings.key or bool(settings.allow_hosts)
        self._names = {name.lower() for name in ("localhost", settings.host, *settings.allow_hosts)}
        self.serve(rubric)
        self._scoring = {protocol.path: _Scoring(self, protocol) for protocol in PROTOCOLS}
        scoring = [Route(path, app, methods=["POST"]) for path, app in self._scoring.items()]
        pages = [
            Route(path, self._page(page), methods=[page.method]) for path, page in PAGES.items()
        ]
        # NeMo-Gym puts a prefix with the id of the rollout before a path when it records what happens.
        routes = [*scoring, *pages, Mount("/ng-rollout/{rollout}", routes=scoring)]
        super().__init__(
            routes=routes, exception_handlers={HTTPException: _no_page}, lifespan=lifespan
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Scoring goes past Starlette's middleware, which costs as much as a rollout."""
        scoring = (
            self._scoring.get(scope["path"])
            if scope["type"] == "http" and scope["method"] == "POST"
            else None
        )
        await (super().__call__ if scoring is None else scoring)(scope, receive, send)

    def serve(self, rubric: Rubric) -> None:
        """Score with this rubric from the next request on, but for requests that ask for one of the last versions."""
        self.service = service = RubricService(
            rubric, self.settings.bounds.item_seconds, self._context
        )
        self._versions.pop(service.hash, None)
        self._versions[service.hash] = service
        for old in list(self._versions)[:-MOST_VERSIONS]:
            del self._versions[old]

    def service_for(self, query: bytes) -> RubricService:
        """What scores a request: the rubric that is served, or the version that the query `rubric=HASH` asks for."""
        asked = parse_qs(query.decode("latin-1")).get("rubric") if query else None
        if asked and asked[0] not in self._versions:
            had = f"this worker has the rubric {self.service.hash} and not the version {format_value(asked[0])}"
            raise HttpRefusal(
                409,
                f"{had}: ask again if it has just changed, else for the one that is served",
                RETRY,
            )
        return self._versions[asked[0]] if asked else self.service

    async def drain(self, linger: float = LINGER) -> None:
        """Refuse what comes in, finish what is under way, and refuse what takes too long to finish."""
        self.is_draining = True
        now = busy = time.monotonic()
        ends = now + self.settings.bounds.drain_seconds
        while now < ends and (self.requests or now < busy + linger):
            busy = now if self.requests else busy
            await asyncio.sleep(0.02)
            now = time.monotonic()
        for limit in self._limits:
            limit.reschedule(asyncio.get_running_loop().time())
        if self.monitor is not None:  # what would wait for the rest of its step
            await self.monitor.watch([], [], [], is_step=True)

    def watch(
        self,
        monitor: RewardMonitor,
        rollouts: Sequence[Rollout],
        reports: Sequence[EvaluationReport],
    ) -> None:
        """Hand what was scored to the monitor, while the reply goes out: its second judge may take a while."""
        rows = [
            {"prompt": rollout.prompt, "completion": rollout.completion} for rollout in rollouts
        ]
        scored = [Scored.of(report, self.service.names) for report in reports]
        task = asyncio.create_task(watched(monitor, rows, scored))
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)

    async def reports(
        self, service: RubricService, rollouts: Sequence[Rollout]
    ) -> list[EvaluationReport]:
        """The reports on the rollouts of a request, unless the server stops before they are there."""
        if not service.waits_for(rollouts):
            return await service.reports(rollouts, alone=len(self.tasks) <= 1)
        limit = asyncio.timeout(None)
        self._limits.add(limit)
        try:
            async with limit:
                return await service.reports(rollouts)
        except TimeoutError:
            raise _stopping() from None
        finally:
            self._limits.discard(limit)

    def admit(self, size: int) -> None:
        """Count a scoring request of that size in, or refuse it. Health and metrics need no admission."""
        bounds = self.settings.bounds
        if self.is_draining:
            raise _stopping()
        if self.requests >= bounds.at_once:
            raise HttpRefusal(429, f"{bounds.at_once} requests are under way: come back", RETRY)
        if self.requests and self.bytes + size > 8 * bounds.max_bytes:
            raise HttpRefusal(
                429, f"requests of {self.bytes} bytes are under way: come back", RETRY
            )
        self.requests += 1
        self.bytes += size

    def check_access(self, headers: Mapping[bytes, bytes], *, needs_key: bool = True) -> None:
        """Refuse a request under another name, or without the key. One without a `Host` is from no browser."""
        # A page in a browser can have its own name resolve to this machine (DNS rebinding), but sends that name.
        if self._checks_host and b"host" in headers:
            given = headers[b"host"].decode("latin-1")
            host = given[1:].partition("]")[0] if given.startswith("[") else given.partition(":")[0]
            if host.lower() not in self._names and not is_loopback(host):
                instead = f"ask {self.settings.host}, or start it with --allow-host {host[:100]}"
                raise HttpRefusal(403, f"this server is not {format_value(host)}: {instead}", CLOSE)
        if needs_key and not self._knows_key(headers):
            instead = "send it as Authorization: Bearer KEY, or as the password in the address"
            raise HttpRefusal(
                401, f"the key is missing or wrong: {instead}", ((b"www-authenticate", b"Bearer"),)
            )

    def _knows_key(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether a request carries the key; always so where none is set."""
        if not self.settings.key:
            return True
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() == b"basic":  # a client that has the key in its address sends it so
            try:
                given = b64decode(given, validate=True).partition(b":")[2]
            except ValueError:
                return False
        elif scheme.lower() != b"bearer":
            return False
        # Comparing takes as long for a nearly right key as for any other.
        return hmac.compare_digest(given.strip(), self.settings.key.encode())

    def write_metrics(self) -> None:
        """Write down what was counted since the last time, and how much is under way now."""
        for scoring in self._scoring.values():
            scoring.write_metrics()
        self.metrics.requests_under_way.set(self.requests)
        self.metrics.bytes_under_way.set(self.bytes)

    def _page(self, page: PageRoute) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        contents: dict[str, Callable[[Request], Any]] = {
            "health": lambda _: {"status": "ok"},
            "ready": self._ready,
            "metrics": self._metrics,
            "rubric": self._rubric,
            "openapi": lambda _: document(needs_key=bool(self.settings.key)),
            "seed_session": lambda _: {},
            "reverify_mode": lambda _: "stateless",
        }

        async def answer(request: Request) -> Response:
            try:
                self.check_access(dict(request.scope["headers"]), needs_key=page.needs_key)
            except HttpRefusal as refusal:
                return _refused(
                    refusal, {name.decode(): value.decode() for name, value in refusal.headers}
                )
            found = contents[page.name](request)
            return (
                found
                if isinstance(found, Response)
                else Response(encode(found), media_type="application/json")
            )

        return answer

    def _ready(self, request: Request) -> Response:
        status = self._status()
        error = self.reload_error or status.reload_error
        is_ready = status.workers_ready >= status.workers and not self.is_draining
        state: dict[str, Any] = {
            "ready": is_ready,
            "workers": status.workers,
            "workers_ready": status.workers_ready,
        }
        state |= {
            "draining": self.is_draining,
            "rubric": self.service.hash,
            "reload_failed": bool(error),
        }
        # The error may quote files, which is not for everyone who may ask whether the server is ready.
        if error and self._knows_key(dict(request.scope["headers"])):
            state["reload_error"] = error
        return Response(encode(state), 200 if is_ready else 503, media_type="application/json")

    def _metrics(self, request: Request) -> Response:
        self.write_metrics()
        return Response(
            self.metrics.text(),
            headers={"content-type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    def _rubric(self, request: Request) -> Any:
        rubric, bounds = self.service.rubric, self.settings.bounds
        shown = ("name", "weight", "counts", "judged")
        criteria = [
            {name: getattr(criterion, name) for name in shown} for criterion in rubric.criteria
        ]
        told = {"rubric": self.service.hash, "name": rubric.name, "criteria": criteria}
        limits = {"max_batch": bounds.max_batch, "max_bytes": bounds.max_bytes}
        return told | {"compares": list(self.service.compares)} | limits


class _Scoring:
    """Answers the requests of one protocol. It is an ASGI application, since a `Request` costs more than its work."""

    def __init__(self, app: RewardApp, protocol: ScoringProtocol) -> None:
        self._app, self._protocol, metrics, name = app, protocol, app.metrics, protocol.name
        self._seconds = metrics.seconds.labels(name)
        self._scored = metrics.rollouts.labels(name, "scored")
        self._unscored = metrics.rollouts.labels(name, "unscored")
        self._fallbacks = metrics.fallbacks.labels(name, app.settings.unscored)
        self._answers: list[
            tuple[int, float]
        ] = []  # the status and seconds of requests that are not written down yet
        self._new = 0  # the rollouts that were scored by those

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        status = 200
        headers: list[tuple[bytes, bytes]] = [JSON]
        try:
            body, rubric = await self._reply(scope, receive)
            headers.append((b"x-assay-rubric", rubric))
        except HttpRefusal as refusal:
            status, body = refusal.status, refusal.body
            headers += refusal.headers
        except ClientGoneError:
            return
        except Exception:
            logger.exception("a request to %s failed", scope["path"])
            status = 500
            body = HttpRefusal(
                500, "the server failed, through no fault of yours: its log says more"
            ).body
        headers.append((b"content-length", b"%d" % len(body)))
        if self._app.is_draining:
            headers += CLOSE
        # Before the reply is sent, so that a client that has it finds it counted.
        self._answers.append((status, time.perf_counter() - started))
        if len(self._answers) >= MOST_UNWRITTEN:
            self.write_metrics()
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _reply(self, scope: Scope, receive: Receive) -> tuple[bytes, bytes]:
        """The reply, and the hash of the rubric that it comes from."""
        app, protocol = self._app, self._protocol
        headers: dict[bytes, bytes] = dict(scope["headers"])
        app.check_access(headers)
        bounds = app.settings.bounds
        announced = headers.get(b"content-length", b"%d" % bounds.max_bytes)
        if not announced.isdigit():
            raise HttpRefusal(
                400, f"the content length is {format_value(announced)}: give a whole number", CLOSE
            )
        size = int(announced)
        held = min(size, bounds.max_bytes)
        app.admit(held)
        try:
            _refuse_other_types(headers)
            rollouts, detail = protocol.read(decode(await _read_body(receive, size, bounds)))
            if len(rollouts) > bounds.max_batch:
                few = f"{bounds.max_batch} are allowed: send fewer at a time"
                raise HttpRefusal(413, f"there are {len(rollouts)} rollouts, and {few}")
            service = app.service_for(scope["query_string"])
            # A trainer's request of one rollout is no group, and what is compared with nothing has no reward.
            is_alone = protocol.numbers_only and len(rollouts) == 1 and service.compares
            reports = service.failed(ALONE) if is_alone else await app.reports(service, rollouts)
            self._count(reports)
            if app.monitor is not None:
                app.watch(app.monitor, rollouts, reports)
            if protocol.numbers_only and not protocol.marks and app.settings.unscored == "raise":
                _refuse_unscored(reports)
            scored = ScoredRequest(rollouts, detail, reports, service, app.settings.unscored)
            return encode(protocol.write(scored)), service.hash.encode()
        except UnscoredError as error:
            raise HttpRefusal(422, str(error)) from None
        finally:
            app.requests -= 1
            app.bytes -= held

    def write_metrics(self) -> None:
        answers, scored, self._answers, self._new = self._answers, self._new, [], 0
        for status, count in Counter(status for status, _ in answers).items():
            self._app.metrics.requests.labels(self._protocol.name, status).inc(count)
        for _, seconds in answers:
            self._seconds.observe(seconds)
        self._scored.inc(scored)

    def _count(self, reports: Sequence[EvaluationReport]) -> None:
        missing = [report for report in reports if not report.scored]
        self._new += len(reports) - len(missing)
        if missing:
            self._unscored.inc(len(missing))
            self._fallbacks.inc(len(missing) * self._protocol.numbers_only)
            late = [
                report
                for report in missing
                if any(error.startswith(LATE) for error in report.errors.values())
            ]
            self._app.metrics.deadlines.inc(len(late))


def _stopping() -> HttpRefusal:
    return HttpRefusal(503, "the server is stopping: ask again, perhaps another one", RETRY)


def _refused(refusal: HttpRefusal, headers: Mapping[str, str]) -> Response:
    return Response(refusal.body, refusal.status, headers, "application/json")


async def _no_page(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path, headers = request.url.path, dict(error.headers or {})
    sentence = f"there is nothing at {path[:80]!r}: /openapi.json lists what there is"
    if error.status_code == 405:
        sentence = f"{path[:80]!r} takes {headers.get('Allow', '')}, and not {request.method[:20]}"
    return _refused(HttpRefusal(error.status_code, sentence), headers)


def _refuse_unscored(reports: Sequence[EvaluationReport]) -> None:
    """Refuse to give numbers for rollouts that have none, and say why they have none."""
    missing = [place for place, report in enumerate(reports) if not report.scored]
    if missing:
        errors = reports[missing[0]].why_unscored
        listed = "; ".join(f"{name}: {error}" for name, error in list(errors.items())[:3])
        told = f"{len(missing)} of {len(reports)} rollouts have no score, and this route takes numbers only"
        instead = "ask again, or start the server with --unscored zero, group_mean or drop"
        raise HttpRefusal(422, f"{told} (rollout {missing[0]}: {listed}): {instead}")


def _refuse_other_types(headers: Mapping[bytes, bytes]) -> None:
    """Refuse what is not plain JSON in UTF-8. Nothing is decompressed, so that no small body becomes a huge one."""
    kind = headers.get(b"content-type", b"")
    if kind != b"application/json":
        name, _, parameters = kind.decode("latin-1").lower().partition(";")
        charset = parameters.partition("charset=")[2].strip(' "') or "utf-8"
        if name.strip() != "application/json" or charset not in ("utf-8", "utf8"):
            raise HttpRefusal(
                415, f"the content type is {format_value(name)}: send JSON, with application/json"
            )
    encoding = headers.get(b"content-encoding", b"identity")
    if encoding.lower() != b"identity":
        raise HttpRefusal(
            415, f"the body is compressed ({encoding.decode('latin-1')!r:.60}): send it as it is"
        )


async def _read_body(receive: Receive, size: int, bounds: Bounds) -> bytes:
    """The whole body of a request that announces `size` bytes; one that announces none is counted as it comes."""
    parts: list[bytes] = []
    read, more = size if size > bounds.max_bytes else 0, True

    def take(message: Message) -> bool:
        nonlocal read
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        parts.append(message.get("body", b""))
        read += len(parts[-1])
        return message.get("more_body", False)

    # Nearly every body is there when it is asked for, and a timer would cost more than reading it.
    message = (
        run_without_waiting(cast("Coroutine[Any, Any, Message]", receive())) if not read else None
    )
    if message is not None:
        more = take(message)
    try:
        if more:
            async with asyncio.timeout(bounds.body_seconds):
                while more and read <= bounds.max_bytes:
                    more = take(await receive())
    except TimeoutError:
        late = f"not all of it had come after {bounds.body_seconds:g} s: send it at once"
        raise HttpRefusal(408, late, CLOSE) from None
    if read <= bounds.max_bytes:
        return b"".join(parts)
    with suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_SECONDS):
            while more:
                more = (await receive()).get("more_body", False)
    few = f"{bounds.max_bytes} are allowed: send fewer rollouts at a time"
    raise HttpRefusal(413, f"the request has {read} bytes or more, and {few}", CLOSE)
