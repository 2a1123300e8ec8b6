"""ViewedRuns holds the runs that a page shows, each with its index, which is built while people look."""

import hashlib
import json
import math
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final

from assay import trust
from assay.advantage import advantages
from assay.errors import AssayError
from assay.messages import ALLOWED_MEDIA, media_access
from assay.redaction import get_logger
from assay.runs import Row, Run, RunError
from assay.runs.listing import find_runs
from assay.runs.metadata import media_folders
from assay.runs.row_rubrics import RowRubrics
from assay.runs.run_store import WriterLock
from assay.trust.labels import LABELS, Label, find_label_files, hash_row_text, read_run_labels
from assay.trust.questions import read_row_criteria
from assay.viewer import page_data
from assay.viewer.row_index import RowIndex

logger = get_logger(__name__)

GLANCE: Final = 0.1  # seconds that a request waits at most for the index of a large run; the rest is read meanwhile


class NotFoundError(AssayError, LookupError):
    """No such run, or no such row."""


class ViewedRun:
    """One run on a page."""

    def __init__(self, identity: str, run: Run, place: Path | None) -> None:
        self.identity = identity
        self.run = run
        self.index = RowIndex(run, place)
        self.rows = 0
        self._looked = float("-inf")
        self._looking = threading.Lock()
        self._labels: list[Label] = []
        # The files that the labels were read from: name, time of the last change, and size.
        self._label_files: list[tuple[str, int, int]] = []
        self._row_rubrics = RowRubrics()

    @property
    def live(self) -> bool:
        """Whether a process is writing the run."""
        return self.run.file.is_being_written

    def look(self, seconds: float = math.inf) -> bool:
        """Take in what the run has gained, for so long at most; whether that is all of it."""
        # Where another thread is at it already, what there is by now will do, unless all of it is wanted.
        if not self._looking.acquire(timeout=-1 if seconds == math.inf else seconds):
            return False
        try:
            if time.monotonic() - self._looked < 1:  # a run that grows is looked at every second
                return True
            is_whole = self.index.extend(seconds)
            self.rows = len(self.index)
            self.index.label((label.example, label.sample) for label in self.labels())
            if is_whole:
                self._looked = time.monotonic()
            return is_whole
        finally:
            self._looking.release()

    def read_on(self, stopping: threading.Event) -> None:
        """Read the run to its end, bit by bit, so that requests meanwhile get an answer."""
        try:
            while not stopping.is_set() and not self.look(GLANCE):
                time.sleep(0.01)  # or no other thread would get hold of the index
        except Exception:
            # Every request looks for itself, so each is told too.
            logger.exception("%s cannot be read to its end", self.run.path)

    def heading(self) -> dict[str, Any]:
        """The run in one line."""
        if (
            not self.rows
        ):  # the first request may come before anything was read, and a run is not empty for that
            self.look(GLANCE)
        about, rubric = self.run.about, self.run.about.rubric
        return {
            "id": self.identity,
            "name": self.run.path.resolve().name,
            **page_data.picked(about, "kind created model judge resolved"),
            "environment": about.config.get("env_id"),
            "env_args": about.config.get("env_args"),
            "rubric": None if rubric is None else {"name": rubric.name, "hash": rubric.hash},
            **page_data.picked(self, "rows live"),
        }

    def overview(self) -> dict[str, Any]:
        """What the run comes to. `indexed` rows are in the histogram and the table so far."""
        self.look(GLANCE)
        return {**page_data.overview(self.index, self.run.summary()), "indexed": self.rows}

    def page(self, query: str, **options: Any) -> dict[str, Any]:
        self.look(GLANCE)
        return self.index.page(query, **options)

    def row(self, number: int) -> dict[str, Any]:
        row = self._found(number)
        said = [label for label in self.labels() if (label.example, label.sample) == row.key]
        with media_access(ALLOWED_MEDIA.get().folders or media_folders(self.run.about)):
            criteria = read_row_criteria(row, self.run.about.rubric, self._row_rubrics)
            return page_data.whole_row(self.index, number, row, said, criteria)

    def _found(self, number: int) -> Row:
        row = self.index.row(number)
        if row is None:
            self.look()
            row = self.index.row(number)
        if row is None:
            raise NotFoundError(f"there is no row {number}: the run has {self.rows}")
        return row

    def group(self, example: str) -> dict[str, Any]:
        """The rollouts of one prompt side by side, with the advantage that each has over the others."""
        self.look()
        rows = [self.row(number) for number in self.index.numbers_of(example)]
        if not rows:
            raise NotFoundError(f"there is no example {example!r}")
        over = zip(rows, advantages([row["reward"] for row in rows]), strict=True)
        held: list[dict[str, Any]] = [
            {**row, "media": [], "advantage": advantage} for row, advantage in over
        ]
        return {"example": rows[0]["example"], "prompt": rows[0]["prompt"], "rows": held}

    def labels(self) -> list[Label]:
        """Return the labels about this run; read them again if their files have changed."""
        files: list[tuple[str, int, int]] = []
        for path in find_label_files(self.run.path):
            status = path.stat()
            files.append((path.name, status.st_mtime_ns, status.st_size))
        if files != self._label_files:
            self._labels = read_run_labels(self.run.path)
            self._label_files = files
        return self._labels

    def add_label(self, number: int, criterion: str, verdict: Any, note: str, rater: str) -> Label:
        """Write what a person says beside the run; what the judge said stays."""
        row = self._found(number)
        criteria = read_row_criteria(row, self.run.about.rubric, self._row_rubrics)
        guidelines = {asked.name: asked.guideline for asked in criteria}
        if criterion not in guidelines:
            raise NotFoundError(
                f"there is no criterion {criterion!r}: there are {', '.join(guidelines)}"
            )
        fields = {
            "example": row.example,
            "sample": row.sample,
            "criterion": criterion,
            "verdict": verdict,
            "rater": rater,
            "note": note,
            "time": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "guideline": guidelines[criterion],
            "text_hash": hash_row_text(row),
        }
        label = Label.from_row(fields)
        # In ASCII, which also holds half characters, so that a label names its rollout exactly.
        line = json.dumps(label.to_dict()).encode() + b"\n"
        with (self.run.path / LABELS).open("ab+") as file:
            # A file that was written by hand may lack the end of its last line.
            file.seek(0, os.SEEK_END)
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    line = b"\n" + line
            file.write(line)
        self.index.label([row.key])
        return label


class ViewedRuns:
    """All runs of a page, by short ids."""

    def __init__(self, paths: Sequence[str | Path], cache: Path | None = None) -> None:
        """`cache` is the folder that indices are kept in; None keeps them in memory."""
        self.runs: dict[str, ViewedRun] = {}
        self.closing = threading.Event()
        self._locks: list[WriterLock] = []
        for path in chain.from_iterable(map(find_runs, paths)):
            run = Run.open(path)
            identity = hashlib.sha256(os.fsencode(run.path.resolve())).hexdigest()[:8]
            if identity in self.runs:
                continue
            place = None
            if cache is not None:
                with suppress(RunError):  # another page of the run keeps its index there now
                    self._locks.append(WriterLock(cache / f"{identity}.sqlite"))
                    place = cache / f"{identity}.sqlite"
            self.runs[identity] = ViewedRun(identity, run, place)

    def run(self, identity: str) -> ViewedRun:
        if identity not in self.runs:
            raise NotFoundError(f"there is no run {identity!r} here")
        return self.runs[identity]

    def compare(self, first: str, second: str) -> dict[str, Any]:
        """Two runs held against each other; flips know the rows of both."""
        one, other = self.run(first), self.run(second)
        one.look()
        other.look()
        # Only now, since statistics need an extra that looking at runs does not.
        comparison = trust.compare(one.run, other.run)
        names = (one.run.path.resolve().name, other.run.path.resolve().name)
        found: dict[str, Any] = comparison.to_dict()
        found["decision"] = comparison.decide(names)
        for flip in found["flips"]:
            key = (flip["example"], flip["sample"])
            flip |= {
                "first_row": one.index.number_of(*key),
                "second_row": other.index.number_of(*key),
            }
        return found

    def close(self) -> None:
        self.closing.set()
        for run in self.runs.values():
            run.index.close()
        for lock in self._locks:
            lock.release()
