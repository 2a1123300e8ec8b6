"""Measure judging over HTTP against rubric and autorubric: `python benchmarks/judging.py`.

All of them ask one local endpoint that takes 50 ms an answer. Prints a table and adds it to
benchmarks/RESULTS.md. Targets that are missed are written as missed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness import (
    CRITERIA,
    QUERY,
    Check,
    Row,
    Subjects,
    Target,
    add_options,
    all_subjects,
    as_table,
    build_responses,
    install,
    plain_table,
    run_worker,
    save_results,
    say,
    verdict_on,
    worker,
)

# The endpoint that all subjects ask: a fixed latency, faults on demand, and it counts.

# Started in a process of its own; its only argument is the task as JSON: `latency`, and `faults`, the
# share of each kind. Prints its address and serves until its standard input closes.


def answer(system: str, user: str) -> dict[str, str]:
    """A verdict by the words of the criterion that is asked about."""
    [requirement] = [c["requirement"] for c in CRITERIA if c["requirement"] in user] or [""]
    verdict = verdict_on(requirement)
    return {
        "explanation": "The response says so in its second sentence.",
        "criterion_status": verdict,
    }


def server_main() -> None:
    from assay.testing import Fault, ModelServer, mixed

    kinds = {
        "rate_limited": Fault.rate_limited(),
        "failing": Fault.failing(),
        "hanging": Fault.hanging(),
        "garbage": Fault.saying("As an AI language model, I think that it depends."),
    }
    # It keeps every call, and a look through all of them would hold up all callers.
    gc.disable()
    task = json.loads(sys.argv[1])
    faults = mixed({kinds[kind]: share for kind, share in task["faults"].items()})
    with ModelServer(answer, latency=task["latency"], faults=faults, name="judge") as server:
        print(server.url, flush=True)
        sys.stdin.read()


# Grade texts with one subject over HTTP, and print what it took as a JSON line.

# Started in a fresh process by `harness.py`; its only argument is the task as JSON: `subject`, `url`,
# `responses`, `concurrency`, `timeout`, and for assay `cache` and `changed`.

Verdicts = list[tuple[str, str | None]]
"""Requirement and verdict of each criterion; None where there is none."""
Grade = Callable[[list[str]], Awaitable[list[Verdicts]]]

CHANGED = "Says how loud the outdoor unit is"
# A model of litellm's price list: an unknown one makes every cost look-up fail, and slower.
AUTORUBRIC_MODEL = "openai/gpt-4o-mini"
ATTEMPTS = 10


def criteria(task: dict[str, Any]) -> list[dict[str, Any]]:
    """The criteria, the first of them in other words on request."""
    asked = [dict(criterion) for criterion in CRITERIA]
    if task.get("changed"):
        asked[0]["requirement"] = CHANGED
    return asked


def with_assay(task: dict[str, Any]) -> Grade:
    assay: Any = importlib.import_module("assay")
    limits = assay.Limits(
        concurrency=task["concurrency"], timeout=task["timeout"], attempts=ATTEMPTS
    )
    model = assay.model_of(f"{task['url']}#judge", limits=limits, cache=task.get("cache"))
    grader = assay.PerCriterionGrader(model=model)
    rubric = assay.Rubric.from_dict(criteria(task))

    async def grade(texts: list[str]) -> list[Verdicts]:
        rollouts = [assay.Rollout(prompt=QUERY, completion=text) for text in texts]
        reports = await rubric.score(rollouts, autograder=grader)
        return [[(line.requirement, line.verdict) for line in r.report] for r in reports]

    return grade


def with_rubric(task: dict[str, Any]) -> Grade:
    """As its README asks OpenAI, but with one client for all calls and a limit on them."""
    rubric_package: Any = importlib.import_module("rubric")
    graders: Any = importlib.import_module("rubric.autograders")
    openai: Any = importlib.import_module("openai")
    output = rubric_package.PerCriterionOutput
    schema = {"name": "criterion_output", "schema": output.model_json_schema()}
    places = asyncio.Semaphore(task["concurrency"])
    client = openai.AsyncOpenAI(
        api_key="none", base_url=task["url"], timeout=task["timeout"], max_retries=ATTEMPTS - 1
    )

    async def ask(system_prompt: str, user_prompt: str) -> Any:
        async with places:
            response = await client.chat.completions.create(
                model="judge",
                messages=[
                    {"role": "system", "content": system_prompt},
                    {"role": "user", "content": user_prompt},
                ],
                response_format={"type": "json_schema", "json_schema": schema},
                temperature=0.0,
            )
        return output.model_validate_json(response.choices[0].message.content)

    grader = graders.PerCriterionGrader(generate_fn=ask)
    rubric = rubric_package.Rubric.from_dict(criteria(task))
    return one_by_one(
        lambda text: rubric.grade(text, autograder=grader, query=QUERY),
        lambda report: [(line.requirement, line.verdict) for line in report.report],
    )


def with_autorubric(task: dict[str, Any]) -> Grade:
    autorubric: Any = importlib.import_module("autorubric")
    graders: Any = importlib.import_module("autorubric.graders")
    config = autorubric.LLMConfig(
        model=AUTORUBRIC_MODEL,
        api_base=task["url"],
        api_key="none",
        temperature=0.0,
        timeout=task["timeout"],
        max_retries=ATTEMPTS,
        retry_min_wait=0.05,
        max_parallel_requests=task["concurrency"],
    )
    grader = graders.CriterionGrader(judge_model_config=config)
    rubric = autorubric.Rubric.from_dict(criteria(task))
    return one_by_one(
        lambda text: rubric.grade(text, grader=grader, query=QUERY),
        lambda report: [
            (line.criterion.requirement, None if line.error else line.final_verdict.value)
            for line in report.report
        ],
    )


def one_by_one(
    grade: Callable[[str], Awaitable[Any]], verdicts: Callable[[Any], Verdicts]
) -> Grade:
    """All texts side by side. A text whose grading raises has no verdicts at all."""

    async def grade_all(texts: list[str]) -> list[Verdicts]:
        reports = await asyncio.gather(*(grade(text) for text in texts), return_exceptions=True)
        nothing: Verdicts = [(c["requirement"], None) for c in CRITERIA]
        return [nothing if isinstance(r, BaseException) else verdicts(r) for r in reports]

    return grade_all


SUBJECTS: dict[str, Callable[[dict[str, Any]], Grade]] = {
    "assay": with_assay,
    "rubric": with_rubric,
    "autorubric": with_autorubric,
}


async def measure(task: dict[str, Any]) -> dict[str, float]:
    """Seconds and CPU seconds of one run over fresh texts, and what became of the verdicts."""
    grade = SUBJECTS[task["subject"]](task)
    if task.get("announce"):
        print("ready", flush=True)
    texts = build_responses(task["responses"])
    # The first call imports and connects; it is asked about a text of its own.
    await grade(["a text to begin with"])
    wall, cpu = time.perf_counter(), time.process_time()
    results = await grade(texts)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    flat = [pair for verdicts in results for pair in verdicts]
    return {
        "seconds": wall,
        "cpu_seconds": cpu,
        "asked": len(flat),
        "missing": sum(verdict is None for _, verdict in flat),
        "wrong": sum(v is not None and v != verdict_on(requirement) for requirement, v in flat),
    }


def judging_main() -> None:
    task: dict[str, Any] = json.loads(sys.argv[1])
    print(json.dumps(asyncio.run(measure(task))))


# What is measured of judging, and the targets it is held to.

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
SMALL_RESPONSES = 30  # with ten criteria, 300 calls


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
    command = [sys.executable, *worker("judging.py:server"), task]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield Endpoint(server.stdout.readline().strip())
        server.stdin.close()


def graded(
    subjects: Subjects, subject: str, endpoint: Endpoint, sizes: Sizes, **task: Any
) -> dict[str, Any] | None:
    """The subject's figures and the endpoint's counts, of one run."""
    endpoint.reset()
    options = {"timeout": CLEAN_PATIENCE} | task
    figures = subjects.measure(
        subject,
        "judging.py:judging",
        url=endpoint.url,
        responses=sizes.responses,
        concurrency=sizes.concurrency,
        **options,
    )
    return None if figures is None else figures | {"server": endpoint.stats()}


def graded_at_best(
    subjects: Subjects,
    subject: str,
    sizes: Sizes,
    faults: dict[str, float] | None = None,
    **task: Any,
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
        Row(
            f"{label}: time",
            _field(ours, "seconds"),
            sizes.ideal,
            "s",
            "ideal",
            Target(1.15, "at most"),
        ),
        Row(f"{label}: CPU a call", _cpu(ours), 0.5, "ms", "target", Target(1.0, "at most")),
    ]
    for name, share in (("rubric", 1 / 10), ("autorubric", 1 / 20)):
        theirs = found[name]
        rows += [
            Row(f"{label}: time", _field(ours, "seconds"), _field(theirs, "seconds"), "s", name),
            Row(
                f"{label}: CPU a call",
                _cpu(ours),
                _cpu(theirs),
                "ms",
                name,
                Target(share, "at most"),
            ),
        ]
    expected = "at least 80 %"
    rows.append(Check("tokens that repeat a prefix", _shared(ours), expected, _most(ours)))
    rows += [Check(f"the same, {name}", _shared(found[name]), "", None) for name in PEERS]
    rows += [Check(f"verdicts, {name}", _verdicts(found[name]), "", None) for name in found]
    return rows


def measure_small(subjects: Subjects, sizes: Sizes) -> list[Any]:
    """Time and CPU of 300 calls, as an evaluation of everyday size makes them."""
    sizes = replace(sizes, responses=min(sizes.responses, SMALL_RESPONSES))
    ours = graded_at_best(subjects, "assay", sizes)
    label = f"{sizes.calls} calls of {LATENCY * 1000:.0f} ms"
    rows: list[Any] = []
    for name in PEERS:
        theirs = graded_at_best(subjects, name, sizes)
        rows += [
            Row(f"{label}: time", _field(ours, "seconds"), _field(theirs, "seconds"), "s", name),
            Row(f"{label}: CPU a call", _cpu(ours), _cpu(theirs), "ms", name),
        ]
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
    command = [sys.executable, *worker("judging.py:judging"), json.dumps(task)]
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
        Row(
            "faults: time",
            _field(ours, "seconds"),
            _field(clean, "seconds"),
            "s",
            "clean",
            Target(2.0, "at most"),
        ),
        Check(
            "faults: verdicts",
            _verdicts(ours),
            "none wrong",
            ours is not None and ours["wrong"] == 0,
        ),
    ]
    for name in PEERS:
        rows += [
            Row("faults: time", _field(ours, "seconds"), _field(found[name], "seconds"), "s", name),
            Check(f"faults: verdicts, {name}", _verdicts(found[name]), "", None),
        ]
    return rows


def measure_parts(subjects: Subjects, sizes: Sizes) -> list[Any]:
    """Reading a state of 1 MB, of short turns with calls of tools, into its parts."""
    from assay.messages import read_parts

    call = {
        "id": "1",
        "type": "function",
        "function": {"name": "search", "arguments": json.dumps({"query": "x" * 100})},
    }
    turns: list[dict[str, Any]] = [
        {"role": "assistant", "content": "word " * 60, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "result " * 40},
        {"role": "user", "content": [{"type": "text", "text": "more " * 20}]},
    ]
    chat = turns * (1_000_000 // len(json.dumps(turns)))
    seconds: list[float] = []
    for _ in range(10 * REPEATS):
        start = time.perf_counter()
        read_parts("Where is my order?", chat)
        seconds.append(time.perf_counter() - start)
    label = f"a state of 1 MB, {len(chat):,} turns, into parts"
    return [Row(label, min(seconds) * 1000, 20.0, "ms", "target", Target(1.0, "at most"))]


def measure_transcript(subjects: Subjects, sizes: Sizes) -> list[Any]:
    """What the prompts about a conversation of 30 turns, with calls of tools, share between the criteria."""
    from assay import PerCriterionGrader, Rubric
    from assay.testing import ModelServer

    rubric, turns = Rubric.from_dict(list(CRITERIA)), build_responses(30)
    call = {
        "id": "1",
        "type": "function",
        "function": {"name": "search", "arguments": '{"query": "heat pump"}'},
    }
    chat: list[dict[str, Any]] = [
        {"role": "assistant", "content": turn, "tool_calls": [call]}
        if number % 3 == 0
        else {"role": ("tool", "user")[number % 3 - 1], "content": turn}
        for number, turn in enumerate(turns[:-1])
    ]
    chat.append({"role": "assistant", "content": turns[-1]})
    with ModelServer(answer) as server:
        rubric.grade_sync(chat, PerCriterionGrader(model=server.model), query=QUERY)
        prompts = [asked.system + asked.user for asked in server.asked]
        cached = server.cached_tokens / server.prompt_tokens
    common = next(
        n for n, letters in enumerate(zip(*prompts, strict=False)) if len(set(letters)) > 1
    )
    share = common * len(prompts) / sum(map(len, prompts))
    found = f"{share:.1%} of each prompt; {cached:.1%} of all tokens repeat a prefix, the first prompt included"
    return [
        Check(
            "a conversation of 30 turns, 10 criteria: shared", found, "at least 90 %", share >= 0.9
        )
    ]


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


MEASURES = {
    "clean": measure_clean,
    "small": measure_small,
    "cache": measure_cache,
    "faults": measure_faults,
    "parts": measure_parts,
    "transcript": measure_transcript,
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    chosen = [MEASURES[name] for name in MEASURES if not options.only or name in options.only]
    sizes = QUICK if options.quick else Sizes()
    installed = install(() if options.alone else PEERS, say=say)
    subjects = all_subjects(installed.interpreters, say=say)
    rows: list[Any] = [row for measure in chosen for row in measure(subjects, sizes)]
    notes = [*installed.failures, *subjects.notes]
    table = as_table(rows)
    print(plain_table(table))
    for note in notes:
        print(f"note: {note}")
    save_results("judging over HTTP", [table], notes, options)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="judging.py", description=(__doc__ or "").strip())
    add_options(parser, list(MEASURES))
    parser.add_argument("--alone", action="store_true", help="leave the peers out")
    return parser


if __name__ == "__main__":
    run_worker(sys.argv, {"server": server_main, "judging": judging_main})
    sys.exit(main())
