"""Tallies of parts, merged, say what one tally of all says."""

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
        [row(place, sample, value) for sample, value in enumerate(values)]
        for place, values in enumerate(examples)
    ]


def close(one, other):
    """Whether two summaries are the same but for the last digits."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(close(one[k], other[k]) for k in one)
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) < 1e-9
    return one == other


@settings(deadline=None)
@given(EXAMPLES, st.integers(0, 8))
def test_two_halves_are_the_whole(examples, cut):
    """Wherever it is cut between examples."""
    groups = rows_of(examples)
    whole, first, second = Tally(), Tally(), Tally()
    for place, group in enumerate(groups):
        for one in group:
            whole.add(one)
            (first if place < cut else second).add(one)
    first.merge(second)
    assert close(first.summary().to_dict(), whole.summary().to_dict())


def test_passes_of_examples_that_come_once_add_up():
    """One of two succeeds here and both there: three of four."""
    one, other = Passes(), Passes()
    for success in (True, False):
        one.add(success)
        other.add(True)
    one.merge(other)
    assert one.rates() == {1: PassRates(any=0.75, all=0.75, examples=4)}


def test_examples_that_come_once_are_merged_too():
    """Two that succeed and one that fails, of which nothing is kept: 2 of 3 pass."""
    first, second = Tally(unique_examples=True), Tally(unique_examples=True)
    first.add(row(0, 0, 1.0))
    second.add(row(1, 0, 1.0))
    second.add(row(2, 0, 0.0))
    first.merge(second)
    assert first.summary().passes[1].any == 2 / 3
    assert first.summary().passes[1].examples == 3


def test_means_from_different_zeros_add_up():
    """1000 and 1002 beside 1 and 3: a mean of 501.5 over four examples."""
    one, other, all_of_them = Mean(), Mean(), Mean()
    for place, value in enumerate([1000.0, 1002.0]):
        one.add(value, place)
        all_of_them.add(value, place)
    for place, value in enumerate([1.0, 3.0]):
        other.add(value, place)
        all_of_them.add(value, place + 2)
    one.merge(other)
    assert one.estimate().mean == 501.5
    assert abs(one.estimate().low - all_of_them.estimate().low) < 1e-6
