"""A program looks at the data sets of an environment, and puts others in their place, whose prompts stay as they are."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": f"{n} + {n}?", "answer": str(2 * n), "limit": n} for n in range(1, 6)]
REPLIES = {f"{n} + {n}?": [str(2 * n)] for n in range(1, 6)} | {"5 + 5, in words?": ["ten"]}
SHOT = [{"role": "user", "content": "1 + 2?"}, {"role": "assistant", "content": "3"}]


class Doubling(vf.SingleTurnEnv):
    def __init__(self, rows, **kwargs):
        self.dataset = Dataset.from_list(rows)
        super().__init__(
            dataset=Dataset.from_list(rows),
            system_prompt="Only the number.",
            few_shot=SHOT,
            **kwargs,
        )
        self.whole = len(self.dataset)


def right(completion, answer) -> float:
    return float(completion[-1].content == answer)


def load_environment() -> vf.Environment:
    env = Doubling(ROWS, eval_dataset=Dataset.from_list(ROWS[:1]), rubric=vf.Rubric(funcs=[right]))
    assert isinstance(env.dataset, Dataset)
    assert isinstance(env.eval_dataset, Dataset)
    assert env.dataset is env.dataset
    assert env.whole == 5
    assert [message["role"] for message in env.dataset[0]["prompt"]] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    assert env.dataset["limit"][:] == env.get_dataset()["limit"][:] == [1, 2, 3, 4, 5]
    assert env.eval_dataset["example_id"][:] == [0]
    other = {
        "prompt": [{"role": "user", "content": "5 + 5, in words?"}],
        "answer": "ten",
        "limit": 9,
        "example_id": 7,
    }
    env.dataset = env.dataset.filter(lambda row: row["limit"] > 3)
    env.eval_dataset = None
    rows = [{name: row[name] for name in other} for row in env.dataset.select([1])]
    env.eval_dataset = Dataset.from_list([*rows, other])
    assert (len(env.dataset), len(env.eval_dataset)) == (2, 2)
    assert env.build_eval_dataset() is env.eval_dataset
    return env
