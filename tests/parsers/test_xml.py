"""Tagged fields: what is read, what is written, and what is refused."""

import re
from typing import Any

import pytest

from assay.parsers import MISSING, XMLParser

PARSER = XMLParser(["reasoning", ("tool", "answer")])


def said(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def test_every_name_is_an_attribute() -> None:
    """Absent names are an empty text that says so; an empty tag is an empty text and no more."""
    parsed = PARSER.parse("<reasoning></reasoning><answer> 4\n</answer>")
    assert vars(parsed) == {"reasoning": "", "tool": "", "answer": "4"}
    assert parsed.tool is MISSING
    assert parsed.reasoning is not MISSING


def test_the_last_match_wins() -> None:
    """A model that thinks aloud about the tag is read by its final answer (#1575)."""
    text = "<answer>3</answer> wait, <answer>4</answer>"
    assert PARSER.parse(text).answer == "4"
    assert PARSER.parse(text, last=False).answer == "3"
    answers = XMLParser(["answer"])
    assert answers.parse_answer(text) == answers.parse_answer([said(text)]) == "4"


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("<a>1<a>2</a>", "2", "2"),
        ("<a>1</a></a>", "1", "1"),
        ("<a>1</a><a>2", "1", "1"),
        ("</a><a>1</a>", "1", "1"),
        ("put it in <a> tags: <a>1</a> as <a> says", "1", "1"),
        ("<a>1<a>2</a>3</a><a>4</a>5</a>", "2", "4"),
        ("<a>1</b></a>", "1</b>", "1</b>"),
        ("<a>", MISSING, MISSING),
        ("</a>", MISSING, MISSING),
        ("</a><a>", MISSING, MISSING),
        ("<A>1</A><a x='y'>1</a>", MISSING, MISSING),
    ],
)
def test_a_field_is_the_innermost_pair(text: str, first: str, last: str) -> None:
    """Content runs from the last opening tag before a closing tag; stray tags change nothing."""
    parser = XMLParser(["a"])
    assert parser.parse(text, last=False).a == first
    assert parser.parse(text).a == last


def test_white_space_is_kept_on_request() -> None:
    """`strip=False` trims nothing."""
    assert PARSER.parse("<answer> \n4 </answer>", strip=False).answer == " \n4 "
    assert PARSER.parse_all("<answer> 4 </answer>", strip=False).answer == [" 4 "]


def test_repeated_fields_come_as_lists() -> None:
    """Parallel tool calls are all there, in order (#388)."""
    parsed = PARSER.parse_all("<tool>a</tool> <tool>b</tool><answer>4</answer><tool>")
    assert vars(parsed) == {"reasoning": [], "tool": ["a", "b"], "answer": ["4"]}


def test_the_answer_is_found_looking_back() -> None:
    """The last assistant message that holds an answer gives it; other roles are not read."""
    parser = XMLParser(["answer"])
    chat = [
        said("<answer>3</answer>"),
        said("<answer>4</answer>"),
        said("thank you"),
        {"role": "user", "content": "<answer>5</answer>"},
    ]
    assert parser.parse_answer(chat) == "4"


def test_the_answer_in_odd_content() -> None:
    """Parts are joined and None says nothing."""
    parser = XMLParser(["answer"])
    parts = [{"type": "text", "text": "<answer>4"}, {"type": "text", "text": "</answer>"}]
    assert parser.parse_answer([said(parts), said(None)]) == "4"


def test_an_absent_answer_is_none() -> None:
    """No tag, no message and no such field all mean None; an empty tag is an answer."""
    parser = XMLParser(["answer"], extract_fn=len)
    assert parser.parse_answer("4") is None
    assert parser.parse_answer([]) is None
    assert parser.parse_answer(None) is None
    assert parser.parse_answer([{"role": "user", "content": "<answer>4</answer>"}]) is None
    assert XMLParser(["code"]).parse_answer("<answer>4</answer><code>4</code>") is None
    assert parser.parse_answer("<answer></answer>") == 0


def test_extract_fn_is_applied_to_the_answer() -> None:
    """It gets the stripped text of the field, and `parse` leaves it alone."""
    parser = XMLParser(["answer"], extract_fn=int)
    assert parser.parse_answer("<answer> 4 </answer>") == 4
    assert parser.parse_answer([said("<answer>4</answer>")]) == 4
    assert parser.parse("<answer>4</answer>").answer == "4"


def test_a_canonical_answer_field_stands_for_its_alternatives() -> None:
    """The last of them in the text is the answer; a name that is not canonical stands for itself."""
    text = "<final>3</final><answer>4</answer><final>5</final>"
    assert XMLParser([("answer", "final")]).parse_answer(text) == "5"
    assert XMLParser([("answer", "final")], answer_field="final").parse_answer(text) == "5"
    assert XMLParser([("final", "answer")]).parse_answer(text) == "4"


def test_format_writes_what_parse_reads() -> None:
    """Fields come in order, each under the name it is given by."""
    text = PARSER.format(answer=4, reasoning="2+2")
    assert text == "<reasoning>\n2+2\n</reasoning>\n<answer>\n4\n</answer>"
    assert PARSER.format(**vars(PARSER.parse(text))) == text


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"answer": "4"}, "field 'reasoning' has no value"),
        ({"reasoning": "r"}, "field 'tool' or 'answer' has no value"),
        ({"reasoning": None, "answer": "4"}, "field 'reasoning' has no value"),
        ({"reasoning": "r", "tool": "t", "answer": "4"}, "give 'tool' or 'answer', not both"),
        ({"reasoning": "r", "anwser": "4"}, "no field 'anwser': did you mean 'answer'?"),
        ({"reasoning": "r", "zzz": "4"}, "no field 'zzz': use reasoning, tool, answer"),
    ],
)
def test_format_says_what_is_wrong(values: dict[str, Any], message: str) -> None:
    """A missing, doubled or unknown field is named."""
    with pytest.raises(ValueError, match=re.escape(message)):
        PARSER.format(**values)


def test_a_field_may_have_any_simple_name() -> None:
    """Names with dots and dashes, and `self`, work like others."""
    parser = XMLParser(["self", "a-b.c", "_1"])
    values = {"self": "1", "a-b.c": "2", "_1": "3"}
    assert vars(parser.parse(parser.format(**values))) == values


def test_fields_and_format_as_words() -> None:
    """Canonical names in order, and a prompt's description with alternatives in brackets."""
    assert PARSER.get_fields() == ["reasoning", "tool"]
    assert PARSER.get_format_str() == (
        "<reasoning>\n...\n</reasoning>\n<[ tool | answer ]>\n...\n</[ tool | answer ]>"
    )


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ("answer", TypeError, "fields is 'answer': pass a list"),
        (None, TypeError, "fields is None: pass a list"),
        ([4], TypeError, "field 4 is neither a name nor a tuple"),
        ([("a", 4)], TypeError, "field ('a', 4) contains 4"),
        ([], ValueError, "fields is empty"),
        (["a", ()], ValueError, "field () is empty"),
        (["a", "a"], ValueError, "field 'a' is named twice"),
        ([("a", "b"), "b"], ValueError, "field 'b' is named twice"),
        (["a b"], ValueError, "field 'a b' cannot be a tag"),
        (["1a"], ValueError, "field '1a' cannot be a tag"),
        ([""], ValueError, "field '' cannot be a tag"),
        (["a\n"], ValueError, "field 'a\\n' cannot be a tag"),
        (["a>"], ValueError, "field 'a>' cannot be a tag"),
    ],
)
def test_wrong_fields_are_refused(fields: Any, error: type[Exception], message: str) -> None:
    """Construction names the field that cannot be."""
    with pytest.raises(error, match=re.escape(message)):
        XMLParser(fields)


def test_lists_may_stand_for_tuples() -> None:
    """Fields read from a file, where tuples are lists, work the same."""
    assert XMLParser(["a", ["b", "c"]]) == XMLParser(("a", ("b", "c")))
