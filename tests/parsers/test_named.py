"""A rubric file names its parser."""

from typing import Any

import pytest

from assay import MaybeThinkParser, Parser, Rubric, RubricError, RubricFileError, XMLParser
from assay.loading.document import read_text
from assay.parsers import parser_of
from assay.rubric import rubric_at

CHECK = {"check": "exact_match"}


@pytest.mark.parametrize(
    ("spec", "completion"),
    [
        ("text", "4"),
        ("text", "<think>5</think>4"),
        ("think", "<think>5</think> 4"),
        ("maybe_think", "4"),
        ("boxed", r"<think>\boxed{5}</think> So it is \boxed{4}."),
        ("hash", "2 + 2\n#### 4"),
        ("number", "<think>5</think> It is 4."),
        ("code", "```\n4\n```"),
        ("json", "Here: [4]"),
        ({"xml": ["think", "answer"]}, "<think>5</think><answer>4</answer>"),
        ({"xml": ["think", ["tool", "answer"]]}, "<answer>4</answer>"),
        ({"xml": {"fields": ["guess"], "answer_field": "guess"}}, "<guess>4</guess>"),
    ],
    ids=str,
)
def test_a_file_names_the_parser_that_checks_read_with(spec: Any, completion: str) -> None:
    """It is written back, and is part of the hash."""
    rubric = Rubric.from_dict({"parser": spec, "criteria": [CHECK]})
    answer: Any = [4] if spec == "json" else "4"
    assert rubric.grade_sync(completion, answer=answer).score == 1.0
    data = rubric.to_dict()
    assert data["parser"] == spec
    assert Rubric.from_dict(data).content_hash == rubric.content_hash
    assert rubric.content_hash != Rubric.from_dict([CHECK]).content_hash


def test_an_answer_that_is_not_boxed_earns_nothing() -> None:
    rubric = Rubric.from_dict({"parser": "boxed", "criteria": [CHECK]})
    assert rubric.grade_sync("4", answer="4").score == 0.0


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("boxd", "there is no parser 'boxd': did you mean 'boxed'?"),
        ("xml", "the parser xml needs its tags: write parser: {xml: [think, answer]}"),
        (4, "parser is 4: give one of text, think"),
        ({"boxed": {}}, "the parser boxed has no options: write parser: boxed"),
        ({"xml": "answer"}, "the parser xml cannot be built: fields is 'answer'"),
        ({"xml": []}, "the parser xml cannot be built: fields is empty"),
        ({"xml": ["think", "think"]}, "field 'think' is named twice"),
        ({"xml": ["think"]}, "the parser xml has no field 'answer' to read the answer from"),
        ({"xml": {"fields": ["answer"], "stripped": True}}, "has no option 'stripped'"),
        ({"xml": {"answer_field": "answer"}}, "the parser xml needs its tags"),
        ({"xml": ["answer"], "boxed": None}, "give one of text, think"),
        ("mymodule:parser", "names code: if you trust this file, give --allow-code"),
    ],
    ids=str,
)
def test_another_parser_is_an_error_at_its_line(spec: Any, words: str) -> None:
    import json

    with pytest.raises(RubricFileError) as caught:
        Rubric.from_yaml(f"criteria:\n- check: exact_match\nparser: {json.dumps(spec)}\n")
    assert words in str(caught.value)
    assert ":3:" in str(caught.value)


def test_code_of_your_own_can_be_the_parser() -> None:
    data = {"parser": "assay.parsers:MaybeThinkParser", "criteria": [CHECK]}
    assert Rubric.from_dict(data, allow_code=True).parser == MaybeThinkParser()
    with pytest.raises(RubricFileError, match="name a Parser"):
        Rubric.from_dict(data | {"parser": "json:dumps"}, allow_code=True)


def test_rubrics_inside_read_with_the_same_parser_unless_they_name_one() -> None:
    inner = {"name": "inner", "rubric": [CHECK]}
    own = {"name": "own", "rubric": {"parser": "text", "criteria": [CHECK]}}
    rubric = Rubric.from_dict({"parser": "boxed", "criteria": [CHECK, inner, own]})
    report = rubric.grade_sync(r"\boxed{4}", answer="4")
    assert [line.value for line in report.lines] == [1.0, 1.0, 0.0]
    text = """
    parser: boxed
    rubrics:
    - [{check: exact_match}]
    - {parser: text, criteria: [{check: exact_match}]}
    """
    group = rubric_at(read_text(text, "yaml"))
    assert group.grade_sync(r"\boxed{4}", answer="4").raw_score == 1.0


def test_a_parser_that_no_file_can_name_is_not_lost_without_a_word() -> None:
    for parser in (Parser(str.upper), XMLParser(["answer"], extract_fn=str.upper)):
        rubric = Rubric([CHECK], parser=parser)
        with pytest.raises(RubricError, match="cannot be written to a file"):
            rubric.to_dict()
        assert rubric.content_hash != Rubric([CHECK]).content_hash
        assert rubric.content_hash == Rubric([CHECK], parser=parser).content_hash


def test_a_parser_is_taken_as_it_is() -> None:
    parser = XMLParser(["answer"])
    assert parser_of(parser) is parser
