"""Rewards of rubrics in verl's own advantage and validation metrics, with one judge that failed."""

import inspect
import math

import pytest

from assay import Criterion, Rubric, VersionedRubric
from assay.integrations import compute_score_of

pytest.importorskip("verl", reason="verl needs an environment of its own")
np, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")


def short(completion):
    return len(completion) <= 2


def judged(completion):
    if completion == "judge me":
        raise ConnectionError("the judge is down")
    return completion == "4"


@pytest.fixture
async def columns():
    """What verl makes of two groups of four samples, one of which has no score: a column of each key."""
    score = compute_score_of(
        Rubric([short, Criterion(check=judged, name="judged")]), unscored="zero"
    )
    told = [
        await score("sums", text, "4")
        for text in ("4", "5", "judge me", "wrong", "4", "4", "55", "wrong")
    ]
    return {key: np.array([one[key] for one in told]) for key in told[0]}


def test_gdpo_trains_on_the_other_samples(columns):
    """All advantages are numbers, and both groups still learn."""
    from verl.trainer.ppo.core_algos import compute_gdpo_outcome_advantage

    mask = torch.ones(8, 3)
    batch = {
        "prompts": torch.ones(8, 2, dtype=torch.long),
        "attention_mask": torch.ones(8, 5, dtype=torch.long),
    }
    rewards = torch.zeros(8, 3)
    rewards[:, -1] = torch.tensor(columns["score"])
    uid = np.array(["a"] * 4 + ["b"] * 4)
    config = {"gdpo_reward_keys": ["short", "judged"]}
    advantages, _ = compute_gdpo_outcome_advantage(
        rewards, mask, uid, config=config, non_tensor_batch=columns, batch=batch
    )
    assert torch.isfinite(advantages).all()
    assert advantages[0, 0] > advantages[3, 0]
    assert advantages[4, 0] > advantages[7, 0]


@pytest.mark.parametrize(
    ("name", "is_async"), [("compute_score", True), ("compute_score_sync", False)]
)
async def test_verl_loads_it_by_the_name_of_the_module(tmp_path, name, is_async):
    """As configured on the page; the `remote` manager refuses an async function, so it has another."""
    from omegaconf import OmegaConf
    from verl.trainer.ppo.reward import get_custom_reward_fn

    path = tmp_path / "rubric.yaml"
    path.write_text("- {check: exact_match, weight: 2}\n")
    function = {
        "path": "pkg://assay.integrations.verl",
        "name": name,
        "reward_kwargs": {"rubric": str(path)},
    }
    score = get_custom_reward_fn(OmegaConf.create({"reward": {"custom_reward_function": function}}))
    assert inspect.iscoroutinefunction(score) == is_async
    told = score(data_source="sums", solution_str="4", ground_truth="4", extra_info={})
    assert (await told if is_async else told)["score"] == 2.0


def test_validation_counts_what_is_unscored(columns):
    """Every metric is a number, and one sample in eight is unscored."""
    from verl.trainer.ppo.metric_utils import process_validation_metrics

    lists = {key: column.tolist() for key, column in columns.items()}
    metrics = process_validation_metrics(["sums"] * 8, ["a"] * 8, lists)["sums"]
    assert metrics["unscored"]["mean@8"] == 1 / 8
    assert all(math.isfinite(number) for own in metrics.values() for number in own.values())


async def test_rows_carry_the_version_and_metrics_do_not():
    """The hash of the rubric is in every row, and verl's validation leaves texts out."""
    from verl.trainer.ppo.metric_utils import process_validation_metrics

    rubric = VersionedRubric(Rubric([short]))
    score = compute_score_of(rubric, unscored="zero")
    told = [await score("sums", "4", "4")]
    rubric.update(weights={"short": 2.0})
    told.append(await score("sums", "4", "4"))
    assert [one["rubric_version"] for one in told] == rubric.versions[-2:]
    metrics = process_validation_metrics(
        ["sums"] * 2, ["a"] * 2, {key: [one[key] for one in told] for key in told[0]}
    )
    assert metrics["sums"]["score"]["mean@2"] == 1.5
    assert "rubric_version" not in metrics["sums"]
