"""MathRubric as a training reward: right answers in any form, and a reason for every verdict."""

import asyncio

from assay import MathRubric

QUESTION = "What is half of 3/2, plus 1/4?"
COMPLETIONS = (
    r"<think>3/4 + 1/4</think> It is \boxed{1}.",
    r"\boxed{\frac{4}{4}}",
    r"\boxed{0.75}",
    "It is one of 1, 2 and 3.",
    r"\boxed{9^{9^{9^{9}}}}",
)


async def shows_work(completion: str) -> bool:
    """Something stands before the box."""
    return completion.find("\\boxed") > 10


async def main() -> None:
    rubric = MathRubric([shows_work], [0.2], strict=True)
    states = [{"prompt": QUESTION, "completion": text, "answer": "1"} for text in COMPLETIONS]
    reports = await rubric.score_group(states)
    for state, report in zip(states, reports, strict=True):
        line = report.report[-1]
        print(f"{state['reward']:.1f} {state['advantage']:+.2f} {line.verdict}: {line.reason}")


if __name__ == "__main__":
    asyncio.run(main())
