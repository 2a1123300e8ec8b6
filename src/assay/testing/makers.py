"""Makers of rollouts, states and rubrics: say only what the test is about."""

import json
from typing import TYPE_CHECKING, Any

from assay.criterion import Criterion
from assay.errors import MissingExtraError
from assay.messages import ToolCall
from assay.rollout import Rollout
from assay.types import Messages

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from assay.rubric import Rubric


def make_rollout(
    completion: Messages = "4",
    *,
    prompt: Messages = "What is 2 + 2?",
    answer: Any = "4",
    **columns: Any,
) -> Rollout:
    """A rollout with sensible contents; say only what the test is about.

    >>> make_rollout("5").answer
    '4'
    """
    return Rollout(prompt=prompt, completion=completion, answer=answer, columns=columns)


def make_state(completion: Messages = "4", **fields: Any) -> dict[str, Any]:
    """A state as an environment would leave it, chat messages and timing included.

    >>> make_state("5")["completion"]
    [{'role': 'assistant', 'content': '5'}]
    """
    if isinstance(completion, str):
        completion = [{"role": "assistant", "content": completion}]
    state: dict[str, Any] = {
        "prompt": [{"role": "user", "content": "What is 2 + 2?"}],
        "completion": completion,
        "answer": "4",
        "task": "default",
        "info": {},
        "trajectory": [],
        "timing": {"generation_ms": 0.0, "scoring_ms": 0.0, "total_ms": 0.0},
    }
    return state | fields


def tool_call(name: str, /, **arguments: Any) -> ToolCall:
    """A call of a tool, as a `ModelServer` may answer.

    >>> tool_call("add", a=2, b=2).arguments
    '{"a": 2, "b": 2}'
    """
    return ToolCall(name, json.dumps(arguments))


def rubrics(
    *, max_criteria: int = 5, weights: "SearchStrategy[float] | None" = None
) -> "SearchStrategy[Rubric]":
    """A hypothesis strategy for rubrics whose checks give a fixed number each.

    >>> from hypothesis import given
    >>> @given(rubrics())
    ... def scores_stay_in_range(rubric):
    ...     score = rubric.grade_sync("any text").score
    ...     assert score is None or 0 <= score <= 1
    >>> scores_stay_in_range()
    """
    try:
        from hypothesis import strategies as st
    except ImportError:
        raise MissingExtraError(
            "assay.testing.rubrics", package="hypothesis", extra="testing"
        ) from None
    from assay.rubric import Rubric

    weight = weights if weights is not None else st.integers(-10, 10).map(float)
    value = st.one_of(st.booleans(), st.integers(0, 4).map(lambda quarter: quarter / 4))
    criterion = st.builds(_fixed_criterion, value=value, weight=weight)
    return st.lists(criterion, min_size=1, max_size=max_criteria).map(Rubric)


def _fixed_criterion(value: Any, weight: float) -> Criterion:
    return Criterion(check=Fixed(value), weight=weight)


class Fixed:
    """A check that always returns `value`, or raises it when it is an exception."""

    name = "fixed"

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self) -> Any:
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value
