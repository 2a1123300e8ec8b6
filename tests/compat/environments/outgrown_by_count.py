"""An environment counts by itself, and says that the dialogue is too long; a prompt of its own is a plain text."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "Count.", "answer": "3"}]


def replies(messages):
    return str(len(messages))


class Counting(vf.MultiTurnEnv):
    async def env_response(self, messages, state, **kwargs):
        if len(messages) > 3:
            raise vf.OverlongPromptError("four messages are too many")
        return [{"role": "user", "content": "And then?"}]

    async def get_prompt_messages(self, state):
        # Of the first turn nothing is kept.
        return (
            "Begin anew."
            if len(state["trajectory"]) == 1
            else await super().get_prompt_messages(state)
        )


def turns(state) -> float:
    return (
        len(state["trajectory"]) + 0.5 * state["is_truncated"] + 10.0 * (state["error"] is not None)
    )


def load_environment() -> vf.Environment:
    return Counting(dataset=Dataset.from_list(ROWS), rubric=vf.Rubric(funcs=[turns]), max_turns=9)
