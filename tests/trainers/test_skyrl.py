"""A real environment of skyrl_gym around a rubric."""

import pytest

from assay import Rubric
from assay.aggregation import UnscoredError
from assay.integrations import as_skyrl_env

gym = pytest.importorskip(
    "skyrl_gym", reason="run by `make test-trl`, in an environment of its own"
)


def exact(completion, answer):
    return completion == answer


def test_an_answer_ends_the_episode_with_its_reward():
    """Registered and made as SkyRL does it."""
    from skyrl_gym.envs.registration import register

    register(id="assay-sums", entry_point=as_skyrl_env(Rubric([exact], weights=[2.0])))
    env = gym.make("assay-sums", env_config={}, extras={"reward_spec": {"ground_truth": "4"}})
    prompt, _ = env.init([{"role": "user", "content": "2+2?"}])
    told = env.step("4")
    assert prompt == [{"role": "user", "content": "2+2?"}]
    assert (told["reward"], told["done"], told["observations"]) == (2.0, True, [])
    assert env.get_metrics() == {"outcome": 2.0, "exact": 1.0, "unscored": 0.0}


def test_what_is_unscored_raises():
    def is_down(completion):
        raise ConnectionError("the judge is down")

    env = as_skyrl_env(Rubric([is_down]))()
    with pytest.raises(UnscoredError, match="the judge is down"):
        env.step("4")


def test_a_row_may_bring_its_own_rubric():
    """In its extras, as any other column; the metrics are those of the common rubric that it has."""
    own = [{"check": {"contains": "Paris"}, "weight": 3}]
    env = as_skyrl_env(Rubric([exact]))(extras={"rubric": own})
    env.init([{"role": "user", "content": "Where?"}])
    assert env.step("In Paris")["reward"] == 3.0
