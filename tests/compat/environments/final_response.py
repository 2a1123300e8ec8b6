"""The environment ends the rollout with words of its own."""

import verifiers as vf
from datasets import Dataset

ROWS = [
    {"question": "Name a fruit.", "answer": "apple"},
    {"question": "Name a tree.", "answer": "oak"},
]
REPLIES = {"Name a fruit.": ["pear", "apple"], "Name a tree.": ["fir", "ash", "oak"]}


class Quiz(vf.MultiTurnEnv):
    async def env_response(self, messages, state, **kwargs):
        right = messages[-1]["content"] == state["answer"]
        if right or len(state["trajectory"]) >= 2:
            state["final_env_response"] = [
                {"role": "user", "content": "right!" if right else "enough."}
            ]
            return state["final_env_response"]
        return [{"role": "user", "content": "no, again."}]


def praised(completion) -> float:
    return float(completion[-1]["content"] == "right!")


def load_environment() -> vf.Environment:
    return Quiz(dataset=Dataset.from_list(ROWS), max_turns=9, rubric=vf.Rubric(funcs=[praised]))
