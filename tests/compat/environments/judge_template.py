"""A judge has a template of its own, is asked twice by different functions, and its score is read by a parser."""

import re

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "Name a colour.", "answer": "any colour"}]
PROMPT = "Question: {question}\nKnown: {answer}\nSaid: {response}\nGive <grade>0 to 10</grade>."


def replies(messages):
    text = messages[-1]["content"]
    if "Give <grade>" in text:
        return "<grade>8</grade>" if "red" in text.partition("Said:")[2] else "<grade>2</grade>"
    return "red"


async def graded(judge, prompt, completion, answer, state, **kwargs) -> float:
    said = await judge(prompt, completion, answer, state)
    found = re.search(r"<grade>(\d+)</grade>", said)
    return int(found.group(1)) / 10 if found else 0.0


async def again(judge, prompt, completion, answer, state) -> float:
    return float("8" in await judge(prompt, completion, answer, state))


def load_environment() -> vf.Environment:
    rubric = vf.JudgeRubric(
        judge_model="judge", judge_prompt=PROMPT, judge_sampling_args={"temperature": 0.0}
    )
    rubric.add_reward_func(graded, weight=0.7)
    rubric.add_reward_func(again, weight=0.3)
    return vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), rubric=rubric)
