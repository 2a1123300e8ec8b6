"""Messages, steps and responses are read by attribute, as from 0.1.11 on."""

import verifiers as vf
from datasets import Dataset

ROWS = [
    {"question": "Capital of France?", "answer": "Paris"},
    {"question": "Capital of Peru?", "answer": "Lima"},
]
REPLIES = {"Capital of France?": ["It is Paris."], "Capital of Peru?": ["I do not know."]}


async def names_it(completion, answer) -> float:
    return float(answer in completion[-1].content)


def asked_by_user(prompt) -> float:
    return float(
        prompt[-1].role == "user"
        and prompt[0].role == "system"
        and not hasattr(prompt[0], "tool_calls")
    )


def same_response(state) -> float:
    step = state["trajectory"][-1]
    message = step["completion"][-1]
    return float(
        step["response"].message.content == message.content and message.tool_calls in (None, [])
    )


def is_assistant(completion) -> float:
    return float(
        isinstance(completion[-1], vf.AssistantMessage)
        and completion[-1].get("content") is not None
    )


def load_environment() -> vf.Environment:
    rubric = vf.Rubric(funcs=[names_it, asked_by_user, same_response, is_assistant])
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(ROWS), system_prompt="Be brief.", rubric=rubric
    )
