"""A group function ranks the answers to one question, beside functions that see one answer."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "Be brief.", "answer": "ok"}]
REPLIES = {"Be brief.": [{"any of": ["ok", "okay then", "yes, that is ok"]}]}
OPTIONS = {"rollouts_per_example": 3, "max_concurrent": 1}


async def rank_by_length(completions, answers, states, **kwargs) -> list[float]:
    lengths = [len(completion[-1]["content"]) for completion in completions]
    order = sorted(lengths)
    for state, length in zip(states, lengths, strict=True):
        state["rank"] = order.index(length)
    return [1 - state["rank"] / len(states) for state in states]


def says_it(completion, answer) -> float:
    return float(answer in completion[-1]["content"])


def saw_the_rank(state) -> float:
    return float(state["rank"])


def load_environment() -> vf.Environment:
    rubric = vf.Rubric(funcs=[says_it, rank_by_length, saw_the_rank], weights=[1.0, 0.5, 0.0])
    return vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), rubric=rubric)
