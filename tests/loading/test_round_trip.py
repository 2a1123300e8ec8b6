"""What is written is read back as the same rubric."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from assay import Criterion, Rubric, RubricError, RubricGroup
from assay.aggregation import AGGREGATIONS
from assay.checks import (
    CodeBlock,
    Contains,
    ExactMatch,
    JsonSchema,
    JsonValid,
    MaxWords,
    NumericEqual,
    OneOf,
    Refusal,
    Regex,
    Similarity,
)
from assay.criterion import NOT_APPLICABLE, Condition, is_scorer
from assay.loading.document import dump_yaml, read_text

flags = st.booleans()
words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
sayings = words.filter(str.strip)
numbers = st.floats(min_value=-1e100, max_value=1e100)
positive = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
texts = st.lists(words, min_size=1, max_size=3)

checks = st.one_of(
    st.builds(Contains, words | texts, ignore_case=flags, any_of=flags),
    st.builds(ExactMatch, ignore_case=flags, strip=flags),
    st.builds(OneOf, texts, ignore_case=flags),
    st.builds(NumericEqual, tolerance=positive, relative=positive),
    st.builds(MaxWords, st.integers(min_value=0)),
    st.builds(CodeBlock, st.none() | words),
    st.builds(JsonValid, fenced=flags),
    st.builds(JsonSchema, st.sampled_from([True, {}, {"minimum": 1.5, "enum": [None, "no", 1e3]}])),
    st.builds(Regex, st.sampled_from(["a+", "\x85|^ |: #", "1e3"]), ignore_case=flags),
    st.builds(Similarity, st.none() | words),
    st.builds(Refusal),
)
scales = st.lists(sayings, min_size=2, max_size=4, unique_by=lambda s: s.strip().casefold()).filter(
    lambda scale: NOT_APPLICABLE.casefold() not in {s.strip().casefold() for s in scale}
)
options = st.fixed_dictionaries(
    {},
    optional={
        "weight": st.floats(min_value=-1e6, max_value=1e6).filter(lambda w: abs(w) >= 1e-100),
        "name": words,
        "choices": scales,
        "allow_na": flags,
        "required": flags,
        "cap": numbers,
        "pass_at": numbers,
        "tags": st.lists(words, max_size=3),
    },
)


@st.composite
def criteria_lists(draw, questions):
    """Criteria that may wait for earlier ones; the first one counts."""
    criteria = []
    for question, fields in draw(st.lists(st.tuples(questions, options), min_size=1, max_size=4)):
        criterion = Criterion(**question, **fields)
        names = [c.name for c in criteria if c.name]
        if names and criterion.name and draw(flags):
            waits = draw(st.lists(st.sampled_from(names), max_size=2))
            offered = {c.name: c.choices for c in criteria}
            when = [
                Condition(name, tuple(draw(st.lists(st.sampled_from(offered[name]), max_size=2))))
                for name in waits
            ]
            criterion = criterion.with_fields(when=tuple(when), report_only=draw(flags))
        if criterion.name not in names:
            criteria.append(criterion)
    return criteria


def rubrics_of(questions):
    plain = [name for name in AGGREGATIONS if name != "tree"]
    return st.builds(
        Rubric,
        criteria_lists(questions),
        aggregation=st.sampled_from(plain),
        name=st.just("") | words,
    )


judged = st.fixed_dictionaries({"requirement": sayings})
by_code = st.fixed_dictionaries({"check": checks})
flat = rubrics_of(judged | by_code)
nested = rubrics_of(judged | by_code | st.fixed_dictionaries({"check": flat}))


def same(one, other):
    """Equal in everything that a file holds; rubrics have no equality of their own."""
    assert (one.name, one.aggregation) == (other.name, other.aggregation)
    assert len(one.criteria) == len(other.criteria)
    for left, right in zip(one.criteria, other.criteria, strict=True):
        if is_scorer(left.check):
            same(left.check, right.check)
            right = right.with_fields(check=left.check)
        assert left == right
    assert one.content_hash == other.content_hash


@settings(deadline=None)
@given(nested)
def test_a_rubric_is_read_back_from_its_data(rubric):
    """And writes the same data again."""
    data = rubric.to_dict()
    again = Rubric.from_dict(data)
    same(again, rubric)
    assert again.to_dict() == data


@settings(deadline=None)
@given(nested)
@pytest.mark.slow
def test_a_rubric_is_read_back_from_json_and_yaml(rubric):
    """Whatever its texts hold."""
    same(Rubric.from_json(rubric.to_json()), rubric)
    same(Rubric.from_yaml(rubric.to_yaml()), rubric)


@settings(deadline=None)
@given(st.lists(flat, min_size=1, max_size=3), words)
@pytest.mark.slow
def test_a_group_is_read_back(rubrics, name):
    """With every rubric in it."""
    group = RubricGroup(rubrics, name=name)
    again = RubricGroup.from_yaml(group.to_yaml())
    for one, other in zip(again.rubrics, group.rubrics, strict=True):
        same(one, other)
    assert (again.name, again.content_hash) == (group.name, group.content_hash)


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("<<")
def test_any_text_survives_yaml(text):
    """Words that look like numbers, control characters, odd line breaks."""
    assert read_text(dump_yaml({"a": [text], text: 1}), "yaml").data == {"a": [text], text: 1}


@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "1e3",
        "012",
        "0x1F",
        "null",
        "~",
        "2024-01-01",
        "1:30",
        "<<",
        "=",
        "- a",
        "a: b",
        "#",
        "\x85",
        "\u2028",
        "",
        " a ",
        "a\n\n b\n",
    ],
)
def test_texts_that_look_like_something_else_survive_yaml(text):
    """They are quoted."""
    assert read_text(dump_yaml([text]), "yaml").data == [text]


@pytest.mark.parametrize("text", ["\u201cyes\u201d", "\u2018\u2018", "\xabno\xbb"])
def test_a_text_in_typographic_quotation_marks_survives_yaml(text):
    """It is written in straight quotes; a file without those is refused."""
    rubric = Rubric([OneOf([text]), Criterion(requirement="A", choices=["no", text], tags=[text])])
    same(Rubric.from_yaml(rubric.to_yaml()), rubric)


def test_half_a_character_survives_json_alone():
    """YAML has no way to write it."""
    rubric = Rubric([JsonSchema({"const": "\ud800"})])
    assert Rubric.from_json(rubric.to_json()).criteria == rubric.criteria
    rubric.to_json().encode("utf-8")
    with pytest.raises(RubricError, match="lone surrogate, which YAML cannot write: use to_json"):
        rubric.to_yaml()


def test_only_what_differs_is_written():
    """Readable by people."""
    rubric = Rubric.from_dict(
        {
            "name": "essay",
            "criteria": [
                {"requirement": "Cites a source", "weight": 2, "name": "cites_a_source"},
                {"check": {"max_words": {"limit": 200}}, "weight": 1.0},
                {"check": {"max_words": 900}, "when": {"cites_a_source": ["MET"]}},
                {"rubric": [{"requirement": "Is kind"}], "required": True},
            ],
        }
    )
    assert rubric.to_dict() == {
        "name": "essay",
        "criteria": [
            {"requirement": "Cites a source", "weight": 2.0},
            {"check": {"max_words": 200}},
            {"name": "max_words_2", "check": {"max_words": 900}, "when": {"cites_a_source": "MET"}},
            {"rubric": {"criteria": [{"requirement": "Is kind"}]}, "required": True},
        ],
    }
    assert json.loads(rubric.to_json()) == rubric.to_dict()
    assert rubric.to_yaml().startswith("name: essay\ncriteria:\n- requirement: Cites a source\n")


def test_a_criterion_is_read_back_from_its_data():
    """The same mapping that stands in a file."""
    criterion = Criterion(requirement="A", when=["b", {"c": "MET"}], tags="t", cap=0.5)
    assert Criterion.model_validate(criterion.to_dict()) == criterion


def test_a_group_inside_a_criterion_cannot_be_written():
    """A file has no word for it."""
    group = RubricGroup([Rubric([MaxWords(3)])])
    with pytest.raises(RubricError, match="cannot be written as one criterion"):
        Rubric([group.as_criterion()]).to_dict()
