"""A subclass takes part when a rollout is over: before and after its completion is rendered, and around all hooks."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "2 + 2?", "answer": "4"}, {"question": "Late.", "answer": ""}]
REPLIES = {"2 + 2?": ["4", "4!"], "Late.": ["x"]}
OPTIONS = {"state_columns": ["log"]}


class Tidy(vf.MultiTurnEnv):
    async def setup_state(self, state):
        state["log"] = []

    async def env_response(self, messages, state):
        if state["input"]["question"] == "Late.":
            self.mark_timed_out(state)
            state["final_env_response"] = []
            return []
        return [vf.UserMessage(content="Sure?")]

    @vf.cleanup(priority=200)
    async def first(self, state):
        state["log"].append(f"first {state['completion'] is None}")

    async def render_completion(self, state):
        state["log"].append("render")
        await super().render_completion(state)

    @vf.cleanup(priority=100)
    async def render_state(self, state):
        await super().render_state(state)
        state["log"].append(f"rendered {len(state['completion'])}")

    @vf.cleanup
    def last(self, state):
        state["log"].append("last")

    async def cleanup(self, state, task=None, resources=None):
        state["log"].append("begin")
        await super().cleanup(state, task, resources)
        state["log"].append("end")


def said(completion, state) -> float:
    return float(len(completion)) + state.get("timed_out", False)


def load_environment() -> vf.Environment:
    return Tidy(
        dataset=lambda: Dataset.from_list(ROWS), rubric=vf.Rubric(funcs=[said]), max_turns=2
    )
