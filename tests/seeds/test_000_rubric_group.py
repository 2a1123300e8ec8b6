"""Every example of seed 000, with its import line changed."""

import json
import logging

import pytest

import assay as vf
from assay import State


def create_state() -> State:
    return State(
        prompt=[{"role": "user", "content": "What is 2+2?"}],
        completion=[{"role": "assistant", "content": "4"}],
        task="math",
        timing={"generation_ms": 100, "total_ms": 100, "scoring_ms": 0},
        trajectory=[],
        responses=[],
        turn=0,
    )


async def test_basic_usage_adds_the_two_rubrics():
    """A right and short answer earns 1.0; the length penalty of the second rubric adds nothing."""

    def correctness_check(completion, answer, **kwargs):
        return 1.0 if completion == answer else 0.0

    def length_penalty(completion, **kwargs):
        return -0.1 if len(completion) > 1000 else 0.0

    group = vf.RubricGroup(
        rubrics=[
            vf.Rubric(funcs=[correctness_check], weights=[1.0]),
            vf.Rubric(funcs=[length_penalty], weights=[0.5]),
        ]
    )
    right = {"prompt": "q", "completion": "4", "answer": "4"}
    long = {"prompt": "q", "completion": "4" * 1001, "answer": "4"}
    await group.score_rollout(right)
    await group.score_rollout(long)
    assert right["reward"] == 1.0
    assert long["reward"] == pytest.approx(-0.05)


async def test_format_validation_scores_json():
    """The JSON check of the second example gives 0.2 to valid JSON and 0 to anything else."""

    def check_json_format(completion, **kwargs):
        try:
            json.loads(completion)
            return 1.0
        except ValueError:
            return 0.0

    rubric = vf.RubricGroup([vf.Rubric(funcs=[check_json_format], weights=[0.2])])
    assert rubric.score_rollout_sync(completion='{"a": 1}')["reward"] == 0.2
    assert rubric.score_rollout_sync(completion="{a")["reward"] == 0.0


async def test_combining_domain_specific_rubrics():
    """A right answer that is JSON too earns 1.2, one in words 1.0."""
    math_rubric = vf.MathRubric(extract_answer=True, normalize=True)

    def check_json_format(completion, **kwargs):
        try:
            json.loads(completion)
            return 1.0
        except:
            return 0.0

    format_rubric = vf.Rubric(funcs=[check_json_format], weights=[0.2])
    combined_rubric = vf.RubricGroup(rubrics=[math_rubric, format_rubric])
    states = [{"prompt": "q", "completion": text, "answer": "4"} for text in ("4", "x = 4", "5")]
    await combined_rubric.score_group(states)
    assert [state["reward"] for state in states] == [1.2, 1.0, 0.2]
    assert states[0]["metrics"] == {"correct_answer": 1.0, "check_json_format": 1.0}


async def test_scoring_a_single_rollout_gives_1_4():
    """1.0 · 1.0 + 0.5 · 0.8 is 1.4."""
    rubric1 = vf.Rubric(funcs=[lambda completion, **kw: 1.0], weights=[1.0])
    rubric2 = vf.Rubric(funcs=[lambda completion, **kw: 0.5], weights=[0.8])
    group = vf.RubricGroup(rubrics=[rubric1, rubric2])
    state = create_state()
    await group.score_rollout(state)
    assert state["reward"] == 1.4
    assert state["metrics"] == {"check_1": 1.5}  # the same name in two rubrics is summed


async def test_scoring_multiple_rollouts_writes_every_state():
    """Ten states get the same reward and metrics, and no advantage over each other."""

    def reward_func1(completion, **kwargs):
        return 1.0

    def reward_func2(completion, **kwargs):
        return 0.5

    group = vf.RubricGroup(
        [
            vf.Rubric(funcs=[reward_func1], weights=[1.0]),
            vf.Rubric(funcs=[reward_func2], weights=[0.8]),
        ]
    )
    states = [create_state() for _ in range(10)]
    await group.score_group(states)
    assert {state["reward"] for state in states} == {1.4}
    assert {state["advantage"] for state in states} == {0.0}
    assert all(s["metrics"] == {"reward_func1": 1.0, "reward_func2": 0.5} for s in states)


async def test_adding_goes_to_the_first_rubric_with_a_warning(caplog):
    """`add_reward_func` and `add_metric` reach rubric1 alone, and say so."""
    rubric1, rubric2 = vf.Rubric(funcs=[], weights=[]), vf.Rubric(funcs=[], weights=[])
    group = vf.RubricGroup(rubrics=[rubric1, rubric2])

    def new_reward(completion, **kwargs):
        return 1.0 if "correct" in completion else 0.0

    def token_count(completion, **kwargs):
        return len(completion.split())

    with caplog.at_level(logging.WARNING, logger="assay"):
        group.add_reward_func(new_reward, weight=0.5)
        group.add_metric(token_count, weight=0.0)
        group.add_class_object("thing", object())
    assert rubric1.funcs == [new_reward, token_count]
    assert rubric1.weights == [0.5, 0.0]
    assert "thing" in rubric1.class_objects
    assert rubric2.funcs == []
    assert len(caplog.records) == 3
    state = {"prompt": "q", "completion": "this is correct"}
    await group.score_rollout(state)
    assert state["reward"] == 0.5
    assert state["metrics"] == {"new_reward": 1.0, "token_count": 3.0}


async def test_reward_and_metric_aggregation_gives_3_5():
    """2.0 · 1.0 + 3.0 · 0.5 is 3.5, and metrics are the plain values."""

    def func1(completion, **kwargs):
        return 2.0

    def func2(completion, **kwargs):
        return 3.0

    group = vf.RubricGroup(
        [vf.Rubric(funcs=[func1], weights=[1.0]), vf.Rubric(funcs=[func2], weights=[0.5])]
    )
    state = create_state()
    await group.score_rollout(state)
    assert state["reward"] == 3.5
    assert state["metrics"] == {"func1": 2.0, "func2": 3.0}


async def test_metrics_of_one_name_are_summed():
    """0.8 and 0.2 under one name are 1.0."""

    def accuracy_of(value):
        def accuracy(completion):
            return value

        return accuracy

    group = vf.RubricGroup([vf.Rubric([accuracy_of(0.8)]), vf.Rubric([accuracy_of(0.2)])])
    state = create_state()
    await group.score_rollout(state)
    assert state["metrics"] == {"accuracy": 1.0}


def test_an_empty_group_is_refused():
    """A group needs at least one rubric."""
    with pytest.raises(ValueError, match="must have at least one rubric"):
        vf.RubricGroup([])


def test_internal_getters_list_all_children():
    """Names, functions and weights of every child, in order."""

    def one(completion):
        return 1.0

    def two(completion):
        return 1.0

    group = vf.RubricGroup([vf.Rubric([one], [0.3]), vf.Rubric([two], [0.7])])
    assert group._get_reward_func_names() == ["one", "two"]
    assert group._get_reward_funcs() == [one, two]
    assert group._get_reward_weights() == [0.3, 0.7]
    assert isinstance(group, vf.Rubric)
