"""A judge says yes or no, and functions ask it."""

import verifiers as vf
from datasets import Dataset
from openai import AsyncOpenAI

ROWS = [
    {"question": "Capital of Italy?", "answer": "Rome"},
    {"question": "Capital of Spain?", "answer": "Madrid"},
]
SAID = {"Capital of Italy?": "It is Rome.", "Capital of Spain?": "It is Seville."}


def replies(messages):
    text = messages[-1]["content"]
    return SAID.get(text) or ("yes" if "Rome." in text else "no")


async def judged(judge, prompt, completion, answer, state) -> float:
    reply = await judge(prompt, completion, answer, state)
    return 1.0 if "yes" in reply.lower() else 0.0


async def judged_again(judge, prompt, completion, answer, state) -> float:
    return float((await judge(prompt, completion, answer, state)) == "no")


def load_environment(judge_model: str = "judge") -> vf.Environment:
    rubric = vf.JudgeRubric(
        judge_client=AsyncOpenAI(), judge_model=judge_model, parallelize_scoring=False
    )
    rubric.add_reward_func(judged, weight=1.0)
    rubric.add_reward_func(judged_again, weight=-0.5)
    return vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), rubric=rubric)
