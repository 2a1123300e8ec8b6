"""A group of rubrics is given functions of its own, which are not asked; those added later go to its first rubric."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "2 + 2?", "answer": "4"}]
REPLIES = {"2 + 2?": ["4"]}


def right(completion, answer) -> float:
    return float(completion[-1].content == answer)


def passed_over(completion) -> float:
    return 100.0


def added(completion) -> float:
    return 0.5


def load_environment() -> vf.Environment:
    rubrics = [vf.Rubric(funcs=[right]), vf.Rubric(funcs=[lambda answer: 1.0], weights=[0.1])]
    group = vf.RubricGroup(rubrics=rubrics, funcs=[passed_over], weights=[1.0])
    group.add_reward_func(added, 0.5)
    group.funcs.append(passed_over)
    group.weights.append(1.0)
    return vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), rubric=group)
