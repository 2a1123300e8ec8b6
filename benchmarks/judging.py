"""Measure judging over HTTP against rubric and autorubric: `python benchmarks/judging.py`.

All of them call one local endpoint that takes 50 ms for a reply. Prints a table and adds it to
benchmarks/RESULTS.md. Targets that are missed are written as missed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import json
import math
import os
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

# The endpoint that all subjects call, with a fixed latency and faults on request.

# It runs in a process of its own; its only argument is the task as JSON: `latency`, and `faults`, the
# share of each kind. It prints its address and serves until its standard input closes.


def answer(system: str, user: str) -> dict[str, str]:
    """Return the verdict on the criterion in a prompt."""
    requirement = ""
    for criterion in CRITERIA:
        if criterion["requirement"] in user:
            requirement = criterion["requirement"]
    return {
        "explanation": "The response says so in its second sentence.",
        "criterion_status": verdict_on(requirement),
    }


def server_main() -> None:
    from assay.testing import Fault, ModelServer, mixed

    kinds = {
        "rate_limited": Fault.rate_limited(),
        "failing": Fault.failing(),
        "hanging": Fault.hanging(),
        "garbage": Fault.saying("As an AI language model, I think that it depends."),
    }
    # It keeps every call, and a garbage collection through all of them would delay the callers.
    gc.disable()
    task = json.loads(sys.argv[1])
    faults = mixed({kinds[kind]: share for kind, share in task["faults"].items()})
    with ModelServer(answer, latency=task["latency"], faults=faults, name="judge") as server:
        print(server.url, flush=True)
        sys.stdin.read()


# Grade texts with one subject over HTTP, and print the time and CPU it used as a JSON line.

# `harness.py` starts it in a new process; its only argument is the task as JSON: `subject`, `url`,
# `responses`, `concurrency`, `timeout`, and for assay `cache` and `changed`.

# The requirement and the verdict of each criterion; None if there is no verdict.
Verdicts = list[tuple[str, str | None]]
Grade = Callable[[list[str]], Awaitable[list[Verdicts]]]

CHANGED = "Says how loud the outdoor unit is"
# A model of litellm's price list: an unknown one makes every cost look-up fail, and slower.
AUTORUBRIC_MODEL = "openai/gpt-4o-mini"
ATTEMPTS = 10


def criteria(task: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the criteria; the first one is reworded if the task says so."""
    copies = [dict(criterion) for criterion in CRITERIA]
    if task.get("changed"):
        copies[0]["requirement"] = CHANGED
    return copies


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
        reports = await rubric.score(rollouts, judge=grader)
        return [[(line.requirement, line.verdict) for line in report.report] for report in reports]

    return grade


def with_rubric(task: dict[str, Any]) -> Grade:
    """Call OpenAI as its README does, but with one client for all calls and a limit on them."""
    rubric_package: Any = importlib.import_module("rubric")
    graders: Any = importlib.import_module("rubric.autograders")
    openai: Any = importlib.import_module("openai")
    output = rubric_package.PerCriterionOutput
    schema = {"name": "criterion_output", "schema": output.model_json_schema()}
    semaphore = asyncio.Semaphore(task["concurrency"])
    client = openai.AsyncOpenAI(
        api_key="none", base_url=task["url"], timeout=task["timeout"], max_retries=ATTEMPTS - 1
    )

    async def ask(system_prompt: str, user_prompt: str) -> Any:
        async with semaphore:
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
    """Return a function that grades texts concurrently. If grading raises, all verdicts are None."""

    async def grade_all(texts: list[str]) -> list[Verdicts]:
        reports = await asyncio.gather(*(grade(text) for text in texts), return_exceptions=True)
        results: list[Verdicts] = []
        for report in reports:
            if isinstance(report, BaseException):
                results.append([(criterion["requirement"], None) for criterion in CRITERIA])
            else:
                results.append(verdicts(report))
        return results

    return grade_all


SUBJECTS: dict[str, Callable[[dict[str, Any]], Grade]] = {
    "assay": with_assay,
    "rubric": with_rubric,
    "autorubric": with_autorubric,
}


async def measure(task: dict[str, Any]) -> dict[str, float]:
    """Return the seconds and CPU seconds of grading texts, and the wrong and missing verdicts."""
    grade = SUBJECTS[task["subject"]](task)
    texts = build_responses(task["responses"])
    await grade(["a text to begin with"])  # imports modules and opens connections
    started = time.perf_counter()
    cpu_before = time.process_time()
    results = await grade(texts)
    seconds = time.perf_counter() - started
    cpu_seconds = time.process_time() - cpu_before
    asked = missing = wrong = 0
    for verdicts in results:
        for requirement, verdict in verdicts:
            asked += 1
            if verdict is None:
                missing += 1
            elif verdict != verdict_on(requirement):
                wrong += 1
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "asked": asked,
        "missing": missing,
        "wrong": wrong,
    }


def judging_main() -> None:
    task: dict[str, Any] = json.loads(sys.argv[1])
    print(json.dumps(asyncio.run(measure(task))))


# The measures of judging, and their targets.

Figures = dict[str, Any] | None  # what a worker printed; None if it could not be run

HERE = Path(__file__).parent
LATENCY = 0.05
MIXED = {"rate_limited": 0.30, "failing": 0.05, "hanging": 0.02, "garbage": 0.02}
TIMEOUT_WITH_FAULTS = 10 * LATENCY  # seconds for an attempt, if some calls hang
TIMEOUT = 120.0  # seconds for an attempt, if none do
PEERS = ("rubric", "autorubric")
# Runs of a subject. The least seconds and CPU seconds count, since other work on the machine can only
# increase them.
REPEATS = 3


@dataclass(frozen=True)
class Sizes:
    """How much to measure; the targets are for the defaults."""

    responses: int = 200
    concurrency: int = 64

    @property
    def calls(self) -> int:
        return self.responses * len(CRITERIA)

    @property
    def ideal(self) -> float:
        """The seconds it would take if only the endpoint needed time."""
        return LATENCY * math.ceil(self.calls / self.concurrency)


QUICK = Sizes(responses=20)
SMALL_RESPONSES = 30  # with ten criteria, 300 calls


class Endpoint:
    """The address of the server, and its counts."""

    def __init__(self, url: str) -> None:
        self.url = url

    def stats(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/stats") as response:
            return json.loads(response.read())

    def reset(self) -> None:
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/reset", b"")).close()


@contextmanager
def serving(**faults: float) -> Generator[Endpoint]:
    """Run the endpoint in a process of its own."""
    task = json.dumps({"latency": LATENCY, "faults": faults})
    command = [sys.executable, *worker("judging.py:server"), task]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield Endpoint(server.stdout.readline().strip())
        server.stdin.close()


def grade_once(
    subjects: Subjects, subject: str, endpoint: Endpoint, sizes: Sizes, **task: Any
) -> Figures:
    """Return the figures of the subject and the counts of the endpoint for one run."""
    endpoint.reset()
    options = {"timeout": TIMEOUT} | task
    figures = subjects.measure(
        subject,
        "judging.py:judging",
        url=endpoint.url,
        responses=sizes.responses,
        concurrency=sizes.concurrency,
        **options,
    )
    if figures is None:
        return None
    return figures | {"server": endpoint.stats()}


def grade_several_times(
    subjects: Subjects,
    subject: str,
    sizes: Sizes,
    faults: dict[str, float] | None = None,
    **task: Any,
) -> Figures:
    """Return the least time and the most errors of several runs, each with its own endpoint."""
    runs: list[dict[str, Any]] = []
    for _ in range(REPEATS):
        with serving(**(faults or {})) as endpoint:
            figures = grade_once(subjects, subject, endpoint, sizes, **task)
        if figures is None:
            return None
        runs.append(figures)
    result = dict(runs[-1])
    for name in ("seconds", "cpu_seconds"):
        result[name] = min(run[name] for run in runs)
    for name in ("missing", "wrong"):
        result[name] = max(run[name] for run in runs)
    return result


def measure_clean(subjects: Subjects, sizes: Sizes) -> list[Row | Check]:
    """Measure time, CPU and shared prefixes on an endpoint without faults."""
    ours = grade_several_times(subjects, "assay", sizes)
    theirs = {name: grade_several_times(subjects, name, sizes) for name in PEERS}
    label = f"{sizes.responses} texts x {len(CRITERIA)} criteria, {LATENCY * 1000:.0f} ms"
    seconds = _seconds(ours)
    cpu = _cpu(ours)
    rows: list[Row | Check] = [
        Row(f"{label}: time", seconds, sizes.ideal, "s", "ideal", Target(1.15, "at most")),
        Row(f"{label}: CPU a call", cpu, 0.5, "ms", "target", Target(1.0, "at most")),
    ]
    for name, ratio in (("rubric", 1 / 10), ("autorubric", 1 / 20)):
        target = Target(ratio, "at most")
        rows += [
            Row(f"{label}: time", seconds, _seconds(theirs[name]), "s", name),
            Row(f"{label}: CPU a call", cpu, _cpu(theirs[name]), "ms", name, target),
        ]
    cached_share = _cached_share(ours)
    rows.append(
        Check(
            "tokens that repeat a prefix",
            _describe_cached(ours),
            "at least 80 %",
            cached_share is not None and cached_share >= 0.8,
        )
    )
    for name in PEERS:
        rows.append(Check(f"the same, {name}", _describe_cached(theirs[name]), "", None))
    for name, figures in {"assay": ours, **theirs}.items():
        rows.append(Check(f"verdicts, {name}", _describe_verdicts(figures), "", None))
    return rows


def measure_small(subjects: Subjects, sizes: Sizes) -> list[Row | Check]:
    """Measure time and CPU of 300 calls, the size of an everyday evaluation."""
    sizes = replace(sizes, responses=min(sizes.responses, SMALL_RESPONSES))
    ours = grade_several_times(subjects, "assay", sizes)
    label = f"{sizes.calls} calls of {LATENCY * 1000:.0f} ms"
    rows: list[Row | Check] = []
    for name in PEERS:
        theirs = grade_several_times(subjects, name, sizes)
        rows += [
            Row(f"{label}: time", _seconds(ours), _seconds(theirs), "s", name),
            Row(f"{label}: CPU a call", _cpu(ours), _cpu(theirs), "ms", name),
        ]
    return rows


def measure_cache(subjects: Subjects, sizes: Sizes) -> list[Row | Check]:
    """Count the calls of a second run, of one with a changed criterion, and of one after a kill."""
    folder = tempfile.mkdtemp(prefix="assay-cache-")
    calls: list[int | None] = []
    try:
        with serving() as endpoint:
            for changed in (False, False, True):
                figures = grade_once(
                    subjects, "assay", endpoint, sizes, cache=folder, changed=changed
                )
                calls.append(_calls(figures))
            resumed = _check_kill(subjects, endpoint, sizes)
    finally:
        shutil.rmtree(folder)
    # The changed criterion of the text to begin with is asked about, too.
    expected = sizes.responses + 1
    return [
        Check("first run, calls", str(calls[0]), str(sizes.calls + len(CRITERIA)), None),
        Check("second run, calls", str(calls[1]), "0", calls[1] == 0),
        Check(
            "one criterion of ten changed, calls",
            str(calls[2]),
            f"{sizes.responses} and 1 to begin with",
            calls[2] == expected,
        ),
        resumed,
    ]


def _check_kill(subjects: Subjects, endpoint: Endpoint, sizes: Sizes) -> Check:
    """Kill a run half-way, repeat it, and count the calls that were made twice."""
    folder = tempfile.mkdtemp(prefix="assay-cache-")
    endpoint.reset()
    task = {
        "subject": "assay",
        "url": endpoint.url,
        "responses": sizes.responses,
        "concurrency": sizes.concurrency,
        "timeout": TIMEOUT,
        "cache": folder,
    }
    command = [sys.executable, *worker("judging.py:judging"), json.dumps(task)]
    try:
        with subprocess.Popen(command, cwd=HERE, stdout=subprocess.DEVNULL) as process:
            while endpoint.stats()["calls"] < sizes.calls // 2:
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
        calls_before = endpoint.stats()["calls"]
        figures = grade_once(subjects, "assay", endpoint, sizes, cache=folder)
    finally:
        shutil.rmtree(folder)
    calls_after = _calls(figures)
    repeated = None
    if calls_after is not None:
        needed = sizes.calls + len(CRITERIA)  # the text to begin with has all criteria
        repeated = calls_before + calls_after - needed
    # The answers to calls in flight were lost.
    limit = sizes.concurrency
    return Check(
        "killed half-way and resumed, calls",
        f"{calls_before} before, {calls_after} after: {repeated} twice",
        f"none but those under way, at most {limit}",
        repeated is not None and repeated <= limit,
    )


def measure_faults(subjects: Subjects, sizes: Sizes) -> list[Row | Check]:
    """Measure an endpoint with 30 % of status 429, 5 % of 500, 2 % that hang and 2 % garbage."""
    clean = grade_several_times(subjects, "assay", sizes, timeout=TIMEOUT_WITH_FAULTS)
    ours = grade_several_times(subjects, "assay", sizes, MIXED, timeout=TIMEOUT_WITH_FAULTS)
    rows: list[Row | Check] = [
        Row(
            "faults: time",
            _seconds(ours),
            _seconds(clean),
            "s",
            "clean",
            Target(2.0, "at most"),
        ),
        Check(
            "faults: verdicts",
            _describe_verdicts(ours),
            "none wrong",
            ours is not None and ours["wrong"] == 0,
        ),
    ]
    for name in PEERS:
        with serving(**MIXED) as endpoint:
            theirs = grade_once(subjects, name, endpoint, sizes, timeout=TIMEOUT_WITH_FAULTS)
        rows += [
            Row("faults: time", _seconds(ours), _seconds(theirs), "s", name),
            Check(f"faults: verdicts, {name}", _describe_verdicts(theirs), "", None),
        ]
    return rows


def measure_parts(subjects: Subjects, sizes: Sizes) -> list[Row | Check]:
    """Read a state of 1 MB, of short turns with tool calls, into its parts."""
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


def measure_transcript(subjects: Subjects, sizes: Sizes) -> list[Row | Check]:
    """Measure the common prefix of the prompts about a conversation with tool calls."""
    from assay import PerCriterionGrader, Rubric
    from assay.testing import ModelServer

    rubric = Rubric.from_dict(list(CRITERIA))
    texts = build_responses(30)
    call = {
        "id": "1",
        "type": "function",
        "function": {"name": "search", "arguments": '{"query": "heat pump"}'},
    }
    chat: list[dict[str, Any]] = []
    for number, text in enumerate(texts):
        role = ("assistant", "tool", "user")[number % 3]
        message: dict[str, Any] = {"role": role, "content": text}
        if role == "assistant":
            message["tool_calls"] = [call]
        chat.append(message)
    chat[-1] = {"role": "assistant", "content": texts[-1]}
    with ModelServer(answer) as server:
        rubric.grade_sync(chat, PerCriterionGrader(model=server.model), query=QUERY)
        prompts = [call.system + call.user for call in server.requests]
        cached_share = server.cached_tokens / server.prompt_tokens
    prefix_length = len(os.path.commonprefix(prompts))  # noqa: RUF071 - of characters
    share = prefix_length * len(prompts) / sum(map(len, prompts))
    return [
        Check(
            "a conversation of 30 turns, 10 criteria: shared",
            f"{share:.1%} of each prompt; {cached_share:.1%} of all tokens repeat a prefix, "
            "the first prompt included",
            "at least 90 %",
            share >= 0.9,
        )
    ]


def _seconds(figures: Figures) -> float | None:
    if figures is None:
        return None
    return figures["seconds"]


def _calls(figures: Figures) -> int | None:
    if figures is None:
        return None
    return figures["server"]["calls"]


def _cpu(figures: Figures) -> float | None:
    """Return the CPU milliseconds per call."""
    if figures is None:
        return None
    return 1000 * figures["cpu_seconds"] / figures["asked"]


def _cached_share(figures: Figures) -> float | None:
    """Return the share of the tokens that repeat the prefix of an earlier prompt."""
    if figures is None:
        return None
    return figures["server"]["cached_tokens"] / figures["server"]["prompt_tokens"]


def _describe_cached(figures: Figures) -> str:
    if figures is None:
        return "not measured"
    counts = figures["server"]
    user_share = counts["user_cached_tokens"] / max(1, counts["user_tokens"])
    return f"{_cached_share(figures):.1%} of all, {user_share:.1%} after the system prompt"


def _describe_verdicts(figures: Figures) -> str:
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
    sizes = QUICK if options.quick else Sizes()
    installed = install(() if options.alone else PEERS, say=say)
    subjects = all_subjects(installed.interpreters, say=say)
    rows: list[Row | Check] = []
    for name in options.only or MEASURES:
        rows += MEASURES[name](subjects, sizes)
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
