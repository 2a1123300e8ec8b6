"""Messages have parts, which are read by attribute and by key: those of the data set, of the environment, and of a tool."""

import verifiers as vf
from datasets import Dataset

PIXEL = "data:image/png;base64,AA=="
ROWS = [
    {
        "prompt": [
            {"role": "system", "content": [{"type": "text", "text": "Look."}]},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is it?"},
                    {"type": "image_url", "image_url": {"url": PIXEL}},
                ],
            },
        ],
        "answer": "a cat",
    }
]


def replies(messages):
    return ["A dog", "a cat"][sum(message["role"] == "assistant" for message in messages)]


class Shown(vf.MultiTurnEnv):
    async def env_response(self, messages, state, **kwargs):
        return [
            vf.UserMessage(
                content=[
                    {"type": "image_url", "image_url": {"url": PIXEL}},
                    {"type": "text", "text": "Sure?"},
                ]
            )
        ]


def images(prompt, completion) -> float:
    parts = [
        part
        for message in [*prompt, *completion]
        if isinstance(message.content, list)
        for part in message.content
    ]
    return float(sum(part.type == "image_url" and part.image_url.url == PIXEL for part in parts))


def texts(prompt, completion) -> float:
    return float(prompt[1].content[0].text == "What is it?") + float(
        completion[1]["content"][1]["text"] == "Sure?"
    )


def right(completion, answer) -> float:
    return float(completion[-1].content == answer)


def load_environment() -> vf.Environment:
    rubric = vf.Rubric(funcs=[images, texts, right], weights=[0.1, 0.1, 1.0])
    return Shown(dataset=Dataset.from_list(ROWS), rubric=rubric, max_turns=2)
