"""The verdict in a judge's own words: read where it is offered, or not at all."""

import pytest

from assay import JudgeError
from assay.presets.ratings import Points, find_points, read_rating

TEN = Points(0, 10)


@pytest.mark.parametrize(
    ("words", "points"),
    [
        ("Score from 0-10:", (0, 10)),
        ("Score from 0–10:", (0, 10)),
        ("Rate it on a scale from 1 to 5.", (1, 5)),
        ("Give a number between 0 and 100.", (0, 100)),
        ("Give a score of 0 to 1.", (0, 1)),
        ("Grade it out of 20.", (0, 20)),
        ("Reply with your score as N/10", (0, 10)),
        ("Score 0-10, where 0-3 is a poor score and 8-10 a good one.", (0, 10)),
        ("Score: 0-10\nScores of 0-3 are poor.", (0, 10)),
        ("Is it right? Answer yes or no.", None),
        ("It should name the years 1914-1918.", None),
        ("Score 1-5 for style and 6-10 for facts.", None),
        ("Score the answer. It was written on 2024-01-02.", None),
        ("Score the 2 answers and pick 1 of 2.", None),
        ("Scores from 10-0", None),
    ],
)
def test_the_scale_stands_in_the_words_to_the_judge(words: str, points: object) -> None:
    """Near a word for scoring; of several, the one that holds the others."""
    assert find_points(words) == points


@pytest.mark.parametrize(
    ("reply", "worth"),
    [
        ("8", 0.8),
        ("8.", 0.8),
        ("**8**", 0.8),
        ("7.5", 0.75),
        ("0", 0.0),
        ("10", 1.0),
        ("8/10", 0.8),
        ("8 / 10", 0.8),
        ("8 out of 10", 0.8),
        ("80%", 0.8),
        ("80 percent", 0.8),
        ("4/5", 0.8),
        ("Score: 8", 0.8),
        ("Score: **8**/10", 0.8),
        ("**Score:** 8", 0.8),
        ("Score (0-10): 8", 0.8),
        ("Score from 0-10: 8", 0.8),
        ("Score from 0 to 10: 8", 0.8),
        ("Score: 8 (out of 10)", 0.8),
        ("I'd rate this a 8/10.", 0.8),
        ("On a scale of 0 - 10 I say 8.", 0.8),
        ('{"feedback": "2 errors", "score": 8}', 0.8),
        ("<score>8</score>", 0.8),
        ("I would give it a score of 8 because of the 2 errors.", 0.8),
        ("The final score is an 8.", 0.8),
        ("It makes 3 points well and 1 badly.\n\n8", 0.8),
        ("1. Clear\n2. Short\n\nRating: 8", 0.8),
        ("Score: 8. I looked again.\nScore: 8/10", 0.8),
        ("The right answer is 4.\nScore: 8", 0.8),
        ("Clarity score: 7\nAccuracy score: 9\nOverall score: 8", 0.8),
        ("Score for style: 3\nFinal verdict: 8", 0.8),
        ("Score (best is 100): 100 cannot be\nScore: 8", 0.8),
        ("<think>Score: 2</think>Score: 8", 0.8),
        ("It is good, so 8.", 0.8),
        ("A solid 8. Yes, 8.", 0.8),
    ],
)
def test_a_number_on_a_scale_of_ten(reply: str, worth: float) -> None:
    """All of these mean eight of ten or what they say."""
    assert read_rating(reply, TEN) == pytest.approx(worth)


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "I cannot judge this.",
        "11",
        "-1",
        "Score: -1",
        "12/10",
        "8/0",
        "120%",
        "between 6 and 8",
        "6-8",
        "6 - 8",
        "6 to 8",
        "Score: 6 or 7",
        "Score: 6–7",
        "2024-01-02",
        "7,5",
        "It has 3 errors and 2 gaps.",
        "yes",
        "<think>Score: 8",
        "1e3",
        "v8",
        "8/10/2024",
        "nan",
        "eight",
        "Score: 3. On second thought there is no error.\nScore: 8",
        "8\n3",
        "Final score: 10\nScore: 2",
        "Overall score: 3\nFinal score: 8",
    ],
)
def test_what_is_not_sure_is_no_verdict(reply: str) -> None:
    """An error that holds the reply, and never a zero."""
    with pytest.raises(JudgeError, match="the reply"):
        read_rating(reply, TEN)


@pytest.mark.parametrize(
    ("points", "reply", "worth"),
    [
        ((1, 5), "1", 0.0),
        ((1, 5), "3", 0.5),
        ((1, 5), "3/5", 0.5),
        ((1, 5), "5", 1.0),
        ((0, 100), "85", 0.85),
        ((0, 1), "0.85", 0.85),
        (None, "0.85", 0.85),
        (None, "1", 1.0),
        (None, "8/10", 0.8),
    ],
)
def test_other_scales(points: tuple[int, int] | None, reply: str, worth: float) -> None:
    """From the lowest point to the highest; without one a share, or out of so many."""
    assert read_rating(reply, Points(*points) if points else None) == pytest.approx(worth)


def test_without_a_scale_a_large_number_means_nothing() -> None:
    """The message says how to name one."""
    with pytest.raises(JudgeError, match="pass points="):
        read_rating("8")


@pytest.mark.parametrize(
    ("reply", "worth"),
    [
        ("yes", 1.0),
        ("No", 0.0),
        ("YES.", 1.0),
        ("**No**", 0.0),
        ('"yes"', 1.0),
        ("Yes, it knows the capital.", 1.0),
        ("No: I know that it is Rome.", 0.0),
        ("No - it is Rome.", 0.0),
        ("The two differ.\nNo", 0.0),
        ("Answer: yes", 1.0),
        ("The answer is no.", 0.0),
        ("Verdict: **yes**", 1.0),
        ("Yes, it does.\nVerdict: yes", 1.0),
        ("There is no error and nothing is left out.\n\nyes", 1.0),
        ("<think>no</think>yes", 1.0),
    ],
)
def test_yes_and_no(reply: str, worth: float) -> None:
    """Whole words, where they are offered; `know` and `not` are neither."""
    assert read_rating(reply) == worth


@pytest.mark.parametrize(
    "reply",
    [
        "I know.",
        "Not at all",
        "nothing",
        "Yesterday",
        "yes and no",
        "There is no error.",
        "No. 5",
        "yes\nno",
        "Yes, at first.\nVerdict: no",
    ],
)
def test_what_only_looks_like_yes_or_no(reply: str) -> None:
    """Peers read a no out of each of the first three."""
    with pytest.raises(JudgeError):
        read_rating(reply)


@pytest.mark.parametrize(
    "reply", ["1 2 " * 20_000, "yes no " * 20_000, "score " * 20_000, "(" * 10**5]
)
@pytest.mark.slow
def test_long_replies_are_read_in_one_go(reply: str) -> None:
    """Judges ramble too; tried in all ways this would take hours."""
    with pytest.raises(JudgeError):
        read_rating(reply, TEN)
    with pytest.raises(JudgeError):
        read_rating(reply + "!")
