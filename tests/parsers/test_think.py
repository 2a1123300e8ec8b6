"""What follows a thought."""

from typing import Any

import pytest

from assay.parsers import MaybeThinkParser, ThinkParser, extract_boxed_answer


def said(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def refuse(text: str) -> str:
    raise AssertionError(f"called with {text!r}")


@pytest.mark.table("think_answer")
def test_the_answer_follows_the_thought(text: str, expected: list[str]) -> None:
    """The strict parser wants a finished thought, the other takes a text with none at all."""
    strict, lenient = expected
    assert ThinkParser().parse(text) == strict
    assert MaybeThinkParser().parse(text) == lenient
    assert ThinkParser().parse_answer([said(text)]) == strict
    assert MaybeThinkParser().parse_answer([said(text)]) == lenient


def test_an_unfinished_thought_is_not_extracted_from() -> None:
    """A boxed guess in a thought that was cut off earns nothing (#213), nor is it looked at."""
    text = r"<think>perhaps \boxed{4}"
    assert ThinkParser(refuse).parse(text) == ""
    assert MaybeThinkParser(refuse).parse(text) == ""


def test_an_unfinished_thought_may_be_accepted() -> None:
    """On request a thought that was cut off is read like any text."""
    parser = MaybeThinkParser(extract_boxed_answer, accept_unfinished=True)
    assert parser.parse(r"<think>perhaps \boxed{4}") == "4"
    assert parser.parse(r"<think>a</think>\boxed{4} <think>or") == "4"


def test_extract_fn_is_applied_after_the_thought() -> None:
    """A box inside the thought is not the answer."""
    text = r"<think>\boxed{3}</think> \boxed{4}"
    assert ThinkParser(extract_boxed_answer).parse(text) == "4"
    assert MaybeThinkParser(extract_boxed_answer).parse_answer([said(text)]) == "4"


def test_no_message_is_no_answer() -> None:
    """Nothing said is None."""
    assert ThinkParser().parse_answer([]) is None
    assert MaybeThinkParser().parse_answer([]) is None


@pytest.mark.table("think_format")
def test_think_format(text: str, expected: float) -> None:
    """One thought from the start and something after it is all or nothing."""
    reward = ThinkParser().get_format_reward_func()
    assert reward(text) == expected
    assert reward(completion=[said(text)], answer="4") == expected


def test_think_format_is_the_mean_over_messages() -> None:
    """Half of the replies keep the format; no reply keeps none, and divides nothing by zero."""
    reward = ThinkParser().get_format_reward_func()
    assert reward([said("<think>a</think>4"), said("4")]) == 0.5
    assert reward([]) == 0.0
    assert reward([said(None)]) == 0.0


def test_maybe_think_asks_for_no_format() -> None:
    """Thinking is optional there, so every text keeps the format."""
    assert MaybeThinkParser().get_format_reward_func()("4") == 1.0
