"""Score a rubric's golden examples, and compare the answers with the expected ones."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from assay.criterion import Criterion
from assay.errors import TrustError
from assay.graders.grader import Grader, JudgeSource, grader_of
from assay.loading.rubric_reader import Expected, Golden
from assay.models import budget
from assay.report import CriterionReport, EvaluationReport
from assay.rubric import Rubric, rubrics_inside
from assay.runs.spending import NOTHING, Spending

_ROUNDING: Final = 1e-9  # by which two numbers may differ
SCORE: Final = "score"  # what a result about the score of an example is called


@dataclass(frozen=True)
class GoldenResult:
    """One expected answer, and the answer that was given."""

    example: str
    criterion: str
    expected: Expected
    got: Expected | None  # the verdict, or the number if one is expected; None without an answer
    reason: str = ""
    error: str | None = None  # why there is no answer
    # What the score of the example has to be, if this is about its score: see `Golden.score`.
    bounds: Mapping[str, float] | None = None

    @property
    def right(self) -> bool | None:
        """Whether the answer is the expected one; None without an answer."""
        if self.error is not None or self.got is None:
            return None
        if self.bounds is not None:
            return _is_within(float(self.got), self.bounds)
        if isinstance(self.expected, str) or isinstance(self.got, str):
            return self.expected == self.got
        return abs(self.expected - self.got) <= _ROUNDING


@dataclass(frozen=True)
class GoldenReport:
    """How a rubric answers its golden examples."""

    results: tuple[GoldenResult, ...]
    spent: Spending = field(default=NOTHING)

    @property
    def wrong(self) -> tuple[GoldenResult, ...]:
        """The results that differ from what was expected."""
        return tuple(result for result in self.results if result.right is False)

    @property
    def errors(self) -> tuple[GoldenResult, ...]:
        """The results without an answer."""
        return tuple(result for result in self.results if result.right is None)

    @property
    def examples(self) -> int:
        """The number of examples."""
        return len({result.example for result in self.results})

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return {
            "expected": len(self.results),
            "wrong": len(self.wrong),
            "errors": len(self.errors),
            "results": [{**asdict(result), "right": result.right} for result in self.results],
            "spent": self.spent.to_dict(),
        }


async def run_golden(rubric: Rubric, judge: JudgeSource | None = None) -> GoldenReport:
    """Score a rubric's golden examples, and those of the rubrics inside it.

    `judge` answers the judged criteria: a grader, a model, or the name of one; by default it is that
    of the rubric. Raise `TrustError` if there are no golden examples.

    >>> import asyncio
    >>> rubric = Rubric.from_dict({
    ...     "criteria": [{"check": {"max_words": 3}}],
    ...     "golden": [{"completion": "one two", "expect": {"max_words": "UNMET"}}],
    ... })
    >>> asyncio.run(run_golden(rubric)).wrong
    (GoldenResult(example='golden_1', criterion='max_words', expected='UNMET', got='MET', reason='', error=None, bounds=None),)
    """
    grader = grader_of(judge)
    results: list[GoldenResult] = []
    with budget() as ledger:
        for prefix, inner, _ in rubrics_inside(rubric):
            if inner.golden:
                inner_grader = grader or inner.grader or rubric.grader
                results += await _score_examples(prefix, inner, inner_grader)
    if not results:
        raise TrustError(
            "the rubric has no golden examples: list some under 'golden', each with a completion "
            "and what to expect"
        )
    return GoldenReport(tuple(results), Spending.of(ledger))


async def _score_examples(prefix: str, rubric: Rubric, grader: Grader | None) -> list[GoldenResult]:
    """Score the golden examples of one rubric, and compare each answer with the expected one.

    `prefix` is put before the names in the results. It tells the rubrics inside a rubric apart.
    """
    rollouts = [example.row for example in rubric.golden]
    reports = await rubric.score(rollouts, judge=grader)
    criteria = {criterion.name: criterion for criterion in rubric.criteria}
    results: list[GoldenResult] = []
    for example, report in zip(rubric.golden, reports, strict=True):
        lines = {line.name: line for line in report.lines}
        for name, expected in example.expect.items():
            line = lines.get(name)
            result = GoldenResult(
                example=f"{prefix}{example.name}",
                criterion=f"{prefix}{name}",
                expected=expected,
                got=_read_answer(criteria[name], line, expected),
                reason="" if line is None else line.reason,
                error=_find_error(line),
            )
            results.append(result)
        if example.score:
            results.append(_compare_score(prefix, example, report))
    return results


def _compare_score(prefix: str, example: Golden, report: EvaluationReport) -> GoldenResult:
    """Return whether the score of an example is within the bounds that the example gives for it."""
    error = None
    if report.score is None:
        error = "; ".join(report.why_unscored.values()) or "no criterion can add points"
    return GoldenResult(
        example=f"{prefix}{example.name}",
        criterion=f"{prefix}{SCORE}",
        expected=_describe_bounds(example.score),
        got=report.score,
        error=error,
        bounds=example.score,
    )


def _describe_bounds(bounds: Mapping[str, float]) -> str:
    """Return bounds in words, such as "at least 0.8"."""
    if bounds.get("at_least") == bounds.get("at_most"):
        return f"{bounds['at_least']:g}"
    return " and ".join(f"{name.replace('_', ' ')} {bound:g}" for name, bound in bounds.items())


def _is_within(score: float, bounds: Mapping[str, float]) -> bool:
    """Return True if a score is within the bounds, which may be missing."""
    at_least = bounds.get("at_least", score)
    at_most = bounds.get("at_most", score)
    return at_least - _ROUNDING <= score <= at_most + _ROUNDING


def _find_error(line: CriterionReport | None) -> str | None:
    """Return why a criterion has no answer; None if it has one."""
    if line is None:
        return "the judge gave one number for the whole rubric: use a grader that answers each criterion"
    if not line.answered:
        return line.error or "the judge was not asked"
    return None


def _read_answer(
    criterion: Criterion, line: CriterionReport | None, expected: Expected
) -> Expected | None:
    """Return the answer on a line in the form of the expected one: a verdict or a number.

    None if there is no answer.
    """
    if line is None or not line.answered:
        return None
    if line.value is None:
        return line.verdict
    if not isinstance(expected, str):
        return line.value
    if line.verdict is not None:
        return line.verdict
    # A check that gives a number is MET from `pass_at` on.
    passed = line.value >= criterion.pass_at
    return criterion.choices[-1] if passed else criterion.choices[0]
