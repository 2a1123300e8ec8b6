"""Rewards of rubrics in OpenRLHF's own experience buffer, with one judge that failed."""

import pytest

from assay import Criterion, Rubric
from assay.integrations import reward_func_of

experience = pytest.importorskip(
    "openrlhf.trainer.ppo_utils.experience", reason="OpenRLHF needs an environment of its own"
)
torch = pytest.importorskip("torch")


def short(completion):
    return len(completion) <= 2


def judged(completion):
    if completion == "judge me":
        raise ConnectionError("the judge is down")
    return completion == "4"


def sample_of(reward_func, response):
    """One sample as `_process_response_into_experience` makes it of the reward function's reply."""
    told = reward_func([f"2+2?{response}<|im_end|>"], ["2+2?"], ["4"])
    info = {"reward": torch.tensor([told["rewards"]]), "score": torch.tensor([told["scores"]])}
    info |= {key: torch.tensor([value.flatten()[0].item()]) for key, value in told["extra_logs"].items()}
    return experience.Experience(
        sequences=torch.ones(1, 4, dtype=torch.long), rewards=torch.tensor([told["rewards"]]), info=info
    )


def test_a_batch_with_a_failure_splits_and_joins():
    """Every sample has the same keys, so the batch is cut into samples and put together again."""
    rubric = Rubric([short, Criterion(check=judged, name="judged")])
    reward_func = reward_func_of(rubric, unscored="zero")
    samples = [sample_of(reward_func, response) for response in ("4", "judge me", "5")]
    batch = experience.Experience.concat_experiences(samples, pad_token_id=0)
    items = experience.split_experience_batch(batch)
    assert [item.info["unscored"].item() for item in items] == [0.0, 1.0, 0.0]
    joined = experience.make_experience_batch(items)
    assert [float(value) for value in joined.info["judged"]] == [1.0, 0.0, 0.0]
    assert joined.rewards.flatten().tolist() == [2.0, 0.0, 1.0]
