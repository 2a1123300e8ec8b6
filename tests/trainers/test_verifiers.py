"""A rubric as the reward of a real task of verifiers 0.4, and as a judge plugged into one."""

import sys
from types import ModuleType

import pytest

from assay import Criterion, PerCriterionGrader, Rubric
from assay.integrations import as_verifiers_judge, as_verifiers_reward
from assay.testing import FakeModel, ModelServer

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


async def test_a_config_plugs_it_in_as_a_reward(data, monkeypatch):
    """As the function of a table in [env.taskset.task.rewards]."""
    module = ModuleType("sums_reward")
    module.sums = as_verifiers_reward(RUBRIC)
    monkeypatch.setitem(sys.modules, "sums_reward", module)
    config = vf.TaskConfig(rewards={"sums": {"fn": "sums_reward:sums", "weight": 0.25}})
    task = vf.Task(data, config)
    trace = trace_of(task, "4")
    await task.score(trace)
    assert trace.rewards["sums"].score == 2.0
    assert trace.reward == 0.5


POLITE = [Criterion(requirement="It is polite", weight=2.0)]


def refuse(system_prompt, user_prompt):
    raise AssertionError("the judge of the rubric was asked")


@pytest.fixture
def score_by_judge(data, monkeypatch):
    """Return a function that scores one rollout by a plugged judge, and returns its trace."""

    async def score(rubric, **config):
        package = ModuleType("polite_judge")
        package.PoliteJudge = as_verifiers_judge(rubric, "polite")
        package.__all__ = ["PoliteJudge"]
        monkeypatch.setitem(sys.modules, "polite_judge", package)
        task = vf.Task(data, vf.TaskConfig(judges=[{"id": "polite_judge", **config}]))
        trace = trace_of(task, "Please, 4.")
        await task.score(trace)
        return trace

    return score


class TestTheJudgeOfAConfiguration:
    """The TOML of verifiers names the model, its address, key, headers and sampling."""

    async def test_it_is_asked_in_place_of_the_rubrics_own(self, score_by_judge, monkeypatch):
        monkeypatch.setenv("JUDGE_KEY", "secret")
        rubric = Rubric(POLITE, judge=PerCriterionGrader(generate_fn=refuse))
        with ModelServer('{"explanation": "It says please.", "criterion_status": "MET"}') as server:
            trace = await score_by_judge(
                rubric,
                model="referee",
                base_url=server.url,
                api_key_var="JUDGE_KEY",
                headers={"X-Team": "a"},
                sampling={"temperature": 0.5, "max_tokens": 300, "min_p": 0.1},
                weight=0.5,
            )
        assert trace.rewards["polite"].score == 2.0
        assert trace.reward == 1.0
        [asked] = server.requests
        assert asked.headers["authorization"] == "Bearer secret"
        assert asked.headers["x-team"] == "a"
        assert asked.body["model"] == "referee"
        assert asked.body["temperature"] == 0.5
        assert asked.body["min_p"] == 0.1
        assert 300 in (asked.body.get("max_tokens"), asked.body.get("max_completion_tokens"))

    async def test_its_calls_are_in_the_trace(self, score_by_judge):
        with ModelServer('{"explanation": "It says please.", "criterion_status": "MET"}') as server:
            config = {"model": "referee", "base_url": server.url, "api_key_var": "NONE"}
            trace = await score_by_judge(Rubric(POLITE), **config)
        [call] = trace.info["judge_calls"]
        assert call["name"] == "polite"
        assert call["request"]["model"].endswith("#referee")
        assert "It is polite" in str(call["request"]["messages"])
        assert "It says please." in call["response"]["message"]["content"]
        [usage] = trace.extra_usage
        assert usage.prompt_tokens == server.prompt_tokens > 0
        assert usage.completion_tokens == server.completion_tokens > 0

    async def test_without_a_model_that_of_the_rubric_is_asked(self, score_by_judge):
        rubric = Rubric(POLITE, judge=PerCriterionGrader(model=FakeModel("MET")))
        trace = await score_by_judge(rubric)
        assert trace.reward == 2.0
        assert [call["name"] for call in trace.info["judge_calls"]] == ["polite"]

    async def test_settings_without_a_use_are_refused(self, score_by_judge, tmp_path):
        prompt = tmp_path / "prompt.txt"
        prompt.write_text("Judge {response}.")
        with pytest.raises(ValueError, match="without a model"):
            await score_by_judge(Rubric(POLITE), sampling={"temperature": 0.5})
        with pytest.raises(ValueError, match="writes its own prompts"):
            await score_by_judge(Rubric(POLITE), prompt=str(prompt))
