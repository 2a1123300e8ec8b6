"""Merging the tallies of parts gives the same result as one tally of all rows."""

from hypothesis import given, settings
from hypothesis import strategies as st

from assay import CriterionReport, EvaluationReport
from assay.runs import Row
from assay.runs.stats import Mean, Passes, PassRates
from assay.runs.summary import Tally

EXAMPLES = st.lists(
    st.lists(st.sampled_from([0.0, 0.25, 1.0, None]), min_size=1, max_size=3),
    min_size=1,
    max_size=8,
)


def row(example, sample, value):
    is_answered = value is not None
    line = CriterionReport(
        name="c", value=value, error=None if is_answered else "Down: no", tags=("t",)
    )
    report = EvaluationReport(
        score=value,
        raw_score=value,
        report=[line],
        gain=1.0 if is_answered else 0.0,
        asked=1,
        answered=int(is_answered),
    )
    return Row(str(example), sample, {"task": str(example % 2)}, report=report)


def rows_of(examples):
    return [
        [row(index, sample, value) for sample, value in enumerate(values)]
        for index, values in enumerate(examples)
    ]


def are_close(left, right):
    """Return whether two summaries are equal except for rounding."""
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(are_close(left[k], right[k]) for k in left)
    if isinstance(left, float) and isinstance(right, float):
        return abs(left - right) < 1e-9
    return left == right


@settings(deadline=None)
@given(EXAMPLES, st.integers(0, 8))
def test_merged_halves_equal_the_whole(examples, cut):
    """Wherever the rows are divided between examples."""
    groups = rows_of(examples)
    whole, first, second = Tally(), Tally(), Tally()
    for index, group in enumerate(groups):
        for group_row in group:
            whole.add(group_row)
            (first if index < cut else second).add(group_row)
    first.merge(second)
    assert are_close(first.summary().to_dict(), whole.summary().to_dict())


def test_pass_rates_of_separate_examples_are_merged():
    """One of two succeeds in the first part and both in the second: three of four."""
    first, second = Passes(), Passes()
    for success in (True, False):
        first.add(success)
        second.add(True)
    first.merge(second)
    assert first.rates() == {1: PassRates(any=0.75, all=0.75, examples=4)}


def test_tallies_of_examples_with_one_rollout_are_merged():
    """Such tallies keep no examples: two succeed and one fails, so 2 of 3 pass."""
    first, second = Tally(unique_examples=True), Tally(unique_examples=True)
    first.add(row(0, 0, 1.0))
    second.add(row(1, 0, 1.0))
    second.add(row(2, 0, 0.0))
    first.merge(second)
    assert first.summary().passes[1].any == 2 / 3
    assert first.summary().passes[1].examples == 3


def test_means_with_different_reference_values_are_merged():
    """1000 and 1002, and 1 and 3: a mean of 501.5 over four examples."""
    first, second, all_of_them = Mean(), Mean(), Mean()
    for index, value in enumerate([1000.0, 1002.0]):
        first.add(value, index)
        all_of_them.add(value, index)
    for index, value in enumerate([1.0, 3.0]):
        second.add(value, index)
        all_of_them.add(value, index + 2)
    first.merge(second)
    assert first.estimate().mean == 501.5
    assert abs(first.estimate().low - all_of_them.estimate().low) < 1e-6
