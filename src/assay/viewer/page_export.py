"""Write the page of some runs as one file, which opens from disk, asks no server and holds every row.

The scripts and the style stand in it, allowed by their hashes. Rows are gzipped in chunks of some hundred
and unpacked when they are looked at. The files of the page (one HTML, one CSS, scripts in the order of `scripts.txt`,
nothing to build) are in the folder `page`.
"""

import base64
import gzip
import hashlib
import html
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import IO, Any, Final

from assay.errors import AssayError
from assay.models import Ledger
from assay.runs.jsonable import as_utf_8
from assay.runs.pipeline import OnProgress, Watch
from assay.viewer.viewed_runs import ViewedRun, ViewedRuns

KINDS: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

BUNDLE: Final = "page.js"
"""The name under which all scripts are had as one."""
CHUNK: Final = 200
"""Rows to a chunk."""


def write_report(paths: Sequence[str | Path], file: IO[str], on_progress: OnProgress | None = None) -> int:
    """Write the page of these runs; how many rows it holds."""
    viewed = ViewedRuns(paths)
    runs = viewed.runs.values()
    try:
        for run in runs:
            run.look()
        watch = Watch(on_progress, sum(run.rows for run in runs), Ledger())
        head, tail = _frame()
        file.write(head)
        file.write(_data("assay-data", _told(viewed)))
        for run in runs:
            for number, chunk in enumerate(_chunks(run)):
                file.write(_chunk(run.identity, number, chunk))
                watch.fresh += len(chunk)
                watch.tell()
        file.write(tail)
        watch.tell(at_once=True)
        return watch.fresh
    finally:
        viewed.close()


def _told(viewed: ViewedRuns) -> dict[str, Any]:
    """All that the page needs at once: headings, overviews, and the table without its texts."""
    return {
        "format": 1,
        "chunk": CHUNK,
        "runs": [run.heading() for run in viewed.runs.values()],
        "overviews": {key: run.overview() for key, run in viewed.runs.items()},
        "tables": {key: _table(run) for key, run in viewed.runs.items()},
        "compares": _compares(viewed),
    }


def _table(run: ViewedRun) -> dict[str, Any]:
    """The table by column: what is the same in most rows packs well."""
    rows = run.page("", limit=-1).rows
    columns = {name: [row[name] for row in rows] for name in rows[0] if name != "verdicts"} if rows else {}
    names = list(run.index.criteria)
    shared = names[: run.index.shared]
    verdicts = {name: [row["verdicts"].get(name) for row in rows] for name in shared}
    # By row, since a criterion that rows bring is one of few of them.
    own = (
        [
            {name: said for name, said in row["verdicts"].items() if run.index.criteria[name] >= len(shared)}
            for row in rows
        ]
        if len(names) > len(shared)
        else []
    )
    tags = {tag: [names[place] for place in places] for tag, places in run.index.tags.items()}
    return {"columns": columns, "verdicts": verdicts, "own": own, "criteria": names, "tags": tags}


def _compares(viewed: ViewedRuns) -> dict[str, Any]:
    """Every pair of runs, in both directions where there are few."""
    keys = list(viewed.runs)
    found: dict[str, Any] = {}
    for one in keys:
        for other in keys:
            if one != other and len(keys) <= 4:
                try:
                    found[f"{one}/{other}"] = viewed.compare(one, other)
                except AssayError as error:
                    found[f"{one}/{other}"] = {"error": str(error)}
    return found


def _chunks(run: ViewedRun) -> Iterator[list[dict[str, Any]]]:
    numbers = [row["number"] for row in run.page("", limit=-1).rows]
    for start in range(0, len(numbers), CHUNK):
        yield [run.row(number) for number in numbers[start : start + CHUNK]]


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


@cache
def page_file(name: str) -> str | None:
    """A file of the page by its name; None when there is none, or it is no part of the page."""
    kind = name[name.rfind(".") :]
    if kind not in KINDS or ".." in name.split("/") or name.startswith("/"):
        return None
    if name == BUNDLE:
        # Otherwise forty small files would be asked for, each in its own request.
        return "\n".join(page_file(script) or "" for script in scripts())
    found = files("assay.viewer").joinpath("page", *name.split("/"))
    return found.read_text(encoding="utf-8") if found.is_file() else None


@cache
def scripts() -> tuple[str, ...]:
    """The scripts, in the order in which they build on each other."""
    listed = files("assay.viewer").joinpath("page", "scripts.txt").read_text(encoding="utf-8")
    return tuple(line for line in listed.split() if line)
