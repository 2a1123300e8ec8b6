"""Reward functions name what providers give for a rollout, and for a group."""

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


def right(count, answer) -> float:
    return float(count == int(answer))


def below(count, limit, scale) -> float:
    return float(count <= limit) * scale


async def everything(**kwargs) -> float:
    return float(kwargs["count"] + kwargs["limit"] + ("state" in kwargs) + ("parser" in kwargs))


def shortest(completions, least) -> list[float]:
    return [float(words(completion) == least) for completion in completions]


class Known(vf.Rubric):
    def score_objects(self, state):
        return {**super().score_objects(state), "scale": 0.5}

    async def by_hand(self, state) -> float:
        grouped = [func for func in self.funcs if self._is_group_func(func)]
        return await self._call_individual_reward_func(below, state) + 10 * len(grouped)


def load_environment() -> vf.Environment:
    rubric = Known(funcs=[right, below, everything, shortest], weights=[1.0, 0.25, 0.0, 2.0])
    rubric.add_metric(rubric.by_hand)
    rubric.add_score_object_provider(lambda state: {"count": words(state["completion"])})
    rubric.add_group_score_object_provider(
        lambda states: {"least": min(words(s["completion"]) for s in states)}
    )
    rubric.add_cleanup_handler(tidy)
    assert rubric.has_group_rewards
    assert not rubric.has_advantages
    env = vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), rubric=rubric)
    assert env.requires_group_rollouts
    assert not env.provides_advantages
    return env


def tidy(state) -> None:
    state["tidied"] = True
