"""The format reward of texts without tags, with an open tag, and with tags that cross."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": q, "answer": "1"} for q in ("plain", "open", "crossed", "swapped", "half")]
REPLIES = {
    "plain": ["It is 1."],
    "open": ["<think>so <answer>1</answer>"],
    "crossed": ["<think>a<answer>b</think>1</answer>"],
    "swapped": ["<answer>1</answer><think>so</think>"],
    "half": ["<think>so</think> 1"],
}


def load_environment() -> vf.Environment:
    parser = vf.XMLParser(["think", "answer"])
    rubric = vf.Rubric(funcs=[parser.get_format_reward_func()], parser=parser)
    return vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), parser=parser, rubric=rubric)
