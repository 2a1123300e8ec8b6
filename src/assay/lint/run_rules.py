"""Find faults of a rubric in the verdicts of a run: R100 to R105.

Verdicts may always be the same, add nothing to other verdicts, or not be reliable. Intervals take
examples as independent, not rollouts.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from os import PathLike
from typing import Final

from assay.criterion import Criterion
from assay.lint.findings import RULES, Finding, Hit
from assay.lint.linter import PlacedCriterion
from assay.messages import visible_text
from assay.runs import Row, Run, RunError
from assay.trust.estimate import (
    LEVEL,
    Array,
    BoolArray,
    Estimate,
    IntArray,
    normal_quantile,
    np,
    sums_by_example,
    wilson,
)
from assay.wording import format_count

# Examples needed to say that verdicts are constant, redundant or a matter of length.
FEWEST_EXAMPLES: Final = 30
# Texts that were judged more than once needed to say that verdicts are unstable.
FEWEST_REPEATS: Final = 10
# Other criteria needed to say that a criterion does not agree with the rest of the rubric.
FEWEST_OTHERS: Final = 4
# Occurrences of the rarer verdict needed for a correlation to mean something.
FEWEST_RARE: Final = 5
CHANCE: Final = (0.4, 0.6)  # a separation within these bounds is no better than chance
SAME: Final = 0.9  # with a correlation of at least this, one of two criteria is redundant
UNSTABLE: Final = 0.05  # a larger share of texts with changing verdicts is a fault
LONG: Final = 0.5  # with a correlation of at least this, length decides the verdicts


@dataclass(frozen=True)
class RunColumns:
    """The rollouts of a run as columns.

    A value is NaN if there is no answer, or if the criterion does not apply.
    """

    examples: Array  # the number of each rollout's example
    # The number of each rollout's text. Rollouts of one example with the same text have the same.
    texts: Array
    lengths: Array  # characters of the completion without reasoning
    values: Mapping[str, Array]  # the value of each criterion's verdict, by name

    def answered(self, name: str) -> IntArray:
        """Return the indexes of the rollouts for which a criterion has a value."""
        return np.flatnonzero(np.isfinite(self.values[name]))

    def count_answered_examples(self, name: str) -> int:
        """Return the number of examples for which a criterion has a value."""
        return len(np.unique(self.examples[self.answered(name)]))


def read_columns(rows: Iterable[Row]) -> RunColumns:
    """Return the columns of a run, in one pass. A rollout with an error has no values."""
    examples, texts, lengths = array("d"), array("d"), array("d")
    example_numbers: dict[str, int] = {}
    text_numbers: dict[tuple[str, str], int] = {}
    columns: dict[str, array[float]] = {}
    for index, row in enumerate(rows):
        text = visible_text(row.fields.get("completion"))
        examples.append(example_numbers.setdefault(row.example, len(example_numbers)))
        texts.append(text_numbers.setdefault((row.example, text), len(text_numbers)))
        lengths.append(len(text))
        if row.error is not None:
            continue
        for line in row.report.lines:
            column = columns.setdefault(line.name, array("d"))
            column.extend([np.nan] * (index - len(column)))  # earlier rollouts without this line
            if len(column) == index:  # a name that occurs twice in a group is read once
                column.append(np.nan if line.value is None else line.value)
    for column in columns.values():
        column.extend([np.nan] * (len(examples) - len(column)))
    return RunColumns(
        examples=np.array(examples),
        texts=np.array(texts),
        lengths=np.array(lengths),
        values={name: np.array(column) for name, column in columns.items()},
    )


def find_run_findings(
    run: "str | PathLike[str] | Run", placed_criteria: Sequence[PlacedCriterion]
) -> Iterator[Finding]:
    """Yield what the verdicts of a run say about these criteria.

    Criteria that the run does not have, or that had another wording, are left out.
    """
    if not isinstance(run, Run):
        run = Run.open(run)
    about = run.about.rubric
    hashes_in_run: dict[str, str] = {}
    if about is not None:
        hashes_in_run = {criterion.name: criterion.question for criterion in about.criteria}
    same: dict[str, PlacedCriterion] = {}
    for placed in placed_criteria:
        criterion = placed.criterion
        if hashes_in_run.get(criterion.name) == criterion.question_hash:
            # If several have the same name, that of the outermost rubric, which comes first.
            same.setdefault(criterion.name, placed)
    if not same:
        raise RunError(
            f"{run.path} has no verdict on any criterion of this rubric as it stands: "
            "name a run of this rubric, or score the run again with it"
        )
    criteria = {name: placed.criterion for name, placed in same.items()}
    for name, hit in find_run_hits(read_columns(run.rows()), criteria):
        if not name:  # about the run as a whole
            yield Finding(hit.rule, "", hit.message, hit.fix, RULES[hit.rule].severity)
        elif not same[name].ignores(hit.rule):
            yield same[name].finding(hit)


def find_run_hits(
    columns: RunColumns, criteria: Mapping[str, Criterion]
) -> Iterator[tuple[str, Hit]]:
    """Yield what the columns of a run say about each criterion, with its name.

    A hit about the run as a whole has an empty name.
    """
    known = {name: criterion for name, criterion in criteria.items() if name in columns.values}
    yield from find_unstable(columns, known)
    example_count = len(np.unique(columns.examples))
    if example_count < FEWEST_EXAMPLES:
        count = format_count(example_count, "example")
        message = f"the run has {count}, and R101, R102, R103 and R105 need {FEWEST_EXAMPLES}"
        yield "", Hit("R100", message, "score more examples")
        return
    constant: dict[str, Criterion] = {}
    varied: dict[str, Criterion] = {}
    for name, criterion in known.items():
        if columns.count_answered_examples(name) < FEWEST_EXAMPLES:
            continue
        values = np.unique(columns.values[name][columns.answered(name)])
        if len(values) > 1:
            varied[name] = criterion
        else:
            constant[name] = criterion
    yield from describe_constant(columns, constant)
    yield from find_pointless(columns, varied)
    yield from find_redundant(columns, varied)
    yield from find_led_by_length(columns, varied)


def describe_constant(
    columns: RunColumns, criteria: Mapping[str, Criterion]
) -> Iterator[tuple[str, Hit]]:
    """Yield a hit for each of these criteria, whose verdict is always the same.

    It is only a note for a guard: a fault or a required criterion that no rollout fails.
    """
    for name, criterion in criteria.items():
        value = float(columns.values[name][columns.answered(name)[0]])
        count = columns.count_answered_examples(name)
        shown_value = f"{value:g}"
        if criterion.judged:
            for verdict, verdict_value in criterion.values.items():
                if verdict_value == value:
                    shown_value = verdict
                    break
        # If none of n responses has another verdict, at most a share of 3/n has (rule of three).
        message = (
            f"all {format_count(count, 'example')} have the verdict {shown_value}; "
            f"at most {300 / count:.0f} % of responses may come out otherwise"
        )
        is_guard = (criterion.weight < 0 or criterion.required) and criterion.passes(value)
        advice = "drop it, ask for more, or keep it as a guard"
        yield name, Hit("R101", message, advice, severity="note" if is_guard else None)


def find_pointless(
    columns: RunColumns, criteria: Mapping[str, Criterion]
) -> Iterator[tuple[str, Hit]]:
    """Find criteria whose verdicts have nothing to do with the other verdicts, or oppose them."""
    counted = [name for name, criterion in criteria.items() if criterion.counts]
    if len(counted) <= FEWEST_OTHERS:
        return
    # Turned round for faults, so that a larger value always means a better response.
    goodness: dict[str, Array] = {}
    for name in counted:
        sign = 1 if criteria[name].weight >= 0 else -1
        goodness[name] = columns.values[name] * sign
    for name in counted:
        others = np.array([goodness[other] for other in counted if other != name])
        rows = columns.answered(name)
        has_other_verdict = np.isfinite(others[:, rows]).any(axis=0)
        rows = rows[has_other_verdict]
        own_values = goodness[name][rows]
        # How well the mean of the other verdicts separates the better responses from the others.
        estimate = separation(
            values=np.nanmean(others[:, rows], axis=0),
            is_high=own_values > own_values.mean(),
            examples=columns.examples[rows],
        )
        if estimate.low is None or estimate.high is None:
            continue
        if estimate.high < 0.5:
            message = f"responses that do well on the rest do badly here (separation {estimate})"
            advice = "see whether its weight has the right sign, and whether it asks what it should"
            yield name, Hit("R102", message, advice)
        elif estimate.low >= CHANCE[0] and estimate.high <= CHANCE[1]:
            message = (
                "responses that pass it do no better on the rest than those that fail "
                f"(separation {estimate})"
            )
            advice = "keep it if it is a matter of its own, else drop it or ask more exactly"
            yield name, Hit("R102", message, advice, severity="note")


def find_redundant(
    columns: RunColumns, criteria: Mapping[str, Criterion]
) -> Iterator[tuple[str, Hit]]:
    """Find criteria whose verdicts are the same as those of an earlier one, or the opposite."""
    reported: set[str] = set()
    for first, second in combinations(criteria, 2):
        has_both = np.isfinite(columns.values[first]) & np.isfinite(columns.values[second])
        rows = np.flatnonzero(has_both)
        first_values = columns.values[first][rows]
        second_values = columns.values[second][rows]
        rare_count = min(_count_rare(first_values), _count_rare(second_values))
        if second in reported or rare_count < FEWEST_RARE:
            continue
        estimate = correlation(first_values, second_values, columns.examples[rows])
        if estimate.low is None or estimate.high is None:
            continue
        if estimate.low >= SAME:
            relation = "the same verdicts as"
        elif estimate.high <= -SAME:
            relation = "the opposite verdicts of"
        else:
            continue
        reported.add(second)
        message = f"it has {relation} '{first}' (correlation {estimate})"
        yield second, Hit("R103", message, "drop one of the two, or make them ask different things")


def find_unstable(
    columns: RunColumns, criteria: Mapping[str, Criterion]
) -> Iterator[tuple[str, Hit]]:
    """Find criteria that give the same text different verdicts when it is judged again."""
    for name in criteria:
        rows = columns.answered(name)
        values = columns.values[name][rows]
        texts, text_indexes, counts = np.unique(
            columns.texts[rows], return_inverse=True, return_counts=True
        )
        is_repeated = counts > 1
        repeated_count = int(is_repeated.sum())
        if repeated_count < FEWEST_REPEATS:
            continue
        # The lowest and the highest value of each text.
        lowest = np.full(len(texts), np.inf)
        highest = np.full(len(texts), -np.inf)
        np.minimum.at(lowest, text_indexes, values)
        np.maximum.at(highest, text_indexes, values)
        changed_count = int((is_repeated & (highest > lowest)).sum())
        share = wilson(changed_count, repeated_count)
        if share.low is not None and share.low > UNSTABLE:
            message = (
                f"{changed_count} of {repeated_count} texts that were judged again got another "
                f"verdict (share {share})"
            )
            yield name, Hit("R104", message, "ask more exactly, or let several judges vote")


def find_led_by_length(
    columns: RunColumns, criteria: Mapping[str, Criterion]
) -> Iterator[tuple[str, Hit]]:
    """Find judged criteria whose verdicts follow the length of the response."""
    for name, criterion in criteria.items():
        if not criterion.judged:
            continue
        rows = columns.answered(name)
        estimate = clustered_rank_correlation(
            columns.values[name][rows], columns.lengths[rows], columns.examples[rows]
        )
        if estimate.low is None or estimate.high is None:
            continue
        if estimate.low >= LONG:
            comparative = "longer"
        elif estimate.high <= -LONG:
            comparative = "shorter"
        else:
            continue
        message = (
            f"the {comparative} a response, the more it is met "
            f"(rank correlation with length {estimate})"
        )
        yield name, Hit("R105", message, "ask for something that length alone does not bring")


def _count_rare(values: Array) -> int:
    """Return how many values differ from the most common one."""
    if not len(values):
        return 0
    _, counts = np.unique(values, return_counts=True)
    return len(values) - int(counts.max())


# How strongly two columns are related.


def clustered_rank_correlation(first: Array, second: Array, examples: Array) -> Estimate:
    """Return Spearman's rank correlation of two columns, with an interval for whole examples."""
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return Estimate(reason="one of the two is always the same")
    first_ranks = _standardize(mid_ranks(first))
    second_ranks = _standardize(mid_ranks(second))
    value = float(np.clip((first_ranks * second_ranks).mean(), -1, 1))
    # The influence of each row on a correlation; see Boos and Stefanski, Essential Statistical Inference.
    influence = first_ranks * second_ranks - value / 2 * (first_ranks**2 + second_ranks**2)
    return _estimate_by_influence(value, influence / len(first), examples, lowest=-1.0)


def separation(values: Array, is_high: BoolArray, examples: Array) -> Estimate:
    """Return the chance that a high row has a larger value than another row.

    This is the area under the ROC curve.
    """
    high_count = int(is_high.sum())
    low_count = int((~is_high).sum())
    if not high_count or not low_count:
        return Estimate(reason="all rows are alike")
    ranks = mid_ranks(values)
    # For each high row, the share of low rows below it; for each low row, of high rows above it.
    share_below = (ranks[is_high] - mid_ranks(values[is_high])) / low_count
    share_above = 1 - (ranks[~is_high] - mid_ranks(values[~is_high])) / high_count
    value = float(share_below.mean())
    influence = np.empty(len(values))
    # The components of DeLong, DeLong and Clarke-Pearson (1988), summed by example.
    influence[is_high] = (share_below - value) / high_count
    influence[~is_high] = (share_above - value) / low_count
    return _estimate_by_influence(value, influence, examples, lowest=0.0)


def correlation(first: Array, second: Array, examples: Array) -> Estimate:
    """Return Pearson's correlation of two columns that vary.

    Fisher's interval is for as many answers as there are examples.
    """
    count = len(np.unique(examples))
    value = float(np.clip((_standardize(first) * _standardize(second)).mean(), -1, 1))
    if count < 4:
        return Estimate(value, reason="fewer than four examples give no interval")
    # A correlation of 1 would have no interval, although a later pair may still disagree.
    largest = 1 - 1 / count
    centre = np.arctanh(np.clip(value, -largest, largest))
    half_width = normal_quantile((1 + LEVEL) / 2) / (count - 3) ** 0.5
    return Estimate(value, float(np.tanh(centre - half_width)), float(np.tanh(centre + half_width)))


def mid_ranks(values: Array) -> Array:
    """Return the rank of each value, from 1; equal values share the mean of their ranks."""
    _, value_indexes, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    return ranks[value_indexes]


def _standardize(values: Array) -> Array:
    """Return values with a mean of 0 and a standard deviation of 1."""
    return (values - values.mean()) / values.std()


def _estimate_by_influence(
    value: float, influence: Array, examples: Array, *, lowest: float
) -> Estimate:
    """Return an estimate with a normal interval, limited to the range from `lowest` to 1.

    `influence` is how much each row moves the value. Its sums by example are independent, so the
    variance of the value is the sum of their squares.
    """
    influence_of_examples = sums_by_example(influence, examples)
    standard_error = float((influence_of_examples**2).sum()) ** 0.5
    half_width = normal_quantile((1 + LEVEL) / 2) * standard_error
    return Estimate(value, max(lowest, value - half_width), min(1.0, value + half_width))
