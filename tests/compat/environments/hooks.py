"""Hooks await those of the class above, run by priority, and leave their order in the state."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "Guess!", "answer": "7", "info": {"low": 1, "high": 9}}]
REPLIES = {"Guess!": ["5", "8", "7"]}
OPTIONS = {"state_columns": ["order", "tries"]}


class Guess(vf.MultiTurnEnv):
    async def setup_state(self, state: vf.State, **kwargs):
        await super().setup_state(state, **kwargs)
        state["tries"], state["order"] = [], [f"setup {state['info']['low']}"]
        return state

    async def env_response(self, messages, state, **kwargs):
        state["tries"].append(messages[-1]["content"])
        return [
            {
                "role": "user",
                "content": "lower" if messages[-1]["content"] > state["answer"] else "higher",
            }
        ]

    @vf.stop(priority=10)
    async def found(self, state) -> bool:
        steps = state["trajectory"]
        return bool(steps) and steps[-1]["completion"][-1]["content"] == state["answer"]

    @vf.stop(priority=-5)
    async def too_long(self, state) -> bool:
        return await self.max_turns_reached(state)

    @vf.cleanup
    async def later(self, state):
        state["order"].append(f"later {len(state['completion'])}")

    @vf.cleanup(priority=5)
    async def sooner(self, state):
        state["order"].append("sooner")


def load_environment() -> vf.Environment:
    rubric = vf.Rubric(funcs=[lambda state: 1 / len(state["trajectory"])])
    return Guess(dataset=Dataset.from_list(ROWS), max_turns=5, rubric=rubric)
