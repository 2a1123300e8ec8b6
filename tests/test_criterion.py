"""A criterion as it is made: what is taken, what is refused and in which words, and what it is called."""

from functools import partial

import pytest

from assay import Criterion, Rubric, RubricError
from assay.criterion import (
    Condition,
    get_check_name,
    get_file_reference,
    get_qualified_name,
    hash_json,
    make_slug,
)
from assay.messages import completion_text


def exact(completion, answer):
    return completion == answer


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"weight": 1e-101},
            "weight 1e-101 is too small: give 0 for a metric, or at least 1e-100",
        ),
        ({"weight": 1e101}, "less than or equal to 1000"),
        ({"weight": -1e101}, "greater than or equal to -1000"),
        ({"weight": float("nan")}, "finite number"),
        ({"cap": float("inf")}, "finite number"),
        ({"pass_at": float("inf")}, "finite number"),
        ({"requirement": "  "}, "requirement '  ' is blank"),
        ({"choices": ["only"]}, "at least two different labels"),
        ({"choices": "only"}, r"choices are ['only']: give at least two different labels"),
        ({"choices": ["a", " A "]}, "at least two different labels"),
        ({"choices": ["a", " "]}, "at least two different labels"),
        ({"choices": ["a", "n/a"]}, "set allow_na instead"),
        (
            {"timeout": 6},
            "timeout is 6, but only an isolated check can be stopped: set isolate too",
        ),
        ({"timeout": 0, "isolate": True}, "greater than 0"),
        ({"isolate": True}, "isolate is set, but a model answers"),
        (
            {"requirement": None, "check": Rubric([exact]), "isolate": True},
            "isolate is set, but the check is a whole rubric",
        ),
        ({"requirement": None, "check": 5}, "check 5 cannot be called"),
        ({"requirement": None}, "needs a check or a requirement: give one"),
        ({"check": exact}, "not both: remove one"),
        ({"when": {"a": {}}}, "when 'a' is {}: give a verdict, a value, or a list of them"),
        ({"when": {"column": "a", "is": []}}, "give `is` a value"),
    ],
)
def test_what_no_criterion_can_be_is_refused(fields, words):
    """The message says what was wrong with the value."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the words are compared below
        Criterion(**{"requirement": "Is kind", **fields})
    assert words in str(caught.value)


def test_what_a_criterion_is_unless_said_otherwise():
    """Weight 1, met or unmet, five seconds in a worker that is not asked for."""
    plain = Criterion(requirement="Is kind")
    assert (plain.weight, plain.cap, plain.pass_at, plain.timeout, plain.isolate) == (
        1.0,
        0.0,
        1.0,
        5.0,
        False,
    )
    assert (plain.choices, plain.allow_na, plain.required, plain.report_only) == (
        ("UNMET", "MET"),
        False,
        False,
        False,
    )
    assert (plain.when, plain.tags, plain.judged, plain.counts) == ((), (), True, True)
    assert plain.to_dict() == {"requirement": "Is kind"}


@pytest.mark.parametrize(
    ("when", "conditions", "written"),
    [
        (None, (), None),
        ("a", (Condition("a"),), "a"),
        (["a", "b"], (Condition("a"), Condition("b")), ["a", "b"]),
        ({"a": "yes"}, (Condition("a", ("yes",)),), {"a": "yes"}),
        ({"a": None}, (Condition("a"),), "a"),
        (
            {"a": ["x", "y"], "b": "z"},
            (Condition("a", ("x", "y")), Condition("b", ("z",))),
            [{"a": ["x", "y"]}, {"b": "z"}],
        ),
        (Condition("a", ("x",)), (Condition("a", ("x",)),), {"a": "x"}),
    ],
)
def test_conditions_may_be_written_in_several_ways(when, conditions, written):
    """A file gets the shortest of them."""
    criterion = Criterion(requirement="Is kind", when=when)
    assert criterion.when == conditions
    assert criterion.to_dict().get("when") == written


def test_one_tag_needs_no_list():
    """It is a list of one."""
    assert Criterion(requirement="Is kind", tags="style").tags == ("style",)


def test_a_copy_is_checked_anew():
    """What is wrong is said with the name of the criterion."""
    criterion = Criterion(requirement="Is kind")
    assert criterion.with_fields(weight=2).weight == 2.0
    assert criterion.with_fields(weight=-1e-100).weight == -1e-100
    assert criterion.with_fields(weight=1e100).weight == 1e100
    with pytest.raises(RubricError, match=r"'is_kind'.*1e-200"):
        criterion.with_fields(weight=1e-200)
    with pytest.raises(RubricError, match="5"):
        Criterion.of(5)


def test_a_value_passes_from_pass_at_on_and_a_fault_below_it():
    """1 unless said otherwise."""
    good, fault = (
        Criterion(requirement="Is kind", pass_at=0.5),
        Criterion(requirement="Is rude", weight=-1),
    )
    assert [good.passes(value) for value in (0.4, 0.5, 1.0)] == [False, True, True]
    assert [fault.passes(value) for value in (0.0, 0.9, 1.0)] == [True, True, False]


@pytest.mark.parametrize(
    ("fields", "counts"),
    [
        ({}, True),
        ({"weight": 0}, False),
        ({"weight": 0, "required": True}, True),
        ({"report_only": True}, False),
    ],
)
def test_what_has_weight_or_a_veto_counts(fields, counts):
    """Unless it is only reported."""
    assert Criterion(requirement="Is kind", **fields).counts is counts


def test_a_check_goes_by_its_own_name():
    """Through partials; a lambda has none, and an object goes by its class."""

    class Longest:
        def __call__(self, completion):
            return 1.0

    assert [
        get_check_name(check)
        for check in (exact, partial(exact, answer="a"), Longest(), lambda: 1.0)
    ] == [
        "exact",
        "exact",
        "Longest",
        "",
    ]
    assert get_qualified_name(partial(exact, answer="a")) == f"{__name__}:exact"


def test_a_requirement_is_cut_between_words():
    """A first word that is too long is cut all the same."""
    assert make_slug("Cites two sources, at least", limit=10) == "cites_two"
    assert make_slug("Incomprehensibilities abound", limit=10) == "incomprehe"
    assert make_slug("?!") == ""


@pytest.mark.parametrize(
    ("requirement", "name"),
    [
        # 48 characters up to the last letter of "first", which is as long as a name can be.
        (
            "Names every source it relies on in the end first",
            "names_every_source_it_relies_on_in_the_end_first",
        ),
        (
            "Names every source it relies on in the end first of all",
            "names_every_source_it_relies_on_in_the_end_first",
        ),
        (
            "Names every source it relies on in the end firstly",
            "names_every_source_it_relies_on_in_the_end",
        ),
    ],
)
def test_a_name_holds_up_to_48_characters(requirement, name):
    assert Criterion(requirement=requirement).name == name


def test_a_function_is_written_by_where_it_can_be_imported_from():
    """What cannot be imported by name cannot be written."""
    assert get_file_reference(completion_text) == "assay.messages:completion_text"
    assert Criterion(check=completion_text).to_dict() == {"check": "assay.messages:completion_text"}
    with pytest.raises(RubricError, match="cannot be written to a file"):
        Criterion(check=lambda: 1.0).to_dict()


def test_a_nested_rubric_is_written_whole():
    """Another kind of scorer cannot be."""

    class Elsewhere:
        async def score(self, rollouts):
            return []

    nested = Criterion(check=Rubric([{"requirement": "Is kind"}], name="inner"), weight=2)
    assert nested.to_dict() == {
        "rubric": {"name": "inner", "criteria": [{"requirement": "Is kind"}]},
        "weight": 2.0,
    }
    with pytest.raises(RubricError, match="cannot be written as one criterion of a file"):
        Criterion(check=Elsewhere()).to_dict()


def test_a_hash_is_of_what_is_said_and_not_how():
    """Keys in any order, whole numbers in any spelling; what is no number has none."""
    assert hash_json({"a": 1, "b": [2.0]}) == hash_json({"b": (2,), "a": 1.0})
    assert hash_json({"a": 1}) != hash_json({"a": 1.5})
    with pytest.raises(ValueError, match="JSON compliant"):
        hash_json(float("nan"))


def test_a_question_is_the_same_whatever_it_weighs():
    """Name and weight change the criterion, and not the question."""
    one, two = (
        Criterion(requirement="Is kind"),
        Criterion(requirement="Is kind", weight=2, name="kind"),
    )
    assert one.question_hash == two.question_hash
    assert one.content_hash != two.content_hash
    assert one.question_hash != Criterion(requirement="Is kind", allow_na=True).question_hash
