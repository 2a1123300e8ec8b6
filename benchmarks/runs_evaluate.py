"""What an evaluation over HTTP takes, against the ideal and against verifiers on the same endpoint.

`python benchmarks/runs.py --only evaluate` measures it; the endpoint is `runs_server.py`.
"""

import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peers import install
from rows import Check, Row, Target
from subjects import Subjects, all_subjects

HERE = Path(__file__).parent
WORKER = "runs_evaluate_worker.py"
LATENCY = 0.05
PEER = "verifiers"
PEERS = (PEER,)

Figures = dict[str, Any] | None


@dataclass(frozen=True)
class Sizes:
    """How much work; the defaults are what the targets speak of."""

    rollouts: int = 1000
    concurrency: int = 100
    rounds: int = 3

    @property
    def ideal(self) -> float:
        """Seconds, if nothing but the endpoint took any."""
        return LATENCY * -(-self.rollouts // self.concurrency)


QUICK = Sizes(rollouts=200, concurrency=50, rounds=1)


@contextmanager
def serving() -> Generator[str]:
    """The address of the endpoint, in a process of its own."""
    command = [sys.executable, str(HERE / "runs_server.py"), str(LATENCY)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.stdin.close()


def measure(quick: bool, say: Callable[[str], None]) -> tuple[list[Row | Check], list[str]]:
    """Rows and notes, as `runs.py` asks for them."""
    installed = install(PEERS, say=say)
    subjects = all_subjects(installed.interpreters, say=say)
    rows = rows_of(subjects, QUICK if quick else Sizes())
    return rows, [*installed.failures, *subjects.notes]


def rows_of(subjects: Subjects, sizes: Sizes) -> list[Row | Check]:
    """Time and CPU a rollout: by the name of an endpoint, and by a client as the peer has one."""
    with serving() as url:
        found = [_round(subjects, url, sizes) for _ in range(sizes.rounds)]
    named, client, theirs = (list(figures) for figures in zip(*found, strict=True))
    label = f"evaluate, {sizes.rollouts:,} rollouts, {sizes.concurrency} at once, {LATENCY * 1000:.0f} ms"
    half = Target(1 / 2, "at most")
    return [
        Row(f"{label}: time", _least(named, "seconds"), sizes.ideal, "s", "ideal", Target(1.3, "at most")),
        Row(f"{label}: time", _least(named, "seconds"), _least(theirs, "seconds"), "s", PEER),
        Row(f"{label}: CPU a rollout", _cpu(named), _cpu(theirs), "ms", PEER, half),
        Row(f"{label}: CPU a rollout, by an openai client", _cpu(client), _cpu(theirs), "ms", PEER),
        Check("rewards", _right(named, sizes), f"{sizes.rollouts} right", _all_right(named, sizes)),
        Check(f"rewards, {PEER}", _right(theirs, sizes), "", None),
    ]


def _round(subjects: Subjects, url: str, sizes: Sizes) -> tuple[Figures, Figures, Figures]:
    """Each subject once, in turn, so that a slow moment of the machine meets all of them."""
    task = {"url": url, "rollouts": sizes.rollouts, "concurrency": sizes.concurrency}
    return (
        subjects.measure("assay", WORKER, way="name", **task),
        subjects.measure("assay", WORKER, way="client", **task),
        subjects.measure(PEER, WORKER, **task),
    )


def _least(found: list[Figures], field: str) -> float | None:
    return min((figures[field] for figures in found if figures is not None), default=None)


def _cpu(found: list[Figures]) -> float | None:
    """Milliseconds a rollout."""
    costs = (f["cpu_seconds"] / f["rollouts"] * 1000 for f in found if f is not None)
    return min(costs, default=None)


def _right(found: list[Figures], sizes: Sizes) -> str:
    rights = [figures["right"] for figures in found if figures is not None]
    return f"{min(rights)} of {sizes.rollouts} right" if rights else "not measured"


def _all_right(found: list[Figures], sizes: Sizes) -> bool:
    return all(figures is not None and figures["right"] == sizes.rollouts for figures in found)
