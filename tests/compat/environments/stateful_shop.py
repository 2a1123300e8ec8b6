"""Stateful tools change the state of the rollout, some arguments are hidden, and a tool ends the rollout."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "Buy two apples.", "answer": "2", "info": {"money": 5}}]
REPLIES = {
    "Buy two apples.": [
        [("buy", {"item": "apple", "number": 2}), ("buy", {"item": "pear"})],
        ("buy", {"item": "gold"}),
        ("leave", {}),
        "never said",
    ]
}
OPTIONS = {"state_columns": ["basket", "money"]}
PRICES = {"apple": 1, "pear": 2}


def buy(item: str, basket: list, state: dict, number: int = 1) -> str:
    """Buy something.

    Args:
        item: What to buy.
        number: How many.
    """
    cost = PRICES[item] * number
    if cost > state["money"]:
        return "too dear"
    state["money"] -= cost
    basket.extend([item] * number)
    return f"{number} {item} for {cost}"


def leave() -> str:
    """Leave the shop."""
    return "bye"


class Shop(vf.StatefulToolEnv):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.add_tool(buy, args_to_skip=["basket", "state"])
        self.add_tool(leave)

    async def setup_state(self, state, **kwargs):
        state["basket"], state["money"] = [], state["info"]["money"]
        await super().setup_state(state, **kwargs)

    def update_tool_args(self, tool_name, tool_args, messages, state, **kwargs):
        return (
            {**tool_args, "basket": state["basket"], "state": state}
            if tool_name == "buy"
            else tool_args
        )

    @vf.stop(priority=1)
    async def left(self, state) -> bool:
        calls = [
            c
            for step in state["trajectory"]
            for m in step["completion"]
            for c in m.tool_calls or ()
        ]
        return any(call.name == "leave" for call in calls)


def bought(state, answer) -> float:
    return float(state["basket"].count("apple") == int(answer))


def load_environment() -> vf.Environment:
    return Shop(
        dataset=Dataset.from_list(ROWS), tools=[], rubric=vf.Rubric(funcs=[bought]), max_turns=6
    )
