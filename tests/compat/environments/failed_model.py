"""The endpoint refuses in the second turn, and the rollout ends with an error."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "Go?", "answer": "x"}]
REPLIES = {"Go?": ["first", "second"]}
FAULTS = [None, ("refusing", "no such parameter")]


class Goer(vf.MultiTurnEnv):
    async def env_response(self, messages, state, **kwargs):
        return [vf.UserMessage(content="go on")]


def said(completion) -> float:
    return float(len(completion))


def load_environment() -> vf.Environment:
    return Goer(dataset=Dataset.from_list(ROWS), max_turns=3, rubric=vf.Rubric(funcs=[said]))
