"""Data sets are built by functions when they are first needed, with columns that reward functions name."""

import verifiers as vf
from datasets import Dataset

REPLIES = {"Spell cat.": ["c a t"], "Spell dog.": ["d-o-g"]}


def rows(split: str):
    def build() -> Dataset:
        word = {"train": "cat", "test": "dog"}[split]
        return Dataset.from_list(
            [{"question": f"Spell {word}.", "answer": word, "separator": " ", "id": f"{split}-1"}]
        )

    return build


def spelled(completion, answer, separator) -> float:
    return float(completion[-1].content == separator.join(answer))


class WithKwargs(vf.Rubric):
    async def letters(self, completion, **kwargs) -> float:
        return float(sum(sign in kwargs["answer"] for sign in completion[-1].content))

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.add_metric(self.letters)


def load_environment(**kwargs) -> vf.Environment:
    rubric = WithKwargs(funcs=[spelled])
    return vf.SingleTurnEnv(
        dataset=rows("train"), eval_dataset=rows("test"), rubric=rubric, **kwargs
    )
