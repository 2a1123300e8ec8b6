"""Golden examples in rubric files: read strictly, written back, and no part of what a rubric is."""

import json

import jsonschema
import pytest

from assay import Rubric, RubricFileError, RubricGroup
from assay.loading import SCHEMA_FILE

CRITERIA = [
    {"requirement": "Greets the reader"},
    {"requirement": "Is rude", "weight": -1},
    {"requirement": "Is kind", "choices": ["poor", "fair", "fine"], "allow_na": True},
    {"check": {"max_words": 5}, "when": "greets_the_reader"},
]
EXAMPLE = {
    "name": "polite",
    "prompt": "Say hello.",
    "completion": "Good morning.",
    "answer": "hello",
    "task": "greeting",
    "info": {"source": 1},
    "expect": {"greets_the_reader": "met ", "is_kind": "n/a", "max_words": 1},
}
CHAT = [{"role": "assistant", "content": "Hello."}]


def rubric(*golden):
    return Rubric.from_dict({"criteria": CRITERIA, "golden": list(golden)})


def test_an_example_is_a_rollout_with_verdicts():
    """Spelled as the criterion spells them."""
    [example] = rubric(EXAMPLE).golden
    assert example.name == "polite"
    assert example.fields == {
        key: EXAMPLE[key] for key in ("prompt", "completion", "answer", "task", "info")
    }
    assert example.expect == {"greets_the_reader": "MET", "is_kind": "N/A", "max_words": 1.0}


def test_a_name_is_made_up_and_messages_will_do():
    """By its place in the list."""
    [example] = rubric({"completion": CHAT, "expect": {"is_rude": "UNMET"}}).golden
    assert (example.name, example.fields["completion"]) == ("golden_1", CHAT)


def test_what_is_written_is_read_back():
    """As YAML and as JSON; a rubric without any writes none."""
    whole = rubric(EXAMPLE, {"completion": CHAT, "expect": {"is_rude": "UNMET"}})
    assert Rubric.from_yaml(whole.to_yaml()).golden == whole.golden
    assert Rubric.from_json(whole.to_json()).golden == whole.golden
    assert "golden" not in Rubric.from_dict(CRITERIA).to_dict()


def test_examples_change_no_hash():
    """They test a rubric, and are no part of it: verdicts and runs stay comparable."""
    assert rubric(EXAMPLE).content_hash == Rubric.from_dict(CRITERIA).content_hash


def test_rubrics_of_a_group_and_inside_others_keep_their_own():
    """Each for its own criteria."""
    inner = {"criteria": CRITERIA, "golden": [EXAMPLE]}
    group = RubricGroup.from_dict({"rubrics": [inner, CRITERIA]})
    assert [len(part.golden) for part in group.rubrics] == [1, 0]
    assert RubricGroup.from_dict(group.to_dict()).rubrics[0].golden == group.rubrics[0].golden
    outer = Rubric.from_dict([{"rubric": inner}])
    assert outer.criteria[0].check.golden[0].name == "polite"
    assert Rubric.from_dict(outer.to_dict()).to_dict() == outer.to_dict()


# The first thirteen are wrong in shape, the others in what they name.
BAD = [
    ({"golden": []}, "golden is []: give a list of examples"),
    ({"golden": {"completion": "x"}}, "give a list of examples"),
    ({"golden": ["x"]}, "golden example 1: expected a mapping"),
    ({"golden": [{"completion": "x"}]}, "expect is missing"),
    ({"golden": [{"expect": {"is_rude": "MET"}}]}, "completion is missing"),
    ({"golden": [{**EXAMPLE, "completion": 3}]}, "completion is 3: give a text, or messages"),
    ({"golden": [{**EXAMPLE, "prompt": ["x"]}]}, "prompt is ['x']: give a text, or messages"),
    ({"golden": [{**EXAMPLE, "expect": {}}]}, "expect is empty"),
    ({"golden": [{**EXAMPLE, "expect": ["is_rude"]}]}, "expect is ['is_rude']: give a mapping"),
    ({"golden": [{**EXAMPLE, "info": "x"}]}, "info is 'x': give a mapping"),
    ({"golden": [{**EXAMPLE, "name": 3}]}, "name is 3: give a text"),
    ({"golden": [{**EXAMPLE, "name": ""}]}, "name is '': give a text"),
    ({"golden": [{**EXAMPLE, "responce": "x"}]}, "unknown field 'responce'"),
    ({"golden": [EXAMPLE, EXAMPLE]}, "golden example 2: name is 'polite', as for another"),
    ({"golden": [{**EXAMPLE, "expect": {"is_rud": "MET"}}]}, "did you mean 'is_rude'?"),
    ({"golden": [{**EXAMPLE, "expect": {"is_rude": "YES"}}]}, "give UNMET, MET"),
    ({"golden": [{**EXAMPLE, "expect": {"is_rude": "N/A"}}]}, "to be 'N/A': give UNMET, MET"),
    ({"golden": [{**EXAMPLE, "expect": {"is_rude": True}}]}, "to be True: give UNMET, MET"),
    ({"golden": [{**EXAMPLE, "expect": {"is_rude": 1}}]}, "to be 1: give UNMET, MET"),
    ({"golden": [{**EXAMPLE, "expect": {"is_kind": "good"}}]}, "give poor, fair, fine, N/A"),
    (
        {"golden": [{**EXAMPLE, "expect": {"max_words": float("nan")}}]},
        "give UNMET, MET, N/A or a number",
    ),
]


@pytest.mark.parametrize(("data", "words"), BAD, ids=[words for _, words in BAD])
def test_what_could_never_hold_is_refused(data, words):
    """Before a judge is asked, with the place and what to do."""
    with pytest.raises(RubricFileError) as caught:
        Rubric.from_dict({"criteria": CRITERIA, **data})
    assert words in str(caught.value)


def test_the_line_is_named():
    """Of the field that is wrong."""
    text = "criteria:\n- requirement: Is rude\ngolden:\n- completion: Hi\n  expect: {is_rude: no}\n"
    with pytest.raises(RubricFileError, match="<yaml>:5: golden example 1"):
        Rubric.from_yaml(text)


def test_the_schema_knows_them():
    """All but the names of criteria and their verdicts, which no schema can."""
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA_FILE.read_text("utf-8")))
    assert validator.is_valid({"criteria": CRITERIA, "golden": [EXAMPLE]})
    shapes = [data for data, _ in BAD[:13]]
    assert not any(validator.is_valid({"criteria": CRITERIA, **data}) for data in shapes)
