"""Test whether a judge has drifted between two runs on the same completions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TypeAlias

from assay.aggregation import group_by_key
from assay.runs import Run
from assay.trust.agreement import consensus
from assay.trust.estimate import MEAN, SHARE, Estimate, ExampleSums, Record
from assay.trust.labels import Joined, Label, join
from assay.trust.paired_runs import TwoAnswers, pair_runs
from assay.trust.questions import Answer, Question
from assay.trust.significance import holm, sign_flip

AnswerKey: TypeAlias = tuple[str, int, str]  # example, sample and criterion


class CriterionDrift(Record):
    """How far the judge's answers to one criterion moved, and whether that can be chance."""

    name: str
    before: float  # the mean of its answers in the earlier run
    after: float
    change: Estimate
    p: float  # adjusted for the number of criteria (Holm)
    rollouts: int
    unanswered: int = 0  # rollouts without an answer in one of the runs
    # The share of answers that agree with people, before and after; None without labels.
    accuracy: tuple[Estimate, Estimate] | None = None


class Drift(Record):
    """How far a judge has moved since an earlier run."""

    rollouts: int  # rollouts that both runs have, with the same completion
    changed: int  # rollouts with another completion, which say nothing about the judge
    only_one: int  # rollouts that only one run has
    moved: tuple[str, ...]  # the criteria whose answers moved beyond chance at 5 %
    criteria: tuple[CriterionDrift, ...]


def drift_between(
    before: Run,
    after: Run,
    labels: Sequence[Label] = (),
    *,
    skip_unknown: bool = False,
    any_wording: bool = False,
) -> Drift:
    """Measure whether the judge answers differently in the second run about the same rollouts.

    With labels, measure as well whether it agrees more or less with people. Raise `TrustError` if no
    rollout or no criterion is the same in both runs.
    """
    paired = pair_runs(before, after)
    majority: dict[AnswerKey, Answer] = {}
    labels_on_both = [label for label in labels if label.criterion in paired.questions]
    if labels_on_both:
        joined = join(
            after.rows(),
            paired.questions,
            labels_on_both,
            skip_unknown=skip_unknown,
            any_wording=any_wording,
        )
        majority = _find_majorities(joined)
    criteria: list[CriterionDrift] = []
    pairs_by_criterion = group_by_key((pair.criterion, pair) for pair in paired.answers)
    for name, pairs in pairs_by_criterion.items():
        drift = _measure_drift(paired.questions[name], pairs, majority)
        if drift is not None:
            criteria.append(drift)
    p_values = holm([drift.p for drift in criteria])
    adjusted = [replace(drift, p=p) for drift, p in zip(criteria, p_values, strict=True)]
    return Drift(
        rollouts=paired.rollouts,
        changed=paired.changed,
        only_one=paired.only_one,
        moved=tuple(drift.name for drift in adjusted if drift.p < 0.05),
        criteria=tuple(adjusted),
    )


def _find_majorities(joined: Joined) -> dict[AnswerKey, Answer]:
    """Return the answer that most people gave, wherever there is a majority."""
    majority: dict[AnswerKey, Answer] = {}
    for item in joined.items:
        answer = consensus(list(item.people.values()))
        if answer is not None:
            majority[item.example, item.sample, item.criterion] = answer
    return majority


def _measure_drift(
    question: Question, pairs: Sequence[TwoAnswers], majority: Mapping[AnswerKey, Answer]
) -> CriterionDrift | None:
    """Measure the drift of one criterion; None if no rollout has a value in both runs.

    `pairs` are the judge's two answers to each rollout. `majority` holds the answer of most people
    where there are labels.
    """
    # One item for each rollout with a value in both runs.
    examples: list[str] = []
    values_before: list[float] = []
    values_after: list[float] = []
    # One item for each rollout with a label: 1 if the judge agrees with it, 0 if not.
    labelled_examples: list[str] = []
    agrees_before: list[float] = []
    agrees_after: list[float] = []
    unanswered = 0
    for pair in pairs:
        if pair.before is None or pair.after is None:
            unanswered += 1
            continue
        value_before = question.get_value(pair.before)
        value_after = question.get_value(pair.after)
        # `N/A` has no value that could rise or fall.
        if value_before is not None and value_after is not None:
            examples.append(pair.example)
            values_before.append(value_before)
            values_after.append(value_after)
        label = majority.get((pair.example, pair.sample, pair.criterion))
        if label is not None:
            labelled_examples.append(pair.example)
            agrees_before.append(float(pair.before == label))
            agrees_after.append(float(pair.after == label))
    if not examples:
        return None
    accuracy = None
    if labelled_examples:
        accuracy = (
            ExampleSums.of_values(agrees_before, labelled_examples).estimate(SHARE),
            ExampleSums.of_values(agrees_after, labelled_examples).estimate(SHARE),
        )
    differences = [
        value_after - value_before
        for value_before, value_after in zip(values_before, values_after, strict=True)
    ]
    changes = ExampleSums.of_values(differences, examples)
    change_by_example = changes.sums[:, 0]
    return CriterionDrift(
        name=question.name,
        before=fmean(values_before),
        after=fmean(values_after),
        change=changes.estimate(MEAN),
        p=sign_flip(change_by_example),
        rollouts=len(examples),
        unanswered=unanswered,
        accuracy=accuracy,
    )
