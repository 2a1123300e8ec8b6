"""A judge joins the rubric of an environment with tools after it is made, as a group."""

import verifiers as vf
from datasets import Dataset
from openai import AsyncOpenAI

from assay.messages import ToolCall

ROWS = [
    {"question": "Who wrote Emma?", "answer": "Austen"},
    {"question": "Who wrote Faust?", "answer": "Goethe"},
]
SAID = {"Who wrote Emma?": ["Jane Austen"], "Who wrote Faust?": ["Schiller"]}


def replies(messages):
    text = messages[0]["content"]
    if text not in SAID:
        return "Yes." if "Jane Austen" in messages[-1]["content"] else "No."
    if messages[-1]["role"] == "tool":
        return SAID[text][0]
    return [ToolCall("search", '{"title": "' + text[10:-1] + '"}', "call_0")]


def search(title: str) -> list[dict]:
    """Search the catalogue.

    Args:
        title (str): The title of the book.

    Returns:
        list[dict]: The records that were found.
    """
    return [{"title": title, "shelf": 3}]


def load_environment() -> vf.Environment:
    environment = vf.ToolEnv(
        dataset=Dataset.from_list(ROWS), parser=vf.Parser(), tools=[search], max_turns=4
    )
    judge = vf.JudgeRubric(
        judge_client=AsyncOpenAI(), judge_model="judge", parser=environment.parser
    )

    async def judged(judge, prompt, completion, answer, state) -> float:
        return float("yes" in (await judge(prompt, completion, answer, state)).lower())

    judge.add_reward_func(judged, weight=1.0)
    environment.rubric = vf.RubricGroup(rubrics=[judge, environment.rubric])
    return environment
