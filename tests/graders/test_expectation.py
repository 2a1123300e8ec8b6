"""Expectation weights answers by log-probabilities."""

import math
from typing import Any

import pytest

from assay import (
    Criterion,
    Expectation,
    PerCriterionGrader,
    PerCriterionOneShotGrader,
    Reply,
    Request,
    Rubric,
)
from assay.graders import ChoiceOutput, OneShotOutput, PerCriterionOutput
from assay.graders.expectation import compute_probabilities
from assay.models import Token

SCALE = Criterion(requirement="Is clear", choices=("poor", "fair", "good"))


def token(text: str, *others: tuple[str, float], chance: float = 1.0) -> Token:
    odds = {text: chance, **dict(others)}
    return Token(text, math.log(chance), {t: math.log(p) for t, p in odds.items()})


class Speaks:
    """A model that always writes the same tokens."""

    id = "speaks"

    def __init__(self, schema: Any, *tokens: Token) -> None:
        self.schema = schema
        self.tokens = tokens
        self.asked: list[Request] = []

    async def __call__(self, request: Request) -> Reply:
        self.asked.append(request)
        text = "".join(token.text for token in self.tokens)
        value = self.schema.model_validate_json(text)
        logprobs = None if request.logprobs is None else self.tokens
        return Reply(text, value=value, logprobs=logprobs)


def binary(*verdict: Token) -> Speaks:
    start = token('{"explanation": "so", "criterion_status": "')
    return Speaks(PerCriterionOutput, start, *verdict, token('"}'))


async def graded(model: Any, rubric: Rubric) -> Any:
    report = await rubric.grade("x", judge=Expectation(PerCriterionGrader(model=model)))
    return report.report[0]


@pytest.mark.parametrize(
    ("verdict", "value"),
    [
        ([token("MET", ("UN", 0.1), chance=0.9)], 0.9),
        ([token("UN", ("MET", 0.3), chance=0.7), token("MET")], 0.3),
        ([token("MET", ("UNMET", 0.2), ("Maybe", 0.2), chance=0.6)], 0.75),
        ([token("MET")], 1.0),
        ([token("M", ("UN", 0.25), chance=0.75), token("ET")], 0.75),
    ],
    ids=["one token", "two tokens", "something else", "certain", "in parts"],
)
async def test_the_value_is_the_expectation(make_rubric: Any, verdict: Any, value: float) -> None:
    """Only offered choices count: 0.6 against 0.2 is 0.75. Two draws differ with 2 · p · (1 - p)."""
    line = await graded(binary(*verdict), make_rubric(1))
    assert line.value == pytest.approx(value)
    assert line.disagreement == pytest.approx(2 * value * (1 - value))
    assert line.verdict == ("MET" if verdict[0].text.startswith("M") else "UNMET")


async def test_a_verdict_that_shares_its_token_with_the_quotes(make_rubric: Any) -> None:
    """Only the part after the quote counts; alternatives that differ before it are dropped."""
    start = token('{"explanation": "so", "criterion_status":')
    verdict = token(' "MET', (' "UN', 0.2), (" null", 0.1), chance=0.7)
    line = await graded(Speaks(PerCriterionOutput, start, verdict, token('"}')), make_rubric(1))
    assert line.value == pytest.approx(7 / 9)


async def test_a_scale_has_its_mean() -> None:
    """0.5 + 0.3 / 2 = 0.65; the disagreement is 2 (0.15 / 2 + 0.1 + 0.06 / 2) = 0.41."""
    start = token('{"explanation": "so", "choice": "')
    verdict = token("good", ("fair", 0.3), ("poor", 0.2), chance=0.5)
    line = await graded(Speaks(ChoiceOutput, start, verdict, token('"}')), Rubric([SCALE]))
    assert (line.value, line.verdict) == (pytest.approx(0.65), "good")
    assert line.disagreement == pytest.approx(0.41)


async def test_a_quotation_before_the_verdict_is_ignored(make_rubric: Any) -> None:
    """The last verdict counts; an escaped quotation in the reason is not a verdict."""
    start = token('{"explanation": "it says \\"criterion_status\\": \\"')
    quoted = token("MET", ("UN", 0.5), chance=0.5)
    model = Speaks(
        PerCriterionOutput,
        start,
        quoted,
        token('\\"", "criterion_status": "'),
        token("UN", ("MET", 0.1), chance=0.9),
        token('MET"}'),
    )
    assert (await graded(model, make_rubric(1))).value == pytest.approx(0.1)


async def test_many_criteria_in_one_reply(make_rubric: Any) -> None:
    """Each verdict has its own probabilities, in the order of the reply."""
    entry = '{{"criterion_number": {}, "explanation": "so", "criterion_status": "'
    model = Speaks(
        OneShotOutput,
        token('{"criteria_evaluations": [' + entry.format(2)),
        token("MET", ("UN", 0.2), chance=0.8),
        token('"}, ' + entry.format(1)),
        token("UN", ("MET", 0.4), chance=0.6),
        token("MET"),
        token('"}]}'),
    )
    grader = Expectation(PerCriterionOneShotGrader(model=model))
    report = await make_rubric(1, 1).grade("x", judge=grader)
    assert [line.value for line in report.report] == [pytest.approx(0.4), pytest.approx(0.8)]


async def test_a_veto_passes_by_its_verdict(caplog: Any) -> None:
    """MET with a probability of 0.9 passes a required criterion, and its value is 0.9."""
    rubric = Rubric([Criterion(requirement="Is safe", required=True)])
    model = binary(token("MET", ("UN", 0.1), chance=0.9))
    report = await rubric.grade("x", judge=Expectation(PerCriterionGrader(model=model)))
    assert (report.score, report.vetoed_by) == (pytest.approx(0.9), ())
    assert "no log-probabilities" not in caplog.text


async def test_without_log_probabilities_a_verdict_counts_as_it_is(
    make_rubric: Any, caplog: Any
) -> None:
    """The verdict keeps its value, without a disagreement, and one warning is logged."""
    grader = Expectation(PerCriterionGrader(lambda system_prompt, user_prompt: {"choice": "MET"}))
    for _ in range(2):
        report = await make_rubric(1).grade("x", judge=grader)
        assert (report.score, report.disagreements) == (1.0, {})
    assert caplog.text.count("gave no log-probabilities") == 1


async def test_a_degenerate_text_logs_no_warning(make_rubric: Any, caplog: Any) -> None:
    """A degenerate text is scored without a call, so no warning is logged."""
    grader = Expectation(PerCriterionGrader(model=binary(token("MET"))))
    assert (await make_rubric(1).grade("...", judge=grader)).score == 0.0
    assert caplog.text == ""


async def test_tokens_without_alternatives_are_ignored(make_rubric: Any) -> None:
    """An endpoint may list only the written token."""
    line = await graded(binary(Token("MET", -0.2)), make_rubric(1))
    assert (line.value, line.disagreement) == (1.0, None)


async def test_alternatives_are_asked_for(make_rubric: Any) -> None:
    """20 alternatives are requested by default."""
    model = binary(token("MET"))
    await graded(model, make_rubric(1))
    few = Expectation(PerCriterionGrader(model=model), alternatives=5)
    await make_rubric(1).grade("x", judge=few)
    assert [request.logprobs for request in model.asked] == [20, 5]


@pytest.mark.parametrize(
    ("verdict", "odds"),
    [
        (token("MET", ("Yes", 0.5), ("No", 0.2), chance=0.01), None),
        (token("MET", ("Yes", 0.009), chance=0.99), {"UNMET": 0.0, "MET": 1.0}),
        (token("MET", ("Yes", 0.6), ("UN", 0.1), chance=0.3), {"UNMET": 0.25, "MET": 0.75}),
        (token("MET", ("Yes", 0.06), chance=0.9), {"UNMET": 0.0, "MET": 1.0}),
        (token("MET", ("Yes", 0.06), chance=0.7), None),
    ],
    ids=[
        "it would rather have said Yes",
        "nothing else to speak of",
        "both are listed",
        "up to 0.04 of 0.94",
        "up to 0.06 of 0.76",
    ],
)
def test_probabilities_are_none_if_too_little_is_known(verdict: Token, odds: Any) -> None:
    """If UNMET is not listed, the most that it can have decides whether the rest is trusted."""
    probabilities = compute_probabilities(("UNMET", "MET"), "MET", [verdict])
    assert probabilities == (None if odds is None else pytest.approx(odds))


def test_choices_with_a_common_start() -> None:
    """`good` and `good enough` differ after the first word, `bad` differs before it."""
    choices = ("bad", "good", "good enough")
    tokens = [token("good", ("bad", 0.2), chance=0.8), token('"', (" enough", 0.25), chance=0.75)]
    odds = compute_probabilities(choices, "good", tokens)
    assert odds == {
        "bad": pytest.approx(0.2),
        "good": pytest.approx(0.6),
        "good enough": pytest.approx(0.2),
    }


def test_at_least_one_alternative() -> None:
    """Without alternatives there are no probabilities."""
    with pytest.raises(ValueError, match="alternatives is 0"):
        Expectation(PerCriterionGrader(), alternatives=0)
