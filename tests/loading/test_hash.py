"""Hashes of what criteria and rubrics say."""

import hashlib

import pytest

from assay import Criterion, Rubric, RubricGroup
from assay.checks import Contains, JsonSchema, MaxWords

JUDGED = Criterion(
    requirement="Cites a source",
    weight=2,
    choices=["no", "partly", "yes"],
    when={"shows_work": ["MET", "N/A"]},
    tags=["facts"],
)


def test_hashes_stay_as_they_are():
    """In every version: results that are stored under them must be found again."""
    assert JUDGED.content_hash == "c1c1d22bf82fa0e8716ba2646d944eccda076cd84bc8a5774a24c81785bffe70"
    assert (
        JUDGED.question_hash == "cd0b7c9f1091ae53a33dbdff973532332d0ff08f09f7b83bb82bc7384295645c"
    )
    checked = Criterion(check=Contains(["a", "b"], any_of=True), weight=0.5, name="ab")
    assert (
        checked.content_hash == "40c1ce1c5fc2c5728e1d38ec39a9dbba00923bf6bcf360a20836b244199bc79a"
    )
    rubric = Rubric([checked, {"requirement": "B"}], aggregation="mean", name="r")
    assert rubric.content_hash == "6afa75496b380be42c44fb871aee67426d3e5e744b49d13ed4fbea3d6ee594a0"
    assert (
        RubricGroup([rubric], name="g").content_hash
        == "8ce17e1e0b977c34348d93787a496a7e2d5d241c8e43cc96e54525ff93c3da6a"
    )


def test_a_hash_is_of_sorted_json():
    """So that another language can work it out."""
    text = (
        '{"choices":["no","partly","yes"],"format":"assay.criterion/1",'
        '"requirement":"Cites a source","tags":["facts"],"weight":2,'
        '"when":{"shows_work":["MET","N/A"]}}'
    )
    assert hashlib.sha256(text.encode()).hexdigest() == JUDGED.content_hash


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"requirement": "A"}, {"weight": 1, "requirement": "A"}),
        ({"requirement": "A", "weight": 2}, {"requirement": "A", "weight": 2.0}),
        ({"requirement": "A", "weight": -0.0}, {"requirement": "A", "weight": 0}),
        ({"requirement": "A", "weight": "2"}, {"requirement": "A", "weight": 2}),
        ({"requirement": "A", "name": "a"}, {"requirement": "A"}),
        ({"requirement": "A", "tags": "x"}, {"requirement": "A", "tags": ["x"]}),
        ({"requirement": "A", "choices": ["UNMET", "MET"]}, {"requirement": "A"}),
        ({"requirement": "A", "when": "b"}, {"requirement": "A", "when": {"b": []}}),
        ({"check": Contains("a")}, {"check": Contains(("a",), ignore_case=False)}),
        (
            {"check": JsonSchema({"minimum": 1, "type": "number"})},
            {"check": JsonSchema({"type": "number", "minimum": 1.0})},
        ),
    ],
)
def test_spelling_does_not_change_a_hash(one, other):
    """Order, defaults, numbers and shorthands."""
    one, other = Criterion(**one), Criterion(**other)
    assert one.content_hash == other.content_hash
    assert one.question_hash == other.question_hash


@pytest.mark.parametrize(
    "change",
    [
        {"weight": 3},
        {"name": "x"},
        {"required": True},
        {"cap": 0.5},
        {"pass_at": 0.5},
        {"when": ()},
        {"tags": ()},
        {"report_only": True},
    ],
    ids=str,
)
def test_what_does_not_decide_the_answer_changes_the_content_alone(change):
    """A judge's verdict can be kept when a weight is changed."""
    changed = JUDGED.with_fields(**change)
    assert changed.content_hash != JUDGED.content_hash
    assert changed.question_hash == JUDGED.question_hash


@pytest.mark.parametrize(
    "change",
    [
        {"requirement": "Cites two sources"},
        {"choices": ("no", "yes")},
        {"choices": ("yes", "partly", "no")},
        {"allow_na": True},
        {"requirement": None, "check": MaxWords(3)},
    ],
    ids=str,
)
def test_what_decides_the_answer_changes_both(change):
    """The words, the scale, and whether it may not apply."""
    changed = JUDGED.with_fields(**change)
    assert changed.content_hash != JUDGED.content_hash
    assert changed.question_hash != JUDGED.question_hash


def test_a_rubric_hashes_its_criteria_in_order():
    """And its name and aggregation; its parser and grader are no part of what it says."""
    a, b = {"requirement": "A"}, {"requirement": "B"}
    rubrics = [
        Rubric([a, b]),
        Rubric([b, a]),
        Rubric([a]),
        Rubric([a, b], name="x"),
        Rubric([a, b], aggregation="mean"),
        Rubric([a, Rubric([b]).as_criterion(name="b")]),
        RubricGroup([Rubric([a, b])]),
        RubricGroup([Rubric([a]), Rubric([b])]),
    ]
    assert len({rubric.content_hash for rubric in rubrics}) == len(rubrics)
    assert Rubric([a, b], on_error="raise").content_hash == rubrics[0].content_hash


def test_a_change_inside_a_nested_rubric_changes_the_hash_outside():
    """At any depth."""
    hashes = {Rubric([Rubric([Rubric([MaxWords(n)])])]).content_hash for n in (3, 4)}
    assert len(hashes) == 2
