"""Take a judge's bias out of a run's score and rates, by a small set of labels."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from assay.aggregation import AGGREGATIONS, Aggregation
from assay.criterion import NOT_APPLICABLE, Criterion
from assay.report import CriterionReport, Score, aggregate, line_of
from assay.runs import Run
from assay.runs.row import Row
from assay.trust.agreement import mean_answer
from assay.trust.clusters import example_numbers, mean_of
from assay.trust.estimate import LEVEL, Estimate, Record, difference_of, normal_quantile, np, undefined
from assay.trust.estimators import (
    DOUBT,
    Observed,
    beats_chance,
    clustered_rogan_gladen,
    correlation,
    label_budget,
    prediction_powered,
    sensitivity,
    specificity,
)
from assay.trust.labels import Label, join
from assay.trust.questions import Answer, Question, questions_of

Method: TypeAlias = Literal["prediction_powered", "rogan_gladen"]

FEWEST = 30
"""Labelled examples below which no correction is given: intervals do not hold there."""

_NOT_BINARY = undefined("only for met or not met")


@dataclass(frozen=True)
class Corrected(Record):
    """One figure as the judge gives it, as the labels alone give it, and corrected."""

    name: str
    judge: Estimate
    """The judge's own mean over all rollouts."""
    people: Estimate
    """The mean of the labels alone."""
    corrected: Mapping[Method, Estimate] = field(default_factory=dict[Method, Estimate])
    """What people would say of all rollouts, by method; none when it was refused."""
    refusal: str = ""
    """Why there is no correction."""
    rollouts: int = 0
    labels: int = 0
    """Rollouts with a label."""
    unanswered: int = 0
    """Rollouts that the judge gave no answer to. They are in none of the figures."""
    sensitivity: Estimate = _NOT_BINARY
    specificity: Estimate = _NOT_BINARY
    more_labels: int | None = None
    """How many more labels would halve the best interval; None when no number of them would."""
    left_at_most: float | None = None
    """The share of that interval that is left when every rollout is labelled."""
    warning: str = ""

    @property
    def best(self) -> Estimate:
        """The correction by prediction-powered inference; without a value when it was refused."""
        return self.corrected.get("prediction_powered", undefined(self.refusal))


def corrected_mean(
    name: str,
    judge: Sequence[float],
    people: Sequence[float | None],
    examples: Sequence[str] | None = None,
    *,
    unit: bool = False,
    unanswered: int = 0,
    level: float = LEVEL,
) -> Corrected:
    """The mean of the judge's answers, corrected by the labels that people gave to some of them.

    `people` has None where there is no label; the labelled rollouts have to be drawn at random. Answers of 0 and 1
    are corrected by both methods, others by prediction-powered inference. `unit` says that nothing outside of 0 and 1
    is possible.

    >>> judge = [1.0, 1.0, 1.0, 0.0] * 50
    >>> people = [1.0, 1.0, 0.0, 0.0] * 15 + [None] * 140
    >>> found = corrected_mean("polite", judge, people)
    >>> print(found.judge, found.best)
    0.75 [0.69, 0.80] 0.50 [0.39, 0.62]
    """
    observed = _observed(judge, people, examples)
    is_binary, labelled = observed.is_binary, observed.labelled
    bounds = (0.0, 1.0) if unit or is_binary else (-math.inf, math.inf)
    of_people = mean_of(observed.people[labelled], observed.examples[labelled], level)
    known: dict[str, Any] = {
        "judge": mean_of(observed.judge, observed.examples, level).within(*bounds),
        "people": of_people.within(*bounds),
        "rollouts": len(observed.judge),
        "labels": observed.labels,
        "unanswered": unanswered,
    }
    if is_binary:
        known["sensitivity"] = sensitivity(observed, level)
        known["specificity"] = specificity(observed, level)
    refusal = _refusal(observed)
    if refusal:
        return Corrected(name, refusal=refusal, **known)
    found: dict[Method, Estimate] = {"prediction_powered": prediction_powered(observed, level).within(*bounds)}
    if is_binary:
        found["rogan_gladen"] = clustered_rogan_gladen(observed, level)
    budget = label_budget(observed)
    return Corrected(
        name,
        corrected=found,
        more_labels=budget.to_halve(observed.labels, len(observed.judge)),
        left_at_most=budget.left_at_most(observed.labels, len(observed.judge)),
        warning=_warning(observed),
        **known,
    )


def _observed(judge: Sequence[float], people: Sequence[float | None], examples: Sequence[str] | None) -> Observed:
    if len(judge) != len(people) or (examples is not None and len(examples) != len(judge)):
        raise ValueError(
            f"there are {len(judge)} answers of the judge and {len(people)} of people: give one "
            "each, and None where there is no label"
        )
    labels = [math.nan if answer is None else float(answer) for answer in people]
    places = range(len(judge)) if examples is None else example_numbers(examples)
    return Observed(*(np.array(column, dtype=np.float64) for column in (judge, labels, places)))


def _refusal(observed: Observed) -> str:
    """Why the labels do not allow a correction; empty when they do."""
    count = observed.labelled_examples
    if count < FEWEST:
        return (
            f"{count} labelled examples are too few for an interval that holds: label "
            f"{FEWEST - count} more, drawn at random"
        )
    if not observed.is_binary:
        return _unrelated(observed)
    people = observed.people[observed.labelled]
    if people.max() == 0 or people.min() == 1:
        return (
            f"all labels say {'met' if people.min() else 'not met'}, so nothing shows what the judge "
            "makes of the rest: label more"
        )
    if not beats_chance(observed):
        return (
            f"the judge is not clearly better than chance (sensitivity {sensitivity(observed)}, "
            f"specificity {specificity(observed)}): trust the labels alone, mend the criterion or "
            "change the judge"
        )
    return ""


def _unrelated(observed: Observed) -> str:
    together = correlation(observed)
    if together is None:
        return (
            "judge or people give the same to every labelled rollout, so nothing shows whether they "
            "go together: label more"
        )
    # Fisher's z, one-sided as for sensitivity and specificity.
    reach = normal_quantile((1 + DOUBT) / 2) / (observed.labelled_examples - 3) ** 0.5
    if np.arctanh(min(together, 1 - 1e-12)) > reach:
        return ""
    return (
        f"the judge's answers do not clearly go with people's (correlation {together:.2f}): trust the "
        "labels alone, mend the criteria or change the judge"
    )


def _warning(observed: Observed) -> str:
    """Whether the labelled rollouts look drawn at random, as far as the judge can tell."""
    if not observed.is_binary or observed.labelled.all():
        return ""
    labelled, others = (
        mean_of(observed.judge[which], observed.examples[which], level=0.99)
        for which in (observed.labelled, ~observed.labelled)
    )
    gap = difference_of(labelled, others)
    if gap.low is None or gap.high is None or gap.low <= 0 <= gap.high:
        return ""
    return (
        f"the judge says yes to {labelled.value:.0%} of what was labelled and to "
        f"{others.value:.0%} of the rest: if the labelled were picked, and not drawn at random, take "
        "rogan_gladen"
    )


@dataclass(frozen=True)
class Correction(Record):
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


def correct(
    run: Run, labels: Sequence[Label], *, skip_unknown: bool = False, any_wording: bool = False, level: float = LEVEL
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
    columns = {name: _Column() for name in questions if name in labelled}
    by_people, scores = _PeopleScores(run, questions), _Column()
    is_unit, no_score = True, ""
    for row in run.rows():
        people = said.get((row.example, row.sample), {})
        for name, column in columns.items():
            column.add_row(row, questions[name], people.get(name))
        is_unit = is_unit and row.report.scale == "unit"
        if row.score is None:
            scores.unanswered += 1
        elif people and not by_people.can_score(row):
            no_score = (
                "the score of this run is not the plain sum of its criteria, so it cannot be worked out from labels"
            )
        else:
            scores.add(row.example, row.score, by_people.score(row, people) if people else None)
    no_score = no_score or _why_no_score([n for n in by_people.needed if n not in columns], scores)
    return Correction(
        score=None if no_score else scores.corrected("score", level, unit=is_unit),
        criteria=tuple(
            column.corrected(name, level, unit=bool(questions[name].choices)) for name, column in columns.items()
        ),
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

    def add_row(self, row: Row, question: Question, label: Answer | None) -> None:
        """Take in what a row answers to a question, and what people do."""
        name, values = question.name, row.report.metrics
        worth = None if label is None else question.worth(label)
        if name not in values:
            # `N/A` takes the rollout out of the rate, as it leaves the score; an error is missing.
            failed = row.error is not None or name in row.report.errors
            spared = any(line.name == name and not line.applies for line in row.report.lines)
            self.unanswered += failed or not spared
        elif label is None or worth is not None:
            self.add(row.example, values[name], worth)

    def corrected(self, name: str, level: float, *, unit: bool) -> Corrected:
        lists = self.judge, self.people, self.examples
        return corrected_mean(name, *lists, unit=unit, unanswered=self.unanswered, level=level)


class _PeopleScores:
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

    def _line(self, criterion: Criterion, line: CriterionReport, answer: Answer | None) -> CriterionReport:
        if answer is None:
            return line
        if answer == NOT_APPLICABLE:
            return line_of(criterion, Score.not_applicable())
        verdict = answer if isinstance(answer, str) else None
        return line_of(criterion, Score(self._questions[criterion.name].worth(answer), verdict=verdict))


def _why_no_score(unlabelled: Sequence[str], scores: _Column) -> str:
    """Why the score cannot be worked out from labels; empty when it can."""
    if unlabelled:
        more = f" and {len(unlabelled) - 3} more" if len(unlabelled) > 3 else ""
        return f"there is no label on {', '.join(unlabelled[:3])}{more}, which the score needs"
    if not any(value is not None for value in scores.people):
        return "no rollout is labelled on every criterion that the score needs"
    return ""
