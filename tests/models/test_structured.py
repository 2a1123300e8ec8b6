"""Reading structured replies: which verdict counts in what a model wrote."""

import pytest

from assay import ChoiceOutput, OffMenu, Unreadable
from assay.graders import OneShotOutput, PerCriterionOutput, RubricAsJudgeOutput
from assay.models import Request
from assay.models.structured import read_structured

MET = '{"explanation": "so", "criterion_status": "MET"}'
UNMET = '{"explanation": "so", "criterion_status": "UNMET"}'
ODD = '{"explanation": "so", "criterion_status": "MAYBE"}'


def verdict_in(text: str) -> str:
    request = Request.of("s", "u", schema=PerCriterionOutput)
    return read_structured(text, request).criterion_status


READABLE = {
    "whole": MET,
    "fenced": f"```json\n{MET}\n```",
    "fenced without a language": f"```\n{MET}\n```",
    "prose around it": f"Here is my verdict: {MET} I hope it helps.",
    "a thought before it": f"<think>Surely {UNMET}</think>{MET}",
    "two thoughts": f"<think>a</think>{UNMET}<think>b</think>{MET}",
    "the end of a thought in the reason": MET.replace("so", "it says </think>"),
    "said twice": f"{MET}\nTo repeat:\n{MET.replace('so', 'as I said')}",
    "what was asked for, before it": f'{{"explanation": "why", "criterion_status": "MET or UNMET"}}\n{MET}',
    "the same field twice": MET.replace("}", ', "criterion_status": "MET"}'),
    "another verdict quoted in the reason": MET.replace(
        "so", "it says {'criterion_status': 'UNMET', 'explanation': ''}"
    ),
    "an empty object after it": f"{MET} and {{}}",
    "another object after it": f'{MET}\n{{"confidence": 0.9}}',
    "lower case": MET.replace("MET", "met"),
    "blanks around the verdict": MET.replace('"MET"', '" MET "'),
    "further fields": MET.replace("}", ', "confidence": 0.9}'),
    "single quotes": "{'explanation': 'it\\'s there', 'criterion_status': 'MET'}",
    "a comma too many": MET.replace("}", ",}"),
    "a line break in the reason": MET.replace("so", "so\nand so"),
    "no closing brace": MET[:-1],
    "names without quotes": '{explanation: "so", criterion_status: "MET"}',
    "verdict first": '{"criterion_status": "MET", "explanation": "so"}',
}


@pytest.mark.parametrize("text", READABLE.values(), ids=READABLE)
def test_the_verdict_is_found(text: str) -> None:
    """Text around the object and small errors in it do not matter."""
    assert verdict_in(text) == "MET"


UNREADABLE = {
    "nothing": "",
    "blanks": " \n ",
    "prose": "The criterion is MET.",
    "an unfinished thought": f"<think>So {MET}",
    "a number": "42",
    "a list": "[1, 2]",
    "no verdict": '{"explanation": "so"}',
    "cut in the reason": '{"explanation": "so it is MET',
    "a later one that cannot be read": f'{MET} No: {{"explanation": "so, "criterion_status"',
    "deep": "[" * 100_000,
    "many braces": '{"explanation": ' * 20_000,
    "two verdicts": f"{UNMET}\nOn second thought:\n{MET}",
    "two verdicts, one of them almost JSON": f"{UNMET.replace(chr(34), chr(39))}\nRather:\n{MET}",
    "two verdicts, both almost JSON": f"{UNMET.replace(chr(34), chr(39))}\n{MET.replace(chr(34), chr(39))}",
    "two verdicts in one object": MET.replace("}", ', "criterion_status": "UNMET"}'),
    "two verdicts in one fenced object": "```"
    + MET.replace("}", ', "criterion_status": "UNMET"}```'),
    "two verdicts in one object, almost JSON": "{'explanation': '', 'criterion_status': 'UNMET', 'criterion_status': 'MET'}",
    "many quotes": "{'explanation': '" + "\\'" * 50_000,
    "many letters": "{explanation: " + "a" * 99_000,
    "many blanks": "{explanation: " + ", " * 40_000 + "," + " " * 9_000,
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_is_an_error(text: str) -> None:
    """No verdict is guessed."""
    with pytest.raises(Unreadable):
        verdict_in(text)


@pytest.mark.parametrize(
    "text", [ODD, f"{MET} or rather {ODD}", f"<think>{MET}</think>{ODD}"], ids=range(3)
)
def test_a_verdict_that_was_not_on_offer_is_an_error(text: str) -> None:
    """An earlier verdict that was offered may be a quotation, so it does not count instead."""
    with pytest.raises(OffMenu, match="'MAYBE'"):
        verdict_in(text)


def test_a_check_can_refuse_what_a_schema_cannot() -> None:
    """Labels that differ between criteria are not in the schema."""
    request = Request(({"role": "user", "content": "u"},), PerCriterionOutput, lambda value: "no!")
    with pytest.raises(OffMenu, match="no!"):
        read_structured(MET, request)


def test_lists_of_verdicts_are_read_too() -> None:
    """Verdicts in lower case are accepted inside them too."""
    text = '{"criteria_evaluations": [{"criterion_number": 1, "explanation": "", "criterion_status": "unmet"}]}'
    value = read_structured(f"So: {text}", Request.of("s", "u", schema=OneShotOutput))
    assert value.criteria_evaluations[0].criterion_status == "UNMET"


@pytest.mark.parametrize("said", ["85", '"85"', "85.0"])
def test_numbers_are_read(said: str) -> None:
    """A number in quotes is a number."""
    text = f'{{"explanation": "so", "overall_score": {said}}}'
    assert (
        read_structured(text, Request.of("s", "u", schema=RubricAsJudgeOutput)).overall_score == 85
    )


@pytest.mark.parametrize("said", ["8", "85", "8.", "8.5", "-", "85\n", "8 "])
@pytest.mark.parametrize("quote", ['"', "'"])
def test_a_number_where_a_reply_was_cut_is_none(said: str, quote: str) -> None:
    """Digits may be missing."""
    text = '{"explanation": "so", "overall_score": '.replace('"', quote) + said
    with pytest.raises(Unreadable):
        read_structured(text, Request.of("s", "u", schema=RubricAsJudgeOutput))


def test_two_different_numbers_are_none() -> None:
    """One may be a draft or a quotation, and nothing tells which."""
    first, second = (f'{{"explanation": "so", "overall_score": {n}}}' for n in (20, 90))
    request = Request.of("s", "u", schema=RubricAsJudgeOutput)
    with pytest.raises(Unreadable, match=r"two different verdicts.*20.*90"):
        read_structured(f"{first}\n{second}", request)
    assert read_structured(f"{second}\n{second}", request).overall_score == 90


def test_labels_that_differ_are_two_verdicts_only_when_both_were_on_offer() -> None:
    """A label that the check refuses is not a verdict."""
    request = Request(
        ({"role": "user", "content": "u"},),
        ChoiceOutput,
        lambda value: None if value.choice in ("good", "bad") else "not on offer",
    )
    said = '{{"explanation": "so", "choice": "{}"}}'.format
    assert read_structured(said("good or bad") + said("good"), request).choice == "good"
    with pytest.raises(Unreadable, match="two different verdicts"):
        read_structured(said("bad") + said("good"), request)


@pytest.mark.parametrize("said", ["NaN", "Infinity", '"nan"'])
def test_nan_and_infinity_are_not_scores(said: str) -> None:
    """NaN could be clamped to a full score."""
    text = f'{{"explanation": "so", "overall_score": {said}}}'
    with pytest.raises(Unreadable):
        read_structured(text, Request.of("s", "u", schema=RubricAsJudgeOutput))


def test_without_a_schema_there_is_nothing_to_read() -> None:
    """The value is None."""
    assert read_structured("anything", Request.of("s", "u")) is None
