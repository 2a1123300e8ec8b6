"""A rubric of a program's own says what its functions, those of a group and its handlers may name."""

import verifiers as vf
from datasets import Dataset

ROWS = [
    {"question": "Three words.", "answer": "3", "limit": 4},
    {"question": "One word.", "answer": "1", "limit": 1},
]
REPLIES = {
    "Three words.": [{"any of": ["a b c", "a b"]}],
    "One word.": [{"any of": ["a b c d", "a"]}],
}
OPTIONS = {"rollouts_per_example": 2, "state_columns": ["tidied"]}


def words(completion) -> int:
    return len(completion[-1]["content"].split())


def near(task, level, completion, limit, scale) -> float:
    return scale * abs(words(completion) - level) * (limit >= task["level"])


def everything(**kwargs) -> float:
    return float(kwargs["level"] + kwargs["scale"] + kwargs["limit"] + ("parser" in kwargs))


def shares(completions, tasks, size, states) -> list[float]:
    return [
        words(completion) / size + task["level"]
        for completion, task in zip(completions, tasks, strict=True)
    ]


class Known(vf.Rubric):
    def task_for_state(self, state, resources):
        return {"level": int(state["answer"])}

    def task_score_fields(self, state, task):
        return {**super().task_score_fields(state, task), "scale": 0.5}

    def group_score_objects(self, states):
        return {**super().group_score_objects(states), "size": len(states)}

    def cleanup_objects(self, handler, state):
        return {**super().cleanup_objects(handler, state), "note": "done"}

    async def _call_cleanup_handler(self, handler, state):
        state.setdefault("tidied", []).append(handler.__name__)
        await super()._call_cleanup_handler(handler, state)

    async def by_hand(self, states) -> list[float]:
        return [2 * share for share in await self._call_group_reward_func(shares, states)]

    @vf.cleanup
    async def noted(self, state, note, task):
        state["tidied"].append(f"{note} {task['level']}")

    @vf.cleanup(priority=3)
    async def with_columns(self, state, limit, scale, answer):
        state["tidied"].append(f"{limit} {scale} {answer}")

    @vf.cleanup(priority=-1)
    def with_everything(self, **kwargs):
        kwargs["state"]["tidied"].append(sorted(kwargs.keys() - {"question", "sample"}))


def load_environment() -> vf.Environment:
    rubric = Known(funcs=[near, everything, shares], weights=[1.0, 0.5, 0.25])
    rubric.add_metric(rubric.by_hand)
    return vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), rubric=rubric)
