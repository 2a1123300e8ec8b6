"""A data set whose prompts hold texts and images: its table has a cell for each field of either, and most are empty."""

import verifiers as vf
from datasets import Dataset

DOT = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


def replies(messages):
    return messages[-1]["content"][-1]["type"]


def parts(completion, prompt) -> float:
    return float(len(prompt[0]["content"]))


def load_environment() -> vf.Environment:
    asked = [[{"type": "text", "text": "look"}, DOT], [DOT, DOT, {"type": "text", "text": "again"}]]
    rows = [{"prompt": [{"role": "user", "content": content}], "answer": ""} for content in asked]
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[parts]))
