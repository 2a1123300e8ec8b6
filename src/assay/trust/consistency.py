"""Measure whether a judge says the same again, and the same the other way round."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from assay.runs.row import Row
from assay.trust.clusters import Resampling
from assay.trust.coefficients import AnswerPair, AnswerUnit, Measures, measure
from assay.trust.estimate import Record
from assay.trust.questions import Answer, Question, has_votes, pooled_choices, repeated_votes, swapped_votes


@dataclass(frozen=True)
class Consistency(Record):
    """How far a judge agrees with itself. `accuracy` is the share of answers that stayed the same."""

    overall: Measures
    criteria: Mapping[str, Measures]
    unanswered: int = 0
    """Times that it was asked and did not answer, which are in none of the figures."""


class Repeats:
    """Answers to the same question, collected from rows as they pass."""

    def __init__(self, questions: Mapping[str, Question]) -> None:
        self.questions = questions
        # By criterion, how often each pair or unit of answers came: runs are large, and answers few.
        self._swaps: dict[str, Counter[tuple[str, Answer, Answer]]] = {}
        self._again: dict[str, Counter[tuple[str, tuple[Answer, ...]]]] = {}
        self._unanswered: Counter[str] = Counter()

    def add(self, row: Row) -> None:
        """Take in what the votes on a row's judged lines show."""
        if not has_votes(row.report.lines):
            return
        for line in row.report.lines:
            question = self.questions.get(line.name)
            if question is None or line.requirement is None:
                continue
            for votes in swapped_votes(line):
                first, second = (question.answered(vote) for vote in votes)
                if first is None or second is None:
                    self._unanswered["swap"] += (first is None) + (second is None)
                else:
                    counts = self._swaps.setdefault(question.name, Counter())
                    counts[row.example, first, second] += 1
            for votes in repeated_votes(line):
                answers = [question.answered(vote) for vote in votes]
                self.add_answers(row.example, question.name, answers)

    def add_answers(self, example: str, criterion: str, answers: Sequence[Answer | None]) -> None:
        """Take in what one judge answered when it was asked the same again."""
        given = tuple(answer for answer in answers if answer is not None)
        self._unanswered["retest"] += len(answers) - len(given)
        if len(given) > 1:
            self._again.setdefault(criterion, Counter())[example, given] += 1

    def swap(self, resampling: Resampling) -> Consistency | None:
        """Agreement between the two orders; None when nothing was asked in both."""
        pairs = {
            name: [AnswerPair(*key, times) for key, times in counts.items()] for name, counts in self._swaps.items()
        }
        return self._consistency(pairs, None, self._unanswered["swap"], resampling)

    def retest(self, resampling: Resampling) -> Consistency | None:
        """Agreement between repeated answers; None when nothing was asked twice."""
        units = {
            name: [AnswerUnit(*key, times) for key, times in counts.items()] for name, counts in self._again.items()
        }
        pairs = {name: list(_pairs(found)) for name, found in units.items()}
        return self._consistency(pairs, units, self._unanswered["retest"], resampling)

    def _consistency(
        self,
        pairs: Mapping[str, list[AnswerPair]],
        units: Mapping[str, list[AnswerUnit]] | None,
        unanswered: int,
        resampling: Resampling,
    ) -> Consistency | None:
        if not pairs:
            return None

        def measured(names: Sequence[str]) -> Measures:
            choices, ranked = pooled_choices(self.questions[name] for name in names)
            return measure(
                [pair for name in names for pair in pairs[name]],
                choices,
                ranked=ranked,
                units=None if units is None else [unit for name in names for unit in units[name]],
                symmetric=True,
                resampling=resampling,
            )

        chosen = [name for name in pairs if self.questions[name].choices]
        return Consistency(measured(chosen), {name: measured([name]) for name in pairs}, unanswered)


def _pairs(units: Sequence[AnswerUnit]) -> Iterator[AnswerPair]:
    counts: Counter[tuple[str, Answer, Answer]] = Counter()
    for unit in units:
        for first, second in combinations(unit.answers, 2):
            counts[unit.example, first, second] += unit.times
    for key, times in counts.items():
        yield AnswerPair(*key, times)
