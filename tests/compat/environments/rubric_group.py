"""Two rubrics add up, each with its own parser; metrics of one name are summed."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "3 * 3?", "answer": "9"}]
REPLIES = {"3 * 3?": ["<think>9?</think><answer>9</answer>"]}


def length(parser, completion) -> float:
    return len(parser.parse_answer(completion) or "") / 100


def right(parser, completion, answer) -> float:
    return float(parser.parse_answer(completion) == answer)


def load_environment() -> vf.Environment:
    tags = vf.XMLParser(["think", "answer"])
    one = vf.Rubric(funcs=[right, length], weights=[1.0, 0.0], parser=tags)
    other = vf.Rubric(funcs=[right, length], weights=[0.1, 1.0], parser=vf.Parser())
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(ROWS), rubric=vf.RubricGroup(rubrics=[one, other])
    )
