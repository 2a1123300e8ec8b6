"""Correction: the score and the rates of a run, with the judge's bias taken out by labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.runs import Run
from assay.runs.row import Row
from assay.trust.asked import questions_of
from assay.trust.corrected import Corrected, corrected_mean
from assay.trust.joining import join
from assay.trust.labels import Label
from assay.trust.people_scores import PeopleScores
from assay.trust.questions import Answer, Question
from assay.trust.raters import mean_answer
from assay.trust.shares import LEVEL


@dataclass(frozen=True)
class Correction:
    """What a run would come to if people had judged all of it."""

    score: Corrected | None
    """The rubric's score; None when it cannot be worked out, and `no_score` says why."""
    criteria: tuple[Corrected, ...]
    """The mean of each labelled criterion: the rate of MET, where it is met or not."""
    no_score: str = ""
    other_wording: Mapping[str, int] = field(default_factory=dict[str, int])
    """Labels left out by criterion, as they were made for another wording."""
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])
    """Labels left out that do not fit the run, by what is wrong with them."""

    @property
    def figures(self) -> tuple[Corrected, ...]:
        """The score where there is one, and then the criteria."""
        return (*(() if self.score is None else (self.score,)), *self.criteria)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            "score": None if self.score is None else self.score.to_dict(),
            "no_score": self.no_score,
            "criteria": [criterion.to_dict() for criterion in self.criteria],
            "other_wording": dict(self.other_wording),
            "skipped": dict(self.skipped),
        }


def correct(
    run: Run,
    labels: Sequence[Label],
    *,
    skip_unknown: bool = False,
    any_wording: bool = False,
    level: float = LEVEL,
) -> Correction:
    """Correct the score of a run and the rate of every criterion that people labelled.

    The labelled rollouts have to be drawn at random from the run. Where several people labelled, the mean of their
    answers counts. Refusals are part of what is returned; labels that do not fit raise `LabelError`.
    """
    questions = questions_of(run)
    joined = join(run.rows(), questions, labels, skip_unknown=skip_unknown, any_wording=any_wording)
    said: dict[tuple[str, int], dict[str, Answer]] = {}
    for item in joined.items:
        answer = mean_answer(questions[item.criterion], list(item.people.values()))
        said.setdefault((item.example, item.sample), {})[item.criterion] = answer
    labelled = {item.criterion for item in joined.items}
    named = [name for name in questions if name in labelled]
    columns = _Columns(PeopleScores(run, questions), {n: questions[n] for n in named})
    for row in run.rows():
        columns.add(row, said.get((row.example, row.sample), {}))
    score, no_score = columns.score(level)
    return Correction(
        score=score,
        criteria=columns.criteria(level),
        no_score=no_score,
        other_wording=joined.other_wording,
        skipped=joined.skipped,
    )


class _Column:
    """The answers to one question, of the judge and, where they labelled, of people."""

    def __init__(self) -> None:
        self.judge: list[float] = []
        self.people: list[float | None] = []
        self.examples: list[str] = []
        self.unanswered = 0

    def add(self, example: str, judge: float, people: float | None) -> None:
        self.judge.append(judge)
        self.people.append(people)
        self.examples.append(example)

    def corrected(self, name: str, level: float, *, unit: bool) -> Corrected:
        lists = self.judge, self.people, self.examples
        return corrected_mean(name, *lists, unit=unit, unanswered=self.unanswered, level=level)


class _Columns:
    """The answers of a run by criterion, and its scores, as the rows pass."""

    def __init__(self, by_people: PeopleScores, questions: Mapping[str, Question]) -> None:
        self._questions = questions
        self._columns = {name: _Column() for name in questions}
        self._scores = _Column()
        self._by_people = by_people
        self._why_not = ""
        self._unit = True
        """Whether every score so far lies between 0 and 1, as it must."""

    def add(self, row: Row, people: Mapping[str, Answer]) -> None:
        """Take in a row, with what people say about it."""
        self._add_score(row, people)
        values = row.report.metrics
        for name, question in self._questions.items():
            label = people.get(name)
            worth = None if label is None else question.worth(label)
            if name not in values:
                self._columns[name].unanswered += not _is_excused(row, name)
            elif label is None or worth is not None:
                self._columns[name].add(row.example, values[name], worth)

    def _add_score(self, row: Row, people: Mapping[str, Answer]) -> None:
        self._unit = self._unit and row.report.scale == "unit"
        if row.score is None:
            self._scores.unanswered += 1
        elif people and not self._by_people.can_score(row):
            self._why_not = (
                "the score of this run is not the plain sum of its criteria, so it cannot be worked "
                "out from labels"
            )
        else:
            score = self._by_people.score(row, people) if people else None
            self._scores.add(row.example, row.score, score)

    def criteria(self, level: float) -> tuple[Corrected, ...]:
        return tuple(
            column.corrected(name, level, unit=bool(self._questions[name].choices))
            for name, column in self._columns.items()
        )

    def score(self, level: float) -> tuple[Corrected | None, str]:
        """The corrected score; or None, and why."""
        missing = [name for name in self._by_people.needed if name not in self._questions]
        if self._why_not:
            return None, self._why_not
        if missing:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            return None, f"nobody labelled {', '.join(missing[:3])}{more}, which the score needs"
        if not any(value is not None for value in self._scores.people):
            return None, "no rollout is labelled on every criterion that the score needs"
        return self._scores.corrected("score", level, unit=self._unit), ""


def _is_excused(row: Row, name: str) -> bool:
    """Whether there is no answer because the question does not apply, and nothing went wrong.

    Whoever says `N/A` takes the rollout out of the rate, as it leaves the score.
    """
    if row.error is not None or name in row.report.errors:
        return False
    return any(line.name == name and not line.applies for line in row.report.lines)
