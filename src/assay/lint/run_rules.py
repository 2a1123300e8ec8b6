"""Find what the verdicts of a run tell about a rubric: R100 to R105.

Verdicts may never change, say nothing new, or not be relied on. Intervals take whole examples for independent.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from os import PathLike
from typing import Any, Final

from assay.criterion import Criterion
from assay.lint.findings import RULES, Finding, Hit
from assay.lint.linter import PlacedCriterion
from assay.messages import visible_text
from assay.runs import Row, Run, RunError
from assay.trust.estimate import (
    LEVEL,
    Array,
    Estimate,
    normal_quantile,
    np,
    sums_by_example,
    wilson,
)
from assay.wording import format_count

FEWEST_EXAMPLES: Final = (
    30  # examples from which verdicts can be told to be constant, redundant or about length
)
FEWEST_REPEATS: Final = (
    10  # texts judged more than once from which verdicts can be told to be unstable
)
FEWEST_OTHERS: Final = 4  # other criteria that make up a score to be told apart from
RAREST: Final = 5  # times that the rarer verdict must occur for a correlation to mean something
CHANCE: Final = (0.4, 0.6)  # separation within these bounds is no better than chance
SAME: Final = 0.9  # a correlation of at least this much makes one of two criteria redundant
UNSTABLE: Final = 0.05  # the share of texts with changing verdicts that is too much
LONG: Final = 0.5  # a correlation with length of at least this much rules the verdicts


@dataclass(frozen=True)
class RunColumns:
    """One row a rollout. A value is NaN where there is no answer, or the question does not apply."""

    examples: Array  # the number of the example that each row is of
    texts: Array  # the number of the text: rows with one number are of one example and say the same
    lengths: Array  # characters of the completion without reasoning
    values: Mapping[str, Array]  # what each criterion's verdict is worth, by name

    def answered(self, name: str) -> "np.ndarray[tuple[int], np.dtype[np.intp]]":
        """The places of the rows where a criterion has a value."""
        return np.flatnonzero(np.isfinite(self.values[name]))

    def answered_examples(self, name: str) -> int:
        return len(np.unique(self.examples[self.answered(name)]))


def columns_of(rows: Iterable[Row]) -> RunColumns:
    """The columns of a run, in one pass. A row of which nothing could be scored has only gaps."""
    examples, texts, lengths = array("d"), array("d"), array("d")
    example_numbers: dict[str, int] = {}
    text_numbers: dict[tuple[str, str], int] = {}
    found: dict[str, array[float]] = {}
    for place, row in enumerate(rows):
        text = visible_text(row.fields.get("completion"))
        examples.append(example_numbers.setdefault(row.example, len(example_numbers)))
        texts.append(text_numbers.setdefault((row.example, text), len(text_numbers)))
        lengths.append(len(text))
        for line in () if row.error is not None else row.report.lines:
            column = found.setdefault(line.name, array("d"))
            column.extend([np.nan] * (place - len(column)))  # rows that had nothing to say
            if len(column) == place:  # a name that stands twice in a group is read once
                column.append(np.nan if line.value is None else line.value)
    for column in found.values():
        column.extend([np.nan] * (len(examples) - len(column)))
    values = {name: np.array(column) for name, column in found.items()}
    return RunColumns(np.array(examples), np.array(texts), np.array(lengths), values)


def findings_of_run(
    run: "str | PathLike[str] | Run", asked: Sequence[PlacedCriterion]
) -> Iterator[Finding]:
    """What the verdicts of a run tell about these criteria, without those that it had in other words, or not at all."""
    opened = run if isinstance(run, Run) else Run.open(run)
    about = opened.about.rubric
    known = {} if about is None else {each.name: each.question for each in about.criteria}
    same: dict[str, PlacedCriterion] = {}
    for item in asked:  # a rubric before those inside it
        if known.get(item.criterion.name) == item.criterion.question_hash:
            same.setdefault(item.criterion.name, item)
    if not same:
        said = f"{opened.path} has no verdict on any criterion of this rubric as it stands"
        raise RunError(f"{said}: name a run of this rubric, or score the run again with it")
    for name, hit in hits_of_run(
        columns_of(opened.rows()), {name: item.criterion for name, item in same.items()}
    ):
        if not name:
            yield Finding(hit.rule, "", hit.message, hit.fix, RULES[hit.rule].severity)
        elif not same[name].ignores(hit.rule):
            yield same[name].finding(hit)


def hits_of_run(
    columns: RunColumns, criteria: Mapping[str, Criterion]
) -> Iterator[tuple[str, Hit]]:
    """What the columns of a run tell about each criterion, by name; under no name, about the run."""
    known = {name: c for name, c in criteria.items() if name in columns.values}
    yield from unstable(columns, known)
    examples = len(np.unique(columns.examples))
    if examples < FEWEST_EXAMPLES:
        has = format_count(examples, "example")
        message = f"the run has {has}, and R101, R102, R103 and R105 need {FEWEST_EXAMPLES}"
        yield "", Hit("R100", message, "score more examples")
        return
    plenty = {
        name: c for name, c in known.items() if columns.answered_examples(name) >= FEWEST_EXAMPLES
    }
    varied = {
        name: c
        for name, c in plenty.items()
        if len(np.unique(columns.values[name][columns.answered(name)])) > 1
    }
    yield from constant(columns, {name: c for name, c in plenty.items() if name not in varied})
    yield from pointless(columns, varied)
    yield from redundant(columns, varied)
    yield from led_by_length(columns, varied)


def constant(columns: RunColumns, criteria: Mapping[str, Criterion]) -> Iterator[tuple[str, Hit]]:
    """Criteria whose verdict is always the same. Of a fault or a veto that never fires it is a note."""
    for name, criterion in criteria.items():
        value = float(columns.values[name][columns.answered(name)[0]])
        count = columns.answered_examples(name)
        verdicts = (verdict for verdict, worth in criterion.values.items() if worth == value)
        verdict = next(verdicts, None) if criterion.judged else None
        # With none in n, less than 3/n may be otherwise (the rule of three).
        said = f"all {format_count(count, 'example')} have the verdict {verdict or f'{value:g}'}"
        message = f"{said}; at most {300 / count:.0f} % of responses may come out otherwise"
        guards = (criterion.weight < 0 or criterion.required) and criterion.passes(value)
        advice = "drop it, ask for more, or keep it as a guard"
        yield name, Hit("R101", message, advice, severity="note" if guards else None)


def pointless(columns: RunColumns, criteria: Mapping[str, Criterion]) -> Iterator[tuple[str, Hit]]:
    """Criteria whose verdict has nothing to do with the other verdicts, or goes against them."""
    counted = [name for name, criterion in criteria.items() if criterion.counts]
    if len(counted) <= FEWEST_OTHERS:
        return
    # How good the news is: a fault that is there is bad news.
    credit = {
        name: columns.values[name] * (1 if criteria[name].weight >= 0 else -1) for name in counted
    }
    for name in counted:
        others = np.array([credit[other] for other in counted if other != name])
        rows = columns.answered(name)
        rows = rows[np.isfinite(others[:, rows]).any(axis=0)]
        own = credit[name][rows]
        found = separation(
            np.nanmean(others[:, rows], axis=0), own > own.mean(), columns.examples[rows]
        )
        if found.low is None or found.high is None:
            continue
        if found.high < 0.5:
            message = f"responses that do well on the rest do badly here (separation {found})"
            advice = "see whether its weight has the right sign, and whether it asks what it should"
            yield name, Hit("R102", message, advice)
        elif found.low >= CHANCE[0] and found.high <= CHANCE[1]:
            message = f"responses that pass it do no better on the rest than those that fail (separation {found})"
            advice = "keep it if it is a matter of its own, else drop it or ask more exactly"
            yield name, Hit("R102", message, advice, severity="note")


def redundant(columns: RunColumns, criteria: Mapping[str, Criterion]) -> Iterator[tuple[str, Hit]]:
    """Find criteria whose verdicts are the same as those of an earlier one, or the opposite."""
    reported: set[str] = set()
    for first, second in combinations(criteria, 2):
        has_both = np.isfinite(columns.values[first]) & np.isfinite(columns.values[second])
        rows = np.flatnonzero(has_both)
        first_values = columns.values[first][rows]
        second_values = columns.values[second][rows]
        is_constant = min(_rarer(first_values), _rarer(second_values)) < RAREST
        if second in reported or is_constant:
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


def unstable(columns: RunColumns, criteria: Mapping[str, Criterion]) -> Iterator[tuple[str, Hit]]:
    """Criteria that give the same text different verdicts when it is judged again."""
    for name in criteria:
        rows = columns.answered(name)
        texts, places, counts = np.unique(
            columns.texts[rows], return_inverse=True, return_counts=True
        )
        repeated = np.flatnonzero(counts > 1)
        if len(repeated) < FEWEST_REPEATS:
            continue
        lowest, highest = np.full(len(texts), np.inf), np.full(len(texts), -np.inf)
        np.minimum.at(lowest, places, columns.values[name][rows])
        np.maximum.at(highest, places, columns.values[name][rows])
        changed = int((highest > lowest)[repeated].sum())
        found = wilson(changed, len(repeated))
        if found.low is not None and found.low > UNSTABLE:
            message = f"{changed} of {len(repeated)} texts that were judged again got another verdict (share {found})"
            yield name, Hit("R104", message, "ask more exactly, or let several judges vote")


def led_by_length(
    columns: RunColumns, criteria: Mapping[str, Criterion]
) -> Iterator[tuple[str, Hit]]:
    """Judged criteria whose verdicts follow the length of the response."""
    for name, criterion in criteria.items():
        if not criterion.judged:
            continue
        rows = columns.answered(name)
        found = clustered_rank_correlation(
            columns.values[name][rows], columns.lengths[rows], columns.examples[rows]
        )
        if found.low is None or found.high is None or max(found.low, -found.high) < LONG:
            continue
        which = "longer" if found.low > 0 else "shorter"
        message = (
            f"the {which} a response, the more it is met (rank correlation with length {found})"
        )
        yield name, Hit("R105", message, "ask for something that length alone does not bring")


def _rarer(values: Array) -> int:
    """How many rows have another value than the most common one; none of no rows."""
    return len(values) - int(np.unique(values, return_counts=True)[1].max(initial=0))


# How two columns go together.


def clustered_rank_correlation(one: Array, two: Array, examples: Array) -> Estimate:
    if np.ptp(one) == 0 or np.ptp(two) == 0:
        return Estimate(reason="one of the two is always the same")
    first, second = _standard(mid_ranks(one)), _standard(mid_ranks(two))
    value = float(np.clip((first * second).mean(), -1, 1))
    # The influence of each row on a correlation; see Boos and Stefanski, Essential Statistical Inference.
    influence = first * second - value / 2 * (first**2 + second**2)
    return _around(value, influence / len(first), examples, -1.0)


def separation(
    values: Array, high: "np.ndarray[Any, np.dtype[np.bool_]]", examples: Array
) -> Estimate:
    """The chance that a row marked high has the larger value: the area under the ROC curve."""
    ups, downs = int(high.sum()), int((~high).sum())
    if not ups or not downs:
        return Estimate(reason="all rows are alike")
    ranks = mid_ranks(values)
    above = (ranks[high] - mid_ranks(values[high])) / downs
    below = 1 - (ranks[~high] - mid_ranks(values[~high])) / ups
    value = float(above.mean())
    influence = np.empty(len(values))
    # The components of DeLong, DeLong and Clarke-Pearson (1988), summed by example.
    influence[high] = (above - value) / ups
    influence[~high] = (below - value) / downs
    return _around(value, influence, examples, 0.0)


def correlation(one: Array, two: Array, examples: Array) -> Estimate:
    """Pearson's correlation of columns that vary, with Fisher's interval for as many answers as there are examples.

    Where all pairs agree, one that does not may still come: it is taken for 1 - 1/n at the most.
    """
    count = len(np.unique(examples))
    value = float(np.clip((_standard(one) * _standard(two)).mean(), -1, 1))
    if count < 4:
        return Estimate(value, reason="fewer than four examples give no interval")
    most = 1 - 1 / count
    centre = np.arctanh(np.clip(value, -most, most))
    half = normal_quantile((1 + LEVEL) / 2) / (count - 3) ** 0.5
    return Estimate(value, float(np.tanh(centre - half)), float(np.tanh(centre + half)))


def mid_ranks(values: Array) -> Array:
    """Ranks from 1; equal values share the mean of theirs."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[places]


def _standard(values: Array) -> Array:
    return (values - values.mean()) / values.std()


def _around(value: float, influence: Array, examples: Array, least: float) -> Estimate:
    """A value with the interval that the influence of whole examples gives it."""
    together = sums_by_example(influence, examples)
    half = normal_quantile((1 + LEVEL) / 2) * float((together**2).sum()) ** 0.5
    return Estimate(value, max(least, value - half), min(1.0, value + half))
