"""What is measured of scoring a file: rollouts per CPU second, peak memory, and what a kill costs.

Everything runs in a fresh process of its own. CPU seconds and peak memory are the whole process's, its
start included, as the system counts them when it ends.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rows import Check, Limit, Row

HERE = Path(__file__).parent
RUBRIC = """\
- check: {contains: "The answer is"}
  weight: 2
- check: {max_words: 60}
- check: exact_match
  weight: 0.5
"""
WORDS = (
    "the", "heat", "pump", "pays", "for", "itself", "in", "seven", "to", "nine", "years", "where",
    "winters", "are", "mild", "and", "power", "is", "cheap",
)  # fmt: skip


@dataclass(frozen=True)
class Sizes:
    """How many lines; the defaults are what the targets speak of."""

    lines: int = 100_000
    few: int = 10_000
    many: int = 400_000
    rounds: int = 3
    kills: int = 10


QUICK = Sizes(lines=3_000, few=1_000, many=6_000, rounds=1, kills=2)


@dataclass(frozen=True)
class Taken:
    """What a process took."""

    cpu: float
    """Seconds, of user and system."""
    peak: float
    """Megabytes."""


def measure(quick: bool, say: Callable[[str], None]) -> tuple[list[Row | Check], list[str]]:
    """The rows of the table, and what has to be said about them."""
    sizes = QUICK if quick else Sizes()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), sizes, say)
        return [*bench.rates(), *bench.memory(), *bench.kills()], []


class Bench:
    """Files to score, and runs of them."""

    def __init__(self, folder: Path, sizes: Sizes, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._sizes = sizes
        self._say = say
        self._number = 0
        self._rubric = folder / "rubric.yaml"
        self._rubric.write_text(RUBRIC)

    def rates(self) -> Iterator[Row]:
        """Rollouts per CPU second, through the library and through the command."""
        lines = self._sizes.lines
        target = Limit(20_000, "at least", "rollouts/s")
        ways = {"score_rows": self._by_library, "assay score": self._by_command}
        for name, way in ways.items():
            taken = [way(lines) for _ in range(self._sizes.rounds)]
            best = min(each.cpu for each in taken)
            self._say(f"{name}: {', '.join(f'{each.cpu:.2f}' for each in taken)} CPU seconds")
            said = f"{name}, {lines:,} lines, 3 checks, journal and start included"
            yield Row(said, lines / best, None, "rollouts/s", target=target)

    def memory(self) -> Iterator[Row | Check]:
        """Peak memory at three sizes, which should be one."""
        sizes = (self._sizes.few, self._sizes.lines, self._sizes.many)
        peaks = [min(self._by_command(lines).peak for _ in range(2)) for lines in sizes]
        for lines, peak in zip(sizes, peaks, strict=True):
            yield Row(f"peak memory of assay score, {lines:,} lines", peak, None, "MB")
        grown, rows = peaks[-1] - peaks[0], sizes[-1] - sizes[0]
        found = f"{grown:+.1f} MB over {rows:,} more lines"
        yield Check("memory grows with the file", found, "under 10 MB: it streams", grown < 10)

    def kills(self) -> Iterator[Check]:
        """A process killed at random moments and resumed: how many rollouts were scored twice."""
        lines, noted = self._sizes.few, self._folder / "calls"
        folder, command = self._new_run(), [sys.executable, str(HERE / "runs_score_worker.py")]
        command += [str(self._file(lines)), str(self._rubric), str(folder), str(noted)]
        whole = self._seconds(command, folder, noted)
        moments = random.Random(7)
        for _ in range(self._sizes.kills):
            process = subprocess.Popen(command)
            _wait_for_start(process, noted)
            time.sleep(moments.uniform(0, 1.5 * whole / self._sizes.kills))
            process.send_signal(signal.SIGKILL)
            process.wait()
        subprocess.run(command, check=True)
        scored = noted.stat().st_size
        saved = [json.loads(line)["example"] for line in (folder / "rollouts.jsonl").open("rb")]
        again = scored - lines
        each = again / self._sizes.kills
        right = len(saved) == len(set(saved)) == lines
        found = f"{again:,} of {lines:,} again after {self._sizes.kills} kills, {each:.0f} a kill"
        found += "" if right else f"; {len(saved)} rows saved, {len(set(saved))} of them different"
        expected = "every row once, and a chunk of at most 256 again a kill"
        yield Check("scored again after a kill", found, expected, right and each <= 256)

    def _seconds(self, command: Sequence[str], folder: Path, noted: Path) -> float:
        """How long scoring takes without a kill, from its first check on."""
        process = subprocess.Popen(command)
        _wait_for_start(process, noted)
        started = time.perf_counter()
        process.wait()
        taken = time.perf_counter() - started
        for path in (*folder.iterdir(), noted):
            path.unlink()
        return taken

    def _by_library(self, lines: int) -> Taken:
        worker = HERE / "runs_score_worker.py"
        return _taken([sys.executable, str(worker), str(self._file(lines)), *self._rest()])

    def _by_command(self, lines: int) -> Taken:
        rubric, folder = self._rest()
        command = [sys.executable, "-m", "assay", "score", str(self._file(lines))]
        return _taken([*command, "-r", rubric, "-o", folder])

    def _rest(self) -> tuple[str, str]:
        return str(self._rubric), str(self._new_run())

    def _new_run(self) -> Path:
        self._number += 1
        return self._folder / f"run-{self._number}"

    def _file(self, lines: int) -> Path:
        path = self._folder / f"{lines}.jsonl"
        if not path.exists():
            _write(path, lines)
        return path


def _write(path: Path, lines: int) -> None:
    """Rollouts of about 400 bytes, the same each time."""
    drawn = random.Random(lines)
    with path.open("w", encoding="utf-8") as file:
        for number in range(lines):
            answer = drawn.randrange(1000)
            said = answer if drawn.random() < 0.6 else answer + 1
            prompt = f"{' '.join(drawn.choices(WORDS, k=15))}: what is {answer} + 0?"
            completion = f"{' '.join(drawn.choices(WORDS, k=40))}. The answer is {said}."
            row = {"id": f"q-{number}", "prompt": prompt, "completion": completion}
            file.write(json.dumps({**row, "answer": str(answer)}) + "\n")


def _taken(command: Sequence[str]) -> Taken:
    """Run a command to its end."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {said}")
    return Taken(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def _wait_for_start(process: "subprocess.Popen[bytes]", noted: Path) -> None:
    """Until its first check has run, so that kills meet the work and not the imports."""
    before = noted.stat().st_size if noted.exists() else 0
    while process.poll() is None and (not noted.exists() or noted.stat().st_size == before):
        time.sleep(0.005)
