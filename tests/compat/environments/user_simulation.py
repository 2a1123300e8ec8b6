"""A simulated user asks on until the model says the word."""

import verifiers as vf
from datasets import Dataset

ROWS = [
    {"question": "Sell me a pen.", "answer": "deal"},
    {"question": "Sell me a car.", "answer": "deal"},
]
REPLIES = {
    "Sell me a pen.": ["It writes.", "It costs 1.", "deal"],
    "Sell me a car.": ["It drives.", "It costs 9.", "It is red.", "It is new."],
}


class Buyer(vf.MultiTurnEnv):
    async def env_response(self, messages: vf.Messages, state: vf.State, **kwargs) -> vf.Messages:
        said = messages[-1].content
        return [vf.UserMessage(content=f"You said {len(said)} letters. Go on.")]

    @vf.stop
    async def sold(self, state: vf.State) -> bool:
        steps = state["trajectory"]
        return bool(steps) and steps[-1]["completion"][-1].content == state["answer"]


async def turns_left(state) -> float:
    return 4 - len(state["trajectory"])


def load_environment(max_turns: int = 3) -> vf.Environment:
    rubric = vf.Rubric(funcs=[turns_left], weights=[0.5])
    return Buyer(dataset=Dataset.from_list(ROWS), max_turns=max_turns, rubric=rubric)
