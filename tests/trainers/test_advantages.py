"""Our advantages beside those that verl and TRL compute themselves, on random groups with gaps."""

import inspect
import math
import random
import re

import pytest

from assay import advantages, gdpo_advantages

np, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")

random.seed(7)
GROUPS = [name for name in "abc" for _ in range(6)]
REWARDS = [random.choice([0.0, 0.3, 1.0, 2.5]) for _ in GROUPS]
OTHERS = [random.uniform(-1, 1) for _ in GROUPS]


@pytest.fixture
def algorithms():
    pytest.importorskip("verl", reason="verl needs an environment of its own")
    from verl.trainer.ppo import core_algos

    return core_algos


def in_verl(function, rewards=REWARDS, **options):
    """The advantages of responses of one token."""
    column = torch.tensor(rewards, dtype=torch.float64).unsqueeze(-1)
    index = {"index": np.array(GROUPS)} if "index" in inspect.signature(function).parameters else {}
    return function(column, response_mask=torch.ones_like(column), **index, **options)[0][
        :, 0
    ].tolist()


def test_grpo_and_dr_grpo_are_those_of_verl(algorithms):
    found = in_verl(algorithms.compute_grpo_outcome_advantage)
    assert advantages(REWARDS, "grpo", groups=GROUPS) == pytest.approx(found)
    plain = in_verl(algorithms.compute_grpo_outcome_advantage, norm_adv_by_std_in_grpo=False)
    assert advantages(REWARDS, "dr_grpo", groups=GROUPS) == pytest.approx(plain)


def test_rloo_and_remax_are_those_of_verl(algorithms):
    """ReMax compares a rollout with one greedy answer alone: a group of one with a baseline."""
    found = in_verl(algorithms.compute_rloo_outcome_advantage)
    assert advantages(np.array(REWARDS), "rloo", groups=np.array(GROUPS)) == pytest.approx(found)
    baselines = torch.tensor(OTHERS, dtype=torch.float64)
    remax = in_verl(algorithms.compute_remax_outcome_advantage, reward_baselines=baselines)
    alone = range(len(REWARDS))
    assert advantages(REWARDS, "rloo", groups=alone, baselines=OTHERS) == pytest.approx(remax)


def test_gdpo_is_that_of_verl(algorithms):
    batch = {
        "prompts": torch.ones(18, 2, dtype=torch.long),
        "attention_mask": torch.ones(18, 3, dtype=torch.long),
    }
    config = {"gdpo_reward_keys": ["right", "style"], "gdpo_reward_weights": [1.0, 0.5]}
    columns = {"right": REWARDS, "style": OTHERS}
    arrays = {name: np.array(column) for name, column in columns.items()}
    found = in_verl(
        algorithms.compute_gdpo_outcome_advantage,
        config=config,
        non_tensor_batch=arrays,
        batch=batch,
    )
    ours = gdpo_advantages(columns, {"right": 1.0, "style": 0.5}, groups=GROUPS)
    assert ours == pytest.approx(found, rel=2e-4)


@pytest.fixture
def nanstd():
    pytest.importorskip("trl", reason="TRL needs an environment of its own")
    from trl.trainer.utils import nanstd

    return nanstd


def lines_of_trl(trainer, first, last):
    """The lines of the trainer's own source between two patterns, to be run as they are published."""
    import trl

    source = inspect.getsource(getattr(trl, f"{trainer}Trainer")._generate_and_score_completions)
    lines = source.splitlines()
    start = next(n for n, line in enumerate(lines) if re.search(first, line))
    end = next(n for n, line in enumerate(lines) if n > start and re.search(last, line))
    return inspect.cleandoc("\n" + "\n".join(lines[start : end + 1]))


class Trainer:
    """What those lines read of a trainer."""

    reward_weights = torch.tensor([1.0, 0.5])
    reward_funcs = ("right", "style")
    scale_rewards = "group"
    multi_objective_aggregation = "sum_then_normalize"
    normalize_advantages = False


def in_trl(lines, nanstd, **given):
    names = {
        "torch": torch,
        "nanstd": nanstd,
        "num_generations": 6,
        "device": "cpu",
        "self": Trainer,
        **given,
    }
    exec(lines, names)
    return names["advantages"].tolist()


def test_grpo_and_gdpo_are_those_of_trl(nanstd, monkeypatch):
    """An unscored rollout is 0 there, once no number depends on it, and None here."""
    lines = lines_of_trl("GRPO", r"unscorable_mask = ", r"advantages = torch.nan_to_num")
    gaps = [None if place in (1, 9) else reward for place, reward in enumerate(REWARDS)]
    nans = [math.nan if reward is None else reward for reward in gaps]
    others = [
        math.nan if reward is None else other for reward, other in zip(gaps, OTHERS, strict=True)
    ]
    columns = torch.tensor([nans, others], dtype=torch.float64).T
    totals = [
        None if reward is None else reward + 0.5 * other
        for reward, other in zip(gaps, OTHERS, strict=True)
    ]
    ours = advantages(totals, "grpo", groups=GROUPS, epsilon=1e-4)
    assert [number or 0.0 for number in ours] == pytest.approx(
        in_trl(lines, nanstd, rewards_per_func=columns)
    )
    monkeypatch.setattr(Trainer, "scale_rewards", "none")
    ours = advantages(totals, "dr_grpo", groups=GROUPS)
    assert [number or 0.0 for number in ours] == pytest.approx(
        in_trl(lines, nanstd, rewards_per_func=columns)
    )
    monkeypatch.setattr(Trainer, "multi_objective_aggregation", "normalize_then_sum")
    parts = {"right": gaps, "style": [None if math.isnan(other) else other for other in others]}
    ours = gdpo_advantages(parts, {"right": 1.0, "style": 0.5}, groups=GROUPS, epsilon=1e-4)
    assert [number or 0.0 for number in ours] == pytest.approx(
        in_trl(lines, nanstd, rewards_per_func=columns)
    )


def test_rloo_is_that_of_trl(nanstd):
    lines = lines_of_trl(
        "RLOO", r"grouped_rewards = rewards.view", r"advantages = torch.nan_to_num"
    )
    gaps = [None if place in (1, 9) else reward for place, reward in enumerate(REWARDS)]
    rewards = torch.tensor(
        [math.nan if reward is None else reward for reward in gaps], dtype=torch.float64
    )
    ours = advantages(gaps, "rloo", groups=GROUPS)
    assert [number or 0.0 for number in ours] == pytest.approx(
        in_trl(lines, nanstd, rewards=rewards)
    )
