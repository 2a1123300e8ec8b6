"""A subclass asks with a summary in place of all that was said, and renders that."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "Remember: blue."}]
REPLIES = {"Remember: blue.": ["ok"], "You said ok.": ["blue"]}


class Summary(vf.MultiTurnEnv):
    async def get_prompt_messages(self, state):
        if not state["trajectory"]:
            return await super().get_prompt_messages(state)
        last = state["trajectory"][-1]["completion"][-1]["content"]
        return [vf.SystemMessage(content="In short."), vf.UserMessage(content=f"You said {last}.")]

    async def env_response(self, messages, state, **kwargs):
        return []

    async def render_completion(self, state):
        state["completion"] = [
            message for step in state["trajectory"] for message in step["completion"]
        ]


def remembered(completion) -> float:
    return float(completion[-1].content == "blue") + len(completion)


def load_environment() -> vf.Environment:
    return Summary(
        dataset=Dataset.from_list(ROWS), max_turns=2, rubric=vf.Rubric(funcs=[remembered])
    )
