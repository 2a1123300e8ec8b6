"""A model that is named can be sent to another process, and with it a grader and a rubric."""

import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

from assay import Limits, Panel, PerCriterionGrader, Refused, Rubric, model_of
from assay.testing import ModelServer

CRITERIA = [{"requirement": "Names Paris"}]


def grade(rubric: Rubric) -> float | None:
    return rubric.grade_sync("Paris.").score


@pytest.mark.parametrize(
    "make_judge",
    [
        str,
        model_of,
        PerCriterionGrader,
        lambda name: Panel([PerCriterionGrader(name), PerCriterionGrader(name)]),
    ],
)
def test_a_named_judge_can_be_used_in_another_process(make_judge: Any) -> None:
    with ModelServer("MET") as server:
        rubric = Rubric(CRITERIA, judge=make_judge(server.model))
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            assert pool.submit(grade, rubric).result() == 1.0
        assert server.calls > 0


def test_limits_and_settings_are_kept() -> None:
    model = model_of("http://127.0.0.1:1/v1#m", limits=Limits(concurrency=3), seed=4)
    copied: Any = pickle.loads(pickle.dumps(model))
    assert copied.id == model.id
    assert copied.inner.endpoint.limits.concurrency == 3


def test_a_key_is_not_pickled() -> None:
    model = model_of("http://127.0.0.1:1/v1#m", api_key="sk-of-the-user")
    with pytest.raises(TypeError, match="set its key in the environment"):
        pickle.dumps(model)


@pytest.mark.parametrize("function", [lambda: "MET", lambda request: "MET", lambda a, b, c: "MET"])
def test_a_function_that_takes_no_prompts_is_refused(function: Any) -> None:
    with pytest.raises(Refused, match=r"is not a model: give a function of \(system_prompt"):
        model_of(function)
