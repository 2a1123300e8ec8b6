"""Serve the page of some runs over HTTP, for one person on one machine.

What models wrote is hostile: it leaves here as JSON, and the page may run no script but its own. A page of
another site can neither read this one, since the name it was asked under must be ours, nor write to it.
"""

import asyncio
import contextlib
import json
import socket
import webbrowser
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any, Final

from assay.errors import AssayError, MissingExtraError
from assay.runs.jsonable import as_utf_8
from assay.viewer.page_export import KINDS, page_file
from assay.viewer.viewed_runs import GLANCE, NotFoundError, ViewedRuns, cache_folder

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.gzip import GZipMiddleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route
except ModuleNotFoundError as error:
    package = (error.name or "").partition(".")[0]
    raise MissingExtraError("The page of a run", package=package, extra="server") from None

HOST: Final = "127.0.0.1"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
MOST_ROWS: Final = 1000
"""Rows that one request may have."""
LONGEST_LABEL: Final = 100_000


def serve_page(
    paths: Sequence[str | Path], *, port: int = 0, browser: bool = False, told: Callable[[str], object] = print
) -> None:
    """Serve the page of these runs; `told` gets its address once it can be opened.

    `port` 0 takes one that is free. `browser` opens the address in the browser of this machine.
    """
    listening = _listening(port)
    address = f"http://{HOST}:{listening.getsockname()[1]}/"
    config = uvicorn.Config(viewer_app(ViewedRuns(paths, cache_folder())), log_level="warning")
    server = uvicorn.Server(config)
    # The socket listens already, so a browser that opens the address now is served in a moment.
    told(address)
    if browser:
        webbrowser.open(address)
    try:
        server.run(sockets=[listening])
    finally:
        listening.close()


def _listening(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise AssayError(f"port {port} cannot be had ({error.strerror}): give another") from None
    return listening


def viewer_app(viewed: ViewedRuns, *, hosts: tuple[str, ...] = ("127.0.0.1", "localhost")) -> Starlette:
    """The page and its data. `hosts` are the names it may be asked under."""
    asked = _Asked(viewed)

    @contextlib.asynccontextmanager
    async def living(_: Starlette) -> AsyncGenerator[None]:
        # Built beside the first looks, so that the page is there at once.
        runs = viewed.runs.values()
        reading = [asyncio.ensure_future(asyncio.to_thread(b.read_on, viewed.closing)) for b in runs]
        yield
        viewed.closing.set()
        await asyncio.gather(*reading, return_exceptions=True)
        viewed.close()

    return Starlette(
        routes=[
            Route("/api/runs", asked.runs),
            Route("/api/runs/{run}/overview", asked.overview),
            Route("/api/runs/{run}/rows", asked.rows),
            Route("/api/runs/{run}/rows/{number:int}", asked.row),
            Route("/api/runs/{run}/groups/{example:path}", asked.group),
            Route("/api/runs/{run}/changes", asked.changes),
            Route("/api/runs/{run}/labels", asked.label, methods=["POST"]),
            Route("/api/compare", asked.compare),
            Route("/{name:path}", _file),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts)),
            Middleware(GZipMiddleware, minimum_size=2000),
        ],
        lifespan=living,
    )


class _Asked:
    """What each address answers."""

    def __init__(self, viewed: ViewedRuns) -> None:
        self.viewed = viewed

    async def runs(self, request: Request) -> Response:
        return await _told(lambda: [run.heading() for run in self.viewed.runs.values()])

    async def overview(self, request: Request) -> Response:
        return await _told(lambda: self._book(request).overview())

    async def rows(self, request: Request) -> Response:
        asked = request.query_params

        def page() -> dict[str, Any]:
            found = self._book(request).page(
                asked.get("q", ""),
                sort=asked.get("sort", "number"),
                descending=asked.get("descending") in ("1", "true"),
                offset=_number(asked.get("offset"), 0),
                limit=min(MOST_ROWS, _number(asked.get("limit"), 100)),
            )
            return {"total": found.total, "rows": found.rows}

        return await _told(page)

    async def row(self, request: Request) -> Response:
        return await _told(lambda: self._book(request).row(request.path_params["number"]))

    async def group(self, request: Request) -> Response:
        return await _told(lambda: self._book(request).group(request.path_params["example"]))

    async def changes(self, request: Request) -> Response:
        def now() -> dict[str, Any]:
            run = self._book(request)
            run.look(GLANCE)
            return {"rows": run.rows, "live": run.live}

        return await _told(now)

    async def compare(self, request: Request) -> Response:
        asked = request.query_params
        return await _told(lambda: self.viewed.compare(asked.get("a", ""), asked.get("b", "")))

    async def label(self, request: Request) -> Response:
        # A form of another site cannot say that it sends JSON without being asked about first.
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind != "application/json":
            return _refused(415, f"the label came as {kind or 'nothing'}: send application/json")
        body = await request.body()
        if len(body) > LONGEST_LABEL:
            return _refused(413, f"a label of {len(body):,} bytes: give at most {LONGEST_LABEL:,}")
        try:
            said = json.loads(body)
            number, criterion = int(said["row"]), str(said["criterion"])
            note, rater = str(said.get("note") or ""), str(said.get("rater") or "")
            verdict = said["verdict"]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            return _refused(400, f"no label ({error}): give row, criterion, verdict, note and rater")
        return await _told(lambda: self._book(request).add_label(number, criterion, verdict, note, rater).to_dict())

    def _book(self, request: Request) -> Any:
        return self.viewed.run(request.path_params["run"])


async def _told(work: Callable[[], Any]) -> Response:
    """What the work gives, as JSON. It runs beside the loop, since it reads files."""
    try:
        return _json(await asyncio.to_thread(lambda: as_utf_8(work())))
    except NotFoundError as error:
        return _refused(404, str(error))
    except AssayError as error:
        return _refused(400, str(error))


def _refused(status: int, message: str) -> Response:
    return _json(as_utf_8({"error": message}), status)


def _json(body: bytes, status: int = 200) -> Response:
    return Response(body, status, headers=HEADERS, media_type="application/json")


def _number(text: str | None, usual: int) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 16 else usual


async def _file(request: Request) -> Response:
    name = request.path_params["name"] or "index.html"
    text = page_file(name)
    if text is None:
        return _refused(404, f"there is no file {name!r}")
    return Response(text, headers=HEADERS, media_type=KINDS[name[name.rfind(".") :]])
