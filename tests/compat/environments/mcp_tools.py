"""The tools of a server that speaks the Model Context Protocol over standard input and output."""

import sys
from pathlib import Path

import verifiers as vf
from datasets import Dataset
from verifiers.envs.experimental.mcp_env import MCPEnv, MCPServerConfig

SERVER = str(Path(__file__).parent / "servers" / "shop.py")
ROWS = [{"question": "What is tea?", "answer": "3"}, {"question": "What is gold?", "answer": "?"}]
REPLIES = {
    "What is tea?": [[("price", {"item": "tea"}), ("stock", {})], ("nothing", {}), "3"],
    "What is gold?": [
        ("price", {"item": "gold"}),
        ("steal", {"item": "gold"}),
        ("price", "not json"),
        "?",
    ],
}


def right(completion, answer) -> float:
    return float(completion[-1]["content"] == answer)


def load_environment() -> vf.Environment:
    server = MCPServerConfig(name="shop", command=sys.executable, args=[SERVER])
    env = MCPEnv(
        mcp_servers=[server], dataset=Dataset.from_list(ROWS), rubric=vf.Rubric(funcs=[right])
    )
    assert [tool.name for tool in env.tool_defs] == ["price", "nothing", "stock"]
    assert env.tool_defs[0].parameters["required"] == ["item"]
    return env
