"""Thoughts, then an answer in a box, with the prompt and the function of the package."""

import verifiers as vf
from datasets import Dataset
from verifiers.utils.data_utils import THINK_BOXED_SYSTEM_PROMPT, extract_boxed_answer

ROWS = [{"question": "1/2 + 1/2?", "answer": "1"}, {"question": "2^5?", "answer": "32"}]
REPLIES = {
    "1/2 + 1/2?": ["<think>Two halves.</think>\nIt is \\boxed{1}."],
    "2^5?": ["<think>Doubling.</think>\nIt is \\boxed{16}."],
}


def load_environment() -> vf.Environment:
    parser = vf.ThinkParser(extract_fn=extract_boxed_answer)

    def correct_answer(parser, completion, answer, **kwargs) -> float:
        return float(parser.parse_answer(completion) == answer)

    rubric = vf.Rubric(parser=parser)
    rubric.add_reward_func(correct_answer)
    rubric.add_reward_func(parser.get_format_reward_func(), weight=0.25)
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(ROWS),
        system_prompt=THINK_BOXED_SYSTEM_PROMPT,
        parser=parser,
        rubric=rubric,
    )
