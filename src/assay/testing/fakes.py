"""FakeModel: a model that answers by rule and remembers what it was asked."""

import inspect
from collections.abc import Sequence
from typing import Any, cast

from assay.criterion import BINARY
from assay.graders import OneShotOutput, PerCriterionOutput, RubricAsJudgeOutput


class FakeModel:
    """A `generate_fn` for any grader that answers by a rule and remembers what it was asked.

    `answer` is what to return each time, a list to go through, or a function of the two prompts.
    A verdict such as "MET" becomes a whole reply; an exception is raised.

    >>> from assay import PerCriterionGrader, Rubric
    >>> rubric = Rubric.from_dict([{"requirement": "Names Paris"}, {"requirement": "Is short"}])
    >>> model = FakeModel(lambda system, user: "MET" if "Paris" in user else "UNMET")
    >>> rubric.grade_sync("Paris.", autograder=PerCriterionGrader(generate_fn=model)).score
    1.0
    >>> len(model.calls)
    2
    """

    def __init__(self, answer: Any = "MET", *, reason: str = "because the rule says so") -> None:
        self._answer: object = answer
        self._reason = reason
        self.calls: list[tuple[str, str]] = []
        """The system and user prompt of every call, in order."""

    async def __call__(self, system_prompt: str, user_prompt: str) -> Any:
        self.calls.append((system_prompt, user_prompt))
        answer = await self._next(system_prompt, user_prompt)
        if isinstance(answer, BaseException):
            raise answer
        return self._whole(answer)

    async def _next(self, system_prompt: str, user_prompt: str) -> Any:
        answer = self._answer
        if isinstance(answer, list):
            answer = self._listed(cast("list[object]", answer))
        if callable(answer):
            answer = answer(system_prompt, user_prompt)
        return await answer if inspect.isawaitable(answer) else answer

    def _listed(self, answers: list[object]) -> object:
        if len(self.calls) > len(answers):
            raise AssertionError(f"FakeModel was asked {len(self.calls)} times: give more answers")
        return answers[len(self.calls) - 1]

    def _whole(self, answer: Any) -> Any:
        """A bare verdict, list of verdicts or number as the reply the grader expects."""
        if isinstance(answer, str) and answer in BINARY:
            return PerCriterionOutput.model_validate(
                {"explanation": self._reason, "criterion_status": answer}
            )
        if isinstance(answer, int | float) and not isinstance(answer, bool):
            return RubricAsJudgeOutput(explanation=self._reason, overall_score=answer)
        if isinstance(answer, tuple):
            verdicts = cast("tuple[Any, ...]", answer)
            return OneShotOutput.model_validate({"criteria_evaluations": self._numbered(verdicts)})
        return answer

    def _numbered(self, verdicts: Sequence[Any]) -> list[dict[str, Any]]:
        return [
            {"criterion_number": n, "explanation": self._reason, "criterion_status": verdict}
            for n, verdict in enumerate(verdicts, start=1)
        ]
