"""Prompts hold texts and images, and a tool returns parts."""

import verifiers as vf
from datasets import Dataset

DOT = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
ROWS = [{"prompt": [{"role": "user", "content": "look"}], "answer": "dot"}]
REPLIES = {"look": [("draw", {"what": "dot"}), "dot"]}


def draw(what: str) -> list:
    """Draw something."""
    return [{"type": "text", "text": f"a {what}"}, DOT]


def saw(completion, answer) -> float:
    parts = [part for m in completion if m["role"] == "tool" for part in m["content"]]
    return float(completion[-1]["content"] == answer) + len(parts)


def load_environment() -> vf.Environment:
    return vf.ToolEnv(dataset=Dataset.from_list(ROWS), tools=[draw], rubric=vf.Rubric(funcs=[saw]))
