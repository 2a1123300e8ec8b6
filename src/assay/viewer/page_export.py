"""Write the page of some runs as one file, which contains every rollout and opens from disk.

The scripts and the style sheet are in the file, and its policy allows only these, by their hashes.
Rollouts are compressed in chunks, which the page opens when they are looked at.
"""

import base64
import gzip
import hashlib
import html
import re
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import IO, Any, Final

from assay.errors import AssayError
from assay.models import Ledger
from assay.runs.jsonable import as_utf_8
from assay.runs.pipeline import OnProgress, Watch
from assay.viewer.page_files import COMMON_POLICY, SCRIPT, read_page_file
from assay.viewer.viewed_runs import ViewedRun, ViewedRuns

CHUNK_ROWS: Final = 200
# Every pair is compared beforehand, so reports on more runs do without.
MAX_COMPARED_RUNS: Final = 4


def write_report(
    paths: Sequence[str | Path], file: IO[str], on_progress: OnProgress | None = None
) -> int:
    """Write the page of the runs at these paths to a file; return how many rollouts it contains."""
    viewed = ViewedRuns(paths)
    runs = viewed.runs.values()
    row_count = sum(run.count() for run in runs)
    watch = Watch(on_progress, row_count, Ledger())  # an empty ledger: no model is called
    written_count = 0
    before_data, after_data = _split_page()
    file.write(before_data)
    file.write(_make_data_element('id="assay-data"', _collect_data(viewed)))
    for run in runs:
        all_rows = run.list_rows("", limit=-1)["rows"]
        numbers = [row["number"] for row in all_rows]
        # In chunks, so that the page unpacks only the rows that are looked at.
        for start in range(0, len(numbers), CHUNK_ROWS):
            rows = [run.describe_row(number) for number in numbers[start : start + CHUNK_ROWS]]
            attributes = f'data-run="{run.identity}" data-chunk="{start // CHUNK_ROWS}"'
            file.write(_make_data_element(attributes, rows))
            written_count += len(rows)
            watch.fresh = written_count  # for the progress
            watch.report()
    file.write(after_data)
    watch.report(at_once=True)
    return written_count


def _collect_data(viewed: ViewedRuns) -> dict[str, Any]:
    """Return what the page needs at once: headings, overviews, tables, labels and comparisons."""
    comparisons: dict[str, Any] = {}  # by the identities of both runs; every pair in both orders
    if len(viewed.runs) <= MAX_COMPARED_RUNS:
        for first, second in permutations(viewed.runs, 2):
            try:
                comparisons[f"{first}/{second}"] = viewed.compare(first, second)
            except AssayError as error:
                comparisons[f"{first}/{second}"] = {"error": str(error)}
    labels = {
        identity: [label.to_dict() for label in run.read_labels()]
        for identity, run in viewed.runs.items()
    }
    return {
        "format": 1,
        "chunk": CHUNK_ROWS,
        "runs": [run.describe() for run in viewed.runs.values()],
        "overviews": {identity: run.overview() for identity, run in viewed.runs.items()},
        "tables": {identity: _make_table(run) for identity, run in viewed.runs.items()},
        "labels": labels,
        "compares": comparisons,
    }


def _make_table(run: ViewedRun) -> dict[str, Any]:
    """Return the table of rollouts by column, because equal values compress well."""
    rows = run.list_rows("", limit=-1)["rows"]
    columns: dict[str, list[Any]] = {}
    if rows:
        names = [name for name in rows[0] if name != "verdicts"]
        columns = {name: [row[name] for row in rows] for name in names}
    # Whether only the rubrics of rows have a criterion, not the rubric of the run.
    is_only_in_rows = run.table.list_criteria()
    verdicts: dict[str, list[str | None]] = {}  # by criterion
    for criterion in is_only_in_rows:
        if not is_only_in_rows[criterion]:
            verdicts[criterion] = [row["verdicts"].get(criterion) for row in rows]
    # The other criteria are listed by row, because each is asked of few rows.
    own_verdicts: list[dict[str, str]] = []
    if any(is_only_in_rows.values()):
        for row in rows:
            own_verdicts_of_row: dict[str, str] = {}
            for criterion, verdict in row["verdicts"].items():
                if is_only_in_rows[criterion]:
                    own_verdicts_of_row[criterion] = verdict
            own_verdicts.append(own_verdicts_of_row)
    return {
        "columns": columns,
        "verdicts": verdicts,
        "own": own_verdicts,
        "criteria": list(is_only_in_rows),
        "tags": run.table.list_tags(),
    }


def _split_page() -> tuple[str, str]:
    """Return the HTML before and after the data, with the style and the script in it."""
    page = read_page_file("index.html") or ""
    style = read_page_file("style.css") or ""
    script = read_page_file(SCRIPT) or ""
    # Only this script and this style may be used, by their hashes.
    policy = (
        f"default-src 'none'; script-src '{_hash_source(script)}'; "
        f"style-src '{_hash_source(style)}'; img-src data:; {COMMON_POLICY}"
    )
    policy_element = f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">'
    page = page.replace("<head>", f"<head>\n{policy_element}", 1)
    # A function as replacement, because backslashes in a replacement text have a meaning.
    page = re.sub(r"<link[^>]*stylesheet[^>]*>", lambda _: f"<style>{style}</style>", page, count=1)
    page = re.sub(r"<script[^>]*src=[^>]*></script>\s*", "", page)  # it is added below
    # The data goes to the end of the body, and the script that reads it behind the data.
    before_data, _, after_body = page.rpartition("</body>")
    return before_data, f"<script>{script}</script>\n</body>{after_body}"


def _hash_source(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _make_data_element(attributes: str, data: Any) -> str:
    # Compressed and in base64, so that no text of a model is in the file as it is.
    packed = base64.b64encode(gzip.compress(as_utf_8(data), 6, mtime=0)).decode()
    return f'<script type="text/plain" {attributes}>{packed}</script>\n'
