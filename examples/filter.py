"""One rubric as a data filter: keep the rollouts that score well, set aside those nobody could score."""

import asyncio

from assay import Rollout, Rubric
from assay.checks import CodeBlock, MaxWords, Refusal

ROLLOUTS = [
    Rollout(prompt="Reverse a list.", completion="```python\nitems[::-1]\n```"),
    Rollout(prompt="Reverse a list.", completion="I'm sorry, but I can't help with that."),
    Rollout(prompt="Reverse a list.", completion="Use slicing. " * 40),
    Rollout(
        prompt="Reverse a list.", completion="```python\nreversed(items)\n```", info={"tests": None}
    ),
]


def passes_tests(info):
    """Fails, on purpose, where there are no tests to run."""
    return len(info.get("tests", "ok")) > 0


async def main() -> None:
    rubric = Rubric(
        [CodeBlock(), MaxWords(50), Refusal(), passes_tests], weights=[2.0, 1.0, -3.0, 1.0]
    )
    reports = await rubric.score(ROLLOUTS)
    for rollout, report in zip(ROLLOUTS, reports, strict=True):
        if not report.scored:
            print("set aside:", report.errors)
        elif report.score is not None and report.score >= 0.75:
            print("kept:", repr(rollout.text))
        else:
            print("dropped:", report.score)


if __name__ == "__main__":
    asyncio.run(main())
