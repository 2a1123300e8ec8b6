"""Thoughts are cut off, the answer is in a box, and a lenient parser reads what has no thoughts."""

import verifiers as vf
from datasets import Dataset
from verifiers.utils.data_utils import THINK_BOXED_SYSTEM_PROMPT, extract_boxed_answer

ROWS = [
    {"question": "6 * 7?", "answer": "42"},
    {"question": "1 / 2?", "answer": "\\frac{1}{2}"},
    {"question": "No box?", "answer": "3"},
]
REPLIES = {
    "6 * 7?": ["<think>six sevens</think>\nIt is \\boxed{42}."],
    "1 / 2?": ["So \\boxed{\\frac{1}{2}}"],
    "No box?": ["<think>hm</think>3"],
}


def right(parser, completion, answer, **kwargs) -> float:
    return float((parser.parse_answer(completion) or "") == answer)


def thought(completion) -> float:
    return float("<think>" in completion[-1]["content"])


def load_environment(use_think: bool = True) -> vf.Environment:
    parser = vf.MaybeThinkParser(extract_fn=extract_boxed_answer)
    rubric = vf.Rubric(
        funcs=[right, parser.get_format_reward_func(), thought],
        weights=[1.0, 0.0, 0.1],
        parser=parser,
    )
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(ROWS),
        system_prompt=THINK_BOXED_SYSTEM_PROMPT,
        parser=parser,
        rubric=rubric,
    )
