"""A reply that the limit of tokens cuts off, and a dialogue that outgrows the model."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "Tell me all."}]
REPLIES = {"Tell me all.": ["It began", "and", "never"]}
FAULTS = [None, ("refusing", "This model's maximum context length is 10 tokens.")]


class Teller(vf.MultiTurnEnv):
    async def env_response(self, messages, state, **kwargs):
        return [vf.UserMessage(content="go on")]


def words(completion) -> float:
    return float(sum(len(m["content"].split()) for m in completion))


def load_environment() -> vf.Environment:
    return Teller(dataset=Dataset.from_list(ROWS), max_turns=5, rubric=vf.Rubric(funcs=[words]))
