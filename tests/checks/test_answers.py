"""The answer that the parser reads, against the one that is known."""

from decimal import Decimal
from fractions import Fraction

import pytest

from assay import Parser, Rubric, Score, XMLParser
from assay.checks import ExactMatch, NumericEqual, OneOf
from assay.checks.expected import exact, last_number

XML = XMLParser(["think", "answer"])


def is_met(answer):
    """A failure comes with its reason."""
    if isinstance(answer, Score):
        assert answer.reason
        return answer.value
    return answer


@pytest.mark.parametrize(
    ("check", "text", "answer", "expected"),
    [
        (ExactMatch(), "Paris", "Paris", True),
        (ExactMatch(), " Paris\n", "Paris ", True),
        (ExactMatch(strip=False), " Paris", "Paris", False),
        (ExactMatch(), "paris", "Paris", False),
        (ExactMatch(ignore_case=True), "paris", "PARIS", True),
        (ExactMatch(), "4", 4, True),
        (ExactMatch(), "4.0", 4, False),
        (ExactMatch(), "", "Paris", False),
    ],
)
def test_exact_match_without_a_parser(check, text, answer, expected):
    """The whole text is the answer."""
    assert is_met(check(text, answer)) is expected


def test_exact_match_reads_through_the_parser():
    """Of a rubric, or given by hand; a parser may also hand over a number."""
    text = "<think>5?</think><answer>4</answer>"
    assert Rubric([ExactMatch()], parser=XML).grade_sync(text, answer="4").score == 1.0
    assert ExactMatch()(text, "4", XML) is True
    assert ExactMatch()("4", 4, Parser(int)) is True
    assert ExactMatch()("4", 5, Parser(int)) == Score(False, "it is 4, not 5")


@pytest.mark.parametrize("check", [ExactMatch(), OneOf(["4"]), NumericEqual()])
def test_a_text_in_which_the_parser_finds_nothing_is_a_no(check):
    """With the reason."""
    rubric = Rubric([check], parser=XML)
    [line] = rubric.grade_sync("4", answer="4").report
    assert (line.verdict, line.reason) == ("UNMET", "the parser reads no answer in it")


@pytest.mark.parametrize("answer", [None, "", " \n"])
@pytest.mark.parametrize("check", [ExactMatch(), NumericEqual()])
def test_a_rollout_without_an_answer_is_an_error(check, answer):
    """A missing gold answer would make every completion wrong."""
    with pytest.raises(ValueError, match="no answer to compare with: give it an `answer`"):
        check("4", answer)


@pytest.mark.parametrize(
    ("check", "text", "expected"),
    [
        (OneOf(["A", "B"]), "B", True),
        (OneOf(["A", "B"]), " B ", True),
        (OneOf(["A", "B"]), "b", False),
        (OneOf(["A", "B"], ignore_case=True), "b", True),
        (OneOf(["A", "B"]), "A B", False),
    ],
)
def test_one_of(check, text, expected):
    """The answer is one of the values, and nothing else."""
    assert is_met(check(text)) is expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-12", -12),
        ("+12", 12),
        ("\u221212", -12),
        ("1,000", 1000),
        ("1,234,567.5", Fraction("1234567.5")),
        ("2.50", Fraction(5, 2)),
        (".5", Fraction(1, 2)),
        ("3/4", Fraction(3, 4)),
        ("-3 / 4", Fraction(-3, 4)),
        ("1.5/0.5", 3),
        ("6e23", 6 * 10**23),
        ("1E-3", Fraction(1, 1000)),
        ("5 km", 5),
        ("5kg", 5),
        ("$5.", 5),
        ("50%", 50),
        ("答案是42", 42),
        ("from 3 to 4", 4),
        ("5-3", 3),
        ("a1", None),
        ("v1.2", None),
        ("none", None),
        ("", None),
    ],
)
def test_the_last_number_is_read_exactly(text, value):
    """As a fraction; None when there is none."""
    assert last_number(text) == value


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (4, 4),
        (0.1, Fraction(1, 10)),
        (Decimal("0.10"), Fraction(1, 10)),
        (Fraction(1, 3), Fraction(1, 3)),
        (1e30, 10**30),
        ("  7 ", 7),
        ("1,000", 1000),
    ],
)
def test_a_known_answer_may_be_a_number_or_a_text(value, number):
    """A float counts as the decimal it is written as."""
    assert exact(value) == number


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("four", "'four' is not a number: write it as 12, 1,250.5, 3/4 or 6e23"),
        ("50%", "'50%' is not a number"),
        ("3 or 4", "'3 or 4' is not a number"),
        (True, "True is not a number"),
        ([4], r"\[4\] is not a number"),
        (float("nan"), "'nan' is not a number"),
        (float("inf"), "'inf' is not a number"),
        ("1/0", "'1/0' divides by zero"),
        ("1e999999999", "1e999999999… is too large to compare exactly"),
    ],
)
def test_a_known_answer_that_is_no_number_is_an_error(answer, said):
    """The completion cannot be blamed for it."""
    with pytest.raises(ValueError, match=said):
        NumericEqual()("4", answer)


@pytest.mark.parametrize(
    ("check", "text", "answer", "expected"),
    [
        (NumericEqual(), "The sum is 1,000.50.", "1000.5", True),
        (NumericEqual(), "0.1", 0.1, True),
        (NumericEqual(), "0.30000000000000004", 0.3, False),
        (NumericEqual(), "2/4", "0.5", True),
        (NumericEqual(), "1/3", "0.333333", False),
        (NumericEqual(tolerance=0.1), "1.1", "1", True),
        (NumericEqual(tolerance=0.1), "1.11", "1", False),
        (NumericEqual(relative=0.01), "101", "100", True),
        (NumericEqual(relative=0.01), "102", "100", False),
        (NumericEqual(relative=0.01), "-101", "-100", True),
        (NumericEqual(tolerance=5, relative=0.01), "104", "100", True),
        (NumericEqual(), "9007199254740993", "9007199254740992", False),
    ],
)
def test_numbers_are_compared_exactly(check, text, answer, expected):
    """Within what is allowed, ends included."""
    assert is_met(check(text, answer)) is expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("none at all", "it holds no number"),
        ("1/0", "its number cannot be read: '1/0' divides by zero"),
        ("1e999999999", "its number cannot be read: the number 1e999999999… is too large"),
        ("9" * 5000, "its number cannot be read: the number 99999999999999999999… is too large"),
    ],
)
def test_a_completion_without_a_number_is_a_no(text, reason):
    """However it tries."""
    result = NumericEqual()(text, "4")
    assert isinstance(result, Score)
    assert result.value is False
    assert reason in result.reason
