"""The environment speaks in plain dicts and reads by key, as before 0.1.11."""

import verifiers as vf
from datasets import Dataset

ROWS = [
    {
        "prompt": [
            {"role": "system", "content": "Count up."},
            {"role": "user", "content": "start"},
        ],
        "answer": "3",
    }
]
REPLIES = {"start": ["1", "2", "3", "4"]}


class Counter(vf.MultiTurnEnv):
    async def env_response(self, messages, state, **kwargs):
        spoken = [m["content"] for m in messages if m["role"] == "assistant"]
        return [{"role": "user", "content": f"after {spoken[-1]}?"}]


def last_number(completion, answer, **kwargs) -> float:
    assistant = [m for m in completion if m["role"] == "assistant"]
    return float(assistant[-1]["content"] == answer) + len(completion)


def load_environment() -> vf.Environment:
    return Counter(
        dataset=Dataset.from_list(ROWS), max_turns=3, rubric=vf.Rubric(funcs=[last_number])
    )
