"""A reply that the limit of tokens cut off is marked."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "Long?"}]
REPLIES = {"Long?": ["unused"]}
FAULTS = [("truncated", "It goes on and")]


def load_environment() -> vf.Environment:
    rubric = vf.Rubric(funcs=[lambda completion: len(completion[-1]["content"])])
    return vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), rubric=rubric)
