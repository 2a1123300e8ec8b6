"""Tell whether a judge has moved between two runs, on rollouts that are the same in both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay.errors import TrustError
from assay.runs import Run
from assay.trust.agreement import consensus
from assay.trust.estimate import DEFAULT_RESAMPLING, MEAN, SHARE, Estimate, Record, Resampling, clustered_values, np
from assay.trust.labels import Answer, Label, Question, TwoAnswers, join, pair_runs, same_questions
from assay.trust.significance import holm, sign_flip


@dataclass(frozen=True)
class CriterionDrift(Record):
    """One criterion: how much the judge's answers moved, and whether that could be chance."""

    name: str
    before: float
    after: float  # the mean of its answers in each run
    change: Estimate
    p: float  # after Holm, over the criteria
    rollouts: int
    unanswered: int = 0  # rollouts without an answer in one of the runs
    accuracy: tuple[Estimate, Estimate] | None = None
    """The share that agrees with people, before and after; None without labels."""


@dataclass(frozen=True)
class Drift:
    """How far a judge has moved since an earlier run."""

    criteria: tuple[CriterionDrift, ...]
    rollouts: int  # rollouts that both runs have, with the same completion
    changed: int  # rollouts with another completion, which say nothing about the judge
    only_one: int  # rollouts that one run alone has
    alpha: float = 0.05

    @property
    def moved(self) -> tuple[str, ...]:
        """The criteria whose answers moved beyond chance."""
        return tuple(criterion.name for criterion in self.criteria if criterion.p < self.alpha)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        counts = {name: getattr(self, name) for name in ("rollouts", "changed", "only_one")}
        criteria = [criterion.to_dict() for criterion in self.criteria]
        return {**counts, "moved": list(self.moved), "criteria": criteria}


def drift_between(
    before: Run,
    after: Run,
    labels: Sequence[Label] = (),
    *,
    skip_unknown: bool = False,
    any_wording: bool = False,
    resampling: Resampling = DEFAULT_RESAMPLING,
) -> Drift:
    """Whether the judge answers otherwise in the second run, where the rollouts are the same.

    With labels it says too whether it agrees more or less with people. Raises `TrustError` when no rollout is
    the same in both runs, or no criterion.
    """
    questions = same_questions(before, after)
    paired = pair_runs(before, after, questions)
    if not paired.rollouts:
        raise TrustError(
            "no rollout is the same in both runs, so nothing tells the judge from what it judged: "
            "judge the saved rollouts of one run again"
        )
    relevant = [label for label in labels if label.criterion in questions]
    people: dict[tuple[str, int, str], Answer] = {}
    if relevant:
        known = {"skip_unknown": skip_unknown, "any_wording": any_wording}
        for item in join(after.rows(), questions, relevant, **known).items:
            agreed = consensus(list(item.people.values()))
            if agreed is not None:
                people[item.example, item.sample, item.criterion] = agreed
    by_name: dict[str, list[TwoAnswers]] = {}
    for twice in paired.answers:
        by_name.setdefault(twice.criterion, []).append(twice)
    found = [_drift(questions[name], pairs, people, resampling) for name, pairs in by_name.items()]
    criteria = [drift for drift in found if drift is not None]
    values = holm([drift.p for drift in criteria])
    adjusted = (replace(drift, p=p) for drift, p in zip(criteria, values, strict=True))
    return Drift(tuple(adjusted), paired.rollouts, paired.changed, paired.only_one)


def _drift(
    question: Question, pairs: Sequence[TwoAnswers], people: Mapping[tuple[str, int, str], Answer], how: Resampling
) -> CriterionDrift | None:
    """How one criterion drifted; None when no rollout has two answers that are worth something."""
    both = ((twice, twice.before, twice.after) for twice in pairs)
    given = [(twice, was, now) for twice, was, now in both if was is not None and now is not None]
    worths = [(twice.example, question.worth(was), question.worth(now)) for twice, was, now in given]
    # `N/A` is worth nothing that could rise or fall.
    counted = [each for each in worths if None not in each]
    if not counted:
        return None
    examples = [example for example, _, _ in counted]
    before, after = (np.array([each[side] for each in counted], dtype=np.float64) for side in (1, 2))
    changes = clustered_values(after - before, examples, how)
    told = [(twice.example, was, now, people[twice[:3]]) for twice, was, now in given if twice[:3] in people]
    accuracy = None
    if told:
        labelled = [example for example, *_ in told]
        was = clustered_values([was == said for _, was, _, said in told], labelled, how)
        now = clustered_values([now == said for _, _, now, said in told], labelled, how)
        accuracy = was.estimate(SHARE), now.estimate(SHARE)
    return CriterionDrift(
        question.name,
        float(before.mean()),
        float(after.mean()),
        changes.estimate(MEAN),
        sign_flip(changes.sums[:, 0], seed=how.seed),
        rollouts=len(counted),
        unanswered=len(pairs) - len(given),
        accuracy=accuracy,
    )
