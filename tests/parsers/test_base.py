"""The plain parser: which text is read, and what its pieces promise."""

import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from assay import Rubric, extract_boxed_answer, extract_hash_answer
from assay.parsers import FormatReward, MaybeThinkParser, Parser, ThinkParser, XMLParser


def said(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


CHAT = [
    {"role": "system", "content": "s"},
    {"role": "user", "content": "u"},
    said("a"),
    {"role": "tool", "content": "t"},
    said("b"),
    {"role": "user", "content": "v"},
]


def test_a_text_is_read_whole() -> None:
    """The plain parser gives a text back as it is."""
    assert Parser().parse(" 4 ") == " 4 "
    assert Parser().parse_answer(" 4 ") == " 4 "


def test_extract_fn_is_applied() -> None:
    """`extract_fn` has the last word in both doors."""
    parser = Parser(extract_hash_answer)
    assert parser.parse("#### 4") == "4"
    assert parser.parse_answer([said("#### 4")]) == "4"


def test_the_last_assistant_message_is_the_answer() -> None:
    """Messages of other roles after it do not matter."""
    assert Parser().parse_answer(CHAT) == "b"


def test_no_assistant_message_is_no_answer() -> None:
    """Nothing said is None, not an empty text."""
    assert Parser().parse_answer([]) is None
    assert Parser().parse_answer(None) is None
    assert Parser().parse_answer([{"role": "user", "content": "4"}]) is None


def test_content_of_parts_is_joined() -> None:
    """Parts become their text, never the text of a Python list."""
    parts = [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}]
    assert Parser().parse_answer([said(parts)]) == "a b"


def test_content_of_none_is_empty() -> None:
    """A message that only calls tools says nothing, not "None"."""
    assert Parser().parse_answer([said(None)]) == ""
    assert Parser().parse_answer([{"role": "assistant"}]) == ""


def test_messages_may_be_objects() -> None:
    """The messages of an SDK are read by attribute."""
    assert Parser().parse_answer([SimpleNamespace(role="assistant", content="4")]) == "4"


def test_messages_by_role() -> None:
    """Each role's messages come in order; a plain text has none."""
    parser = Parser()
    assert parser.get_assistant_messages(CHAT) == [said("a"), said("b")]
    assert parser.get_user_messages(CHAT) == [CHAT[1], CHAT[5]]
    assert parser.get_system_messages(CHAT) == [CHAT[0]]
    assert parser.get_tool_messages(CHAT) == [CHAT[3]]
    assert parser.get_assistant_messages("a") == []


def test_no_format_is_always_kept() -> None:
    """The plain parser's format reward is 1, whatever was said."""
    reward = Parser().get_format_reward_func()
    assert reward(completion="x", prompt="p", answer="4", state={}) == 1.0
    assert reward([]) == reward([said(None)]) == 1.0


def test_the_format_reward_has_the_familiar_name() -> None:
    """Metrics list it as `format_reward_func`, and its class keeps its own name."""
    assert Parser().get_format_reward_func().__name__ == "format_reward_func"
    assert FormatReward.__qualname__ == "FormatReward"


def test_the_format_reward_may_have_another_name() -> None:
    """A program names it as it names a function of its own, and the metric is called so; others keep theirs."""
    reward = Parser().get_format_reward_func()
    reward.__name__ = "tidy"
    assert Rubric([reward]).score_rollout_sync(prompt="p", completion="x")["tidy"] == 1.0
    assert Parser().get_format_reward_func().__name__ == "format_reward_func"


ALIKE = [
    Parser,
    lambda: Parser(extract_hash_answer),
    lambda: XMLParser(["think", ("tool", "answer")], extract_fn=extract_boxed_answer),
    lambda: XMLParser(["code"], answer_field="code"),
    ThinkParser,
    lambda: ThinkParser(extract_boxed_answer),
    MaybeThinkParser,
    lambda: MaybeThinkParser(accept_unfinished=True),
]


@pytest.mark.parametrize("make", ALIKE)
def test_parsers_are_values(make: Any) -> None:
    """A parser equals another made alike, also after pickling, and so does its format reward."""
    parser = make()
    assert parser == make()
    assert hash(parser) == hash(make())
    assert pickle.loads(pickle.dumps(parser)) == parser
    reward = parser.get_format_reward_func()
    assert pickle.loads(pickle.dumps(reward)) == reward == make().get_format_reward_func()
    assert hash(reward) == hash(make().get_format_reward_func())
    assert [other() == parser for other in ALIKE].count(True) == 1


def test_a_parser_shows_its_settings() -> None:
    """By name, functions by theirs."""
    assert repr(Parser()) == "Parser(extract_fn=identity)"
    assert (
        repr(MaybeThinkParser()) == "MaybeThinkParser(extract_fn=identity, accept_unfinished=False)"
    )
    parser = XMLParser(["a", ("b", "c")], answer_field="b", extract_fn=str.strip)
    assert (
        repr(parser) == "XMLParser(extract_fn=strip, fields=(('a',), ('b', 'c')), answer_field='b')"
    )


def test_extract_fn_must_be_callable() -> None:
    """What cannot be called is refused at construction, by value."""
    wrong: Any = "boxed"
    with pytest.raises(TypeError, match="extract_fn is 'boxed'"):
        Parser(wrong)


def test_a_subclass_may_keep_its_own_settings() -> None:
    """A user's parser adds attributes, and they count for equality."""

    class Shouting(Parser):
        def __init__(self, marks: list[str]) -> None:
            super().__init__()
            self.marks = marks

    assert Shouting(["!"]) == Shouting(["!"]) != Shouting(["?"])
    assert hash(Shouting(["!"])) == hash(Shouting(["?"]))
