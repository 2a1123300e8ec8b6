"""Grade texts with one subject over HTTP, and print what it took as a JSON line.

Started in a fresh process by `subjects.py`; its only argument is the task as JSON: `subject`, `url`,
`responses`, `concurrency`, `timeout`, and for assay `cache` and `changed`.
"""

import asyncio
import importlib
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from workloads import CRITERIA, QUERY, build_responses, verdict_on

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
    limits = assay.Limits(concurrency=task["concurrency"], timeout=task["timeout"], attempts=ATTEMPTS)
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
    client = openai.AsyncOpenAI(api_key="none", base_url=task["url"], timeout=task["timeout"], max_retries=ATTEMPTS - 1)

    async def ask(system_prompt: str, user_prompt: str) -> Any:
        async with places:
            response = await client.chat.completions.create(
                model="judge",
                messages=[{"role": "system", "content": system_prompt}, {"role": "user", "content": user_prompt}],
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
            (line.criterion.requirement, None if line.error else line.final_verdict.value) for line in report.report
        ],
    )


def one_by_one(grade: Callable[[str], Awaitable[Any]], verdicts: Callable[[Any], Verdicts]) -> Grade:
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


def main() -> None:
    task: dict[str, Any] = json.loads(sys.argv[1])
    print(json.dumps(asyncio.run(measure(task))))


if __name__ == "__main__":
    main()
