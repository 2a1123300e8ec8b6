"""A row brings the tools that its rollout may call, and the environment answers for them."""

import json

import verifiers as vf
from datasets import Dataset

WEATHER = {
    "name": "weather",
    "description": "The weather.",
    "parameters": {"type": "object", "properties": {}},
}
ROWS = [{"question": "Weather?", "answer": "rain", "info": json.dumps({"tool_defs": [WEATHER]})}]
REPLIES = {"Weather?": [("weather", {}), "rain"]}


class Service(vf.MultiTurnEnv):
    async def env_response(self, messages, state, **kwargs):
        names = [tool.name for tool in state["tool_defs"]]
        return [
            vf.ToolMessage(content=f"{call.name} of {names}: rain", tool_call_id=call.id)
            for call in messages[-1].tool_calls
        ]

    @vf.stop
    async def answered(self, state) -> bool:
        steps = state["trajectory"]
        return bool(steps) and not steps[-1]["completion"][-1].tool_calls


def right(completion, answer) -> float:
    return float(completion[-1].content == answer)


def load_environment() -> vf.Environment:
    return Service(dataset=Dataset.from_list(ROWS), max_turns=4, rubric=vf.Rubric(funcs=[right]))
