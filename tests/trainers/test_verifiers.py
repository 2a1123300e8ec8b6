"""A rubric as the reward of a real task of verifiers 0.4, and as a judge plugged into one."""

import sys
from types import ModuleType

import pytest

from assay import Rubric
from assay.integrations import as_verifiers_judge, as_verifiers_reward

vf = pytest.importorskip(
    "verifiers.v1", reason="run by `make test-trl`, in an environment of its own"
)


def exact(completion, answer):
    if completion == "judge me":
        raise ConnectionError("the judge is down")
    return completion == answer


RUBRIC = Rubric([exact], weights=[2.0])


def trace_of(task, reply):
    from verifiers.v1.trace import AgentInfo, TraceTask

    agent = AgentInfo.model_construct(config=None)
    told = TraceTask.model_construct(type=type(task).__name__, data=task.data)
    return vf.Trace.model_construct(task=told, agent=agent, root_reply=reply, nodes=[])


class Data(vf.TaskData):
    answer: str


class Sums(vf.Task[Data, vf.State, vf.TaskConfig]):
    @vf.reward
    async def rubric(self, trace):
        return await as_verifiers_reward(RUBRIC)(self.data, trace)


@pytest.fixture
def data():
    return Data(prompt="2+2?", answer="4")


async def test_a_task_is_rewarded_by_the_rubric(data):
    """And every criterion is a metric of the trace."""
    task = Sums(data)
    trace = trace_of(task, "4")
    await task.score(trace)
    assert trace.reward == 2.0
    assert trace.metrics["exact"] == 1.0


async def test_what_is_unscored_errors_the_rollout(data):
    """So that it is dropped, and no reward is recorded."""
    task = Sums(data)
    trace = trace_of(task, "judge me")
    with pytest.raises(vf.TaskError, match="the judge is down"):
        await task.score(trace)
    assert trace.rewards == {"rubric": None}


async def test_a_config_plugs_it_in_as_a_judge(data, monkeypatch):
    """By the name of the package that exports it."""
    package = ModuleType("sums_judge")
    package.SumsJudge = as_verifiers_judge(RUBRIC, "sums")
    package.__all__ = ["SumsJudge"]
    monkeypatch.setitem(sys.modules, "sums_judge", package)
    task = vf.Task(data, vf.TaskConfig(judges=[{"id": "sums_judge", "weight": 0.5}]))
    trace = trace_of(task, "4")
    await task.score(trace)
    assert trace.rewards["sums"].score == 2.0
    assert trace.reward == 1.0
