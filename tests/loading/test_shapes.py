"""Every shape that a rubric file may have."""

import json

import pytest

from assay import Criterion, Parser, Rubric, RubricFileError, RubricGroup
from assay.checks import Contains, JsonValid, MaxWords, Regex
from assay.criterion import Condition
from assay.testing import make_rollout

A = {"requirement": "A", "weight": 2}
B = {"requirement": "B", "weight": -1}


def summary(rubric):
    return [(c.requirement, c.weight, c.tags) for c in rubric.criteria]


@pytest.mark.parametrize(
    ("data", "tags"),
    [
        ([A, B], [(), ()]),
        ([{"criteria": [A, B]}], [(), ()]),
        ([{"title": "T", "criteria": [A]}, {"name": "N", "criteria": [B]}], [("T",), ("N",)]),
        ([A, {"title": "T", "description": "d", "criteria": [B]}], [(), ("T",)]),
        ([{"title": "T", "criteria": [A, {"title": "U", "criteria": [B]}]}], [("T",), ("T", "U")]),
        ({"criteria": [A, B]}, [(), ()]),
        ({"sections": [{"title": "T", "criteria": [A, B]}]}, [("T",), ("T",)]),
        ({"rubric": [A, B]}, [(), ()]),
        ({"rubric": {"criteria": [A, B]}}, [(), ()]),
        ({"rubric": {"sections": [{"criteria": [A]}, B]}}, [(), ()]),
        ({"$schema": "x.json", "description": ["any", 1], "criteria": [A, B]}, [(), ()]),
    ],
)
def test_lists_sections_and_mappings(data, tags):
    """The criteria in order, with the titles of their sections as tags."""
    expected = [("A", 2.0, tags[0]), ("B", -1.0, tags[1])]
    assert summary(Rubric.from_dict(data)) == expected
    assert summary(Rubric.from_json(json.dumps(data))) == expected
    assert summary(Rubric.from_yaml(json.dumps(data))) == expected


def test_a_section_adds_to_the_tags_of_its_criteria():
    """Once each, its own title first."""
    data = [{"title": "Style", "criteria": [{**A, "tags": ["tone", "Style"]}]}]
    assert Rubric.from_dict(data).criteria[0].tags == ("Style", "tone")


def test_name_and_aggregation_of_the_rubric():
    """From the file, from around it, and the caller has the last word."""
    data = {"name": "essay", "aggregation": "mean", "criteria": [A]}
    rubric = Rubric.from_dict(data)
    assert (rubric.name, rubric.aggregation.name) == ("essay", "mean")
    rubric = Rubric.from_dict({"name": "outer", "rubric": data})
    assert (rubric.name, rubric.aggregation.name) == ("essay", "mean")
    rubric = Rubric.from_dict(data, name="mine", aggregation="sum")
    assert (rubric.name, rubric.aggregation.name) == ("mine", "sum")


def test_every_field_of_a_criterion():
    """As it stands in a file."""
    [first, criterion] = Rubric.from_yaml("""
        - {requirement: First, name: first}
        - requirement: Explains each step
          name: steps
          weight: 1e1
          choices: [no, partly, yes]
          allow_na: true
          required: true
          cap: 0.5
          pass_at: 0.75
          when: first
          tags: [style]
          report_only: true
    """).criteria
    assert first.name == "first"
    assert criterion == Criterion(
        requirement="Explains each step",
        name="steps",
        weight=10.0,
        choices=("no", "partly", "yes"),
        allow_na=True,
        required=True,
        cap=0.5,
        pass_at=0.75,
        when=(Condition("first"),),
        tags=("style",),
        report_only=True,
    )


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ("a", [("a", ())]),
        ({"a": "MET"}, [("a", ("MET",))]),
        ({"a": ["MET", "N/A"]}, [("a", ("MET", "N/A"))]),
        ({"a": None, "b": "UNMET"}, [("a", ()), ("b", ("UNMET",))]),
        (["a", {"b": "UNMET"}], [("a", ()), ("b", ("UNMET",))]),
        ([], []),
    ],
)
def test_conditions(when, expected):
    """A name, a mapping from names to verdicts, or a list of both."""
    data = [{"requirement": "A"}, {"requirement": "B"}, {"requirement": "C", "when": when}]
    assert list(Rubric.from_dict(data).criteria[2].when) == expected


@pytest.mark.parametrize(
    ("spec", "check"),
    [
        ("json_valid", JsonValid()),
        ({"json_valid": None}, JsonValid()),
        ({"contains": "Paris"}, Contains("Paris")),
        ({"contains": ["a", "b"]}, Contains(("a", "b"))),
        ({"max_words": {"limit": 200}}, MaxWords(200)),
        ({"regex": {"pattern": "a", "ignore_case": True}}, Regex("a", ignore_case=True)),
    ],
)
def test_checks_by_name(spec, check):
    """A name, a name with its first field, or a name with its fields."""
    assert Rubric.from_dict([{"check": spec}]).criteria == (Criterion(check=check),)


def test_python_data_may_hold_functions_and_rubrics():
    """They are no names in a file, so nothing has to be allowed."""

    def long(completion):
        return len(completion) > 3

    inner = Rubric([long])
    rubric = Rubric.from_dict([{"check": long, "weight": 2}, {"check": inner, "name": "inner"}])
    assert rubric.funcs == [long, inner]


NESTED = """
criteria:
  - check: {contains: Paris}
  - name: style
    weight: 3
    rubric:
      aggregation: mean
      criteria:
        - check: {max_words: 3}
        - check: exact_match
  - rubric:
      name: inner
      criteria:
        - check: {min_words: 1}
  - rubric: [{check: json_valid}]
"""


async def test_a_nested_rubric_is_one_criterion():
    """Worth 1 + 3 · 1/2 + 1 + 0 of 6 points."""
    rubric = Rubric.from_yaml(NESTED)
    assert [c.name for c in rubric.criteria] == ["contains", "style", "inner", "rubric"]
    report = await rubric.grade("Paris it is", answer="Paris")
    assert report.raw_score == pytest.approx(3.5)
    assert report.score == pytest.approx(3.5 / 6)


async def test_options_go_to_the_constructor_and_the_parser_to_nested_rubrics_too():
    """A nested check reads as the outer ones do."""
    rubric = Rubric.from_yaml(NESTED, parser=Parser(str.upper), on_error="raise", name="outer")
    nested = rubric.criteria[1].check
    assert (rubric.name, rubric.on_error, nested.name, nested.on_error) == (
        "outer",
        "raise",
        "",
        "raise",
    )
    assert nested.parser is rubric.parser


def test_subclasses_load_themselves():
    """Nested rubrics are of the same class."""

    class MyRubric(Rubric):
        pass

    rubric = MyRubric.from_yaml(NESTED)
    assert type(rubric) is MyRubric
    assert type(rubric.criteria[1].check) is MyRubric


async def test_a_group_is_a_list_of_rubrics():
    """Rewards are added: 1 + 2 + 0."""
    group = RubricGroup.from_yaml("""
        name: both
        rubrics:
          - [{check: {contains: Paris}}]
          - name: second
            criteria: [{check: {max_words: 3}, weight: 2}]
          - rubrics:
              - [{check: json_valid}]
    """)
    assert (group.name, [child.name for child in group.rubrics]) == ("both", ["", "second", ""])
    assert isinstance(group.rubrics[2], RubricGroup)
    [report] = await group.score([make_rollout("Paris")])
    assert report.raw_score == 3.0


@pytest.mark.parametrize(
    "text",
    [
        "- requirement: A\n  weight: 2\n",
        "%YAML 1.2\n---\n- {requirement: A, weight: 2}\n...\n",
        "- &a {requirement: A, weight: 2}\n- {<<: *a, requirement: B}\n",
        "criteria:\n- requirement: >-\n    A\n  weight: !!str 2\n",
        "\ufeff- requirement: A\n  weight: 2\n",
    ],
)
def test_yaml_in_its_many_dresses(text):
    """Blocks, flows, anchors, merges, directives and a byte order mark."""
    assert summary(Rubric.from_yaml(text))[0] == ("A", 2.0, ())


def test_a_merge_fills_in_what_is_missing():
    """What the mapping says itself goes first, and of several the first."""
    rubric = Rubric.from_yaml("""
        - &base {requirement: A, weight: 5, tags: [x]}
        - {<<: [*base, {weight: 9}], requirement: B}
        - {weight: 2, <<: *base, name: c}
    """)
    assert summary(rubric) == [("A", 5.0, ("x",)), ("B", 5.0, ("x",)), ("A", 2.0, ("x",))]


@pytest.mark.parametrize("key", ["'<<'", '"<<"', "!!str <<"])
def test_a_key_that_only_looks_like_a_merge_is_a_key(key):
    """With quotation marks or a tag it is a text, and no field."""
    with pytest.raises(RubricFileError, match="unknown field '<<'"):
        Rubric.from_yaml(f"- requirement: A\n  {key}: {{weight: 2}}\n")


TOML = """
name = "essay"

[[criteria]]
requirement = '''
Cites [[a]] source'''
weight = 2

[[criteria]]
check = {max_words = 200}

[[criteria]]
name = "style"
[criteria.rubric]
aggregation = "mean"
[[criteria.rubric.criteria]]
requirement = "Is kind"
"""


def test_toml():
    """Tables of a list, nested ones too."""
    rubric = Rubric.from_toml(TOML)
    assert rubric.name == "essay"
    assert [c.weight for c in rubric.criteria] == [2.0, 1.0, 1.0]
    assert rubric.criteria[1].check == MaxWords(200)
    assert rubric.criteria[2].check.criteria[0].requirement == "Is kind"


def test_an_empty_rubric_file_and_weights_by_position():
    """Options that belong to the outer rubric do not reach the nested ones."""
    rubric = Rubric.from_yaml(NESTED, weights=[1, 2, 3, 4])
    assert rubric.weights == [1.0, 2.0, 3.0, 4.0]
