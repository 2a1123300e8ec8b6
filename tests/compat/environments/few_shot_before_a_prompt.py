"""Examples of answers are given, and rows bring whole prompts."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"prompt": [{"role": "user", "content": "cat"}], "answer": "3"}]
REPLIES = {"cat": ["3"]}
SHOTS = [{"role": "user", "content": "ox"}, {"role": "assistant", "content": "2"}]


def length(prompt) -> float:
    return float(len(prompt))


def load_environment() -> vf.Environment:
    rubric = vf.Rubric(funcs=[length])
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(ROWS), system_prompt="Count.", few_shot=SHOTS, rubric=rubric
    )
