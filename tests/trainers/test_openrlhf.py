"""Rewards of rubrics in OpenRLHF's own experience buffer, with one judge that failed."""

from types import SimpleNamespace

import pytest

from assay import Criterion, Rubric
from assay.integrations import reward_func_of
from assay.server import RewardServer

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
    info |= {
        key: torch.tensor([value.flatten()[0].item()]) for key, value in told["extra_logs"].items()
    }
    return experience.Experience(
        sequences=torch.ones(1, 4, dtype=torch.long),
        rewards=torch.tensor([told["rewards"]]),
        info=info,
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


class Tokenizer:
    """Characters as tokens."""

    def __call__(self, text, **_):
        return {"input_ids": torch.tensor([[ord(sign) for sign in text]])}

    def decode(self, tokens, **_):
        return "".join(map(chr, tokens))


class Engine:
    """A model that always writes the same."""

    def __init__(self, response):
        self.response = response

    async def generate(self, tokens, params, **_):
        written = SimpleNamespace(
            token_ids=[ord(sign) for sign in self.response], finish_reason="stop", logprobs=None
        )
        return SimpleNamespace(outputs=[written])


async def executed(url, response):
    """What OpenRLHF's own executor makes of one prompt."""
    agent = pytest.importorskip("openrlhf.utils.agent")
    params = SimpleNamespace(max_tokens=50, logprobs=None)
    executor = agent.SingleTurnAgentExecutor(url)
    return await executor.execute("2+2?", "4", params, 100, Tokenizer(), Engine(response))


@pytest.mark.slow
async def test_over_http_a_failure_pays_nothing():
    """The server refuses what it cannot score, OpenRLHF gives up after five times, and the sample has no reward: not 0."""
    with RewardServer(Rubric([judged])) as server:
        good = await executed(f"{server.url}/openrlhf", "4<|im_end|>")
        bad = await executed(f"{server.url}/openrlhf", "judge me<|im_end|>")
    assert (good["reward"], good["extra_logs"]) == (
        [1.0],
        {"outcome": [1.0], "judged": [1.0], "unscored": [0.0]},
    )
    assert (bad["reward"], bad["scores"]) == (None, None)


async def test_a_file_is_the_reward(tmp_path):
    """As named by `--reward.remote_url`: the same reward as over HTTP."""
    path = tmp_path / "rewards.py"
    path.write_text(
        "from assay import Rubric\n"
        "from assay.integrations import reward_func_of\n"
        "reward_func = reward_func_of(Rubric.from_yaml('- {check: exact_match, weight: 2}'))\n"
    )
    found = await executed(str(path), "4<|im_end|>")
    assert (found["reward"].tolist(), found["scores"].tolist()) == ([2.0], [1.0])
