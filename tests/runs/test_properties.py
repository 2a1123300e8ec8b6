"""Properties of saved rows and pass rates, for generated rubrics, fields and answers."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.runs import Row, summarize
from assay.runs.row import RowForm
from assay.testing import rubrics

texts = st.text(st.characters(), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(rubrics())
def test_a_compact_report_is_read_back_equal(rubric):
    """Through JSON and back."""
    report = rubric.grade_sync("text")
    form = RowForm(rubric.criteria)
    written = form.shorten(report)
    assert form.read_report(json.loads(json.dumps(written))) == report


@given(texts, st.integers(0, 10**6), st.dictionaries(texts, values, max_size=4))
def test_any_row_can_be_saved_and_read(example, sample, fields):
    """It is saved as strict JSON, and fields that were not altered are read back unchanged."""
    form, row = RowForm(()), Row(example, sample, fields)
    saved = form.save(row)
    assert all(text.encode() for text in (saved.example, saved.task, saved.data) if text)
    json.loads(saved.data, parse_constant=pytest.fail)
    read = form.read(saved.data.encode(), "here")
    kept = {name: value for name, value in fields.items() if name not in read.altered}
    assert {name: read.fields[name] for name in kept} == kept
    assert read.key == row.key


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=12))
def test_pass_at_k_is_at_least_pass_hat_k(tries):
    """Both are shares between 0 and 1."""
    last_samples = dict.fromkeys("abc", -1)
    rows = []
    for example, success in tries:
        last_samples[example] += 1
        rows.append(_row(example, last_samples[example], float(success)))
    for rates in summarize(rows).passes.values():
        assert 0 <= rates.all <= rates.any + 1e-12 <= 1 + 1e-9


def _row(example, sample, score):
    report = RowForm(()).read_report({"score": score, "reward": score, "answers": []})
    return Row(example, sample, report=report)
