"""Scores as people would have given them: their verdicts put in the judge's place, and added up anew."""

import math
from collections.abc import Mapping, Sequence

from assay.aggregation import AGGREGATIONS, Aggregation
from assay.criterion import Criterion
from assay.lines import CriterionReport, line_of
from assay.report import aggregate
from assay.runs import Run
from assay.runs.row import Row
from assay.score import NOT_APPLICABLE, Score
from assay.trust.questions import Answer, Question


class PeopleScores:
    """Works out the score of a rollout from what people say about its criteria."""

    def __init__(self, run: Run, questions: Mapping[str, Question]) -> None:
        about = run.about.rubric
        self._criteria: Sequence[Criterion] = run.about.criteria
        self._rule: Aggregation | None = AGGREGATIONS.get(about.aggregation) if about else None
        self._questions = questions
        self.needed = [q.name for q in questions.values() if q.judged and q.counts]
        """The criteria that people must have answered: those that count and that a model judges."""

    def score(self, row: Row, people: Mapping[str, Answer]) -> float | None:
        """The score with people's answers; None where they did not answer all that is needed."""
        if any(name not in people for name in self.needed):
            return None
        pairs = zip(self._criteria, row.report.lines, strict=True)
        return self._total([self._line(c, line, people.get(line.name)) for c, line in pairs], row)

    def can_score(self, row: Row) -> bool:
        """Whether the judge's own score comes out when its answers are added up here."""
        if self._rule is None or len(row.report.lines) != len(self._criteria):
            return False
        own = self._total(row.report.lines, row)
        if own is None or row.score is None:
            return own is row.score
        return math.isclose(own, row.score, abs_tol=1e-9)

    def _total(self, lines: Sequence[CriterionReport], row: Row) -> float | None:
        rule = self._rule or AGGREGATIONS["weighted"]
        return aggregate(lines, self._criteria, aggregation=rule, scale=row.report.scale).score

    def _line(
        self, criterion: Criterion, line: CriterionReport, answer: Answer | None
    ) -> CriterionReport:
        if answer is None:
            return line
        if answer == NOT_APPLICABLE:
            return line_of(criterion, Score.not_applicable())
        verdict = answer if isinstance(answer, str) else None
        return line_of(
            criterion, Score(self._questions[criterion.name].worth(answer), verdict=verdict)
        )
