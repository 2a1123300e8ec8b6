"""How alike two texts are."""

import pytest

from assay import Rubric
from assay.checks import Similarity


@pytest.mark.parametrize(
    ("check", "text", "answer", "expected"),
    [
        (Similarity(to="abcd"), "abcd", None, 1.0),
        (Similarity(to="abcd"), "abxx", None, 0.5),
        (Similarity(to="abcd"), "", None, 0.0),
        (Similarity(), "abcd", "abcd", 1.0),
        (Similarity(to="ABCD"), "abcd", None, 0.0),
        (Similarity(to="ABCD", ignore_case=True), "abcd", None, 1.0),
        (Similarity(to="the cat sat", method="token_sort_ratio"), "sat the cat", None, 1.0),
        (Similarity(to="the cat", method="token_set_ratio"), "the cat the cat", None, 1.0),
        (Similarity(to="人工智能"), "人工智慧", None, 0.75),
        (Similarity(), "\ud800b", "\ud800a", 0.5),
        (Similarity(), "12", 12, 1.0),
    ],
)
def test_likeness_is_between_zero_and_one(check, text, answer, expected):
    """Two of four letters in the same place: 0.5."""
    assert check(text, answer) == pytest.approx(expected)


def test_without_a_text_to_compare_with_it_is_an_error():
    """Nothing is like nothing."""
    with pytest.raises(ValueError, match="no answer to compare with"):
        Similarity()("text")
    assert Rubric([Similarity()]).grade_sync("text", answer="text").score == 1.0


def test_texts_too_long_to_compare_are_an_error():
    """Comparing ten megabytes with ten would take hours."""
    with pytest.raises(ValueError, match="10,000,000 and 10,000,000 characters are too many"):
        Similarity(to="a" * 10_000_000)("b" * 10_000_000)
