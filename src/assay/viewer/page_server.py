"""Serve the page of some runs over HTTP, for one person on one machine.

What models wrote is hostile: it leaves here as JSON, and the page may run no script but its own. A page of
another site can neither read this one, since the name it was asked under must be ours, nor write to it.
"""

import asyncio
import contextlib
import errno
import json
import os
import socket
import sys
import webbrowser
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from assay.errors import AssayError, MissingExtraError
from assay.runs.jsonable import as_utf_8
from assay.viewer.page_export import KINDS, POLICY, page_file
from assay.viewer.viewed_runs import GLANCE, NotFoundError, ViewedRun, ViewedRuns

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
_OWN: Final = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:"
HEADERS: Final = {
    "Content-Security-Policy": f"{_OWN}; {POLICY}; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
MOST_ROWS: Final = 1000  # rows that one request may have
LONGEST_LABEL: Final = 100_000


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
    listening = _listen(port)
    with listening:
        address = f"http://{HOST}:{listening.getsockname()[1]}/"
        # Indices are kept between two looks.
        folder = (
            Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "assay" / "pages"
        )
        folder.mkdir(parents=True, exist_ok=True)
        app = viewer_app(ViewedRuns(paths, folder))
        # The socket listens already, so a browser that opens the address now is served in a moment.
        print_address(address)
        if opens_browser:
            webbrowser.open(address)
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


def _listen(port: int | None) -> socket.socket:
    """Return a socket that listens on the port; by default on the first free one from 7600 on."""
    ports = range(FIRST_PORT, FIRST_PORT + PORTS_TO_TRY) if port is None else [port]
    for candidate in ports:
        try:
            return socket.create_server((HOST, candidate), backlog=128)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or port is not None:
                raise AssayError(
                    f"port {candidate} cannot be used ({error.strerror}): name another with --port"
                ) from None
    # All of them are in use: let the system choose.
    return socket.create_server((HOST, 0), backlog=128)


def has_display() -> bool:
    """Return whether this machine can show a browser. Without a display, one would open as text."""
    if os.environ.get("BROWSER"):
        return True
    if sys.platform in ("win32", "darwin"):
        return "SSH_CONNECTION" not in os.environ
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def viewer_app(
    viewed: ViewedRuns, *, hosts: tuple[str, ...] = ("127.0.0.1", "localhost")
) -> Starlette:
    """The page and its data. `hosts` are the names it may be asked under."""

    @contextlib.asynccontextmanager
    async def living(_: Starlette) -> AsyncGenerator[None]:
        # Built beside the first looks, so that the page is there at once.
        runs = viewed.runs.values()
        reading = [
            asyncio.ensure_future(asyncio.to_thread(run.read_on, viewed.closing)) for run in runs
        ]
        yield
        viewed.closing.set()
        await asyncio.gather(*reading, return_exceptions=True)
        viewed.close()

    def route(path: str, answer: Callable[[Request], Any]) -> Route:
        async def answered(request: Request) -> Response:
            return await _told(lambda: answer(request))

        return Route(f"/api/{path}", answered)

    def about_run(path: str, answer: Callable[[ViewedRun, Request], Any]) -> Route:
        return route(
            f"runs/{{run}}/{path}",
            lambda asked: answer(viewed.run(asked.path_params["run"]), asked),
        )

    return Starlette(
        routes=[
            route("runs", lambda _: [run.heading() for run in viewed.runs.values()]),
            route(
                "compare",
                lambda asked: viewed.compare(*(asked.query_params.get(side, "") for side in "ab")),
            ),
            about_run("overview", lambda run, _: run.overview()),
            about_run("rows", _rows),
            about_run("rows/{number:int}", lambda run, asked: run.row(asked.path_params["number"])),
            about_run(
                "groups/{example:path}", lambda run, asked: run.group(asked.path_params["example"])
            ),
            about_run("changes", _changes),
            Route("/api/runs/{run}/labels", partial(_label, viewed), methods=["POST"]),
            Route("/{name:path}", _file),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts)),
            Middleware(GZipMiddleware, minimum_size=2000),
        ],
        lifespan=living,
    )


def _rows(run: ViewedRun, request: Request) -> dict[str, Any]:
    asked = request.query_params

    def number(name: str, usual: int) -> int:
        text = asked.get(name) or ""
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else usual

    order = {
        "sort": asked.get("sort", "number"),
        "descending": asked.get("descending") in ("1", "true"),
    }
    some = {"offset": number("offset", 0), "limit": min(MOST_ROWS, number("limit", 100))}
    return run.page(asked.get("q", ""), **order, **some)


def _changes(run: ViewedRun, _: Request) -> dict[str, Any]:
    run.look(GLANCE)
    return {"rows": run.rows, "live": run.live}


async def _label(viewed: ViewedRuns, request: Request) -> Response:
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
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        RecursionError,
        OverflowError,  # `1e400` is read as infinity
    ) as error:
        return _refused(400, f"no label ({error}): give row, criterion, verdict, note and rater")
    run = request.path_params["run"]
    return await _told(
        lambda: viewed.run(run).add_label(number, criterion, verdict, note, rater).to_dict()
    )


async def _told(work: Callable[[], Any]) -> Response:
    """What the work gives, as JSON. It runs beside the loop, since it reads files."""
    try:
        body = await asyncio.to_thread(lambda: as_utf_8(work()))
    except AssayError as error:
        return _refused(404 if isinstance(error, NotFoundError) else 400, str(error))
    return Response(body, headers=HEADERS, media_type="application/json")


def _refused(status: int, message: str) -> Response:
    return Response(
        as_utf_8({"error": message}), status, headers=HEADERS, media_type="application/json"
    )


async def _file(request: Request) -> Response:
    name = request.path_params["name"] or "index.html"
    text = page_file(name)
    if text is None:
        return _refused(404, f"there is no file {name!r}")
    return Response(text, headers=HEADERS, media_type=KINDS[name[name.rfind(".") :]])
