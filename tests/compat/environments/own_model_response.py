"""A subclass changes how the model is asked, and rewards single steps."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "first?"}]
REPLIES = {"first?": ["one", "two", "three"]}


class Steps(vf.MultiTurnEnv):
    async def get_model_response(self, state, prompt, **kwargs):
        state["asked"] = [*state.get("asked", []), len(prompt)]
        return await super().get_model_response(state, prompt, **kwargs)

    async def add_trajectory_step(self, state, trajectory_step):
        trajectory_step["reward"] = len(trajectory_step["completion"][-1].content) / 10
        await super().add_trajectory_step(state, trajectory_step)

    async def env_response(self, messages, state, **kwargs):
        return [vf.UserMessage(content="next?")]


def steps(state) -> float:
    return sum(step["reward"] for step in state["trajectory"])


def asked(state) -> float:
    return sum(state["asked"])


def load_environment() -> vf.Environment:
    return Steps(
        dataset=Dataset.from_list(ROWS), max_turns=3, rubric=vf.Rubric(funcs=[steps, asked])
    )
