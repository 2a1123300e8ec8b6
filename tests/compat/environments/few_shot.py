"""Examples of answers stand between the system prompt and the question."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "cat", "answer": "3"}, {"question": "horse", "answer": "5"}]
REPLIES = {"cat": ["3"], "horse": ["6"]}
SHOTS = [{"role": "user", "content": "ox"}, {"role": "assistant", "content": "2"}]


def counted(completion, answer, prompt) -> float:
    return float(completion[-1]["content"] == answer) * len(prompt)


def load_environment() -> vf.Environment:
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(ROWS),
        system_prompt="Count the letters.",
        few_shot=SHOTS,
        rubric=vf.Rubric(funcs=[counted]),
    )
