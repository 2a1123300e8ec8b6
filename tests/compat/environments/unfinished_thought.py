"""A thought that never ends, and one that opens again."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "cut", "answer": "<think>4"}, {"question": "again", "answer": "<think>or 5"}]
REPLIES = {"cut": ["<think>4"], "again": ["<think>4?</think> <think>or 5"]}


def load_environment() -> vf.Environment:
    maybe, think = vf.MaybeThinkParser(), vf.ThinkParser()

    def maybe_right(completion, answer) -> float:
        return float(maybe.parse_answer(completion) == answer)

    def think_right(completion, answer) -> float:
        return float(think.parse_answer(completion) == answer)

    rubric = vf.Rubric(funcs=[maybe_right, think_right, think.get_format_reward_func()])
    return vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), rubric=rubric)
