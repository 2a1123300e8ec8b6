"""Estimate the scores that people would give to all rollouts of a run, from labels on some of them.

A judge's mean is biased by its errors. Labels on a random part of the run remove this bias, by two
methods; see `bias`. If the labelled rollouts were selected by the judge's verdict, each verdict is
corrected for itself.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import Literal, TypeAlias

from assay.aggregation import AGGREGATIONS
from assay.criterion import NOT_APPLICABLE
from assay.report import CriterionReport, Score, aggregate, make_line
from assay.runs import Run
from assay.runs.row import Key, Row
from assay.trust import bias
from assay.trust.agreement import average_answers, list_labelled_keys
from assay.trust.bias import Observed
from assay.trust.estimate import Estimate, Record, estimate_mean, np, number_examples
from assay.trust.labels import Joined, Label, join, quote_some
from assay.trust.questions import Answer, Question, questions_of
from assay.trust.selection import (
    SIGNIFICANCE,
    JudgedRollout,
    LabelSelection,
    Sample,
    find_selection,
    read_judged_rollout,
)

Method: TypeAlias = Literal["prediction_powered", "rogan_gladen", "by_verdict"]

# Below this many labelled examples no correction is given: the intervals would be too short.
MIN_EXAMPLES = 30
# The same for each verdict, if the labelled rollouts were selected by verdict.
MIN_EXAMPLES_PER_VERDICT = 10

_NOT_BINARY = Estimate(reason="only for met or not met")
_SELECTED = Estimate(reason="the labelled rollouts were selected by the judge's verdict")


class Corrected(Record):
    """One figure as the judge gives it, as the labels alone give it, and corrected."""

    name: str
    judge: Estimate  # the judge's own mean over all rollouts
    people: Estimate  # the mean of the labels alone
    # What people would say of all rollouts, by method; empty if the correction was refused.
    corrected: Mapping[Method, Estimate] = field(default_factory=dict[Method, Estimate])
    refusal: str = ""  # why there is no correction
    rollouts: int = 0
    labels: int = 0  # rollouts with a label
    unanswered: int = 0  # rollouts without an answer of the judge; in none of the figures
    sensitivity: Estimate = _NOT_BINARY
    specificity: Estimate = _NOT_BINARY
    # How many more labels would halve the best interval; None if no number of them would.
    more_labels: int | None = None
    # The share of that interval that is left when every rollout is labelled.
    left_at_most: float | None = None
    warning: str = ""

    @property
    def best(self) -> Estimate:
        """The correction by prediction-powered inference, or by verdict if labels were selected so.

        It has no value if the correction was refused.
        """
        for method in ("prediction_powered", "by_verdict"):
            if method in self.corrected:
                return self.corrected[method]
        return Estimate(reason=self.refusal)


class Correction(Record):
    """The estimated scores of a run if people had judged all of it."""

    # The rubric's score; None if it cannot be computed, and `no_score` says why.
    score: Corrected | None
    # The mean of each labelled criterion: the rate of MET, if it is met or not met.
    criteria: tuple[Corrected, ...]
    no_score: str = ""
    # Number of labels left out because they are about another wording, by criterion.
    other_wording: Mapping[str, int] = field(default_factory=dict[str, int])
    # Number of labels left out because the run does not have their text, by rollout.
    changed_text: Mapping[str, int] = field(default_factory=dict[str, int])
    # Number of labels left out because they do not fit, by what is wrong with them.
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])
    moved: int = 0  # labels whose text is in another row than when they were made
    by_row_number: int = 0  # labels that were matched by the number of their row alone
    # Ways in which the labelled rollouts differ from the others.
    selection: tuple[LabelSelection, ...] = ()
    rollouts: int = 0
    labelled_rollouts: int = 0

    @property
    def figures(self) -> tuple[Corrected, ...]:
        """The score if there is one, and then the criteria."""
        if self.score is None:
            return self.criteria
        return (self.score, *self.criteria)


def correct(
    run: Run, labels: Sequence[Label], *, skip_unknown: bool = False, any_wording: bool = False
) -> Correction:
    """Correct the score of a run and the rate of every criterion that people labelled.

    The labelled rollouts have to be drawn at random from the run. If several people labelled a
    rollout, the mean of their answers counts. Refusals are part of the result; labels that do not
    fit raise `LabelError`.
    """
    questions = questions_of(run)
    joined = join(run.rows(), questions, labels, skip_unknown=skip_unknown, any_wording=any_wording)
    people = _average_labels(joined)
    labelled_keys = list_labelled_keys(joined)
    columns = {name: _Column() for name in questions if name in labelled_keys}
    scores = _ScoreColumn(run, questions)
    judged: list[JudgedRollout] = []
    for row in run.rows():
        row_people = people.get(row.key, {})
        for name, column in columns.items():
            column.add_row(row, questions[name], row_people.get(name))
        scores.add_row(row, row_people)
        judged.append(read_judged_rollout(row, columns.keys()))
    selection = find_selection(judged, questions, labelled_keys)
    criteria = [
        column.correct(
            name,
            is_unit=bool(questions[name].choices),
            selected=_describe_selection(selection, name),
        )
        for name, column in columns.items()
    ]
    no_score = scores.find_problem(columns.keys())
    score = None
    if not no_score:
        score = scores.column.correct(
            "score",
            is_unit=scores.is_unit,
            selected=_describe_selection(selection),
        )
    return Correction(
        score=score,
        criteria=tuple(criteria),
        no_score=no_score,
        other_wording=joined.other_wording,
        changed_text=joined.changed_text,
        skipped=joined.skipped,
        moved=joined.moved,
        by_row_number=joined.by_row_number,
        selection=selection,
        rollouts=len(judged),
        labelled_rollouts=len(people),
    )


def _describe_selection(selection: Sequence[LabelSelection], criterion: str = "") -> str:
    """Return how the labelled rollouts differ from the others; empty if they do not.

    Only verdicts on this criterion matter. Without `criterion`, for the score, all verdicts and the
    score matter. A difference in their order in the run never does.
    """
    for difference in selection:
        if difference.by == "order":
            continue
        if not criterion or difference.criterion == criterion:
            return difference.observation
    return ""


def _average_labels(joined: Joined) -> dict[Key, dict[str, Answer]]:
    """Return the mean answer of people, by rollout and criterion."""
    answers: dict[Key, dict[str, Answer]] = {}
    for item in joined.items:
        question = joined.questions[item.criterion]
        answer = average_answers(question, list(item.people.values()))
        answers.setdefault((item.example, item.sample), {})[item.criterion] = answer
    return answers


class _Column:
    """The values that the judge gave to one question and, on labelled rollouts, those of people."""

    def __init__(self) -> None:
        self.judge: list[float] = []
        self.people: list[float | None] = []
        self.examples: list[str] = []
        self.unanswered = 0

    def add(self, judge: float, people: float | None, example: str) -> None:
        """Add the values of one rollout; `people` is None if it is not labelled."""
        self.judge.append(judge)
        self.people.append(people)
        self.examples.append(example)

    def add_row(self, row: Row, question: Question, label: Answer | None) -> None:
        """Add the judge's answer to a question on a row, and the label if people gave one."""
        value = row.report.metrics.get(question.name)
        if value is None:
            # `N/A` takes the rollout out of the rate. Only an error is a missing answer.
            if not _is_not_applicable(row, question.name):
                self.unanswered += 1
            return
        if label is None:
            self.add(value, None, row.example)
            return
        people = question.get_value(label)
        if people is not None:
            self.add(value, people, row.example)

    def correct(self, name: str, *, is_unit: bool, selected: str) -> Corrected:
        """Correct the mean of the column by the labels.

        `is_unit` says whether its values are from 0 to 1, and `selected` how the labelled rollouts
        differ from the others, if they do.
        """
        return _correct_mean(
            name,
            _observe(self.judge, self.people, self.examples),
            is_unit=is_unit,
            unanswered=self.unanswered,
            selected=selected,
        )


def _is_not_applicable(row: Row, name: str) -> bool:
    """Whether the judge said that a criterion does not apply to a rollout."""
    if row.error is not None or name in row.report.errors:
        return False
    return any(line.name == name and not line.applies for line in row.report.lines)


class _ScoreColumn:
    """The scores of a run, and what they would be with the answers of people."""

    def __init__(self, run: Run, questions: Mapping[str, Question]) -> None:
        self.column = _Column()
        self.is_unit = True  # whether every score lies between 0 and 1
        self._is_weighted_sum = True  # whether the scores can be computed from the answers
        self._rubric = run.about.rubric
        self._criteria = run.about.criteria
        self._questions = questions
        # What people must have answered: the criteria that count and that a model judges.
        self._needed_criteria = [
            question.name for question in questions.values() if question.judged and question.counts
        ]

    def add_row(self, row: Row, people: Mapping[str, Answer]) -> None:
        """Add the score of a row, and the score that it would have with the answers of people.

        `people` holds their answers by criterion. The second score is None unless they answered all
        criteria that it needs.
        """
        self.is_unit = self.is_unit and row.report.scale == "unit"
        if row.score is None:
            self.column.unanswered += 1
            return
        if people and not self._can_compute_score(row):
            self._is_weighted_sum = False
            return
        score_by_people = None
        if people and all(name in people for name in self._needed_criteria):
            lines = self._replace_answers(row, people)
            score_by_people = self._compute_score(row, lines)
        self.column.add(row.score, score_by_people, row.example)

    def find_problem(self, labelled: Collection[str]) -> str:
        """Return why the score cannot be corrected by the labels; empty if it can.

        `labelled` are the criteria with labels.
        """
        if not self._is_weighted_sum:
            return (
                "the score of this run is not the plain sum of its criteria, so it cannot be "
                "computed from labels"
            )
        unlabelled = [name for name in self._needed_criteria if name not in labelled]
        if unlabelled:
            return f"there is no label on {quote_some(unlabelled)}, which the score needs"
        if all(value is None for value in self.column.people):
            return "no rollout is labelled on every criterion that the score needs"
        return ""

    def _can_compute_score(self, row: Row) -> bool:
        """Whether the score of a row can be computed again from its answers.

        This is tried with the judge's own answers, which have to give the score that the row has.
        """
        if self._rubric is None or self._rubric.aggregation not in AGGREGATIONS:
            return False
        if len(row.report.lines) != len(self._criteria):
            return False
        score = self._compute_score(row, row.report.lines)
        if score is None or row.score is None:
            return score is None and row.score is None
        return math.isclose(score, row.score, abs_tol=1e-9)

    def _compute_score(self, row: Row, lines: Sequence[CriterionReport]) -> float | None:
        """Return the score that these lines have by the rules of the run."""
        assert self._rubric is not None
        report = aggregate(
            lines,
            self._criteria,
            aggregation=AGGREGATIONS[self._rubric.aggregation],
            scale=row.report.scale,
        )
        return report.score

    def _replace_answers(self, row: Row, people: Mapping[str, Answer]) -> list[CriterionReport]:
        """Return the lines of a row with the answers of people in place of the judge's."""
        lines: list[CriterionReport] = []
        for criterion, line in zip(self._criteria, row.report.lines, strict=True):
            if line.name in people:
                score = _score_answer(self._questions[line.name], people[line.name])
                lines.append(make_line(criterion, score))
            else:
                lines.append(line)
        return lines


def _score_answer(question: Question, answer: Answer) -> Score:
    """Return an answer of people as a score, as a judge would give it."""
    if answer == NOT_APPLICABLE:
        return Score.not_applicable()
    verdict = answer if isinstance(answer, str) else None
    return Score(question.get_value(answer), verdict=verdict)


def corrected_mean(
    name: str,
    judge: Sequence[float],
    people: Sequence[float | None],
    examples: Sequence[str] | None = None,
    *,
    unit: bool = False,
    unanswered: int = 0,
) -> Corrected:
    """Correct the mean of the judge's answers by the labels that people gave to some of them.

    `people` has None where there is no label; the labelled rollouts have to be drawn at random.
    Answers of 0 and 1 are corrected by both methods, others by prediction-powered inference. With
    `unit`, no figure is below 0 or above 1.

    >>> judge = [1.0, 1.0, 1.0, 0.0] * 50
    >>> people = [1.0, 1.0, 0.0, 0.0] * 15 + [None] * 140
    >>> polite = corrected_mean("polite", judge, people)
    >>> print(polite.judge, polite.best)
    0.75 [0.69, 0.80] 0.50 [0.39, 0.62]
    """
    has_other_length = examples is not None and len(examples) != len(judge)
    if len(judge) != len(people) or has_other_length:
        raise ValueError(
            f"there are {len(judge)} answers of the judge and {len(people)} of people: give one "
            "each, and None where there is no label"
        )
    if examples is None:
        examples = [str(number) for number in range(len(judge))]
    observed = _observe(judge, people, examples)
    return _correct_mean(
        name,
        observed,
        is_unit=unit,
        unanswered=unanswered,
        selected=_find_selected(observed),
    )


def _find_selected(observed: Observed) -> str:
    """Return how the judge's answers to the labelled rollouts differ from those to the others.

    Empty if they do not differ beyond chance.
    """
    sample = Sample.from_arrays(observed.examples, observed.labelled)
    if observed.is_binary:
        p = sample.compare_categories(observed.judge)
    else:
        p = sample.compare_values(observed.judge)
    if p >= SIGNIFICANCE:
        return ""
    labelled_mean = float(observed.judge[observed.labelled].mean())
    other_mean = float(observed.judge[~observed.labelled].mean())
    return (
        f"the judge's mean is {labelled_mean:.2f} for the labelled rollouts, and {other_mean:.2f} "
        "for the others"
    )


def _observe(
    judge: Sequence[float], people: Sequence[float | None], examples: Sequence[str]
) -> Observed:
    """Return the answers of the judge and of people to each rollout as arrays."""
    return Observed(
        judge=np.array(judge, dtype=np.float64),
        people=np.array(people, dtype=np.float64),  # None becomes NaN
        examples=np.array(number_examples(examples), dtype=np.float64),
    )


def _correct_mean(
    name: str, observed: Observed, *, is_unit: bool, unanswered: int, selected: str
) -> Corrected:
    """Correct the mean of the judge's answers by the labels, or say why that is refused.

    `selected` says how the labelled rollouts differ from the others, if they do beyond chance, and
    `is_unit` that no answer can be below 0 or above 1. `unanswered` rollouts are only counted.
    """
    bounds = (-math.inf, math.inf)
    if is_unit or observed.is_binary:
        bounds = (0.0, 1.0)
    labelled = observed.labelled
    judge = estimate_mean(observed.judge, observed.examples)
    people = estimate_mean(observed.people[labelled], observed.examples[labelled])
    figure = Corrected(
        name=name,
        judge=judge.clamp(*bounds),
        people=people.clamp(*bounds),
        rollouts=len(observed.judge),
        labels=observed.labels,
        unanswered=unanswered,
    )
    if selected:
        return _correct_selected(figure, observed, selected)
    if observed.is_binary:
        figure = replace(
            figure,
            sensitivity=bias.sensitivity(observed),
            specificity=bias.specificity(observed),
        )
    refusal = _find_refusal(observed)
    if refusal:
        return replace(figure, refusal=refusal)
    corrected: dict[Method, Estimate] = {
        "prediction_powered": bias.prediction_powered(observed).clamp(*bounds)
    }
    if observed.is_binary:
        corrected["rogan_gladen"] = bias.clustered_rogan_gladen(observed)
    more_labels, left_at_most = bias.label_budget(observed)
    return replace(figure, corrected=corrected, more_labels=more_labels, left_at_most=left_at_most)


def _correct_selected(figure: Corrected, observed: Observed, selected: str) -> Corrected:
    """Correct a mean whose labelled rollouts were selected by the judge's answers.

    The rate of MET is corrected for each verdict by itself. Sensitivity and specificity depend on
    how many rollouts of each verdict were labelled, so they cannot be estimated.
    """
    if not observed.is_binary:
        refusal = _find_shortage(observed) or (
            f"{selected}, so the labelled rollouts do not show the judge's bias on the others: "
            "label rollouts that are drawn at random"
        )
        return replace(figure, refusal=refusal)
    figure = replace(figure, sensitivity=_SELECTED, specificity=_SELECTED)
    refusal = _find_verdict_shortage(observed, selected) or _find_shortage(observed)
    if refusal:
        return replace(figure, refusal=refusal)
    return replace(
        figure,
        corrected={"by_verdict": bias.standardise_by_verdict(observed)},
        warning=(
            f"{selected}: the corrected rate was estimated for each verdict by itself, and holds "
            "if the labelled rollouts of each verdict were drawn at random"
        ),
    )


def _find_refusal(observed: Observed) -> str:
    """Return why the labels do not allow a correction; empty if they do."""
    shortage = _find_shortage(observed)
    if shortage:
        return shortage
    if observed.is_binary:
        return _find_binary_refusal(observed)
    correlation = bias.correlation(observed)
    if correlation is None:
        return (
            "the judge, or people, gave every labelled rollout the same value, so it is unknown "
            f"whether they agree: {_advise_more_labels(observed)}"
        )
    if bias.is_positive_correlation(correlation, observed.labelled_examples):
        return ""
    return (
        f"the judge's answers hardly correlate with people's (correlation {correlation:.2f}): "
        "trust the labels alone, reword the criteria or change the judge"
    )


def _find_binary_refusal(observed: Observed) -> str:
    """Return why labels of met and not met do not allow a correction; empty if they do."""
    people = observed.people[observed.labelled]
    if people.max() == 0 or people.min() == 1:
        verdict = "met" if people.min() else "not met"
        return (
            f"all labels say {verdict}, so it is unknown how the judge answers on the others: "
            f"{_advise_more_labels(observed)}"
        )
    if bias.beats_chance(observed):
        return ""
    return (
        "by its sensitivity and specificity, the judge is not clearly better than chance: trust "
        "the labels alone, reword the criterion or change the judge"
    )


def _find_shortage(observed: Observed) -> str:
    """Return that there are too few labelled examples, and what to do; empty if there are enough."""
    count = observed.labelled_examples
    if count >= MIN_EXAMPLES:
        return ""
    shortage = f"{count} labelled examples are too few for a valid interval"
    missing = MIN_EXAMPLES - count
    remaining = observed.example_count - count
    if missing <= remaining:
        return f"{shortage}: label {missing} more, drawn at random"
    if remaining:
        return (
            f"{shortage}, and the run has only {remaining} more: label these, and the labels alone "
            "are the result, or score a run of more examples"
        )
    return f"{shortage}: every example is labelled, so the labels alone are the result"


def _find_verdict_shortage(observed: Observed, selected: str) -> str:
    """Return that a verdict of the judge has too few labels, and what to do; empty if all have enough.

    `selected` says how the labelled rollouts differ from the others.
    """
    for value, verdict in ((1.0, "met"), (0.0, "not met")):
        has_verdict = observed.judge == value
        example_count = len(np.unique(observed.examples[has_verdict]))
        labelled_count = len(np.unique(observed.examples[has_verdict & observed.labelled]))
        needed_count = min(MIN_EXAMPLES_PER_VERDICT, example_count)
        if labelled_count < needed_count:
            return (
                f"{selected}, which is too little evidence about rollouts that the judge calls {verdict}: "
                f"label {needed_count - labelled_count} more of these, drawn at random"
            )
    return ""


def _advise_more_labels(observed: Observed) -> str:
    """Return what to do if more labels are needed, which is impossible if all rollouts have one."""
    if observed.labels < len(observed.judge):
        return "label more"
    return "every rollout is labelled, so the labels alone are the result"
