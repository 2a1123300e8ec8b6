"""What a judge is shown beside the reply: a reference answer, or all of the conversation."""

from typing import Any

from assay.criterion import Criterion
from assay.errors import JudgeError
from assay.graders.base import Autograder
from assay.graders.composite import Composite
from assay.graders.length import LengthPenalty
from assay.graders.views import View, transcript
from assay.report import EvaluationReport, Score
from assay.types import OnError
from assay.wording import short_repr


class Referenced(Composite):
    """Shows a grader an answer known to be good: the rollout's, or one for all.

    A rollout without one is judged without one.

    >>> from assay import PerCriterionGrader, Rubric
    >>> from assay.testing import FakeModel
    >>> model = FakeModel("MET")
    >>> rubric = Rubric.from_dict([{"requirement": "Says the same as the reference"}])
    >>> report = rubric.grade_sync("4", Referenced(PerCriterionGrader(model)), answer="four")
    >>> "<reference>\\nfour\\n</reference>" in model.calls[0][1]
    True
    """

    takes_wholes = True

    def __init__(
        self,
        grader: Autograder,
        reference: str | None = None,
        *,
        field: str = "answer",
        normalize: bool | None = None,
        length_penalty: LengthPenalty | None = None,
    ) -> None:
        """`reference` is for every text; without it the rollout's field of that name is shown."""
        super().__init__([grader], normalize=normalize, length_penalty=length_penalty)
        self.reference = reference
        self.field = field

    async def ask(
        self, to_grade: str, criteria: list[Criterion], query: str | None, on_error: OnError
    ) -> list[Score] | EvaluationReport:
        view = View.of(to_grade)
        with_it = View(view, view.fields, self._reference(view))
        return await self.inner[0].answer(with_it, criteria, query, on_error=on_error)

    def _reference(self, view: View) -> str:
        if self.reference is not None:
            return self.reference
        found: Any = view.fields.get(self.field)
        if found is None or isinstance(found, str):
            return found or ""
        if isinstance(found, int | float):
            return str(found)
        raise JudgeError(
            f"the reference in {self.field!r} is {short_repr(found)}: give a text, or name another field="
        )


class Transcript(Composite):
    """Shows a grader all turns of a conversation, the prompt's first, in place of the last reply.

    >>> from assay import PerCriterionGrader, Rubric
    >>> from assay.testing import FakeModel
    >>> model = FakeModel("MET")
    >>> rubric = Rubric.from_dict([{"requirement": "Never asks twice"}])
    >>> chat = [
    ...     {"role": "assistant", "content": "When?"},
    ...     {"role": "user", "content": "On Monday."},
    ...     {"role": "assistant", "content": "Booked."},
    ... ]
    >>> report = rubric.grade_sync(chat, Transcript(PerCriterionGrader(model)), query="Book it.")
    >>> [words in model.calls[0][1] for words in ("Book it.", "When?", "On Monday.", "Booked.")]
    [True, True, True, True]
    """

    takes_wholes = True

    def __init__(
        self,
        grader: Autograder,
        *,
        normalize: bool | None = None,
        length_penalty: LengthPenalty | None = None,
    ) -> None:
        super().__init__([grader], normalize=normalize, length_penalty=length_penalty)

    async def ask(
        self, to_grade: str, criteria: list[Criterion], query: str | None, on_error: OnError
    ) -> list[Score] | EvaluationReport:
        view = View.of(to_grade)
        chat = view.fields.get("completion")
        if chat is None or isinstance(chat, str):
            # A text has no other turns, and `view` may show more of it, such as its thinking.
            return await self.inner[0].answer(view, criteria, query, on_error=on_error)
        asked: Any = view.fields.get("prompt") or ()
        asked = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
        whole = View(transcript(asked, chat), view.fields, view.reference)
        return await self.inner[0].answer(whole, criteria, None, on_error=on_error)
