"""Environments in a group compare the rollouts of an example, each by its own functions."""

import verifiers as vf
from datasets import Dataset

REPLIES = {"Long?": [{"any of": ["a", "bbb"]}], "Short?": [{"any of": ["cc", "d"]}]}
OPTIONS = {"rollouts_per_example": 2}


def lengths(completions):
    return [len(completion[-1]["content"]) for completion in completions]


def longest(completions, **kwargs) -> list[float]:
    return [float(length == max(lengths(completions))) for length in lengths(completions)]


def shortest(completions, **kwargs) -> list[float]:
    return [float(length == min(lengths(completions))) for length in lengths(completions)]


def load_environment() -> vf.Environment:
    parts = [
        vf.SingleTurnEnv(
            dataset=Dataset.from_list([{"question": question}]), rubric=vf.Rubric(funcs=[function])
        )
        for question, function in (("Long?", longest), ("Short?", shortest))
    ]
    return vf.EnvGroup(envs=parts)
