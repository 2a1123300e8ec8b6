"""A subclass has its own call_tool and env_response around those of the class."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "shout", "answer": "HI!"}]
REPLIES = {
    "shout": [("echo", {"text": "hi"}), [("echo", {"text": "a"}), ("echo", {"text": "b"})], "HI!"]
}


def echo(text: str) -> str:
    """Say it again."""
    return text


class Loud(vf.ToolEnv):
    async def call_tool(
        self, tool_name: str, tool_args: dict, tool_call_id: str, **kwargs
    ) -> vf.ToolMessage:
        message = await super().call_tool(tool_name, tool_args, tool_call_id, **kwargs)
        return vf.ToolMessage(
            role="tool", content=message.content.upper() + "!", tool_call_id=tool_call_id
        )

    async def env_response(self, messages, state, **kwargs):
        calls = messages[-1].tool_calls
        names = ", ".join(call.name for call in calls)
        replies = await super().env_response(messages, state, **kwargs)
        return [*replies, vf.UserMessage(content=f"called {names}")]


def heard(completion, answer) -> float:
    return float(any(m.role == "tool" and m.content == answer for m in completion))


def load_environment() -> vf.Environment:
    return Loud(
        dataset=Dataset.from_list(ROWS), tools=[echo], max_turns=6, rubric=vf.Rubric(funcs=[heard])
    )
