"""One rubric scores in two environments with tools, alone and in a group, and each counts its own tools."""

import verifiers as vf
from datasets import Dataset

REPLIES = {
    "Add!": [[("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})], "done"],
    "Look!": [("look", {"place": "here"}), "done"],
}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def look(place: str) -> str:
    """Look at a place."""
    return f"nothing {place}"


def load_environment() -> vf.Environment:
    shared = vf.Rubric(funcs=[lambda completion: 1.0])
    rows = [Dataset.from_list([{"question": question, "answer": "done"}]) for question in REPLIES]
    adding = vf.ToolEnv(dataset=rows[0], tools=[add], rubric=shared)
    looking = vf.ToolEnv(dataset=rows[1], rubric=vf.RubricGroup(rubrics=[shared]))
    looking.add_tool(look)
    looking.add_tool(add)
    looking.remove_tool(add)
    return vf.EnvGroup(envs=[adding, looking], env_names=["adding", "looking"])
