"""One judge is asked in other words for each function, which set its prompt, its model and its sampling arguments."""

import verifiers as vf
from datasets import Dataset
from openai import AsyncOpenAI

ROWS = [{"question": "2 + 2?", "answer": "4"}, {"question": "3 + 3?", "answer": "6"}]


def replies(messages):
    asked = messages[-1]["content"]
    if asked.startswith("TRUE"):
        return "TRUE" if "I say 4" in asked else "FALSE"
    if asked.startswith("USEFUL"):
        return "USEFUL"
    return "I say 4"


def load_environment() -> vf.Environment:
    rubric = vf.JudgeRubric(
        judge_client=AsyncOpenAI(), judge_model="first", judge_prompt="unused: {response}"
    )

    async def is_true(prompt, completion, answer, state) -> float:
        rubric.judge_prompt = "TRUE or FALSE? It is {answer}. {response}"
        return float(await rubric.judge(prompt, completion, answer, state) == "TRUE")

    async def is_useful(prompt, completion, answer, state) -> float:
        rubric.judge_prompt = "USEFUL? {response}"
        rubric.judge_model = "second"
        rubric.judge_sampling_args = {"temperature": 0.0}
        return float(await rubric.judge(prompt, completion, answer, state) == "USEFUL")

    rubric.add_reward_func(is_true)
    rubric.add_reward_func(is_useful, weight=0.5)
    return vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), rubric=rubric)
