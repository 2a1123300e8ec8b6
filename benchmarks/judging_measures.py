"""What is measured of judging, and the targets it is held to."""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rows import Check, Row, Target
from subjects import Subjects
from workloads import CRITERIA

HERE = Path(__file__).parent
LATENCY = 0.05
MIXED = {"rate_limited": 0.30, "failing": 0.05, "hanging": 0.02, "garbage": 0.02}
PATIENCE, CLEAN_PATIENCE = 10 * LATENCY, 120.0
"""Seconds after which an attempt is given up: with calls that hang, and without."""
PEERS = ("rubric", "autorubric")
REPEATS = 3
"""Runs of a subject on an endpoint that does its work: of seconds and of CPU seconds the least counts,
for what else the machine does can only add to them."""


@dataclass(frozen=True)
class Sizes:
    """How much work; the defaults are what the targets speak of."""

    responses: int = 200
    concurrency: int = 64

    @property
    def calls(self) -> int:
        return self.responses * len(CRITERIA)

    @property
    def ideal(self) -> float:
        """Seconds, if nothing but the endpoint took any."""
        return LATENCY * -(-self.calls // self.concurrency)


QUICK = Sizes(responses=20)


class Endpoint:
    """The server's address, and what it has counted."""

    def __init__(self, url: str) -> None:
        self.url = url

    def stats(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/stats") as answer:
            return json.loads(answer.read())

    def reset(self) -> None:
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/reset", b"")).close()


@contextmanager
def serving(**faults: float) -> Generator[Endpoint]:
    """The endpoint in a process of its own."""
    task = json.dumps({"latency": LATENCY, "faults": faults})
    command = [sys.executable, str(HERE / "judging_server.py"), task]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield Endpoint(server.stdout.readline().strip())
        server.stdin.close()


def graded(subjects: Subjects, subject: str, endpoint: Endpoint, sizes: Sizes, **task: Any) -> dict[str, Any] | None:
    """The subject's figures and the endpoint's counts, of one run."""
    endpoint.reset()
    options = {"timeout": CLEAN_PATIENCE} | task
    figures = subjects.measure(
        subject,
        "judging_worker.py",
        url=endpoint.url,
        responses=sizes.responses,
        concurrency=sizes.concurrency,
        **options,
    )
    return None if figures is None else figures | {"server": endpoint.stats()}


def graded_at_best(
    subjects: Subjects, subject: str, sizes: Sizes, faults: dict[str, float] | None = None, **task: Any
) -> dict[str, Any] | None:
    """As `graded`, the least of several runs, each on an endpoint of its own."""
    runs: list[dict[str, Any]] = []
    for _ in range(REPEATS):
        with serving(**(faults or {})) as endpoint:
            figures = graded(subjects, subject, endpoint, sizes, **task)
        if figures is None:
            return None
        runs.append(figures)
    least = {name: min(run[name] for run in runs) for name in ("seconds", "cpu_seconds")}
    # Of what went wrong the most counts.
    most = {name: max(run[name] for run in runs) for name in ("missing", "wrong")}
    return runs[-1] | least | most


def measure_clean(subjects: Subjects, sizes: Sizes) -> list[Any]:
    """Time, CPU and shared prefixes, on an endpoint that does its work."""
    found = {name: graded_at_best(subjects, name, sizes) for name in ("assay", *PEERS)}
    ours = found["assay"]
    label = f"{sizes.responses} texts x {len(CRITERIA)} criteria, {LATENCY * 1000:.0f} ms"
    rows: list[Any] = [
        Row(f"{label}: time", _field(ours, "seconds"), sizes.ideal, "s", "ideal", Target(1.15, "at most")),
        Row(f"{label}: CPU a call", _cpu(ours), 0.5, "ms", "target", Target(1.0, "at most")),
    ]
    for name, share in (("rubric", 1 / 10), ("autorubric", 1 / 20)):
        theirs = found[name]
        rows += [
            Row(f"{label}: time", _field(ours, "seconds"), _field(theirs, "seconds"), "s", name),
            Row(f"{label}: CPU a call", _cpu(ours), _cpu(theirs), "ms", name, Target(share, "at most")),
        ]
    expected = "at least 80 %"
    rows.append(Check("tokens that repeat a prefix", _shared(ours), expected, _most(ours)))
    rows += [Check(f"the same, {name}", _shared(found[name]), "", None) for name in PEERS]
    rows += [Check(f"verdicts, {name}", _verdicts(found[name]), "", None) for name in found]
    return rows


def measure_cache(subjects: Subjects, sizes: Sizes) -> list[Any]:
    """Calls of a second run, of one with one criterion changed, and of one after a kill."""
    folder = tempfile.mkdtemp(prefix="assay-cache-")
    try:
        with serving() as endpoint:
            counts = [
                graded(subjects, "assay", endpoint, sizes, cache=folder, changed=changed)
                for changed in (False, False, True)
            ]
            resumed = _killed_and_resumed(subjects, endpoint, sizes)
    finally:
        shutil.rmtree(folder)
    begun = 1  # The text to begin with, whose changed criterion is asked about too.
    first, second, third = (_calls(count) for count in counts)
    return [
        Check("first run, calls", str(first), str(sizes.calls + len(CRITERIA)), None),
        Check("second run, calls", str(second), "0", second == 0),
        Check(
            "one criterion of ten changed, calls",
            str(third),
            f"{sizes.responses} and {begun} to begin with",
            third == sizes.responses + begun,
        ),
        resumed,
    ]


def _killed_and_resumed(subjects: Subjects, endpoint: Endpoint, sizes: Sizes) -> Check:
    """SIGKILL half-way, then the same run again: how many calls were made twice."""
    folder = tempfile.mkdtemp(prefix="assay-cache-")
    endpoint.reset()
    task = {
        "subject": "assay",
        "url": endpoint.url,
        "responses": sizes.responses,
        "concurrency": sizes.concurrency,
        "timeout": CLEAN_PATIENCE,
        "cache": folder,
    }
    command = [sys.executable, str(HERE / "judging_worker.py"), json.dumps(task)]
    try:
        with subprocess.Popen(command, cwd=HERE, stdout=subprocess.DEVNULL) as program:
            while endpoint.stats()["calls"] < sizes.calls // 2:
                time.sleep(0.01)
            program.send_signal(signal.SIGKILL)
        # Those under way were cut off: whether they were answered, nobody has seen.
        before = endpoint.stats()["calls"]
        figures = graded(subjects, "assay", endpoint, sizes, cache=folder)
    finally:
        shutil.rmtree(folder)
    after = _calls(figures)
    twice = None if after is None else before + after - sizes.calls - len(CRITERIA)
    said = f"{before} before, {after} after: {twice} twice"
    limit = sizes.concurrency
    return Check(
        "killed half-way and resumed, calls",
        said,
        f"none but those under way, at most {limit}",
        twice is not None and twice <= limit,
    )


def measure_faults(subjects: Subjects, sizes: Sizes) -> list[Any]:
    """An endpoint with 30 % 429, 5 % 500, 2 % that hang and 2 % garbage."""
    clean = graded_at_best(subjects, "assay", sizes, timeout=PATIENCE)
    ours = graded_at_best(subjects, "assay", sizes, MIXED, timeout=PATIENCE)
    found: dict[str, dict[str, Any] | None] = {}
    for name in PEERS:
        with serving(**MIXED) as endpoint:
            found[name] = graded(subjects, name, endpoint, sizes, timeout=PATIENCE)
    rows: list[Any] = [
        Row("faults: time", _field(ours, "seconds"), _field(clean, "seconds"), "s", "clean", Target(2.0, "at most")),
        Check("faults: verdicts", _verdicts(ours), "none wrong", ours is not None and ours["wrong"] == 0),
    ]
    for name in PEERS:
        rows += [
            Row("faults: time", _field(ours, "seconds"), _field(found[name], "seconds"), "s", name),
            Check(f"faults: verdicts, {name}", _verdicts(found[name]), "", None),
        ]
    return rows


def _field(figures: dict[str, Any] | None, name: str) -> float | None:
    return None if figures is None else figures[name]


def _calls(figures: dict[str, Any] | None) -> int | None:
    return None if figures is None else figures["server"]["calls"]


def _cpu(figures: dict[str, Any] | None) -> float | None:
    """Milliseconds a call."""
    return None if figures is None else figures["cpu_seconds"] / figures["asked"] * 1000


def _share(figures: dict[str, Any] | None) -> float | None:
    if figures is None:
        return None
    return figures["server"]["cached_tokens"] / figures["server"]["prompt_tokens"]


def _shared(figures: dict[str, Any] | None) -> str:
    share = _share(figures)
    if figures is None or share is None:
        return "not measured"
    counts = figures["server"]
    user = counts["user_cached_tokens"] / max(1, counts["user_tokens"])
    return f"{share:.1%} of all, {user:.1%} after the system prompt"


def _most(figures: dict[str, Any] | None) -> bool:
    share = _share(figures)
    return share is not None and share >= 0.8


def _verdicts(figures: dict[str, Any] | None) -> str:
    if figures is None:
        return "not measured"
    right = figures["asked"] - figures["missing"] - figures["wrong"]
    return f"{right} right, {figures['wrong']} wrong, {figures['missing']} without one"


MEASURES = {"clean": measure_clean, "cache": measure_cache, "faults": measure_faults}
