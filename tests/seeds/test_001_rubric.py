"""Every promise of seed 001, the Rubric reference."""

import pytest

from assay import Parser, Rubric


async def test_individual_functions_may_take_any_combination():
    """prompt, completion, answer, task, state, info and **kwargs all arrive."""
    seen = {}

    def everything(prompt, completion, answer, task, state, info, **kwargs):
        seen.update(locals())
        return 1.0

    state = {"prompt": "p", "completion": "c", "answer": "a", "task": "t", "info": {"i": 1}}
    await Rubric(funcs=[everything]).score_rollout(state)
    assert (seen["prompt"], seen["completion"], seen["answer"]) == ("p", "c", "a")
    assert (seen["task"], seen["info"]) == ("t", {"i": 1})
    assert seen["state"] is state
    assert isinstance(seen["kwargs"]["parser"], Parser)


async def test_group_functions_take_the_plurals():
    """A group function sees every rollout and returns one number each."""
    seen = {}

    def by_length(prompts, completions, answers, tasks, states, infos) -> list[float]:
        seen.update(locals())
        longest = max(map(len, completions))
        return [len(completion) / longest for completion in completions]

    states = [
        {"prompt": "p", "completion": text, "answer": "a", "task": "t", "info": {}}
        for text in ("ab", "abcd")
    ]
    await Rubric(funcs=[by_length]).score_group(states)
    assert [state["reward"] for state in states] == [0.5, 1.0]
    assert [state["advantage"] for state in states] == [-0.25, 0.25]
    assert seen["completions"] == ["ab", "abcd"]
    assert seen["states"] == states


def test_weights_must_match_and_default_to_one():
    """One weight a function, or none at all."""

    def f(completion):
        return 1.0

    assert Rubric(funcs=[f, f]).weights == [1.0, 1.0]
    with pytest.raises(
        ValueError, match=r"Number of weights \(1\) must match number of functions \(2\)"
    ):
        Rubric(funcs=[f, f], weights=[1.0])


async def test_add_reward_func_metric_and_class_object():
    """Added functions count, metrics do not, and class objects can be named."""

    class Judge:
        mark = 0.5

    def marked(completion, judge):
        return judge.mark

    def length(completion):
        return len(completion)

    rubric = Rubric()
    rubric.add_class_object("judge", Judge())
    rubric.add_reward_func(marked, weight=2.0)
    rubric.add_metric(length)
    state = {"prompt": "p", "completion": "four", "answer": ""}
    await rubric.score_rollout(state)
    assert state["reward"] == 1.0
    assert state["metrics"] == {"marked": 0.5, "length": 4.0}
    assert "advantage" not in state


async def test_score_rollout_needs_an_individual_function_and_no_group_function():
    """An empty rubric and a group function are refused with a sentence."""

    def group(completions):
        return [1.0 for _ in completions]

    with pytest.raises(ValueError, match="no criteria"):
        await Rubric().score_rollout({"prompt": "", "completion": ""})
    with pytest.raises(ValueError, match="use score_group"):
        await Rubric([group]).score_rollout({"prompt": "", "completion": ""})


def test_attributes():
    """funcs, weights, parser and class_objects are there."""

    def f(completion):
        return 1.0

    parser = Parser()
    rubric = Rubric(funcs=[f], weights=[0.5], parser=parser)
    assert rubric.funcs == [f]
    assert rubric.weights == [0.5]
    assert rubric.parser is parser
    assert rubric.class_objects == {"parser": parser}
