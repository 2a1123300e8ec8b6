"""Comparison: two runs on the same examples, held against each other example by example."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from assay.runs import Run
from assay.trust.clusters import MEAN, Clustered
from assay.trust.error import TrustError
from assay.trust.estimate import Estimate, undefined
from assay.trust.example_means import Column, ExampleMeans
from assay.trust.flips import Flip, flips_between
from assay.trust.measures import Resampling
from assay.trust.numeric import np
from assay.trust.significance import holm, mcnemar, sign_flip, smallest_effect


@dataclass(frozen=True)
class Difference:
    """How much higher one figure is in the second run, and whether that could be chance."""

    name: str
    first: float | None
    second: float | None
    """The means of both runs, over the examples that are in both."""
    difference: Estimate
    """Second less first."""
    p: float | None = None
    """The chance of a difference this large between runs that are the same; for criteria, after Holm."""
    test: Literal["mcnemar", "sign_flip", ""] = ""
    examples: int = 0
    """Examples with a value in both runs; repeated rollouts are one example."""
    better: int = 0
    worse: int = 0
    """Examples whose value rose, and fell."""
    smallest_effect: float | None = None
    """The smallest difference that this many examples would show four times out of five, beside
    as many other criteria; None when they are too few to show any."""
    unanswered: tuple[int, int] = (0, 0)
    """Rollouts without a value in each run, because something went wrong."""

    @property
    def fell(self) -> bool:
        """Whether the second run is lower, and beyond chance at 5 %."""
        value = self.difference.value
        return value is not None and value < 0 and self.p is not None and self.p < 0.05

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        plain = ("name", "first", "second", "p", "test", "examples", "better", "worse")
        fields = {name: getattr(self, name) for name in (*plain, "smallest_effect")}
        unanswered = list(self.unanswered)
        return {**fields, "difference": self.difference.to_dict(), "unanswered": unanswered}


@dataclass(frozen=True)
class Comparison:
    """Two runs side by side. Differences are of the second run less the first."""

    score: Difference
    criteria: tuple[Difference, ...]
    """Those that both runs have in the same words; their p-values are adjusted together."""
    flips: tuple[Flip, ...]
    """Rollouts that came out otherwise, the largest change first."""
    examples: int
    """Examples that both runs have."""
    only_first: int = 0
    only_second: int = 0
    """Examples that one run alone has."""
    other_prompt: int = 0
    """Examples that go by the same name in both and ask something else. They are not compared."""
    other_wording: tuple[str, ...] = ()
    """Criteria that are worded otherwise in the second run. They are not compared."""
    other_rubric: bool = False
    """Whether the rubrics differ, so that the scores are not by the same rule."""
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Criteria that only one run has, under `first` and `second`."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        counts = ("examples", "only_first", "only_second", "other_prompt", "other_rubric")
        return {
            **{name: getattr(self, name) for name in counts},
            "score": self.score.to_dict(),
            "criteria": [criterion.to_dict() for criterion in self.criteria],
            "other_wording": list(self.other_wording),
            "missing": {side: list(names) for side, names in self.missing.items()},
            "flips": [flip.to_dict() for flip in self.flips],
        }


def compare(first: Run, second: Run, *, resampling: Resampling | None = None) -> Comparison:
    """Hold two runs against each other. Raises `TrustError` when they have no example in common."""
    how = resampling or Resampling()
    asked, asked_second = _asked(first), _asked(second)
    same = {
        name: question for name, question in asked.items() if asked_second.get(name) == question
    }
    one, other = ExampleMeans.of(first.rows(), same), ExampleMeans.of(second.rows(), same)
    shared = [example for example in one.prompts if example in other.prompts]
    paired = [example for example in shared if one.prompts[example] == other.prompts[example]]
    if not paired:
        raise TrustError(_nothing_shared(one, other, len(shared)))
    differences = [
        _difference(name, one.criteria[name], other.criteria[name], paired, how, len(same))
        for name in same
    ]
    flips = flips_between(first, second, same, set(paired))
    return Comparison(
        score=_difference("score", one.score, other.score, paired, how),
        criteria=_adjusted(differences),
        flips=tuple(sorted(flips, key=lambda flip: -abs(flip.difference))),
        examples=len(paired),
        only_first=len(one.prompts) - len(shared),
        only_second=len(other.prompts) - len(shared),
        other_prompt=len(shared) - len(paired),
        other_wording=tuple(n for n in asked if n in asked_second and n not in same),
        other_rubric=_rubric_hash(first) != _rubric_hash(second),
        missing={
            "first": tuple(name for name in asked if name not in asked_second),
            "second": tuple(name for name in asked_second if name not in asked),
        },
    )


def _asked(run: Run) -> dict[str, str]:
    """The criteria of a run, each with the hash of what decides its answer."""
    criteria = () if run.about.rubric is None else run.about.rubric.criteria
    return {criterion.name: criterion.question or criterion.hash for criterion in criteria}


def _rubric_hash(run: Run) -> str | None:
    return None if run.about.rubric is None else run.about.rubric.hash


def _difference(
    name: str, one: Column, other: Column, paired: Sequence[str], how: Resampling, tests: int = 1
) -> Difference:
    both = [example for example in paired if example in one.sums and example in other.sums]
    unanswered = (one.unanswered, other.unanswered)
    if not both:
        nothing = undefined("no example has a value in both runs")
        return Difference(name, None, None, nothing, unanswered=unanswered)
    first = np.array([one.mean(example) for example in both])
    second = np.array([other.mean(example) for example in both])
    gaps = second - first
    gaps[np.abs(gaps) < 1e-12] = 0.0
    better, worse = int((gaps > 0).sum()), int((gaps < 0).sum())
    plain = one.is_plain and other.is_plain
    return Difference(
        name,
        float(first.mean()),
        float(second.mean()),
        Clustered(np.stack([gaps, np.ones(len(gaps))], axis=1), *how).estimate(MEAN),
        p=mcnemar(better, worse) if plain else sign_flip(gaps, seed=how.seed),
        test="mcnemar" if plain else "sign_flip",
        examples=len(both),
        better=better,
        worse=worse,
        smallest_effect=smallest_effect(gaps, tests=tests, level=how.level),
        unanswered=unanswered,
    )


def _adjusted(differences: Sequence[Difference]) -> tuple[Difference, ...]:
    """The differences with their p-values adjusted for how many there are."""
    tested = [difference for difference in differences if difference.p is not None]
    values = iter(holm([difference.p or 0.0 for difference in tested]))
    return tuple(
        difference if difference.p is None else replace(difference, p=next(values))
        for difference in differences
    )


def _nothing_shared(one: ExampleMeans, other: ExampleMeans, shared: int) -> str:
    if shared:
        return (
            f"all {shared} examples that both runs have ask something else in the second: give rows an "
            "`id` of their own, so that they can be told apart"
        )
    if not one.rollouts or not other.rollouts:
        return "one of the runs has no rows yet"
    here, there = next(iter(one.prompts)), next(iter(other.prompts))
    return (
        f"the runs have no example in common (the first has {here!r}, the second {there!r}): compare "
        "runs on the same data"
    )
