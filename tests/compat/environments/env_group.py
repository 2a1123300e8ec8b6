"""Two environments as one: each example goes to its own, with its own rubric."""

import verifiers as vf
from datasets import Dataset

SUMS = [{"question": "1 + 1?", "answer": "2"}, {"question": "1 + 2?", "answer": "3"}]
WORDS = [{"question": "Opposite of hot?", "answer": "cold", "info": {"hard": False}}]
REPLIES = {"1 + 1?": ["2"], "1 + 2?": ["4"], "Opposite of hot?": ["warm", "cold"]}


def exact(completion, answer) -> float:
    return float(completion[-1]["content"] == answer)


def patient(state) -> float:
    return len(state["trajectory"]) / 10


class Again(vf.MultiTurnEnv):
    async def env_response(self, messages, state, **kwargs):
        return [vf.UserMessage(content="again")]

    @vf.stop
    async def right(self, state) -> bool:
        steps = state["trajectory"]
        return bool(steps) and steps[-1]["completion"][-1].content == state["answer"]


def load_environment() -> vf.Environment:
    sums = vf.SingleTurnEnv(dataset=Dataset.from_list(SUMS), rubric=vf.Rubric(funcs=[exact]))
    words = Again(
        dataset=Dataset.from_list(WORDS), max_turns=3, rubric=vf.Rubric(funcs=[exact, patient])
    )
    return vf.EnvGroup(envs=[sums, words], env_names=["sums", "words"])
