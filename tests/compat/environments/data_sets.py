"""Data sets are functions, evaluation has its own, and ids that are texts become numbers."""

import verifiers as vf
from datasets import Dataset

REPLIES = {"e1": ["1"], "e2": ["2"]}


def train():
    raise AssertionError("evaluation needs no data to train on")


def held_out():
    prompts = [[{"role": "user", "content": text}] for text in ("e1", "e2")]
    rows = [{"prompt": p, "answer": "1", "example_id": f"id-{n}"} for n, p in enumerate(prompts)]
    return Dataset.from_list(rows)


def exact(completion, answer, prompt) -> float:
    return float(completion[-1]["content"] == answer) + len(prompt)


def load_environment() -> vf.Environment:
    return vf.SingleTurnEnv(
        dataset=train,
        eval_dataset=held_out,
        system_prompt="One.",
        rubric=vf.Rubric(funcs=[exact]),
        env_id="mine",
    )
