"""Grade texts with one subject, the judge answering at once, and print the cost as a JSON line.

Started in a fresh process by `subjects.py`; its only argument is the task as JSON:
`subject`, `responses`, `repeats`, `door`. A judge without latency leaves the library's own cost.
"""

import asyncio
import importlib
import json
import math
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from gauges import cpu_seconds
from workloads import CRITERIA, QUERY, build_responses, expected_score

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
        raise ValueError(f"{len(scores)} of {count} texts graded, {len(wrong)} not {expected}: {wrong[:3]}")


def main() -> None:
    task: dict[str, Any] = json.loads(sys.argv[1])
    print(json.dumps(asyncio.run(measure(task))))


if __name__ == "__main__":
    main()
