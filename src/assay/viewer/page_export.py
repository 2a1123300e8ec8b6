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
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from itertools import permutations
from pathlib import Path
from typing import IO, Any, Final

from assay.errors import AssayError
from assay.models import Ledger
from assay.runs.jsonable import as_utf_8
from assay.runs.pipeline import OnProgress, Watch
from assay.viewer.viewed_runs import ViewedRun, ViewedRuns

KINDS: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
# What the page may do whether it is served or opened from disk.
POLICY: Final = (
    "media-src data:; object-src blob:; frame-src blob:; base-uri 'none'; form-action 'none'"
)
BUNDLE: Final = "page.js"  # the name under which all scripts are had as one
CHUNK: Final = 200  # rows to a chunk


def write_report(
    paths: Sequence[str | Path], file: IO[str], on_progress: OnProgress | None = None
) -> int:
    """Write the page of these runs; how many rows it holds."""
    viewed = ViewedRuns(paths)
    runs = viewed.runs.values()
    try:
        for run in runs:
            run.look()
        watch = Watch(on_progress, sum(run.rows for run in runs), Ledger())
        head, tail = _frame()
        file.write(head)
        file.write(_data('id="assay-data"', _told(viewed)))
        for run in runs:
            numbers = [row["number"] for row in run.page("", limit=-1)["rows"]]
            for start in range(0, len(numbers), CHUNK):
                chunk = [run.row(number) for number in numbers[start : start + CHUNK]]
                file.write(_data(f'data-run="{run.identity}" data-chunk="{start // CHUNK}"', chunk))
                watch.fresh += len(chunk)
                watch.tell()
        file.write(tail)
        watch.tell(at_once=True)
        return watch.fresh
    finally:
        viewed.close()


def _told(viewed: ViewedRuns) -> dict[str, Any]:
    """All that the page needs at once: headings, overviews, the table without its texts, and every pair of few runs."""
    compares: dict[str, Any] = {}
    for one, other in permutations(viewed.runs, 2) if len(viewed.runs) <= 4 else ():
        try:
            compares[f"{one}/{other}"] = viewed.compare(one, other)
        except AssayError as error:
            compares[f"{one}/{other}"] = {"error": str(error)}
    return {
        "format": 1,
        "chunk": CHUNK,
        "runs": [run.heading() for run in viewed.runs.values()],
        "overviews": {key: run.overview() for key, run in viewed.runs.items()},
        "tables": {key: _table(run) for key, run in viewed.runs.items()},
        "labels": {
            key: [label.to_dict() for label in run.labels()] for key, run in viewed.runs.items()
        },
        "compares": compares,
    }


def _table(run: ViewedRun) -> dict[str, Any]:
    """The table by column: what is the same in most rows packs well."""
    rows = run.page("", limit=-1)["rows"]
    columns = (
        {name: [row[name] for row in rows] for name in rows[0] if name != "verdicts"}
        if rows
        else {}
    )
    criteria, tags = run.index.criteria, run.index.tags
    verdicts = {
        name: [row["verdicts"].get(name) for row in rows]
        for name, is_own in criteria.items()
        if not is_own
    }
    # By row, since a criterion that rows bring is one of few of them.
    own = [{name: said for name, said in row["verdicts"].items() if criteria[name]} for row in rows]
    own = own if any(own) else []
    return {
        "columns": columns,
        "verdicts": verdicts,
        "own": own,
        "criteria": list(criteria),
        "tags": tags,
    }


def _frame() -> tuple[str, str]:
    page, style, code = (page_file(name) or "" for name in ("index.html", "style.css", BUNDLE))
    policy = f"default-src 'none'; script-src '{_hash(code)}'; style-src '{_hash(style)}'; img-src data:; {POLICY}"
    meta = f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">'
    page = re.sub(r"<link[^>]*stylesheet[^>]*>", lambda _: f"<style>{style}</style>", page, count=1)
    page = re.sub(r"<script[^>]*src=[^>]*></script>\s*", "", page)
    page = page.replace("<head>", f"<head>\n{meta}", 1)
    head, _, tail = page.rpartition("</body>")
    return head, f"<script>{code}</script>\n</body>{tail}"


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _data(attributes: str, value: Any) -> str:
    # Packed: no text that a model wrote stands in the file as it is.
    packed = base64.b64encode(gzip.compress(as_utf_8(value), 6, mtime=0)).decode()
    return f'<script type="text/plain" {attributes}>{packed}</script>\n'


@cache
def page_file(name: str) -> str | None:
    """A file of the page by its name; None when there is none, or it is no part of the page."""
    if name[name.rfind(".") :] not in KINDS or ".." in name.split("/") or name.startswith("/"):
        return None
    folder = files("assay.viewer").joinpath("page")
    if name == BUNDLE:
        # Otherwise forty small files would be asked for, each in its own request.
        scripts = folder.joinpath("scripts.txt").read_text(encoding="utf-8").split()
        return "\n".join(page_file(script) or "" for script in scripts)
    found = folder.joinpath(*name.split("/"))
    return found.read_text(encoding="utf-8") if found.is_file() else None
