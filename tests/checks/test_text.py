"""What the text holds, and how long it is."""

import pytest

from assay import Score
from assay.checks import CodeBlock, Contains, MaxWords, MinWords

CHAT = [
    {"role": "assistant", "content": "Rome"},
    {"role": "user", "content": "Are you sure?"},
    {"role": "assistant", "content": [{"type": "text", "text": "No: Paris."}]},
]


def answered(result):
    """Yes or no, with the reason left out."""
    return bool(result.value) if isinstance(result, Score) else result


@pytest.mark.parametrize(
    ("check", "text", "expected"),
    [
        (Contains("Paris"), "It is Paris.", True),
        (Contains("Paris"), "It is paris.", False),
        (Contains("PARIS", ignore_case=True), "It is paris.", True),
        (Contains("straße", ignore_case=True), "HAUPTSTRASSE", True),
        (Contains(["a", "b"]), "ab", True),
        (Contains(["a", "b"]), "a", False),
        (Contains(["a", "b"], any_of=True), "b", True),
        (Contains(["a", "b"], any_of=True), "c", False),
        (Contains("Paris"), CHAT, True),
        (Contains("Rome"), CHAT, False),
        (Contains("Paris"), None, False),
        (MaxWords(3), "one  two\nthree", True),
        (MaxWords(3), "one two three four", False),
        (MaxWords(0), " \n", True),
        (MinWords(3), "one two three", True),
        (MinWords(3), "one two", False),
        (MinWords(1), "", False),
        (CodeBlock(), "```\n1\n```", True),
        (CodeBlock(), "~~~\n1\n~~~", True),
        (CodeBlock(), "`1`", False),
        (CodeBlock("python"), "```Python\n1\n```", True),
        (CodeBlock("Python"), "```python\n1\n```", True),
        (CodeBlock("python"), "```\n1\n```", False),
        (CodeBlock("python"), "```python\n1\n```\n```sql\n2\n```", True),
    ],
)
def test_yes_and_no(check, text, expected):
    """Of plain texts, and of the last thing a chat says."""
    assert answered(check(text)) is expected


@pytest.mark.parametrize(
    ("check", "text", "reason"),
    [
        (Contains("Paris"), "Rome", "'Paris' does not occur"),
        (Contains(["a", "b", "c"]), "b", "'a', 'c' do not occur"),
        (MaxWords(3), "one two three four", "4 words, 3 allowed"),
        (MinWords(3), "one", "1 word, 3 needed"),
    ],
)
def test_a_no_says_why(check, text, reason):
    """With a reason."""
    assert check(text) == Score(False, reason)
