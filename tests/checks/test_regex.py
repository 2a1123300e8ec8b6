"""Regular expressions, which cannot hang."""

import pytest

from assay import Rollout, Rubric, RubricError, Score
from assay.checks import Regex

LONG = 100_000


def is_met(answer):
    """A failure comes with its reason."""
    if isinstance(answer, Score):
        assert answer.reason
        return answer.value
    return answer


@pytest.mark.parametrize(
    ("check", "text", "expected"),
    [
        (Regex(r"\d{4}"), "in 2024", True),
        (Regex(r"\A\d{4}\Z"), "in 2024", False),
        (Regex("paris"), "Paris", False),
        (Regex("paris", ignore_case=True), "Paris", True),
        (Regex("^b$"), "a\nb", False),
        (Regex("^b$", multiline=True), "a\nb", True),
        (Regex("a.b"), "a\nb", False),
        (Regex("a.b", dot_all=True), "a\nb", True),
        (Regex("(?im)^B$"), "a\nb", True),
        (Regex(r"(\w)\1"), "abba", True),
        (Regex("a"), "\ud800a", True),
        (Regex("a"), "", False),
    ],
)
def test_yes_and_no(check, text, expected):
    """A match anywhere will do; flags may stand in the pattern too."""
    assert is_met(check(text)) is expected


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"(a+)+$", "a" * LONG + "b"),
        (r"(a|aa)+$", "a" * LONG + "b"),
        (r"(x+x+)+y", "x" * LONG),
        (r"^(([a-z])+.)+[A-Z]([a-z])+$", "a" * LONG),
        (r"(.*)*x$", "x" + "a" * LONG + "xb"),
        (r".*.*.*=.*!", "=" + "a" * LONG),
        (r"(.+)\1+z$", "ab" * LONG + "zc"),
        (r"(.*)\1(.*)\2c$", "ab" * LONG + "cd"),
        (r"(?=(a+))(?:\1)*b$", "a" * LONG + "bc"),
        (r"((((a{1,1000}){1,1000}){1,1000}){1,1000}){1,1000}b$", "a" * LONG + "bc"),
        (r"(?b)(?:abcdefghij){e<=9}$", "abcdefghi" * LONG + "!"),
        (r"(.*?,){30}P", "1," * LONG),
        (r"\s+$", " " * LONG + "x"),
        (r"(a+)+$", "\ud800" + "a" * LONG + "\ud800"),
    ],
)
def test_a_search_that_takes_too_long_is_an_error(pattern, text):
    """It is stopped, whatever the pattern and the text; and it is never a no."""
    with pytest.raises(TimeoutError, match=r"still searching [\d,]+ characters after 0.05 s"):
        Regex(pattern, timeout_seconds=0.05)(text)


async def test_a_search_that_takes_too_long_is_an_error_line():
    """The rollout is left unscored."""
    rubric = Rubric([Regex("(a+)+$", timeout_seconds=0.05)])
    [report] = await rubric.score([Rollout(completion="a" * LONG + "b")])
    assert report.errors["regex"].startswith("TimeoutError: the pattern '(a+)+$'")
    assert not report.scored


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(", "the pattern '(' is not a regular expression: missing ) at position 1"),
        ("a{2,1}", "min repeat greater than max repeat at position 2"),
        ("[z-a]", "bad character range at position 4"),
        ("*a", "nothing to repeat at position 0"),
        ("(?P=nobody)", "unknown group at position"),
    ],
)
def test_a_bad_pattern_is_refused_at_construction(pattern, said):
    """With the pattern and the position."""
    with pytest.raises(RubricError) as caught:
        Regex(pattern)
    assert said in str(caught.value)
    assert repr(pattern) in str(caught.value)
