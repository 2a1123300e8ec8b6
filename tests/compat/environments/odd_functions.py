"""Functions that name what nothing supplies, a partial with a name, and a parser without a field."""

from functools import partial

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "2 + 2?", "answer": "4"}, {"question": "3 + 3?", "answer": "6"}]
REPLIES = {"2 + 2?": ["4"], "3 + 3?": ["7"]}


def scaled(completion, answer, scale) -> float:
    return scale * float(completion[-1]["content"] == answer)


doubled = partial(scaled, scale=2.0)
doubled.__name__ = "doubled"


def of_nothing(completion, difficulty) -> float:
    return 1.0


def of_nothing_in_a_group(completions, difficulties) -> list[float]:
    return [1.0] * len(completions)


def graded(completion, parser) -> float:
    return {"A": 1.0}.get(parser.parse_answer(completion) or "F", 0.25)


def load_environment() -> vf.Environment:
    parser = vf.XMLParser(fields=[], answer_field="grade")
    rubric = vf.Rubric(funcs=[doubled, of_nothing, of_nothing_in_a_group, graded], parser=parser)
    return vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), rubric=rubric, parser=parser)
