"""Measure assay against verifiers, rubric and autorubric: `python benchmarks/core.py`.

Prints a table of figures, ratios and targets, and writes it into benchmarks/RESULTS.md. Targets that
are missed are written as missed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import json
import math
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from harness import (
    CHECKS,
    CRITERIA,
    QUERY,
    WEIGHTS,
    Row,
    State,
    Subjects,
    Target,
    add_options,
    all_subjects,
    as_table,
    build_responses,
    build_states,
    call_bare,
    cpu_seconds,
    expected_rewards,
    expected_score,
    install,
    peak_growth,
    plain_table,
    run_worker,
    save_results,
    say,
)

# Score states with one subject, and print the cost as one JSON line.

# `harness.py` starts it in a new process; its only argument is the task as JSON:
# `subject`, `measure` (cpu, bare or memory), `checks` (sync, bool or async), `rubrics` (1, or 2 for a
# group of two rubrics), `batch`, `batches`, `repeats`.


def rubric_of(task: dict[str, Any]) -> Any:
    """Return the subject's `Rubric`; the constructors of assay and verifiers are the same."""
    module = importlib.import_module(task["subject"])
    checks = list(CHECKS[task["checks"]])
    weights = list(WEIGHTS)
    if task.get("rubrics", 1) == 1:
        return module.Rubric(funcs=checks, weights=weights)
    first = module.Rubric(funcs=checks[:2], weights=weights[:2])
    second = module.Rubric(funcs=checks[2:], weights=weights[2:])
    return module.RubricGroup([first, second])


async def score_batches(rubric: Any, batches: list[list[State]]) -> None:
    """Score batches one after another, in one event loop."""
    for batch in batches:
        await rubric.score_group(batch)


async def measure_cpu(task: dict[str, Any]) -> dict[str, float]:
    """Return the cheapest of several rounds, each with new states."""
    rubric = rubric_of(task)
    costs: list[float] = []
    for _ in range(task["repeats"]):
        batches = build_batches(task)
        costs.append(await cpu_seconds(score_batches(rubric, batches)))
        assert_scored(batches)
    return {"cpu_seconds": min(costs), "rollouts": task["batch"] * task["batches"]}


async def measure_bare(task: dict[str, Any]) -> dict[str, float]:
    """Measure scoring and the bare checks in turn, so that other work affects both alike."""
    rubric = rubric_of(task)
    scored: list[float] = []
    bare: list[float] = []
    for _ in range(task["repeats"]):
        batches = build_batches(task)
        scored.append(await cpu_seconds(score_batches(rubric, batches)))
        assert_scored(batches)
        bare.append(bare_seconds(build_batches(task)))
    return {
        "cpu_seconds": min(scored),
        "bare_cpu_seconds": min(bare),
        "rollouts": task["batch"] * task["batches"],
    }


async def measure_peak_memory(task: dict[str, Any]) -> dict[str, float]:
    """Return the peak of one round; a second one would reuse memory that the first has freed."""
    rubric = rubric_of(task)
    batches = build_batches(task)
    growth = await peak_growth(score_batches(rubric, batches))
    assert_scored(batches)
    return {"peak_bytes": growth}


def bare_seconds(batches: list[list[State]]) -> float:
    """Return the CPU seconds of the checks alone."""
    gc.collect()
    start = time.process_time()
    for batch in batches:
        call_bare(batch)
    return time.process_time() - start


def build_batches(task: dict[str, Any]) -> list[list[State]]:
    """Return new states in batches of the size in the task."""
    size: int = task["batch"]
    states = build_states(size * task["batches"])
    return [states[start : start + size] for start in range(0, len(states), size)]


def assert_scored(batches: list[list[State]]) -> None:
    """Raise if a reward is missing or wrong, so that all subjects do the same work."""
    for batch in batches:
        for state, expected in zip(batch, expected_rewards(batch), strict=True):
            if not math.isclose(state["reward"], expected):
                raise ValueError(f"reward {state['reward']!r}, expected {expected!r}: {state!r}")


SCORE_MEASURES = {"cpu": measure_cpu, "bare": measure_bare, "memory": measure_peak_memory}


def score_main() -> None:
    task: dict[str, Any] = json.loads(sys.argv[1])
    print(json.dumps(asyncio.run(SCORE_MEASURES[task["measure"]](task))))


# Grade texts with one subject and a judge without latency, and print the cost as a JSON line.

# `harness.py` starts it in a new process; its only argument is the task as JSON: `subject`, `responses`,
# `repeats`, `method`. Without latency, only the cost of the library is left.

Grade = Callable[[str], Awaitable[Any]]
GradeAll = Callable[[list[str], list[float | None]], Awaitable[None]]

REASON = "The response says so in its second sentence."
# A model of litellm's price list: an unknown one makes every cost look-up fail, and slower.
AUTORUBRIC_MODEL = "gpt-4o-mini"


def make_grader_and_rubric(module: Any, graders: Any) -> tuple[Any, Any]:
    """Return a grader whose judge has no latency, and a rubric."""
    answer = module.PerCriterionOutput(criterion_status="MET", explanation=REASON)

    async def judge(system_prompt: str, user_prompt: str) -> Any:
        return answer

    grader = graders.PerCriterionGrader(generate_fn=judge)
    return grader, module.Rubric.from_dict([dict(criterion) for criterion in CRITERIA])


def per_criterion_grade(package: str, graders: str) -> Grade:
    """Return the grading of `rubric` or `assay`, which is the same except for the module."""
    grader, rubric = make_grader_and_rubric(
        importlib.import_module(package), importlib.import_module(graders)
    )
    return lambda text: rubric.grade(text, autograder=grader, query=QUERY)


def autorubric_grade() -> Grade:
    """Return the grading of autorubric, with litellm's completion call replaced.

    It does not accept a judge function.
    """
    litellm: Any = importlib.import_module("litellm")
    autorubric: Any = importlib.import_module("autorubric")
    graders: Any = importlib.import_module("autorubric.graders")
    content = json.dumps({"criterion_status": "MET", "explanation": REASON})
    answer = litellm.ModelResponse(
        model=AUTORUBRIC_MODEL,
        choices=[{"message": {"role": "assistant", "content": content}}],
        usage={"prompt_tokens": 900, "completion_tokens": 20, "total_tokens": 920},
    )

    async def complete(**params: Any) -> Any:
        return answer

    litellm.acompletion = complete
    config = autorubric.LLMConfig(model=AUTORUBRIC_MODEL)
    grader = graders.CriterionGrader(judge_model_config=config)
    rubric = autorubric.Rubric.from_dict([dict(criterion) for criterion in CRITERIA])
    return lambda text: rubric.grade(text, grader=grader, query=QUERY)


SUBJECTS: dict[str, Callable[[], Grade]] = {
    "assay": lambda: per_criterion_grade("assay", "assay"),
    "rubric": lambda: per_criterion_grade("rubric", "rubric.autograders"),
    "autorubric": autorubric_grade,
}


def one_by_one(grade: Grade) -> GradeAll:
    """Return a function that grades texts concurrently, with one call of `grade` for each."""

    async def grade_all(texts: list[str], scores: list[float | None]) -> None:
        reports = await asyncio.gather(*(grade(text) for text in texts))
        scores.extend(report.score for report in reports)

    return grade_all


def all_at_once() -> GradeAll:
    """Return a function that calls assay's `score` with all texts; the peers have no such method."""
    assay: Any = importlib.import_module("assay")
    grader, rubric = make_grader_and_rubric(assay, assay)

    async def grade_all(texts: list[str], scores: list[float | None]) -> None:
        rollouts = [assay.Rollout(prompt=QUERY, completion=text) for text in texts]
        reports = await rubric.score(rollouts, judge=grader)
        scores.extend(report.score for report in reports)

    return grade_all


async def measure(task: dict[str, Any]) -> dict[str, float]:
    """Return the cheapest of several rounds with the same texts."""
    if task["method"] == "score":
        grade_all = all_at_once()
    else:
        grade_all = one_by_one(SUBJECTS[task["subject"]]())
    texts = build_responses(task["responses"])
    costs: list[float] = []
    for _ in range(task["repeats"]):
        scores: list[float | None] = []
        costs.append(await cpu_seconds(grade_all(texts, scores)))
        assert_graded(scores, count=len(texts))
    return {"cpu_seconds": min(costs), "criteria": len(texts) * len(CRITERIA)}


def assert_graded(scores: list[float | None], *, count: int) -> None:
    """Raise if a score is missing or wrong, so that all subjects do the same work."""
    expected = expected_score()
    wrong = [score for score in scores if score is None or not math.isclose(score, expected)]
    if wrong or len(scores) != count:
        raise ValueError(
            f"{len(scores)} of {count} texts graded, {len(wrong)} not {expected}: {wrong[:3]}"
        )


def grade_main() -> None:
    task: dict[str, Any] = json.loads(sys.argv[1])
    print(json.dumps(asyncio.run(measure(task))))


# The measures, and their targets.

Figures = dict[str, float] | None  # what a worker printed; None if it could not be run

MICRO = 1e6
MILLI = 1e3
MEBIBYTE = 1 << 20
# Small batches are repeated up to this many rollouts, so that the work is similar for every size.
FLATNESS_WORK = 10_000


@dataclass(frozen=True)
class Sizes:
    """How much to measure; the targets are for the defaults."""

    rollouts: int = 10_000
    batches: tuple[int, ...] = (8, 64, 512, 4096, 10_000, 100_000)
    responses: int = 200
    repeats: int = 7
    processes: int = 3
    imports: int = 5


QUICK = Sizes(
    rollouts=1000, batches=(8, 64, 512, 4096), responses=20, repeats=2, processes=1, imports=2
)


def measure_score(subjects: Subjects, sizes: Sizes) -> list[Row]:
    """Compare `score_group` with three cheap functions to verifiers, and to the bare functions."""
    ours, theirs = _in_turn(
        sizes,
        lambda: _score(subjects, "assay", sizes, measure="bare", checks="sync"),
        lambda: _score(subjects, "verifiers", sizes, measure="cpu", checks="sync"),
    )
    label = f"score_group, {sizes.rollouts:,} rollouts x 3 sync functions"
    return [
        _rate_row(label, ours, theirs, count="rollouts", target=Target(8, "at least")),
        Row(
            f"{label}, cost per rollout",
            _per_item(ours, "rollouts"),
            _per_item(ours, "rollouts", seconds="bare_cpu_seconds"),
            "µs",
            against="bare calls",
        ),
    ]


def measure_cases(subjects: Subjects, sizes: Sizes) -> list[Row]:
    """Compare groups of the size of trainers, checks that return bools, and a `RubricGroup`."""
    one_batch = {"batch": sizes.rollouts, "batches": 1}
    cases: dict[str, dict[str, Any]] = {
        "groups of 8": {"checks": "sync", "batch": 8, "batches": FLATNESS_WORK // 8},
        "groups of 16": {"checks": "sync", "batch": 16, "batches": FLATNESS_WORK // 16},
        "batches of 512": {"checks": "sync", "batch": 512, "batches": FLATNESS_WORK // 512},
        f"{sizes.rollouts:,} rollouts, checks return bools": {"checks": "bool", **one_batch},
        f"{sizes.rollouts:,} rollouts, two rubrics in a group": {
            "checks": "sync",
            "rubrics": 2,
            **one_batch,
        },
    }
    rows: list[Row] = []
    for label, case in cases.items():
        ours, theirs = _in_turn(
            sizes,
            lambda case=case: _score_case(subjects, "assay", sizes, case),
            lambda case=case: _score_case(subjects, "verifiers", sizes, case),
        )
        rows.append(
            Row(
                f"score_group, {label}, cost per rollout",
                _per_item(ours, "rollouts"),
                _per_item(theirs, "rollouts"),
                "µs",
                "verifiers",
            )
        )
    return rows


def _score_case(subjects: Subjects, subject: str, sizes: Sizes, case: dict[str, Any]) -> Figures:
    return subjects.measure(subject, "core.py:score", measure="cpu", repeats=sizes.repeats, **case)


def measure_async(subjects: Subjects, sizes: Sizes) -> list[Row]:
    """Compare `score_group` with functions that yield to the event loop once each."""
    ours, theirs = _in_turn(
        sizes,
        lambda: _score(subjects, "assay", sizes, measure="cpu", checks="async"),
        lambda: _score(subjects, "verifiers", sizes, measure="cpu", checks="async"),
    )
    label = f"score_group, {sizes.rollouts:,} rollouts x 3 async functions"
    return [_rate_row(label, ours, theirs, count="rollouts", target=Target(3, "at least"))]


def measure_memory(subjects: Subjects, sizes: Sizes) -> list[Row]:
    """Compare the peak memory that scoring adds to that of the states."""
    ours = _peak(subjects, "assay", sizes)
    theirs = _peak(subjects, "verifiers", sizes)
    label = f"score_group, {sizes.rollouts:,} rollouts, peak memory growth"
    return [Row(label, ours, theirs, "MiB", "verifiers", Target(1 / 3, "at most"))]


def measure_flatness(subjects: Subjects, sizes: Sizes) -> list[Row]:
    """Compare assay's cost per rollout for different batch sizes."""
    rows: list[Row] = []
    costs: list[float] = []
    for size in sizes.batches:
        cost = _cost_of_batch_size(subjects, size, sizes)
        rows.append(Row(f"cost per rollout, batches of {size:,}", cost, None, "µs"))
        if cost is not None:
            costs.append(cost)
    highest = lowest = None
    if len(costs) == len(sizes.batches):
        highest = max(costs)
        lowest = min(costs)
    rows.append(Row("dearest batch size over cheapest", highest, lowest, "µs", "cheapest"))
    return rows


def measure_import(subjects: Subjects, sizes: Sizes) -> list[Row]:
    """Compare new interpreters that import a package and end, including their start."""

    def cost(subject: str, statement: str) -> float | None:
        seconds = subjects.cpu_of(subject, statement, repeats=sizes.imports)
        if seconds is None:
            return None
        return seconds * MILLI

    ours = cost("assay", "import assay")
    rubric_class = cost("assay", "from assay import Rubric")
    verifiers = cost("verifiers", "import verifiers")
    rubric = cost("rubric", "import rubric")
    autorubric = cost("autorubric", "import autorubric")
    first, second = "import assay, CPU", "from assay import Rubric, CPU"
    return [
        Row(first, ours, verifiers, "ms", "verifiers", Target(1 / 30, "at most")),
        Row(first, ours, rubric, "ms", "rubric", Target(1 / 8, "at most")),
        Row(first, ours, autorubric, "ms", "autorubric"),
        Row(first, ours, cost("assay", "pass"), "ms", "python -c pass"),
        Row(second, rubric_class, verifiers, "ms", "verifiers"),
        Row(second, rubric_class, rubric, "ms", "rubric"),
    ]


def measure_grade(subjects: Subjects, sizes: Sizes) -> list[Row]:
    """Compare the cost of the libraries per criterion, with a judge without latency."""

    def graded(subject: str, method: str = "grade") -> Figures:
        return subjects.measure(
            subject,
            "core.py:grade",
            responses=sizes.responses,
            repeats=sizes.repeats,
            method=method,
        )

    ours, at_once, rubric, autorubric = _in_turn(
        sizes,
        lambda: graded("assay"),
        lambda: graded("assay", "score"),
        lambda: graded("rubric"),
        lambda: graded("autorubric"),
    )
    label = f"grade, {sizes.responses} texts x 10 criteria, instant judge"
    three, ten = Target(3, "at least"), Target(10, "at least")
    return [
        _rate_row(label, ours, rubric, "rubric", count="criteria", target=three),
        _rate_row(label, ours, autorubric, "autorubric", count="criteria", target=ten),
        _rate_row(
            f"{label}, assay by score()", at_once, rubric, "rubric", count="criteria", target=three
        ),
    ]


@dataclass(frozen=True)
class Measure:
    """A measure, and the peers that it needs."""

    name: str  # for the option --only
    peers: tuple[str, ...]
    run: Callable[[Subjects, Sizes], list[Row]]


MEASURES = (
    Measure("score", ("verifiers",), measure_score),
    Measure("cases", ("verifiers",), measure_cases),
    Measure("flatness", (), measure_flatness),
    Measure("memory", ("verifiers",), measure_memory),
    Measure("async", ("verifiers",), measure_async),
    Measure("import", ("verifiers", "rubric", "autorubric"), measure_import),
    Measure("grade", ("rubric", "autorubric"), measure_grade),
)


def _in_turn(sizes: Sizes, *measures: Callable[[], Figures]) -> list[Figures]:
    """Return the cheapest figures of each measure over several new processes.

    They take turns, so that a slow moment of the machine does not affect one subject only.
    """
    rounds = [[measure() for measure in measures] for _ in range(sizes.processes)]
    return [_cheapest(figures) for figures in zip(*rounds, strict=True)]


def _cheapest(figures: Sequence[Figures]) -> Figures:
    known = [figure for figure in figures if figure is not None]
    if len(known) < len(figures):
        return None
    return {name: min(figure[name] for figure in known) for name in known[0]}


def _score(
    subjects: Subjects,
    subject: str,
    sizes: Sizes,
    *,
    measure: str,
    checks: str,
    repeats: int | None = None,
) -> Figures:
    return subjects.measure(
        subject,
        "core.py:score",
        measure=measure,
        checks=checks,
        batch=sizes.rollouts,
        batches=1,
        repeats=sizes.repeats if repeats is None else repeats,
    )


def _peak(subjects: Subjects, subject: str, sizes: Sizes) -> float | None:
    """Return the median of several new processes, in MiB; None if one of them failed."""
    peaks: list[float] = []
    for _ in range(sizes.processes):
        figures = _score(subjects, subject, sizes, measure="memory", checks="sync", repeats=1)
        if figures is None:
            return None
        peaks.append(figures["peak_bytes"])
    return median(peaks) / MEBIBYTE


def _cost_of_batch_size(subjects: Subjects, size: int, sizes: Sizes) -> float | None:
    figures = subjects.measure(
        "assay",
        "core.py:score",
        measure="cpu",
        checks="sync",
        batch=size,
        batches=math.ceil(FLATNESS_WORK / size),
        repeats=sizes.repeats,
    )
    return _per_item(figures, "rollouts")


def _per_item(figures: Figures, count: str, *, seconds: str = "cpu_seconds") -> float | None:
    """Return the CPU microseconds per item."""
    if figures is None:
        return None
    return figures[seconds] / figures[count] * MICRO


def _rate_row(
    label: str,
    ours: Figures,
    theirs: Figures,
    against: str = "verifiers",
    *,
    count: str,
    target: Target,
) -> Row:
    """Return a row that compares the items per CPU second."""
    unit = f"{count}/CPU s"
    return Row(label, _rate(ours, count), _rate(theirs, count), unit, against, target)


def _rate(figures: Figures, count: str) -> float | None:
    if figures is None:
        return None
    return figures[count] / figures["cpu_seconds"]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    selected = [measure for measure in MEASURES if not options.only or measure.name in options.only]
    try:
        rows, notes = run(selected, QUICK if options.quick else Sizes())
    except KeyboardInterrupt:
        say("stopped; nothing was saved")
        return 130
    table = as_table(rows)
    print(plain_table(table))
    for note in notes:
        print(f"note: {note}")
    save_results("core", [table], notes, options)
    return 0


def run(measures: Sequence[Measure], sizes: Sizes) -> tuple[list[Row], list[str]]:
    """Return the rows of the measures, and notes about what could not be measured."""
    peers: set[str] = set()
    for measure in measures:
        peers.update(measure.peers)
    installed = install(peers, say=say)
    subjects: Subjects = all_subjects(installed.interpreters, say=say)
    rows: list[Row] = []
    for measure in measures:
        rows += measure.run(subjects, sizes)
    return rows, [*installed.failures, *subjects.notes]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="core.py", description=(__doc__ or "").strip())
    add_options(parser, [measure.name for measure in MEASURES])
    return parser


if __name__ == "__main__":
    run_worker(sys.argv, {"score": score_main, "grade": grade_main})
    sys.exit(main())
