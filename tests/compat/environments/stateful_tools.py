"""Tools take what the model does not see from the state of the rollout."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "Put two in.", "answer": "2"}, {"question": "Put none in.", "answer": "0"}]
REPLIES = {
    "Put two in.": [("put", {"item": "pen"}), ("put", {"item": "cup"}), "2"],
    "Put none in.": [("put", '["pen"]'), ("count", {}), "0"],
}
OPTIONS = {"state_columns": ["box"]}


async def put(item: str, box: list, owner: str = "") -> str:
    """Put an item into the box."""
    box.append(item)
    return f"{owner} has {len(box)}"


class Box(vf.StatefulToolEnv):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.add_tool(put, args_to_skip=["box", "owner"])
        self.add_tool(self.count, args_to_skip=["box"])

    async def count(self, box: list) -> int:
        """Count the items in the box."""
        return len(box)

    async def setup_state(self, state, **kwargs):
        state["box"] = []
        return await super().setup_state(state, **kwargs)

    def update_tool_args(self, tool_name, tool_args, messages, state, **kwargs) -> dict:
        tool_args["box"] = state["box"]
        return {**tool_args, "owner": "you"} if tool_name == "put" else tool_args


def in_box(state, answer) -> float:
    return float(len(state["box"]) == int(answer))


def schema_is_clean(state) -> float:
    return float(all("box" not in tool.parameters["properties"] for tool in state["tool_defs"]))


def load_environment() -> vf.Environment:
    rubric = vf.Rubric(funcs=[in_box, schema_is_clean])
    return Box(dataset=Dataset.from_list(ROWS), max_turns=6, rubric=rubric)
