"""A stage of Ray Data, without Ray: batches in, batches with three more columns out."""

import pytest

from assay import PerCriterionGrader, Rubric
from assay.backends import RubricStage, given
from assay.models import Limits, model_of
from assay.testing import ModelServer

ROWS = {"completion": ["it is 7", "it is 8"], "answer": ["1", "8"]}


@pytest.fixture
def stage(maker):
    return RubricStage(maker)


def test_a_table_of_arrow_gets_columns_with_types(stage):
    """8: all three checks hold, for a reward of 2; 7 fails, so it has none."""
    arrow = pytest.importorskip("pyarrow")
    batch = stage(arrow.table(ROWS))
    assert batch.column_names == ["completion", "answer", "reward", "score", "errors"]
    assert batch.column("reward").to_pylist() == [None, 2.0]
    assert batch.column("score").to_pylist() == [None, 1.0]
    assert batch.column("errors")[0].as_py() == "ConnectionError: the judge is down"
    unscored = stage(arrow.table(ROWS).slice(0, 1))
    assert unscored.schema == batch.schema
    assert stage(batch) == batch


def test_a_mapping_of_arrays_will_do_too(stage):
    """As Ray gives, unless it is told otherwise."""
    numpy = pytest.importorskip("numpy")
    batch = stage({name: numpy.array(values, object) for name, values in ROWS.items()})
    assert batch["reward"] == [None, 2.0]
    assert batch["completion"][1] == "it is 8"


def test_actors_divide_a_limit():
    """Four at once for two actors are two for each, though the batch has six."""
    arrow = pytest.importorskip("pyarrow")
    with ModelServer("MET", latency=0.01) as judge:
        model = model_of(judge.model, limits=Limits(concurrency=4))
        rubric = Rubric.from_dict([{"requirement": "Is it so?"}])
        make = given(rubric, PerCriterionGrader(model=model))
        batch = RubricStage(make, 2)(arrow.table({"completion": list("abcdef")}))
        assert batch.column("score").to_pylist() == [1.0] * 6
        assert judge.most_at_once == 2
