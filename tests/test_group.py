"""RubricGroup: advantage, steps, timing and metrics come once, from the total."""

import pytest

from assay import Parser, PerCriterionGrader, Rubric, RubricError, RubricGroup, XMLParser
from assay.testing import FakeModel, make_state


def by_place(*values):
    def value(place):
        return values[place]

    return value


def states(count=2, **fields):
    return [make_state(place=place, **fields) for place in range(count)]


async def test_the_advantage_is_of_the_total():
    """Children [1, 0] and [0, 3]: rewards 1 and 3, advantages −1 and +1; peers leave ±1.5 or ±0.5."""
    group = RubricGroup([Rubric([by_place(1, 0)]), Rubric([by_place(0, 3)])])
    both = states(trajectory=None)
    for state in both:
        state["trajectory"] = [{"reward": None, "advantage": None}]
    await group.score_group(both)
    assert [s["reward"] for s in both] == [1.0, 3.0]
    assert [s["advantage"] for s in both] == [-1.0, 1.0]
    assert [s["trajectory"][0] for s in both] == [
        {"reward": 1.0, "advantage": -1.0},
        {"reward": 3.0, "advantage": 1.0},
    ]


async def test_metrics_replace_what_was_there():
    """Scoring a state again does not add to old metrics."""
    group = RubricGroup([Rubric([by_place(1, 0)]), Rubric([by_place(0, 3)])])
    both = states(metrics={"stale": 9.0, "value": 9.0})
    await group.score_group(both)
    await group.score_group(both)
    assert [s["metrics"] for s in both] == [{"value": 1.0}, {"value": 3.0}]


async def test_timing_counts_each_child_once():
    """`total_ms` is what was there and the whole of scoring."""
    group = RubricGroup([Rubric([by_place(1)]), Rubric([by_place(1)])])
    state = make_state(place=0, timing={"generation_ms": 50.0, "scoring_ms": 0.0, "total_ms": 50.0})
    await group.score_rollout(state)
    assert state["timing"]["total_ms"] == pytest.approx(50.0 + state["timing"]["scoring_ms"])


async def test_children_without_functions_and_nested_groups():
    """An empty child adds nothing and breaks nothing."""
    group = RubricGroup([Rubric([]), RubricGroup([Rubric([by_place(2.0)]), Rubric([])])])
    state = make_state(place=0)
    await group.score_rollout(state)
    assert state["reward"] == 2.0


async def test_children_with_group_functions():
    """They work in a group and are refused for one rollout alone."""

    def best(completions) -> list[float]:
        longest = max(completions, key=lambda c: len(c[-1]["content"]))
        return [float(c == longest) for c in completions]

    group = RubricGroup([Rubric([best]), Rubric([by_place(0.5, 0.5)])])
    both = [make_state("a", place=0), make_state("abc", place=1)]
    await group.score_group(both)
    assert [s["reward"] for s in both] == [0.5, 1.5]
    with pytest.raises(RubricError, match="use score_group"):
        await group.score_rollout(make_state(place=0))


async def test_each_child_reads_with_its_own_parser():
    """A peer used the group's parser for all."""

    def parsed(completion, parser):
        return float(parser.parse_answer(completion) == "4")

    group = RubricGroup([Rubric([parsed], parser=XMLParser(["answer"])), Rubric([parsed])])
    state = make_state("<answer>4</answer>")
    await group.score_rollout(state)
    assert state["reward"] == 1.0
    assert isinstance(group.rubrics[1].parser, Parser)


async def test_errors_of_one_child_leave_the_rollout_unscored():
    """Its reward is None, what the others gave stands beside it, and the advantages leave it out."""

    def broken(place):
        if place == 1:
            raise ValueError("no")
        return 1.0

    group = RubricGroup([Rubric([broken]), Rubric([by_place(1, 2, 3)])])
    three = states(3)
    await group.score_group(three)
    assert [s["reward"] for s in three] == [2.0, None, 4.0]
    assert [s.get("partial_reward") for s in three] == [None, 2.0, None]
    assert [s["advantage"] for s in three] == [-1.0, None, 1.0]
    assert three[1]["errors"] == {"broken": "ValueError: no"}


def test_columns_of_a_group_add_equal_names():
    """One name in two children is one column."""
    group = RubricGroup([Rubric([by_place(1.0)], [1.0]), Rubric([by_place(1.0)], [0.5])])
    scores = group.score_rollouts(["q"], ["c"], ["a"], [{"place": 0}])
    assert scores == {"value": [2.0], "reward": [1.5]}


async def test_the_report_of_a_group_is_the_sum():
    """Lines joined, raw, gain and loss added, score from the sums."""
    group = RubricGroup([Rubric([lambda: 1.0], [2.0]), Rubric([lambda: True], [-1.0])])
    report = await group.grade("x")
    assert (report.raw_score, report.gain, report.loss, report.score) == (1.0, 2.0, 1.0, 0.5)
    assert len(report.report) == 2


def test_a_group_refuses_what_it_cannot_hold():
    """Itself, other things, and criteria of its own."""
    group = RubricGroup([Rubric([lambda: 1.0])])
    group.rubrics.append(group)
    with pytest.raises(RubricError, match="itself"):
        group.score_rollout_sync()
    outer = RubricGroup([RubricGroup([Rubric([lambda: 1.0])])])
    outer.rubrics[0].rubrics.append(outer)
    with pytest.raises(RubricError, match="itself"):
        outer.score_rollout_sync()
    with pytest.raises(RubricError, match="len"):
        RubricGroup([len])
    with pytest.raises(RubricError, match="criteria"):
        RubricGroup([Rubric([])], funcs=[lambda: 1.0])


async def test_the_nearest_grader_judges():
    """One given for the call goes before a child's own, and that before the group's."""

    def judge(verdict):
        return PerCriterionGrader(generate_fn=FakeModel(verdict))

    asked = [{"requirement": "Is kind"}]
    group = RubricGroup([Rubric(asked), Rubric(asked, judge=judge("MET"))], judge=judge("UNMET"))
    assert [line.verdict for line in (await group.grade("x")).report] == ["UNMET", "MET"]
    assert [line.verdict for line in (await group.grade("x", judge("MET"))).report] == [
        "MET",
        "MET",
    ]
    assert [line.verdict for line in (await group.grade("x", judge("UNMET"))).report] == [
        "UNMET",
        "UNMET",
    ]


def test_what_is_added_goes_to_the_first_rubric(caplog):
    """With the weight that a rubric would give it, and a word in the log."""
    group = RubricGroup([Rubric([], name="first"), Rubric([lambda: 0.5])])
    group.add_class_object("bonus", 0.25)
    group.add_reward_func(lambda bonus: bonus)
    group.add_metric(lambda: 7.0)
    assert [(c.name, c.weight) for c in group.rubrics[0].criteria] == [
        ("check_1", 1.0),
        ("check_2", 0.0),
    ]
    assert len(group.rubrics[1]) == 1
    assert group.score_rollout_sync()["reward"] == 0.75
    assert "first rubric" in caplog.text


async def test_an_empty_group_has_nothing_to_score():
    """As an empty rubric has."""
    with pytest.raises(RubricError, match="nothing to score"):
        await RubricGroup([Rubric([])]).score_rollout(make_state())
