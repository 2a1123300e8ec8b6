"""Test whether the labelled rollouts look like a random sample of the run.

Agreement and correction describe a run only if its labelled rollouts are a random sample of it.
Three tests compare the labelled rollouts with the others: by the judge's verdicts, by score, and by
their order in the run. They assume that each set of as many rollouts was equally likely to be
labelled; if people labelled all rollouts of each example that they labelled, each set of examples.

- Verdicts are compared by Pearson's chi-square statistic. Its p-value comes from random draws of
  as many examples from the run, so it holds for small samples too.
- Scores, the order, and answers that are numbers are compared by the Kolmogorov-Smirnov test of two
  samples with its asymptotic p-value. With tied values this p-value is too large, never too small.

A selection by anything else, for example by topic, cannot be found.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

from assay.runs.row import Key, Row
from assay.trust.estimate import (
    Array,
    BoolArray,
    IntArray,
    Record,
    np,
    number_examples,
    special,
    split_draws,
)
from assay.trust.questions import Question
from assay.trust.significance import holm

SelectedBy: TypeAlias = Literal["verdict", "score", "order"]

SIGNIFICANCE = 0.01  # a selection is reported if the adjusted p-value is below this
_DRAWS = 10_000  # random draws of examples for one p-value


class LabelSelection(Record):
    """A way in which the labelled rollouts differ from the others beyond chance."""

    by: SelectedBy
    criterion: str  # the criterion whose verdicts differ; empty if it is not by verdict
    p: float  # adjusted for the number of tests (Holm)
    observation: str  # how the labelled rollouts differ
    valid: str  # what can be concluded from the labels
    invalid: str  # what cannot be concluded from them
    # Verdicts that the judge gave in the run, and that no labelled rollout has.
    unlabelled_verdicts: tuple[str, ...] = ()


class JudgedRollout(NamedTuple):
    """What the judge gave to a rollout, labelled or not."""

    key: Key
    score: float | None  # None if it is unscored
    values: Mapping[str, float]  # by criterion; criteria without an answer are left out


def read_judged_rollout(row: Row, criteria: Collection[str]) -> JudgedRollout:
    """Return what the judge gave to the rollout of a row, on these criteria."""
    values = {name: value for name, value in row.report.metrics.items() if name in criteria}
    return JudgedRollout(row.key, row.score, values)


def find_selection(
    rollouts: Sequence[JudgedRollout],
    questions: Mapping[str, Question],
    labelled: Mapping[str, Collection[Key]],
) -> tuple[LabelSelection, ...]:
    """Return the ways in which the labelled rollouts differ from the others beyond chance.

    They are compared by the verdicts on each criterion, by score and by order. `rollouts` are all
    rollouts of the run, in its order. `labelled` holds the keys of the labelled ones, by criterion.
    """
    comparisons: list[LabelSelection] = []  # with p-values that are not adjusted yet
    for name, keys in labelled.items():
        answered = [rollout for rollout in rollouts if name in rollout.values]
        sample = Sample.build(answered, keys)
        values = np.array([rollout.values[name] for rollout in answered])
        comparisons.append(_compare_verdicts(sample, questions[name], values))
    labelled_keys = {key for keys in labelled.values() for key in keys}
    scored = [rollout for rollout in rollouts if rollout.score is not None]
    scores = np.array([rollout.score for rollout in scored], dtype=np.float64)
    comparisons.append(_compare_scores(Sample.build(scored, labelled_keys), scores))
    comparisons.append(_compare_order(Sample.build(rollouts, labelled_keys)))
    selections: list[LabelSelection] = []
    p_values = holm([comparison.p for comparison in comparisons])
    for comparison, p in zip(comparisons, p_values, strict=True):
        if p < SIGNIFICANCE:
            selections.append(replace(comparison, p=p))
    return tuple(selections)


def _compare_verdicts(sample: "Sample", question: Question, values: Array) -> LabelSelection:
    """Compare the judge's answers to a question on labelled rollouts and on the others.

    The result also says which figures can be trusted (`valid`) if they differ, and which cannot.
    """
    if not question.choices:
        return _compare_numbers(sample, question.name, values)
    labelled = values[sample.labelled_rollouts]
    others = values[~sample.labelled_rollouts]
    unlabelled_verdicts = _find_unlabelled_verdicts(question, labelled, others)
    invalid = (
        "same verdict, macro-F1, kappa, alpha, correlation, recall, sensitivity, specificity and "
        "bias for the run"
    )
    if unlabelled_verdicts:
        invalid += (
            f"; anything about rollouts that the judge called {' or '.join(unlabelled_verdicts)}, "
            "because none of them is labelled"
        )
    return LabelSelection(
        by="verdict",
        criterion=question.name,
        p=sample.compare_categories(values),
        observation=_describe_clearest_difference(question, labelled, others),
        valid=(
            "precision, the share of a verdict that people confirm, if the labelled rollouts were "
            "drawn at random among those with this verdict"
        ),
        invalid=invalid,
        unlabelled_verdicts=unlabelled_verdicts,
    )


def _compare_numbers(sample: "Sample", name: str, values: Array) -> LabelSelection:
    """Compare the judge's numbers on labelled rollouts and on the others.

    `name` is the criterion that they answer. The result also says which figures can be trusted if
    they differ (`valid`), and which cannot.
    """
    return LabelSelection(
        by="verdict",
        criterion=name,
        p=sample.compare_values(values),
        observation=_describe_means(f"the mean of {name}", sample, values),
        valid="alpha and bias for rollouts with such values",
        invalid="alpha and bias for the run",
    )


def _find_unlabelled_verdicts(
    question: Question, labelled: Array, others: Array
) -> tuple[str, ...]:
    """Return the verdicts that the judge gave, but to no labelled rollout."""
    return tuple(
        choice
        for choice, value in question.values.items()
        if np.isclose(others, value).any() and not np.isclose(labelled, value).any()
    )


def _describe_clearest_difference(question: Question, labelled: Array, others: Array) -> str:
    """Return how often the judge gave the verdict that is most overrepresented among the labelled."""

    def get_gap(choice: str) -> float:
        value = question.values[choice]
        return _get_share(labelled, value) - _get_share(others, value)

    choice = max(question.choices, key=get_gap)
    value = question.values[choice]
    return (
        f"the judge called {_get_share(labelled, value):.0%} of the labelled rollouts {choice}, "
        f"and {_get_share(others, value):.0%} of the others"
    )


def _get_share(values: Array, value: float) -> float:
    """Return the share of values that are this one; 0 if there are no values."""
    return float(np.isclose(values, value).mean()) if len(values) else 0.0


def _compare_scores(sample: "Sample", scores: Array) -> LabelSelection:
    """Compare the scores of the labelled rollouts with those of the others."""
    return LabelSelection(
        by="score",
        criterion="",
        p=sample.compare_values(scores),
        observation=_describe_means("the mean score", sample, scores),
        valid="the figures for rollouts with such scores",
        invalid="the figures for the run",
    )


def _describe_means(name: str, sample: "Sample", values: Array) -> str:
    """Return in words the means over the labelled rollouts and over the others.

    `name` is what they are the means of. Empty if there are no labelled rollouts, or no others.
    """
    labelled = values[sample.labelled_rollouts]
    others = values[~sample.labelled_rollouts]
    if not len(labelled) or not len(others):
        return ""
    return (
        f"{name} is {labelled.mean():.2f} for the labelled rollouts, and {others.mean():.2f} for "
        "the others"
    )


def _compare_order(sample: "Sample") -> LabelSelection:
    """Compare the positions of the labelled rollouts in the run with those of the others."""
    positions = np.arange(1, len(sample.labelled_rollouts) + 1, dtype=np.float64)
    observation = ""
    if sample.can_be_compared:
        first, last = np.quantile(positions[sample.labelled_rollouts], (0.25, 0.75)).round()
        observation = (
            f"the middle half of the labelled rollouts are rollouts {first:,.0f} to {last:,.0f} of "
            f"{len(positions):,}"
        )
    return LabelSelection(
        by="order",
        criterion="",
        p=sample.compare_values(positions),
        observation=observation,
        valid="the figures for this part of the run, and for all of it if its order is random",
        invalid="the figures for the run if its rows are sorted or grouped",
    )


class Sample(NamedTuple):
    """Which rollouts are labelled, and what was drawn: single rollouts or whole examples."""

    labelled_rollouts: BoolArray
    # The number of the example that each rollout is of; of the rollout itself if those were drawn.
    units: IntArray
    labelled_units: BoolArray

    @classmethod
    def build(cls, rollouts: Sequence[JudgedRollout], labelled: Collection[Key]) -> "Sample":
        """Return the sample of these rollouts, of which those with the keys `labelled` are labelled."""
        examples = number_examples([rollout.key[0] for rollout in rollouts])
        is_labelled = [rollout.key in labelled for rollout in rollouts]
        return cls.from_arrays(np.array(examples), np.array(is_labelled, dtype=np.bool_))

    @classmethod
    def from_arrays(cls, examples: Array | IntArray, labelled: BoolArray) -> "Sample":
        """Return the sample of labelled rollouts, and what was drawn: whole examples or rollouts.

        Whole examples were drawn if all rollouts of each labelled example are labelled. `examples`
        holds the number of the example that each rollout is of, counted from 0, and `labelled`
        whether the rollout is labelled.
        """
        examples = examples.astype(np.intp)
        rollout_counts = np.bincount(examples)  # by example
        label_counts = np.bincount(examples[labelled], minlength=len(rollout_counts))
        is_all_or_nothing = (label_counts == 0) | (label_counts == rollout_counts)
        if is_all_or_nothing.all():
            return cls(labelled, units=examples, labelled_units=label_counts > 0)
        rollout_numbers = np.arange(len(labelled))
        return cls(labelled, units=rollout_numbers, labelled_units=labelled)

    @property
    def can_be_compared(self) -> bool:
        """Whether there are labelled rollouts and others."""
        return bool(self.labelled_rollouts.any()) and not bool(self.labelled_rollouts.all())

    def compare_categories(self, values: Array) -> float:
        """Return the p-value of a chi-square test: do labelled rollouts have values as all rollouts?

        `values` holds the value of each rollout, of which there are few different ones. The p-value
        is the share of random draws that differ from the whole at least as much as the labelled
        rollouts. Each draw has as many units (rollouts or whole examples) as are labelled.
        """
        if not self.can_be_compared:
            return 1.0
        counts = self._count_values(values)
        expected_shares = counts.sum(axis=0) / counts.sum()  # of each distinct value

        def compute_statistic(value_counts: Array) -> Array:
            """Return Pearson's chi-square statistic of counts, without the factor of their number."""
            shares = value_counts / value_counts.sum(axis=-1, keepdims=True)
            return ((shares - expected_shares) ** 2 / expected_shares).sum(axis=-1)

        observed = float(compute_statistic(counts[self.labelled_units].sum(axis=0)))
        threshold = observed - 1e-9  # equal statistics may differ by rounding
        as_large = 0
        for drawn_counts in self._draw_counts(counts):
            as_large += int((compute_statistic(drawn_counts) >= threshold).sum())
        return (as_large + 1) / (_DRAWS + 1)

    def _count_values(self, values: Array) -> Array:
        """Return a table of how often each unit (row) has each distinct value (column).

        A unit is a rollout or a whole example, and `values` holds the value of each rollout.
        """
        _, categories = np.unique(values, return_inverse=True)
        counts = np.zeros((len(self.labelled_units), int(categories.max()) + 1))
        np.add.at(counts, (self.units, categories), 1.0)
        return counts

    def _draw_counts(self, counts: Array) -> Iterator[Array]:
        """Yield how often each value occurs in random draws of as many units as are labelled.

        A unit is a rollout or a whole example. `counts[u, v]` is how often unit u has value v. Each
        result is a table with a row for each draw and a column for each value; there are several
        results, since all draws together may not fit into memory.
        """
        # Units with the same counts are of one kind. There are few kinds, and how many units of each
        # kind are drawn has a hypergeometric distribution.
        kinds, kind_of_unit = np.unique(counts, axis=0, return_inverse=True)
        kind_sizes = np.bincount(kind_of_unit.ravel())
        labelled_count = int(self.labelled_units.sum())
        generator = np.random.default_rng(0)
        for draws in split_draws(_DRAWS, len(kinds)):
            drawn_kinds = generator.multivariate_hypergeometric(
                kind_sizes, labelled_count, size=draws
            )
            yield drawn_kinds.astype(np.float64) @ kinds

    def compare_values(self, values: Array) -> float:
        """Return the p-value of a Kolmogorov-Smirnov test of labelled units and the others.

        A unit is a rollout or a whole example, with the mean of its rollouts as its value. `values`
        holds the value of each rollout.
        """
        if not self.can_be_compared:
            return 1.0
        means = np.bincount(self.units, weights=values) / np.bincount(self.units)
        labelled = np.sort(means[self.labelled_units])
        others = np.sort(means[~self.labelled_units])
        # For each mean, the share of each group that is not above it.
        labelled_shares = np.searchsorted(labelled, means, side="right") / len(labelled)
        other_shares = np.searchsorted(others, means, side="right") / len(others)
        distance = float(np.abs(labelled_shares - other_shares).max())
        # Two samples of these sizes are worth one sample of this size.
        effective_size = len(labelled) * len(others) / len(means)
        return float(special.kolmogorov(effective_size**0.5 * distance))
