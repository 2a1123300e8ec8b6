"""FakeModel answers by rule; the other functions make rollouts, states, tool calls and rubrics for tests."""

import inspect
import json
from typing import TYPE_CHECKING, Any, cast

import assay
from assay.criterion import BINARY_CHOICES, Criterion
from assay.errors import import_extra
from assay.graders import OneShotOutput, PerCriterionOutput, RubricAsJudgeOutput
from assay.identity import identify_or_token
from assay.messages import ToolCall
from assay.rollout import Rollout
from assay.types import Messages

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


class FakeModel:
    """A `generate_fn` for any grader that answers by a rule and records every call.

    `answer` is what to return, a list with what each call returns, or a function of the two prompts. An
    exception is raised.

    >>> from assay import PerCriterionGrader, Rubric
    >>> model = FakeModel(lambda system, user: "MET" if "Paris" in user else "UNMET")
    >>> rubric = Rubric([{"requirement": "Names Paris"}], judge=model)
    >>> rubric.grade_sync("Paris.").score, len(model.calls)
    (1.0, 1)
    """

    def __init__(
        self,
        answer: Any = "MET",
        *,
        reason: str = "because the rule says so",
        judge_id: str | None = None,
    ) -> None:
        """`reason` is the explanation of every verdict.

        `judge_id` identifies it in the cache of verdicts; by default, it is made from the answer and
        the reason.
        """
        self.judge_id = judge_id or f"fake {identify_or_token((answer, reason))[:12]}"
        self._answer: object = answer
        self._reason = reason
        self.calls: list[tuple[str, str]] = []  # the system and user prompt of every call, in order

    async def __call__(self, system_prompt: str, user_prompt: str) -> Any:
        """Record the call, and return the reply that the grader expects."""
        self.calls.append((system_prompt, user_prompt))
        answer: Any = self._answer
        if isinstance(answer, list):
            answers = cast("list[object]", answer)
            if len(self.calls) > len(answers):
                raise AssertionError(
                    f"FakeModel was asked {len(self.calls)} times: give more answers"
                )
            answer = answers[len(self.calls) - 1]
        if callable(answer):
            answer = answer(system_prompt, user_prompt)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, BaseException):
            raise answer
        # A verdict becomes the reply to a question about one criterion, a number the reply to a
        # question about the whole rubric, and a tuple of verdicts the reply about all criteria.
        if isinstance(answer, str) and answer in BINARY_CHOICES:
            return PerCriterionOutput.model_validate(
                {"explanation": self._reason, "criterion_status": answer}
            )
        if isinstance(answer, int | float) and not isinstance(answer, bool):
            return RubricAsJudgeOutput(explanation=self._reason, overall_score=answer)
        if isinstance(answer, tuple):
            evaluations = [
                {
                    "criterion_number": number,
                    "explanation": self._reason,
                    "criterion_status": verdict,
                }
                for number, verdict in enumerate(cast("tuple[Any, ...]", answer), start=1)
            ]
            return OneShotOutput.model_validate({"criteria_evaluations": evaluations})
        return answer


def make_rollout(
    completion: Messages = "4",
    *,
    prompt: Messages = "What is 2 + 2?",
    answer: Any = "4",
    **columns: Any,
) -> Rollout:
    """Return a rollout with default contents, so that a test gives only the fields that it is about."""
    return Rollout(prompt=prompt, completion=completion, answer=answer, columns=columns)


def make_state(completion: Messages = "4", **fields: Any) -> dict[str, Any]:
    """Return a state as an environment would leave it, with chat messages and timing.

    `fields` replace or add fields.
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
    """Return a call of a tool, as a `ModelServer` may answer: `tool_call("add", a=2, b=2)`."""
    return ToolCall(name, json.dumps(arguments))


def rubrics(
    *, max_criteria: int = 5, weights: "SearchStrategy[float] | None" = None
) -> "SearchStrategy[assay.Rubric]":
    """Return a hypothesis strategy for rubrics whose checks return fixed values from 0 to 1.

    A rubric has 1 to `max_criteria` criteria. By default, weights are whole numbers from -10 to 10.

    >>> from hypothesis import given
    >>> @given(rubrics())
    ... def scores_stay_in_range(rubric):
    ...     score = rubric.grade_sync("any text").score
    ...     assert score is None or 0 <= score <= 1
    >>> scores_stay_in_range()
    """
    st = import_extra("hypothesis.strategies", "assay.testing.rubrics")
    weight = weights if weights is not None else st.integers(-10, 10).map(float)
    value = st.one_of(st.booleans(), st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]))
    criterion = st.builds(Criterion, check=value.map(Fixed), weight=weight)
    return st.lists(criterion, min_size=1, max_size=max_criteria).map(assay.Rubric)


class Fixed:
    """A check that always returns `value`, or raises it if it is an exception."""

    name = "fixed"

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self) -> Any:
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value
