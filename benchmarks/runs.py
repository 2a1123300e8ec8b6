"""Measure runs: scoring a file of rollouts, and evaluating a model: `python benchmarks/runs.py`.

Prints a table and writes it into benchmarks/RESULTS.md. Targets that are missed are written as missed.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import math
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

# Score a file of rollouts into a run's folder: `runs.py --worker score ROWS RUBRIC FOLDER [LOG]`.

# With LOG, every rollout that is scored adds a byte to that file, and the run in FOLDER is resumed.


def score_main() -> None:
    from assay import Criterion, Rubric, rows_of
    from assay.runs import score_rows

    rows, rubric_file, folder, *optional = sys.argv[1:]
    rubric = Rubric.from_file(rubric_file)
    if optional:
        log = os.open(optional[0], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def log_call() -> float:
            return os.write(log, b".")

        metric = Criterion(check=log_call, weight=0, name="logged")
        rubric = Rubric([*rubric.criteria, metric])
    asyncio.run(score_rows(rubric, rows_of(rows), folder=folder, resume=bool(optional)))


# Measure scoring a file: rollouts per CPU second, peak memory, and what a killed process costs.

# Every measurement runs in a new process. CPU seconds and peak memory are those of the whole process,
# including its start, as the system counts them when it ends.

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
    """How much to measure; the targets are for the defaults."""

    lines: int = 100_000
    few: int = 10_000  # lines of the smallest file
    many: int = 400_000  # lines of the largest file
    rounds: int = 3
    kills: int = 10


SCORE_QUICK = ScoreSizes(lines=3_000, few=1_000, many=6_000, rounds=1, kills=2)


@dataclass(frozen=True)
class ProcessUsage:
    """What a process used."""

    cpu_seconds: float  # user and system
    peak_megabytes: float


def measure_score(quick: bool, say: Callable[[str], None]) -> tuple[list[Row | Check], list[str]]:
    """Return the rows of the table, and notes about them."""
    sizes = SCORE_QUICK if quick else ScoreSizes()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), sizes, say)
        return [*bench.rates(), *bench.memory(), *bench.kills()], []


class Bench:
    """Writes files of rollouts, and scores them in new processes."""

    def __init__(self, folder: Path, sizes: ScoreSizes, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._sizes = sizes
        self._say = say
        self._number = 0
        self._rubric = folder / "rubric.yaml"
        self._rubric.write_text(RUBRIC)

    def rates(self) -> Iterator[Row]:
        """Yield the rollouts per CPU second, through the library and through the command."""
        lines = self._sizes.lines
        target = Limit(20_000, "at least", "rollouts/s")
        methods = {"score_rows": self._score_by_library, "assay score": self._score_by_command}
        for name, score in methods.items():
            seconds = [score(lines).cpu_seconds for _ in range(self._sizes.rounds)]
            self._say(f"{name}: {', '.join(f'{value:.2f}' for value in seconds)} CPU seconds")
            yield Row(
                f"{name}, {lines:,} lines, 3 checks, journal and start included",
                lines / min(seconds),
                None,
                "rollouts/s",
                target=target,
            )

    def memory(self) -> Iterator[Row | Check]:
        """Yield the peak memory for files of three sizes, which should not differ."""
        sizes = (self._sizes.few, self._sizes.lines, self._sizes.many)
        peaks: list[float] = []
        for lines in sizes:
            peak = min(self._score_by_command(lines).peak_megabytes for _ in range(2))
            peaks.append(peak)
            yield Row(f"peak memory of assay score, {lines:,} lines", peak, None, "MB")
        growth = peaks[-1] - peaks[0]
        more_lines = sizes[-1] - sizes[0]
        yield Check(
            "memory grows with the file",
            f"{growth:+.1f} MB over {more_lines:,} more lines",
            "under 10 MB: it streams",
            growth < 10,
        )

    def kills(self) -> Iterator[Check]:
        """Kill a process at random moments, resume it, and count the rollouts scored twice."""
        lines = self._sizes.few
        kills = self._sizes.kills
        log = self._folder / "calls"
        folder = self._new_run()
        command = [sys.executable, *worker("runs.py:score")]
        command += [str(self._file(lines)), str(self._rubric), str(folder), str(log)]
        seconds = self._time_without_kill(command, folder, log)
        rng = random.Random(7)
        for _ in range(kills):
            process = subprocess.Popen(command)
            _wait_for_first_check(process, log)
            time.sleep(rng.uniform(0, 1.5 * seconds / kills))
            process.send_signal(signal.SIGKILL)
            process.wait()
        subprocess.run(command, check=True)
        scored = log.stat().st_size
        with closing(sqlite3.connect(folder / "run.assay")) as connection:
            saved = [example for (example,) in connection.execute("SELECT example FROM rollouts")]
        repeated = scored - lines
        repeated_per_kill = repeated / kills
        is_complete = len(saved) == len(set(saved)) == lines
        result = (
            f"{repeated:,} of {lines:,} again after {kills} kills, {repeated_per_kill:.0f} a kill"
        )
        if not is_complete:
            result += f"; {len(saved)} rows saved, {len(set(saved))} of them different"
        yield Check(
            "scored again after a kill",
            result,
            "every row once, and a chunk of at most 256 again a kill",
            is_complete and repeated_per_kill <= 256,
        )

    def _time_without_kill(self, command: Sequence[str], folder: Path, log: Path) -> float:
        """Return the seconds that scoring takes from its first check on, and delete the run."""
        process = subprocess.Popen(command)
        _wait_for_first_check(process, log)
        started = time.perf_counter()
        process.wait()
        seconds = time.perf_counter() - started
        for path in (*folder.iterdir(), log):
            path.unlink()
        return seconds

    def _score_by_library(self, lines: int) -> ProcessUsage:
        command = [sys.executable, *worker("runs.py:score"), str(self._file(lines))]
        return _measure_command([*command, str(self._rubric), str(self._new_run())])

    def _score_by_command(self, lines: int) -> ProcessUsage:
        command = [sys.executable, "-m", "assay", "score", str(self._file(lines))]
        return _measure_command([*command, "-r", str(self._rubric), "-o", str(self._new_run())])

    def _new_run(self) -> Path:
        self._number += 1
        return self._folder / f"run-{self._number}"

    def _file(self, lines: int) -> Path:
        path = self._folder / f"{lines}.jsonl"
        if not path.exists():
            _write_rollouts(path, lines)
        return path


def _write_rollouts(path: Path, lines: int) -> None:
    """Write rollouts of about 400 bytes, the same ones in every run of the benchmark."""
    rng = random.Random(lines)
    with path.open("w", encoding="utf-8") as file:
        for number in range(lines):
            answer = rng.randrange(1000)
            is_right = rng.random() < 0.6
            response = answer if is_right else answer + 1
            prompt = f"{' '.join(rng.choices(WORDS, k=15))}: what is {answer} + 0?"
            completion = f"{' '.join(rng.choices(WORDS, k=40))}. The answer is {response}."
            row = {"id": f"q-{number}", "prompt": prompt, "completion": completion}
            file.write(json.dumps({**row, "answer": str(answer)}) + "\n")


def _measure_command(command: Sequence[str]) -> ProcessUsage:
    """Run a command to its end, and return what its process used."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    errors = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {errors}")
    return ProcessUsage(
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        peak_megabytes=usage.ru_maxrss / 1024,
    )


def _wait_for_first_check(process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the first check has run, so that a kill interrupts the work, not the imports."""
    size_before = log.stat().st_size if log.exists() else 0
    while process.poll() is None and (not log.exists() or log.stat().st_size == size_before):
        time.sleep(0.005)


# The endpoint that evaluations call: it gives one fixed reply after a fixed time.

# It runs in a process of its own; its only argument is the seconds until a reply. It prints its address
# and serves until its standard input closes. It does as little as possible, because a burst of a hundred
# calls must not wait for it: the benchmark would measure the server.

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
    """Answers each request of a connection after the same latency."""

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
            _, _, rest = self._buffer[:end].lower().partition(b"content-length:")
            length = int(rest.split(b"\r\n", 1)[0] or 0)
            end_of_body = end + 4 + length
            if len(self._buffer) < end_of_body:
                return
            self._buffer = self._buffer[end_of_body:]
            self._loop.call_later(self._latency, self._transport.write, self._answer)


async def serve(latency: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(latency), "127.0.0.1", 0, backlog=1024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


# Evaluate a model over HTTP with one subject, and print the time and CPU it used as a JSON line.

# `harness.py` starts it in a new process; its only argument is the task as JSON: `subject`, `url`,
# `rollouts`, `concurrency` and, for assay, `way`: by a `name`, or by a `client` of the openai package.

# Evaluates this many rollouts, and returns their rewards.
Evaluate = Callable[[int], Awaitable[list[float]]]

ANSWER = "42"


def rows(count: int) -> list[dict[str, str]]:
    return [
        {"question": f"Question {n}: why does a heat pump pay for itself?", "answer": ANSWER}
        for n in range(count)
    ]


def ends_right(completion: Any, answer: str) -> float:
    """Return 1 if the last message ends with the answer."""
    last = completion[-1]
    content = last["content"] if isinstance(last, dict) else last.content
    return float(content.endswith(answer))


def with_assay(task: dict[str, Any]) -> Evaluate:
    assay: Any = importlib.import_module("assay")
    envs: Any = importlib.import_module("assay.envs")
    env = envs.SingleTurnEnv(
        rows(task["rollouts"]), rubric=assay.Rubric([ends_right]), system_prompt="Answer."
    )
    model: dict[str, Any] = {"model": f"{task['url']}#model"}
    if task.get("way") == "client":
        openai: Any = importlib.import_module("openai")
        client = openai.AsyncOpenAI(base_url=task["url"], api_key="none")
        model = {"client": client, "model": "model"}

    async def evaluate(count: int) -> list[float]:
        results = await env.evaluate(
            **model, num_examples=count, max_concurrent=task["concurrency"]
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
            # Without these it draws a progress bar, which should not be measured.
            on_start=lambda *_: None,
            on_progress=lambda *_: None,
        )
        return [output["reward"] for output in results["outputs"]]

    return evaluate


SUBJECTS: dict[str, Callable[[dict[str, Any]], Evaluate]] = {
    "assay": with_assay,
    "verifiers": with_verifiers,
}


async def time_evaluation(task: dict[str, Any]) -> dict[str, float]:
    """Return the seconds and CPU seconds of an evaluation.

    A small one before it imports modules and opens connections.
    """
    evaluate = SUBJECTS[task["subject"]](task)
    await evaluate(task["concurrency"])
    started = time.perf_counter()
    cpu_before = time.process_time()
    rewards = await evaluate(task["rollouts"])
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu_before,
        "rollouts": len(rewards),
        "right": sum(reward == 1.0 for reward in rewards),
    }


def evaluate_main() -> None:
    print(json.dumps(asyncio.run(time_evaluation(json.loads(sys.argv[1])))))


# Compare an evaluation over HTTP with the ideal, and with verifiers on the same endpoint.

# `python benchmarks/runs.py --only evaluate` runs it; the endpoint is the worker `runs.py:server`.

HERE = Path(__file__).parent
WORKER = "runs.py:evaluate"
LATENCY = 0.05
PEER = "verifiers"
PEERS = (PEER,)

Figures = dict[str, Any] | None


@dataclass(frozen=True)
class Sizes:
    """How much to measure; the targets are for the defaults."""

    rollouts: int = 1000
    concurrency: int = 100
    rounds: int = 3

    @property
    def ideal(self) -> float:
        """The seconds it would take if only the endpoint needed time."""
        return LATENCY * math.ceil(self.rollouts / self.concurrency)


QUICK = Sizes(rollouts=200, concurrency=50, rounds=1)


@contextmanager
def serving() -> Generator[str]:
    """Run the endpoint in a process of its own; yield its address."""
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
    """Return the rows of the table, and notes about them."""
    installed = install(PEERS, say=say)
    subjects = all_subjects(installed.interpreters, say=say)
    rows = compare_evaluations(subjects, QUICK if quick else Sizes())
    return rows, [*installed.failures, *subjects.notes]


def compare_evaluations(subjects: Subjects, sizes: Sizes) -> list[Row | Check]:
    """Compare the time and CPU per rollout.

    assay is measured with the name of an endpoint, and with a client as the peer has one.
    """
    named: list[Figures] = []
    client: list[Figures] = []
    peer: list[Figures] = []
    with serving() as url:
        task = {"url": url, "rollouts": sizes.rollouts, "concurrency": sizes.concurrency}
        # The subjects take turns, so that a slow moment of the machine affects all of them.
        for _ in range(sizes.rounds):
            named.append(subjects.measure("assay", WORKER, way="name", **task))
            client.append(subjects.measure("assay", WORKER, way="client", **task))
            peer.append(subjects.measure(PEER, WORKER, **task))
    label = f"evaluate, {sizes.rollouts:,} rollouts, {sizes.concurrency} at once, {LATENCY * 1000:.0f} ms"
    seconds = _least_seconds(named)
    peer_cpu = _least_cpu(peer)
    tenth = Target(1 / 10, "at most")
    return [
        Row(f"{label}: time", seconds, sizes.ideal, "s", "ideal", Target(1.3, "at most")),
        Row(f"{label}: time", seconds, _least_seconds(peer), "s", PEER),
        Row(f"{label}: CPU a rollout", _least_cpu(named), peer_cpu, "ms", PEER, tenth),
        Row(
            f"{label}: CPU a rollout, by an openai client",
            _least_cpu(client),
            peer_cpu,
            "ms",
            PEER,
        ),
        Check(
            "rewards",
            _count_right(named, sizes),
            f"{sizes.rollouts} right",
            all(figures is not None and figures["right"] == sizes.rollouts for figures in named),
        ),
        Check(f"rewards, {PEER}", _count_right(peer, sizes), "", None),
    ]


def _least_seconds(rounds: list[Figures]) -> float | None:
    return min((figures["seconds"] for figures in rounds if figures is not None), default=None)


def _least_cpu(rounds: list[Figures]) -> float | None:
    """Return the fewest CPU milliseconds per rollout; None if no round was measured."""
    milliseconds = [
        1000 * figures["cpu_seconds"] / figures["rollouts"]
        for figures in rounds
        if figures is not None
    ]
    return min(milliseconds, default=None)


def _count_right(rounds: list[Figures], sizes: Sizes) -> str:
    counts = [figures["right"] for figures in rounds if figures is not None]
    if not counts:
        return "not measured"
    return f"{min(counts)} of {sizes.rollouts} right"


MEASURES = {"score": measure_score, "evaluate": measure_evaluate}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    rows, notes = [], []
    try:
        for name in options.only or MEASURES:
            new_rows, new_notes = MEASURES[name](options.quick, say)
            rows += new_rows
            notes += new_notes
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
