"""An answer that is given twice, and one that is missing."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "twice", "answer": "2"}, {"question": "never", "answer": "2"}]
REPLIES = {"twice": ["<answer>1</answer> no, <answer>2</answer>"], "never": ["two"]}


def load_environment() -> vf.Environment:
    parser = vf.XMLParser(["answer"])

    def right(parser, completion, answer) -> float:
        return float(parser.parse_answer(completion) == answer)

    def first(parser, completion) -> float:
        return len(parser.parse(completion[-1]["content"]).answer or "none")

    rubric = vf.Rubric(funcs=[right, first], parser=parser)
    return vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), parser=parser, rubric=rubric)
