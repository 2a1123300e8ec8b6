"""Serve the page of some runs over HTTP, for one person on one machine.

What models wrote may be hostile: it is sent as JSON, and the page may run no script but its own. A
page of another site can neither read this one, because requests must name this host, nor write to
it, because labels must be sent as JSON.
"""

import asyncio
import errno
import json
import os
import socket
import sys
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

from assay.errors import AssayError, MissingExtraError
from assay.runs.jsonable import as_utf_8
from assay.viewer.page_files import COMMON_POLICY, MEDIA_TYPES, read_page_file
from assay.viewer.viewed_runs import NotFoundError, ViewedRun, ViewedRuns

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
    raise MissingExtraError("The page of a run", package=package, extra="cli") from None

HOST: Final = "127.0.0.1"
FIRST_PORT: Final = 7600
PORTS_TO_TRY: Final = 100
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        f"img-src 'self' data:; {COMMON_POLICY}; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
MAX_ROWS: Final = 1000  # rows in one reply
LARGEST_LABEL: Final = 100_000  # bytes


def serve_page(
    paths: Sequence[str | Path],
    *,
    port: int | None = None,
    opens_browser: bool = False,
    print_address: Callable[[str], object] = print,
) -> None:
    """Serve the page of the runs at these paths until the process is interrupted.

    A path is a run or a folder of runs. Without a port, the first free one from 7600 on is used, so
    that a bookmark of the page and what the browser remembers of it usually stay valid.
    `print_address` gets the address as soon as it can be opened.
    """
    app = make_page_app(ViewedRuns(paths))
    with _listen(port) as listening_socket:
        _, chosen_port = listening_socket.getsockname()
        address = f"http://{HOST}:{chosen_port}/"
        # The socket listens already, so a browser that opens the address now is served in a moment.
        print_address(address)
        if opens_browser:
            webbrowser.open(address)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        server.run(sockets=[listening_socket])


def _listen(port: int | None) -> socket.socket:
    """Return a socket that listens on the port; by default on the first free one from 7600 on."""
    ports = range(FIRST_PORT, FIRST_PORT + PORTS_TO_TRY) if port is None else [port]
    for candidate in ports:
        try:
            return socket.create_server((HOST, candidate), backlog=128)
        except OSError as error:
            is_in_use = error.errno == errno.EADDRINUSE
            if is_in_use and port is None:
                continue
            problem = "in use" if is_in_use else "not allowed"
            raise AssayError(
                f"port {candidate} is {problem}: name another with --port, or leave it out"
            ) from None
    # All of them are in use: let the system choose one.
    return socket.create_server((HOST, 0), backlog=128)


def has_display() -> bool:
    """Return whether a browser can open a window here. Without a display, it would open as text."""
    if os.environ.get("BROWSER"):
        return True
    if sys.platform in ("win32", "darwin"):  # they always have a display, perhaps far away
        return "SSH_CONNECTION" not in os.environ
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def make_page_app(
    viewed: ViewedRuns, *, hosts: tuple[str, ...] = ("127.0.0.1", "localhost")
) -> Starlette:
    """Return the page and its data as an ASGI app, which answers only to these host names."""

    def data_route(path: str, collect: Callable[[Request], Any]) -> Route:
        """Return a route that sends what `collect` returns as JSON."""

        async def endpoint(request: Request) -> Response:
            return await _respond(lambda: collect(request))

        return Route(f"/api/{path}", endpoint)

    def run_route(path: str, collect: Callable[[ViewedRun, Request], Any]) -> Route:
        """Return a data route below the address of a run, for which `collect` gets the run."""

        def collect_from_run(request: Request) -> Any:
            run = viewed.find_run(request.path_params["run"])
            return collect(run, request)

        return data_route(f"runs/{{run}}/{path}", collect_from_run)

    async def add_label(request: Request) -> Response:
        return await _add_label(viewed, request)

    return Starlette(
        routes=[
            data_route("runs", lambda _: [run.describe() for run in viewed.runs.values()]),
            data_route("compare", lambda request: _compare(viewed, request)),
            run_route("overview", lambda run, _: run.overview()),
            run_route("rows", _list_rows),
            run_route(
                "rows/{number:int}",
                lambda run, request: run.describe_row(request.path_params["number"]),
            ),
            run_route(
                "groups/{example:path}",
                lambda run, request: run.describe_group(request.path_params["example"]),
            ),
            run_route("changes", lambda run, _: {"rows": run.count(), "live": run.is_live}),
            Route("/api/runs/{run}/labels", add_label, methods=["POST"]),
            Route("/{name:path}", _send_file),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts)),
            Middleware(GZipMiddleware, minimum_size=2000),
        ],
    )


def _compare(viewed: ViewedRuns, request: Request) -> dict[str, Any]:
    query = request.query_params
    return viewed.compare(query.get("a", ""), query.get("b", ""))


def _list_rows(run: ViewedRun, request: Request) -> dict[str, Any]:
    """Return the rows of a run that the query of a request asks for, with their total number."""
    query = request.query_params
    return run.list_rows(
        query.get("q", ""),
        sort=query.get("sort", "number"),
        descending=query.get("descending") in ("1", "true"),
        offset=_read_count(query.get("offset"), default=0),
        limit=min(MAX_ROWS, _read_count(query.get("limit"), default=100)),
    )


def _read_count(text: str | None, *, default: int) -> int:
    """Return a number of a query; the default if there is none, or if it is not a small number."""
    if text and text.isascii() and text.isdecimal() and len(text) < 16:
        return int(text)
    return default


async def _add_label(viewed: ViewedRuns, request: Request) -> Response:
    """Save the label in the body of a request, and reply with it, or refuse the request."""
    # A form of another site cannot send JSON without the browser asking this server first.
    content_type = request.headers.get("content-type", "").partition(";")[0].strip()
    if content_type != "application/json":
        return _refuse(
            415,
            f"the label has the content type {content_type or 'nothing'}: send application/json",
        )
    body = await request.body()
    if len(body) > LARGEST_LABEL:
        return _refuse(413, f"the label has {len(body):,} bytes: give at most {LARGEST_LABEL:,}")
    try:
        data = json.loads(body)
        number = int(data["row"])
        criterion = str(data["criterion"])
        verdict = data["verdict"]
        note = str(data.get("note") or "")
        rater = str(data.get("rater") or "")
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        RecursionError,
        OverflowError,  # `1e400` is read as infinity
    ) as error:
        return _refuse(
            400,
            f"this is not a label ({error}): give row, criterion, verdict, note and rater",
        )
    identity = request.path_params["run"]
    return await _respond(
        lambda: viewed.find_run(identity).add_label(number, criterion, verdict, note, rater)
    )


async def _respond(collect: Callable[[], Any]) -> Response:
    """Return as JSON what a function returns. It runs in a thread, because it reads files."""
    try:
        body = await asyncio.to_thread(lambda: as_utf_8(collect()))
    except NotFoundError as error:
        return _refuse(404, str(error))
    except AssayError as error:
        return _refuse(400, str(error))
    return Response(body, headers=HEADERS, media_type="application/json")


def _refuse(status: int, message: str) -> Response:
    body = as_utf_8({"error": message})
    return Response(body, status, headers=HEADERS, media_type="application/json")


async def _send_file(request: Request) -> Response:
    """Reply with a file of the page: the page itself, its style or its script."""
    name = request.path_params["name"] or "index.html"
    text = read_page_file(name)
    if text is None:
        return _refuse(404, f"there is no file {name!r}")
    return Response(text, headers=HEADERS, media_type=MEDIA_TYPES[PurePosixPath(name).suffix])
