"""Evaluate a model over HTTP with one subject, and print what it took as a JSON line.

Started in a fresh process by `subjects.py`; its only argument is the task as JSON: `subject`, `url`,
`rollouts`, `concurrency` and, for assay, `way`: by a `name`, or by a `client` of the openai package.
"""

import asyncio
import importlib
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

Evaluate = Callable[[int], Awaitable[list[float]]]
"""So many rollouts, and the reward of each."""

ANSWER = "42"


def rows(count: int) -> list[dict[str, str]]:
    return [{"question": f"Question {n}: why does a heat pump pay for itself?", "answer": ANSWER} for n in range(count)]


def ends_right(completion: Any, answer: str) -> float:
    """Whether the last message ends in the answer."""
    last = completion[-1]
    content = last["content"] if isinstance(last, dict) else last.content
    return float(content.endswith(answer))


def with_assay(task: dict[str, Any]) -> Evaluate:
    assay: Any = importlib.import_module("assay")
    envs: Any = importlib.import_module("assay.envs")
    env = envs.SingleTurnEnv(rows(task["rollouts"]), rubric=assay.Rubric([ends_right]), system_prompt="Answer.")
    asked: dict[str, Any] = {"model": f"{task['url']}#model"}
    if task.get("way") == "client":
        openai: Any = importlib.import_module("openai")
        client = openai.AsyncOpenAI(base_url=task["url"], api_key="none")
        asked = {"client": client, "model": "model"}

    async def evaluate(count: int) -> list[float]:
        results = await env.evaluate(**asked, num_examples=count, max_concurrent=task["concurrency"])
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
    client = clients.OpenAIChatCompletionsClient(openai.AsyncOpenAI(base_url=task["url"], api_key="none"))

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


SUBJECTS: dict[str, Callable[[dict[str, Any]], Evaluate]] = {"assay": with_assay, "verifiers": with_verifiers}


async def measure(task: dict[str, Any]) -> dict[str, float]:
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


def main() -> None:
    print(json.dumps(asyncio.run(measure(json.loads(sys.argv[1])))))


if __name__ == "__main__":
    main()
