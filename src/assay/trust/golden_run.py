"""Score a rubric's golden examples, and compare what it says of them with what it should say."""

from dataclasses import asdict, dataclass, field
from typing import Any

from assay.criterion import Criterion
from assay.errors import TrustError
from assay.graders.grader import Grader
from assay.loading.rubric_reader import Expected, Golden
from assay.models import budget
from assay.report import CriterionReport
from assay.rubric import Rubric, rubrics_inside
from assay.runs.spending import NOTHING, Spending


@dataclass(frozen=True)
class GoldenResult:
    """One expectation, and what came of it."""

    example: str
    criterion: str
    expected: Expected
    got: Expected | None  # the verdict, or the number where one is expected; None without an answer
    reason: str = ""
    error: str | None = None  # why there is no answer

    @property
    def right(self) -> bool | None:
        """Whether it came out as expected; None without an answer, which is neither."""
        if self.error is not None or self.got is None:
            return None
        if isinstance(self.expected, str) or isinstance(self.got, str):
            return self.expected == self.got
        return abs(self.expected - self.got) <= 1e-9  # for want of digits


@dataclass(frozen=True)
class GoldenReport:
    """What a rubric says of its golden examples."""

    results: tuple[GoldenResult, ...]
    spent: Spending = field(default=NOTHING)

    @property
    def wrong(self) -> tuple[GoldenResult, ...]:
        """What came out otherwise than expected."""
        return tuple(result for result in self.results if result.right is False)

    @property
    def errors(self) -> tuple[GoldenResult, ...]:
        """What has no answer."""
        return tuple(result for result in self.results if result.right is None)

    @property
    def examples(self) -> int:
        """How many examples there are."""
        return len({result.example for result in self.results})

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        counts = {
            "expected": len(self.results),
            "wrong": len(self.wrong),
            "errors": len(self.errors),
        }
        results = [{**asdict(result), "right": result.right} for result in self.results]
        return {**counts, "results": results, "spent": self.spent.to_dict()}


async def run_golden(rubric: Rubric, grader: Grader | None = None) -> GoldenReport:
    """Score a rubric's golden examples, and those of the rubrics inside it.

    >>> import asyncio
    >>> rubric = Rubric.from_dict({
    ...     "criteria": [{"check": {"max_words": 3}}],
    ...     "golden": [{"completion": "one two", "expect": {"max_words": "UNMET"}}],
    ... })
    >>> asyncio.run(run_golden(rubric)).wrong
    (GoldenResult(example='golden_1', criterion='max_words', expected='UNMET', got='MET', reason='', error=None),)
    """
    found: list[GoldenResult] = []
    with budget() as spent:
        for inside, each, _ in rubrics_inside(rubric):
            if not each.golden:
                continue
            rollouts = [example.fields for example in each.golden]
            reports = await each.score(
                rollouts, autograder=grader or each.autograder or rubric.autograder
            )
            criteria = {criterion.name: criterion for criterion in each.criteria}
            for example, report in zip(each.golden, reports, strict=True):
                lines = {line.name: line for line in report.lines}
                found += [
                    _result(inside, name, criteria[name], lines.get(name), example)
                    for name in example.expect
                ]
    if not found:
        ways = "list some under 'golden', each with a completion and what to expect"
        raise TrustError(f"the rubric has no golden examples: {ways}")
    return GoldenReport(tuple(found), Spending.of(spent))


def _result(
    inside: str, name: str, criterion: Criterion, line: CriterionReport | None, example: Golden
) -> GoldenResult:
    expected = example.expect[name]
    got, error = None, None
    if line is None:
        error = "the judge gave one number for the whole: use a grader that answers each"
    elif not line.answered:
        error = line.error or "the judge was not asked"
    elif line.value is not None and not isinstance(expected, str):
        got = line.value
    elif line.verdict is not None or line.value is None:
        got = line.verdict
    else:
        # Code that gives a number says MET from `pass_at` on.
        got = criterion.choices[-1 if line.value >= criterion.pass_at else 0]
    reason = "" if line is None else line.reason
    return GoldenResult(f"{inside}{example.name}", f"{inside}{name}", expected, got, reason, error)
