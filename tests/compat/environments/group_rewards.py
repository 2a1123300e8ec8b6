"""Functions see all rollouts of an example at once."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "Say a number.", "answer": "3"}, {"question": "Say a word.", "answer": "x"}]
REPLIES = {
    "Say a number.": [{"any of": ["1", "2", "3"]}],
    "Say a word.": [{"any of": ["a", "bb", "ccc"]}],
}
OPTIONS = {"rollouts_per_example": 3}


def longest(completions, **kwargs) -> list[float]:
    lengths = [len(completion[-1]["content"]) for completion in completions]
    return [float(length == max(lengths)) for length in lengths]


async def rank(states, answers) -> list[float]:
    order = sorted(state["completion"][-1]["content"] for state in states)
    return [order.index(state["completion"][-1]["content"]) / len(answers) for state in states]


def exact(completion, answer) -> float:
    return float(completion[-1]["content"] == answer)


def load_environment() -> vf.Environment:
    rubric = vf.Rubric(funcs=[exact, longest, rank], weights=[1.0, 0.5, 0.1])
    return vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), rubric=rubric)
