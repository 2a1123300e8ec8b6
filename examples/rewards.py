"""One rubric as a training reward: a group of rollouts in, rewards and advantages out."""

import asyncio

from assay import Rubric, XMLParser


def right_answer(completion, answer, parser):
    """The number between the answer tags."""
    return parser.parse_answer(completion) == answer


async def shows_work(completion):
    """Checks may be async: ask a database, run a compiler."""
    await asyncio.sleep(0)
    return "=" in completion


def brevity(completions) -> list[float]:
    """Plural arguments: this one sees the whole group."""
    longest = max(len(text) for text in completions)
    return [1 - len(text) / longest for text in completions]


async def main() -> None:
    parser = XMLParser(["think", "answer"])
    rubric = Rubric([right_answer, shows_work, brevity], weights=[1.0, 0.3, 0.1], parser=parser)
    rubric.add_metric(lambda completion: len(completion.split()))
    texts = (
        "<think>17 + 25 = 42</think><answer>42</answer>",
        "<think>about forty</think><answer>40</answer>",
        "<answer>42</answer>",
    )
    states = [{"prompt": "17 + 25?", "completion": text, "answer": "42"} for text in texts]
    await rubric.score_group(states)
    for state in states:
        print(f"{state['reward']:.3f} {state['advantage']:+.3f} {state['metrics']}")


if __name__ == "__main__":
    asyncio.run(main())
