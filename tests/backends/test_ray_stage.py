"""A stage of Ray Data, without Ray: each batch gets three more columns."""

import pytest

from assay import PerCriterionGrader, Rubric
from assay.backends import RubricStage, given
from assay.models import Limits, model_of
from assay.testing import ModelServer

ROWS = {"completion": ["it is 7", "it is 8"], "answer": ["1", "8"]}


@pytest.fixture
def stage(rubric_maker):
    return RubricStage(rubric_maker)


def test_an_arrow_table_gets_typed_columns(stage):
    """For `it is 8` all three checks give points, a reward of 2; for `it is 7` one fails, so it has none."""
    arrow = pytest.importorskip("pyarrow")
    batch = stage(arrow.table(ROWS))
    assert batch.column_names == ["completion", "answer", "reward", "score", "errors"]
    assert batch.column("reward").to_pylist() == [None, 2.0]
    assert batch.column("score").to_pylist() == [None, 1.0]
    assert batch.column("errors")[0].as_py() == "ConnectionError: the judge is down"
    unscored = stage(arrow.table(ROWS).slice(0, 1))
    assert unscored.schema == batch.schema
    assert stage(batch) == batch


def test_a_mapping_of_arrays_is_accepted(stage):
    """This is the default format of Ray."""
    numpy = pytest.importorskip("numpy")
    batch = stage({name: numpy.array(values, object) for name, values in ROWS.items()})
    assert batch["reward"] == [None, 2.0]
    assert batch["completion"][1] == "it is 8"


def test_actors_divide_the_concurrency_limit():
    """A limit of four for two actors is two for each, although the batch has six rows."""
    arrow = pytest.importorskip("pyarrow")
    with ModelServer("MET", latency=0.01) as judge:
        model = model_of(judge.model, limits=Limits(concurrency=4))
        rubric = Rubric.from_dict([{"requirement": "Is it so?"}])
        make = given(rubric, PerCriterionGrader(model=model))
        batch = RubricStage(make, 2)(arrow.table({"completion": list("abcdef")}))
        assert batch.column("score").to_pylist() == [1.0] * 6
        assert judge.most_at_once == 2
