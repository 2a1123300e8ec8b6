"""PerCriterionOneShotGrader: all criteria in one call."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, cast

from assay.criterion import Criterion
from assay.errors import JudgeError
from assay.graders.generate import OneShotGenerateFn
from assay.graders.model import ModelGrader, field_of, read_verdict
from assay.graders.prompting import all_criteria, labels, opening
from assay.graders.schemas import OneShotChoiceOutput, OneShotOutput
from assay.graders.scoring import refuse_errors
from assay.report import Score
from assay.types import OnError


class PerCriterionOneShotGrader(ModelGrader[OneShotGenerateFn]):
    """Asks about all criteria in one call, and matches the replies by their number.

    A criterion without a reply, or with two, has no answer. A reply to a number that is not in the
    list means that the numbering cannot be trusted (a judge that counts from 0 is off by one
    everywhere), so then no criterion has one.

    >>> from assay import OneShotOutput, Rubric
    >>> async def ask(system_prompt, user_prompt):
    ...     return OneShotOutput.model_validate({"criteria_evaluations": [
    ...         {"criterion_number": 2, "explanation": "", "criterion_status": "UNMET"},
    ...         {"criterion_number": 1, "explanation": "", "criterion_status": "MET"},
    ...     ]})
    >>> rubric = Rubric.from_dict([
    ...     {"requirement": "Names a date", "weight": 3}, {"requirement": "Is short", "weight": 1}
    ... ])
    >>> rubric.grade_sync("In 1789.", autograder=PerCriterionOneShotGrader(generate_fn=ask)).score
    0.75
    """

    prompt = "one_shot"

    async def ask(
        self, to_grade: str, criteria: list[Criterion], query: str | None, on_error: OnError
    ) -> list[Score]:
        """One score a criterion, from one call; none is made when there are no criteria."""
        if not criteria:
            return []
        reverse = self.manner.reverse
        plain = all(not labels(criterion, reverse=reverse) for criterion in criteria)
        schema = OneShotOutput if plain else OneShotChoiceOutput
        question = all_criteria(criteria, reverse=reverse)
        reply = await self.asked(opening(to_grade, query), question, schema)
        scores = _matched(criteria, _entries(reply))
        if on_error == "raise":
            refuse_errors(criteria, scores)
        return scores


def _entries(reply: object) -> Sequence[Any]:
    entries = field_of(reply, "criteria_evaluations")
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise JudgeError(
            f"the reply {reply!r:.200} of type {type(reply).__name__} holds no list of verdicts: "
            "return a OneShotOutput"
        )
    return cast("Sequence[Any]", entries)


def _matched(criteria: Sequence[Criterion], entries: Sequence[Any]) -> list[Score]:
    replies: defaultdict[int, list[Any]] = defaultdict(list)
    for entry in entries:
        number = _number(entry)
        if number is None or not 1 <= number <= len(criteria):
            named = "no number" if number is None else f"number {number}"
            error = JudgeError(
                f"a verdict has {named}, and the criteria go from 1 to {len(criteria)}: "
                "none of the numbers can be trusted"
            )
            return [Score.failed(error)] * len(criteria)
        replies[number].append(entry)
    return [_only(criterion, replies[n]) for n, criterion in enumerate(criteria, start=1)]


def _number(entry: object) -> int | None:
    """The number of a reply, from 1; None when it has none, or two that differ."""
    number, index = field_of(entry, "criterion_number"), field_of(entry, "criterion_idx")
    given = [value for value in (number, index) if value is not None]
    if not given or not all(type(value) is int for value in given):
        return None
    found = {*([] if number is None else [number]), *([] if index is None else [index + 1])}
    return found.pop() if len(found) == 1 else None


def _only(criterion: Criterion, replies: Sequence[Any]) -> Score:
    if len(replies) == 1:
        return read_verdict(criterion, replies[0])
    said = "no verdict" if not replies else f"{len(replies)} verdicts"
    return Score.failed(JudgeError(f"the judge gave {said} on this criterion, where one is needed"))
