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

# Score states with one subject and print its cost as one JSON line.

# Started in a fresh process by `harness.py`; its only argument is the task as JSON:
# `subject`, `measure` (cpu, bare or memory), `checks` (sync, bool or async), `rubrics` (1, or 2 for a
# group of two rubrics), `batch`, `batches`, `repeats`.


def rubric_of(task: dict[str, Any]) -> Any:
    """The subject's own `Rubric`; assay and verifiers spell the constructor alike."""
    module = importlib.import_module(task["subject"])
    checks = list(CHECKS[task["checks"]])
    weights = list(WEIGHTS)
    if task.get("rubrics", 1) == 1:
        return module.Rubric(funcs=checks, weights=weights)
    first = module.Rubric(funcs=checks[:2], weights=weights[:2])
    second = module.Rubric(funcs=checks[2:], weights=weights[2:])
    return module.RubricGroup([first, second])


async def score_batches(rubric: Any, batches: list[list[State]]) -> None:
    """One `score_group` after another, in one event loop."""
    for batch in batches:
        await rubric.score_group(batch)


async def measure_cpu(task: dict[str, Any]) -> dict[str, float]:
    """The cheapest of several rounds, each on fresh states."""
    rubric = rubric_of(task)
    costs: list[float] = []
    for _ in range(task["repeats"]):
        batches = build_batches(task)
        costs.append(await cpu_seconds(score_batches(rubric, batches)))
        assert_scored(batches)
    return {"cpu_seconds": min(costs), "rollouts": task["batch"] * task["batches"]}


async def measure_bare(task: dict[str, Any]) -> dict[str, float]:
    """Scoring and the bare loop in turn, in one process, so that both meet the same machine."""
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


async def score_measure_memory(task: dict[str, Any]) -> dict[str, float]:
    """The peak of one round; a second would reuse memory the first had freed."""
    rubric = rubric_of(task)
    batches = build_batches(task)
    growth = await peak_growth(score_batches(rubric, batches))
    assert_scored(batches)
    return {"peak_bytes": growth}


def bare_seconds(batches: list[list[State]]) -> float:
    """CPU seconds of the checks alone."""
    gc.collect()
    start = time.process_time()
    for batch in batches:
        call_bare(batch)
    return time.process_time() - start


def build_batches(task: dict[str, Any]) -> list[list[State]]:
    """Fresh states, cut into batches of the size asked for."""
    size: int = task["batch"]
    states = build_states(size * task["batches"])
    return [states[start : start + size] for start in range(0, len(states), size)]


def assert_scored(batches: list[list[State]]) -> None:
    """Refuse a figure for work that was not done, or done differently."""
    for batch in batches:
        for state, expected in zip(batch, expected_rewards(batch), strict=True):
            if not math.isclose(state["reward"], expected):
                raise ValueError(f"reward {state['reward']!r}, expected {expected!r}: {state!r}")


SCORE_MEASURES = {"cpu": measure_cpu, "bare": measure_bare, "memory": score_measure_memory}


def score_main() -> None:
    task: dict[str, Any] = json.loads(sys.argv[1])
    print(json.dumps(asyncio.run(SCORE_MEASURES[task["measure"]](task))))


# Grade texts with one subject, the judge answering at once, and print the cost as a JSON line.

# Started in a fresh process by `harness.py`; its only argument is the task as JSON:
# `subject`, `responses`, `repeats`, `door`. A judge without latency leaves the library's own cost.

Grade = Callable[[str], Awaitable[Any]]
GradeAll = Callable[[list[str], list[float | None]], Awaitable[None]]

REASON = "The response says so in its second sentence."
# A model of litellm's price list: an unknown one makes every cost look-up fail, and slower.
AUTORUBRIC_MODEL = "gpt-4o-mini"


def per_criterion(module: Any, graders: Any) -> tuple[Any, Any]:
    """A grader whose judge answers at once, and a rubric to grade by."""
    answer = module.PerCriterionOutput(criterion_status="MET", explanation=REASON)

    async def judge(system_prompt: str, user_prompt: str) -> Any:
        return answer

    grader = graders.PerCriterionGrader(generate_fn=judge)
    return grader, module.Rubric.from_dict([dict(criterion) for criterion in CRITERIA])


def per_criterion_grade(package: str, graders: str) -> Grade:
    """`rubric` and `assay` spell their grading alike; the graders' module differs."""
    modules = importlib.import_module(package), importlib.import_module(graders)
    grader, rubric = per_criterion(*modules)
    return lambda text: rubric.grade(text, autograder=grader, query=QUERY)


def autorubric_grade() -> Grade:
    """autorubric takes no judge function, so litellm's completion call is replaced instead."""
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
    """All texts side by side, one call of `grade` each."""

    async def grade_all(texts: list[str], scores: list[float | None]) -> None:
        reports = await asyncio.gather(*(grade(text) for text in texts))
        scores.extend(report.score for report in reports)

    return grade_all


def all_at_once() -> GradeAll:
    """assay's own door for many texts; the peers have none."""
    assay: Any = importlib.import_module("assay")
    grader, rubric = per_criterion(assay, assay)

    async def grade_all(texts: list[str], scores: list[float | None]) -> None:
        rollouts = [assay.Rollout(prompt=QUERY, completion=text) for text in texts]
        reports = await rubric.score(rollouts, autograder=grader)
        scores.extend(report.score for report in reports)

    return grade_all


async def measure(task: dict[str, Any]) -> dict[str, float]:
    """The cheapest of several rounds over the same texts."""
    at_once = task["door"] == "score"
    grade_all = all_at_once() if at_once else one_by_one(SUBJECTS[task["subject"]]())
    texts = build_responses(task["responses"])
    costs: list[float] = []
    for _ in range(task["repeats"]):
        scores: list[float | None] = []
        costs.append(await cpu_seconds(grade_all(texts, scores)))
        assert_graded(scores, count=len(texts))
    return {"cpu_seconds": min(costs), "criteria": len(texts) * len(CRITERIA)}


def assert_graded(scores: list[float | None], *, count: int) -> None:
    """Refuse a figure for texts that were not graded, or graded differently."""
    expected = expected_score()
    wrong = [score for score in scores if score is None or not math.isclose(score, expected)]
    if wrong or len(scores) != count:
        raise ValueError(
            f"{len(scores)} of {count} texts graded, {len(wrong)} not {expected}: {wrong[:3]}"
        )


def grade_main() -> None:
    task: dict[str, Any] = json.loads(sys.argv[1])
    print(json.dumps(asyncio.run(measure(task))))


# The measures: which subjects do which work, and the targets they are held to.

Figures = dict[str, float] | None
"""What a worker printed; None when it could not be run."""

MICRO = 1e6
MILLI = 1e3
MEBIBYTE = 1 << 20
# Small batches are repeated up to this many rollouts, so that every size is timed over a like
# amount of work.
FLATNESS_WORK = 10_000


@dataclass(frozen=True)
class Sizes:
    """How much work; the defaults are the sizes the targets speak of."""

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
    """`score_group` over three cheap functions, against verifiers and against the bare calls."""
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
    """Groups as trainers score them, checks that return bools, and a group of two rubrics."""
    many = {"batch": sizes.rollouts, "batches": 1}
    cases: dict[str, dict[str, Any]] = {
        "groups of 8": {"checks": "sync", "batch": 8, "batches": FLATNESS_WORK // 8},
        "groups of 16": {"checks": "sync", "batch": 16, "batches": FLATNESS_WORK // 16},
        "batches of 512": {"checks": "sync", "batch": 512, "batches": FLATNESS_WORK // 512},
        f"{sizes.rollouts:,} rollouts, checks return bools": {"checks": "bool", **many},
        f"{sizes.rollouts:,} rollouts, two rubrics in a group": {
            "checks": "sync",
            "rubrics": 2,
            **many,
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
    """The same with functions that give way to the event loop once each."""
    ours, theirs = _in_turn(
        sizes,
        lambda: _score(subjects, "assay", sizes, measure="cpu", checks="async"),
        lambda: _score(subjects, "verifiers", sizes, measure="cpu", checks="async"),
    )
    label = f"score_group, {sizes.rollouts:,} rollouts x 3 async functions"
    return [_rate_row(label, ours, theirs, count="rollouts", target=Target(3, "at least"))]


def measure_memory(subjects: Subjects, sizes: Sizes) -> list[Row]:
    """The peak that scoring adds to the memory its states already take."""
    ours, theirs = (_peak(subjects, subject, sizes) for subject in ("assay", "verifiers"))
    label = f"score_group, {sizes.rollouts:,} rollouts, peak memory growth"
    return [Row(label, ours, theirs, "MiB", "verifiers", Target(1 / 3, "at most"))]


def measure_flatness(subjects: Subjects, sizes: Sizes) -> list[Row]:
    """assay's cost per rollout at each batch size, then the dearest over the cheapest."""
    costs = {size: _flat_cost(subjects, size, sizes) for size in sizes.batches}
    rows = [
        Row(f"cost per rollout, batches of {size:,}", cost, None, "µs")
        for size, cost in costs.items()
    ]
    known = [cost for cost in costs.values() if cost is not None]
    dearest, cheapest = (max(known), min(known)) if len(known) == len(costs) else (None, None)
    return [*rows, Row("dearest batch size over cheapest", dearest, cheapest, "µs", "cheapest")]


def measure_import(subjects: Subjects, sizes: Sizes) -> list[Row]:
    """A new interpreter that imports the package and ends; its start-up is counted too."""

    def cost(subject: str, statement: str) -> float | None:
        seconds = subjects.cpu_of(subject, statement, repeats=sizes.imports)
        return None if seconds is None else seconds * MILLI

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
    """Grading with a judge that answers at once: what the library itself costs per criterion."""

    def graded(subject: str, door: str = "grade") -> Figures:
        return subjects.measure(
            subject, "core.py:grade", responses=sizes.responses, repeats=sizes.repeats, door=door
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
    """A measure by the name `--only` takes, and the peers it needs."""

    name: str
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
    """The cheapest figures of each over several fresh processes.

    Taken in turn, so that a slow moment of the machine does not fall on one subject alone.
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
    """MiB, the middle one of several fresh processes."""
    figures = [
        _score(subjects, subject, sizes, measure="memory", checks="sync", repeats=1)
        for _ in range(sizes.processes)
    ]
    known = [figure["peak_bytes"] for figure in figures if figure is not None]
    return median(known) / MEBIBYTE if known and len(known) == len(figures) else None


def _flat_cost(subjects: Subjects, size: int, sizes: Sizes) -> float | None:
    figures = subjects.measure(
        "assay",
        "core.py:score",
        measure="cpu",
        checks="sync",
        batch=size,
        batches=-(-FLATNESS_WORK // size),
        repeats=sizes.repeats,
    )
    return _per_item(figures, "rollouts")


def _per_item(figures: Figures, count: str, *, seconds: str = "cpu_seconds") -> float | None:
    """Microseconds of CPU for one item."""
    return None if figures is None else figures[seconds] / figures[count] * MICRO


def _rate_row(
    label: str,
    ours: Figures,
    theirs: Figures,
    against: str = "verifiers",
    *,
    count: str,
    target: Target,
) -> Row:
    """Items per CPU second, side by side."""
    our_rate, their_rate = (
        None if figures is None else figures[count] / figures["cpu_seconds"]
        for figures in (ours, theirs)
    )
    return Row(label, our_rate, their_rate, f"{count}/CPU s", against, target)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    chosen = [m for m in MEASURES if not options.only or m.name in options.only]
    try:
        rows, notes = run(chosen, QUICK if options.quick else Sizes())
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
    """The rows of all measures, and a sentence for everything that could not be measured."""
    installed = install({name for measure in measures for name in measure.peers}, say=say)
    subjects: Subjects = all_subjects(installed.interpreters, say=say)
    rows = [row for measure in measures for row in measure.run(subjects, sizes)]
    return rows, [*installed.failures, *subjects.notes]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="core.py", description=(__doc__ or "").strip())
    add_options(parser, [measure.name for measure in MEASURES])
    return parser


if __name__ == "__main__":
    run_worker(sys.argv, {"score": score_main, "grade": grade_main})
    sys.exit(main())
