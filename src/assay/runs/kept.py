"""Kept: a grader that does not ask again what a saved run has an answer to."""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any

from assay.criterion import Criterion
from assay.errors import JudgeError
from assay.graders.base import Autograder, Grader, JudgeAnswer
from assay.graders.judge_input import JudgeInput
from assay.graders.per_criterion import question_of
from assay.models import Model
from assay.report import CriterionReport, EvaluationReport, Score
from assay.rubric import Rubric, RubricGroup
from assay.runs.rubrics import CriterionAbout
from assay.types import OnError


class Recalled(dict[str, Any]):
    """The fields of a saved row, with what judges answered about it, by the hash of the question."""

    answers: Mapping[str, Score]

    def __init__(self, fields: Mapping[str, Any], answers: Mapping[str, Score]) -> None:
        super().__init__(fields)
        self.answers = answers

    def copy(self) -> "Recalled":
        return Recalled(self, self.answers)


class Kept(Grader):
    """Gives the saved answer where there is one, and asks another grader the rest."""

    def __init__(self, inner: Autograder | None) -> None:
        super().__init__(normalize=True if inner is None else inner.normalize)
        self._inner = inner

    @property
    def title(self) -> str:
        return "nobody" if self._inner is None else self._inner.title

    def models(self) -> tuple[Model, ...]:
        return () if self._inner is None else self._inner.models()

    async def ask(
        self, to_grade: str, criteria: list[Criterion], query: str | None, on_error: OnError
    ) -> JudgeAnswer:
        saved = _answers_of(to_grade)
        known = {c.name: saved[q] for c in criteria if (q := question_of(c)) in saved}
        rest = [criterion for criterion in criteria if criterion.name not in known]
        if not rest:
            return [known[criterion.name] for criterion in criteria]
        if self._inner is None:
            missing = Score.failed(JudgeError("no answer is saved, and no grader was given to ask"))
            return [known.get(criterion.name, missing) for criterion in criteria]
        answer = await self._inner.answer(to_grade, rest, query, on_error=on_error)
        if isinstance(answer, EvaluationReport):
            # One report cannot be mixed with single answers: then everything is asked.
            if not known:
                return answer
            return await self._inner.answer(to_grade, criteria, query, on_error=on_error)
        asked = {c.name: score for c, score in zip(rest, answer, strict=True)}
        return [(known | asked)[criterion.name] for criterion in criteria]


def keeping(rubric: Any, grader: Autograder | None) -> tuple[Any, Autograder | None]:
    """The rubric and the grader to score with, so that saved answers are kept.

    One that judges as a whole has no answers to keep, and is asked again.
    """
    if isinstance(rubric, RubricGroup) and grader is None:
        group = copy(rubric)
        group.rubrics = [_keeping_child(child, rubric.autograder) for child in rubric.rubrics]
        return group, None
    asked = grader or getattr(rubric, "autograder", None)
    return rubric, _kept(asked)


def _keeping_child(child: Rubric, outer: Autograder | None) -> Rubric:
    child = copy(child)
    if isinstance(child, RubricGroup):
        inner = child.autograder or outer
        child.rubrics = [_keeping_child(each, inner) for each in child.rubrics]
    else:
        child.autograder = _kept(child.autograder or outer)
    return child


def _kept(grader: Autograder | None) -> Autograder:
    if grader is not None and (grader.gives_whole or grader.length_penalty is not None):
        return grader
    return Kept(grader)


def _answers_of(to_grade: str) -> Mapping[str, Score]:
    fields = JudgeInput.of(to_grade).fields
    return fields.answers if isinstance(fields, Recalled) else {}


def saved_answers(report: EvaluationReport, criteria: Sequence[CriterionAbout]) -> dict[str, Score]:
    """What judges answered, by the hash of the question; without what has no answer."""
    return dict(_answers(report.lines, criteria))


def _answers(
    lines: Sequence[CriterionReport], criteria: Sequence[CriterionAbout]
) -> Iterator[tuple[str, Score]]:
    by_name = {criterion.name: criterion for criterion in criteria}
    for line in lines:
        criterion = by_name.get(line.name)
        if criterion is None or not line.answered:
            continue
        if not criterion.judged:
            yield from _answers(line.lines, criterion.inside)
        elif line.requirement == criterion.requirement and (line.applies or not criterion.when):
            # Where a condition did not hold, nobody was asked.
            yield (
                criterion.question,
                Score(line.value, line.reason, line.verdict, None, line.lines, line.disagreement),
            )
