"""A function asks the judge's client itself, with a prompt of its own that the rubric does not fill."""

import verifiers as vf
from datasets import Dataset
from openai import AsyncOpenAI

ROWS = [{"question": "Write a line.", "answer": "sea"}]
GRADING = "Rate the poem from 0 to 10. It should be about {theme}."


def replies(messages):
    return "8" if "Rate the poem" in messages[0]["content"] else "The sea is wide."


async def rated(judge_client, judge_model, judge_prompt, completion, answer) -> float:
    asked = [
        {"role": "system", "content": judge_prompt.format(theme=answer)},
        {"role": "user", "content": completion[-1]["content"]},
    ]
    reply = await judge_client.chat.completions.create(model=judge_model, messages=asked)
    return float(reply.choices[0].message.content) / 10


def load_environment() -> vf.Environment:
    rubric = vf.JudgeRubric(judge_client=AsyncOpenAI(), judge_model="judge", judge_prompt=GRADING)
    rubric.add_reward_func(rated)
    rubric.add_metric(lambda completion: len(completion[-1]["content"]))
    return vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), rubric=rubric)
