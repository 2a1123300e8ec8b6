"""Measure runs: scoring a file of rollouts, and evaluating a model: `python benchmarks/runs.py`.

Prints a table and writes it into benchmarks/RESULTS.md. Targets that are missed are written as missed.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import (
    Check,
    Limit,
    Row,
    Subjects,
    Target,
    add_options,
    all_subjects,
    as_table,
    install,
    plain_table,
    run_worker,
    save_results,
    say,
    worker,
)

# Score a file of rollouts into a run's folder: `runs.py --worker score ROWS RUBRIC FOLDER [CALLS]`.

# With CALLS, every rollout that is scored adds a byte to that file, and the folder is resumed.


def score_main() -> None:
    from assay import Criterion, Rubric, rows_of
    from assay.runs import score_rows

    rows, file, folder, *noted = sys.argv[1:]
    rubric = Rubric.from_file(file)
    if noted:
        calls = os.open(noted[0], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def counted() -> float:
            return os.write(calls, b".")

        metric = Criterion(check=counted, weight=0, name="counted")
        rubric = Rubric([*rubric.criteria, metric])
    asyncio.run(score_rows(rubric, rows_of(rows), folder=folder, resume=bool(noted)))


# What is measured of scoring a file: rollouts per CPU second, peak memory, and what a kill costs.

# Everything runs in a fresh process of its own. CPU seconds and peak memory are the whole process's, its
# start included, as the system counts them when it ends.

RUBRIC = """\
- check: {contains: "The answer is"}
  weight: 2
- check: {max_words: 60}
- check: exact_match
  weight: 0.5
"""
WORDS = (
    "the",
    "heat",
    "pump",
    "pays",
    "for",
    "itself",
    "in",
    "seven",
    "to",
    "nine",
    "years",
    "where",
    "winters",
    "are",
    "mild",
    "and",
    "power",
    "is",
    "cheap",
)


@dataclass(frozen=True)
class ScoreSizes:
    """How many lines; the defaults are what the targets speak of."""

    lines: int = 100_000
    few: int = 10_000
    many: int = 400_000
    rounds: int = 3
    kills: int = 10


SCORE_QUICK = ScoreSizes(lines=3_000, few=1_000, many=6_000, rounds=1, kills=2)


@dataclass(frozen=True)
class Taken:
    """What a process took."""

    cpu: float
    """Seconds, of user and system."""
    peak: float
    """Megabytes."""


def score_measure(quick: bool, say: Callable[[str], None]) -> tuple[list[Row | Check], list[str]]:
    """The rows of the table, and what has to be said about them."""
    sizes = SCORE_QUICK if quick else ScoreSizes()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), sizes, say)
        return [*bench.rates(), *bench.memory(), *bench.kills()], []


class Bench:
    """Files to score, and runs of them."""

    def __init__(self, folder: Path, sizes: ScoreSizes, say: Callable[[str], None]) -> None:
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
        folder, command = self._new_run(), [sys.executable, *worker("runs.py:score")]
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
        with closing(sqlite3.connect(folder / "run.assay")) as connection:
            saved = [example for (example,) in connection.execute("SELECT example FROM rollouts")]
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
        return _taken(
            [sys.executable, *worker("runs.py:score"), str(self._file(lines)), *self._rest()]
        )

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


def _wait_for_start(process: subprocess.Popen[bytes], noted: Path) -> None:
    """Until its first check has run, so that kills meet the work and not the imports."""
    before = noted.stat().st_size if noted.exists() else 0
    while process.poll() is None and (not noted.exists() or noted.stat().st_size == before):
        time.sleep(0.005)


# The endpoint that evaluations ask: one answer, after a fixed time, at next to no cost of its own.

# Started in a process of its own; its only argument is the seconds an answer takes. Prints its address and
# serves until its standard input closes. It does so little because a burst of a hundred calls must not
# wait for it: then it would be the server that is measured.

SERVER_ANSWER = "The heat pump moves warmth instead of making it, so it gives back three times what it draws: 42"
REPLY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "model-2026-01-01",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": SERVER_ANSWER},
            "finish_reason": "stop",
            "logprobs": None,
        }
    ],
    "usage": {"prompt_tokens": 60, "completion_tokens": 20, "total_tokens": 80},
}


class Connection(asyncio.Protocol):
    """Answers one request after the other, each when its time has come."""

    def __init__(self, latency: float) -> None:
        body = json.dumps(REPLY).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._answer = head.encode() + body
        self._latency = latency
        self._loop = asyncio.get_running_loop()
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].lower()
            found = head.find(b"content-length:")
            length = int(head[found + 15 :].split(b"\r\n", 1)[0]) if found >= 0 else 0
            if len(self._buffer) < end + 4 + length:
                return
            self._buffer = self._buffer[end + 4 + length :]
            self._loop.call_later(self._latency, self._transport.write, self._answer)


async def serve(latency: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(latency), "127.0.0.1", 0, backlog=1024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


# Evaluate a model over HTTP with one subject, and print what it took as a JSON line.

# Started in a fresh process by `harness.py`; its only argument is the task as JSON: `subject`, `url`,
# `rollouts`, `concurrency` and, for assay, `way`: by a `name`, or by a `client` of the openai package.

Evaluate = Callable[[int], Awaitable[list[float]]]
"""So many rollouts, and the reward of each."""

ANSWER = "42"


def rows(count: int) -> list[dict[str, str]]:
    return [
        {"question": f"Question {n}: why does a heat pump pay for itself?", "answer": ANSWER}
        for n in range(count)
    ]


def ends_right(completion: Any, answer: str) -> float:
    """Whether the last message ends in the answer."""
    last = completion[-1]
    content = last["content"] if isinstance(last, dict) else last.content
    return float(content.endswith(answer))


def with_assay(task: dict[str, Any]) -> Evaluate:
    assay: Any = importlib.import_module("assay")
    envs: Any = importlib.import_module("assay.envs")
    env = envs.SingleTurnEnv(
        rows(task["rollouts"]), rubric=assay.Rubric([ends_right]), system_prompt="Answer."
    )
    asked: dict[str, Any] = {"model": f"{task['url']}#model"}
    if task.get("way") == "client":
        openai: Any = importlib.import_module("openai")
        client = openai.AsyncOpenAI(base_url=task["url"], api_key="none")
        asked = {"client": client, "model": "model"}

    async def evaluate(count: int) -> list[float]:
        results = await env.evaluate(
            **asked, num_examples=count, max_concurrent=task["concurrency"]
        )
        return results["reward"]

    return evaluate


def with_verifiers(task: dict[str, Any]) -> Evaluate:
    vf: Any = importlib.import_module("verifiers")
    clients: Any = importlib.import_module("verifiers.clients")
    datasets: Any = importlib.import_module("datasets")
    openai: Any = importlib.import_module("openai")
    datasets.disable_progress_bars()
    env = vf.SingleTurnEnv(
        dataset=datasets.Dataset.from_list(rows(task["rollouts"])),
        rubric=vf.Rubric(funcs=[ends_right]),
        system_prompt="Answer.",
    )
    client = clients.OpenAIChatCompletionsClient(
        openai.AsyncOpenAI(base_url=task["url"], api_key="none")
    )

    async def evaluate(count: int) -> list[float]:
        results = await env.evaluate(
            client,
            "model",
            num_examples=count,
            rollouts_per_example=1,
            max_concurrent=task["concurrency"],
            # Without it there is a progress bar, which is nobody's work.
            on_start=lambda *given: None,
            on_progress=lambda *given: None,
        )
        return [output["reward"] for output in results["outputs"]]

    return evaluate


SUBJECTS: dict[str, Callable[[dict[str, Any]], Evaluate]] = {
    "assay": with_assay,
    "verifiers": with_verifiers,
}


async def evaluate_measure(task: dict[str, Any]) -> dict[str, float]:
    """Seconds and CPU seconds of the evaluation, after a small one that imports and connects."""
    evaluate = SUBJECTS[task["subject"]](task)
    await evaluate(task["concurrency"])
    wall, cpu = time.perf_counter(), time.process_time()
    rewards = await evaluate(task["rollouts"])
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "seconds": wall,
        "cpu_seconds": cpu,
        "rollouts": len(rewards),
        "right": sum(reward == 1.0 for reward in rewards),
    }


def evaluate_main() -> None:
    print(json.dumps(asyncio.run(evaluate_measure(json.loads(sys.argv[1])))))


# What an evaluation over HTTP takes, against the ideal and against verifiers on the same endpoint.

# `python benchmarks/runs.py --only evaluate` measures it; the endpoint is `runs_server.py`.

HERE = Path(__file__).parent
WORKER = "runs.py:evaluate"
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
    command = [sys.executable, *worker("runs.py:server"), str(LATENCY)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.stdin.close()


def measure_evaluate(
    quick: bool, say: Callable[[str], None]
) -> tuple[list[Row | Check], list[str]]:
    """Rows and notes."""
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
    tenth = Target(1 / 10, "at most")
    return [
        Row(
            f"{label}: time",
            _least(named, "seconds"),
            sizes.ideal,
            "s",
            "ideal",
            Target(1.3, "at most"),
        ),
        Row(f"{label}: time", _least(named, "seconds"), _least(theirs, "seconds"), "s", PEER),
        Row(f"{label}: CPU a rollout", _cpu(named), _cpu(theirs), "ms", PEER, tenth),
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


MEASURES = {"score": score_measure, "evaluate": measure_evaluate}
"""Each a module with `measure(quick, say)`, which gives rows and notes."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    rows, notes = [], []
    try:
        for name in options.only or MEASURES:
            found, told = MEASURES[name](options.quick, say)
            rows += found
            notes += told
    except KeyboardInterrupt:
        say("stopped; nothing was saved")
        return 130
    table = as_table(rows)
    print(plain_table(table))
    for note in notes:
        print(f"note: {note}")
    save_results("runs", [table], notes, options)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="runs.py", description=(__doc__ or "").strip())
    add_options(parser, list(MEASURES))
    return parser


if __name__ == "__main__":
    run_worker(
        sys.argv,
        {
            "score": score_main,
            "server": lambda: asyncio.run(serve(float(sys.argv[1]))),
            "evaluate": evaluate_main,
        },
    )
    sys.exit(main())
