"""A rubric that changes while training runs: every score says by which version, and a group has one."""

import asyncio

import pytest

from assay import Criterion, Rubric, RubricError, RubricGroup, VersionedRubric
from assay.integrations import as_trl_reward, compute_score_of
from assay.runs import Run, score_rows


def right(completion):
    return "4" in completion


def short(completion):
    return len(completion) < 4


def polite(completion):
    return "please" in completion


@pytest.fixture
def rubric():
    return VersionedRubric(Rubric([right, short], weights=[2.0, 1.0], name="sums"))


def test_criteria_are_added_retired_and_weighted_anew(rubric):
    """2 + 1; then 3 for right alone; then 3 + 0.5 for please."""
    assert rubric.grade_sync("4").raw_score == 3.0
    rubric.update(retire=["short"], weights={"right": 3.0})
    assert rubric.grade_sync("4").raw_score == 3.0
    rubric.update(add=[Criterion(check=polite, weight=0.5)])
    assert rubric.grade_sync("4 please").raw_score == 3.5
    rubric.add_metric(short)
    assert len(set(rubric.versions)) == 4
    assert rubric.rubric.name == "sums"


def test_every_score_carries_the_hash_of_its_version(rubric):
    """In reports, as data too, and in states; the hash is that of the rubric itself."""
    first = rubric.grade_sync("4")
    assert first.version == rubric.rubric.content_hash == rubric.content_hash
    assert type(first).from_dict(first.to_dict()) == first
    rubric.update(Rubric([right]))
    states = [{"completion": "4"}, {"completion": "5"}]
    asyncio.run(rubric.score_group(states))
    assert {state["rubric_version"] for state in states} == {rubric.version} != {first.version}
    assert [state["advantage"] for state in states] == [0.5, -0.5]
    plain = Rubric([right])
    assert plain.grade_sync("4").version == plain.content_hash


async def test_what_is_under_way_is_finished_by_its_version():
    """The check of the first rollout changes the rubric: the group of four keeps the weight of 1, the next has 5."""

    async def slow(completion):
        if completion == "change":
            rubric.update(weights={"slow": 5.0})
        await asyncio.sleep(0)
        return 1.0

    rubric = VersionedRubric(Rubric([slow]))
    states = [{"completion": text} for text in ("change", "a", "b", "c")]
    await rubric.score_group(states)
    assert [state["reward"] for state in states] == [1.0] * 4
    assert {state["rubric_version"] for state in states} == {rubric.versions[0]}
    assert (await rubric.grade("a")).raw_score == 5.0


async def test_a_group_that_is_scored_in_several_calls_has_one_version():
    """With a timeout every rollout is a call of its own; the rubric changes with the first."""

    async def slow(completion):
        if completion == "0":
            rubric.update(weights={"slow": 5.0})
        await asyncio.sleep(0)
        return 1.0

    rubric = VersionedRubric(Rubric([slow], name="r"))
    reward = as_trl_reward(rubric, timeout=30, unscored="group_mean", name="r")
    seen = {}
    paid = await reward(["q"] * 40, [str(n) for n in range(40)], log_extra=seen.__setitem__)
    assert paid == [1.0] * 40
    assert seen["r/rubric"] == [rubric.versions[0]] * 40
    assert await reward(["q"], ["1"]) == [5.0]


async def test_trainers_see_the_names_of_every_version(rubric):
    """A retired criterion stays a key without a value, so that columns do not go missing."""
    score = compute_score_of(rubric, unscored="zero")
    rubric.update(retire=["short"], add=[polite])
    told = await score("sums", "4", "4")
    assert told.pop("rubric_version") == rubric.version
    assert told == {
        "score": 2.0,
        "unscored": 0.0,
        "outcome": 2.0,
        "right": 1.0,
        "short": 0.0,
        "polite": 0.0,
    }


async def test_a_run_keeps_the_version_of_every_row(rubric, tmp_path):
    await score_rows(rubric, [{"completion": "4"}], folder=tmp_path / "run")
    [row] = Run.open(tmp_path / "run").rows()
    assert row.report.version == rubric.version


def test_the_same_rubric_again_is_the_same_version(rubric):
    """A hash is of the content: taking a change back brings the first version back."""
    rubric.update(weights={"right": 9.0})
    rubric.update(weights={"right": 2.0})
    assert rubric.versions[2] == rubric.versions[0] != rubric.versions[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda rubric: rubric.update(retire=["rigth"]),
            "no criterion 'rigth' to change: did you mean 'right'",
        ),
        (lambda rubric: rubric.update(weights={"x": 1.0}), "no criterion 'x'"),
        (
            lambda rubric: rubric.update(Rubric([right]), retire=["short"]),
            "give either a rubric or changes",
        ),
        (
            lambda rubric: (
                rubric.update(RubricGroup([Rubric([right])])) and rubric.update(retire=["right"])
            ),
            "a RubricGroup cannot be changed one by one",
        ),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(rubric, change, message):
    """And the version that was there stays."""
    with pytest.raises(RubricError, match=message):
        change(rubric)
    assert rubric.grade_sync("4").score == 1.0
