"""The page over HTTP, for one person on one machine.

What models wrote is hostile: it leaves here as JSON, and the page may run no script but its own. A page of
another site can neither read this one, since the name it was asked under must be ours, nor write to it.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from assay.errors import AssayError
from assay.runs.jsonable import as_utf_8
from assay.viewer.files import KINDS, page_file
from assay.viewer.shelf import GLANCE, NotFoundError, Shelf

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


def viewer_app(shelf: Shelf, *, hosts: tuple[str, ...] = ("127.0.0.1", "localhost")) -> Starlette:
    """The page and its data. `hosts` are the names it may be asked under."""
    asked = _Asked(shelf)

    @contextlib.asynccontextmanager
    async def living(_: Starlette) -> AsyncGenerator[None]:
        # Built beside the first looks, so that the page is there at once.
        books = shelf.books.values()
        reading = [
            asyncio.ensure_future(asyncio.to_thread(b.read_on, shelf.closing)) for b in books
        ]
        yield
        shelf.closing.set()
        await asyncio.gather(*reading, return_exceptions=True)
        shelf.close()

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

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf

    async def runs(self, request: Request) -> Response:
        return await _told(lambda: [book.heading() for book in self.shelf.books.values()])

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
            book = self._book(request)
            book.look(GLANCE)
            return {"rows": book.rows, "live": book.live}

        return await _told(now)

    async def compare(self, request: Request) -> Response:
        asked = request.query_params
        return await _told(lambda: self.shelf.compare(asked.get("a", ""), asked.get("b", "")))

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
            return _refused(
                400, f"no label ({error}): give row, criterion, verdict, note and rater"
            )
        return await _told(
            lambda: self._book(request).add_label(number, criterion, verdict, note, rater).to_dict()
        )

    def _book(self, request: Request) -> Any:
        return self.shelf.book(request.path_params["run"])


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
