"""Consistency: whether a judge says the same again, and the same the other way round."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from assay.lines import CriterionReport
from assay.runs.row import Row
from assay.trust.measures import Measures, Pair, Resampling, Unit, measure
from assay.trust.questions import Answer, Question, pooled
from assay.trust.voting import have_votes, repeated, swapped


@dataclass(frozen=True)
class Consistency:
    """How far a judge agrees with itself. `accuracy` is the share of answers that stayed the same."""

    overall: Measures
    criteria: Mapping[str, Measures]
    unanswered: int = 0
    """Times that it was asked and did not answer, which are in none of the figures."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        by_name = {name: measures.to_dict() for name, measures in self.criteria.items()}
        overall = self.overall.to_dict()
        return {"overall": overall, "criteria": by_name, "unanswered": self.unanswered}


class Repeats:
    """Answers to the same question, collected from rows as they pass."""

    def __init__(self, questions: Mapping[str, Question]) -> None:
        self.questions = questions
        self._swaps: dict[str, Counter[tuple[str, Answer, Answer]]] = {}
        self._again: dict[str, Counter[tuple[str, tuple[Answer, ...]]]] = {}
        self._unanswered: Counter[str] = Counter()

    def add(self, row: Row) -> None:
        """Take in what the votes on a row's judged lines show."""
        if not have_votes(row.report.lines):
            return
        for line in row.report.lines:
            question = self.questions.get(line.name)
            if question is not None and line.requirement is not None:
                for votes in swapped(line):
                    self._add_swap(row.example, question, votes)
                for votes in repeated(line):
                    answers = [question.answered(vote) for vote in votes]
                    self.add_answers(row.example, question.name, answers)

    def _add_swap(
        self, example: str, question: Question, votes: tuple[CriterionReport, CriterionReport]
    ) -> None:
        first, second = (question.answered(vote) for vote in votes)
        if first is None or second is None:
            self._unanswered["swap"] += (first is None) + (second is None)
        else:
            self._swaps.setdefault(question.name, Counter())[example, first, second] += 1

    def add_answers(self, example: str, criterion: str, answers: Sequence[Answer | None]) -> None:
        """Take in what one judge answered when it was asked the same again."""
        given = tuple(answer for answer in answers if answer is not None)
        self._unanswered["retest"] += len(answers) - len(given)
        if len(given) > 1:
            self._again.setdefault(criterion, Counter())[example, given] += 1

    def swap(self, resampling: Resampling) -> Consistency | None:
        """Agreement between the two orders; None when nothing was asked in both."""
        pairs = {
            name: [Pair(*key, times) for key, times in counts.items()]
            for name, counts in self._swaps.items()
        }
        unanswered = self._unanswered["swap"]
        return self._consistency(pairs, None, unanswered, resampling) if pairs else None

    def retest(self, resampling: Resampling) -> Consistency | None:
        """Agreement between repeated answers; None when nothing was asked twice."""
        units = {
            name: [Unit(*key, times) for key, times in counts.items()]
            for name, counts in self._again.items()
        }
        pairs = {name: list(_pairs(found)) for name, found in units.items()}
        unanswered = self._unanswered["retest"]
        return self._consistency(pairs, units, unanswered, resampling) if units else None

    def _consistency(
        self,
        pairs: Mapping[str, list[Pair]],
        units: Mapping[str, list[Unit]] | None,
        unanswered: int,
        resampling: Resampling,
    ) -> Consistency:
        criteria = {
            name: measure(
                found,
                self.questions[name].choices,
                units=None if units is None else units[name],
                symmetric=True,
                resampling=resampling,
            )
            for name, found in pairs.items()
        }
        chosen = [name for name in pairs if self.questions[name].choices]
        choices, ranked = pooled(self.questions[name] for name in chosen)
        overall = measure(
            [pair for name in chosen for pair in pairs[name]],
            choices,
            ranked=ranked,
            units=None if units is None else [unit for name in chosen for unit in units[name]],
            symmetric=True,
            resampling=resampling,
        )
        return Consistency(overall, criteria, unanswered)


def _pairs(units: Iterable[Unit]) -> Iterator[Pair]:
    counts: Counter[tuple[str, Answer, Answer]] = Counter()
    for unit in units:
        for first, second in combinations(unit.answers, 2):
            counts[unit.example, first, second] += unit.times
    for key, times in counts.items():
        yield Pair(*key, times)
