"""The page as one file: opens from disk, asks nobody, and holds every row.

The scripts and the style stand in it, allowed by their hashes. Rows are gzipped in chunks of some hundred
and unpacked when somebody looks.
"""

import base64
import gzip
import hashlib
import html
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final

from assay.errors import AssayError
from assay.models import Ledger
from assay.runs.jsonable import as_utf_8
from assay.runs.pipeline import OnProgress, Watch
from assay.viewer.files import BUNDLE, page_file
from assay.viewer.shelf import Book, Shelf

CHUNK: Final = 200
"""Rows to a chunk."""


def write_report(
    paths: Sequence[str | Path], file: IO[str], on_progress: OnProgress | None = None
) -> int:
    """Write the page of these runs; how many rows it holds."""
    shelf = Shelf(paths)
    books = shelf.books.values()
    try:
        for book in books:
            book.look()
        watch = Watch(on_progress, sum(book.rows for book in books), Ledger())
        head, tail = _frame()
        file.write(head)
        file.write(_data("assay-data", _told(shelf)))
        for book in books:
            for number, chunk in enumerate(_chunks(book)):
                file.write(_chunk(book.identity, number, chunk))
                watch.fresh += len(chunk)
                watch.tell()
        file.write(tail)
        watch.tell(at_once=True)
        return watch.fresh
    finally:
        shelf.close()


def _told(shelf: Shelf) -> dict[str, Any]:
    """All that the page needs at once: headings, overviews, and the table without its texts."""
    return {
        "format": 1,
        "chunk": CHUNK,
        "runs": [book.heading() for book in shelf.books.values()],
        "overviews": {key: book.overview() for key, book in shelf.books.items()},
        "tables": {key: _table(book) for key, book in shelf.books.items()},
        "compares": _compares(shelf),
    }


def _table(book: Book) -> dict[str, Any]:
    """The table by column: what is the same in most rows packs well."""
    rows = book.page("", limit=-1).rows
    columns = (
        {name: [row[name] for row in rows] for name in rows[0] if name != "verdicts"}
        if rows
        else {}
    )
    names = list(book.index.criteria)
    shared = names[: book.index.shared]
    verdicts = {name: [row["verdicts"].get(name) for row in rows] for name in shared}
    # By row, since a criterion that rows bring is one of few of them.
    own = (
        [
            {
                name: said
                for name, said in row["verdicts"].items()
                if book.index.criteria[name] >= len(shared)
            }
            for row in rows
        ]
        if len(names) > len(shared)
        else []
    )
    tags = {tag: [names[place] for place in places] for tag, places in book.index.tags.items()}
    return {"columns": columns, "verdicts": verdicts, "own": own, "criteria": names, "tags": tags}


def _compares(shelf: Shelf) -> dict[str, Any]:
    """Every pair of runs, in both directions where there are few."""
    keys = list(shelf.books)
    found: dict[str, Any] = {}
    for one in keys:
        for other in keys:
            if one != other and len(keys) <= 4:
                try:
                    found[f"{one}/{other}"] = shelf.compare(one, other)
                except AssayError as error:
                    found[f"{one}/{other}"] = {"error": str(error)}
    return found


def _chunks(book: Book) -> Iterator[list[dict[str, Any]]]:
    numbers = [row["number"] for row in book.page("", limit=-1).rows]
    for start in range(0, len(numbers), CHUNK):
        yield [book.row(number) for number in numbers[start : start + CHUNK]]


def _frame() -> tuple[str, str]:
    """The page before and after its data."""
    page = page_file("index.html") or ""
    style = page_file("style.css") or ""
    code = page_file(BUNDLE) or ""
    policy = (
        f"default-src 'none'; script-src '{_hash(code)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    meta = f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">'
    page = re.sub(r"<link[^>]*stylesheet[^>]*>", lambda _: f"<style>{style}</style>", page, count=1)
    page = re.sub(r"<script[^>]*src=[^>]*></script>\s*", "", page)
    page = page.replace("<head>", f"<head>\n{meta}", 1)
    head, _, tail = page.rpartition("</body>")
    return head, f"<script>{code}</script>\n</body>{tail}"


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _data(name: str, value: Any) -> str:
    # Packed: no text that a model wrote stands in the file as it is.
    return f'<script type="text/plain" id="{name}">{_packed(value)}</script>\n'


def _chunk(run: str, number: int, rows: list[dict[str, Any]]) -> str:
    return f'<script type="text/plain" data-run="{run}" data-chunk="{number}">{_packed(rows)}</script>\n'


def _packed(value: Any) -> str:
    return base64.b64encode(gzip.compress(as_utf_8(value), 6, mtime=0)).decode()
