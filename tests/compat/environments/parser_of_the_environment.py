"""The environment has a parser, and its rubric was given none."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "2 * 2?", "answer": "4"}]
REPLIES = {"2 * 2?": ["<answer>4</answer>"]}


def right(parser, completion, answer) -> float:
    return float(parser.parse_answer(completion) == answer)


def load_environment() -> vf.Environment:
    parser = vf.XMLParser(["answer"])
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(ROWS), parser=parser, rubric=vf.Rubric(funcs=[right])
    )
