"""Run a subject in a fresh process of its own interpreter and bring its figures back.

A fresh process each time: nothing one subject imported, cached or freed can help or hurt another.
"""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RUN_SECONDS = 1800
# Would keep .pyc files from being written, or lead an import elsewhere.
_UNSET = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONPROFILEIMPORTTIME")
_SET = {
    "PYTHONHASHSEED": "0",
    # litellm fetches a price list when imported, and retries in a thread: its shipped copy
    # does as well, and costs autorubric less.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "HF_HUB_OFFLINE": "1",
}


class SubjectError(Exception):
    """A subject's process failed; the message is its last line."""


@dataclass(frozen=True)
class Subjects:
    """Who can be measured. A subject that fails gives None and leaves a sentence in `notes`."""

    interpreters: dict[str, Path]
    say: Callable[[str], None]
    notes: list[str] = field(default_factory=list[str])

    def measure(self, subject: str, worker: str, **task: Any) -> dict[str, Any] | None:
        """The figures `worker` prints for `subject`; None when it cannot be run."""
        if subject not in self.interpreters:
            return None
        details = ", ".join(f"{name} {value}" for name, value in task.items())
        self.say(f"{worker} {subject}: {details}")
        text = json.dumps({"subject": subject, **task})
        try:
            printed, _ = _run((str(self.interpreters[subject]), str(HERE / worker), text))
        except SubjectError as error:
            self._note(f"{subject} could not be measured by {worker}: {error}")
            return None
        # The last line: an imported package may print lines of its own first.
        return json.loads(printed.splitlines()[-1])

    def cpu_of(self, subject: str, statement: str, *, repeats: int) -> float | None:
        """Least CPU seconds, user and system, of an interpreter that runs one statement.

        Runs once more than asked, before the rest, so that compiled files are there.
        """
        if subject not in self.interpreters:
            return None
        self.say(f"python -c {statement!r} ({subject}'s interpreter): {repeats} times")
        command = (str(self.interpreters[subject]), "-c", statement)
        try:
            return min([_run(command)[1] for _ in range(repeats + 1)][1:])
        except SubjectError as error:
            self._note(f"{statement!r} could not be measured: {error}")
            return None

    def _note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)


def _run(command: tuple[str, ...]) -> tuple[str, float]:
    """What the command printed, and the CPU seconds it took."""
    before = _children_seconds()
    try:
        done = subprocess.run(
            command, cwd=HERE, env=environment(), capture_output=True, text=True, timeout=RUN_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise SubjectError(f"no end after {RUN_SECONDS} s") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise SubjectError(lines[-1].strip())
    return done.stdout, _children_seconds() - before


def _children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _UNSET}
    return kept | _SET


def all_subjects(peers: dict[str, Path], *, say: Callable[[str], None]) -> Subjects:
    """assay in the interpreter that runs the benchmark, each peer in its own."""
    return Subjects({"assay": Path(sys.executable), **peers}, say)
