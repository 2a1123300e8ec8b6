"""The reward function as TRL calls it, without TRL."""

import asyncio
import inspect
import sys
import threading
from types import ModuleType

import pytest

from assay import PerCriterionGrader, Rubric, RubricError
from assay.integrations import RewardMonitor, as_trl_reward, as_trl_rewards
from assay.server import RemoteRubric, RewardServer
from assay.testing import FakeModel


@pytest.fixture
def told():
    return {"metrics": {}, "columns": {}}


@pytest.fixture
def logging(told):
    return {
        "log_metric": told["metrics"].__setitem__,
        "log_extra": told["columns"].__setitem__,
        "trainer_state": object(),
        "completion_ids": [[1], [2]],
    }


async def test_every_column_arrives_by_name(rubric, told, logging):
    """Right and short, 1.5; wrong and short, 0.5; parts and their means beside them."""
    reward = as_trl_reward(rubric)
    paid = reward(["2+2?"] * 2, ["4", "5"], answer=["4", "4"], **logging)
    assert paid == [1.5, 0.5]
    assert told["metrics"] == {
        "sums/unscored": 0.0,
        "sums/outcome": 1.0,
        "sums/exact": 0.5,
        "sums/short": 1.0,
    }
    columns = {"sums/exact": [1.0, 0.0], "sums/short": [1.0, 1.0], "sums/error": ["", ""]}
    assert told["columns"] == columns | {"sums/outcome": [1.5, 0.5]}


def test_it_is_an_async_function_only_if_something_waits(rubric):
    """Under the name of the rubric."""
    reward = as_trl_reward(rubric)
    assert not inspect.iscoroutinefunction(reward)
    assert inspect.iscoroutinefunction(as_trl_reward(rubric, timeout=5))
    judged = Rubric.from_dict([{"requirement": "Is kind"}])
    assert inspect.iscoroutinefunction(as_trl_reward(judged))
    assert not inspect.iscoroutinefunction(as_trl_rewards(rubric)[0][0])
    assert (reward.__name__, as_trl_reward(rubric, name="other").__name__) == ("sums", "other")


async def test_unscored_is_none_and_counted(failing_rubric, told, logging, caplog):
    """Not 0, and the log says why."""
    paid = as_trl_reward(failing_rubric)(["q"] * 2, ["4", "judge me"], answer=["4", "4"], **logging)
    assert paid == [2.5, None]
    assert told["metrics"]["sums/unscored"] == 0.5
    assert told["columns"]["sums/judged"] == [1.0, None]
    assert told["columns"]["sums/error"] == ["", "judged: ConnectionError: the judge is down"]
    assert "1 of 2 rollouts are unscored" in caplog.text


async def test_the_same_keys_are_logged_at_every_step(failing_rubric):
    """Ranks gather them in turn, so one rank with a failure must log what one without logs; and each once."""
    reward = as_trl_reward(failing_rubric, monitor=RewardMonitor(warn=print))
    logged = []
    for completions in (["4", "5"], ["judge me", "judge me again"]):
        metrics, columns = [], {}
        reward(
            ["q"] * 2,
            completions,
            answer=["4", "4"],
            log_metric=lambda name, value, into=metrics: into.append(name),
            log_extra=columns.__setitem__,
        )
        assert len(metrics) == len(set(metrics))
        assert all(len(column) == 2 for column in columns.values())
        logged.append((metrics, list(columns)))
    assert logged[0] == logged[1]


@pytest.mark.parametrize(
    ("module", "says"),
    [(ModuleType("swift"), "ms-swift"), (ModuleType("trl"), r"TRL 1\.5\.2 .* install trl>=1\.6")],
)
async def test_a_trainer_that_takes_none_for_zero_is_refused(
    failing_rubric, monkeypatch, module, says
):
    """Unless it is said what to pay instead: here the mean of 2.5 and 1."""
    module.__version__ = "1.5.2"
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with pytest.raises(RubricError, match=says):
        as_trl_reward(failing_rubric)
    reward = as_trl_reward(failing_rubric, unscored="group_mean")
    assert reward(["q"] * 3, ["4", "judge me", "nothing right"], answer=["4"] * 3) == [
        2.5,
        1.75,
        1.0,
    ]


async def test_a_column_may_have_another_name(rubric):
    reward = as_trl_reward(rubric, columns={"answer": "solution"})
    assert reward(["2+2?"], ["4"], solution=["4"]) == [1.5]
    with pytest.raises(RubricError, match=r"no column 'solution' \(it has: gold\)"):
        reward(["2+2?"], ["4"], gold=["4"])


async def test_checks_that_compare_see_one_prompt_at_a_time():
    """The longest answer to each of two prompts."""

    def longest(completions):
        return [float(len(c) == max(map(len, completions))) for c in completions]

    paid = as_trl_reward(Rubric([longest]))(["a", "a", "b", "b", "c"], ["x", "xx", "x", "xx", "x"])
    assert paid == [0.0, 1.0, 0.0, 1.0, None]  # the last came alone


async def test_what_takes_too_long_is_unscored():
    """The others of its group are paid."""

    async def slow(completion):
        await asyncio.sleep(60 if completion == "hang" else 0)
        return 1.0

    paid = await as_trl_reward(Rubric([slow]), timeout=0.5)(["a"] * 8, ["hang", *["fine"] * 7])
    assert paid == [None, *[1.0] * 7]


async def test_a_check_that_blocks_does_not_stop_the_clock():
    """It is unscored like any other that takes too long, and the others are paid."""
    released = threading.Event()

    def blocks(completion):
        return released.wait(60 if completion == "hang" else 0) or 1.0

    try:
        paid = await as_trl_reward(Rubric([blocks]), timeout=0.5)(
            ["a"] * 4, ["hang", *["fine"] * 3]
        )
    finally:
        released.set()
    assert paid == [None, 1.0, 1.0, 1.0]


async def test_a_check_that_blocks_beside_a_judge_takes_no_score_of_others():
    """Neither of rollouts before it nor after it, whose judge answers in the same event loop."""
    released = threading.Event()

    def blocks(completion):
        return released.wait(60 if completion == "hang" else 0) or 1.0

    rubric = Rubric(
        [blocks, {"requirement": "Is fine"}], judge=PerCriterionGrader(FakeModel("MET"))
    )
    try:
        paid = await as_trl_reward(rubric, timeout=2)(["a"] * 8, [*["fine"] * 4, "hang", *"xyz"])
    finally:
        released.set()
    assert paid == [2.0] * 4 + [None] + [2.0] * 3


async def test_a_check_that_compares_is_told_of_split_groups(monkeypatch, caplog):
    """Half a group on each of two ranks: refused with its size known, else the log warns once."""

    def longest(completions):
        return [float(len(c) == max(map(len, completions))) for c in completions]

    half = {"prompts": ["a"] * 4, "completions": ["x"] * 4}
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RubricError, match="there are 4 of its 8 rollouts here"):
        as_trl_reward(Rubric([longest]), group_size=8)(**half)
    reward = as_trl_reward(Rubric([longest]))
    reward(**half)
    reward(**half)
    assert caplog.text.count("this rank sees 4 of one prompt") == 1


async def test_the_normalised_score_on_request(rubric):
    """1.5 of 1.5."""
    assert as_trl_reward(rubric, value="score")(["q"], ["4"], answer=["4"]) == [1.0]


def test_a_criterion_that_depends_on_others_cannot_stand_alone():
    rubric = Rubric(
        [{"name": "a", "requirement": "A"}, {"name": "b", "requirement": "B", "when": "a"}]
    )
    with pytest.raises(RubricError, match="'b'"):
        as_trl_rewards(rubric)


@pytest.mark.parametrize("option", [{"value": "points"}, {"timeout": 0}])
def test_bad_options_are_refused_at_construction(rubric, option):
    with pytest.raises(RubricError, match=f"{next(iter(option))} is"):
        as_trl_reward(rubric, **option)


async def test_a_rubric_behind_a_server_is_as_good(rubric):
    """The same rewards and parts; only it cannot be taken apart."""
    with RewardServer(rubric) as server:
        remote = RemoteRubric(server.url)
        reward = as_trl_reward(remote)
        here = as_trl_reward(rubric)
        columns = {"prompts": ["2+2"] * 2, "completions": ["4", "5"], "answer": ["4", "4"]}
        assert reward.__name__ == "assay"
        assert await reward(**columns) == here(**columns)
        own = [{"check": {"contains": "5"}, "weight": 3}]
        assert await reward(**columns, rubric=[None, own]) == [1.5, 3.0]
        with pytest.raises(RubricError, match="cannot be taken apart"):
            as_trl_rewards(remote)
