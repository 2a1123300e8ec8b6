"""A user's words to a judge, filled in one pass."""

import pytest

from assay.presets.judge_rubric import JudgeTemplate


@pytest.mark.parametrize(
    ("text", "values", "filled"),
    [
        ("{a} and {b}", {"a": "1", "b": "2"}, "1 and 2"),
        ("{a}{a}", {"a": "1"}, "11"),
        ("{a}", {"a": "{b}", "b": "2"}, "{b}"),
        ("{a} {b}", {"a": "{b}", "b": "{a}"}, "{b} {a}"),
        ("{a} {other}", {"a": "1"}, "1 {other}"),
        ('{"score": 7} {a}', {"a": "1"}, '{"score": 7} 1'),
        ('{"x": {"y": 1}} {a}', {"a": "1"}, '{"x": {"y": 1}} 1'),
        ('{{"score": 7}} {a}', {"a": "1"}, '{"score": 7} 1'),
        ("{{a}} {a}", {"a": "1"}, "{a} 1"),
        ("\\boxed{} {a}", {"a": "1"}, "\\boxed{} 1"),
        ("a set {1, 2} {a}", {"a": "1"}, "a set {1, 2} 1"),
        ("{ {a}", {"a": "1"}, "{ 1"),
        ("} {a}", {"a": "1"}, "} 1"),
        ("{a:>4} {a!r} {a.b} {a}", {"a": "1"}, "{a:>4} {a!r} {a.b} 1"),
        ("%s {a} $x", {"a": "1"}, "%s 1 $x"),
        ("", {}, ""),
        ("no places", {"a": "1"}, "no places"),
    ],
)
def test_only_places_are_filled(text: str, values: dict[str, str], filled: str) -> None:
    """Once, with what is put in left alone, and all other braces too."""
    assert JudgeTemplate(text).fill(values) == filled


def test_it_names_its_places() -> None:
    """So that one that shows no response can be refused."""
    assert JudgeTemplate("{question} {response} {question}").fields == {"question", "response"}
