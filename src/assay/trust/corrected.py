"""Corrected: one mean with the judge's bias taken out, by a small set of labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal, TypeAlias

from assay.trust.estimate import Estimate, undefined
from assay.trust.numeric import normal_quantile, np
from assay.trust.observed import Observed, mean_of
from assay.trust.prediction_powered import budget, correlation, prediction_powered
from assay.trust.rogan_gladen import (
    DOUBT,
    beats_chance,
    clustered_rogan_gladen,
    sensitivity,
    specificity,
)
from assay.trust.shares import LEVEL, difference_of

Method: TypeAlias = Literal["prediction_powered", "rogan_gladen"]

FEWEST = 30
"""Labelled examples below which no correction is given: intervals do not hold there."""

_NOT_BINARY = undefined("only for met or not met")


@dataclass(frozen=True)
class Corrected:
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

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        plain = ("name", "refusal", "rollouts", "labels", "unanswered", "more_labels")
        estimates = ("judge", "people", "sensitivity", "specificity")
        return {
            **{name: getattr(self, name) for name in (*plain, "left_at_most", "warning")},
            **{name: getattr(self, name).to_dict() for name in estimates},
            "corrected": {name: estimate.to_dict() for name, estimate in self.corrected.items()},
        }


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

    `people` has None where nobody labelled; the labelled rollouts have to be drawn at random. Answers of 0 and 1
    are corrected by both methods, others by prediction-powered inference. `unit` says that nothing outside of 0 and 1
    is possible.

    >>> judge = [1.0, 1.0, 1.0, 0.0] * 50
    >>> people = [1.0, 1.0, 0.0, 0.0] * 15 + [None] * 140
    >>> found = corrected_mean("polite", judge, people)
    >>> print(found.judge, found.best)
    0.75 [0.69, 0.80] 0.50 [0.39, 0.62]
    """
    observed = _observed(judge, people, examples)
    bounds = (0.0, 1.0) if unit or observed.is_binary else (-inf, inf)
    known: dict[str, Any] = {**_known(observed, bounds, level), "unanswered": unanswered}
    refusal = _refusal(observed)
    if refusal:
        return Corrected(name, refusal=refusal, **known)
    powered = prediction_powered(observed, level).within(*bounds)
    found: dict[Method, Estimate] = {"prediction_powered": powered}
    if observed.is_binary:
        found["rogan_gladen"] = clustered_rogan_gladen(observed, level)
    more = budget(observed)
    return Corrected(
        name,
        corrected=found,
        more_labels=more.to_halve(observed.labels, len(observed.judge)),
        left_at_most=more.left_at_most(observed.labels, len(observed.judge)),
        warning=_warning(observed),
        **known,
    )


def _observed(
    judge: Sequence[float], people: Sequence[float | None], examples: Sequence[str] | None
) -> Observed:
    if len(judge) != len(people) or (examples is not None and len(examples) != len(judge)):
        raise ValueError(
            f"there are {len(judge)} answers of the judge and {len(people)} of people: give one "
            "each, and None where nobody labelled"
        )
    labels = [np.nan if answer is None else float(answer) for answer in people]
    places = np.arange(len(judge), dtype=np.float64)
    if examples is not None:
        numbers = {example: place for place, example in enumerate(dict.fromkeys(examples))}
        places = np.array([numbers[example] for example in examples], dtype=np.float64)
    return Observed(np.array(judge, dtype=np.float64), np.array(labels), places)


def _known(observed: Observed, bounds: tuple[float, float], level: float) -> dict[str, Any]:
    """What can be said with or without a correction."""
    labelled = observed.labelled
    known: dict[str, Any] = {
        "judge": mean_of(observed.judge, observed.examples, level).within(*bounds),
        "people": mean_of(observed.people[labelled], observed.examples[labelled], level).within(
            *bounds
        ),
        "rollouts": len(observed.judge),
        "labels": observed.labels,
    }
    if observed.is_binary:
        rates = {"sensitivity": sensitivity, "specificity": specificity}
        known |= {name: rate(observed, level) for name, rate in rates.items()}
    return known


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
