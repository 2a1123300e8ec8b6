"""Drift: whether a judge has moved between two runs, on rollouts that are the same in both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay.runs import Run
from assay.trust.asked import same_questions
from assay.trust.clusters import MEAN, SHARE, Clustered
from assay.trust.error import TrustError
from assay.trust.estimate import Estimate
from assay.trust.joining import Joined, join
from assay.trust.labels import Label
from assay.trust.measures import Resampling, summed
from assay.trust.numeric import np
from assay.trust.pairing import Twice, pair_answers
from assay.trust.questions import Answer, Question
from assay.trust.raters import consensus
from assay.trust.significance import holm, sign_flip


@dataclass(frozen=True)
class Moved:
    """One criterion: how much the judge's answers moved, and whether that could be chance."""

    name: str
    before: float
    after: float
    """The mean of its answers in each run."""
    change: Estimate
    p: float
    """After Holm, over the criteria."""
    rollouts: int
    unanswered: int = 0
    """Rollouts without an answer in one of the runs."""
    accuracy: tuple[Estimate, Estimate] | None = None
    """The share that agrees with people, before and after; None without labels."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        plain = ("name", "before", "after", "p", "rollouts", "unanswered")
        accuracy = None if self.accuracy is None else [e.to_dict() for e in self.accuracy]
        fields = {name: getattr(self, name) for name in plain}
        return {**fields, "change": self.change.to_dict(), "accuracy": accuracy}


@dataclass(frozen=True)
class Drift:
    """How far a judge has moved since an earlier run."""

    criteria: tuple[Moved, ...]
    rollouts: int
    """Rollouts that both runs have, with the same completion."""
    changed: int
    """Rollouts with another completion, which say nothing about the judge."""
    only_one: int
    """Rollouts that one run alone has."""
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
    resampling: Resampling | None = None,
) -> Drift:
    """Whether the judge answers otherwise in the second run, where the rollouts are the same.

    With labels it says too whether it agrees more or less with people. Raises `TrustError` when no rollout is
    the same in both runs, or no criterion.
    """
    how = resampling or Resampling()
    questions = same_questions(before, after)
    paired = pair_answers(before.rows(), after.rows(), questions)
    if not paired.rollouts:
        raise TrustError(
            "no rollout is the same in both runs, so nothing tells the judge from what it judged: "
            "judge the saved rollouts of one run again"
        )
    relevant = [label for label in labels if label.criterion in questions]
    people: dict[tuple[str, int, str], Answer] = {}
    if relevant:
        known = {"skip_unknown": skip_unknown, "any_wording": any_wording}
        people = _agreed(join(after.rows(), questions, relevant, **known))
    by_name: dict[str, list[Twice]] = {}
    for twice in paired.answers:
        by_name.setdefault(twice.criterion, []).append(twice)
    found = [_moved(questions[name], pairs, people, how) for name, pairs in by_name.items()]
    criteria = [moved for moved in found if moved is not None]
    values = holm([moved.p for moved in criteria])
    adjusted = (replace(moved, p=p) for moved, p in zip(criteria, values, strict=True))
    return Drift(tuple(adjusted), paired.rollouts, paired.changed, paired.only_one)


def _agreed(joined: Joined) -> dict[tuple[str, int, str], Answer]:
    """What most people say, where they are not split."""
    agreed = {
        (item.example, item.sample, item.criterion): consensus(list(item.people.values()))
        for item in joined.items
    }
    return {key: answer for key, answer in agreed.items() if answer is not None}


def _moved(
    question: Question,
    pairs: Sequence[Twice],
    people: Mapping[tuple[str, int, str], Answer],
    how: Resampling,
) -> Moved | None:
    both = [twice for twice in pairs if twice.before is not None and twice.after is not None]
    valued = [twice for twice in both if _values(question, twice) is not None]
    if not valued:
        return None
    values = np.array([_values(question, twice) for twice in valued], dtype=np.float64)
    rises = np.stack([values[:, 1] - values[:, 0], np.ones(len(values))], axis=1)
    changes = summed([twice.example for twice in valued], list(rises))
    return Moved(
        question.name,
        float(values[:, 0].mean()),
        float(values[:, 1].mean()),
        Clustered(changes, *how).estimate(MEAN),
        sign_flip(changes[:, 0], seed=how.seed),
        rollouts=len(valued),
        unanswered=len(pairs) - len(both),
        accuracy=_accuracy(both, people, how),
    )


def _values(question: Question, twice: Twice) -> tuple[float, float] | None:
    """What both answers are worth; None when one of them is `N/A`."""
    was, now = (question.worth(a) for a in (twice.before, twice.after) if a is not None)
    return None if was is None or now is None else (was, now)


def _accuracy(
    pairs: Sequence[Twice], people: Mapping[tuple[str, int, str], Answer], how: Resampling
) -> tuple[Estimate, Estimate] | None:
    told = [(twice, people[twice[:3]]) for twice in pairs if twice[:3] in people]
    if not told:
        return None
    examples = [twice.example for twice, _ in told]
    before = [np.array([float(twice.before == said), 1.0]) for twice, said in told]
    after = [np.array([float(twice.after == said), 1.0]) for twice, said in told]
    was, now = (Clustered(summed(examples, right), *how) for right in (before, after))
    return was.estimate(SHARE), now.estimate(SHARE)
